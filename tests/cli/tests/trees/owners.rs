//! Owners by name: each side has its own /etc/passwd and /etc/group, in mounts of its own. Root alone can be tried out.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::Command;

use xdfs_test_cli::{Running, Scene, Server, exit, xdfs_binary};

/// `xdfs` with `words`, which sees the names in `passwd` and `group` of `side`.
fn seeing(scene: &Scene, side: &str, words: &[&str]) -> Command {
    let script = "mount --bind \"$0\" /etc/passwd && mount --bind \"$1\" /etc/group || exit 99; shift; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(scene.path(format!("{side}.passwd")));
    command.arg(scene.path(format!("{side}.group"))).arg(xdfs_binary()).args(words).current_dir(scene.path(""));
    scene.dress(side, &mut command);
    command
}

/// Anna and her group have other numbers on each side, bert only a name here, and his number belongs to carl there.
fn names(scene: &Scene) {
    let line = |name: &str, number: u32| format!("{name}:x:{number}:{number}::/:/bin/sh\n");
    let all = |lines: &[(&str, u32)]| lines.iter().map(|(name, number)| line(name, *number)).collect::<String>();
    for file in ["passwd", "group"] {
        let shift = if file == "group" { 100 } else { 0 };
        let here = all(&[("root", 0), ("anna", 5001 + shift), ("bert", 5002 + shift)]);
        let there = all(&[("root", 0), ("carl", 5002 + shift), ("anna", 6001 + shift)]);
        scene.write(format!("client.{file}"), here.as_bytes());
        scene.write(format!("server.{file}"), there.as_bytes());
    }
}

fn owner(scene: &Scene, name: &str) -> (u32, u32) {
    let stat = std::fs::symlink_metadata(scene.path(name)).expect("it is there");
    (stat.uid(), stat.gid())
}

#[test]
fn owners_go_by_name_where_both_sides_know_it_and_else_by_number() {
    if !xdfs_test_needs::root("nobody else gives files away") {
        return;
    }
    let scene = Scene::new();
    names(&scene);
    for (name, user, group) in [("anna", 5001, 5101), ("bert", 5002, 5102), ("nobody", 5999, 5998), ("root", 0, 0)] {
        chown(scene.write(format!("tree/{name}"), name.as_bytes()), Some(user), Some(group)).expect("an owner");
    }
    // More than a batch of small files: a transfer of its own.
    chown(scene.write("tree/large", &vec![7; 1 << 20]), Some(5001), Some(5998)).expect("an owner");
    chown(scene.path("tree"), Some(5001), Some(5101)).expect("an owner");
    scene.directory("server");
    let password = scene.write("secret", b"correct horse battery");
    std::fs::set_permissions(&password, PermissionsExt::from_mode(0o600)).expect("a mode");
    scene.run_as("server", ["user", "add", "dora", "--password-file", "secret"]).ends_with(0);
    let words = ["serve", "--json", "--listen", "127.0.0.1:0", "--quiet", "--export", "data=server"];
    let keep = ["--keep", "owner,modes", "--allow-anonymous", "rw"];
    let server = Server::start(seeing(&scene, "server", &words), &keep);
    let client = |words: &[&str]| Running::start(seeing(&scene, "client", words)).wait();
    let up = |words: &[&str], copy: &str| {
        client(&[&["cp", "-a"], words, &["tree", &server.url(copy)]].concat()).ends_with(0);
    };
    up(&[], "copy");
    let expected = |copy: &str, anna: (u32, u32), large: (u32, u32)| {
        for (name, numbers) in [("", anna), ("anna", anna), ("large", large)] {
            assert_eq!(owner(&scene, &format!("{copy}/{name}")), numbers, "{copy}/{name}");
        }
        let others = ["bert", "nobody", "root"].map(|name| owner(&scene, &format!("{copy}/{name}")));
        assert_eq!(others, [(5002, 5102), (5999, 5998), (0, 0)], "{copy}");
    };
    expected("server/copy", (6001, 6101), (6001, 5998));
    up(&["--numeric-ids"], "numbers");
    expected("server/numbers", (5001, 5101), (5001, 5998));
    // Down, as somebody who is told the names, and as a visitor, who is not. Whom only the other side has keeps the number.
    let as_dora = server.url("copy").replace("xdfs://", "xdfs://dora@");
    let login = ["cp", "-a", "--password-file", "secret"];
    client(&[&login[..], &[&as_dora, "down"]].concat()).ends_with(0);
    expected("down", (5001, 5101), (5001, 5998));
    client(&[&login[..], &["--numeric-ids", &as_dora, "down-numbers"]].concat()).ends_with(0);
    expected("down-numbers", (6001, 6101), (6001, 5998));
    client(&["cp", "-a", &server.url("copy"), "down-visitor"]).ends_with(0);
    expected("down-visitor", (6001, 6101), (6001, 5998));
    client(&["cp", "-r", "--numeric-ids", "tree", &server.url("x")]).ends_with(exit::USAGE).says(&["--archive"]);
}
