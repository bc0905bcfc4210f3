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

/// Compiles a driver in Rust as cargo would: it depends on nothing.
#[allow(dead_code, reason = "as below")]
pub fn compile_rust(source: &str, name: &str, folder: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(source);
    let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let library = format!("xdfs_xio_{name}");
    compiler.args(["--edition=2024", "--crate-type=cdylib", "-Dwarnings", "--crate-name", &library]);
    compiler.arg(source).arg("-o").arg(folder.join(format!("lib{library}.so")));
    let output = compiler.output().unwrap();
    assert!(output.status.success(), "{compiler:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A registry of `drivers/skeleton`, `drivers/skeleton-rust` and `drivers/udt-ref`, and whether it has the last: its
/// library may be missing.
#[allow(dead_code, reason = "as below")]
pub fn loaded() -> (Arc<Registry>, bool) {
    static UDT: OnceLock<bool> = OnceLock::new();
    let folder = folder();
    let has_udt = *UDT.get_or_init(|| {
        let header = Path::new("/usr/include/udt/udt.h").exists();
        let found = header.then_some(()).ok_or_else(|| "UDT's library: install libudt-dev".to_owned());
        let found = xdfs_test_needs::found(found).is_some();
        if found {
            let wrap = "-Wl,--wrap=close,--wrap=pthread_join,--exclude-libs,ALL";
            let libraries =
                [wrap, "-Wl,--whole-archive", "-l:libudt.a", "-Wl,--no-whole-archive,--no-as-needed", "-lstdc++"];
            compile("drivers/udt-ref/udt_ref.cpp", "udt_ref", folder, &libraries);
        }
        found
    });
    (registry(folder), has_udt)
}

/// A registry that finds files in `folder`.
pub fn registry(folder: &Path) -> Arc<Registry> {
    Arc::new(Registry::with_folders(vec![PathBuf::from(folder)]))
}

/// The drivers of `drivers/skeleton` and `drivers/skeleton-rust`.
#[allow(dead_code, reason = "not every suite opens them")]
pub fn skeletons() -> Arc<Registry> {
    registry(folder())
}

/// Where they are, compiled once for a program of tests.
#[allow(dead_code, reason = "as above")]
fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        for name in ["skeleton", "skeleton_block"] {
            compile(&format!("drivers/skeleton/{name}.c"), name, folder.path(), &[]);
        }
        compile_rust("drivers/skeleton-rust/src/lib.rs", "skeleton_rust", folder.path());
        folder
    });
    folder.path()
}
