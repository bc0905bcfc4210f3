//! A small disk, so that it can be full.

use std::path::Path;
use std::process::Command;

/// A shell that has a file system of so many MiB mounted over `directory`, in a name space of its own, and then does what `script`
/// says; what is added to the command are its `$1`, `$2` and so on.
pub fn with_small_disk(directory: &Path, mebibytes: u32, script: &str) -> Command {
    let mut command = Command::new("unshare");
    let script = format!("mount -t tmpfs -o size={mebibytes}m tmpfs \"$0\" || exit 99; {script}");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]).arg(directory);
    command
}
