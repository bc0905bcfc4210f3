//! The `.deb` in a Debian with nothing but what every Debian has.

use std::path::Path;
use std::process::Command;

use xdfs_test_cli::{Scene, Server, exit, pattern};

use crate::{PATH, alone, done, only};

/// A command in the Debian below `root`, which has /proc, as a user of it (`name:group`). The mount goes with the command.
fn in_debian(root: &Path, user: &str) -> Command {
    let mut command = Command::new("unshare");
    let script = r#"mount -t proc proc "$1/proc" && exec chroot --userspec="$0" "$@""#;
    command.args(["--mount", "sh", "-c", script, user]).arg(root).env_clear().env("PATH", PATH);
    command
}

/// The release of Debian that runs here, whose libraries a binary that was built here expects.
fn release() -> String {
    let about = std::fs::read_to_string("/etc/os-release").expect("every Linux says what it is");
    let name = about.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.unwrap_or("bookworm").trim_matches('"').to_owned()
}

/// A clean Debian; fetched once, then copied.
fn clean_debian(to: &Path) {
    assert!(xdfs_test_needs::root("to enter another root directory"));
    assert!(xdfs_test_needs::program("debootstrap", "debootstrap"));
    let kept = alone().join("clean-debian");
    if !kept.exists() {
        let new = kept.with_extension("new");
        let _ = std::fs::remove_dir_all(&new);
        done(Command::new("debootstrap").args(["--variant=minbase", &release()]).arg(&new));
        std::fs::rename(&new, &kept).expect("it is complete");
    }
    done(Command::new("cp").args(["--archive", "--reflink=auto"]).arg(kept).arg(to));
}

#[test]
fn the_debian_package_is_installed_in_a_clean_debian_used_and_removed() {
    let scene = Scene::new();
    let root = scene.path("debian");
    clean_debian(&root);
    std::fs::copy(only(".deb"), root.join("xdfs.deb")).expect("it is ours");
    done(in_debian(&root, "root:root").args(["dpkg", "--install", "/xdfs.deb"]));
    let shown = done(in_debian(&root, "root:root").args(["stat", "-c", "%U:%G %a", "/srv/xdfs", "/var/lib/xdfs"]));
    assert_eq!(shown, "xdfs:xdfs 750\nxdfs:xdfs 700\n");

    let xdfs = |words: &[&str]| {
        let mut command = in_debian(&root, "xdfs:xdfs");
        command.args(["/usr/bin/xdfs"]).args(words);
        command
    };
    let checked = done(&mut xdfs(&["serve", "--check", "--config", "/etc/xdfs/server.toml"]));
    assert!(checked.contains("offers data"), "{checked}");
    std::fs::write(root.join("password"), b"correct horse battery\n").expect("the root is ours");
    done(in_debian(&root, "root:root").args(["chown", "xdfs", "/password"]));
    done(in_debian(&root, "root:root").args(["chmod", "600", "/password"]));
    let add = ["user", "add", "anna", "--password-file", "/password", "--state", "/var/lib/xdfs"];
    done(&mut xdfs(&add));
    let server = xdfs(&["serve", "--json", "--listen", "127.0.0.1:0", "--config", "/etc/xdfs/server.toml"]);
    let server = Server::start(server, &[]);
    std::fs::write(root.join("file"), pattern(3_000_000, 1)).expect("the root is ours");
    let url = server.url("file").replace("xdfs://", "xdfs://anna@");
    done(xdfs(&["cp", "--password-file", "/password", "/file", &url]).env("HOME", "/var/lib/xdfs"));
    assert_eq!(std::fs::read(root.join("srv/xdfs/file")).expect("it arrived"), pattern(3_000_000, 1));
    assert_eq!(server.stop(), Some(exit::DONE));

    done(in_debian(&root, "root:root").args(["dpkg", "--purge", "xdfs"]));
    for gone in ["usr/bin/xdfs", "etc/xdfs", "var/lib/xdfs", "var/log/xdfs"] {
        assert!(!root.join(gone).exists(), "{gone}");
    }
    assert!(root.join("srv/xdfs/file").exists(), "what was served stays");
}
