//! What is in the packages, and the parts of them that are text.

use std::path::Path;
use std::process::Command;

use xdfs_test_cli::{Scene, exit};

use crate::{dist, done, only};

/// What every package unpacks.
const INSTALLED: [&str; 17] = [
    "/etc/logrotate.d/xdfs",
    "/etc/xdfs/server.toml",
    "/usr/bin/xdfs",
    "/usr/sbin/mount.xdfs",
    "/usr/lib/systemd/system/xdfs.service",
    "/usr/share/bash-completion/completions/xdfs",
    "/usr/share/zsh/vendor-completions/_xdfs",
    "/usr/share/zsh/site-functions/_xdfs",
    "/usr/share/fish/vendor_completions.d/xdfs.fish",
    "/usr/share/man/man1/xdfs.1.gz",
    "/usr/share/man/man1/xdfs-cp.1.gz",
    "/usr/share/man/man5/xdfs-config.5.gz",
    "/usr/share/man/man5/xdfs-server.toml.5.gz",
    "/usr/share/doc/xdfs/xdfs.cdx.json",
    "/usr/share/doc/xdfs/README.md",
    "/usr/share/doc/xdfs/docs/operations.md",
    "/usr/share/doc/xdfs/docs/xio.md",
];

#[test]
fn packages_hold_the_program_the_service_its_pages_and_completions() {
    assert!(xdfs_test_needs::program("rpm", "rpm"));
    done(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(dist()));

    let deb = only(".deb");
    let listed = done(Command::new("dpkg-deb").arg("--contents").arg(&deb));
    for line in listed.lines() {
        assert!(line.contains(" root/root "), "{line}");
        let is_program = line.ends_with("./usr/bin/xdfs") || line.ends_with("./usr/sbin/mount.xdfs -> ../bin/xdfs");
        assert!(line.starts_with('d') || line.starts_with("-rw-r--r--") || is_program, "{line}");
    }
    let rpm = only(".rpm");
    let in_rpm = done(Command::new("rpm").args(["--query", "--package", "--list"]).arg(&rpm));
    for path in INSTALLED {
        let is_listed = |line: &str| line.split(" -> ").next().is_some_and(|line| line.ends_with(&format!(" .{path}")));
        assert!(listed.lines().any(is_listed), "{path} in {listed}");
        assert!(in_rpm.lines().any(|line| line == path), "{path} in {in_rpm}");
    }
    // What ssh: and mounts of users need, without which all else works.
    let field = |name: &str| done(Command::new("dpkg-deb").arg("--field").arg(&deb).arg(name));
    assert_eq!((field("Recommends").trim(), field("Suggests").trim()), ("openssh-client", "fuse3"));
    let weak = |option: &str| done(Command::new("rpm").args(["--query", "--package", option]).arg(&rpm));
    assert_eq!((weak("--recommends").trim(), weak("--suggests").trim()), ("openssh-clients", "fuse3"));
    assert!(!listed.contains("/docs/decisions"), "{listed}");
    let configurations = done(Command::new("dpkg-deb").arg("--info").arg(&deb).arg("conffiles"));
    assert_eq!(configurations, "/etc/logrotate.d/xdfs\n/etc/xdfs/server.toml\n");
    let configurations = done(Command::new("rpm").args(["--query", "--package", "--configfiles"]).arg(&rpm));
    assert_eq!(configurations, "/etc/logrotate.d/xdfs\n/etc/xdfs/server.toml\n");
    let scripts = done(Command::new("rpm").args(["--query", "--package", "--scripts"]).arg(&rpm));
    assert!(scripts.contains("useradd --system") && scripts.contains("/srv/xdfs"), "{scripts}");

    // As rpm itself unpacks it.
    assert!(xdfs_test_needs::root("to unpack a package as its owner"));
    let scene = Scene::new();
    let root = scene.directory("root");
    let mut install = Command::new("rpm");
    install.arg("--root").arg(&root).args(["--dbpath", "/var/lib/rpm", "--install", "--nodeps", "--noscripts"]);
    done(install.arg(&rpm));
    let version = done(Command::new(root.join("usr/bin/xdfs")).arg("--version"));
    assert!(version.starts_with("xdfs "), "{version}");
    let help = done(Command::new(root.join("usr/sbin/mount.xdfs")).arg("--help"));
    assert!(help.contains("Usage: xdfs mount "), "{help}");
    let pages = root.join("usr/share/doc/xdfs");
    assert!(links_lead_somewhere(&pages) > 0 && links_lead_somewhere(&pages.join("docs")) > 20);
}

/// The number of links to files in the pages of this folder; none is dead.
fn links_lead_somewhere(folder: &Path) -> usize {
    let mut count = 0;
    let entries = std::fs::read_dir(folder).expect("the pages are unpacked");
    for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
        let Ok(page) = std::fs::read_to_string(entry.path()) else { continue };
        let targets = page.split("](").skip(1).filter_map(|behind| behind.split(')').next()?.split('#').next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains([' ', ':'])) {
            assert!(folder.join(target).exists(), "{}: {target}", entry.path().display());
            count += 1;
        }
    }
    count
}

#[test]
fn scripts_of_packages_are_plain_shell() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    for name in ["after-install.sh", "before-remove.sh", "after-remove.sh"] {
        done(Command::new("sh").arg("-n").arg(packaging.join(name)));
    }
}

#[test]
fn man_pages_are_written_as_formatters_expect_them() {
    assert!(xdfs_test_needs::program("mandoc", "mandoc"));
    let scene = Scene::new();
    scene.run(["generate", "man", "man"]).ends_with(exit::DONE);
    for section in ["man1", "man5"] {
        for name in scene.names(format!("man/{section}")) {
            let mut judge = Command::new("mandoc");
            judge.args(["-T", "lint", "-W", "warning"]).arg(scene.path(format!("man/{section}/{name}")));
            assert_eq!(done(&mut judge), "", "{name}");
        }
    }
}
