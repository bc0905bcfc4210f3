//! The server's log for people: what a line looks like, what is worth one, and that no peer writes lines of its own.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::ffi::OsStr;
use std::fs::File;
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, Signal, kill_process};
use xdfs_test_cli::{Scene, Server, exit, pattern, until};

/// Starts a server that logs to the file `log`; `variables` may depend on that file.
fn serve(scene: &Scene, variables: impl Fn(&File) -> Vec<(&'static str, String)>) -> Server {
    scene.directory("server");
    let log = File::create(scene.path("log")).unwrap();
    let mut command = scene.command(["serve", "--json", "--listen", "127.0.0.1:0", "--export", "data=server"]);
    command.args(["--allow-anonymous", "rw"]).env_remove("JOURNAL_STREAM").env_remove("XDFS_LOG");
    command.envs(variables(&log)).stderr(log);
    let server = Server::start(command, &[]);
    scene.trust(server.address(), &server);
    server
}

fn lines(scene: &Scene) -> Vec<String> {
    String::from_utf8(scene.read("log")).unwrap().lines().map(str::to_owned).collect()
}

/// The lines, once there is one with these words.
#[track_caller]
fn lines_with(scene: &Scene, words: &str) -> Vec<String> {
    until(|| lines(scene), |lines| lines.iter().any(|line| line.contains(words)))
}

#[test]
fn a_session_and_a_transfer_have_a_line_each_and_a_tree_is_summed_up() {
    let scene = Scene::new();
    let server = serve(&scene, |_| Vec::new());
    for number in 0..40 {
        scene.write(format!("tree/{number}"), b"small");
    }
    scene.write("file", &pattern(200_000, 1));
    scene.run(["cp", "-r", "tree", &server.url("")]).ends_with(0);
    let tree = lines_with(&scene, "ended after");
    scene.run(["cp", "file", &server.url("file")]).ends_with(0);
    let all = lines_with(&scene, "200000 bytes received");
    for line in &all {
        let (time, rest) = line.split_at(24);
        let form: String = time.chars().map(|one| if one.is_ascii_digit() { '0' } else { one }).collect();
        assert_eq!(form, "0000-00-00T00:00:00.000Z", "{line}");
        assert!([" info ", " warn "].iter().any(|level| rest.starts_with(level)), "{line}");
    }
    let of_tree: Vec<&String> =
        tree.iter().filter(|line| line.contains("session: ") || line.contains("calls: ")).collect();
    let [opened, ended] = of_tree[..] else { panic!("{tree:#?}") };
    assert!(opened.contains("opened by anonymous@127.0.0.1 from 127.0.0.1:"), "{opened}");
    assert!(
        ended.contains(" of anonymous@127.0.0.1 from 127.0.0.1:") && ended.contains("call(s); closed by the client"),
        "{ended}"
    );
    let transfers: Vec<&String> = all.iter().filter(|line| line.contains("transfer: ")).collect();
    let [transfer] = transfers[..] else { panic!("{all:#?}") };
    assert!(transfer.contains("upload of 'data/file', 200000 bytes at private"), "{transfer}");
    assert!(all.iter().any(|line| line.contains("200000 bytes received, 0 sent, 1 upload(s)")), "{all:#?}");
}

#[test]
fn the_end_of_a_session_tells_how_much_failed_and_why_the_first() {
    let scene = Scene::new();
    scene.directory("server");
    let config = "[exports.data]\ndirectory = \"server\"\nanonymous = \"ro\"\n[log]\naudit = \"audit.jsonl\"\n";
    scene.write("server.toml", config.as_bytes());
    let log = File::create(scene.path("log")).unwrap();
    let mut command = scene.command(["serve", "--json", "--listen", "127.0.0.1:0", "--config", "server.toml"]);
    command.env_remove("JOURNAL_STREAM").env_remove("XDFS_LOG").stderr(log);
    let server = Server::start(command, &[]);
    scene.trust(server.address(), &server);
    let names = ["a", "b", "c"].map(|name| server.url(name));
    scene.run(["mkdir"].into_iter().chain(names.iter().map(String::as_str))).ends_with(exit::PERMISSION_DENIED);
    let lines = lines_with(&scene, "ended after");
    let line = lines.iter().find(|line| line.contains("ended after")).unwrap();
    assert!(line.contains("3 call(s) of which 3 failed; the first failure was mkdir 'data/a': "), "{line}");
    assert!(line.ends_with("; closed by the client"), "{line}");
    // A thread of its own looks for what earlier servers left, and the server is killed.
    let tells_of = |lines: &[serde_json::Value], event| lines.iter().any(|line| line["event"] == event);
    let audit = until(
        || scene.json_lines("audit.jsonl"),
        |lines| tells_of(lines, "recovered") && tells_of(lines, "session_ended"),
    );
    drop(server);
    let ended = audit.iter().find(|line| line["event"] == "session_ended").unwrap();
    assert_eq!((&ended["outcome"], &ended["failed"]), (&"some failed".into(), &3.into()), "{ended}");
    assert_eq!((&ended["first_failure"]["call"], &ended["first_failure"]["path"]), (&"mkdir".into(), &"data/a".into()));
    let calls = audit.iter().find(|line| line["event"] == "calls").unwrap();
    assert_eq!(calls["outcome"], "failed", "{calls}");
}

#[test]
fn what_a_token_does_not_open_is_told_whether_it_is_listed_or_looked_at() {
    let scene = Scene::new();
    scene.write("server/in/file", b"x");
    scene.run(["key", "create", "--out", "id"]).ends_with(0);
    scene.run(["user", "add", "anna", "--key", "id.pub"]).ends_with(0);
    scene.run(["user", "token", "anna", "--export", "data", "--path", "in", "--out", "token"]).ends_with(0);
    scene.write("server.toml", b"[exports.data]\ndirectory = \"server\"\n[log]\naudit = \"audit.jsonl\"\n");
    let log = File::create(scene.path("log")).unwrap();
    let mut command = scene.command(["serve", "--json", "--listen", "127.0.0.1:0", "--config", "server.toml"]);
    command.env_remove("JOURNAL_STREAM").env_remove("XDFS_LOG").stderr(log);
    let server = Server::start(command, &[]);
    for words in [["ls", "out"], ["stat", "out/file"], ["ls", ""]] {
        let mut command = scene.command([words[0], &server.url(words[1])]);
        command.env("XDFS_TOKEN_FILE", scene.path("token"));
        xdfs_test_cli::Running::start(command).wait().ends_with(exit::PERMISSION_DENIED);
    }
    lines_with(&scene, "the token opens 'data/in' and nothing else; closed by the client");
    assert_eq!(server.stop(), Some(0));
    let audit = scene.json_lines("audit.jsonl");
    let calls: Vec<_> = audit.iter().filter(|line| line["event"] == "calls").collect();
    assert!(calls.len() >= 3, "{audit:#?}");
    for line in calls {
        let error = line["calls"][0]["error"].as_str().unwrap_or_default();
        assert!(line["outcome"] == "failed" && error.contains("the token opens 'data/in'"), "{line}");
    }
    let ended: Vec<_> = audit.iter().filter(|line| line["event"] == "session_ended").collect();
    assert!(ended.iter().all(|line| line["outcome"] == "some failed"), "{ended:#?}");
}

#[test]
fn a_hand_over_tells_which_process_serves_on() {
    let scene = Scene::new();
    let export = |name: &str| {
        scene.directory(name);
        format!("[exports.{name}]\ndirectory = \"{name}\"\nanonymous = \"ro\"\n")
    };
    let (one, two) = (export("one"), export("two"));
    scene.write("server.toml", one.as_bytes());
    let log = File::create(scene.path("log")).unwrap();
    let mut command = scene.command(["serve", "--json", "--listen", "127.0.0.1:0", "--config", "server.toml"]);
    command.env_remove("JOURNAL_STREAM").env_remove("XDFS_LOG").stderr(log);
    let server = Server::start(command, &[]);
    let metrics = "metrics = \"unix:metrics.sock\"\n";
    scene.write("server.toml", format!("{metrics}{one}").as_bytes());
    server.signal(Signal::HUP);
    lines_with(&scene, "what the configuration says of metrics holds from the next start on");
    scene.write("server.toml", format!("{metrics}{one}{two}").as_bytes());
    server.signal(Signal::HUP);
    let told = lines_with(&scene, "info server: process ");
    let warned = told.iter().filter(|line| line.contains("holds from the next start on")).count();
    assert_eq!(warned, 1, "the process that takes over has started: {told:#?}");
    let process = told.iter().find_map(|line| line.split_once("process ")?.1.strip_suffix(" serves on")?.parse().ok());
    let process = Pid::from_raw(process.unwrap()).unwrap();
    assert_ne!(process, server.process());
    let url = server.url_in("two", "");
    assert_eq!(server.wait(), Some(0));
    scene.run(["ls", &url]).ends_with(0);
    assert!(UnixStream::connect(scene.path("metrics.sock")).is_ok(), "its metrics are answered");
    kill_process(process, Signal::TERM).unwrap();
}

#[test]
fn journald_gets_priorities_and_no_times() {
    let scene = Scene::new();
    let of = |log: &File| log.metadata().map(|log| format!("{}:{}", log.dev(), log.ino())).unwrap();
    let server = serve(&scene, |log| vec![("JOURNAL_STREAM", of(log))]);
    scene.run(["ls", &server.url("")]).ends_with(0);
    let lines = lines_with(&scene, "ended after");
    assert!(lines.iter().any(|line| line.starts_with("<6>session: ")), "{lines:#?}");
    assert!(lines.iter().all(|line| line.starts_with("<6>") || line.starts_with("<4>")), "{lines:#?}");
}

#[test]
fn the_filter_chooses_and_a_mistake_in_it_stops_the_start() {
    let scene = Scene::new();
    let server = serve(&scene, |_| vec![("XDFS_LOG", "warn,calls=debug".to_owned())]);
    scene.write("tree/file", b"small");
    scene.run(["cp", "-r", "tree", &server.url("")]).ends_with(0);
    let lines = lines_with(&scene, "below 'data");
    assert!(lines.iter().all(|line| line.contains(" debug calls: ")), "{lines:#?}");
    server.signal(Signal::USR1);
    lines_with(&scene, "info server: status: ");
    let mut wrong = scene.command(["serve", "--export", "data=server"]);
    wrong.env("XDFS_LOG", "chatty");
    let outcome = xdfs_test_cli::Running::start(wrong).wait();
    outcome.ends_with(exit::USAGE).says(&["XDFS_LOG: 'chatty' is no level\nhelp: write off, error, warn, info, debug"]);
}

#[test]
fn a_client_that_leaves_before_it_logs_in_is_no_problem() {
    let scene = Scene::new();
    let server = serve(&scene, |_| vec![("XDFS_LOG", "login=debug".to_owned())]);
    // A stranger's question remains without an answer: there is no terminal.
    let url = format!("xdfs://{}/data/", server.address());
    scene.run_as("stranger", ["ls", &url]).ends_with(exit::NOT_TRUSTED);
    lines_with(&scene, "debug login: connection of 127.0.0.1");
    drop(TcpStream::connect(server.address()).unwrap());
    drop(server);
    let problems: Vec<String> = lines(&scene).into_iter().filter(|line| !line.contains(" debug ")).collect();
    assert!(problems.iter().all(|line| line.contains(" info ")), "{problems:#?}");
}

#[test]
fn a_client_that_drops_its_session_is_no_warning_and_a_mount_that_fails_closes_it() {
    let scene = Scene::new();
    let server = serve(&scene, |_| Vec::new());
    scene.run(["mount", &server.url(""), "nowhere"]).ends_with(exit::NOT_FOUND);
    let told = lines_with(&scene, "ended after");
    assert!(told.iter().any(|line| line.contains("closed by the client")), "{told:#?}");
    let mut copy = scene.start(["cp", "-P", "4", "-", &server.url("file")]);
    assert!(copy.feed(&pattern(20_000_000, 1)), "the client reads");
    lines_with(&scene, "of 4 channels");
    let _ = copy.kill();
    let told = lines_with(&scene, "all channels were lost");
    let warned: Vec<_> = told.iter().filter(|line| line.contains(" warn session: ")).collect();
    assert!(warned.is_empty(), "{warned:#?}");
}

#[test]
fn names_make_no_lines_of_their_own() {
    let scene = Scene::new();
    let server = serve(&scene, |_| Vec::new());
    let name = OsStr::from_bytes(b"a\n2026-01-01T00:00:00.000Z warn server: \x1b[2J\xc3\xbc");
    scene.write(name, &pattern(200_000, 1));
    let source = scene.path(name);
    scene.run([OsStr::new("cp"), source.as_os_str(), OsStr::new(&server.url(""))]).ends_with(0);
    let lines = lines_with(&scene, "upload of");
    let line = lines.iter().find(|line| line.contains("upload of")).unwrap();
    assert!(line.contains("'data/a\\n2026-01-01T00:00:00.000Z warn server: \\u{1b}[2J\u{fc}', 200000 bytes"), "{line}");
}
