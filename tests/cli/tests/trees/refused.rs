//! Targets that take nothing are told once, and at once; few open files are enough, or it is said how many are needed.

use std::process::Command;

use xdfs_test_cli::{Outcome, Running, Scene, Server, exit, xdfs_binary};

use super::judge::{plant, same};
use super::modes;

const FILES: usize = 400;
/// The directories of such a tree that files are in.
const DIRECTORIES: usize = 21;

/// `words` run by xdfs where the directory `name` is read-only.
fn where_read_only(scene: &Scene, name: &str, words: &[&str]) -> Outcome {
    let script = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && cd . && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(scene.path(name));
    command.arg(xdfs_binary()).args(words).current_dir(scene.path("."));
    scene.dress("somebody", &mut command);
    Running::start(command).wait()
}

#[track_caller]
fn says_once(outcome: &Outcome, code: i32, part: &str) {
    outcome.ends_with(code).says(&[part]);
    assert_eq!(outcome.messages.lines().count(), 1, "{}", outcome.messages);
}

#[test]
fn a_read_only_target_is_told_once_however_many_names_it_does_not_take() {
    let scene = Scene::new();
    plant(&scene, "server/tree", FILES, 5);
    // An older copy, so that files and directories of every depth are refused.
    plant(&scene, "there/copy", FILES / 2, 6);
    scene.directory("there/empty");
    let server = scene.serve();
    let source = server.url("tree");
    for target in ["there/copy", "there/empty", "there/new"] {
        for words in [&["sync", &source, target][..], &["cp", "-r", &source, target]] {
            let outcome = where_read_only(&scene, "there", words);
            says_once(&outcome, exit::PERMISSION_DENIED, "read-only");
        }
    }
}

#[test]
fn a_target_that_others_own_is_told_once_up_and_down() {
    if !xdfs_test_needs::root("the target is somebody else's") {
        return;
    }
    let scene = Scene::new();
    plant(&scene, "tree", FILES, 9);
    plant(&scene, "server/tree", FILES, 9);
    let server = modes::serve(&scene);
    for top in ["there", "server/there"] {
        // An older copy, which takes no name of any directory.
        plant(&scene, &format!("{top}/copy"), FILES / 2, 10);
        scene.directory(format!("{top}/empty"));
    }
    let copies = |target: &str| [("tree".to_owned(), server.url(target)), (server.url("tree"), target.to_owned())];
    for target in ["there/empty", "there/new"] {
        for (source, target) in copies(target) {
            for words in [&["sync", &source, &target][..], &["cp", "-r", &source, &target]] {
                says_once(&modes::run(&scene, words), exit::PERMISSION_DENIED, "permission denied");
            }
        }
    }
    // What is below a directory of somebody else's may be one's own: each directory is tried, and told once.
    for (source, target) in copies("there/copy") {
        let outcome = modes::run(&scene, &["sync", &source, &target]);
        outcome.ends_with(exit::SOME_FAILED).says(&["permission denied; no name in it was copied", "400 names failed"]);
        let lines = outcome.messages.lines().count();
        assert!(lines <= DIRECTORIES + 4, "{lines} lines: {}", outcome.messages);
    }
}

#[test]
fn few_open_files_are_enough_for_a_tree_or_it_is_said_how_many_are_needed() {
    let scene = Scene::new();
    plant(&scene, "tree", FILES, 7);
    let server = scene.serve();
    for files in [32, 48, 64, 128] {
        let (up, down) = (format!("up{files}"), format!("down{files}"));
        Running::start(scene.limited(files, &["cp", "-q", "-r", "tree", &server.url(&up)])).wait().ends_with(0);
        same(&scene, "tree", &format!("server/{up}"), false);
        Running::start(scene.limited(files, &["cp", "-q", "-r", &server.url(&up), &down])).wait().ends_with(0);
        same(&scene, "tree", &down, false);
    }
    let refused = Running::start(scene.limited(31, &["cp", "-r", "tree", &server.url("none")])).wait();
    says_once(&refused, exit::LOCAL, "32 are needed");
}

#[test]
fn a_server_needs_few_open_files_or_says_how_many() {
    let scene = Scene::new();
    plant(&scene, "tree", FILES, 8);
    scene.directory("server");
    let words = ["serve", "--json", "--listen", "127.0.0.1:0", "--allow-anonymous", "rw", "--export", "data=server"];
    for files in [64, 128] {
        let server = Server::start(scene.limited(files, &words), &[]);
        let (up, down) = (format!("up{files}"), format!("down{files}"));
        scene.run(["cp", "-r", "tree", &server.url(&up)]).ends_with(0).is_silent();
        same(&scene, "tree", &format!("server/{up}"), false);
        scene.run(["cp", "-r", &server.url(&up), &down]).ends_with(0).is_silent();
        same(&scene, "tree", &down, false);
    }
    let refused = Running::start(scene.limited(63, &words)).wait();
    says_once(&refused, exit::LOCAL, "64 are needed");
}
