//! Part files and journals out of reach: what a visitor may try with them, and names that only look like theirs.

use xdfs_test_cli::{Outcome, Relay, Running, STAGING, Scene, Server, exit, pattern};

/// Names as part files and journals of `target` had them before there was a staging directory.
fn former_names(target: &str, hex: &str) -> [String; 3] {
    [".part", ".journal", ".journal.new"].map(|end| format!(".{target}.{hex}{end}"))
}

const HEX: &str = "0123456789abcdef0123456789abcdef";

/// An upload, with the token in this file if there is one, that is held in the middle: its part file is there.
fn held_upload(scene: &Scene, server: &Server, token: Option<&str>, run: impl FnOnce(&str)) -> Outcome {
    let content = pattern(12 << 20, 5);
    // One that is there keeps its time, which is part of what a transfer is called by.
    if !scene.path("source").exists() {
        scene.write("source", &content);
    }
    let relay = Relay::holding(server, 1, 6 << 20);
    scene.trust(&relay.address(), server);
    let mut command = scene.command(["cp", "--json", "-P", "1", "source", &relay.url("file")]);
    command.envs(token.map(|file| ("XDFS_TOKEN_FILE", scene.path(file))));
    let running = Running::start(command);
    relay.wait_until_held();
    let names = scene.names("server");
    let staged = |name: &&String| name.starts_with(STAGING) && name.ends_with(".part");
    let part = names.iter().find(staged).unwrap_or_else(|| panic!("no part file: {names:?}"));
    run(part);
    relay.release();
    let outcome = running.wait();
    outcome.ends_with(0);
    assert!(scene.read("server/file") == content);
    outcome
}

#[test]
fn no_command_reaches_a_part_file_that_is_being_written() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/other", b"other");
    held_upload(&scene, &server, None, |part| {
        assert!(part.starts_with(STAGING), "{part}");
        // A journal comes when it is time for one.
        let is_journal = |name: &String| name.contains(".journal");
        let names = || scene.names("server").into_iter().filter(|name| !is_journal(name)).collect::<Vec<_>>();
        let before = names();
        for name in [STAGING, part, ".xdfs-staging/new", "d/.xdfs-staging/x"] {
            let url = server.url(name);
            for reading in [
                vec!["stat", &url],
                vec!["cat", &url],
                vec!["ls", &url],
                vec!["du", &url],
                vec!["sum", &url],
                vec!["cp", &url, "copy"],
                vec!["cp", "-r", &url, "copies"],
            ] {
                let outcome = scene.run(&reading);
                assert_ne!(outcome.code, Some(0), "{reading:?}");
            }
            let (other, new) = (server.url("other"), server.url("new"));
            for changing in [
                vec!["cp", "source", &url],
                vec!["mkdir", &url],
                vec!["mkdir", "-p", &url],
                vec!["rm", "-r", &url],
                vec!["rmdir", &url],
                vec!["mv", &url, &new],
                vec!["mv", &other, &url],
                vec!["ln", &url, &new],
                vec!["ln", &other, &url],
                vec!["ln", "-s", "other", &url],
                vec!["chmod", "777", &url],
                vec!["touch", &url],
            ] {
                let outcome = scene.run(&changing);
                assert_ne!(outcome.code, Some(0), "{changing:?}");
            }
        }
        assert_eq!(names(), before);
        let listed = scene.run(["ls", "-R", &server.url("")]);
        assert!(!listed.ends_with(0).text().contains(STAGING), "{}", listed.text());
    });
    assert_eq!(scene.names("server"), ["file", "other"], "nothing is left");
}

#[test]
fn a_visitor_who_may_create_neither_plants_a_part_file_nor_blocks_one() {
    let scene = Scene::new();
    scene.directory("server");
    let config = "[exports.data]\ndirectory = \"server\"\nusers = [\"anna\"]\nanonymous = \"create\"\n";
    scene.write("server.toml", config.as_bytes());
    scene.run(["user", "add", "anna"]).ends_with(0);
    scene.run(["user", "token", "anna", "--export", "data", "--write", "--out", "token"]).ends_with(0);
    let command = scene.command(["serve", "--json", "--listen", "127.0.0.1:0"]);
    let server = Server::start(command, &["--quiet", "--config", "server.toml"]);
    scene.write("plant", b"planted");
    // The name of the part file is that of every attempt of hers with this source and target.
    let mut part = String::new();
    held_upload(&scene, &server, Some("token"), |name| part = name.to_owned());
    std::fs::remove_file(scene.path("server/file")).expect("it was copied");
    for name in [part.clone(), part.replace(".part", ".journal"), STAGING.to_owned()] {
        scene.run(["mkdir", "-p", &server.url(&name)]).ends_with(exit::REFUSED).says(&["invalid path"]);
        scene.run(["cp", "plant", &server.url(&name)]).ends_with(exit::REFUSED).says(&["reserves"]);
    }
    // What was reachable before is a name like any other, and nobody's part file.
    let id = part.rsplit(['/', '-', '.']).find(|word| word.len() == HEX.len()).expect("a part is named after its id");
    for name in former_names("file", id) {
        scene.run(["cp", "plant", &server.url(&name)]).ends_with(0);
    }
    let again = held_upload(&scene, &server, Some("token"), |name| assert_eq!(name, part));
    assert_eq!(again.objects()[0]["resumed_bytes"], 0, "nothing of it was there");
}

#[test]
fn names_of_the_form_of_former_part_files_are_copied_like_any_other() {
    let scene = Scene::new();
    let server = scene.serve();
    for name in former_names("x", HEX) {
        scene.write(format!("tree/d/{name}"), name.as_bytes());
    }
    scene.run(["cp", "-r", "tree", &server.url("up")]).ends_with(0);
    scene.run(["cp", "-r", &server.url("up"), "down"]).ends_with(0);
    for name in former_names("x", HEX) {
        assert_eq!(scene.read(format!("server/up/d/{name}")), name.as_bytes());
        assert_eq!(scene.read(format!("down/d/{name}")), name.as_bytes());
    }
    let listed = scene.run(["ls", &server.url("up/d")]);
    assert_eq!(listed.ends_with(0).text().lines().count(), 3);
    scene.directory("empty/d");
    scene.run(["sync", "--delete", "empty/", &server.url("up")]).ends_with(0);
    assert!(scene.names("server/up/d").is_empty());
    scene.run(["sync", "--delete", &server.url("up/"), "down"]).ends_with(0);
    assert!(scene.names("down/d").is_empty());
}

#[test]
fn a_name_that_is_reserved_is_an_error_and_the_rest_is_copied() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("tree/a", b"a");
    scene.write("tree/d/.xdfs-staging", b"mine");
    scene.write("tree/d/b", b"b");
    let outcome = scene.run(["cp", "-r", "tree", &server.url("up")]);
    outcome.ends_with(exit::SOME_FAILED).says(&["d/.xdfs-staging", "is a name that xdfs reserves"]);
    assert_eq!(
        (scene.names("server/up"), scene.names("server/up/d")),
        (vec!["a".into(), "d".into()], vec!["b".into()])
    );
    scene.run(["cp", "tree/d/.xdfs-staging", &server.url("up")]).ends_with(exit::LOCAL).says(&["reserves"]);
    // What an interrupted download left in a tree is no part of it.
    std::fs::remove_file(scene.path("tree/d/.xdfs-staging")).expect("our own");
    scene.directory("tree/d/.xdfs-staging");
    scene.make_private("tree/d/.xdfs-staging");
    scene.run(["cp", "-r", "tree", &server.url("again")]).ends_with(0);
    assert_eq!(scene.names("server/again/d"), ["b"]);
    // A private directory of the user's own is not taken for one.
    scene.write("tree/d/.xdfs-staging/notes", b"mine");
    let outcome = scene.run(["cp", "-r", "tree", &server.url("third")]);
    outcome.ends_with(exit::SOME_FAILED).says(&["d/.xdfs-staging", "is a name that xdfs reserves"]);
    assert_eq!(scene.names("server/third/d"), ["b"]);
    std::fs::rename(scene.path("tree/d/.xdfs-staging"), scene.path("server/third/d/.xdfs-staging")).expect("ours");
    let outcome = scene.run(["cp", "-r", &server.url("third"), "down"]);
    outcome.ends_with(exit::SOME_FAILED).says(&["d/.xdfs-staging"]);
    assert_eq!(scene.names("down/d"), ["b"]);
    assert_eq!(scene.read("server/third/d/.xdfs-staging/notes"), b"mine");
}
