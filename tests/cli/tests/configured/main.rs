//! Servers that follow a configuration file: what it says holds, mistakes are named, and a reload loses nobody.

mod hand_over;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use xdfs_test_cli::{Relay, Running, Scene, Server, exit, pattern, xdfs_binary};

const PATIENCE: Duration = Duration::from_secs(30);

/// Starts a server by the file `server.toml` of the scene.
fn serve(scene: &Scene, config: &str) -> Server {
    scene.write("server.toml", config.as_bytes());
    Server::start(scene.command(["serve", "--json", "--listen", "127.0.0.1:0"]), &["--config", "server.toml"])
}

fn export(name: &str, directory: &str, more: &str) -> String {
    format!("[exports.{name}]\ndirectory = \"{directory}\"\nanonymous = \"rw\"\n{more}\n")
}

const AUDIT: &str = "[log]\naudit = \"log/audit.jsonl\"\nquiet = true\n";

/// The events in the scene's audit log.
fn events(scene: &Scene) -> Vec<Value> {
    scene.json_lines("log/audit.jsonl")
}

/// Waits for an event.
#[track_caller]
fn event(scene: &Scene, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(event) = events(scene).into_iter().find(&wanted) {
            return event;
        }
        assert!(Instant::now() < until, "no event: {what}; there are {:#?}", events(scene));
        std::thread::yield_now();
    }
}

fn reloads(scene: &Scene, outcome: &str) -> usize {
    events(scene).iter().filter(|event| event["event"] == "reloaded" && event["outcome"] == outcome).count()
}

/// Replaces the file and waits until the server has judged it.
#[track_caller]
fn reload(scene: &Scene, server: &Server, config: &str, outcome: &str) {
    let before = reloads(scene, outcome);
    scene.write("server.toml", config.as_bytes());
    server.signal(Signal::HUP);
    let until = Instant::now() + PATIENCE;
    while reloads(scene, outcome) == before {
        assert!(Instant::now() < until, "no reload: {:#?}", events(scene));
        std::thread::yield_now();
    }
}

/// A scene with the directories that the tests use.
fn scene() -> Scene {
    let scene = Scene::new();
    for name in ["a", "b", "log"] {
        scene.directory(name);
    }
    scene
}

#[test]
fn what_the_file_says_holds_and_the_audit_log_tells_what_happened() {
    let scene = scene();
    let config = format!(
        "{AUDIT}{}{}{}",
        export("files", "a", ""),
        export("fixed", "a", "access = \"ro\"").replace("anonymous = \"rw\"", "anonymous = \"ro\""),
        export("hidden", "b", "").replace("anonymous = \"rw\"", "anonymous = \"none\""),
    );
    let server = serve(&scene, &config);
    scene.write("file", &pattern(100_000, 1));
    let copy = |export: &str| scene.run(["cp", "file", &server.url_in(export, "copy")]);
    copy("files").ends_with(0);
    assert_eq!(scene.read("a/copy"), pattern(100_000, 1));
    copy("fixed").fails();
    copy("hidden").fails();
    assert!(scene.names("b").is_empty());
    let done = event(&scene, "the copy", |event| event["event"] == "transfer" && event["outcome"] == "ok");
    assert_eq!(
        (&done["path"], &done["bytes"], &done["direction"]),
        (&"files/copy".into(), &100_000.into(), &"upload".into())
    );
    let refused = |path: &str| {
        event(&scene, path, |event| event["path"] == path && event["outcome"] == "failed")["error"].to_string()
    };
    assert!(refused("fixed/copy").contains("read-only"));
    assert!(refused("hidden/copy").contains("no export"));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_file_with_a_mistake_stops_the_start_with_its_line() {
    let scene = scene();
    for (config, words) in [
        ("\nlisten = \"127.0.0.1:0\"\nlimit = 3\n", "server.toml:3: unknown field `limit`"),
        ("[exports.x]\ndirectory = \"absent\"\n", "server.toml:2: export 'x'"),
        ("", "nothing is offered"),
    ] {
        scene.write("server.toml", config.as_bytes());
        let outcome = scene.run(["serve", "--config", "server.toml"]);
        outcome.ends_with(exit::USAGE).says(&[words]);
    }
}

#[test]
fn a_check_finds_places_that_are_missing_or_may_not_be_written() {
    if !xdfs_test_needs::namespaces() {
        return;
    }
    let scene = scene();
    let files = export("files", "a", "");
    scene.directory("fixed");
    let check = |config: &str| {
        scene.write("server.toml", config.as_bytes());
        // As root everything may be written: root of a namespace has no right to what others own.
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user"]).arg(xdfs_binary()).current_dir(scene.path(""));
        command.args(["serve", "--check", "--config", "server.toml"]);
        scene.dress("somebody", &mut command);
        Running::start(command).wait()
    };
    let audit = check(&format!("{files}[log]\naudit = \"nodir/audit.jsonl\"\n"));
    audit.ends_with(exit::USAGE).says(&["server.toml:6: the audit log needs the directory", "nodir"]);
    let metrics = check(&format!("metrics = \"unix:nodir/m.sock\"\n{files}"));
    metrics.ends_with(exit::NOT_FOUND).says(&["the socket of the metrics", "nodir/m.sock: no such file"]);
    let fine = format!("state = \"b/state\"\nmetrics = \"unix:log/m.sock\"\n{AUDIT}{files}");
    check(&fine).ends_with(0).is_silent();
    assert!(scene.names("b").is_empty() && scene.names("log").is_empty(), "nothing is made");
    std::fs::set_permissions(scene.path("fixed"), PermissionsExt::from_mode(0o555)).unwrap();
    std::os::unix::fs::chown(scene.path("fixed"), Some(12_345), Some(12_345)).unwrap();
    for (key, what) in
        [("state = \"fixed/x/state\"", "the state folder"), ("metrics = \"unix:fixed/m\"", "the metrics")]
    {
        check(&format!("{key}\n{files}")).ends_with(exit::PERMISSION_DENIED).says(&[what, "fixed/", "denied"]);
    }
    let audit = check(&format!("{files}[log]\naudit = \"fixed/audit.jsonl\"\n"));
    audit.ends_with(exit::PERMISSION_DENIED).says(&["the audit log", "fixed/audit.jsonl"]);
}

#[test]
fn a_server_is_confined_before_its_threads_start() {
    let scene = scene();
    let server = serve(&scene, &export("files", "a", ""));
    let process = server.process().as_raw_nonzero();
    // Whatever it answers: its threads run then.
    scene.run(["stat", &server.url_in("files", "absent")]);
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut seen = 0;
    for task in tasks {
        // A thread that has ended meanwhile says nothing.
        let Ok(status) = std::fs::read_to_string(task.unwrap().path().join("status")) else { continue };
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim().to_owned();
        assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".into(), "2".into()), "{status}");
        seen += 1;
    }
    assert!(seen >= 2, "the main thread and the listener's");
    // A link that leads out of the export: refused by the resolver, and by the kernel behind it.
    std::os::unix::fs::symlink("/etc", scene.path("a/link")).unwrap();
    scene.run(["cp", &server.url_in("files", "link/passwd"), "stolen"]).fails();
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_reload_changes_rights_and_a_mistake_changes_nothing() {
    let scene = scene();
    let open = format!("{AUDIT}{}", export("files", "a", ""));
    let server = serve(&scene, &open);
    scene.write("file", b"content");
    let copy = |to: &str| scene.run(["cp", "file", &server.url_in("files", to)]).code;
    assert_eq!(copy("1"), Some(0));
    reload(&scene, &server, "[exports.files]\ndirectory = 5\n", "failed");
    assert_eq!(copy("2"), Some(0), "the old configuration still holds");
    reload(&scene, &server, &open.replace("\"rw\"", "\"ro\""), "ok");
    assert_ne!(copy("3"), Some(0));
    reload(&scene, &server, &open, "ok");
    assert_eq!(copy("4"), Some(0));
    assert_eq!(scene.names("a"), ["1", "2", "4"]);
    assert_eq!(server.stop(), Some(0));
}

/// A copy of so many files of so many bytes to `files/tree`, which has begun and waits for the relay.
fn held_copy(scene: &Scene, server: &Server, (files, bytes): (usize, usize), options: &[&str]) -> (Running, Relay) {
    for number in 0..files {
        scene.write(format!("tree/{number}"), &pattern(bytes, number as u64));
    }
    let relay = Relay::holding(server, 1, 4 << 20);
    let url = format!("xdfs://{}/files/tree#{}", relay.address(), server.host_key());
    let sending = scene.start([&["cp", "-r", "--quiet"], options, &["tree", &url]].concat());
    relay.wait_until_held();
    (sending, relay)
}

/// What began before goes on as it was granted, and what a session that was open asks for behind it is protected as the new
/// floor says.
#[test]
fn a_floor_that_is_raised_holds_for_open_sessions_too() {
    // Small files go as calls do, which are private in any case.
    const LARGE: usize = 200;
    let scene = scene();
    let exports = format!("{AUDIT}{}", export("files", "a", ""));
    let server = serve(&scene, &exports);
    let options = ["-P", "1", "--protection", "integrity"];
    let (sending, relay) = held_copy(&scene, &server, (LARGE, 128 << 10), &options);
    reload(&scene, &server, &format!("min-protection = \"private\"\n{exports}"), "ok");
    relay.release();
    sending.wait().ends_with(exit::DONE);
    assert_eq!(server.stop(), Some(0));
    let at = |level: &str| events(&scene).iter().filter(|event| event["protection"] == level).count();
    let (before, behind) = (at("integrity"), at("private"));
    // So many may have been on their way.
    assert!(before > 0 && behind > LARGE / 2, "{before} at integrity, {behind} at private");
    assert_eq!(before + behind, LARGE);
}

#[test]
fn what_belongs_to_the_server_is_not_offered() {
    let scene = scene();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--state"];
    for (state, offer) in [("a/state", "x=a"), ("a", "x=a/below")] {
        scene.directory("a/below");
        let outcome = scene.run(serve.iter().copied().chain([state, "--export", offer]));
        outcome.ends_with(exit::USAGE).says(&["'x'", "users", "--state DIR"]);
    }
    // Whoever may write would say what is offered, or what was done.
    scene.write("a/server.toml", export("x", ".", "").as_bytes());
    let outcome = scene.run(serve.iter().copied().chain(["b", "--config", "a/server.toml"]));
    outcome.ends_with(exit::USAGE).says(&["'x'", "configuration"]);
    scene.directory("a/log");
    scene.write("a/server.toml", format!("{AUDIT}{}", export("x", "log", "")).as_bytes());
    let outcome = scene.run(serve.iter().copied().chain(["b", "--config", "a/server.toml"]));
    outcome.ends_with(exit::USAGE).says(&["'x'", "audit log"]);
}

#[test]
fn a_hangup_with_nothing_to_read_again_ends_a_server_in_order() {
    let scene = Scene::new();
    let server = scene.serve();
    server.signal(Signal::HUP);
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn a_login_that_fails_is_told_with_who_how_and_why() {
    let scene = scene();
    let key = scene.path("id").to_string_lossy().into_owned();
    scene.run(["key", "create", "--out", &key]).ends_with(0);
    scene.run(["user", "add", "alice", "--key", &format!("{key}.pub")]).ends_with(0);
    let server = serve(&scene, &format!("{AUDIT}{}", export("files", "a", "")));
    scene.write("file", b"content");
    let as_user = |user: &str| {
        let url = server.url_in("files", "copy").replace("xdfs://", &format!("xdfs://{user}@"));
        scene.run(["cp", "--identity", &key, "file", &url])
    };
    as_user("bob").ends_with(exit::LOGIN_REFUSED);
    let told = event(&scene, "the failed login", |event| event["event"] == "login_failed");
    assert_eq!((&told["user"], &told["method"]), (&"bob".into(), &"key".into()), "{told}");
    assert!(told["key"].as_str().is_some_and(|key| key.starts_with("SHA256:")), "{told}");
    assert!(told["error"].as_str().is_some_and(|error| error.contains("nobody of this name")), "{told}");
    as_user("alice").ends_with(0);
    let count = |name: &str| events(&scene).iter().filter(|event| event["event"] == name).count();
    assert_eq!((count("login_failed"), count("refused")), (1, 0), "{:#?}", events(&scene));
    scene.run(["user", "revoke", "alice"]).ends_with(0);
    let refused = as_user("alice");
    refused.ends_with(exit::LOGIN_REFUSED);
    assert!(!refused.messages.contains("revoked"), "{}", refused.messages);
    let revoked = |event: &Value| event["error"].as_str().is_some_and(|error| error.contains("xdfs user restore"));
    assert_eq!(event(&scene, "the revoked user", revoked)["user"], "alice");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn users_have_to_exist_and_a_confined_server_sees_those_who_come_later() {
    let scene = scene();
    let config = format!("{AUDIT}{}", export("files", "a", "users = [\"alice\"]"));
    scene.write("server.toml", config.as_bytes());
    let serve = ["serve", "--listen", "127.0.0.1:0", "--config", "server.toml", "--state", "state"];
    scene.run(serve).ends_with(exit::USAGE).says(&["server.toml:7:", "'alice'", "xdfs user add"]);
    let key = scene.path("id");
    scene.run(["key", "create", "--out", &key.to_string_lossy()]).ends_with(0);
    let public = format!("{}.pub", key.display());
    let add = |name: &str| scene.run(["user", "add", name, "--key", &public, "--state", "state"]).ends_with(0).clone();
    add("alice");
    let mut command = scene.command(["serve", "--json", "--listen", "127.0.0.1:0", "--state", "state"]);
    command.args(["--confinement", "required"]);
    let server = Server::start(command, &["--config", "server.toml"]);
    add("bob");
    scene.write("file", b"content");
    // Every login looks whether the users changed.
    scene.run(["cp", "file", &server.url_in("files", "copy")]).ends_with(0);
    assert_eq!(reloads(&scene, "failed"), 0, "the users can be read from inside");
    assert_eq!(server.stop(), Some(0));
}
