//! Copies between an FTP server and an xdfs server: nothing is stored here, and nothing that is not
//! whole gets its name at either end.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Instant;

use xdfs_test_cli::{Running, Scene, Server, exit, pattern};

use super::scripted::{Answer, Say, Scripted};
use super::servers::FtpServer;
use super::{PATIENCE, modified, run};

/// A file crosses over and back, and what an end can prove is proved.
fn crosses(ftp: &FtpServer, verify: &str, words: &str) {
    let (scene, content) = (Scene::new(), pattern(20_000_001, 3));
    scene.write("server/f", &content);
    scene.write("server/empty", b"");
    let server = scene.serve();
    for name in ["f", "empty"] {
        let there = run(&scene, &["cp", "--json", &server.url(name), &ftp.url(name)]);
        there.ends_with(0).says(&[words]);
        assert_eq!(there.objects()[0]["verify"], verify, "{}", there.text());
        assert_eq!(there.objects()[0]["protection"], "clear");
        let back = run(&scene, &["cp", "--json", &ftp.url(name), &server.url(&format!("{name}-back"))]);
        back.ends_with(0).says(&[words]);
        assert_eq!(back.objects()[0]["verify"], verify, "{}", back.text());
        let source = scene.path("server").join(name);
        assert_eq!(modified(&ftp.here.join(name)), modified(&source));
        assert_eq!(modified(&scene.path("server").join(format!("{name}-back"))), modified(&source));
    }
    assert!(ftp.read("f") == content && scene.read("server/f-back") == content);
    assert_eq!(ftp.read("empty"), b"");
    assert_eq!(ftp.names(), ["empty", "f"], "no temporary name is left");
    // Several into a directory, and what is there is kept.
    scene.directory("server/into");
    run(&scene, &["cp", &ftp.url("f"), &ftp.url("empty"), &server.url("into")]).ends_with(0);
    assert!(scene.read("server/into/f") == content);
    for words in [[&server.url("f"), &ftp.url("f")], [&ftp.url("f"), &server.url("f")]] {
        run(&scene, &["cp", "-n", words[0], words[1]]).ends_with(0).says(&["it exists and was kept"]);
    }
    run(&scene, &["cp", &ftp.url("no"), &server.url("no")]).ends_with(6).says(&["no such file"]);
    run(&scene, &["cp", &server.url("no"), &ftp.url("no")]).ends_with(6);
    run(&scene, &["cp", &server.url("f"), &ftp.url("no/such/directory")]).fails();
    assert!(!scene.path("server/no").exists());
}

#[test]
fn files_cross_between_globus_and_xdfs() {
    crosses(&FtpServer::globus(), "hash", "");
}

#[test]
fn files_cross_between_vsftpd_and_xdfs() {
    crosses(&FtpServer::vsftpd(""), "none", "not verified");
}

/// Copies `/f` of this server, which must fail without a name at the other end.
#[track_caller]
fn fails(scene: &Scene, server: &Server, answer: Answer, words: &str) {
    let ftp = Scripted::start(answer);
    let failed = run(scene, &["cp", "--retry", "0", &ftp.url("//f"), &server.url("f")]);
    failed.says(&[words]).fails();
    assert!(!scene.path("server/f").exists(), "{words}");
}

#[test]
fn what_an_ftp_server_does_not_send_whole_gets_no_name() {
    fn file(line: &str) -> Option<Say> {
        let features = "211-F\r\n MLST type*;size*;\r\n CKSM SHA256:1;\r\n211 End";
        match line {
            "FEAT" => Some(Say::Reply(features)),
            "MLST /f" => Some(Say::Reply("250-x\r\n type=file;size=3000000; /f\r\n250 end")),
            _ => None,
        }
    }
    let scene = Scene::new();
    scene.directory("server");
    let server = scene.serve();
    fails(
        &scene,
        &server,
        |line| if line == "RETR /f" { Some(Say::Send(vec![1; 2_000_000])) } else { file(line) },
        "2000000",
    );
    fails(
        &scene,
        &server,
        |line| if line == "RETR /f" { Some(Say::Cut(vec![1; 2_000_000])) } else { file(line) },
        "426",
    );
    fails(
        &scene,
        &server,
        |line| match line {
            "RETR /f" => Some(Say::Send(vec![1; 3_000_000])),
            "CKSM SHA256 0 -1 /f" => {
                Some(Say::Reply("213 0000000000000000000000000000000000000000000000000000000000000000"))
            }
            _ => file(line),
        },
        "SHA-256",
    );
    fails(&scene, &server, |line| if line == "RETR /f" { Some(Say::Reply("550 no")) } else { file(line) }, "550");
}

/// A copy between two servers has no room for the file: it passes in pieces.
#[test]
fn a_file_crosses_in_bounded_memory() {
    // Private memory of the process that can be written to, stacks among it.
    const MEMORY_KIB: usize = 320 << 10;
    let (scene, ftp) = (Scene::new(), FtpServer::globus());
    let content = pattern(600_000_000, 9);
    scene.write("server/f", &content);
    let server = scene.serve();
    for (from, to) in [(server.url("f"), ftp.url("f")), (ftp.url("f"), server.url("back"))] {
        let words = scene.command(["cp", "--verify", "none", &from, &to]);
        let mut bounded = std::process::Command::new("sh");
        bounded.args(["-c", &format!("ulimit -d {MEMORY_KIB}; exec \"$@\""), "sh"]);
        bounded.arg(words.get_program()).args(words.get_args());
        bounded.envs(words.get_envs().filter_map(|(name, value)| Some((name, value?))));
        bounded.current_dir(scene.path("."));
        Running::start(bounded).wait().ends_with(0);
    }
    assert!(scene.read("server/back") == content);
}

/// The paths and contents of all files below a directory.
fn files_below(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![directory.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() {
                found.insert(path.strip_prefix(directory).unwrap().to_owned(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// A tree crosses over and back, is not copied again, and follows its source.
fn trees_cross(ftp: &FtpServer, deletes: bool) {
    let (scene, server) = {
        let scene = Scene::new();
        for (name, length) in [("empty", 0), ("a", 1), ("d/b", 70_000), ("d/e/large", 3_000_001)] {
            scene.write(format!("server/t/{name}"), &pattern(length, 5));
        }
        let server = scene.serve();
        (scene, server)
    };
    symlink("a", scene.path("server/t/link")).unwrap();
    let (here, there) = (server.url("t"), ftp.url("t"));
    let counts = |words: &[&str]| {
        let done = run(&scene, words);
        let told = done.ends_with(0).objects().pop().expect("a tree");
        ["files", "skipped", "deleted", "directories"].map(|name| told[name].as_u64().unwrap())
    };
    assert_eq!(counts(&["cp", "-r", "--json", &here, &there]), [4, 0, 0, 3]);
    assert!(files_below(&ftp.here.join("t")) == files_below(&scene.path("server/t")));
    assert_eq!(modified(&ftp.here.join("t/d/b")), modified(&scene.path("server/t/d/b")));
    assert_eq!(counts(&["sync", "--json", &here, &there]), [0, 4, 0, 0]);
    assert_eq!(counts(&["sync", "--json", &there, &server.url("back")]), [4, 0, 0, 3]);
    assert!(files_below(&scene.path("server/back")) == files_below(&ftp.here.join("t")));
    assert_eq!(counts(&["sync", "--json", &there, &server.url("back")]), [0, 4, 0, 0]);
    // Into a directory that is there.
    assert_eq!(counts(&["cp", "-r", "--json", &there, &server.url("back")]), [4, 0, 0, 3]);
    assert!(files_below(&scene.path("server/back/t")) == files_below(&ftp.here.join("t")));
    let delete = |from: &str, to: &str| run(&scene, &["sync", "--json", "--delete", from, to]);
    if !deletes {
        delete(&there, &server.url("back")).ends_with(exit::REFUSED).says(&["--delete"]);
        return;
    }
    let dry = run(&scene, &["sync", "--dry-run", "--delete", &there, &server.url("back")]);
    dry.ends_with(0).says(&[]);
    assert_eq!(dry.text().lines().filter(|line| line.starts_with("delete t")).count(), 7, "{}", dry.text());
    assert!(scene.path("server/back/t").exists());
    let told = delete(&there, &server.url("back"));
    assert_eq!(told.ends_with(0).objects().pop().unwrap()["deleted"], 7);
    assert!(!scene.path("server/back/t").exists());
    std::fs::remove_file(scene.path("server/t/a")).unwrap();
    assert_eq!(delete(&here, &there).ends_with(0).objects().pop().unwrap()["deleted"], 1);
    assert!(files_below(&ftp.here.join("t")) == files_below(&scene.path("server/t")));
}

#[test]
fn trees_cross_between_globus_and_xdfs() {
    trees_cross(&FtpServer::globus(), true);
}

#[test]
fn trees_cross_between_proftpd_and_xdfs() {
    trees_cross(&FtpServer::proftpd(""), true);
}

#[test]
fn trees_cross_between_vsftpd_and_xdfs() {
    trees_cross(&FtpServer::vsftpd(""), false);
}

#[test]
fn what_is_in_the_way_of_a_tree_is_reported_and_stays() {
    let (scene, ftp) = (Scene::new(), FtpServer::globus());
    scene.write("server/t/d", b"in the way");
    scene.write("server/t/gone", b"stays");
    let server = scene.serve();
    ftp.put("t/d/x", b"x");
    ftp.put("t/f", b"f");
    let failed = run(&scene, &["sync", "--delete", &ftp.url("t"), &server.url("t")]);
    failed.ends_with(exit::SOME_FAILED).says(&["not a directory", "were not removed"]);
    assert_eq!(scene.names("server/t"), ["d", "f", "gone"]);
    run(&scene, &["cp", "-r", &ftp.url("no"), &server.url("t")]).fails();
    for words in [["--atomic", "sync"], ["--checksum", "sync"], ["-a", "cp"]] {
        run(&scene, &[words[1], words[0], &ftp.url("t"), &server.url("t")]).ends_with(2);
    }
}

#[test]
fn a_tree_that_crosses_and_is_killed_leaves_nothing() {
    let (scene, ftp) = (Scene::new(), FtpServer::globus());
    for number in 0..60 {
        scene.write(format!("server/t/d{}/f{number}", number % 3), &pattern(1000 + number, 1));
    }
    scene.write("server/t/large", &pattern(30_000_000, 1));
    let server = scene.serve();
    let (from, to) = (server.url("t"), ftp.url("t"));
    let (mut was_cut, mut enough) = (false, 5);
    for _ in 0..6 {
        let copy = scene.start(["sync", &from, &to]);
        let until = Instant::now() + PATIENCE;
        let parts = || files_below_names(&ftp.here).iter().filter(|name| name.contains(".xdfs-")).count();
        while !copy.has_ended() && (files_below_names(&ftp.here).len() < enough || parts() == 0) {
            assert!(Instant::now() < until, "nothing arrives");
            std::thread::yield_now();
        }
        copy.kill();
        (was_cut, enough) = (was_cut || parts() > 0, enough + 9);
    }
    assert!(was_cut, "no kill came in the middle of a file");
    run(&scene, &["sync", &from, &to]).ends_with(0);
    assert!(files_below(&ftp.here.join("t")) == files_below(&scene.path("server/t")));
}

/// The names of all files below a directory, which may come and go.
fn files_below_names(directory: &Path) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => open.push(entry.path()),
                false => found.push(entry.file_name().to_string_lossy().into_owned()),
            }
        }
    }
    found
}
