//! Trees from and to FTP servers, and servers that lie about their names.

use std::path::Path;

use xdfs_test_cli::{Outcome, Scene, pattern};

use super::run;
use super::scripted::{Say, Scripted};
use super::servers::{FtpServer, log_with};

/// A tree of directories and of files of several sizes.
fn plant(scene: &Scene) {
    for (name, length) in [("tree/a b", 5), ("tree/empty", 0), ("tree/d/large", 3_000_001), ("tree/d/e/f/deep", 70_000)]
    {
        scene.write(name, &pattern(length, 7));
    }
    scene.directory("tree/d/nothing");
}

#[track_caller]
fn same_trees(one: &Path, other: &Path) {
    let done = std::process::Command::new("diff").arg("-r").args([one, other]).output().expect("diff can be started");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

/// Files that were copied and that were left alone.
#[track_caller]
fn counts(outcome: &Outcome) -> (u64, u64) {
    let objects = outcome.ends_with(0).objects();
    let tree = objects.iter().find(|object| object["event"] == "tree").expect("a line about the tree");
    (tree["files"].as_u64().unwrap(), tree["skipped"].as_u64().unwrap())
}

fn trees_move_both_ways(server: &FtpServer) {
    let scene = Scene::new();
    plant(&scene);
    run(&scene, &["cp", "-r", "tree", &server.url("copy")]).ends_with(0);
    same_trees(&scene.path("tree"), &server.here.join("copy"));
    run(&scene, &["cp", "-r", &server.url("copy"), "back"]).ends_with(0);
    same_trees(&scene.path("tree"), &scene.path("back"));
    // The same again copies nothing: times and lengths are the same on both sides.
    for words in [["sync", "--json", "tree", &server.url("copy")], ["sync", "--json", &server.url("copy"), "back"]] {
        let again = run(&scene, &words);
        assert_eq!(counts(&again), (0, 4), "{}", again.text());
    }
    // What changed moves, alone.
    scene.write("tree/a b", b"changed");
    let up = run(&scene, &["sync", "--json", "tree", &server.url("copy")]);
    assert_eq!(counts(&up), (1, 3), "{}", up.text());
    let down = run(&scene, &["sync", "--json", &server.url("copy"), "back"]);
    assert_eq!(counts(&down), (1, 3), "{}", down.text());
    same_trees(&scene.path("tree"), &scene.path("back"));
    assert!(server.names() == ["copy"], "no temporary name is left: {:?}", server.names());
}

/// The same; and what is gone goes at the other side, too.
fn trees_are_mirrored(server: &FtpServer) {
    trees_move_both_ways(server);
    let scene = Scene::new();
    run(&scene, &["cp", "-r", &server.url("copy"), "tree"]).ends_with(0);
    std::fs::remove_dir_all(scene.path("tree/d/e")).unwrap();
    run(&scene, &["sync", "--delete", "tree", &server.url("copy")]).ends_with(0);
    same_trees(&scene.path("tree"), &server.here.join("copy"));
    assert!(server.names() == ["copy"], "no temporary name is left: {:?}", server.names());
}

#[test]
fn trees_move_both_ways_with_vsftpd() {
    trees_move_both_ways(&FtpServer::vsftpd(""));
}

#[test]
fn trees_move_both_ways_with_proftpd() {
    trees_are_mirrored(&FtpServer::proftpd(""));
}

#[test]
fn trees_move_both_ways_with_pure_ftpd() {
    trees_are_mirrored(&FtpServer::pure_ftpd(&[]));
}

#[test]
fn trees_move_both_ways_with_globus() {
    let server = FtpServer::globus();
    trees_are_mirrored(&server);
    let scene = Scene::new();
    run(&scene, &["cp", "-r", &server.url("copy"), "here"]).ends_with(0);
    scene.write("here/surplus", b"x");
    run(&scene, &["sync", "--delete", &server.url("copy"), "here"]).ends_with(0);
    same_trees(&server.here.join("copy"), &scene.path("here"));
}

fn a_thousand_files_are_synced(server: &FtpServer) {
    let scene = Scene::new();
    for number in 0..1000 {
        server.put(&format!("tree/{}/{number}", number % 10), &pattern(number * 7, 1));
    }
    let first = run(&scene, &["sync", "--json", &server.url("tree"), "tree"]);
    assert_eq!(counts(&first), (1000, 0), "{}", first.messages);
    same_trees(&server.here.join("tree"), &scene.path("tree"));
    let second = run(&scene, &["sync", "--json", &server.url("tree"), "tree"]);
    assert_eq!(counts(&second), (0, 1000), "{}", second.messages);
}

#[test]
fn a_thousand_files_are_synced_from_vsftpd() {
    a_thousand_files_are_synced(&FtpServer::vsftpd(""));
}

#[test]
fn a_thousand_files_are_synced_from_globus() {
    a_thousand_files_are_synced(&FtpServer::globus());
}

/// How often a server's log names a command.
fn commands(log: &str, verb: &str) -> usize {
    log.matches(&format!("[CLIENT]: {verb}")).count()
}

#[test]
fn small_files_of_globus_share_a_data_channel() {
    let scene = Scene::new();
    let log = scene.path("log");
    let server = FtpServer::globus_with(&["-d", "ALL", "-l", log.to_str().unwrap()]);
    for number in 0..400 {
        scene.write(format!("tree/{}/{number}", number % 4), &pattern(number * 9, 5));
    }
    run(&scene, &["cp", "-r", "-P1", "tree", &server.url("copy")]).ends_with(0);
    same_trees(&scene.path("tree"), &server.here.join("copy"));
    // A batch at most opens one.
    let told = log_with(&log, |told| commands(told, "STOR") >= 400);
    let opened = commands(&told, "EPSV") + commands(&told, "PASV");
    assert!(commands(&told, "STOR") == 400 && opened < 40, "{opened} data channels");
    run(&scene, &["cp", "-r", "-P1", &server.url("copy"), "back"]).ends_with(0);
    same_trees(&scene.path("tree"), &scene.path("back"));
    let told = log_with(&log, |told| commands(told, "RETR") >= 400);
    let (opened, asked) = (commands(&told, "PORT"), commands(&told, "MLST"));
    assert!(commands(&told, "RETR") == 400 && opened < 40 && asked < 40, "{opened} data channels, {asked} questions");
    // What is refused keeps nothing else from its place.
    for name in ["0/new", "0/new too", "1/101", "1/1"] {
        scene.write(format!("back/{name}"), b"new");
    }
    for name in ["copy/1", "copy/1/101"] {
        std::os::unix::fs::chown(server.here.join(name), Some(0), Some(0)).unwrap();
    }
    let refused = run(&scene, &["cp", "-r", "-P1", "back/.", &server.url("copy")]);
    refused.ends_with(1).says(&["1/101"]);
    assert!(["0/new", "0/new too", "1/1"].iter().all(|name| server.read(&format!("copy/{name}")) == b"new"));
    assert_eq!(server.read("copy/1/101"), pattern(909, 5));
    assert!(server.names() == ["copy"], "no temporary name is left: {:?}", server.names());
}

#[test]
fn a_tree_of_globus_that_changes_meanwhile_is_copied_but_for_what_changes() {
    let server = FtpServer::globus();
    for number in 0..600 {
        server.put(&format!("tree/{}/{number}", number % 6), &pattern(number * 5, 3));
    }
    let (ended, end) = std::sync::mpsc::sync_channel::<()>(0);
    let log = server.here.join("tree/0/0.log");
    let writer = std::thread::spawn(move || {
        let mut text = Vec::new();
        // Until the copy has ended.
        while end.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            text.extend_from_slice(b"one more line\n");
            text.truncate(40_000);
            std::fs::write(&log, &text).unwrap();
        }
    });
    let scene = Scene::new();
    let copied = run(&scene, &["cp", "-r", "-P2", &server.url("tree"), "tree"]);
    drop(ended);
    writer.join().unwrap();
    assert!(copied.code == Some(0) || copied.messages.contains("0.log"), "{copied:?}");
    // At rest it is copied whole.
    run(&scene, &["sync", &server.url("tree"), "tree"]).ends_with(0);
    same_trees(&server.here.join("tree"), &scene.path("tree"));
    for number in 0..600 {
        assert_eq!(scene.read(format!("tree/{}/{number}", number % 6)), pattern(number * 5, 3));
    }
}

#[test]
fn a_server_that_hides_names_is_not_believed_when_names_are_deleted() {
    let (scene, server) = (Scene::new(), FtpServer::vsftpd(""));
    server.put("tree/.hidden", b"hidden");
    server.put("tree/seen", b"seen");
    scene.write("tree/.hidden", b"mine");
    let refused = run(&scene, &["sync", "--delete", &server.url("tree"), "tree"]);
    refused.ends_with(3).says(&["--delete", "names alone"]);
    assert_eq!(scene.names("tree"), [".hidden"]);
    run(&scene, &["sync", &server.url("tree"), "tree"]).ends_with(0).says(&["names alone", "dot"]);
    assert_eq!(scene.names("tree"), [".hidden", "seen"]);
}

#[test]
fn what_ftp_cannot_carry_is_reported_and_the_rest_is_copied() {
    let (scene, server) = (Scene::new(), FtpServer::globus());
    scene.write("tree/good", b"good");
    scene.write("tree/two\nlines", b"x");
    std::os::unix::fs::symlink("good", scene.path("tree/link")).unwrap();
    run(&scene, &["cp", "-r", "tree", &server.url("copy")]).ends_with(1).says(&["two\\nlines: ", "link: "]);
    assert_eq!(server.read("copy/good"), b"good");
    assert!(!server.here.join("copy/link").exists());
}

/// A directory with one good name and one that leads elsewhere.
macro_rules! lies {
    ($name:ident, $line:literal, $words:literal) => {
        #[test]
        fn $name() {
            fn answer(line: &str) -> Option<Say> {
                match line {
                    "MLST /d" => Some(Say::Reply("250-x\r\n type=dir; /d\r\n250 end")),
                    "MLSD /d" => Some(Say::Send(concat!("type=file;size=1; good\r\n", $line, "\r\n").into())),
                    _ if line.starts_with("MLST ") => Some(Say::Reply("250-x\r\n type=file;size=1; f\r\n250 end")),
                    _ if line.starts_with("RETR ") => Some(Say::Send(b"x".to_vec())),
                    _ => None,
                }
            }
            let (scene, server) = (Scene::new(), Scripted::start(answer));
            let before = scene.names("");
            for words in [&["cp", "-r", "--retry", "2"][..], &["sync", "--retry", "2"], &["ls"]] {
                let mut words = words.to_vec();
                let url = server.url("//d");
                words.push(&url);
                if words[0] != "ls" {
                    words.push("d");
                }
                let outcome = run(&scene, &words);
                assert_ne!(outcome.code, Some(0), "{words:?}: {}", outcome.messages);
                outcome.says(&[$words]);
            }
            // Nothing outside the target, and nothing in it but what has a name of its own.
            let names: Vec<String> = scene.names("").into_iter().filter(|name| !before.contains(name)).collect();
            assert!(names.iter().all(|name| name == "d" || name.starts_with("home-")), "{names:?}");
            let inside = if scene.path("d").exists() { scene.names("d") } else { Vec::new() };
            assert!(inside.iter().all(|name| name == "good"), "{inside:?}");
            assert!(!Path::new("/tmp/xdfs-stolen").exists());
        }
    };
}

lies!(a_name_that_leads_up_is_refused, "type=file;size=1; ..", "leads out of its directory");
lies!(a_directory_that_leads_up_is_refused, "type=dir; ..", "leads out of its directory");
lies!(a_name_with_a_slash_is_refused, "type=file;size=1; ../stolen", "leads out of its directory");
lies!(a_path_from_the_root_is_refused, "type=file;size=1; /tmp/xdfs-stolen", "leads out of its directory");
lies!(a_name_with_nul_is_refused, "type=file;size=1; a\0b", "leads out of its directory");

#[test]
fn a_name_with_a_carriage_return_is_reported_and_never_sent() {
    fn answer(line: &str) -> Option<Say> {
        match line {
            "MLST /d" => Some(Say::Reply("250-x\r\n type=dir; /d\r\n250 end")),
            "MLSD /d" => Some(Say::Send(b"type=file;size=1; good\r\ntype=file;size=1; a\rDELE good\r\n".to_vec())),
            "MLST /d/good" => Some(Say::Reply("250-x\r\n type=file;size=1; f\r\n250 end")),
            "RETR /d/good" => Some(Say::Send(b"x".to_vec())),
            _ => None,
        }
    }
    let (scene, server) = (Scene::new(), Scripted::start(answer));
    run(&scene, &["cp", "-r", &server.url("//d"), "d"]).ends_with(1).says(&["a\\rDELE good"]);
    assert_eq!(scene.names("d"), ["good"]);
    assert!(server.heard("DELE").is_empty());
}

#[test]
fn a_file_that_ends_early_gets_no_name() {
    fn answer(line: &str) -> Option<Say> {
        match line {
            _ if line.starts_with("MLST ") => Some(Say::Reply("250-x\r\n type=file;size=5; f\r\n250 end")),
            "RETR /f" => Some(Say::Send(b"123".to_vec())),
            _ => None,
        }
    }
    let (scene, server) = (Scene::new(), Scripted::start(answer));
    scene.write("f", b"old");
    run(&scene, &["cp", "--retry", "0", &server.url("//f"), "f"]).ends_with(12).says(&["3 bytes", "5"]);
    assert_eq!(scene.read("f"), b"old");
    let left: Vec<String> = scene.names("").into_iter().filter(|name| !name.starts_with("home-")).collect();
    assert_eq!(left, ["f"]);
}

#[test]
fn a_file_that_ends_early_does_not_end_the_copy_of_its_tree() {
    fn answer(line: &str) -> Option<Say> {
        match line {
            "MLST /d" => Some(Say::Reply("250-x\r\n type=dir; /d\r\n250 end")),
            "MLSD /d" => Some(Say::Send(b"type=file;size=5; cut\r\ntype=file;size=5; good\r\n".to_vec())),
            _ if line.starts_with("MLST ") => Some(Say::Reply("250-x\r\n type=file;size=5; f\r\n250 end")),
            "RETR /d/good" => Some(Say::Send(b"12345".to_vec())),
            "RETR /d/cut" => Some(Say::Send(b"123".to_vec())),
            _ => None,
        }
    }
    let (scene, server) = (Scene::new(), Scripted::start(answer));
    run(&scene, &["cp", "-r", "-P", "1", "--retry", "0", &server.url("//d"), "d"]).ends_with(1).says(&["cut: "]);
    assert_eq!(scene.names("d"), ["good"]);
    assert_eq!(scene.read("d/good"), b"12345");
}

#[test]
fn a_tree_is_verified_where_the_server_proves_its_files_and_the_rest_is_said() {
    for (server, is_told) in [(FtpServer::vsftpd(""), true), (FtpServer::globus(), false)] {
        let scene = Scene::new();
        plant(&scene);
        for words in [["cp", "-r", "tree", &server.url("copy")], ["cp", "-r", &server.url("copy"), "back"]] {
            let done = run(&scene, &words);
            assert_eq!(done.ends_with(0).messages.contains("not verified"), is_told, "{}", done.messages);
        }
        run(&scene, &["sync", "--verify", "none", "tree", &server.url("other")]).ends_with(0);
    }
    // Small files, which come many at a time, are compared like large ones.
    let server = Scripted::start(|line| match line {
        "FEAT" => Some(Say::Reply("211-F\r\n MLST type*;size*;\r\n CKSM SHA256:1;\r\n211 End")),
        "MLST /d" => Some(Say::Reply("250-x\r\n type=dir; /d\r\n250 end")),
        "MLST /d/a" => Some(Say::Reply("250-x\r\n type=file;size=5; /d/a\r\n250 end")),
        "MLSD /d" => Some(Say::Send(b"type=file;size=5; a\r\n".to_vec())),
        "RETR /d/a" => Some(Say::Send(b"other".to_vec())),
        "CKSM SHA256 0 -1 /d/a" => {
            Some(Say::Reply("213 0000000000000000000000000000000000000000000000000000000000000000"))
        }
        _ => None,
    });
    let scene = Scene::new();
    run(&scene, &["cp", "-r", &server.url("//d"), "d"]).ends_with(1).says(&["a"]);
    assert!(!scene.path("d/a").exists());
    run(&scene, &["cp", "-r", "--verify", "none", &server.url("//d"), "d"]).ends_with(0);
    assert_eq!(scene.read("d/a"), b"other");
}
