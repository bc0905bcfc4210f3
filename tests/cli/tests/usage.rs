//! What is refused before anything is opened: usage, URLs, and what this version does not have yet.

use xdfs_test_cli::{Scene, exit};

/// Runs a line and asserts that it is a usage error that says all of `parts`, with nothing on standard output.
fn refused(line: &str, parts: &[&str]) {
    let outcome = Scene::new().run(line.split_whitespace());
    outcome.ends_with(exit::USAGE).says(parts);
    assert!(outcome.messages.starts_with("error: "), "{line}: {}", outcome.messages);
    assert_eq!(outcome.text(), "", "{line}");
}

#[test]
fn help_is_asked_for_and_no_error() {
    let scene = Scene::new();
    for (line, part) in [("--help", "Examples:"), ("cp --help", "Exit codes:"), ("serve --help", "--allow-anonymous")] {
        let outcome = scene.run(line.split_whitespace());
        outcome.ends_with(0).is_silent();
        assert!(outcome.text().contains(part), "{line}");
    }
    let version = scene.run(["--version"]);
    version.ends_with(0).is_silent();
    assert!(version.text().starts_with("xdfs "));
}

#[test]
fn no_command_at_all_shows_the_help_as_an_error() {
    let outcome = Scene::new().run::<&str>([]);
    outcome.ends_with(exit::USAGE).says(&["Usage: xdfs", "Examples:"]);
    assert_eq!(outcome.text(), "");
}

#[test]
fn a_line_that_cannot_be_read_is_an_object_too_where_objects_are_asked_for() {
    for line in ["ls --json", "ls --json xdfs://localhost/data --bad", "cp a --json"] {
        let outcome = Scene::new().run(line.split_whitespace());
        let objects = outcome.ends_with(exit::USAGE).objects();
        assert_eq!((objects.len(), &objects[0]["code"]), (1, &"usage".into()), "{line}");
    }
    // What belongs to another command is not ours.
    refused("lock --bad xdfs://localhost/data -- program --json", &["--bad"]);
}

#[test]
fn what_stops_a_server_before_it_starts_is_an_object_where_objects_are_asked_for() {
    let scene = Scene::new();
    let there = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = there.local_addr().expect("its address").to_string();
    scene.directory("offered");
    scene.write("bad.toml", b"nonsense = 1\n");
    for (words, code, kind) in [
        (&["serve", "--json", "--export", "data=absent"][..], exit::NOT_FOUND, "not_found"),
        (
            &["serve", "--json", "--export", "data=offered", "--listen", &taken],
            exit::CONNECTION_LOST,
            "connection_lost",
        ),
        (&["serve", "--json", "--check", "--config", "bad.toml"], exit::USAGE, "usage"),
        (&["serve", "--json", "--export", "data=.", "--listen", "nowhere"], exit::USAGE, "usage"),
        (&["key", "show", "--json", "absent.pub"], exit::NOT_FOUND, "not_found"),
    ] {
        let outcome = scene.run(words);
        let objects = outcome.ends_with(code).objects();
        assert_eq!((objects.len(), &objects[0]["event"], &objects[0]["code"]), (1, &"error".into(), &kind.into()));
        assert!(outcome.messages.contains("error: "), "people are told, too: {}", outcome.messages);
    }
}

#[test]
fn an_unknown_command_is_told_which_exist() {
    refused("frobnicate", &["frobnicate", "serve", "cp", "stat", "demo"]);
    refused("tune xdfs://localhost/data", &["'tune'", "comes with tuning"]);
}

#[test]
fn what_comes_later_is_refused_by_name() {
    refused(
        "cp xdfs://localhost/data/x xdfs://localhost/data/y",
        &[
            "one of the two must be on this machine",
            "help: xdfs cp xdfs://localhost/data/x ./x && xdfs cp ./x xdfs://localhost/data/y",
        ],
    );
    refused(
        "sync ssh:a:photos ssh:b:photos",
        &["help: xdfs sync ssh:a:photos ./photos && xdfs sync ./photos ssh:b:photos"],
    );
    refused("cp -r --offset 5 a xdfs://localhost/data/x", &["--offset", "-r"]);
    refused("sync a b", &["neither side is on a server"]);
    refused("sync - xdfs://localhost/data/x", &["-", "name a directory"]);
    refused("sync --max-delete 5 a xdfs://localhost/data/x", &["--delete"]);
    refused("sync --delete --files-from list a xdfs://localhost/data/x", &["--files-from"]);
    refused("serve --export d=. --config c", &["--config"]);
}

#[test]
fn a_url_with_a_fault_is_told_the_part_and_an_example() {
    for (url, part) in [
        ("http://localhost/data/x", "xdfs://"),
        ("xdfs://localhost:0/data/x", "port '0'"),
        ("xdfs://::1/data/x", "[::1]"),
        ("xdfs://localhost", "no export"),
        ("xdfs://localhost/data/a%2Fb", "%2F"),
        ("xdfs://localhost/data/a%00", "%00"),
        ("xdfs://localhost/data/../x", "'..'"),
        ("xdfs://localhost/data/%2e%2e/x", "'..'"),
        ("xdfs://localhost/data/50%", "%25"),
        ("xdfs://localhost/data/x?y", "%3F"),
    ] {
        refused(&format!("cp a {url}"), &[url, part, "for example xdfs://"]);
        refused(&format!("stat {url}"), &[url, part]);
    }
}

#[test]
fn values_out_of_range_name_the_option() {
    for (options, part) in [
        ("-b 1M", "--block"),
        ("-b 12KiB", "--block"),
        ("-b 1Q", "unit 'Q'"),
        ("-w 1", "--window"),
        ("-P 0", "--channels"),
        ("-P 5000", "--channels"),
        ("--offset 99999999999999999999", "--offset"),
        ("--length 1.5G", "--length"),
        ("--congestion a/b", "--congestion"),
        ("--congestion nosuch", "--congestion nosuch"),
        ("--protection clear --verify wire", "--verify wire"),
    ] {
        refused(&format!("cp {options} a xdfs://localhost/data/x"), &[part]);
    }
}

#[test]
fn sides_that_cannot_be_are_refused() {
    refused("cp a b", &["neither side is on a server"]);
    refused("cp a xdfs://localhost/data/x .", &["a: the sources are partly local"]);
    refused("cp xdfs://localhost/data/x xdfs://localhost/data/y", &["on this machine"]);
    refused("cp xdfs://localhost/data/x xdfs://localhost/data/y -", &["several sources"]);
    refused("cp --json xdfs://localhost/data/x -", &["--json"]);
    refused("cp - xdfs://localhost/data/", &["standard input has no name"]);
    refused("serve --export d=. --export d=/tmp", &["--export d", "twice"]);
    refused("serve --export nothing", &["--export nothing", "NAME=DIR"]);
}

#[test]
fn deletion_at_a_place_that_an_empty_variable_names_needs_a_bound() {
    let scene = Scene::new();
    let home = scene.home("somebody", "");
    let home = home.to_str().expect("UTF-8");
    let down = "xdfs://localhost:1/data/x";
    for (from, to, place) in [
        ("tree", "xdfs://localhost:1/data/", "the top of an export"),
        ("tree", "xdfs://localhost:1/data", "the top of an export"),
        ("tree", "ssh:localhost:", "your home directory there"),
        ("tree", "ssh://localhost/", "the top of the file system there"),
        (down, "/", "the top of the file system"),
        (down, home, "your home directory"),
    ] {
        let refused = scene.run(["sync", "--delete", from, to]);
        refused.ends_with(exit::USAGE).says(&[&format!("--delete: {to} is {place}"), "\nhelp: add --max-delete N "]);
    }
    scene.write("tree/a", b"x");
    // Elsewhere, and with a bound, it goes on to the server, which is not there.
    for words in [
        &["sync", "--delete", "tree", "xdfs://localhost:1/data/below"][..],
        &["sync", "--delete", "--max-delete", "9", "tree", "xdfs://localhost:1/data"],
        &["sync", "--delete", "-n", "tree", "xdfs://localhost:1/data"],
        &["sync", "tree", "xdfs://localhost:1/data/"],
        &["sync", "--delete", down, "here"],
    ] {
        scene.run(words).ends_with(exit::CONNECTION_LOST);
    }
}

#[test]
fn deletion_in_a_target_that_may_mean_two_directories_is_refused_with_the_command_for_each() {
    let scene = Scene::new();
    scene.write("photos/a.jpg", b"a");
    for name in ["letters/b", "photos/old.jpg"] {
        scene.write(format!("server/backup/{name}"), b"b");
        scene.write(format!("backup/{name}"), b"b");
    }
    let server = scene.serve();
    let (backup, photos) = (server.url("backup/"), server.url("photos"));
    let quoted = |url: &str| format!("'{url}'");
    let in_backup = quoted(&server.url("backup/photos"));
    for (from, to, itself, into) in [
        ("photos", &*backup, format!("photos/ {}", quoted(&backup)), format!("photos {in_backup}")),
        ("./photos", &*backup, format!("./photos/ {}", quoted(&backup)), format!("./photos {in_backup}")),
        (
            &photos,
            "backup/",
            format!("{} backup/", quoted(&server.url("photos/"))),
            format!("{} backup/photos", quoted(&photos)),
        ),
    ] {
        scene.run(["sync", "-v", "--delete", from, to]).ends_with(exit::USAGE).says(&[
            &format!("--delete: the '/' at the end of {to} leaves open what is meant"),
            &format!("\nhelp: the directory itself: xdfs sync -v --delete {itself}\n"),
            &format!("\nhelp: one in it: xdfs sync -v --delete {into}\n"),
        ]);
        // What is shown first holds for the command that follows.
        scene.run(["sync", "-n", "--delete", from, to]).ends_with(exit::USAGE);
    }
    scene.run(["sync", "--delete", &photos, "backup/."]).ends_with(exit::USAGE).says(&["at the end of backup/. "]);
    // Where it cannot be told which word is the source, no command is shown without the options.
    scene.run(["sync", "--delete", "--exclude", "photos", "photos", &backup]).ends_with(exit::USAGE).says(&[
        "\nhelp: the directory itself: write photos/ as the source instead of photos\n",
        "\nhelp: one in it: xdfs sync --delete --exclude photos photos '",
    ]);
    for side in ["server/", ""] {
        assert_eq!(scene.names(format!("{side}backup")), ["letters", "photos"]);
    }
    // The top of an export has no name of its own.
    scene.run(["sync", "-n", "--delete", &server.url(""), "backup/"]).ends_with(exit::DONE);
    // As rsync understands it, and as sync has always understood it.
    scene.run(["sync", "--delete", "photos", &server.url("backup/photos")]).ends_with(exit::DONE);
    assert_eq!(scene.names("server/backup/photos"), ["a.jpg"]);
    scene.run(["sync", "photos", &server.url("backup/")]).ends_with(exit::DONE);
    assert_eq!(scene.names("server/backup"), ["a.jpg", "letters", "photos"]);
    scene.run(["sync", "--delete", "photos/", &server.url("backup/")]).ends_with(exit::DONE);
    assert_eq!(scene.names("server/backup"), ["a.jpg"]);
}

#[test]
fn a_password_in_a_url_is_not_repeated_where_a_deletion_is_refused() {
    let scene = Scene::new();
    for (from, to) in [
        ("photos", "ftp://anna:canary@host/backup/"),
        ("photos", "ftp://anna:canary@host/"),
        ("ftp://anna:canary@host/photos", "backup/"),
    ] {
        let refused = scene.run(["sync", "--delete", from, to]);
        assert!(!refused.ends_with(exit::USAGE).says(&["--delete: "]).messages.contains("canary"), "{from} {to}");
    }
}
