//! `--atomic` downloads: the tree is made where nobody else can put anything into it, whatever other users of this machine plant.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xdfs_test_cli::{Relay, Scene, Server, exit};

use super::judge::{plant, same};
use super::modes;
use super::unfinished::plant_large;

/// Another user of this machine.
const OTHER: u32 = 4712;
/// Where the tree `new` is until it is complete.
const HOLDER: &str = "shared/.new.xdfs-tree";

/// A directory as /tmp is, and a server with a tree.
fn shared() -> (Scene, Server) {
    let scene = Scene::new();
    plant(&scene, "server/tree", 12, 3);
    let server = scene.serve();
    chmod(&scene.directory("shared"), 0o1777);
    (scene, server)
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("our own");
}

/// The copy says why it does not use what is there, and leaves it alone.
#[track_caller]
fn is_refused(scene: &Scene, server: &Server, because: &str) {
    for words in [&["cp", "-r"][..], &["sync"]] {
        let url = server.url("tree");
        let outcome = scene.run([words, &["--atomic", &url, "shared/new"]].concat());
        outcome.ends_with(exit::PERMISSION_DENIED).says(&[HOLDER, because, "help: remove it"]);
        assert_eq!(scene.names("shared"), [".new.xdfs-tree"]);
    }
}

/// Once it is gone, the same command does its work.
#[track_caller]
fn is_copied(scene: &Scene, url: &str) {
    scene.run(["cp", "-r", "--atomic", url, "shared/new"]).ends_with(0).is_silent();
    same(scene, "server/tree", "shared/new", false);
    assert_eq!(scene.names("shared"), ["new"], "nothing else is left");
}

#[test]
fn what_another_user_plants_at_the_name_of_a_download_is_in_no_tree() {
    if !xdfs_test_needs::root("it plants directories of another user") {
        return;
    }
    let (scene, server) = shared();
    for (name, content) in [("new/planted", "planted"), ("planted", "planted"), ("new/d1/e1/file-1", "planted")] {
        scene.write(format!("{HOLDER}/{name}"), content.as_bytes());
    }
    for name in ["", "/new", "/new/d1", "/new/d1/e1"] {
        let path = scene.path(format!("{HOLDER}{name}"));
        chmod(&path, 0o777);
        chown(path, Some(OTHER), Some(OTHER)).expect("root may");
    }
    is_refused(&scene, &server, "it belongs to another user");
    assert_eq!(scene.names(HOLDER), ["new", "planted"], "it is not ours to change");
    std::fs::remove_dir_all(scene.path(HOLDER)).expect("root may");
    is_copied(&scene, &server.url("tree"));
}

#[test]
fn what_others_can_change_or_lead_elsewhere_holds_no_download() {
    let (scene, server) = shared();
    chmod(&scene.directory("elsewhere"), 0o700);
    symlink(scene.path("elsewhere"), scene.path(HOLDER)).expect("a link");
    is_refused(&scene, &server, "it is a link");
    assert_eq!(scene.names("elsewhere"), [""; 0]);
    std::fs::remove_file(scene.path(HOLDER)).expect("our own");
    scene.write(HOLDER, b"");
    is_refused(&scene, &server, "it is no directory");
    std::fs::remove_file(scene.path(HOLDER)).expect("our own");
    scene.directory(HOLDER);
    // Who may enter alone could have written into a directory below it.
    for mode in [0o777, 0o711] {
        chmod(&scene.path(HOLDER), mode);
        is_refused(&scene, &server, "others may enter it");
    }
    std::fs::remove_dir(scene.path(HOLDER)).expect("our own");
    is_copied(&scene, &server.url("tree"));
}

/// A server may have whatever it likes in a tree, and what it has there is this user's once it is copied.
#[test]
fn what_came_with_the_tree_of_another_server_is_in_no_tree() {
    let (scene, server) = shared();
    scene.write("server/other/.new.xdfs-tree/new/planted", b"planted");
    chmod(&scene.path("server/other/.new.xdfs-tree"), 0o700);
    scene.run(["cp", "-r", &server.url("other/."), "shared"]).ends_with(0);
    is_refused(&scene, &server, "no unfinished copy of this source to here is known");
    assert_eq!(scene.read("shared/.new.xdfs-tree/new/planted"), b"planted", "it is left alone");
    std::fs::remove_dir_all(scene.path(HOLDER)).expect("our own");
    is_copied(&scene, &server.url("tree"));
}

/// A copy may be killed at any moment, and what it left be replaced.
#[test]
fn only_the_very_directory_that_a_copy_left_is_gone_on_with_or_an_empty_one() {
    let (scene, server) = shared();
    plant_large(&scene, "server/tree");
    let relay = Relay::holding(&server, 1, 20 << 20);
    let running = scene.start(["cp", "-r", "--atomic", "-P", "1", &relay.url("tree"), "shared/new"]);
    relay.wait_until_held();
    running.signal(Signal::KILL);
    running.wait();
    relay.release();
    std::fs::rename(scene.path(HOLDER), scene.path("left")).expect("our own");
    scene.write(format!("{HOLDER}/new/planted"), b"planted");
    chmod(&scene.path(HOLDER), 0o700);
    is_refused(&scene, &server, "no unfinished copy of this source to here is known");
    std::fs::remove_dir_all(scene.path(HOLDER)).expect("our own");
    chmod(&scene.directory(HOLDER), 0o700);
    is_copied(&scene, &server.url("tree"));
    std::fs::remove_dir_all(scene.path("shared/new")).expect("our own");
    std::fs::rename(scene.path("left"), scene.path(HOLDER)).expect("our own");
    // By another address it may be another tree.
    is_refused(&scene, &server, "no unfinished copy of this source to here is known");
    is_copied(&scene, &relay.url("tree"));
}

/// Whether a file has its name in a directory.
fn named(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with('f'))
}

#[test]
fn nobody_else_may_enter_a_download_until_it_is_whole_and_the_same_command_goes_on_with_it() {
    let (scene, server) = shared();
    plant_large(&scene, "server/tree");
    chmod(&scene.path("server/tree"), 0o777);
    let relay = Relay::holding(&server, 1, 20 << 20);
    let running = scene.start(["cp", "-a", "--atomic", "-P", "1", &relay.url("tree"), "shared/new"]);
    relay.wait_until_held();
    let mode = |name: &str| scene.path(name).metadata().expect("it is there").mode() & 0o7777;
    // What has passed may still be in the kernel: files have their names when they are whole.
    let whole = || (0..5).any(|directory| named(&scene.path(format!("{HOLDER}/new/d{directory}"))));
    let until = Instant::now() + Duration::from_secs(60);
    while !whole() {
        assert!(Instant::now() < until && running.is_running(), "no file is whole");
        std::thread::yield_now();
    }
    assert_eq!(mode(HOLDER), 0o700);
    assert_eq!(scene.names("shared"), [".new.xdfs-tree"]);
    running.signal(Signal::KILL);
    running.wait();
    relay.release();
    // What it has brought and the source has no more is not of the tree.
    let brought = (0..5).find(|directory| named(&scene.path(format!("{HOLDER}/new/d{directory}"))));
    let brought = format!("d{}", brought.expect("a file is whole"));
    let file = scene.names(format!("{HOLDER}/new/{brought}")).into_iter().find(|name| name.starts_with('f'));
    std::fs::remove_file(scene.path(format!("server/tree/{brought}/{}", file.expect("a file")))).expect("it is there");
    let outcome = scene.run(["cp", "-a", "--atomic", "--json", &relay.url("tree"), "shared/new"]);
    let told = outcome.ends_with(0).objects().pop().expect("an object");
    assert!(told["skipped"].as_u64().is_some_and(|files| files > 0), "it goes on with what is there: {told}");
    same(&scene, "server/tree", "shared/new", false);
    assert_eq!(mode("shared/new"), 0o777, "the mode that the source has");
    assert_eq!(scene.names("shared"), ["new"], "nothing else is left");
}

/// Who is not root may move only a directory that he may change: here neither end is.
#[test]
fn a_tree_whose_top_its_owner_may_not_write_gets_its_name_and_its_mode() {
    let scene = Scene::new();
    plant(&scene, "server/tree", 12, 3);
    plant(&scene, "tree", 12, 3);
    chmod(&scene.path("server/tree"), 0o555);
    chmod(&scene.path("tree"), 0o555);
    let server = modes::serve(&scene);
    // What was planted twice may have been so in two seconds: each copy is compared with its own source.
    let (up, down) = (server.url("new"), server.url("tree"));
    for (source, target, from, copy) in [("tree", &*up, "tree", "server/new"), (&*down, "new", "server/tree", "new")] {
        modes::run(&scene, &["cp", "-a", "--atomic", source, target]).ends_with(0);
        assert_eq!(scene.path(copy).metadata().expect("it is there").mode() & 0o7777, 0o555);
        same(&scene, from, copy, false);
    }
    assert_eq!(scene.names("server"), ["new", "tree"], "nothing else is left");
    assert!(!scene.path(".new.xdfs-tree").exists());
}
