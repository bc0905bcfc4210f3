//! What `make dist` makes, unpacked, installed and used. By default the binary under test is packaged; where `XDFS_DIST` names a
//! directory that `make dist` has filled, as `xtask long dist` says, it is the static program and the packages there.

mod debian;
mod empty_root;
mod packages;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use xdfs_test_cli::{released, xdfs_binary};

/// Runs a command that must succeed, and returns what it printed.
#[track_caller]
fn done(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let shown = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{shown}\n{}", String::from_utf8_lossy(&stderr));
    shown
}

/// The directory with the program, the packages and the container file.
fn dist() -> &'static Path {
    static DIST: OnceLock<PathBuf> = OnceLock::new();
    DIST.get_or_init(|| released().unwrap_or_else(package_binary))
}

/// Packages the binary under test as `make dist` packages the static one.
fn package_binary() -> PathBuf {
    for (name, package) in [("rpmbuild", "rpm"), ("dpkg-deb", "dpkg"), ("strip", "binutils")] {
        assert!(xdfs_test_needs::program(name, package));
    }
    let made = alone().join("packages-under-test");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut dist = Command::new(cargo);
    dist.args(["run", "--quiet", "--package", "xtask", "--", "dist"]).arg(xdfs_binary()).arg(&made);
    done(dist.current_dir(env!("CARGO_MANIFEST_DIR")));
    made
}

/// The target directory, where files of these tests outlive them; no other run of them uses it until this one has ended.
fn alone() -> &'static Path {
    static LOCK: OnceLock<File> = OnceLock::new();
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    LOCK.get_or_init(|| {
        let file = File::create(temporary.join("dist.lock")).expect("cargo makes the directory");
        file.lock().expect("a local file system has locks");
        file
    });
    temporary.parent().expect("it is in the target directory")
}

/// The only file of the packages with this end.
fn only(end: &str) -> PathBuf {
    let files = std::fs::read_dir(dist()).expect("what 'xtask dist' has made").flatten().map(|entry| entry.path());
    let mut fitting = files.filter(|path| path.to_string_lossy().ends_with(end));
    let found = fitting.next().unwrap_or_else(|| panic!("no {end} in {}", dist().display()));
    assert_eq!(fitting.next(), None, "several {end}");
    found
}

const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
