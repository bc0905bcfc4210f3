//! Directories that their owner may not write: root may all the same, so these copies are those of another user.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use xdfs_test_cli::{Outcome, Running, Scene, Server, exit};

use super::judge::{plant, same};
use super::sync::names;

/// Neither root nor anybody.
const USER: u32 = 4711;

fn as_user(mut command: Command) -> Command {
    if rustix::process::geteuid().is_root() {
        command.uid(USER).gid(USER);
    }
    command
}

fn give(scene: &Scene) {
    if rustix::process::geteuid().is_root() {
        chown(scene.path(""), Some(USER), Some(USER)).expect("an owner");
        let all = Command::new("chown").args(["-R", &format!("{USER}:{USER}")]).arg(scene.path("")).status();
        assert!(all.expect("chown runs").success());
    }
}

pub fn serve(scene: &Scene) -> Server {
    serve_keeping(scene, "modes")
}

fn serve_keeping(scene: &Scene, kept: &str) -> Server {
    scene.directory("server");
    give(scene);
    let command = as_user(scene.command(["serve", "--json", "--listen", "127.0.0.1:0"]));
    let words = ["--quiet", "--export", "data=server", "--allow-anonymous", "rw", "--keep", kept];
    let server = Server::start(command, &words);
    Running::start(as_user(scene.command(["trust", "pin", server.address(), server.host_key()]))).wait().ends_with(0);
    server
}

pub fn run(scene: &Scene, words: &[&str]) -> Outcome {
    Running::start(as_user(scene.command(words))).wait()
}

/// What is found once it is there.
fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "it does not come");
        std::thread::yield_now();
    }
}

fn chmod(scene: &Scene, name: &str, mode: u32) {
    std::fs::set_permissions(scene.path(name), PermissionsExt::from_mode(mode)).expect("a mode");
}

/// A program of root's must not become one of the user who copies it: others could run it as him.
#[test]
fn bits_that_run_a_program_as_its_owner_do_not_go_to_another_owner() {
    if !xdfs_test_needs::root("files of two owners") {
        return;
    }
    let scene = Scene::new();
    scene.directory("server");
    let server = serve(&scene);
    for name in ["server/tree/root's", "server/tree/his"] {
        scene.write(name, b"a program");
        chown(scene.path(name), Some(if name.ends_with("his") { USER } else { 0 }), Some(USER)).expect("root may");
        chmod(&scene, name, 0o4755);
    }
    run(&scene, &["cp", "-a", &server.url("tree"), "tree"]).ends_with(0);
    for name in ["root's", "his"] {
        run(&scene, &["cp", "-a", &server.url(&format!("tree/{name}")), name]).ends_with(0);
        let wanted = if name == "his" { 0o4755 } else { 0o755 };
        for copy in [name, &format!("tree/{name}")] {
            let mode = scene.path(copy).metadata().expect("it is there").permissions().mode();
            assert_eq!(mode & 0o7777, wanted, "{copy}");
        }
    }
}

/// Nor of the user whose server gets it.
#[test]
fn bits_that_run_a_program_as_its_owner_do_not_come_from_another_owner() {
    if !xdfs_test_needs::root("files of two owners") {
        return;
    }
    let scene = Scene::new();
    let server = serve_keeping(&scene, "modes,owner");
    for name in ["root's", "his", "shared"] {
        let path = scene.write(format!("tree/{name}/program"), b"a program");
        chown(&path, Some(if name == "root's" { 0 } else { USER }), Some(USER)).expect("root may");
        chmod(&scene, &format!("tree/{name}/program"), 0o4755);
        chown(scene.path(format!("tree/{name}")), Some(USER), Some(if name == "his" { USER } else { 0 }))
            .expect("root may");
        chmod(&scene, &format!("tree/{name}"), 0o3775);
    }
    // One that is there already, and one that is a transfer of its own.
    scene.write("server/tree/root's/program", b"another");
    chown(scene.write("tree/large", &vec![7; 2 << 20]), Some(0), Some(USER)).expect("root may");
    chmod(&scene, "tree/large", 0o6755);
    for path in ["server/tree", "server/tree/root's", "server/tree/root's/program"] {
        chown(scene.path(path), Some(USER), Some(USER)).expect("root may");
    }
    let mode = |copy: &str| scene.path(copy).metadata().expect("it is there").permissions().mode() & 0o7777;
    run(&scene, &["sync", "-a", "tree/", &server.url("tree")]).ends_with(0);
    for (name, wanted) in [("root's", 0o755), ("his", 0o4755), ("shared", 0o4755)] {
        assert_eq!(mode(&format!("server/tree/{name}/program")), wanted, "{name}");
        run(&scene, &["cp", "-a", &format!("tree/{name}/program"), &server.url(name)]).ends_with(0);
        assert_eq!(mode(&format!("server/{name}")), wanted, "{name}");
    }
    assert_eq!(["root's", "his", "shared"].map(|name| mode(&format!("server/tree/{name}"))), [0o1775, 0o3775, 0o1775]);
    assert_eq!(mode("server/tree/large"), 0o755);
}

/// Until it has the owner and group of its source, what is copied here is nothing for the group of the directory that it is in.
#[test]
fn what_is_for_a_group_waits_until_it_is_of_that_group() {
    if !xdfs_test_needs::root("files of two groups") {
        return;
    }
    let scene = Scene::new();
    for name in ["secret", "open"] {
        scene.write(format!("server/tree/{name}/file"), &vec![3; 4 << 20]);
        for (path, mode) in [("", if name == "open" { 0o775 } else { 0o770 }), ("/file", 0o640)] {
            chown(scene.path(format!("server/tree/{name}{path}")), None, Some(USER)).expect("root may");
            chmod(&scene, &format!("server/tree/{name}{path}"), mode);
        }
    }
    // The group of what is made here.
    chown(scene.directory("copies"), None, Some(USER + 1)).expect("root may");
    chmod(&scene, "copies", 0o2755);
    let server = scene.serve_with(&["--keep", "modes,owner"]);
    let url = server.url("tree");
    let words = ["cp", "-a", &url, "copies/tree"];
    let facts = |name: &str| {
        let facts = scene.path(format!("copies/tree/{name}")).metadata().ok()?;
        Some((facts.gid(), facts.mode() & 0o7777))
    };
    let running = scene.start(words.iter().chain(&["--bwlimit", "1M"]));
    let (secret, open) = until(|| facts("secret").zip(facts("open")));
    assert_eq!((secret, open), ((USER + 1, 0o2700), (USER + 1, 0o2755)));
    running.kill();
    scene.run(words).ends_with(0);
    for (name, mode) in [("secret", 0o770), ("open", 0o775), ("secret/file", 0o640), ("open/file", 0o640)] {
        assert_eq!(facts(name), Some((USER, mode)), "{name}");
    }
}

#[test]
fn what_is_new_or_gone_in_a_directory_that_its_owner_may_not_write_is_made_and_removed_there() {
    for down in [false, true] {
        for options in [&["--delete"][..], &["-a", "--delete"]] {
            let scene = Scene::new();
            let (top, copy) = if down { ("server/tree", "copy") } else { ("tree", "server/copy") };
            plant(&scene, top, 30, 1);
            let server = serve(&scene);
            let (source, target) =
                if down { (server.url("tree"), copy.to_owned()) } else { (top.to_owned(), server.url("copy")) };
            let sync = || {
                let words = [&["sync"], options, &[source.as_str(), target.as_str()]].concat();
                let outcome = run(&scene, &words);
                outcome.ends_with(0);
                assert!(!outcome.messages.contains("denied"), "{}", outcome.messages);
                // Without -a a directory that is there keeps its mode.
                match options.contains(&"-a") {
                    true => same(&scene, top, copy, false),
                    false => {
                        let ends = [top, copy].map(|name| scene.path(name));
                        let diff = Command::new("diff")
                            .args(["-r", "--no-dereference"])
                            .args(ends)
                            .output()
                            .expect("diff runs");
                        assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
                    }
                }
            };
            let lock = |mode: u32| {
                for name in ["d1/e1", "d2/e2", "d2", "d3", ""] {
                    chmod(&scene, &format!("{top}/{name}"), mode);
                }
            };
            lock(0o555);
            sync();
            sync();
            lock(0o755);
            // New: small, large, a directory, a link, a second name; gone: files, and a directory that is locked itself.
            scene.write(format!("{top}/d1/e1/new"), b"new");
            scene.write(format!("{top}/d2/e2/large"), &vec![7; 300_000]);
            scene.write(format!("{top}/d2/below/inner/new"), b"new");
            std::os::unix::fs::symlink("to", scene.path(format!("{top}/d3/link"))).expect("a link");
            scene.write(format!("{top}/at-the-top"), b"new");
            scene.write(format!("{top}/d0/first"), b"of two names");
            std::fs::hard_link(scene.path(format!("{top}/d0/first")), scene.path(format!("{top}/d3/second")))
                .expect("a second name");
            std::fs::remove_file(scene.path(format!("{top}/d1/e1/file-1"))).expect("it is there");
            for name in ["d3", "d4"] {
                std::fs::remove_dir_all(scene.path(format!("{top}/{name}/e0"))).expect("it is there");
            }
            scene.write(format!("{copy}/d4/gone/inner/file"), b"gone");
            give(&scene);
            lock(0o555);
            for name in ["d4/gone/inner", "d4/gone"] {
                chmod(&scene, &format!("{copy}/{name}"), 0o555);
            }
            sync();
            lock(0o700);
            sync();
            // Nothing is to be done in it, and it may not even be listed.
            chmod(&scene, &format!("{copy}/d1/e1"), 0o100);
            sync();
            lock(0o755);
        }
    }
}

#[test]
fn a_directory_that_cannot_be_read_fails_once_and_nobody_is_told_to_leave_a_out() {
    let scene = Scene::new();
    scene.write("server/tree/closed/file", b"x");
    scene.write("server/tree/open/file", b"x");
    let server = serve(&scene);
    chmod(&scene, "server/tree/closed", 0);
    let whole = run(&scene, &["cp", "-r", &server.url("tree"), "copy"]);
    whole.ends_with(exit::SOME_FAILED).says(&["closed: permission denied", "copy: 1 name failed"]);
    assert!(!whole.messages.contains("durable"), "{}", whole.messages);
    assert_eq!(scene.read("copy/open/file"), b"x");
    // The top itself: its mode keeps its time from being set.
    let alone = run(&scene, &["cp", "-r", &server.url("tree/closed"), "alone"]);
    alone.ends_with(exit::SOME_FAILED).says(&["xdfs: .: cannot change 'alone'", "could not be kept: time\n"]);
    assert!(!alone.messages.contains("-a"), "{}", alone.messages);
    for closed in ["server/tree/closed", "copy/closed", "alone"] {
        chmod(&scene, closed, 0o700);
    }
}

#[test]
fn a_directory_stays_until_what_takes_its_place_can_be_read() {
    for down in [false, true] {
        let scene = Scene::new();
        let (top, copy) = if down { ("server/tree", "copy") } else { ("tree", "server/copy") };
        for (name, content) in [("small", vec![7; 5]), ("large", vec![7; 300_000]), ("other", vec![7; 6])] {
            scene.write(format!("{top}/{name}"), &content);
            scene.write(format!("{copy}/{name}/in/file"), b"in its way");
        }
        let server = serve(&scene);
        let (source, target) =
            if down { (server.url("tree"), copy.to_owned()) } else { (top.to_owned(), server.url("copy")) };
        let sync = |options: &[&str]| run(&scene, &[&["sync", "--delete"], options, &[&source, &target]].concat());
        for name in ["small", "large"] {
            chmod(&scene, &format!("{top}/{name}"), 0);
        }
        sync(&[]).ends_with(exit::SOME_FAILED).says(&["small", "large", "2 names failed"]);
        for name in ["small", "large"] {
            assert!(scene.path(format!("{copy}/{name}/in/file")).exists(), "{name} {down}");
        }
        assert!(scene.path(format!("{copy}/other")).is_file());
        for name in ["small", "large"] {
            chmod(&scene, &format!("{top}/{name}"), 0o644);
        }
        let told = names(&sync(&["-n", "--json"]), "deleted");
        assert_eq!(told, ["large", "small"], "{down}");
        assert!(scene.path(format!("{copy}/small/in/file")).exists());
        sync(&[]).ends_with(0);
        same(&scene, top, copy, false);
    }
}

/// Without -a the target has modes of its own.
#[test]
fn a_directory_that_is_unlocked_for_a_moment_gets_the_mode_again_that_it_had() {
    let scene = Scene::new();
    scene.write("tree/d/file", b"file");
    scene.write("server/copy/d/file", b"file");
    for name in ["kept/stays.log", "kept/goes"] {
        scene.write(format!("server/copy/{name}"), b"surplus");
    }
    let server = serve(&scene);
    chmod(&scene, "server/copy/kept", 0o550);
    let words = ["sync", "--delete", "--exclude", "*.log", "tree", &server.url("copy")];
    run(&scene, &words).ends_with(0);
    assert!(scene.path("server/copy/kept/stays.log").exists() && !scene.path("server/copy/kept/goes").exists());
    let mode = std::fs::metadata(scene.path("server/copy/kept")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o550);
    chmod(&scene, "server/copy/kept", 0o750);
}
