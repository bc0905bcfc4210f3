//! Mounts of a test's own, in a mount namespace that ends with it.

use crate::bench::Scratch;
use std::path::Path;
use std::process::Command;

/// Names the directory to the test inside of the namespace.
const MOUNTED: &str = "XDFS_TEST_MOUNTED";

/// Runs `body` in a process of its own where `mount`, lines of a shell, have mounted something in its directory, `$0`. `test` is
/// the full name of the test that calls this, which is started once more.
pub fn in_a_mount_namespace(test: &str, mount: &str, body: impl FnOnce(&Path)) {
    if let Some(directory) = std::env::var_os(MOUNTED) {
        return body(Path::new(&directory));
    }
    let scratch = Scratch::on_tmpfs();
    let script = format!("{{ {mount}; }} || exit 77\nexec \"$@\"");
    // A user namespace makes it work for others than root; root does without where those are switched off.
    for map in [&["-rm"][..], &["-m"]] {
        let mut inside = Command::new("unshare");
        inside.args(map).args(["sh", "-c", &script]).arg(scratch.path());
        inside.arg(std::env::current_exe().unwrap()).args(["--exact", test]);
        match inside.env(MOUNTED, scratch.path()).output() {
            Ok(output) if output.status.success() => {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(text.contains("1 passed"), "{text}");
                return;
            }
            Ok(output) if output.status.code() == Some(101) => {
                panic!("{}", String::from_utf8_lossy(&output.stdout));
            }
            _ => {}
        }
    }
    xdfs_test_needs::leave_out("a mount namespace (unshare)");
}
