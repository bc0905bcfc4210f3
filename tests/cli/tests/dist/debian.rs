//! The packages in a Debian with nothing but what every Debian has.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use xdfs_test_cli::{Scene, Server, exit, pattern};

use crate::{PATH, alone, done, only};

/// A command in the Debian below `root`, which has /proc and /dev/fuse, as a user of it (`name:group`). Its mounts go with it.
fn in_debian(root: &Path, user: &str) -> Command {
    let mut command = Command::new("unshare");
    let script = r#"mount -t proc proc "$1/proc" && touch "$1/dev/fuse" && mount --bind /dev/fuse "$1/dev/fuse" &&
        exec chroot --userspec="$0" "$@""#;
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
    // The tests of this program run beside each other, and one of them makes it.
    static KEPT: OnceLock<PathBuf> = OnceLock::new();
    let kept = KEPT.get_or_init(|| {
        let kept = alone().join("clean-debian");
        if !kept.exists() {
            let new = kept.with_extension("new");
            let _ = std::fs::remove_dir_all(&new);
            done(Command::new("debootstrap").args(["--variant=minbase", &release()]).arg(&new));
            std::fs::rename(&new, &kept).expect("it is complete");
        }
        kept
    });
    done(Command::new("cp").args(["--archive", "--reflink=auto"]).arg(kept).arg(to));
}

/// A clean Debian in a scene, with the package installed.
fn with_package(scene: &Scene) -> PathBuf {
    let root = scene.path("debian");
    clean_debian(&root);
    std::fs::copy(only(".deb"), root.join("xdfs.deb")).expect("it is ours");
    done(in_debian(&root, "root:root").args(["dpkg", "--install", "/xdfs.deb"]));
    root
}

/// A server is started as the package has it, by the user that the package has made, and a file is copied to it.
#[track_caller]
fn is_used(root: &Path) {
    let shown = done(in_debian(root, "root:root").args(["stat", "-c", "%U:%G %a", "/srv/xdfs", "/var/lib/xdfs"]));
    assert_eq!(shown, "xdfs:xdfs 750\nxdfs:xdfs 700\n");

    let xdfs = |words: &[&str]| {
        let mut command = in_debian(root, "xdfs:xdfs");
        command.args(["/usr/bin/xdfs"]).args(words);
        command
    };
    let checked = done(&mut xdfs(&["serve", "--check", "--config", "/etc/xdfs/server.toml"]));
    assert!(checked.contains("offers data"), "{checked}");
    std::fs::write(root.join("password"), b"correct horse battery\n").expect("the root is ours");
    done(in_debian(root, "root:root").args(["chown", "xdfs", "/password"]));
    done(in_debian(root, "root:root").args(["chmod", "600", "/password"]));
    let add = ["user", "add", "anna", "--password-file", "/password", "--state", "/var/lib/xdfs"];
    done(&mut xdfs(&add));
    let server = xdfs(&["serve", "--json", "--listen", "127.0.0.1:0", "--config", "/etc/xdfs/server.toml"]);
    let server = Server::start(server, &[]);
    std::fs::write(root.join("file"), pattern(3_000_000, 1)).expect("the root is ours");
    let url = server.url("file").replace("xdfs://", "xdfs://anna@");
    done(xdfs(&["cp", "--password-file", "/password", "/file", &url]).env("HOME", "/var/lib/xdfs"));
    assert_eq!(std::fs::read(root.join("srv/xdfs/file")).expect("it arrived"), pattern(3_000_000, 1));
    assert_eq!(server.stop(), Some(exit::DONE));
}

#[test]
fn the_debian_package_is_installed_in_a_clean_debian_used_and_removed() {
    let scene = Scene::new();
    let root = with_package(&scene);
    is_used(&root);
    done(in_debian(&root, "root:root").args(["dpkg", "--purge", "xdfs"]));
    for gone in ["usr/bin/xdfs", "etc/xdfs", "var/lib/xdfs", "var/log/xdfs", "usr/sbin/mount.xdfs"] {
        assert!(root.join(gone).symlink_metadata().is_err(), "{gone}");
    }
    assert!(root.join("srv/xdfs/file").exists(), "what was served stays");
}

/// The scripts of the `.rpm` run as rpm runs them, in a root that has a shell and `useradd`; whose they are is all the same.
#[test]
fn the_rpm_is_installed_with_its_scripts_used_and_removed() {
    assert!(xdfs_test_needs::program("rpm", "rpm"));
    let scene = Scene::new();
    let root = scene.path("root");
    clean_debian(&root);
    let rpm = || {
        let mut command = Command::new("rpm");
        command.arg("--root").arg(&root).args(["--dbpath", "/var/lib/rpm", "--nodeps"]);
        command
    };
    done(rpm().arg("--install").arg(only(".rpm")));
    is_used(&root);
    done(rpm().args(["--erase", "xdfs"]));
    for gone in ["usr/bin/xdfs", "usr/sbin/mount.xdfs", "usr/lib/systemd/system/xdfs.service"] {
        assert!(root.join(gone).symlink_metadata().is_err(), "{gone}");
    }
    for stays in ["srv/xdfs/file", "var/lib/xdfs/users.toml"] {
        assert!(root.join(stays).exists(), "{stays}: what was served, and who may log in, stays");
    }
}

#[test]
fn with_the_package_a_line_in_fstab_is_mounted() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", b"content");
    let root = with_package(&scene);
    let fstab = format!("{} /mnt/data xdfs _netdev,nofail,timeout=5 0 0\n", server.url(""));
    scene.write("debian/etc/fstab", fstab.as_bytes());
    let script = "trap 'umount -l /mnt/data 2> /dev/null || true' EXIT; mkdir /mnt/data\n\
        mount -T /etc/fstab /mnt/data; stat -f -c %T /mnt/data; cat /mnt/data/file\n\
        echo changed > /mnt/data/new; umount /mnt/data\n\
        mount /mnt/data -o ro; ! touch /mnt/data/file 2> /dev/null; umount /mnt/data; ! test -e /mnt/data/file";
    let shown = done(in_debian(&root, "root:root").args(["sh", "-ec", script]));
    assert_eq!(shown, "fuseblk\ncontent");
    assert_eq!(scene.read("server/new"), b"changed\n");
}
