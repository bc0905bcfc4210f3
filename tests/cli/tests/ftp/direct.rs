//! Copies between two FTP servers: from server to server where both speak GridFTP, otherwise through this machine.

use std::process::Command;

use xdfs_test_cli::{Outcome, Running, Scene, pattern};

use super::scripted::{Answer, Say, Scripted};
use super::servers::FtpServer;
use super::site::Site;
use super::{modified, run};

/// What is said where the bytes do not go from server to server.
const THROUGH_HERE: &str = "the bytes go through this machine";

/// Reads a file with the program of the toolkit.
fn read_by_globus(scene: &Scene, url: &str, variables: &[(&str, std::path::PathBuf)]) -> Vec<u8> {
    assert!(xdfs_test_needs::program("globus-url-copy", "globus-gass-copy-progs"));
    let here = scene.path("by-globus");
    let mut command = Command::new("globus-url-copy");
    command.envs(variables.iter().cloned()).arg(url).arg(format!("file://{}", here.display()));
    let output = command.output().expect("it can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(&here).expect("what it wrote")
}

/// For servers that let anybody in.
fn as_anybody(url: &str) -> String {
    url.replace("gsiftp://", "ftp://anonymous:x@")
}

#[track_caller]
fn went_directly(done: &Outcome) {
    assert!(!done.ends_with(0).messages.contains(THROUGH_HERE), "{}", done.messages);
}

#[test]
fn files_move_from_one_globus_server_to_another() {
    let (scene, one, other) = (Scene::new(), FtpServer::globus(), FtpServer::globus());
    for (name, length) in [("empty", 0), ("small", 1), ("large", 20_000_001)] {
        one.put(name, &pattern(length, 4));
        for streams in ["1", "4", "16"] {
            let done = run(&scene, &["cp", "--json", "-P", streams, &one.url(name), &other.url(name)]);
            went_directly(&done);
            let told = done.objects().remove(0);
            assert_eq!((&told["verify"], told["bytes"].as_u64()), (&"hash".into(), Some(length as u64)), "{told}");
            if length > 1 {
                assert_eq!(told["channels"].to_string(), streams);
            }
            assert!(other.read(name) == pattern(length, 4));
            assert_eq!(modified(&other.here.join(name)), modified(&one.here.join(name)));
        }
        assert!(read_by_globus(&scene, &as_anybody(&other.url(name)), &[]) == pattern(length, 4));
    }
    assert_eq!(other.names(), ["empty", "large", "small"], "no temporary name is left");
    one.put("into/x", b"x");
    run(&scene, &["cp", &other.url("small"), &other.url("empty"), &one.url("into/")]).ends_with(0);
    assert_eq!(one.read("into/small"), pattern(1, 4));
    run(&scene, &["cp", "-n", &other.url("large"), &one.url("small")]).ends_with(0).says(&["was kept"]);
    run(&scene, &["cp", &one.url("no"), &other.url("no")]).ends_with(6).says(&["no such file"]);
    run(&scene, &["cp", &one.url("small"), &other.url("no/such/x")]).fails();
    run(&scene, &["cp", &one.url("small"), &one.url("small")]).says(&["the same file"]);
    assert_eq!(one.read("small"), pattern(1, 4));
    // Within one server there are two sessions.
    went_directly(&run(&scene, &["cp", &one.url("large"), &one.url("again")]));
    assert!(one.read("again") == pattern(20_000_001, 4));
}

#[test]
fn files_move_from_site_to_site_with_every_protection() {
    let Some(site) = Site::of_process() else { return };
    let (scene, one, other) = (Scene::new(), FtpServer::globus_of(site), FtpServer::globus_of(site));
    let with = |words: &[&str]| -> Outcome {
        let mut command = scene.command(words);
        command.env("X509_USER_PROXY", site.path("proxy")).env("X509_CERT_DIR", site.path("certificates"));
        Running::start(command).wait()
    };
    let content = pattern(5_000_001, 5);
    one.put("f", &content);
    for protection in ["clear", "integrity", "private"] {
        for streams in ["1", "4"] {
            let name = format!("{protection}-{streams}");
            let words = ["cp", "--json", "-P", streams, "--protection", protection, &one.url("f"), &other.url(&name)];
            let done = with(&words);
            went_directly(&done);
            let told = done.objects().remove(0);
            assert_eq!((&told["verify"], &told["protection"]), (&"hash".into(), &protection.into()), "{told}");
            assert!(other.read(&name) == content);
        }
    }
    let variables = [("X509_USER_PROXY", site.path("proxy")), ("X509_CERT_DIR", site.path("certificates"))];
    assert!(read_by_globus(&scene, &other.url("private-4"), &variables) == content);
    // One that knows no certificates has no data channel with one that does.
    let plain = FtpServer::globus();
    let url = plain.url("f").replace("gsiftp://", "gsiftp://anonymous@");
    with(&["cp", &one.url("f"), &url]).ends_with(0).says(&[THROUGH_HERE, "do not protect data in the same way"]);
    assert!(plain.read("f") == content);
}

#[test]
fn what_is_no_gridftp_server_is_copied_through_this_machine_and_that_is_said() {
    let (scene, content) = (Scene::new(), pattern(20_000_001, 6));
    let servers = [FtpServer::vsftpd(""), FtpServer::proftpd(""), FtpServer::globus()];
    for (one, other) in [(0, 1), (1, 2), (2, 0)] {
        let (one, other) = (&servers[one], &servers[other]);
        one.put("f", &content);
        let done = run(&scene, &["cp", "--json", &one.url("f"), &other.url("g")]);
        done.ends_with(0).says(&[THROUGH_HERE, "is no GridFTP server"]);
        let told = done.objects().remove(0);
        assert!(other.read("g") == content);
        assert_eq!(modified(&other.here.join("g")), modified(&one.here.join("f")));
        let verify = if one.url == servers[0].url || other.url == servers[0].url { "none" } else { "hash" };
        assert_eq!(told["verify"], verify, "{}", done.messages);
        assert_eq!(other.names().iter().filter(|name| name.starts_with(".xdfs")).count(), 0);
    }
    run(&scene, &["cp", &servers[0].url("no"), &servers[1].url("no")]).ends_with(6).says(&["no such file"]);
    assert!(!servers[1].here.join("no").exists());
}

/// As behind a firewall that lets nobody's server connect outwards.
#[test]
fn a_source_that_refuses_to_connect_is_copied_through_this_machine_and_that_is_said() {
    const LENGTH: usize = 3_000_000;
    let source: Answer = |line| match line {
        "FEAT" => Some(Say::Reply("211-F\r\n MLST type*;size*;modify*;\r\n PARALLEL\r\n211 End")),
        "MLST /f" => Some(Say::Reply("250-x\r\n type=file;size=3000000;modify=20260102030405; /f\r\n250 end")),
        "RETR /f" => Some(Say::Send(pattern(LENGTH, 7))),
        _ if line.starts_with("OPTS ") => Some(Say::Reply("200 ok")),
        _ if line.starts_with("PORT ") || line.starts_with("EPRT ") => Some(Say::Reply("500 no connections from here")),
        _ => None,
    };
    let (scene, one, other) = (Scene::new(), Scripted::start(source), FtpServer::globus());
    let from = one.url("/f").replace("ftp://", "gsiftp://");
    let done = run(&scene, &["cp", "--json", "-P", "4", &from, &other.url("g")]);
    done.ends_with(0).says(&[THROUGH_HERE, "500 no connections from here"]);
    assert!(!one.heard("PORT 127,0,0,1,").is_empty(), "{:?}", one.heard(""));
    assert!(other.read("g") == pattern(LENGTH, 7));
    assert_eq!(other.names(), ["g"], "no temporary name is left");
}

#[test]
fn trees_are_copied_and_synced_from_server_to_server() {
    let scene = Scene::new();
    for (one, other) in [(FtpServer::globus(), FtpServer::globus()), (FtpServer::proftpd(""), FtpServer::vsftpd(""))] {
        let large = pattern(3_000_001, 8);
        one.put("t/large", &large);
        one.put("t/d/e/small", b"text");
        one.put("t/d/empty", b"");
        std::fs::create_dir_all(one.here.join("t/nothing")).expect("a directory");
        for number in 0..20 {
            one.put(&format!("t/many/{number}"), &pattern(100 + number, 1));
        }
        let copied = run(&scene, &["cp", "-r", "--json", &one.url("t"), &other.url("new")]);
        let told = copied.ends_with(0).objects().pop().expect("a tree");
        assert_eq!((told["files"].as_u64(), told["failed"].as_u64()), (Some(23), Some(0)), "{told}");
        assert!(other.read("new/large") == large);
        assert_eq!((other.read("new/d/e/small"), other.read("new/d/empty")), (b"text".to_vec(), Vec::new()));
        assert!(other.here.join("new/nothing").is_dir());
        // Into one that is there, under its name.
        run(&scene, &["cp", "-r", &one.url("t/d"), &other.url("new")]).ends_with(0);
        assert_eq!(other.read("new/d/e/small"), b"text");
        // What is the same is left alone, what is not is copied.
        one.put("t/d/e/small", b"new text");
        let synced = run(&scene, &["sync", "--json", &one.url("t"), &other.url("new")]);
        let told = synced.ends_with(0).objects().pop().expect("a tree");
        assert_eq!((told["files"].as_u64(), told["skipped"].as_u64()), (Some(1), Some(22)), "{told}");
        assert_eq!(other.read("new/d/e/small"), b"new text");
        // A file where a directory is to be fails, and the rest is copied.
        other.put("other/d", b"in the way");
        let failed = run(&scene, &["cp", "-r", &one.url("t/."), &other.url("other")]);
        failed.says(&["not a directory"]).fails();
        assert!(other.read("other/large") == large && other.read("other/d") == b"in the way");
        run(&scene, &["cp", "-r", &one.url("t"), &one.url("t/d")]).says(&["cannot be copied into itself"]);
        assert!(!one.here.join("t/d/t").exists());
        scene.write("list", b"large\n");
        run(&scene, &["sync", "--files-from", "list", &one.url("t"), &other.url("new")])
            .ends_with(2)
            .says(&["from server to server"]);
    }
}
