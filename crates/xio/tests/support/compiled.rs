//! Drivers in C, compiled for a test into a folder of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use tempfile::TempDir;
use xdfs_xio::Registry;

/// Compiles a file of the tree into a driver.
pub fn compile(source: &str, name: &str, folder: &Path, more: &[&str]) {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]).args(more);
    compiler.arg(format!("-I{}", package.join("include").display()));
    compiler.arg(package.join("../..").join(source)).arg("-o").arg(folder.join(format!("libxdfs_xio_{name}.so")));
    let output = compiler.output().unwrap();
    assert!(output.status.success(), "{compiler:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A registry that finds files in `folder`.
pub fn registry(folder: &Path) -> Arc<Registry> {
    Arc::new(Registry::with_folders(vec![PathBuf::from(folder)]))
}

/// The drivers of `drivers/skeleton`.
#[allow(dead_code, reason = "not every suite opens them")]
pub fn skeletons() -> Arc<Registry> {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        for name in ["skeleton", "skeleton_block"] {
            compile(&format!("drivers/skeleton/{name}.c"), name, folder.path(), &[]);
        }
        folder
    });
    registry(folder.path())
}
