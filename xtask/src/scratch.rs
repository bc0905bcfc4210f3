//! The directory below which the tests create theirs.
//!
//! ext4 without a journal does not use an inode again for minutes after its file was removed, and looks at each such inode
//! of a group whenever it creates a file there. Tests remove many small files: in one group this took a third of the time
//! of all tests that copy trees. Below a directory with the attribute T (chattr(1)) each directory gets another group.

use crate::{Failure, process};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory in the temporary one, with its rights. It stays unless it is cleared: what a test that failed left is for people
/// to look at.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn create() -> Result<Self, Failure> {
        // Short: the paths of sockets are below it, and these have 107 bytes.
        let said = process::output(Command::new("mktemp").args(["--directory", "--tmpdir", "xdfs-XXXXXX"]))?;
        let scratch = Self(PathBuf::from(said.trim_end()));
        // Tests run some programs as other users.
        std::fs::set_permissions(&scratch.0, Permissions::from_mode(0o1777))
            .map_err(|error| format!("{}: {error}", scratch.0.display()))?;
        let mut spread = Command::new("chattr");
        spread.arg("+T").arg(&scratch.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Other file systems have no such attribute, and do not need it.
        let _ = spread.status();
        Ok(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Removes it with all that programs left there, but for what is mounted below it.
    pub(crate) fn clear(self) -> Result<(), Failure> {
        process::run(Command::new("rm").args(["--recursive", "--force", "--one-file-system"]).arg(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_creates_there_until_it_is_cleared() {
        let create = || Scratch::create().unwrap_or_else(|Failure(why)| panic!("{why}"));
        let (scratch, other) = (create(), create());
        let path = scratch.path().to_owned();
        assert_ne!(path, other.path());
        assert_eq!(path.metadata().expect("it is there").permissions().mode() & 0o7777, 0o1777);
        std::fs::create_dir_all(path.join("left/there")).expect("a directory");
        for scratch in [scratch, other] {
            scratch.clear().unwrap_or_else(|Failure(why)| panic!("{why}"));
        }
        assert!(!path.exists());
    }
}
