//! The ways to log in: from files and variables, and by what somebody types.

use xdfs_test_cli::{Relay, Running, Scene, exit, pattern};

use super::{add, pin, serve, url, wait_for_change, write_secret};

const LOCKED: &[u8] = include_bytes!("../../../../crates/secure/tests/keys/locked.key");
const LOCKED_PUBLIC: &str = include_str!("../../../../crates/secure/tests/keys/locked.pub");

#[test]
fn a_password_logs_in_from_a_file_and_from_the_terminal_and_is_never_shown() {
    let scene = Scene::new();
    write_secret(&scene, "secret", b"canary horse battery\n");
    write_secret(&scene, "wrong", b"something else\n");
    scene.run_as("admin", ["user", "add", "bert", "--password-file", "secret"]).ends_with(0);
    let server = serve(&scene, &[]);
    pin(&scene, "bert", &server);
    let target = url("bert", &server, "");
    scene.run_as("bert", ["stat", "--password-file", "secret", &target]).ends_with(0);
    let mut command = scene.command_as("bert", ["stat", &target]);
    command.env("XDFS_PASSWORD_FILE", "secret");
    Running::start(command).wait().ends_with(0);
    scene.run_as("bert", ["stat", "--password-file", "wrong", &target]).ends_with(exit::LOGIN_REFUSED).says(&[
        "login",
        "wrong",
        "xdfs user password bert",
    ]);
    let mut terminal = scene.terminal_as("bert", ["stat", &target]);
    terminal.expect(&format!("Password of bert on {}: ", server.address()));
    terminal.type_line("canary horse battery");
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("directory") && !shown.contains("canary"), "{shown}");
}

#[test]
fn a_password_that_was_mistyped_is_asked_for_again_and_not_for_ever() {
    let scene = Scene::new();
    write_secret(&scene, "secret", b"canary horse battery\n");
    scene.run_as("admin", ["user", "add", "bert", "--password-file", "secret"]).ends_with(0);
    for (typed, code) in [
        (["one wrong guess", "another wrong one", "canary horse battery"], 0),
        (["one wrong guess", "another wrong one", "and a third one"], exit::LOGIN_REFUSED),
    ] {
        // A server of its own: one that was tried too often makes everybody from here wait.
        let server = serve(&scene, &[]);
        pin(&scene, "bert", &server);
        let mut terminal = scene.terminal_as("bert", ["stat", &url("bert", &server, "")]);
        for (number, line) in typed.into_iter().enumerate() {
            terminal.expect_times("Password of bert", number + 1);
            terminal.type_line(line);
        }
        let (ended, shown) = terminal.wait();
        assert_eq!(ended, Some(code), "{shown}");
        assert_eq!(shown.matches("the password was not taken; try again").count(), 2, "{shown}");
        assert_eq!(shown.contains("is it the right password?"), code != 0, "{shown}");
    }
}

#[test]
fn an_empty_line_is_no_password_and_costs_no_attempt() {
    let scene = Scene::new();
    write_secret(&scene, "secret", b"canary horse battery\n");
    scene.run_as("admin", ["user", "add", "bert", "--password-file", "secret"]).ends_with(0);
    let server = serve(&scene, &[]);
    pin(&scene, "bert", &server);
    let mut terminal = scene.terminal_as("bert", ["stat", &url("bert", &server, "")]);
    for (number, line) in (1..).zip(["", "a wrong guess", "", "another", "canary horse battery"]) {
        terminal.expect_times("Password of bert", number);
        terminal.type_line(line);
    }
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(shown.matches("no password was typed").count(), 2, "{shown}");
}

#[test]
fn a_key_that_is_not_accepted_is_told_before_a_password_is_asked_for() {
    let scene = Scene::new();
    write_secret(&scene, "secret", b"canary horse battery\n");
    scene.run_as("admin", ["user", "add", "bert", "--password-file", "secret"]).ends_with(0);
    let server = serve(&scene, &[]);
    pin(&scene, "bert", &server);
    let line = scene.run_as("bert", ["key", "create"]).text().trim().to_owned();
    let mut terminal = scene.terminal_as("bert", ["stat", &url("bert", &server, "")]);
    for number in 1..=3 {
        terminal.expect_times("Password of bert", number);
        terminal.type_line("a wrong guess");
    }
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(exit::LOGIN_REFUSED), "{shown}");
    let told = format!("was not accepted by {}", server.address());
    let (key, question) = (shown.find(&told), shown.find("Password of bert"));
    assert!(key.is_some() && key < question && shown.matches(&told).count() == 1, "{shown}");
    for tried in ["offered: key SHA256:", "offered: the password that was typed"] {
        assert_eq!(shown.matches(tried).count(), 1, "{shown}");
    }
    let last = shown.rfind("help: ").map(|at| &shown[at..]).unwrap_or_default();
    assert!(last.contains(&format!("echo '{line}' | xdfs user add bert --key -")), "{shown}");
}

#[test]
fn a_password_is_typed_once_for_a_copy_whose_connection_is_lost() {
    let scene = Scene::new();
    write_secret(&scene, "secret", b"canary horse battery\n");
    scene.run_as("admin", ["user", "add", "bert", "--password-file", "secret"]).ends_with(0);
    let server = serve(&scene, &[]);
    let content = pattern(32 << 20, 1);
    scene.write("source", &content);
    let relay = Relay::holding(&server, 1, 8 << 20);
    let target = relay.url("copy").replace("xdfs://", "xdfs://bert@");
    let mut terminal = scene.terminal_as("bert", ["cp", "-P", "1", "source", &target]);
    terminal.expect("Password of bert on ");
    terminal.type_line("canary horse battery");
    relay.wait_until_held();
    // The first connection ended with the question.
    relay.cut(1);
    relay.release();
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("trying again") && shown.matches("Password of").count() == 1, "{shown}");
    assert!(scene.read("server/copy") == content);
}

#[test]
fn a_key_with_a_passphrase_logs_in_when_somebody_types_it() {
    let scene = Scene::new();
    add(&scene, "carl", LOCKED_PUBLIC);
    write_secret(&scene, "home-carl/.ssh/id_ed25519", LOCKED);
    let server = serve(&scene, &[]);
    pin(&scene, "carl", &server);
    let target = url("carl", &server, "");
    // The key was not offered, so nobody has to let it in.
    let unsuitable = ["echo", "lets this key in", "you have no key"];
    let key = scene.home("carl", ".ssh/id_ed25519");
    for words in [&["stat", &target][..], &["stat", "--identity", key.to_str().unwrap(), &target]] {
        let refused = scene.run_as("carl", words);
        refused
            .ends_with(exit::LOGIN_REFUSED)
            .says(&["passphrase", "from an SSH agent ('ssh-add FILE'), or on a terminal"]);
        assert!(unsuitable.iter().all(|words| !refused.messages.contains(words)), "{}", refused.messages);
    }
    let mut terminal = scene.terminal_as("carl", ["stat", "--identity", key.to_str().unwrap(), &target]);
    for time in 1..=3 {
        terminal.expect_times("Passphrase of ", time);
        terminal.type_line("not this one");
    }
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(exit::LOGIN_REFUSED), "{shown}");
    assert!(shown.contains("ssh-add") && shown.matches("That was not the passphrase.").count() == 2, "{shown}");
    let cause = shown.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    assert!(cause.trim_end().ends_with("id_ed25519: the passphrase is wrong"), "{shown}");
    assert!(unsuitable.iter().all(|words| !shown.contains(words)), "{shown}");
    let mut terminal = scene.terminal_as("carl", ["stat", &target]);
    terminal.expect("Passphrase of ");
    terminal.type_line("not this one");
    terminal.expect_times("Passphrase of ", 2);
    terminal.type_line("canary passphrase");
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("canary"), "{shown}");
}

#[test]
fn a_token_opens_its_path_without_a_user_and_nothing_else() {
    let scene = Scene::new();
    scene.write("server/in/a", b"inside");
    scene.write("server/out", b"outside");
    scene.run_as("admin", ["user", "add", "anna"]).ends_with(0);
    let words = ["user", "token", "anna", "--export", "data", "--path", "in", "--out", "token"];
    scene.run_as("admin", words).ends_with(0);
    let server = serve(&scene, &[]);
    pin(&scene, "robot", &server);
    let as_robot = |words: &[&str]| {
        let mut command = scene.command_as("robot", words);
        command.env("XDFS_TOKEN_FILE", "token");
        Running::start(command).wait()
    };
    as_robot(&["cp", &server.url("in/a"), "got"]).ends_with(0);
    assert_eq!(scene.read("got"), b"inside");
    as_robot(&["cp", &server.url("out"), "not"]).ends_with(exit::PERMISSION_DENIED).says(&["token opens"]);
    as_robot(&["cp", "got", &server.url("in/b")]).ends_with(exit::PERMISSION_DENIED).says(&["may read"]);
    let text = String::from_utf8(scene.read("token")).unwrap();
    let mut command = scene.command_as("robot", ["stat", &server.url("in/a")]);
    command.env("XDFS_TOKEN", text.trim());
    Running::start(command).wait().ends_with(0);
    let mut command = scene.command_as("robot", ["stat", &server.url("in/a")]);
    command.env("XDFS_TOKEN", "xdfs-token-nonsense");
    let refused = Running::start(command).wait();
    refused.ends_with(exit::USAGE).says(&["XDFS_TOKEN"]);
    assert!(!refused.messages.contains("nonsense"));
    // What is taken away does not open any more.
    let listed = scene.run_as("admin", ["user", "list", "--json"]).objects();
    let fingerprint = listed[0]["tokens"][0]["fingerprint"].as_str().unwrap();
    scene.run_as("admin", ["user", "revoke", "anna", "--token", fingerprint]).ends_with(0);
    wait_for_change(&scene, 1);
    let refused = as_robot(&["stat", &server.url("in/a")]);
    refused.ends_with(exit::LOGIN_REFUSED).says(&[
        &format!("offered: token {fingerprint}, from token (XDFS_TOKEN_FILE)"),
        "run out or been revoked",
        "'xdfs user token NAME --export EXPORT'",
    ]);
    assert!(!refused.messages.contains("set XDFS_TOKEN_FILE"), "{}", refused.messages);
    let mut command = scene.command_as("robot", ["stat", &server.url("in/a")]);
    command.env("XDFS_TOKEN", text.trim());
    Running::start(command)
        .wait()
        .ends_with(exit::LOGIN_REFUSED)
        .says(&[&format!("offered: token {fingerprint}, from XDFS_TOKEN")]);
}

#[test]
fn a_token_that_only_reads_locks_nobody_out() {
    let scene = Scene::new();
    scene.run_as("admin", ["user", "add", "anna"]).ends_with(0);
    scene.run_as("admin", ["user", "token", "anna", "--export", "data", "--out", "token"]).ends_with(0);
    let server = serve(&scene, &[]);
    pin(&scene, "robot", &server);
    scene.write("server/f", b"content");
    for kind in ["--shared", "--nonblock"] {
        let mut command = scene.command_as("robot", ["lock", kind, &server.url("f"), "--", "true"]);
        command.env("XDFS_TOKEN_FILE", "token");
        Running::start(command).wait().ends_with(exit::PERMISSION_DENIED);
    }
}

#[test]
fn a_token_that_is_set_for_a_url_with_a_user_is_told_as_not_used() {
    let scene = Scene::new();
    scene.run_as("admin", ["user", "add", "anna"]).ends_with(0);
    scene.run_as("admin", ["user", "token", "anna", "--export", "data", "--out", "token"]).ends_with(0);
    write_secret(&scene, "wrong", b"a guess that is wrong");
    let server = serve(&scene, &[]);
    pin(&scene, "robot", &server);
    let url = url("anna", &server, "");
    let token = String::from_utf8(scene.read("token")).unwrap();
    for (name, value) in [("XDFS_TOKEN_FILE", "token"), ("XDFS_TOKEN", token.trim())] {
        // With nothing to offer, and with something that is not taken.
        for words in [&["stat", &url][..], &["stat", "--password-file", "wrong", &url]] {
            let mut command = scene.command_as("robot", words);
            command.env(name, value);
            let refused = Running::start(command).wait();
            refused
                .ends_with(exit::LOGIN_REFUSED)
                .says(&[&format!("\nhelp: {name} is set, and used only for URLs without a user")]);
        }
    }
    scene.run_as("robot", ["key", "create"]).ends_with(0);
    let refused = scene.run_as("robot", ["stat", &url]);
    assert!(!refused.ends_with(exit::LOGIN_REFUSED).messages.contains("XDFS_TOKEN"), "{}", refused.messages);
}
