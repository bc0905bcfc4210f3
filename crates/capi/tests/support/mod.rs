//! C programs that are compiled with the library's headers and linked with it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A directory with the library under the name that it is installed by.
pub struct Library {
    directory: TempDir,
}

impl Library {
    pub fn installed() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Cargo leaves it beside the test.
        let built = std::env::current_exe().unwrap().parent().unwrap().join("libxdfs_capi.so");
        assert!(built.is_file(), "there is no {}", built.display());
        for name in ["libxdfs_xio.so", "libxdfs_xio.so.1"] {
            symlink(&built, directory.path().join(name)).unwrap();
        }
        Self { directory }
    }

    /// Compiles one of this directory's programs.
    pub fn compile(&self, source: &str, includes: &str) -> PathBuf {
        let program = self.directory.path().join(source.trim_end_matches(".c"));
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = self.directory.path().to_str().unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]);
        compiler.arg(format!("-I{}", package.join(includes).display()));
        compiler.arg(package.join("tests").join(source)).arg("-o").arg(&program);
        compiler.args([format!("-L{folder}"), format!("-Wl,-rpath,{folder}"), "-lxdfs_xio".to_owned()]);
        compiled(&mut compiler);
        program
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Runs a compiler.
pub fn compiled(compiler: &mut Command) {
    let output = compiler.output().unwrap();
    assert!(output.status.success(), "{compiler:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What a compiler needs for Globus XIO, where it is installed.
#[allow(dead_code, reason = "each test program uses a part of it")]
pub fn globus_flags() -> Option<String> {
    let flags = Command::new("pkg-config").args(["--cflags", "--libs", "globus-xio", "globus-common"]).output();
    match flags {
        Ok(flags) if flags.status.success() => Some(String::from_utf8(flags.stdout).unwrap()),
        _ => {
            xdfs_test_needs::leave_out("the headers of Globus XIO (packages libglobus-xio-dev and pkg-config)");
            None
        }
    }
}
