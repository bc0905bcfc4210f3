//! An ext4 and a tmpfs for one test, mounted in a mount namespace of its own. They disappear with the test's process.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use crate::Scene;

/// Set for the process inside the namespace: the directory with the two mounts.
const INSIDE: &str = "XDFS_REAL_INSIDE";

/// Where the file systems are.
#[derive(Debug)]
pub struct Mounted {
    /// An ext4 in a file, on a loop device.
    pub ext4: PathBuf,
    /// A tmpfs.
    pub tmpfs: PathBuf,
}

/// Runs `body` in a process of its own with both file systems, each of so many bytes at the most. `test` is the full name of the
/// test that calls this, which is started once more.
pub fn with_file_systems(test: &str, bytes: u64, body: impl FnOnce(&Mounted)) {
    if let Some(directory) = std::env::var_os(INSIDE) {
        let directory = PathBuf::from(directory);
        return body(&Mounted { ext4: directory.join("ext4"), tmpfs: directory.join("tmpfs") });
    }
    assert!(rustix::process::geteuid().is_root(), "only root can mount the ext4 that this test needs");
    let scene = Scene::new();
    let image = scene.write("image", b"");
    // A file with holes: it takes only the room that the test uses, and gives back (discard) what it removes.
    File::options().write(true).open(&image).and_then(|file| file.set_len(bytes)).expect("a length");
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status().expect("e2fsprogs is installed");
    assert!(made.success(), "mkfs.ext4 fails");
    for name in ["ext4", "tmpfs"] {
        scene.directory(name);
    }
    // Without a mask, which -r obeys and rsync does not.
    let script = format!(
        "umask 0 && mount -o loop,noinit_itable,discard image ext4 && mount -t tmpfs -o mode=755,size={bytes} tmpfs tmpfs && cd / && exec \"$@\""
    );
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]);
    inside.arg(std::env::current_exe().expect("the path of the test")).args(["--exact", test, "--nocapture"]);
    let status =
        inside.current_dir(scene.path("")).env(INSIDE, scene.path("")).status().expect("util-linux is installed");
    assert!(status.success(), "see above: it failed inside the mount namespace");
}
