//! The binary under test: built once, with the profile that the tests were built with.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where the `xdfs` binary is. The first call builds it, so that no test runs an old one.
pub fn xdfs_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("XDFS_BINARY") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

/// What `make dist` has made, if that is what is tested: the folder with the static program and the packages.
pub fn released() -> Option<PathBuf> {
    std::env::var_os("XDFS_DIST").map(PathBuf::from)
}

fn build() -> PathBuf {
    // A test runs from TARGET/PROFILE/deps/NAME; the binary is TARGET/PROFILE/xdfs.
    let test = std::env::current_exe().expect("the path of the test");
    let profile_directory = test.ancestors().nth(2).expect("a test runs from TARGET/PROFILE/deps");
    let target_directory = profile_directory.parent().expect("TARGET is above PROFILE");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "xdfs", "--bin", "xdfs", "--target-dir"]).arg(target_directory);
    if profile_directory.ends_with("release") {
        command.arg("--release");
    }
    let status = command.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
    assert!(status.success(), "the xdfs binary cannot be built");
    profile_directory.join("xdfs")
}
