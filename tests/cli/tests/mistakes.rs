//! Mistakes of the first hour: each is answered with what to type instead.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use xdfs_test_cli::{Running, Scene, Server, exit, xdfs_binary};

#[test]
fn a_url_that_is_not_finished_says_what_is_missing() {
    let scene = Scene::new();
    scene.write("file", b"x");
    let server = scene.serve();
    let (top, key) = (format!("xdfs://{}", server.address()), server.host_key());
    let list = format!("help: xdfs ls {top}/ lists those of the server");
    for (words, told) in [
        (["cp", "file", &format!("{top}/")], list.as_str()),
        (["df", &top, &top], &list),
        (["df", &format!("{top}#{key}"), &top], &format!("help: xdfs ls '{top}/#{key}' lists those")),
        (["cp", "file", "xdfs:/host/data/"], "two slashes follow 'xdfs:'\nhelp: write xdfs://host/data/"),
        (["cp", "file", "XDFS://host/data/"], "in lower case\nhelp: write xdfs://host/data/"),
        (["cp", "file", "sftp://anna@host/x"], "over ssh, xdfs takes ssh:// URLs\nhelp: write ssh://anna@host/x"),
        (
            ["cp", "file", "sshftp://anna@host/x"],
            "GridFTP over ssh is not supported; ssh:// needs no server there\nhelp: write ssh://anna@host/x",
        ),
        (["cp", "file", "scp://a:canary@host/x"], "help: write ssh://a:...@host/x"),
        (["ls", "-l", "xdfs:host"], "help: write xdfs://host"),
        (["cp", "file", "xdfs://host:/data/"], "leave the ':' out"),
        (["cp", "file", "ssh://host:/data/"], "leave the ':' out"),
    ] {
        scene.run(words).ends_with(exit::USAGE).says(&[told]);
    }
}

#[test]
fn what_other_programs_do_is_answered_with_what_does_it_here() {
    let scene = Scene::new();
    let server = scene.serve();
    scene
        .run(["ls", "-la", &server.url("")])
        .ends_with(exit::USAGE)
        .says(&["-a: 'xdfs ls' has no such option\nhelp: names that begin with a dot are listed"]);
    for (name, told) in [("umount", "fusermount3 -u DIR"), ("rsync", "xdfs sync"), ("get", "xdfs cp URL .")] {
        scene.run([name, "x"]).ends_with(exit::USAGE).says(&["there is no command", "\nhelp: ", told]);
    }
    let deep = scene.run(["mkdir", &server.url("a/b")]);
    deep.ends_with(exit::NOT_FOUND).says(&["no such file or directory\nhelp: -p makes"]);
    scene.run(["mkdir", "-p", &server.url("a/b")]).ends_with(exit::DONE);
}

#[test]
fn a_tree_that_is_not_there_is_not_found_and_a_file_is_for_cp() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("file", b"x");
    scene
        .run(["sync", "absent", &server.url("copy")])
        .ends_with(exit::NOT_FOUND)
        .says(&["'absent': no such directory"]);
    scene.run(["sync", "file", &server.url("copy")]).ends_with(exit::USAGE).says(&["'xdfs cp'"]);
}

#[test]
fn the_example_of_the_readme_and_a_user_added_twice_are_explained() {
    let scene = Scene::new();
    let add = |line: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", "echo \"$1\" | \"$0\" user add anna --key -"]).arg(xdfs_binary()).arg(line);
        command.current_dir(scene.path(""));
        scene.dress("somebody", &mut command);
        Running::start(command).wait()
    };
    let line = scene.run(["key", "create"]);
    let line = line.ends_with(exit::DONE).text().trim_end();
    for wrong in ["ssh-ed25519 AAAA... anna@laptop", "anna"] {
        add(wrong).ends_with(exit::LOCAL).says(&["\nhelp: a key is a line such as 'ssh-ed25519 "]);
    }
    add(line).ends_with(exit::DONE);
    add(line).ends_with(exit::EXISTS).says(&["there is a user anna already\nhelp: ", "xdfs user key anna"]);
}

#[test]
fn what_users_keys_and_trust_lack_is_said_with_the_command_on_a_line_of_its_own() {
    let scene = Scene::new();
    let says = |line: &str, code, text: &str| {
        let words = line.split(' ').chain(["--state", "mine"]);
        scene.run_as("anna", words).ends_with(code).says(&[text]);
    };
    says("user list", exit::DONE, "nobody may log in yet\nhelp: add somebody with 'xdfs user add ");
    says("user add anna", exit::DONE, "nothing logs anna in yet\nhelp: give a key with 'xdfs user key anna ");
    says("user revoke bert", exit::NOT_FOUND, "\nhelp: 'xdfs user list --state mine' shows who is there");
    says("user revoke anna", exit::DONE, "");
    let again = scene.run_as("anna", ["user", "revoke", "anna", "--state", "mine"]);
    assert_eq!(again.ends_with(exit::DONE).text(), "user anna was revoked already; nothing is changed\n");
    says("user token anna --export a", exit::DONE, "cannot log in\nhelp: 'xdfs user restore anna --state mine'");
    says("user revoke anna --password", exit::NOT_FOUND, "\nhelp: 'xdfs user list --state mine' shows who is there");
    says(
        "trust forget far",
        exit::NOT_FOUND,
        "far:2799 is not known\nhelp: 'xdfs trust list --state mine' shows who is",
    );
    says("key show --host", exit::NOT_FOUND, "\nhelp: 'xdfs serve --state mine' makes one when it starts first");
}

#[test]
fn keys_and_users_of_a_service_are_pointed_to() {
    assert!(xdfs_test_needs::root("a mount namespace with its own /var/lib"));
    let scene = Scene::new();
    let script = "mount -t tmpfs tmpfs /var/lib; mkdir /var/lib/xdfs; ! \"$1\" key show --host; \"$1\" user list";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", script, "sh"]).arg(xdfs_binary());
    scene.dress("anna", &mut command);
    let of_service = "\nhelp: of the service of this machine: ";
    let told = Running::start(command).wait();
    let key = format!("{of_service}xdfs key show --host --state /var/lib/xdfs\nhelp: 'xdfs serve");
    let users = format!("nobody may log in yet{of_service}xdfs user list --state /var/lib/xdfs\nhelp: add somebody");
    told.ends_with(exit::DONE).says(&[&key, &users]);
    // Who names a folder means that one.
    scene.run_as("anna", ["user", "list", "--state", "mine"]).says(&["nobody may log in yet\nhelp: add somebody"]);
}

#[test]
fn a_file_with_a_password_and_no_user_is_said_to_need_one() {
    let scene = Scene::new();
    let mut serve = scene.command(["serve", "--json", "--listen", "127.0.0.1:0", "--export", "data=server"]);
    scene.directory("server");
    serve.args(["--state", "server-state"]);
    let server = Server::start(serve, &[]);
    scene.write("secret", b"word\n");
    scene.make_private("secret");
    let needs = format!("\nhelp: --password-file needs a user: write xdfs://USER@{}/data/", server.address());
    let refused = scene.run(["ls", "--password-file", "secret", &server.url("")]);
    refused.ends_with(exit::LOGIN_REFUSED).says(&[&needs]);
    assert!(!refused.messages.contains("XDFS_TOKEN_FILE"), "{}", refused.messages);
    let mut by_variable = scene.command(["ls", &server.url("")]);
    by_variable.env("XDFS_PASSWORD_FILE", "secret");
    Running::start(by_variable).wait().says(&["\nhelp: XDFS_PASSWORD_FILE needs a user"]);
}

#[test]
fn what_is_typed_as_a_key_a_rate_or_a_file_is_told_what_it_lacks() {
    let scene = Scene::new();
    let refused = |words: &[&str], code, told: &str| {
        scene.run(words).ends_with(code).says(&[told, "\nhelp: "]);
    };
    let pinned = scene.run(["trust", "pin", "host", "sha256:abc"]);
    pinned.ends_with(exit::NOT_FOUND).says(&[
        "sha256:abc: this is neither a fingerprint nor a file\nhelp: a fingerprint is written as SHA256:47DEQ",
    ]);
    refused(&["trust", "pin", "host", "SHA256:abc"], exit::USAGE, "SHA256:abc: ");
    refused(&["cp", "--bwlimit", "2 M", "a", "xdfs://h/data/"], exit::USAGE, "'2 M' is no rate");
    let config = scene.home("somebody", ".config/xdfs/config");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(&config, "[hosts.lab]\naddress = \"h\"\nbandwidth = \"2 M\"\n").unwrap();
    refused(&["ls", "lab:data/"], exit::USAGE, "'2 M' is no rate");
    std::fs::remove_file(config).unwrap();
    let mut alone = scene.command(["serve", "--stdio"]);
    alone.stdin(Stdio::null());
    Running::start(alone)
        .wait()
        .ends_with(exit::USAGE)
        .says(&["standard input ended before a client spoke; this is for"]);
    scene.directory("mine");
    scene.make_private("mine");
    scene.write("mine/host_key", b"hello\n");
    std::fs::set_permissions(scene.path("mine/host_key"), PermissionsExt::from_mode(0o600)).unwrap();
    refused(&["key", "show", "--host", "--state", "mine"], exit::LOCAL, "it holds no key\nhelp: restore the file");
}

#[test]
fn directories_and_missing_files_have_their_own_exit_codes() {
    let scene = Scene::new();
    let server = scene.serve();
    let copied = scene.run(["cp", ".", &server.url("")]);
    copied.ends_with(exit::USAGE).says(&["this names a directory\nhelp: copy it with -r"]);
    let url = server.url("");
    scene.run(["find", &url, "-newer", "foo"]).ends_with(exit::NOT_FOUND).says(&["-newer foo: "]);
}

#[test]
fn the_port_of_a_server_is_no_number_of_channels() {
    let told =
        "-P 2799: this is the number of parallel channels\nhelp: a port is written in the URL, as in xdfs://HOST:2799/";
    for command in ["cp", "sync"] {
        Scene::new().run([command, "-P", "2799", "a", "xdfs://host/data/x"]).ends_with(exit::USAGE).says(&[told]);
    }
}

#[test]
fn the_port_of_ssh_is_no_number_of_channels() {
    let scene = Scene::new();
    scene.write("a", b"x");
    let cause = "-P 2222: this is the number of parallel channels, not a port\nhelp: ";
    for (url, remedy) in [
        ("ssh://anna@host/x", "a port is written in the address: ssh://anna@host:2222/x"),
        ("ssh:host:x", "a port is named to ssh: --ssh 'ssh -p 2222'"),
    ] {
        for words in [["cp", "-P", "2222", "a", url], ["cp", "-P", "2222", url, "b"], ["sync", "-P", "2222", "a", url]]
        {
            scene.run(words).ends_with(exit::USAGE).says(&[&format!("{cause}{remedy}")]);
        }
    }
}

#[test]
fn a_port_where_nothing_listens_is_told_once_with_the_url_and_the_command_for_that_port() {
    let scene = Scene::new();
    let told = scene.run(["ls", "xdfs://127.0.0.1:1/data/"]);
    told.ends_with(exit::CONNECTION_LOST).says(&[
        "error: xdfs://127.0.0.1:1/data/: cannot connect to 127.0.0.1:1: connection refused\n",
        "xdfs serve --listen '[::]:1' --export data=DIRECTORY",
    ]);
}

#[test]
fn a_name_that_was_typed_as_it_is_written_in_no_url_is_found() {
    let scene = Scene::new();
    scene.write("server/a%20b", b"x");
    scene.write("server/d%20/c", b"x");
    let server = scene.serve();
    for words in [["cat", "a%20b"], ["stat", "a%20b"], ["sum", "a%20b"], ["ls", "d%20/c"]] {
        let told = scene.run([words[0], &server.url(words[1])]);
        told.ends_with(exit::NOT_FOUND).says(&["help: there is '", "a '%' in a name is written %25: ", "%2520"]);
    }
    scene.run(["cp", &server.url("a%20b"), "x"]).ends_with(exit::NOT_FOUND).says(&["/data/a%2520b"]);
    scene.run(["cp", "-r", &server.url("d%20"), "x"]).ends_with(exit::NOT_FOUND).says(&["/data/d%2520"]);
    scene.run(["sync", &server.url("d%20"), "x"]).ends_with(exit::NOT_FOUND).says(&["/data/d%2520"]);
    let none = scene.run(["cat", &server.url("e%20f")]);
    assert!(!none.ends_with(exit::NOT_FOUND).messages.contains("help"), "{}", none.messages);
    let several = format!("xdfs://{}//data//d%2520///c", server.address());
    scene.run(["cat", &several]).ends_with(exit::DONE);
}

#[test]
fn where_an_export_may_only_be_read_it_is_said_how_another_is_found() {
    let scene = Scene::new();
    scene.write("server/file", b"x");
    let server = scene.serve_with(&["--allow-anonymous", "ro"]);
    for words in [["mkdir", "new"], ["rm", "file"], ["touch", "file"]] {
        let url = server.url(words[1]);
        let told = scene.run([words[0], &url]);
        told.ends_with(exit::PERMISSION_DENIED).says(&[&format!("error: {url}: "), "\nhelp: "]);
    }
    let read_only = scene.serve_with(&["--export", "fixed=server:ro"]);
    for words in [["mkdir", "new"], ["rm", "file"], ["touch", "file"]] {
        let url = read_only.url_in("fixed", words[1]);
        let told = scene.run([words[0], &url]);
        let list = format!("error: {url}: read-only\nhelp: choose an export that may be written: xdfs ls -l ");
        told.ends_with(exit::PERMISSION_DENIED).says(&[&list]);
    }
}

#[test]
fn a_public_key_in_place_of_its_file_is_recognised() {
    let scene = Scene::new();
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMqK8ZuxuBl4bF6Z1HKiw7eKryCWW0q6FjGF9WaOi8iB anna@laptop";
    let told = scene.run(["user", "add", "anna", "--key", key]);
    told.ends_with(exit::NOT_FOUND).says(&["help: this is a public key itself; give it at standard input: echo "]);
    let words = ["user", "add", "anna", "--key"].into_iter().chain(key.split(' '));
    let told = scene.run(words);
    told.ends_with(exit::USAGE).says(&["help: this is a public key itself; give it at standard input: echo "]);
}

#[test]
fn the_key_of_a_server_is_pinned_by_its_line_too() {
    let scene = Scene::new();
    let server = scene.serve();
    let line = std::fs::read_to_string(scene.home("somebody", "state/xdfs/host_key.pub")).expect("the server made it");
    let (line, host) = (line.trim(), server.address().to_string());
    let pinned = format!("{host} is trusted with the key {}", server.host_key());
    assert!(scene.run(["trust", "pin", &host, line]).ends_with(exit::DONE).text().starts_with(&pinned));
    let mut piped = scene.start(["trust", "pin", &host, "-"]);
    piped.feed(line.as_bytes());
    assert!(piped.wait().ends_with(exit::DONE).text().starts_with(&pinned));
    let unquoted = scene.run(["trust", "pin", &host].into_iter().chain(line.split(' ')));
    unquoted.ends_with(exit::USAGE).says(&["\nhelp: a key has two words: put it in quotes, 'ssh-ed25519 AAAA"]);
    let broken = scene.run(["trust", "pin", &host, "ssh-ed25519 AAAA..."]);
    assert!(!broken.ends_with(exit::LOCAL).messages.contains("user add"), "{}", broken.messages);
}

#[test]
fn options_of_a_login_that_ssh_does_not_read_are_refused() {
    let scene = Scene::new();
    scene.write("a", b"x");
    for (option, remedy) in [
        ("--identity", "help: name the key to ssh: --ssh 'ssh -i my-file'"),
        ("--password-file", "help: ssh asks for a password itself"),
        ("--ca", "help: ssh knows the keys of its hosts itself"),
    ] {
        for words in [&["cp", "a", "ssh://far/x"][..], &["sync", "ssh:far:x", "y"], &["ls", "ssh://far/"]] {
            let refused = scene.run([&words[..1], &[option, "my-file"], &words[1..]].concat());
            refused.ends_with(exit::USAGE).says(&[&format!("{option}: to ssh:"), "ssh logs in", remedy]);
        }
    }
    let words = ["sum", "--ssh", "/bin/false", "--password-file", "absent", "ssh:far:x", "xdfs://127.0.0.1:1/data/x"];
    let other = scene.run(words);
    assert!(other.code.is_some_and(|code| code > exit::USAGE) && other.messages.contains("far"), "{}", other.messages);
    let json = scene.run(["cp", "--json", "--identity", "my-file", "a", "ssh://far/x"]);
    assert_eq!(json.ends_with(exit::USAGE).objects()[0]["code"], "usage");
}

#[test]
fn a_server_of_the_configuration_file_without_its_colon_is_recognised() {
    let scene = Scene::new();
    scene.write("home-somebody/.config/xdfs/config", b"[hosts.lab]\naddress = \"127.0.0.1:1\"\n");
    scene.write("file", b"x");
    for words in [&["cp", "file", "lab"][..], &["cp", "-r", "lab", "."], &["ls", "lab"]] {
        let told = scene.run(words);
        told.ends_with(exit::USAGE).says(&["lab: this is a server of ", "\nhelp: write lab:path"]);
    }
}

#[test]
fn what_is_missing_is_said_with_the_command_that_makes_it() {
    let scene = Scene::new();
    scene.write("a", b"x");
    scene.write("b", b"x");
    scene.write("tree/c", b"x");
    scene.write("server/file", b"x");
    let server = scene.serve();
    let (host, key) = (server.address(), server.host_key());
    let far = server.url("no/x");
    let make = |path: &str| format!("\nhelp: make it first: xdfs mkdir -p 'xdfs://{host}/data/{path}#{key}'");
    for words in
        [&["cp", "a", &far][..], &["cp", "-r", "tree", &far], &["sync", "tree", &far], &["cp", "--dry-run", "a", &far]]
    {
        let told = scene.run(words);
        told.ends_with(exit::NOT_FOUND).says(&["no such directory", &make("no/")]);
        assert_eq!(told.messages.matches("help: ").count(), 1, "{words:?}: {}", told.messages);
    }
    let above = server.url("no");
    for words in [["cp", "a", "b", &above].as_slice(), &["cp", "-r", "tree", "a", &above]] {
        let told = scene.run(words);
        told.ends_with(exit::NOT_FOUND).says(&[&format!("{above}: no such directory{}", make("no"))]);
        assert_eq!(told.messages.matches("error: ").count(), 1, "{}", told.messages);
    }
    let file = server.url("file");
    let none = scene.run(["cp", "a", "b", &file]);
    none.ends_with(exit::USAGE)
        .says(&["several sources need a directory as their target, and this is not one\nhelp: "]);
    let down = |target: &str| scene.run(["cp", &file, &server.url("other"), target]);
    down("a")
        .ends_with(exit::USAGE)
        .says(&["a: several sources need a directory", "and this is not one\nhelp: name a "]);
    down("new place")
        .ends_with(exit::NOT_FOUND)
        .says(&["new place: no such directory\nhelp: make it first: mkdir -p 'new place'"]);
    for words in [["cp", &file, "no/such/x"].as_slice(), &["cp", "-r", &server.url(""), "no/such/x"]] {
        scene
            .run(words)
            .ends_with(exit::NOT_FOUND)
            .says(&["no such directory", "\nhelp: make it first: mkdir -p no/such"]);
    }
    scene.run(["cp", &file, "no/such/"]).ends_with(exit::NOT_FOUND).says(&["\nhelp: make it first: mkdir -p no/such/"]);
    let (missing, list) =
        (server.url_in("nosuch", "x"), format!("\nhelp: xdfs ls 'xdfs://{host}/#{key}' lists the exports"));
    for words in [
        &["cp", "a", &missing][..],
        &["cp", "--dry-run", "a", &missing],
        &["cp", &missing, "y"],
        &["cp", "-r", "tree", &missing],
        &["sync", "--dry-run", "tree", &missing],
        &["sync", &missing, "y"],
        &["ls", &missing],
        &["mkdir", &missing],
    ] {
        let told = scene.run(words);
        told.ends_with(exit::NOT_FOUND).says(&["no export 'nosuch'", &list]);
        assert_eq!(told.messages.matches("help: ").count(), 1, "{words:?}: {}", told.messages);
    }
}

#[test]
fn where_ssh_fails_it_is_named_alone_and_an_empty_variable_is_none() {
    let scene = Scene::new();
    scene.write("a", b"x");
    let ssh = scene.write("bin/ssh", b"#!/bin/sh\nexit 255\n");
    std::fs::set_permissions(&ssh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("our own file");
    let mut command = scene.command(["cp", "a", "ssh://anna@far:2222/x"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", scene.path("bin").display())).env("XDFS_SSH", "");
    let told = Running::start(command).wait();
    told.ends_with(exit::LOGIN_REFUSED).says(&[
        "ssh could not connect or log in, and does not say why\nhelp: try ssh alone first: ssh -p 2222 anna@far true",
    ]);
    // The server may be there.
    scene.write("bin/ssh", b"#!/bin/sh\nkill -9 $$\n");
    scene
        .run(["ls", "ssh://far/", &format!("--ssh={}", ssh.display())])
        .ends_with(exit::CONNECTION_LOST)
        .says(&["137"]);
}

#[test]
fn drivers_are_only_mentioned_where_something_answers() {
    let scene = Scene::new();
    let server = scene.serve();
    let url = server.url("x");
    assert_eq!(server.stop(), Some(0));
    let told = scene.run(["ls", &url]);
    told.ends_with(exit::CONNECTION_LOST).says(&["refused", "\nhelp: is 'xdfs serve' running there, on port "]);
    assert!(!told.messages.contains("stack"), "{}", told.messages);
}

#[test]
fn a_remedy_is_a_line_of_its_own_also_for_files_and_tests_of_find() {
    let scene = Scene::new();
    let secret = scene.write("secret", b"a long password\n");
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("our own file");
    let refused = scene.run(["user", "add", "anna", "--password-file", "secret"]);
    refused
        .ends_with(exit::PERMISSION_DENIED)
        .says(&["has mode 0644: others may read it\nhelp: run chmod go= 'secret'\n"]);
    scene.write("tree/a", b"x");
    let server = scene.serve();
    for option in ["--exclude-from", "--files-from"] {
        // Before anything is connected to.
        for (command, to) in [("sync", server.url("x")), ("cp", "xdfs://127.0.0.1:1/data/x".to_owned())] {
            let recursive = if command == "cp" { "-r" } else { "-q" };
            let absent = scene.run([command, recursive, option, "absent", "tree", &to]);
            absent.ends_with(exit::NOT_FOUND).says(&[&format!("{option} absent: no such file or directory")]);
        }
    }
    for (test, told) in [("-o", "all tests must hold"), ("-mmin", "-newer FILE"), ("-frob", "there are -name, -iname")]
    {
        let refused = scene.run(["find", "xdfs://127.0.0.1:1/data", test, "5"]);
        refused.ends_with(exit::USAGE).says(&[&format!("{test}: there is no such test\nhelp: "), told]);
    }
}

#[test]
fn a_token_for_an_export_that_no_server_offers_is_doubted() {
    let scene = Scene::new();
    scene.run(["user", "add", "anna"]).ends_with(exit::DONE);
    let token = |export: &str| scene.run(["user", "token", "anna", "--export", export]);
    let before = token("dota");
    assert!(!before.ends_with(exit::DONE).messages.contains("offers"), "nobody knows yet: {}", before.messages);
    let server = scene.serve_with(&["--export", "more=server"]);
    assert_eq!(server.stop(), Some(0));
    let wrong = token("dota");
    wrong.ends_with(exit::DONE).says(&[
        "offers no export 'dota'; it offers ",
        "data",
        "more",
        "\nhelp: if the name is wrong, ",
    ]);
    let (_, command) = wrong.messages.split_once("take the token back: xdfs ").expect("a command");
    scene.run(command.trim().split(' ')).ends_with(exit::DONE);
    let right = token("data");
    assert!(!right.ends_with(exit::DONE).messages.contains("offers"), "{}", right.messages);
}
