//! `--atomic` uploads: nobody else gets to what is not whole, and whenever either side is killed the same command ends well.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::XattrFlags;
use rustix::process::Signal;
use xdfs_test_cli::{LISTEN, STAGING, Scene, exit, until};

use super::judge::{differences, plant, same};
use super::unfinished::{is_clean, leftovers, plant_large, serve, signal_after};

/// The directories below a staging directory that hold trees on their way.
fn holders(staging: &Path) -> Vec<String> {
    let names = std::fs::read_dir(staging).into_iter().flatten().flatten();
    let mut names: Vec<_> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.ends_with(".tree"));
    names
}

#[test]
fn what_others_plant_at_names_that_can_be_guessed_is_in_no_tree() {
    let scene = Scene::new();
    plant(&scene, "tree", 12, 3);
    let server = scene.serve();
    // As versions before called it: whoever may create there could make it.
    scene.write("planted", b"planted");
    scene.run(["mkdir", &server.url(".new.xdfs-tree")]).ends_with(0);
    scene.run(["cp", "planted", &server.url(".new.xdfs-tree/planted")]).ends_with(0);
    let guess = format!("{STAGING}/tree-{:032x}", 7);
    for name in [guess.clone(), format!("{guess}/planted"), format!("{STAGING}/{:032x}-{:016x}.tree/t", 7, 7)] {
        scene.run(["mkdir", "-p", &server.url(&name)]).ends_with(exit::REFUSED).says(&["invalid path"]);
        scene.run(["cp", "planted", &server.url(&name)]).fails();
    }
    scene.run(["cp", "-r", "--atomic", "tree", &server.url("new")]).ends_with(0).is_silent();
    same(&scene, "tree", "server/new", false);
    assert_eq!(scene.names("server/.new.xdfs-tree"), ["planted"], "it is a name like any other");
    assert!(!scene.path(format!("server/{STAGING}")).exists());
}

/// A group and a default access control list for a directory: owner, a user, group, mask, others.
fn share(directory: &Path) {
    std::os::unix::fs::chown(directory, None, Some(12_345)).expect("the tests run as root");
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o2775)).expect("it is ours");
    let entry =
        |tag: u16, bits: u16, id: u32| [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat();
    let none = u32::MAX;
    let entries = [entry(1, 7, none), entry(2, 7, 12_346), entry(4, 5, none), entry(16, 7, none), entry(32, 5, none)];
    let list = [&2u32.to_le_bytes()[..], &entries.concat()].concat();
    rustix::fs::setxattr(directory, "system.posix_acl_default", &list, XattrFlags::empty()).expect("a list");
}

#[test]
fn a_tree_gets_group_and_access_control_lists_of_its_directory() {
    if !xdfs_test_needs::root("other groups") {
        return;
    }
    let scene = Scene::new();
    plant(&scene, "tree", 12, 3);
    let server = scene.serve();
    share(&scene.directory("server/d"));
    scene.run(["cp", "-r", "tree", &server.url("d/in-place")]).ends_with(0).is_silent();
    scene.run(["cp", "-r", "--atomic", "tree", &server.url("d/atomic")]).ends_with(0).is_silent();
    same(&scene, "server/d/in-place", "server/d/atomic", true);
    for name in ["", "/d1", "/d1/e1/file-1", "/d2/e2/file-2"] {
        let path = scene.path(format!("server/d/atomic{name}"));
        assert_eq!(std::fs::metadata(&path).expect("it is there").gid(), 12_345, "{name}");
        rustix::fs::getxattr(&path, "system.posix_acl_access", &mut [0; 1024]).expect("a list");
    }
}

#[test]
fn a_tree_that_is_not_whole_is_out_of_everybody_s_reach() {
    let scene = Scene::new();
    plant(&scene, "tree", 12, 3);
    // No server takes this name, so the tree does not become whole.
    scene.write(format!("tree/{STAGING}"), b"refused");
    let server = scene.serve();
    scene.directory("server/d");
    scene.run(["cp", "-r", "--atomic", "tree", &server.url("d/new")]).ends_with(exit::SOME_FAILED).says(&["not there"]);
    assert!(!scene.path("server/d/new").exists());
    let staging = format!("d/{STAGING}");
    let found = holders(&scene.path(format!("server/{staging}")));
    let [holder] = found.as_slice() else { panic!("{found:?}") };
    scene.write("planted", b"planted");
    let id = &holder[..32];
    for name in [format!("{staging}/{holder}"), format!("{STAGING}/tree-{id}"), format!("{staging}/tree-{id}")] {
        for name in [format!("{name}/t"), format!("{name}/planted"), name] {
            let url = server.url(&name);
            for words in [
                vec!["stat", &url],
                vec!["ls", &url],
                vec!["cp", "-r", &url, "copies"],
                vec!["cp", "planted", &url],
                vec!["mkdir", "-p", &url],
                vec!["rm", "-r", &url],
                vec!["mv", &url, &server.url("got")],
            ] {
                assert_ne!(scene.run(&words).code, Some(0), "{words:?}");
            }
        }
    }
    let listed = scene.run(["ls", "-aR", &server.url("")]);
    assert!(!listed.text().contains(id) && !listed.text().contains(STAGING), "{}", listed.text());
    // The same command goes on with it.
    std::fs::remove_file(scene.path(format!("tree/{STAGING}"))).expect("it is there");
    scene.write("tree/late", b"late");
    // What it has brought and the source has no more is not of the tree.
    std::fs::remove_file(scene.path("tree/d1/e1/file-1")).expect("it is there");
    std::fs::remove_dir_all(scene.path("tree/d2")).expect("it is there");
    scene.write("tree/d2", b"a file now");
    let outcome = scene.run(["cp", "-r", "--json", "--atomic", "tree", &server.url("d/new")]);
    let told = outcome.ends_with(0).objects().pop().expect("a line about the tree");
    assert_eq!(told["files"], 2, "{told}");
    same(&scene, "tree", "server/d/new", false);
    assert!(!scene.path(format!("server/{staging}")).exists());
}

#[test]
fn what_came_to_have_the_name_meanwhile_is_not_replaced() {
    let scene = Scene::new();
    plant(&scene, "tree", 12, 3);
    scene.write(format!("tree/{STAGING}"), b"refused");
    let server = scene.serve();
    let url = server.url("new");
    scene.run(["sync", "--atomic", "tree", &url]).ends_with(exit::SOME_FAILED);
    std::fs::remove_file(scene.path(format!("tree/{STAGING}"))).expect("it is there");
    scene.write("server/new/another", b"another's");
    scene.run(["sync", "--atomic", "tree", &url]).ends_with(exit::EXISTS).says(&["--atomic"]);
    assert_eq!(scene.names("server/new"), ["another"]);
    std::fs::remove_dir_all(scene.path("server/new")).expect("it can be removed");
    scene.run(["sync", "--atomic", "tree", &url]).ends_with(0).is_silent();
    same(&scene, "tree", "server/new", false);
    assert_eq!(scene.names("server"), ["new"]);
}

/// Group, mode and access control list of each name, as getfacl tells them.
fn access(scene: &Scene, top: &str) -> String {
    let mut getfacl = std::process::Command::new("getfacl");
    getfacl.args(["--recursive", "--physical", "--numeric", "--absolute-names", "."]).current_dir(scene.path(top));
    let output = getfacl.output().expect("getfacl is installed by the set-up of the tests");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// As a copy that is made where it belongs.
#[test]
fn a_tree_gets_group_and_access_control_list_of_the_directory_that_it_is_put_in() {
    if !xdfs_test_needs::root("a group that is not one's own") {
        return;
    }
    let scene = Scene::new();
    plant(&scene, "tree", 12, 3);
    let server = scene.serve();
    let shared = scene.directory("server/shared");
    std::os::unix::fs::chown(&shared, None, Some(12_345)).expect("root may");
    std::fs::set_permissions(&shared, std::os::unix::fs::PermissionsExt::from_mode(0o2775)).expect("a mode");
    let list = "default:user::rwx,default:user:12346:rwx,default:group::r-x,default:mask::rwx,default:other::r-x";
    let set = std::process::Command::new("setfacl").args(["-m", list]).arg(&shared).status();
    assert!(set.expect("setfacl is installed by the set-up of the tests").success());
    for (recursive, plain, atomic) in [("-r", "plain", "whole"), ("-a", "plain-a", "whole-a")] {
        for (name, more) in [(plain, None), (atomic, Some("--atomic"))] {
            let url = server.url(&format!("shared/{name}"));
            scene.run([&["cp", recursive], more.as_slice(), &["tree", url.as_str()]].concat()).ends_with(0);
        }
        let [direct, moved] = [plain, atomic].map(|name| access(&scene, &format!("server/shared/{name}")));
        assert!(direct.contains("12345"), "{direct}");
        assert_eq!(direct, moved, "{recursive}");
    }
}

/// A directory in which nothing can be seen is removed with what nobody works on.
#[test]
fn an_unfinished_tree_keeps_no_directory_from_being_removed() {
    let scene = Scene::new();
    plant(&scene, "tree", 12, 3);
    scene.write(format!("tree/{STAGING}"), b"refused");
    let server = scene.serve();
    scene.directory("server/d");
    scene.run(["cp", "-r", "--atomic", "tree", &server.url("d/new")]).ends_with(exit::SOME_FAILED);
    // Somebody works on it until the server has ended the session, which it does behind its answers.
    let removed =
        until(|| scene.run(["rm", "-r", &server.url("d")]), |removed| !removed.messages.contains("not empty"));
    removed.ends_with(0);
    assert!(scene.names("server").is_empty());
}

/// Behind the rename the tree is there, and the command has not said so.
#[test]
fn a_client_that_is_killed_when_its_tree_got_its_name_knows_it_again() {
    let scene = Scene::new();
    plant(&scene, "tree", 12, 3);
    let server = scene.serve();
    for (round, command) in ["cp", "sync", "cp", "sync", "cp", "sync"].into_iter().enumerate() {
        let (url, to) = (server.url(&format!("new{round}")), format!("server/new{round}"));
        let mut words = vec![command, "--atomic", "tree", &url];
        words.extend((command == "cp").then_some("-r"));
        let running = scene.start(words.clone());
        let until = Instant::now() + Duration::from_secs(60);
        while !scene.path(&to).exists() {
            assert!(Instant::now() < until, "{to} is never there");
            std::hint::spin_loop();
        }
        running.kill();
        // A command that was through with it has ended, or all but that.
        let noted = scene.path("home-somebody/state/xdfs/unfinished");
        if !std::fs::read(&noted).is_ok_and(|lines| !lines.is_empty()) {
            continue;
        }
        // From then on it is everybody's.
        let others = scene.write(format!("{to}/others"), b"others");
        let looked = scene.run([&words[..], &["--dry-run"]].concat());
        assert!(command == "cp" || !looked.text().contains("others"), "{looked:?}");
        scene.run(words).ends_with(0).is_silent();
        std::fs::remove_file(others).expect("nobody else has removed it");
        let time = scene.path("tree").metadata().and_then(|top| top.modified()).expect("a time");
        std::fs::File::open(scene.path(&to)).and_then(|top| top.set_modified(time)).expect("our own");
        same(&scene, "tree", &to, false);
        is_clean(&scene.path("server"));
        assert!(std::fs::read(&noted).is_ok_and(|lines| lines.is_empty()), "nothing is left of it");
    }
}

/// Each way to end a copy, at moments spread over a whole one.
#[test]
fn whenever_either_side_is_killed_the_same_command_makes_it_whole_and_leaves_nothing() {
    let scene = Scene::new();
    plant_large(&scene, "tree");
    let mut server = serve(&scene, LISTEN);
    let address = server.address().to_owned();
    let since = Instant::now();
    scene.run(["cp", "-r", "--atomic", "tree", &server.url("first")]).ends_with(0);
    let whole = since.elapsed();
    let rounds: u32 = std::env::var("XDFS_TREE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    for round in 0..rounds {
        // The last moments are the ones in which it gets its name.
        let moment = whole * (round + 1) / (rounds + 1) + Duration::from_millis(u64::from(round % 4) * 3);
        for (way, signal) in [("client", Signal::KILL), ("client", Signal::TERM), ("server", Signal::KILL)] {
            let name = format!("{way}{}-{round}", signal.as_raw());
            let (url, to) = (server.url(&name), format!("server/{name}"));
            let words = ["cp", "-r", "--retry", "0", "--atomic", "tree", &url];
            signal_after(moment, scene.start(words), signal, (way == "server").then_some(&server));
            let there = scene.path(&to).exists();
            let lacks = if there { differences(&scene.path("tree"), &scene.path(&to), false) } else { String::new() };
            assert_eq!(lacks, "", "{name}: what has the name is whole");
            if way == "server" {
                drop(server);
                server = serve(&scene, &address);
            }
            // A copy that was whole before the signal came is done: once more it would go into what is there.
            if !there || way == "server" && !leftovers(&scene.path("server")).is_empty() {
                scene.run(words).ends_with(0).is_silent();
            }
            same(&scene, "tree", &to, false);
            is_clean(&scene.path("server"));
        }
    }
}
