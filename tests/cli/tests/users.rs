//! `xdfs user`: what an administrator says about who may log in, and what is kept of it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use xdfs_test_cli::{Outcome, Running, Scene, Server, exit};

const PUBLIC: &str = include_str!("../../../crates/secure/tests/keys/plain.pub");
const PUBLIC_2: &str = include_str!("../../../crates/secure/tests/keys/locked.pub");
const RSA_PUBLIC: &str = include_str!("../../../crates/secure/tests/keys/rsa.pub");
const PRIVATE: &[u8] = include_bytes!("../../../crates/secure/tests/keys/plain.key");

/// A password that must never be seen again.
const CANARY: &str = "canary-7f3a-password";

fn user(scene: &Scene, line: &str) -> Outcome {
    scene.run_as("admin", ["user"].into_iter().chain(line.split_whitespace()))
}

fn secret_file(scene: &Scene, name: &str, content: &str) {
    let path = scene.write(name, content.as_bytes());
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("its mode can be set");
}

fn listed(scene: &Scene) -> Vec<serde_json::Value> {
    user(scene, "list --json").objects()
}

#[test]
fn a_user_is_added_with_one_command_and_listed() {
    let scene = Scene::new();
    user(&scene, "list").ends_with(0).says(&["nobody may log in yet"]);
    scene.write("anna.pub", PUBLIC.as_bytes());
    let added = user(&scene, "add anna --key anna.pub");
    let folder = scene.home("admin", "state/xdfs");
    let note = format!(
        "note: no server has used {} yet\nhelp: if your server runs as another user or with ",
        folder.display()
    );
    added.ends_with(0).says(&[&note]);
    let list = user(&scene, "list");
    for part in ["anna\n", "key", "SHA256:", "anna@laptop"] {
        assert!(list.text().contains(part), "{part} in {}", list.text());
    }
    let file = scene.home("admin", "state/xdfs/users.toml");
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o7777, 0o600);
    user(&scene, "add anna").ends_with(exit::EXISTS).says(&["already", "xdfs user key"]);
    user(&scene, "add empty").ends_with(0).says(&[
        "nothing logs empty in yet",
        "'xdfs user key empty FILE.pub'",
        "'xdfs user password empty'",
        "'xdfs user token empty --export EXPORT'",
    ]);
    // What the message and the help say lets them in, in any order.
    secret_file(&scene, "secret", CANARY);
    user(&scene, "password empty --password-file secret").ends_with(0);
    user(&scene, "key empty anna.pub").ends_with(0);
    for name in ["a/b", "a@b", "anonymous", "-x"] {
        scene.run_as("admin", ["user", "add", "--", name]).ends_with(exit::USAGE).says(&["name"]);
    }
}

#[test]
fn keys_come_from_lines_lists_and_standard_input_and_others_are_refused() {
    let scene = Scene::new();
    scene.write("one.pub", PUBLIC.as_bytes());
    scene.write("list", format!("# keys\n{RSA_PUBLIC}{PUBLIC}{PUBLIC_2}").as_bytes());
    scene.write("rsa.pub", RSA_PUBLIC.as_bytes());
    scene.write("options", format!("no-pty {PUBLIC}").as_bytes());
    scene.write("private", PRIVATE);
    scene.write("nonsense", b"nonsense");
    scene.write("huge", &[b'a'; 200_000]);
    user(&scene, "add anna --key list").ends_with(0).says(&["1 key(s) of other kinds", "left out"]);
    assert_eq!(listed(&scene)[0]["keys"].as_array().unwrap().len(), 2);
    // What is there already is no second one.
    user(&scene, "key anna one.pub").ends_with(0);
    assert_eq!(listed(&scene)[0]["keys"].as_array().unwrap().len(), 2);
    let mut typed = Running::start(scene.command_as("admin", ["user", "add", "bert", "--key", "-"]));
    typed.feed(PUBLIC_2.as_bytes());
    typed.wait().ends_with(0);
    for (file, part) in [
        ("rsa.pub", "ssh-rsa"),
        ("options", "options"),
        ("private", "ends in .pub"),
        ("nonsense", "line 1"),
        ("huge", "bytes"),
        ("missing", "no such file"),
    ] {
        let code = if file == "missing" { exit::NOT_FOUND } else { exit::LOCAL };
        user(&scene, &format!("add carl --key {file}")).ends_with(code).says(&[file, part]);
    }
    assert_eq!(listed(&scene).len(), 2, "who was refused is not there");
}

#[test]
fn a_password_is_read_from_a_private_file_and_kept_as_a_verifier_alone() {
    let scene = Scene::new();
    secret_file(&scene, "secret", &format!("{CANARY}\nsecond line\n"));
    secret_file(&scene, "short", "1234567\n");
    secret_file(&scene, "empty", "");
    scene.write("open", b"long enough");
    let added = user(&scene, "add bert --password-file secret");
    assert!(!added.ends_with(0).messages.contains(CANARY), "{}", added.messages);
    let kept = String::from_utf8(std::fs::read(scene.home("admin", "state/xdfs/users.toml")).unwrap()).unwrap();
    assert!(kept.contains("SCRAM-SHA-256$600000:") && !kept.contains(CANARY), "{kept}");
    assert_eq!(listed(&scene)[0]["password"], true);
    for (file, code, part) in [
        ("short", exit::USAGE, "8"),
        ("empty", exit::USAGE, "8"),
        ("open", exit::PERMISSION_DENIED, "chmod"),
        ("missing", exit::NOT_FOUND, "missing"),
    ] {
        user(&scene, &format!("password bert --password-file {file}")).ends_with(code).says(&[part]);
    }
    user(&scene, "password carl --password-file secret")
        .ends_with(exit::NOT_FOUND)
        .says(&["no user 'carl'", "xdfs user list"]);
    // There is nobody to ask.
    user(&scene, "password bert").ends_with(exit::USAGE).says(&["no terminal", "--password-file"]);
}

#[test]
fn a_password_is_asked_for_twice_and_never_shown() {
    let scene = Scene::new();
    let mut terminal = scene.terminal_as("admin", ["user", "add", "bert", "--password"]);
    terminal.expect("New password of bert: ");
    terminal.type_line(CANARY);
    terminal.expect("Once more: ");
    terminal.type_line(CANARY);
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("user bert is added with a password") && !shown.contains(CANARY), "{shown}");
    let mut terminal = scene.terminal_as("admin", ["user", "password", "bert"]);
    terminal.expect("New password of bert: ");
    terminal.type_line("one password");
    terminal.expect("Once more: ");
    terminal.type_line("another one");
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(2), "{shown}");
    assert!(shown.contains("differ"), "{shown}");
    let mut terminal = scene.terminal_as("admin", ["user", "password", "bert"]);
    terminal.expect("New password of bert: ");
    // Ctrl-C.
    terminal.type_key(3);
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(130), "{shown}");
}

#[test]
fn a_token_is_told_once_and_kept_as_a_public_half() {
    let scene = Scene::new();
    user(&scene, "add anna").ends_with(0);
    let made = user(&scene, "token anna --export data --path /run%207/in/ --write --expires 2h");
    made.ends_with(0).says(&["SHA256:", "reads and writes data/run 7/in, until 20"]);
    let token = made.text().trim_end().to_owned();
    assert!(token.starts_with("xdfs-token-") && token.len() == 54 && !made.messages.contains(&token), "{token}");
    let kept = String::from_utf8(std::fs::read(scene.home("admin", "state/xdfs/users.toml")).unwrap()).unwrap();
    assert!(!kept.contains(&token[11..]), "{kept}");
    let line = &listed(&scene)[0]["tokens"][0];
    assert_eq!((&line["export"], &line["path"], &line["write"]), (&"data".into(), &"run 7/in".into(), &true.into()));
    user(&scene, "token anna --export data --out token").ends_with(0);
    assert_eq!(std::fs::metadata(scene.path("token")).unwrap().mode() & 0o7777, 0o600);
    assert!(scene.read("token").starts_with(b"xdfs-token-"));
    user(&scene, "token anna --export data --out token").ends_with(exit::EXISTS).says(&["exists"]);
    for (options, part) in [
        ("--export data --expires 0d", "expires"),
        ("--export data --expires 2020-01-01", "is over"),
        ("--export data --expires soon", "30m, 12h"),
        ("--export a/b", "--export"),
        ("--export data --path ../x", "--path"),
        ("--export data --path a%2Fb", "--path"),
        ("--export data --read --write", "--write"),
        ("--path x", "--export"),
    ] {
        user(&scene, &format!("token anna {options}")).ends_with(exit::USAGE).says(&[part]);
    }
    user(&scene, "token bert --export data --out other").ends_with(exit::NOT_FOUND).says(&["no user 'bert'"]);
    assert!(!scene.path("other").exists());
}

#[test]
fn what_was_given_can_be_taken_away_in_parts_or_at_once() {
    let scene = Scene::new();
    scene.write("keys", format!("{PUBLIC}{PUBLIC_2}").as_bytes());
    secret_file(&scene, "secret", CANARY);
    user(&scene, "add anna --key keys --password-file secret").ends_with(0);
    user(&scene, "token anna --export data").ends_with(0);
    let before = listed(&scene).remove(0);
    let (key, token) = (before["keys"][1]["fingerprint"].clone(), before["tokens"][0]["fingerprint"].clone());
    user(&scene, &format!("revoke anna --key {}", key.as_str().unwrap())).ends_with(0);
    user(&scene, &format!("revoke anna --token {}", token.as_str().unwrap())).ends_with(0);
    user(&scene, &format!("revoke anna --token {}", token.as_str().unwrap()))
        .ends_with(exit::NOT_FOUND)
        .says(&["has no key or token"]);
    user(&scene, "revoke anna --password").ends_with(0);
    user(&scene, "revoke anna --password").ends_with(exit::NOT_FOUND).says(&["no password"]);
    user(&scene, "revoke anna --key MD5:x").ends_with(exit::USAGE).says(&["SHA256:"]);
    let after = listed(&scene).remove(0);
    assert_eq!(after["keys"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&after["tokens"], &after["password"], &after["revoked"]),
        (&serde_json::json!([]), &false.into(), &false.into())
    );
    user(&scene, "revoke anna").ends_with(0);
    assert_eq!(listed(&scene)[0]["revoked"], true);
    assert!(user(&scene, "list").text().contains("anna (revoked)"));
    assert!(user(&scene, "restore anna").ends_with(0).is_silent().text().contains("may log in again"));
    assert_eq!(listed(&scene)[0]["revoked"], false);
    user(&scene, "revoke bert").ends_with(exit::NOT_FOUND).says(&["no user 'bert'"]);
}

#[test]
fn who_still_cannot_log_in_is_told_with_the_command_that_changes_it() {
    let scene = Scene::new();
    scene.write("anna.pub", PUBLIC.as_bytes());
    secret_file(&scene, "secret", CANARY);
    user(&scene, "add anna").ends_with(0);
    user(&scene, "revoke anna").ends_with(0);
    for line in ["key anna anna.pub", "password anna --password-file secret", "token anna --export data"] {
        user(&scene, line).ends_with(0).says(&["anna is revoked", "'xdfs user restore anna'"]);
    }
    assert!(user(&scene, "restore anna").ends_with(0).is_silent().text().contains("may log in again"));
    let again = user(&scene, "restore anna");
    assert!(again.ends_with(0).is_silent().text().contains("was not revoked"), "{}", again.text());
    user(&scene, "password anna --password-file secret").ends_with(0).is_silent();
    // Restored, and there is nothing to log in with.
    user(&scene, "add bert").ends_with(0);
    user(&scene, "revoke bert").ends_with(0);
    let restored = user(&scene, "restore bert");
    restored.ends_with(0).says(&["no key and no password", "'xdfs user key bert FILE.pub'"]);
    assert!(!restored.text().contains("may log in"), "{}", restored.text());
}

#[test]
fn many_administrators_at_once_lose_nobody() {
    let scene = Scene::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let scene = &scene;
            scope.spawn(move || user(scene, &format!("add user-{number}")).ends_with(0).clone());
        }
    });
    assert_eq!(listed(&scene).len(), 8);
}

#[test]
fn who_was_added_logs_in_with_the_next_command_and_who_was_revoked_does_not() {
    let scene = Scene::new();
    scene.directory("data");
    scene.write("server.toml", b"[exports.data]\ndirectory = \"data\"\n");
    let key = scene.path("id").to_string_lossy().into_owned();
    scene.run(["key", "create", "--out", &key]).ends_with(0);
    let command = scene.command(["serve", "--json", "--listen", "127.0.0.1:0", "--state", "state"]);
    let server = Server::start(command, &["--quiet", "--config", "server.toml"]);
    scene.trust(server.address(), &server);
    let public = format!("{key}.pub");
    // A second is long enough for the server to look by itself, and several rounds take less.
    let ls = |name: &str| {
        let url = server.url_in("data", "").replace("xdfs://", &format!("xdfs://{name}@"));
        scene.run(["ls", "--identity", &key, &url])
    };
    for name in ["one", "two", "three", "four", "five"] {
        scene.run(["user", "add", name, "--key", &public, "--state", "state"]).ends_with(0);
        ls(name).ends_with(0);
    }
    scene.run(["user", "revoke", "five", "--state", "state"]).ends_with(0);
    ls("five").ends_with(exit::LOGIN_REFUSED);
    assert_eq!(server.stop(), Some(0));
}
