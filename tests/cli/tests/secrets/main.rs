//! B25: canary secrets go through every kind of login, with success and without, and are looked for in everything that
//! client, server and administrator's commands said or left behind.

mod ftp;
#[path = "../ftp/scripted.rs"]
#[allow(dead_code, reason = "the tests of FTP use all of it")]
mod scripted;
mod search;
mod sessions;

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use search::Search;
use xdfs_test_cli::{Running, Scene, Server};

const PASSWORD: &str = "canary-1d0f-password";
const WRONG_PASSWORD: &str = "canary-77aa-guess";
const WRONG_TOKEN: &str = "xdfs-token-canary-5e5e-nonsense";

const LOCKED: &[u8] = include_bytes!("../../../../crates/secure/tests/keys/locked.key");
const LOCKED_PUBLIC: &str = include_str!("../../../../crates/secure/tests/keys/locked.pub");
/// Of the key above.
const PASSPHRASE: &str = "canary passphrase";
const WRONG_PASSPHRASE: &str = "canary-3b3b-passphrase";

fn write_secret(scene: &Scene, name: &str, content: &[u8]) {
    let path = scene.write(name, content);
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("its mode can be set");
}

/// Whatever somebody might have set to see more.
fn talkative(scene: &Scene, command: &mut Command) {
    command.env("RUST_LOG", "trace").env("RUST_BACKTRACE", "full").env("XDFS_LOG", "debug");
    command.env("SSLKEYLOGFILE", scene.path("tls-keys"));
}

/// The lines of a private key that hold it.
fn body(key: &[u8]) -> Vec<String> {
    let text = String::from_utf8(key.to_vec()).expect("a key file is text");
    text.lines().filter(|line| !line.starts_with('-') && line.len() >= 16).map(str::to_owned).collect()
}

#[test]
fn b25_no_secret_is_ever_said_logged_or_left_behind() {
    let scene = Scene::new();
    scene.write("server/a", b"content");
    write_secret(&scene, "secret-password", PASSWORD.as_bytes());
    write_secret(&scene, "secret-wrong", WRONG_PASSWORD.as_bytes());
    scene.write("secret-open", PASSWORD.as_bytes());
    write_secret(&scene, "home-carl/.ssh/id_ed25519", LOCKED);
    let mut search = Search::default();
    known(&mut search);

    let (token, key_file) = administer(&scene, &mut search);

    let server = serve(&scene, &token);
    search.said.push(("the ready line".into(), server.ready().to_string().into_bytes()));
    body(&scene.read("home-admin/state/xdfs/host_key")).iter().for_each(|line| search.canary(line));

    let run = |search: &mut Search, person: &str, words: &[&str], variables: &[(&str, &str)], good: bool| {
        let mut command = scene.command_as(person, words);
        talkative(&scene, &mut command);
        command.envs(variables.iter().copied()).stdin(Stdio::null());
        let outcome = Running::start(command).wait();
        assert_eq!(outcome.code == Some(0), good, "{words:?}: {}", outcome.messages);
        search.keep(&format!("{person}: {}", words.join(" ")), &outcome);
    };
    let url = |user: &str| format!("xdfs://{user}@{}/data/a#{}", server.address(), server.host_key());
    let (anna, bert, carl, nobody) = (url("anna"), url("bert"), url("carl"), url("x").replace("x@", ""));

    for words in [&["stat", "--json"][..], &["cp", "--json"]] {
        let target = if words[0] == "cp" { Some("got") } else { None };
        let line = |more: &[&str], url: &str| -> Vec<String> {
            let all = words.iter().chain(more).copied().chain([url]).chain(target);
            all.map(str::to_owned).collect()
        };
        let mut go = |person: &str, line: Vec<String>, variables: &[(&str, &str)], good: bool| {
            let words: Vec<&str> = line.iter().map(String::as_str).collect();
            run(&mut search, person, &words, variables, good);
        };
        go("anna", line(&[], &anna), &[], true);
        go("bert", line(&["--password-file", "secret-password"], &bert), &[], true);
        go("bert", line(&[], &bert), &[("XDFS_PASSWORD_FILE", "secret-password")], true);
        go("robot", line(&[], &nobody), &[("XDFS_TOKEN", &token)], true);
        go("robot", line(&[], &nobody), &[("XDFS_TOKEN_FILE", "secret-token")], true);
        // And all that fails.
        go("bert", line(&["--password-file", "secret-wrong"], &bert), &[], false);
        go("bert", line(&["--password-file", "secret-open"], &bert), &[], false);
        go("robot", line(&[], &nobody), &[("XDFS_TOKEN", WRONG_TOKEN)], false);
        go("robot", line(&[], &nobody), &[("XDFS_TOKEN_FILE", "secret-password")], false);
        go("robot", line(&[], &nobody.replace("/data/", "/other/")), &[("XDFS_TOKEN", &token)], false);
        go("bert", line(&["--identity", "secret-password"], &bert), &[], false);
        go("carl", line(&[], &carl), &[], false);
        // A password where a URL of another program would have it: refused, and not repeated.
        go("bert", line(&[], &bert.replace("bert@", &format!("bert:{PASSWORD}@"))), &[], false);
    }
    let mut terminal = {
        let mut command = scene.command_as("carl", ["stat", &carl]);
        talkative(&scene, &mut command);
        xdfs_test_cli::Terminal::start(&command)
    };
    terminal.expect("Passphrase of ");
    terminal.type_line(WRONG_PASSPHRASE);
    terminal.expect_times("Passphrase of ", 2);
    terminal.type_line(PASSPHRASE);
    search.said.push(("a terminal".into(), terminal.wait().1.into_bytes()));
    // The server and the process that waits to take over.
    assert_eq!(search.keep_processes(server.process()), 2);
    assert_eq!(server.stop(), Some(0));

    gather(&scene, &mut search, key_file);
    search.look();
}

/// The secrets that are known before anything runs.
fn known(search: &mut Search) {
    [PASSWORD, WRONG_PASSWORD, WRONG_TOKEN, PASSPHRASE, WRONG_PASSPHRASE].iter().for_each(|text| search.canary(text));
    body(LOCKED).iter().for_each(|line| search.canary(line));
}

/// The administrator's commands; the text of a token and where a key is.
fn administer(scene: &Scene, search: &mut Search) -> (String, std::path::PathBuf) {
    // The administrator's commands.
    let admin = |search: &mut Search, words: &[&str], input: &str| {
        let mut command = scene.command_as("admin", words);
        talkative(scene, &mut command);
        let mut running = Running::start(command);
        running.feed(input.as_bytes());
        search.keep(&words.join(" "), running.wait().ends_with(0));
    };
    let annas = scene.run_as("anna", ["key", "create"]);
    search.keep("key create", &annas);
    admin(search, &["user", "add", "anna", "--key", "-"], annas.text());
    admin(search, &["user", "add", "carl", "--key", "-"], LOCKED_PUBLIC);
    admin(search, &["user", "add", "bert", "--password-file", "secret-password"], "");
    admin(search, &["user", "token", "anna", "--export", "data", "--out", "secret-token"], "");
    admin(search, &["user", "list"], "");
    admin(search, &["user", "list", "--json"], "");
    let token = String::from_utf8(scene.read("secret-token")).expect("a token is text").trim().to_owned();
    let key_file = scene.home("anna", "state/xdfs/id_ed25519");
    body(&std::fs::read(&key_file).expect("the key is there")).iter().for_each(|line| search.canary(line));
    search.canary(&token["xdfs-token-".len()..]);
    (token, key_file)
}

/// Everything that is left, but for the files that hold a secret on purpose.
fn gather(scene: &Scene, search: &mut Search, key_file: std::path::PathBuf) {
    assert!(!scene.path("tls-keys").exists(), "no key of a connection is written down");
    let log = scene.read("log/audit.jsonl");
    assert!(log.windows(4).any(|word| word == b"anna"), "the audit log was written");
    let holds = [key_file, scene.home("carl", ".ssh/id_ed25519"), scene.home("admin", "state/xdfs/host_key")];
    search.keep_files(&scene.path(""), |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("secret-") || holds.iter().any(|held| held == path)
    });
    assert!(search.said.len() > 50, "{}", search.said.len());
}

/// A server that tells everything, with an audit log, started by somebody who has a token set.
fn serve(scene: &Scene, token: &str) -> Server {
    scene.write("server.toml", b"[exports.data]\ndirectory = \"server\"\n[log]\naudit = \"log/audit.jsonl\"\n");
    scene.directory("log");
    let mut command = scene.command_as("admin", ["serve", "--json", "--listen", "127.0.0.1:0"]);
    talkative(scene, &mut command);
    command.env("XDFS_TOKEN", token);
    command.stderr(std::fs::File::create(scene.path("server-log")).expect("a file for the log"));
    Server::start(command, &["--config", "server.toml"])
}

#[test]
fn b25_no_secret_is_among_the_words_or_variables_of_the_programs_that_a_demonstration_starts() {
    let scene = Scene::new();
    let mut command = scene.command_as("anna", ["demo", "--size", "1MiB", "--directory", "."]);
    talkative(&scene, &mut command);
    command.env("XDFS_TOKEN", WRONG_TOKEN);
    let running = Running::start(command);
    let (mut search, mut keys, mut most) = (Search::default(), std::collections::BTreeSet::new(), 0);
    search.canary(WRONG_TOKEN);
    // Its keys are in a folder of its own for as long as it runs; one that is being written may be half a key.
    while !running.has_ended() {
        most = most.max(search.keep_processes(running.process()));
        let mut found = Vec::new();
        search::files(&scene.path(""), &mut found);
        for path in found.iter().filter(|path| path.ends_with("host_key") || path.ends_with("id_ed25519")) {
            keys.insert(path.clone());
            let text = std::fs::read(path).unwrap_or_default();
            body(&text).iter().for_each(|line| search.canary(line));
        }
        search.said.sort();
        search.said.dedup_by(|one, other| one.1 == other.1);
        std::thread::yield_now();
    }
    search.keep("demo", running.wait().ends_with(0));
    assert!(most >= 2 && keys.len() >= 2, "{most} processes, {keys:?}");
    search.look();
}
