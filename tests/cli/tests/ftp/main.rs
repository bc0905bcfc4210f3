//! The command on FTP servers: Debian's vsftpd, which says little about its files, and
//! globus-gridftp-server, which says much.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

mod cuts;
mod direct;
mod gsi;
mod killed;
mod listings;
mod mirrors;
mod parts;
mod peers;
mod relay;
mod scripted;
mod servers;
#[path = "../../../../crates/gridftp/tests/support/site.rs"]
mod site;
mod stopping;
mod tls;
mod tls_cuts;
mod trees;
#[path = "../../../../crates/gridftp/tests/support/unpacked.rs"]
mod unpacked;

use std::time::{Duration, Instant};

use rustix::process::Signal;
use scripted::{Say, Scripted};
use servers::FtpServer;
use xdfs_test_cli::{Outcome, Scene, pattern};

/// Everything that these tests wait for happens sooner, unless it never does.
const PATIENCE: Duration = Duration::from_secs(40);

#[track_caller]
fn run(scene: &Scene, words: &[&str]) -> Outcome {
    scene.start(words).wait()
}

fn modified(path: &std::path::Path) -> u64 {
    let time = path.metadata().unwrap().modified().unwrap();
    time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// Files of any size move both ways with their times.
fn moves_files_both_ways(server: &FtpServer, scene: &Scene) {
    for (name, length) in [("empty", 0), ("small", 1), ("large", 5_000_001)] {
        let content = pattern(length, 3);
        let local = scene.write(name, &content);
        run(scene, &["cp", "--quiet", name, &server.url(name)]).ends_with(0).is_silent();
        assert!(server.read(name) == content);
        assert_eq!(modified(&server.here.join(name)), modified(&local), "{name}");
        let back = format!("{name}-back");
        run(scene, &["cp", "--quiet", &server.url(name), &back]).ends_with(0).is_silent();
        assert!(scene.read(&back) == content);
        assert_eq!(modified(&scene.path(&back)), modified(&local), "{name}");
    }
    assert_eq!(server.names(), ["empty", "large", "small"], "no temporary name is left");
    // Into a directory, over an existing file, and not over it.
    scene.directory("into");
    run(scene, &["cp", &server.url("small"), &server.url("large"), "into"]).ends_with(0);
    assert_eq!(scene.names("into"), ["large", "small"]);
    scene.write("small", b"new");
    run(scene, &["cp", "-n", "small", &server.url("small")]).ends_with(0).says(&["it exists and was kept"]);
    run(scene, &["cp", "-n", &server.url("small"), "small"]).ends_with(0).says(&["it exists and was kept"]);
    assert_eq!(scene.read("small"), b"new");
    run(scene, &["cp", "small", &server.url("small")]).ends_with(0);
    assert_eq!(server.read("small"), b"new");
    let url = server.url("from-input");
    let mut piped = scene.start(["cp", "-", &url]);
    assert!(piped.feed(b"piped"));
    piped.close_input();
    piped.wait().ends_with(0);
    assert_eq!(server.read("from-input"), b"piped");
    assert_eq!(run(scene, &["cp", &url, "-"]).ends_with(0).output, b"piped");
    run(scene, &["cp", &server.url("no"), "no"]).ends_with(6).says(&["no such file"]);
    assert!(!scene.path("no").exists());
    run(scene, &["cp", "small", &server.url("no/such/directory")]).fails();
}

#[test]
fn files_move_both_ways_with_vsftpd() {
    moves_files_both_ways(&FtpServer::vsftpd(""), &Scene::new());
}

#[test]
fn files_move_both_ways_with_globus() {
    moves_files_both_ways(&FtpServer::globus(), &Scene::new());
}

#[test]
fn files_move_both_ways_with_proftpd() {
    moves_files_both_ways(&FtpServer::proftpd(""), &Scene::new());
}

#[test]
fn files_move_both_ways_with_pure_ftpd() {
    moves_files_both_ways(&FtpServer::pure_ftpd(&[]), &Scene::new());
}

#[test]
fn what_a_server_can_prove_is_verified_and_the_rest_is_said() {
    let (scene, globus, vsftpd) = (Scene::new(), FtpServer::globus(), FtpServer::vsftpd(""));
    let content = pattern(3_000_001, 1);
    scene.write("f", &content);
    for (server, verify, words) in [(&globus, "hash", ""), (&vsftpd, "none", "not verified")] {
        for words_of_cp in [["f", &server.url("f")], [&server.url("f"), "g"]] {
            let done = run(&scene, &[&["cp", "--json"], &words_of_cp[..]].concat());
            done.ends_with(0).says(&[words]);
            assert_eq!(done.objects()[0]["verify"], verify, "{}", done.text());
            assert_eq!(done.objects()[0]["protection"], "clear");
        }
    }
    assert!(scene.read("g") == content);
    run(&scene, &["cp", "--verify", "none", "f", &vsftpd.url("f")]).ends_with(0).is_silent();
    let sums = run(&scene, &["sum", "f", &globus.url("f"), &vsftpd.url("f")]);
    let sums: Vec<&str> = sums.ends_with(0).text().lines().map(|line| &line[..64]).collect();
    assert!(sums.len() == 3 && sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
}

#[test]
fn globus_moves_a_file_on_many_connections() {
    let (scene, server) = (Scene::new(), FtpServer::globus());
    let content = pattern(20_000_001, 2);
    scene.write("f", &content);
    for streams in ["1", "4", "16"] {
        let up = run(&scene, &["cp", "--json", "-P", streams, "f", &server.url(streams)]);
        up.ends_with(0);
        assert_eq!(up.objects()[0]["channels"].to_string(), streams);
        assert!(server.read(streams) == content);
        run(&scene, &["cp", "-P", streams, &server.url(streams), "back"]).ends_with(0);
        assert!(scene.read("back") == content);
    }
}

/// Names are listed, looked at, made, moved and removed.
fn changes_names(server: &FtpServer, scene: &Scene) {
    server.put("d/a b", b"text");
    server.put("d/sub/x", b"x");
    let listed = run(scene, &["ls", "-R", &server.url("d")]);
    let listed = listed.ends_with(0).text().to_owned();
    let names: Vec<&str> = listed.lines().filter(|line| !line.is_empty() && !line.ends_with(':')).collect();
    assert_eq!(names, ["a b", "sub", "x"], "{listed}");
    let long = run(scene, &["ls", "-l", &server.url("d/a%20b")]).ends_with(0).text().to_owned();
    assert!(long.starts_with('-') && long.contains(" 4 ") && long.contains("a b"), "{long}");
    let told = run(scene, &["stat", "--json", &server.url("d/a%20b"), &server.url("d/")]);
    let told = told.ends_with(0).objects();
    assert_eq!((&told[0]["type"], told[0]["size"].as_u64()), (&"file".into(), Some(4)));
    assert_eq!(told[1]["type"], "directory");
    assert_eq!(run(scene, &["cat", &server.url("d/a%20b"), &server.url("d/sub/x")]).ends_with(0).output, b"textx");
    run(scene, &["mkdir", "-p", &server.url("d/new/deep")]).ends_with(0).is_silent();
    run(scene, &["mkdir", "-p", &server.url("d/new/deep")]).ends_with(0).is_silent();
    run(scene, &["mkdir", &server.url("d/new")]).ends_with(11).says(&["already exists"]);
    run(scene, &["mv", &server.url("d/a%20b"), &server.url("d/new/")]).ends_with(0);
    assert_eq!(server.read("d/new/a b"), b"text");
    scene.write("mine", b"mine");
    run(scene, &["cp", "mine", &server.url("d/new/")]).ends_with(0);
    run(scene, &["mv", &server.url("d/new/mine"), &server.url("d/new/deep/")]).ends_with(0);
    run(scene, &["mv", &server.url("d/no"), &server.url("d/new/")]).ends_with(6).says(&["no such file"]);
    assert_eq!(server.read("d/new/deep/mine"), b"mine");
    let taken = ["mv", "-n", &server.url("d/new/deep/mine"), &server.url("d/new/a%20b")];
    run(scene, &taken).ends_with(11).says(&["already exists"]);
    assert_eq!(server.read("d/new/a b"), b"text");
    run(scene, &["rm", &server.url("d/new")]).ends_with(2).says(&["is a directory"]);
    run(scene, &["rm", &server.url("d/no")]).ends_with(6).says(&["no such file"]);
    run(scene, &["rm", "-f", &server.url("d/no")]).ends_with(0);
    for words in [&["ls"], &["stat"], &["cat"]] {
        run(scene, &[&words[..], &[&server.url("no")]].concat()).ends_with(6);
    }
}

/// Trees are removed where links are told from directories.
fn removes_trees(server: &FtpServer, scene: &Scene) {
    changes_names(server, scene);
    run(scene, &["rm", "-r", &server.url("d/new")]).ends_with(0);
    assert!(!server.here.join("d/new").exists());
    assert!(server.here.join("d").exists());
}

#[test]
fn names_are_changed_on_vsftpd() {
    changes_names(&FtpServer::vsftpd(""), &Scene::new());
}

#[test]
fn names_are_changed_on_globus() {
    removes_trees(&FtpServer::globus(), &Scene::new());
}

#[test]
fn names_are_changed_on_proftpd() {
    removes_trees(&FtpServer::proftpd(""), &Scene::new());
}

#[test]
fn names_are_changed_on_pure_ftpd() {
    removes_trees(&FtpServer::pure_ftpd(&[]), &Scene::new());
}

#[test]
fn a_download_that_was_stopped_goes_on_where_it_ended() {
    let (scene, slow) = (Scene::new(), FtpServer::vsftpd("anon_max_rate=4000000\n"));
    let content = pattern(24 << 20, 5);
    slow.put("f", &content);
    let url = slow.url("f");
    let stopped = scene.start(["cp", &url, "f"]);
    let until = Instant::now() + PATIENCE;
    let part = || {
        std::fs::read_dir(scene.path(".xdfs-staging")).ok()?.flatten().find_map(|entry| {
            let metadata = entry.metadata().ok()?;
            (std::os::unix::fs::MetadataExt::blocks(&metadata) > 8 << 11).then_some(())
        })
    };
    // Space is reserved first: what has arrived is seen in the progress of the server's process alone, so wait for time
    // at the server's rate by asking for bytes.
    while part().is_none() {
        assert!(Instant::now() < until, "nothing arrives");
        std::thread::yield_now();
    }
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        std::thread::yield_now();
    }
    stopped.signal(Signal::INT);
    stopped.wait().ends_with(130);
    assert!(!scene.path("f").exists(), "nothing has the final name");
    let done = run(&scene, &["cp", "--json", &url, "f"]);
    done.ends_with(0).says(&["resumes at"]);
    assert!(done.objects()[0]["resumed_bytes"].as_u64().unwrap() >= 2 << 20, "{}", done.text());
    assert!(scene.read("f") == content);
}

#[test]
fn an_upload_that_was_stopped_goes_on_where_it_ended() {
    let (scene, slow) = (Scene::new(), FtpServer::vsftpd("anon_max_rate=4000000\n"));
    let content = pattern(24 << 20, 6);
    scene.write("f", &content);
    let url = slow.url("f");
    let stopped = scene.start(["cp", "f", &url]);
    let until = Instant::now() + PATIENCE;
    let arrived =
        || slow.names().first().and_then(|name| slow.here.join(name).metadata().ok()).map_or(0, |file| file.len());
    while arrived() < 4 << 20 {
        assert!(Instant::now() < until, "nothing arrives");
        std::thread::yield_now();
    }
    stopped.kill();
    assert!(slow.names().iter().all(|name| name.starts_with(".xdfs-")), "{:?}", slow.names());
    let done = run(&scene, &["cp", "--json", "f", &url]);
    done.ends_with(0).says(&["resumes at"]);
    assert!(slow.read("f") == content);
    assert_eq!(slow.names(), ["f"]);
}

#[test]
fn a_server_that_renames_nothing_is_written_to_in_place_and_that_is_said() {
    // As Debian's configuration has it once uploads are allowed: new files, and nothing else.
    let (scene, server) = (Scene::new(), FtpServer::vsftpd("anon_other_write_enable=NO\n"));
    scene.write("f", b"content");
    run(&scene, &["cp", "f", &server.url("f")]).ends_with(0).says(&["no temporary names"]);
    assert_eq!(server.read("f"), b"content");
}

/// A file of one byte for whoever says `open sesame`.
fn for_friends(line: &str) -> Option<Say> {
    match line {
        "PASS open sesame" => Some(Say::Reply("230 welcome")),
        "PASS xdfs@" => Some(Say::Reply("230 welcome, stranger")),
        _ if line.starts_with("PASS ") => Some(Say::Reply("530 no")),
        "MLST /f" => Some(Say::Reply("250-x\r\n type=file;size=1; /f\r\n250 end")),
        "RETR /f" => Some(Say::Send(b"f".to_vec())),
        _ => None,
    }
}

#[test]
fn a_user_logs_in_with_a_password_that_nobody_else_sees() {
    let (scene, server) = (Scene::new(), Scripted::start(for_friends));
    let url = |login: &str| format!("ftp://{login}127.0.0.1:{}//f", server.port);
    assert_eq!(run(&scene, &["cat", &url("")]).ends_with(0).output, b"f");
    assert_eq!(server.heard("USER"), ["USER anonymous"]);
    run(&scene, &["cat", &url("anna@")]).ends_with(2).says(&["no password", ".netrc"]);
    assert_eq!(run(&scene, &["cat", &url("anna:open%20sesame@")]).ends_with(0).output, b"f");
    let wrong = run(&scene, &["cat", &url("anna:guess-1234@")]);
    wrong.ends_with(10).says(&["refused the login"]);
    assert!(!wrong.messages.contains("guess-1234"), "{}", wrong.messages);
    let listed = run(&scene, &["stat", "--json", &url("anna:open%20sesame@")]);
    assert!(!listed.ends_with(0).text().contains("sesame"), "{}", listed.text());
    let private = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    private(&scene.write("password", b"open sesame\n"), 0o600);
    assert_eq!(run(&scene, &["cat", "--password-file", "password", &url("anna@")]).ends_with(0).output, b"f");
    let netrc = scene.write("home-somebody/.netrc", b"machine 127.0.0.1 login anna password \"open sesame\"\n");
    private(&netrc, 0o644);
    let refused = run(&scene, &["cat", &url("anna@")]);
    refused.says(&["chmod 600"]).fails();
    private(&netrc, 0o600);
    assert_eq!(run(&scene, &["cat", &url("anna@")]).ends_with(0).output, b"f");
    assert_eq!(run(&scene, &["cat", &url("")]).ends_with(0).output, b"f");
    assert_eq!(server.heard("USER").last().map(String::as_str), Some("USER anna"));
    run(&scene, &["cat", &url("bob@")]).ends_with(2).says(&["no password"]);
}

#[test]
fn all_files_of_a_command_move_in_one_session() {
    let (scene, server) = (Scene::new(), Scripted::start(for_friends));
    let url = server.url("//f");
    assert_eq!(run(&scene, &["cat", &url, &url, &url]).ends_with(0).output, b"fff");
    assert_eq!((server.heard("RETR").len(), server.heard("USER").len()), (3, 1));
}

#[test]
fn what_ftp_does_not_have_is_refused_before_anybody_is_asked() {
    let scene = Scene::new();
    let url = "ftp://127.0.0.1:1/d";
    for words in [
        &["ln", "-s", "text", url][..],
        &["chmod", "600", url],
        &["touch", url],
        &["du", url],
        &["df", url],
        &["cat", "--offset", "5", url],
        &["cp", "--offset", "5", url, "x"],
        &["cp", "-a", ".", url],
        &["sync", "--checksum", url, "x"],
        &["cp", "-r", "--atomic", ".", url],
    ] {
        run(&scene, words).ends_with(2).says(&["FTP servers cannot do that"]);
    }
    for words in [&["cp", "--json", "--offset", "5", url, "x"][..], &["ln", "--json", "-s", "text", url]] {
        let told = run(&scene, words).ends_with(2).objects();
        assert_eq!((&told[0]["event"], &told[0]["code"]), (&"error".into(), &"usage".into()), "{told:?}");
    }
    run(&scene, &["ls", url]).ends_with(4).says(&["cannot connect"]);
    run(&scene, &["ls", "ftp://a:b@c/d?e"]).ends_with(2).says(&["ftp://a:...@c"]);
}
