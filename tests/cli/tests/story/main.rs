//! What the README's quick start shows: a server, a user added with one command, another account that is asked to trust the
//! printed fingerprint; and all that may not happen in between.

mod logins;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use xdfs_test_cli::{LISTEN, Running, Scene, Server, exit, pattern, until};

/// A server of the account `admin`, whom nobody knows yet. Its log is a file of the scene.
fn serve(scene: &Scene, options: &[&str]) -> Server {
    scene.directory("server");
    let words: Vec<&str> = ["--export", "data=server"].iter().chain(options).copied().collect();
    let mut command = scene.command_as("admin", ["serve", "--json", "--listen", LISTEN]);
    command.stderr(std::fs::File::create(scene.path("log")).expect("a file can be made"));
    Server::start(command, &words)
}

/// Waits until the server has seen a change of its users for the time number `count`: it looks once a second.
#[track_caller]
fn wait_for_change(scene: &Scene, count: usize) {
    wait_for_log(scene, "the users have changed", count);
}

/// Waits until the server's log has `words` so many times.
#[track_caller]
fn wait_for_log(scene: &Scene, words: &str, count: usize) {
    for _ in 0..5000 {
        if read_lossy(&scene.path("log")).matches(words).count() >= count {
            return;
        }
        // Takes a moment, so this asks a few hundred times a second and no more.
        scene.run_as("admin", ["--version"]).ends_with(0);
    }
    panic!("the server does not say '{words}'");
}

/// `xdfs://USER@ADDRESS/data/PATH`.
fn url(user: &str, server: &Server, path: &str) -> String {
    format!("xdfs://{user}@{}/data/{path}", server.address())
}

/// Makes a key for `person`, and lets it in under the person's name.
fn let_in(scene: &Scene, person: &str) {
    let key = scene.run_as(person, ["key", "create"]);
    key.ends_with(0);
    add(scene, person, key.text());
}

fn add(scene: &Scene, person: &str, line: &str) {
    let mut adding = Running::start(scene.command_as("admin", ["user", "add", person, "--key", "-"]));
    adding.feed(line.as_bytes());
    adding.wait().ends_with(0);
}

/// Makes `person` trust the server, as a careful one does who has the fingerprint on paper.
fn pin(scene: &Scene, person: &str, server: &Server) {
    scene.run_as(person, ["trust", "pin", server.address(), server.host_key()]).ends_with(0);
}

fn write_secret(scene: &Scene, name: &str, content: &[u8]) {
    let path = scene.write(name, content);
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("its mode can be set");
}

#[test]
fn who_was_added_may_log_in_at_once() {
    let scene = Scene::new();
    let server = serve(&scene, &[]);
    // More than the server looks for in a second of its own.
    for person in ["anna", "bert", "cora", "dora"] {
        pin(&scene, person, &server);
        let_in(&scene, person);
        scene.run_as(person, ["stat", &url(person, &server, "")]).ends_with(0);
    }
}

#[test]
fn a_first_time_user_gets_in_as_the_quick_start_says() {
    let scene = Scene::new();
    let content = pattern(3_000_000, 1);
    scene.write("image.bin", &content);
    let key = scene.run_as("anna", ["key", "create"]);
    let server = serve(&scene, &[]);
    // In another terminal, while it runs.
    add(&scene, "anna", key.text());
    wait_for_change(&scene, 1);
    let target = url("anna", &server, "");
    let mut terminal = scene.terminal_as("anna", ["cp", "image.bin", &target]);
    terminal.expect(&format!("The server {} is not known here. Its key is {}.", server.address(), server.host_key()));
    terminal.expect("Trust it and go on? [y/n] ");
    terminal.type_line("y");
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(0), "{shown}");
    assert!(scene.read("server/image.bin") == content);
    // From now on nobody is asked, and what is private is the default.
    let known = scene.run_as("anna", ["trust", "list", "--json"]).objects();
    assert_eq!(known[0]["host_key"].as_str(), Some(server.host_key()));
    let back = scene.run_as("anna", ["cp", "--json", &url("anna", &server, "image.bin"), "back"]);
    back.ends_with(0).is_silent();
    assert_eq!(back.objects()[0]["protection"], "private");
    assert!(scene.read("back") == content);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn the_readme_shows_this_story() {
    let readme = include_str!("../../../../README.md");
    let (_, story) = readme.split_once("## Quick start").expect("the README has a quick start");
    for words in [
        "\nxdfs key create\n",
        "\nxdfs serve --export data=/srv/data\n",
        "| xdfs user add anna --key -\n",
        "\nxdfs cp big.dat xdfs://anna@host/data/\n",
        "The server host:2799 is not known here. Its key is SHA256:",
        "Trust it and go on? [y/n] y\n",
    ] {
        let (_, rest) = story.split_once(words).unwrap_or_else(|| panic!("the README does not show '{words}'"));
        assert!(rest.contains("\n```"), "'{words}' is a line of a block");
    }
}

#[test]
fn without_a_terminal_an_unknown_server_is_refused_with_the_command_that_pins_it() {
    let scene = Scene::new();
    let_in(&scene, "anna");
    let server = serve(&scene, &[]);
    let url = url("anna", &server, "");
    let command = format!("xdfs trust pin {} {}", server.address(), server.host_key());
    scene.run_as("anna", ["stat", &url]).ends_with(exit::NOT_TRUSTED).says(&[
        "not known here",
        "nothing was sent",
        &command,
    ]);
    assert!(!scene.home("anna", "state/xdfs/known_hosts").exists());
    // Exactly that command.
    scene.run_as("anna", command.split_whitespace().skip(1)).ends_with(0);
    scene.run_as("anna", ["stat", &url]).ends_with(0);
    // And no leaves it as it was.
    let mut terminal = scene.terminal_as("bert", ["stat", &url]);
    terminal.expect("Trust it and go on? [y/n] ");
    terminal.type_line("no");
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(exit::NOT_TRUSTED), "{shown}");
    assert!(!scene.home("bert", "state/xdfs/known_hosts").exists());
}

#[test]
fn a_remedy_names_the_state_folder_that_it_is_about() {
    let scene = Scene::new();
    scene.write("config", b"state = \"server state\"\n[exports.data]\ndirectory = \"server\"\n");
    scene.directory("server");
    let mut command = scene.command_as("admin", ["serve", "--json", "--listen", "127.0.0.1:0", "--config", "config"]);
    command.stderr(std::fs::File::create(scene.path("log")).expect("a file can be made"));
    let server = Server::start(command, &[]);
    wait_for_log(&scene, "xdfs user add NAME --key FILE.pub --state '", 1);
    wait_for_log(&scene, "server state' (state: ", 1);
    let url = url("anna", &server, "");
    let as_anna = |words: &[&str]| scene.run_as("anna", words.iter().copied().chain(["--state", "mine"]));
    let pin = format!("xdfs trust pin {} {} --state mine", server.address(), server.host_key());
    as_anna(&["stat", &url]).ends_with(exit::NOT_TRUSTED).says(&[&pin]);
    // Exactly that command.
    scene.run_as("anna", pin.split_whitespace().skip(1)).ends_with(0);
    as_anna(&["stat", &url]).ends_with(exit::LOGIN_REFUSED).says(&["xdfs key create --state mine"]);
    as_anna(&["key", "show"]).ends_with(exit::NOT_FOUND).says(&["xdfs key create --state mine"]);
    as_anna(&["key", "create"]).ends_with(0);
    as_anna(&["key", "create"]).ends_with(exit::EXISTS).says(&["'xdfs key show --state mine'"]);
    as_anna(&["trust", "forget", "other.example"]).ends_with(exit::NOT_FOUND).says(&["'xdfs trust list --state mine'"]);
    as_anna(&["trust", "pin", server.address(), "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"]).ends_with(0);
    as_anna(&["stat", &url]).ends_with(exit::NOT_TRUSTED).says(&["IS NOT THE EXPECTED ONE", &pin]);
    as_anna(&["user", "list"]).ends_with(0).says(&["'xdfs user add NAME --key FILE.pub --state mine'"]);
    as_anna(&["user", "add", "bert"]).ends_with(0).says(&["'xdfs user password bert --state mine'"]);
    as_anna(&["user", "add", "bert"]).ends_with(exit::EXISTS).says(&["'xdfs user restore bert --state mine'"]);
    as_anna(&["user", "key", "carl", "mine/id_ed25519.pub"])
        .ends_with(exit::NOT_FOUND)
        .says(&["'xdfs user list --state mine'"]);
    as_anna(&["user", "revoke", "bert"]).ends_with(0);
    let still = as_anna(&["user", "key", "bert", "mine/id_ed25519.pub"]);
    still.ends_with(0).says(&["'xdfs user restore bert --state mine'"]);
}

#[test]
fn a_changed_host_key_is_never_reached_silently() {
    let scene = Scene::new();
    scene.write("a", b"secret plans");
    let_in(&scene, "anna");
    let first = serve(&scene, &[]);
    pin(&scene, "anna", &first);
    let (address, old) = (first.address().to_owned(), first.host_key().to_owned());
    scene.run_as("anna", ["stat", &url("anna", &first, "")]).ends_with(0);
    first.stop();
    // Another server at the same address, which knows anna too.
    for name in ["host_key", "host_key.pub"] {
        std::fs::remove_file(scene.home("admin", &format!("state/xdfs/{name}"))).unwrap();
    }
    let words = ["serve", "--json", "--listen", &address, "--export", "data=server"];
    let second = Server::start(scene.command_as("admin", words), &[]);
    let new = second.host_key().to_owned();
    assert_ne!(old, new);
    let target = url("anna", &second, "a");
    let parts = ["IS NOT THE EXPECTED ONE", &old, &new, "Nothing was sent", &format!("xdfs trust pin {address} {new}")];
    scene.run_as("anna", ["cp", "a", &target]).ends_with(exit::NOT_TRUSTED).says(&parts);
    // Somebody at a terminal is not asked either: a habit of saying yes must not be enough.
    let terminal = scene.terminal_as("anna", ["cp", "a", &target]);
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(exit::NOT_TRUSTED), "{shown}");
    assert!(shown.contains("IS NOT THE EXPECTED ONE") && !shown.contains("[y/n]"), "{shown}");
    assert!(!scene.path("server/a").exists());
    // The URL's own pin counts alone, whatever is known.
    scene
        .run_as("anna", ["cp", "a", &format!("{target}#{old}")])
        .ends_with(exit::NOT_TRUSTED)
        .says(&["pinned by the URL", &new]);
    scene.run_as("anna", ["cp", "a", &format!("{target}#{new}")]).ends_with(0);
    scene.run_as("anna", ["stat", &target]).ends_with(exit::NOT_TRUSTED);
    scene.run_as("anna", ["trust", "pin", &address, &new]).ends_with(0);
    scene.run_as("anna", ["stat", &target]).ends_with(0);
}

#[test]
fn who_is_not_let_in_is_told_what_was_offered_and_the_remedy() {
    let scene = Scene::new();
    let server = serve(&scene, &[]);
    for person in ["anna", "bert"] {
        pin(&scene, person, &server);
    }
    let target = url("anna", &server, "");
    // As a job of cron is run: nobody can be asked.
    scene.run_as("bert", ["stat", &target]).ends_with(exit::LOGIN_REFUSED).says(&[
        "no terminal to ask for a password",
        "--password-file FILE",
        "XDFS_PASSWORD_FILE",
        "xdfs key create",
    ]);
    let key = scene.run_as("anna", ["key", "create"]);
    let fingerprint = scene.run_as("anna", ["key", "show", "--json"]).objects()[0]["fingerprint"].clone();
    let refused = scene.run_as("anna", ["stat", &target]);
    refused.ends_with(exit::LOGIN_REFUSED).says(&[
        fingerprint.as_str().unwrap(),
        "id_ed25519",
        "xdfs user add anna --key -",
        key.text().trim(),
    ]);
    // The words of the message let her in, at once, on the running server.
    add(&scene, "anna", key.text());
    wait_for_change(&scene, 1);
    scene.run_as("anna", ["stat", &target]).ends_with(0);
    // Who has a key is the user of this name where the URL has none, on a server that is known.
    let unnamed = format!("xdfs://{}/data/", server.address());
    scene.run_as("anna", ["stat", &unnamed]).ends_with(0);
    // A visitor is told how to log in, and that is all.
    scene.run_as("bert", ["stat", &unnamed]).ends_with(exit::LOGIN_REFUSED).says(&["name a user"]);
    // Revoked, at once.
    scene.run_as("admin", ["user", "revoke", "anna"]).ends_with(0);
    wait_for_change(&scene, 2);
    scene.run_as("anna", ["stat", &target]).ends_with(exit::LOGIN_REFUSED);
}

#[test]
fn a_stranger_cannot_tell_who_exists() {
    let scene = Scene::new();
    write_secret(&scene, "secret", b"correct horse battery");
    write_secret(&scene, "wrong", b"a guess that is wrong");
    let_in(&scene, "anna");
    scene.run_as("admin", ["user", "add", "bert", "--password-file", "secret"]).ends_with(0);
    scene.run_as("mallory", ["key", "create"]).ends_with(0);
    for options in [&[][..], &["--password-file", "wrong"]] {
        for known in ["anna", "bert"] {
            // A server of its own: one that was tried too often says that, whoever it is.
            let server = serve(&scene, &[]);
            pin(&scene, "mallory", &server);
            let answer = |user: &str| {
                let words = ["stat"].iter().chain(options).copied().map(str::to_owned);
                let outcome = scene.run_as("mallory", words.chain([url(user, &server, "")]));
                outcome.ends_with(exit::LOGIN_REFUSED).messages.replace(user, "USER")
            };
            assert_eq!(answer(known), answer("nobody"), "{options:?}");
        }
    }
}

#[test]
fn revoking_ends_what_runs_and_nothing_else() {
    let scene = Scene::new();
    for person in ["anna", "bert"] {
        let_in(&scene, person);
    }
    let server = serve(&scene, &[]);
    let start = |person: &str| {
        pin(&scene, person, &server);
        let mut upload = Running::start(scene.command_as(person, ["cp", "-", &url(person, &server, person)]));
        assert!(upload.feed(&pattern(3_000_000, 1)), "the client reads");
        upload
    };
    let (anna, bert) = (start("anna"), start("bert"));
    wait_for_log(&scene, "opened by", 2);
    scene.run_as("admin", ["user", "revoke", "anna"]).ends_with(0);
    // Nothing more is fed: it ends by itself.
    anna.wait_with_open_input().ends_with(exit::PERMISSION_DENIED).says(&["was revoked"]);
    wait_for_log(&scene, "what this session logged in with was revoked", 1);
    bert.wait().ends_with(0);
    until(|| scene.names("server"), |names| *names == ["bert"]);
}

#[test]
fn visitors_may_do_what_is_allowed_to_them_and_no_more() {
    let scene = Scene::new();
    scene.write("server/a", b"old");
    scene.write("b", b"new");
    for (rights, reads, creates, replaces) in
        [("ro", true, false, false), ("create", true, true, false), ("rw", true, true, true)]
    {
        let server = serve(&scene, &["--quiet", "--allow-anonymous", rights]);
        pin(&scene, "visitor", &server);
        let may = |words: &[&str]| scene.run_as("visitor", words).code == Some(0);
        assert_eq!(may(&["cp", &server.url("a"), "got"]), reads, "{rights}");
        assert_eq!(may(&["cp", "b", &server.url(&format!("new-{rights}"))]), creates, "{rights}");
        assert_eq!(may(&["cp", "b", &server.url("a")]), replaces, "{rights}");
    }
}

/// The canary secrets of this test, in every form in which they could come out.
fn canaries(scene: &Scene, token: &str) -> Vec<String> {
    let mut canaries = vec!["canary-password-1".to_owned(), token.trim().to_owned(), token.trim()[11..].to_owned()];
    for file in ["home-anna/state/xdfs/id_ed25519", "home-admin/state/xdfs/host_key"] {
        let text = String::from_utf8(scene.read(file)).expect("a key file is text");
        // The lines of the file that hold the private half.
        canaries.extend(text.lines().skip(3).take(2).map(str::to_owned));
    }
    canaries
}

#[test]
fn no_secret_is_ever_said_whatever_goes_wrong() {
    let scene = Scene::new();
    write_secret(&scene, "password", b"canary-password-1\n");
    scene.write("file", b"x");
    let_in(&scene, "anna");
    scene.run_as("admin", ["user", "password", "anna", "--password-file", "password"]).ends_with(0);
    scene.run_as("admin", ["user", "token", "anna", "--export", "data", "--out", "token"]).ends_with(0);
    let token = String::from_utf8(scene.read("token")).unwrap();
    let server = serve(&scene, &[]);
    pin(&scene, "anna", &server);
    let (mine, visitors) = (url("anna", &server, "x"), server.url("x"));
    let canaries = canaries(&scene, &token);
    let check = |name: &str, text: &str| {
        for canary in &canaries {
            assert!(!text.contains(canary.as_str()), "{name} says {canary}: {text}");
        }
    };
    let identity = "home-anna/state/xdfs/id_ed25519";
    for words in [
        &["cp", "file", &mine][..],
        &["cp", "--json", "--password-file", "password", "file", &mine],
        &["cp", "--password-file", "token", "file", &mine],
        &["cp", "--identity", "password", "file", &mine],
        &["cp", "--identity", "token", "file", &mine],
        &["cp", "--password-file", identity, "file", &mine],
        &["stat", "--json", &format!("{mine}-missing")],
        &["stat", &visitors],
        &["key", "show"],
        &["key", "show", identity],
        &["key", "export"],
        &["key", "import", identity],
        &["user", "add", "x", "--key", identity],
        &["user", "add", "y", "--key", "token"],
        &["trust", "pin", "h", "token"],
    ] {
        let outcome = scene.run_as("anna", words);
        check(&format!("{words:?}"), &outcome.messages);
        check(&format!("{words:?}"), outcome.text());
    }
    for (name, value) in
        [("XDFS_TOKEN", token.trim()), ("XDFS_TOKEN", &token.trim()[1..]), ("XDFS_TOKEN", "canary-password-1")]
    {
        let mut command = scene.command_as("anna", ["stat", "--json", &visitors]);
        command.env(name, value).env("RUST_BACKTRACE", "1");
        let outcome = Running::start(command).wait();
        check(name, &format!("{}{}", outcome.messages, outcome.text()));
    }
    for words in [&["user", "list"][..], &["user", "list", "--json"], &["trust", "list"], &["key", "show", "--host"]] {
        let outcome = scene.run_as("admin", words);
        check(&format!("{words:?}"), &format!("{}{}", outcome.messages, outcome.text()));
    }
    server.signal(rustix::process::Signal::USR1);
    assert_eq!(server.stop(), Some(0));
    check("the server's log", &read_lossy(&scene.path("log")));
    check("the file of users", &read_lossy(&scene.home("admin", "state/xdfs/users.toml")));
}

fn read_lossy(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).expect("it was written")).into_owned()
}

#[test]
fn the_human_line_tells_the_host_key_and_how_to_let_somebody_in() {
    let scene = Scene::new();
    scene.directory("server");
    let words = ["serve", "--export", "data=server", "--listen", "127.0.0.1:0"];
    let running = Running::start(scene.command_as("admin", words));
    // It runs once the host key is there; SIGTERM then ends it in order, however early.
    for _ in 0..10_000 {
        if scene.run_as("admin", ["key", "show", "--host"]).code == Some(0) {
            break;
        }
    }
    let key = scene.run_as("admin", ["key", "show", "--host", "--json"]).objects()[0]["fingerprint"].clone();
    running.signal(rustix::process::Signal::TERM);
    let outcome = running.wait();
    let Value::String(key) = key else { panic!("a fingerprint") };
    if outcome.code == Some(0) && !outcome.text().is_empty() {
        assert!(outcome.text().contains(&key), "{}", outcome.text());
        outcome.says(&["nobody may log in yet", "xdfs user add"]);
    }
}
