//! Copies between an FTP server and an xdfs server: nothing is stored here, and nothing that is not
//! whole gets its name at either end.

use xdfs_test_cli::{Running, Scene, Server, pattern};

use super::scripted::{Answer, Say, Scripted};
use super::servers::FtpServer;
use super::{modified, run};

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
    run(&scene, &["cp", "-r", &ftp.url(""), &server.url("tree")]).ends_with(2).says(&["cannot copy"]);
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
