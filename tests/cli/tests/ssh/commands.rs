//! Every command does over ssh what it does with a server that was set up.

use std::os::unix::fs::{FileTypeExt, MetadataExt};

use xdfs_test_cli::{Scene, exit};

use super::sshd::Sshd;
use super::{run, url};

/// A command with `@d` for the URL of the directory, and what its output contains.
type Case = (&'static [&'static str], &'static str);

/// In their order: each finds what those before it left.
const CASES: [Case; 20] = [
    (&["mkdir", "-p", "@d/e"], ""),
    (&["cp", "a", "@d/a"], ""),
    (&["cp", "-r", "tree", "@d/tree"], ""),
    (&["sync", "--delete", "tree", "@d/tree"], ""),
    (&["ls", "@d/"], "tree"),
    (&["cat", "@d/a"], "content"),
    (&["mv", "@d/a", "@d/e/b"], ""),
    (&["ln", "@d/e/b", "@d/hard"], ""),
    (&["ln", "-s", "e/b", "@d/soft"], ""),
    (&["chmod", "u+x,go=", "@d/e/b"], ""),
    (&["touch", "-d", "@1000000000", "@d/e/b"], ""),
    (&["touch", "@d/new"], ""),
    (&["cp", "@d/n*", "from-a-pattern"], ""),
    (&["mkfifo", "-m", "600", "@d/pipe"], ""),
    (&["stat", "@d/e/b"], "mtime  2001-09-09 01:46:40"),
    (&["sum", "@d/e/b"], HASH_OF_CONTENT),
    (&["du", "@d"], "d"),
    (&["df", "@d"], "%"),
    (&["find", "@d", "-type", "p"], "pipe"),
    (&["rm", "-r", "@d/tree"], ""),
];

/// BLAKE3 of `content`.
const HASH_OF_CONTENT: &str = "3fba5250be9ac259c56e7250c526bc83bacb4be825f2799d3d59e5b4878dd74e";

#[test]
fn every_command_works_over_ssh() {
    for piped in [false, true] {
        let scene = Scene::new();
        let _sshd = Sshd::start(&scene, "");
        let host = if piped { "piped" } else { "box" };
        scene.write("a", b"content");
        scene.write("tree/c", b"c");
        let top = url(&scene, host, "");
        for (words, told) in CASES {
            let words: Vec<String> = words
                .iter()
                .map(|word| match word.strip_prefix("@d") {
                    Some(rest) => format!("{top}d{rest}"),
                    None => (*word).to_owned(),
                })
                .collect();
            let outcome = run(&scene, &words.iter().map(String::as_str).collect::<Vec<_>>());
            outcome.ends_with(exit::DONE);
            assert!(outcome.text().contains(told), "{words:?}: {told} in {}", outcome.text());
        }
        is_as_the_commands_left_it(&scene);
    }
}

#[track_caller]
fn is_as_the_commands_left_it(scene: &Scene) {
    assert_eq!(scene.names("d"), ["e", "hard", "new", "pipe", "soft"]);
    assert_eq!(scene.read("from-a-pattern"), b"");
    let file = scene.path("d/e/b").metadata().expect("it is there");
    assert_eq!((file.mode() & 0o7777, file.mtime(), file.nlink()), (0o700, 1_000_000_000, 2));
    assert_eq!(file.ino(), scene.path("d/hard").metadata().expect("it is there").ino());
    assert_eq!(std::fs::read_link(scene.path("d/soft")).expect("a link").to_str(), Some("e/b"));
    let pipe = scene.path("d/pipe").metadata().expect("it is there");
    assert!(pipe.file_type().is_fifo() && pipe.mode() & 0o777 == 0o600);
}

#[test]
fn a_command_runs_under_a_lock_over_ssh() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    let target = url(&scene, "box", "lock");
    let path = scene.path("lock").display().to_string();
    let words = ["flock", "--nonblock", "--conflict-exit-code", "9", &path, "true"];
    run(&scene, &[&["lock", &target, "--"][..], &words].concat()).ends_with(9);
    std::fs::File::open(&path).unwrap().try_lock().expect("the lock ends with the command");
}
