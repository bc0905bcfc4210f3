//! Project quotas: what is written counts for the project of the directory that it goes into, from its first byte on. A file
//! cannot be linked into a directory of another project, so it is staged beside its target where the top has one of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use xdfs_test_cli::{Relay, STAGING, Scene, Server, exit, pattern, until, xdfs_binary};

const SIZE: usize = 12 << 20;
/// So much has passed when the first attempt is held.
const PASSED: u64 = 6 << 20;
/// XFS is not made smaller; the image is a file with holes.
const DISK_BYTES: u64 = 400 << 20;
const PROJECT: &str = "77";

/// A server of a file system whose directory `project` is a project of its own and whose top is of that of `options` of
/// chattr, and the path at which the test sees that file system: it is mounted in a name space, and disappears with the server.
fn serve(scene: &Scene, options: &str) -> (Server, PathBuf) {
    let disk = scene.directory("server");
    let image = scene.path("image");
    std::fs::File::create(&image).and_then(|file| file.set_len(DISK_BYTES)).expect("a length");
    let made = Command::new("mkfs.xfs").arg("-q").arg(&image).status().expect("it was found");
    assert!(made.success(), "mkfs.xfs fails");
    let script = format!(
        "mount -t xfs -o loop \"$0\" server && chattr {options} server && mkdir server/project server/plain && \
         chattr -p {PROJECT} +P server/project && exec \"$@\""
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]).arg(&image);
    command.arg(xdfs_binary()).args(["serve", "--json", "--listen", "127.0.0.1:0", "--allow-anonymous", "rw"]);
    command.current_dir(scene.path(""));
    scene.dress("somebody", &mut command);
    let server = Server::start(command, &["--quiet", "--export", "data=server"]);
    let root = PathBuf::from(format!("/proc/{}/root", server.process().as_raw_nonzero()));
    let seen = root.join(disk.strip_prefix("/").expect("it is absolute"));
    (server, seen)
}

/// The project of a file, as lsattr shows it.
fn project(path: &Path) -> String {
    let shown = Command::new("lsattr").args(["-d", "-p"]).arg(path).output().expect("e2fsprogs is installed");
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    String::from_utf8_lossy(&shown.stdout).split_whitespace().next().expect("a number").to_owned()
}

/// Part files in the staging directory of a directory.
fn parts(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory.join(STAGING)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "part")).collect()
}

#[test]
fn what_goes_into_another_project_is_staged_there_and_counts_for_it() {
    let tools = xdfs_test_needs::program("mkfs.xfs", "xfsprogs") && xdfs_test_needs::program("lsattr", "e2fsprogs");
    if !tools || !xdfs_test_needs::root("a file system with projects is mounted") {
        return;
    }
    goes_through("-p 0", ["0", PROJECT], false);
    goes_through("-p 5 +P", ["5", PROJECT], true);
}

/// The directories `plain` and `project` are of these projects, and files for the second are staged beside their targets or not.
fn goes_through(options: &str, projects: [&str; 2], beside_target: bool) {
    let scene = Scene::new();
    let (server, top) = serve(&scene, options);
    let content = pattern(SIZE, 7);
    scene.write("source", &content);
    for (directory, number, is_beside) in [("plain", projects[0], false), ("project", projects[1], beside_target)] {
        let relay = Relay::holding(&server, 1, PASSED);
        let attempt = scene.start(["cp", "-P", "1", "source", &relay.url(&format!("{directory}/file"))]);
        relay.wait_until_held();
        let (at_top, beside) = (parts(&top), parts(&top.join(directory)));
        assert_eq!(is_beside, at_top.is_empty(), "{directory}: {at_top:?} {beside:?}");
        let part = at_top.iter().chain(&beside).next().expect("there is one");
        assert_eq!(project(part), number, "it counts for the project from its first byte on");
        // What has passed may not be written yet; behind a journal it is.
        until(|| part.with_extension("journal").exists(), |is_noted| *is_noted);
        attempt.signal(Signal::INT);
        drop(relay);
        attempt.wait().ends_with(exit::CANCELLED);
        // The same again continues it there.
        let again = scene.run(["cp", "--json", "source", &server.url(&format!("{directory}/file"))]);
        again.ends_with(exit::DONE);
        assert!(again.objects()[0]["resumed_bytes"].as_u64() >= Some(PASSED / 2), "{:?}", again.objects());
        assert!(std::fs::read(top.join(directory).join("file")).expect("it is there") == content);
        assert_eq!(project(&top.join(directory).join("file")), number);
    }
    // Small files and whole trees go other ways.
    scene.write("tree/a", b"small");
    scene.write("tree/below/b", &pattern(2 << 20, 8));
    for options in [&["cp", "-r"][..], &["cp", "-r", "--atomic"]] {
        let name = format!("project/tree-{}", options.len());
        scene.run([options, &["tree", &server.url(&name)]].concat()).ends_with(exit::DONE);
        for file in ["", "a", "below", "below/b"] {
            assert_eq!(project(&top.join(&name).join(file)), PROJECT, "{options:?}: {file}");
        }
    }
    // Nothing is left: a server answers first, and removes then.
    for directory in [top.clone(), top.join("plain"), top.join("project")] {
        until(|| scene.names(&directory), |names| !names.iter().any(|name| name.starts_with(STAGING)));
    }
    assert_eq!(server.stop(), Some(0));
}
