//! What was typed behind `xdfs mount`, or by mount(8) to `mount.xdfs`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::LoginArgs;
use crate::exit::exit_codes;
use crate::size;

const EXAMPLES: &str = concat!(
    "\
The mount is POSIX as far as docs/mount.md says. A server that is lost is waited
for (--timeout); then calls fail with EIO, and they succeed again when it is back.

Options of -o: ro, noexec, allow_other, timeout=SECONDS, cache=SIZE,
valid=SECONDS, channels=N, owner=server (show the server's owners, not you as the
owner of all), and for fstab identity=FILE, password_file=FILE, ca=FILE,
state=DIR. Those of mount(8) that mean nothing here, such as defaults and _netdev,
are accepted.

Examples:
  xdfs mount xdfs://anna@host/data /mnt/data
  xdfs mount -o ro xdfs://host/data /mnt/data
  umount /mnt/data                        unmount it, as root
  fusermount3 -u /mnt/data                unmount it, as another user
In /etc/fstab, where /sbin/mount.xdfs is a link to xdfs:
  xdfs://anna@host/data  /mnt/data  xdfs  _netdev,identity=/etc/xdfs/key  0  0

",
    exit_codes!()
);

/// Makes a directory of a server a directory of this machine.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MountArgs {
    /// The directory on the server
    #[arg(value_name = "URL")]
    pub(crate) url: OsString,

    /// The directory here that it takes the place of
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Options, separated by commas: see below
    #[arg(short, long = "options", value_name = "OPTIONS")]
    pub(crate) options: Vec<OsString>,

    /// How long calls wait for a server that is lost, before they fail with EIO [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,

    /// How much of files is held in memory: half of it of what is read ahead, half of what is written and not
    /// synced; from 4MB on [default: 512MiB]
    #[arg(long, value_name = "SIZE", value_parser = cache)]
    pub(crate) cache: Option<usize>,

    /// Stay in the foreground until it is unmounted; Ctrl-C unmounts it
    #[arg(short, long)]
    pub(crate) foreground: bool,

    /// Say on standard output when it is mounted, and then leave the terminal.
    #[arg(long, hide = true)]
    pub(crate) report_ready: bool,

    #[command(flatten)]
    pub(crate) login: LoginArgs,
}

/// A number of seconds.
pub(crate) fn seconds(typed: &str) -> Result<Duration, String> {
    let number: f64 = typed.parse().map_err(|_| format!("'{typed}' is no number of seconds"))?;
    Duration::try_from_secs_f64(number).map_err(|error| format!("'{typed}': {error}"))
}

/// The least memory of a mount: half of it is more than one write of a program has.
const CACHE_MIN: u64 = 4_000_000;

/// Memory of a mount, in bytes.
pub(crate) fn cache(typed: &str) -> Result<usize, String> {
    let bytes = size::parse(typed).map_err(|error| error.to_string())?;
    let fits = (bytes >= CACHE_MIN).then(|| usize::try_from(bytes).ok()).flatten();
    fits.ok_or_else(|| format!("{} is less than {}", size::human(bytes), size::human(CACHE_MIN)))
}

/// The name by which mount(8) calls this program.
const HELPER: &str = "mount.xdfs";

/// Whether mount(8) called this program, which `program` is the name of.
pub(crate) fn is_helper(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new(HELPER))
}

/// The words of a command line, in the form of `xdfs mount` if mount(8) called this program:
/// `mount.xdfs URL DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`.
pub(crate) fn as_mount(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words = words.into_iter();
    let Some(program) = words.next() else { return Vec::new() };
    if !is_helper(&program) {
        return [program].into_iter().chain(words).collect();
    }
    let mut said: Vec<OsString> = vec!["xdfs".into(), "mount".into()];
    while let Some(word) = words.next() {
        match word.to_str() {
            // Sloppy, no entry in mtab, and talkative: nothing of it has a meaning here.
            Some("-s" | "-n" | "-v" | "-sn" | "-ns") => {}
            Some("-t" | "-N") => drop(words.next()),
            _ => said.push(word),
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mount_says_is_what_xdfs_mount_understands() {
        let typed = |line: &str| as_mount(line.split(' ').map(OsString::from)).join(OsStr::new(" "));
        let line = "/sbin/mount.xdfs xdfs://h/e /mnt -s -n -o rw,_netdev -t fuse.xdfs";
        assert_eq!(typed(line), OsString::from("xdfs mount xdfs://h/e /mnt -o rw,_netdev"));
        assert_eq!(typed("xdfs cp -n a b"), OsString::from("xdfs cp -n a b"));
    }
}
