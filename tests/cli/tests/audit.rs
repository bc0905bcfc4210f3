//! What one peer can make of the audit log: how fast it grows, and what happens when its disk is full.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use xdfs_test_cli::{Scene, Server, pattern, seen_by, timed, until, with_small_disk, xdfs_binary};

/// A server whose audit log is on a disk of 1 MiB, which is full.
fn with_full_log(scene: &Scene, on_failure: &str) -> (Server, PathBuf) {
    with_full_log_telling(scene, on_failure, std::process::Stdio::inherit())
}

/// The same with the server's messages in a file.
fn with_full_log_telling(scene: &Scene, on_failure: &str, messages: std::process::Stdio) -> (Server, PathBuf) {
    let config = format!(
        "[exports.data]\ndirectory = \"data\"\nanonymous = \"rw\"\n[log]\naudit = \"log/audit.jsonl\"\n{on_failure}\n"
    );
    scene.write("server.toml", config.as_bytes());
    scene.directory("data");
    let log = scene.directory("log");
    let words = ["serve", "--json", "--listen", "127.0.0.1:0", "--state", "state", "--config", "server.toml"];
    let mut command = with_small_disk(&log, 1, "exec \"$@\"");
    command.arg(xdfs_binary()).args(words).current_dir(scene.path("")).stderr(messages);
    let server = Server::start(command, &["--quiet"]);
    let inside = seen_by(server.process(), &log);
    // The last byte of the disk; the error is the point.
    std::fs::write(inside.join("others"), pattern(2 << 20, 1)).expect_err("the disk is full");
    (server, inside)
}

#[test]
fn a_server_goes_on_when_its_audit_log_is_full_and_tells_what_is_missing() {
    let scene = Scene::new();
    let (server, inside) = with_full_log(&scene, "");
    // More than what is left of the log's last page.
    for number in 0..40 {
        scene.run(["mkdir", &server.url_in("data", &format!("d{number}"))]).ends_with(0);
    }
    std::fs::remove_file(inside.join("others")).expect("it is ours");
    scene.run(["mkdir", &server.url_in("data", "last")]).ends_with(0);
    let log = inside.join("audit.jsonl");
    let events = scene.json_lines(&log);
    let text = String::from_utf8(scene.read(&log)).expect("text");
    let missing = events.iter().find(|event| event["event"] == "audit_lost").expect("it tells of what is missing");
    assert!(missing["lines"].as_u64().is_some_and(|lines| lines > 0), "{missing}");
    assert!(text.contains("\"path\":\"last\"") || text.contains("data/last"), "{text}");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_server_that_must_not_work_without_its_audit_log_stops_when_it_is_full() {
    let scene = Scene::new();
    let messages = std::fs::File::create(scene.path("messages")).expect("a file");
    let (server, _) = with_full_log_telling(&scene, "audit-failure = \"stop\"", messages.into());
    let url = |number: usize| server.url_in("data", &format!("d{number}"));
    let refused = (0..1000).find(|number| scene.run(["mkdir", &url(*number)]).code != Some(0));
    assert!(refused.is_some(), "a thousand changes that are not in the log");
    assert_eq!(server.wait(), Some(5));
    let messages = String::from_utf8(scene.read("messages")).expect("text");
    assert_eq!(messages.matches("stopping, since").count(), 1, "{messages}");
}

#[test]
fn who_fills_the_audit_log_waits_and_nobody_else_does() {
    let scene = Scene::new();
    const RATE: u64 = 64 << 10;
    let config = format!(
        "[exports.data]\ndirectory = \"data\"\nanonymous = \"rw\"\n[log]\naudit = \"audit.jsonl\"\n\
         [limits]\naudit-bytes-per-second = {RATE}\n"
    );
    scene.write("server.toml", config.as_bytes());
    scene.directory("data");
    let key = scene.path("id").to_string_lossy().into_owned();
    scene.run(["key", "create", "--out", &key]).ends_with(0);
    scene.run(["user", "add", "ada", "--key", &format!("{key}.pub"), "--state", "state"]).ends_with(0);
    let command = scene.command(["serve", "--json", "--listen", "127.0.0.1:0", "--state", "state"]);
    let server = Server::start(command, &["--quiet", "--config", "server.toml"]);
    // Names that make some 800 KiB of log.
    for number in 0..3000 {
        scene.write(format!("tree/{number:0>200}"), b"x");
    }
    let started = Instant::now();
    let flood = scene.start(["cp", "-r", "--quiet", "tree", &server.url_in("data", "")]);
    let grown = || std::fs::metadata(scene.path("audit.jsonl")).map_or(0, |log| log.len());
    until(grown, |bytes| *bytes >= 2 * RATE);
    let ada = server.url_in("data", "").replace("xdfs://", "xdfs://ada@");
    scene.run(["df", "--identity", &key, &ada]).ends_with(0);
    assert!(flood.is_running(), "somebody else waited longer than the one who fills the log");
    flood.wait().ends_with(0);
    let (took, bytes) = (started.elapsed(), grown());
    // Two seconds' worth goes ahead, and what was under way when the user began to wait.
    let least = bytes.saturating_sub(2 * RATE).saturating_sub(2 * RATE) / RATE;
    assert!(bytes > 5 * RATE, "{bytes}");
    assert!(took >= Duration::from_secs(least), "{bytes} bytes within {took:?}");
    let longest = scene.read("audit.jsonl").split(|byte| *byte == b'\n').map(<[u8]>::len).max();
    assert!(longest.is_some_and(|length| length < 4096), "{longest:?}");
    assert_eq!(server.stop(), Some(0));
}

/// A server with the user ada, her key, a token that she handed out, and this in its configuration.
fn with_token(scene: &Scene, limits: &str) -> (Server, String) {
    let config = format!("[exports.data]\ndirectory = \"data\"\n[log]\naudit = \"audit.jsonl\"\n[limits]\n{limits}\n");
    scene.write("server.toml", config.as_bytes());
    scene.directory("data");
    let key = scene.path("id").to_string_lossy().into_owned();
    scene.run(["key", "create", "--out", &key]).ends_with(0);
    scene.run(["user", "add", "ada", "--key", &format!("{key}.pub"), "--state", "state"]).ends_with(0);
    let token = ["user", "token", "ada", "--export", "data", "--write", "--out", "token", "--state", "state"];
    scene.run(token).ends_with(0);
    let command = scene.command(["serve", "--json", "--listen", "127.0.0.1:0", "--state", "state"]);
    (Server::start(command, &["--quiet", "--config", "server.toml"]), key)
}

#[test]
fn who_got_a_token_keeps_its_issuer_neither_waiting_nor_out() {
    let scene = Scene::new();
    const RATE: u64 = 64 << 10;
    let (server, key) = with_token(&scene, &format!("audit-bytes-per-second = {RATE}\nsessions-per-user = 1"));
    for number in 0..4500 {
        scene.write(format!("tree/{number:0>200}"), b"x");
    }
    let mut flood = scene.command(["cp", "-r", "--quiet", "tree", &server.url_in("data", "")]);
    let mut flood = flood.env("XDFS_TOKEN_FILE", "token").spawn().expect("xdfs runs");
    let grown = || std::fs::metadata(scene.path("audit.jsonl")).map_or(0, |log| log.len());
    until(grown, |bytes| *bytes >= 4 * RATE);
    let ada = |name: &str| server.url_in("data", name).replace("xdfs://", "xdfs://ada@");
    let ended = || String::from_utf8_lossy(&scene.read("audit.jsonl")).matches("\"session_ended\"").count();
    // Her own session has room, and four batches in it wait for nothing.
    let mut took = Duration::ZERO;
    for number in 0..4 {
        let url = ada(&format!("d{number}"));
        took += timed(|| {
            scene.run(["mkdir", "--identity", &key, &url]).ends_with(0);
        });
        // She has room for one, and the server ends it behind its answer.
        until(ended, |ended| *ended > number);
    }
    assert!(flood.try_wait().expect("it is ours").is_none(), "the issuer waited longer than the token's holder");
    assert!(took < Duration::from_secs(20), "the issuer waited {took:?}");
    assert!(flood.wait().expect("it is ours").success());
    assert_eq!(server.stop(), Some(0));
}
