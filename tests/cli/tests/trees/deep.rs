//! Trees that are deeper than any path may be.

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use xdfs_test_cli::{Scene, exit};

/// One more than a path may have.
const DIRECTORIES: usize = 1025;

/// A message names the directory by its beginning: the paths here have 21 KB.
const MESSAGES_MAX: usize = 2048;

/// Directories within each other, too long for one call, and a file in the last.
fn plant(scene: &Scene, top: &str) {
    scene.write(format!("{top}/file"), b"beside");
    let open = |at: &dyn std::os::fd::AsFd, name: &str| openat(at.as_fd(), name, OFlags::DIRECTORY, Mode::empty());
    let mut at = open(&CWD, scene.path(top).to_str().expect("a plain path")).expect("it is there");
    for number in 0..DIRECTORIES {
        let name = format!("directory-{number:010}");
        mkdirat(&at, &name, Mode::RWXU).expect("a directory");
        at = open(&at, &name).expect("it is there");
    }
    let flags = OFlags::CREATE | OFlags::WRONLY;
    rustix::io::write(openat(&at, "deep", flags, Mode::RUSR).expect("a file"), b"deep").expect("it takes bytes");
}

#[test]
fn what_is_too_deep_is_told_once_by_its_beginning_and_the_rest_is_copied() {
    let scene = Scene::new();
    plant(&scene, "tree");
    plant(&scene, "server/tree");
    let server = scene.serve();
    for (source, target, copy) in
        [("tree".to_owned(), server.url("copy"), "server/copy"), (server.url("tree"), "copy".to_owned(), "copy")]
    {
        for words in [&["cp", "-r"][..], &["sync"]] {
            // Each directory on the way to a durable name is synced on its own.
            let options = ["--durability", "written", source.as_str(), target.as_str()];
            let outcome = scene.run([words, &options].concat());
            outcome.ends_with(exit::SOME_FAILED).says(&["directory-0000000000/", " bytes): "]);
            assert!(outcome.messages.len() < MESSAGES_MAX, "{}: {}", outcome.messages.len(), outcome.messages);
            assert_eq!(scene.read(format!("{copy}/file")), b"beside");
        }
    }
}
