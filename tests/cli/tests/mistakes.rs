//! Mistakes of the first hour: each is answered with what to type instead.

use std::process::Command;

use xdfs_test_cli::{Running, Scene, exit, xdfs_binary};

#[test]
fn a_url_that_is_not_finished_says_what_is_missing() {
    let scene = Scene::new();
    scene.write("file", b"x");
    let server = scene.serve();
    let top = format!("xdfs://{}", server.address());
    for (words, told) in [
        (["cp", "file", &format!("{top}/")], "'xdfs ls xdfs://HOST/' lists those"),
        (["df", &top, &top], "'xdfs ls xdfs://HOST/' lists those"),
        (["cp", "file", "xdfs:/host/data/"], "write xdfs://HOST/EXPORT/path"),
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
    scene.run(["sync", "file", &server.url("copy")]).ends_with(exit::LOCAL).says(&["'xdfs cp'"]);
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
    says("user token anna --export a", exit::DONE, "cannot log in\nhelp: 'xdfs user restore anna --state mine'");
    says("user revoke anna --password", exit::NOT_FOUND, "\nhelp: 'xdfs user list --state mine' shows who is there");
    says(
        "trust forget far",
        exit::NOT_FOUND,
        "far:2799 is not known\nhelp: 'xdfs trust list --state mine' shows who is",
    );
    says("key show --host", exit::NOT_FOUND, "\nhelp: 'xdfs serve --state mine' makes one when it starts first");
}
