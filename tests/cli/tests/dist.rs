//! What `make dist` makes. The short form packages the binary under test and looks into the packages; the others, which
//! `xtask long dist` runs, install the static program and use it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use xdfs_test_cli::{Scene, Server, exit, pattern, xdfs_binary};

/// What every package unpacks.
const INSTALLED: [&str; 11] = [
    "/etc/xdfs/server.toml",
    "/usr/bin/xdfs",
    "/usr/lib/systemd/system/xdfs.service",
    "/usr/share/bash-completion/completions/xdfs",
    "/usr/share/zsh/vendor-completions/_xdfs",
    "/usr/share/zsh/site-functions/_xdfs",
    "/usr/share/fish/vendor_completions.d/xdfs.fish",
    "/usr/share/man/man1/xdfs.1.gz",
    "/usr/share/man/man1/xdfs-cp.1.gz",
    "/usr/share/man/man5/xdfs-server.toml.5.gz",
    "/usr/share/doc/xdfs/xdfs.cdx.json",
];

/// Runs a command that must succeed, and returns what it printed.
#[track_caller]
fn done(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let shown = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{shown}\n{}", String::from_utf8_lossy(&stderr));
    shown
}

/// The only file in a directory with this end.
fn only(directory: &Path, end: &str) -> PathBuf {
    let files = std::fs::read_dir(directory).expect("what 'xtask dist' has made").flatten().map(|entry| entry.path());
    let mut fitting = files.filter(|path| path.to_string_lossy().ends_with(end));
    let found = fitting.next().unwrap_or_else(|| panic!("no {end} in {}", directory.display()));
    assert_eq!(fitting.next(), None, "several {end}");
    found
}

#[test]
fn packages_hold_the_program_the_service_its_pages_and_completions() {
    let needs = [("rpmbuild", "rpm"), ("rpm", "rpm"), ("dpkg-deb", "dpkg"), ("strip", "binutils")];
    if !needs.iter().all(|(name, package)| xdfs_test_needs::program(name, package)) {
        return;
    }
    let scene = Scene::new();
    let made = scene.path("made");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut dist = Command::new(cargo);
    dist.args(["run", "--quiet", "--package", "xtask", "--", "dist"]).arg(xdfs_binary()).arg(&made);
    done(dist.current_dir(env!("CARGO_MANIFEST_DIR")));
    done(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&made));

    let deb = only(&made, ".deb");
    let listed = done(Command::new("dpkg-deb").arg("--contents").arg(&deb));
    for line in listed.lines() {
        assert!(line.contains(" root/root "), "{line}");
        assert!(line.starts_with('d') || line.starts_with("-rw-r--r--") || line.ends_with("./usr/bin/xdfs"), "{line}");
    }
    let rpm = only(&made, ".rpm");
    let in_rpm = done(Command::new("rpm").args(["--query", "--package", "--list"]).arg(&rpm));
    for path in INSTALLED {
        assert!(listed.lines().any(|line| line.ends_with(&format!(" .{path}"))), "{path} in {listed}");
        assert!(in_rpm.lines().any(|line| line == path), "{path} in {in_rpm}");
    }
    let configurations = done(Command::new("dpkg-deb").arg("--info").arg(&deb).arg("conffiles"));
    assert_eq!(configurations, "/etc/xdfs/server.toml\n");
    let configurations = done(Command::new("rpm").args(["--query", "--package", "--configfiles"]).arg(&rpm));
    assert_eq!(configurations, "/etc/xdfs/server.toml\n");
    let scripts = done(Command::new("rpm").args(["--query", "--package", "--scripts"]).arg(&rpm));
    assert!(scripts.contains("useradd --system") && scripts.contains("/srv/xdfs"), "{scripts}");

    // As rpm itself unpacks it.
    let root = scene.directory("root");
    let mut install = Command::new("rpm");
    install.arg("--root").arg(&root).args(["--dbpath", "/var/lib/rpm", "--install", "--nodeps", "--noscripts"]);
    if xdfs_test_needs::root("to unpack a package as its owner") {
        done(install.arg(&rpm));
        let version = done(Command::new(root.join("usr/bin/xdfs")).arg("--version"));
        assert!(version.starts_with("xdfs "), "{version}");
    }
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
    if !xdfs_test_needs::program("mandoc", "mandoc") {
        return;
    }
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

/// Where `make dist` has put its files.
fn dist() -> PathBuf {
    std::env::var_os("XDFS_DIST").expect("'cargo run -p xtask -- long dist' says where the packages are").into()
}

/// A command inside of another root directory, as a user of it (`name:group`).
fn inside(root: &Path, user: &str) -> Command {
    let mut command = Command::new("chroot");
    command.arg(format!("--userspec={user}")).arg(root).env_clear().env("PATH", PATH);
    command
}

const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// The same in a Debian, which has /proc; the mount goes with the command.
fn in_debian(root: &Path, user: &str) -> Command {
    let mut command = Command::new("unshare");
    let script = r#"mount -t proc proc "$1/proc" && exec chroot --userspec="$0" "$@""#;
    command.args(["--mount", "sh", "-c", script, user]).arg(root).env_clear().env("PATH", PATH);
    command
}

/// A Debian with nothing but what every Debian has; fetched once, then copied.
fn clean_debian(to: &Path) {
    let kept = dist().parent().expect("it is in the target directory").join("clean-debian");
    if !kept.exists() {
        let new = kept.with_extension("new");
        let _ = std::fs::remove_dir_all(&new);
        done(Command::new("debootstrap").args(["--variant=minbase", "bookworm"]).arg(&new));
        std::fs::rename(&new, &kept).expect("it is complete");
    }
    done(Command::new("cp").args(["--archive", "--reflink=auto"]).arg(kept).arg(to));
}

#[test]
#[ignore = "needs the static program, root and Debian's archive: xtask long dist"]
fn the_debian_package_is_installed_in_a_clean_debian_used_and_removed() {
    assert!(xdfs_test_needs::root("to enter another root directory"));
    let scene = Scene::new();
    let root = scene.path("debian");
    clean_debian(&root);
    std::fs::copy(only(&dist(), ".deb"), root.join("xdfs.deb")).expect("it is ours");
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

/// What a container file says behind a word, as JSON.
fn words_of(container: &str, word: &str) -> Vec<String> {
    let line = container.lines().find_map(|line| line.strip_prefix(word)).unwrap_or_else(|| panic!("no {word}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{word}{line}: {error}"))
}

#[test]
#[ignore = "needs the static program and root: xtask long dist"]
fn the_static_program_serves_and_copies_in_an_empty_root_as_in_a_container() {
    assert!(xdfs_test_needs::root("to enter another root directory"));
    let scene = Scene::new();
    let root = scene.directory("root");
    std::fs::copy(dist().join("xdfs"), root.join("xdfs")).expect("make dist has built it");
    let size = std::fs::metadata(root.join("xdfs")).expect("it is there").len();
    assert!(size < 15_000_000, "{size} bytes");
    let container = std::fs::read_to_string(dist().join("Containerfile")).expect("it is part of it");
    let user = container.lines().find_map(|line| line.strip_prefix("USER ")).expect("not root");
    for volume in container.lines().filter_map(|line| line.strip_prefix("VOLUME /")) {
        let made = scene.directory(format!("root/{volume}"));
        done(Command::new("chown").arg(user).arg(made));
    }
    let command = |words: &[String]| {
        let mut command = inside(&root, user);
        command.args(words);
        for pair in container.lines().filter_map(|line| line.strip_prefix("ENV ")) {
            let (name, value) = pair.split_once('=').expect("NAME=value");
            command.env(name, value);
        }
        command
    };
    let entry = words_of(&container, "ENTRYPOINT ");
    let serve = [entry.clone(), words_of(&container, "CMD ")].concat();
    let server = Server::start(command(&serve), &["--json", "--listen", "127.0.0.1:0", "--allow-anonymous", "rw"]);
    std::fs::write(root.join("file"), pattern(3_000_000, 2)).expect("the root is ours");
    done(command(&entry).args(["cp", "/file", &server.url("file")]));
    assert_eq!(std::fs::read(root.join("srv/xdfs/file")).expect("it arrived"), pattern(3_000_000, 2));
    done(command(&entry).args(["cp", &server.url("file"), "/srv/xdfs/back"]));
    assert_eq!(std::fs::read(root.join("srv/xdfs/back")).expect("it came back"), pattern(3_000_000, 2));
    assert_eq!(server.stop(), Some(exit::DONE));
}
