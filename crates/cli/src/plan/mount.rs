//! The plan of `xdfs mount`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{LoginPlan, PlanError, is_empty, parse_url};
use crate::args::{MountArgs, cache, seconds};
use crate::text::{printable, shell_word};
use crate::url::Url;
use xdfs_mount::MountPoint;

/// How long a lost server is waited for, unless something else is said.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long names and attributes are used without another look.
const VALID: Duration = Duration::from_secs(1);

/// Memory for what is read ahead, and for what is written and not synced, unless something else is said: half of it
/// each.
const CACHE: usize = 512 << 20;

/// The option that changes a mount.
const REMOUNT: &[u8] = b"remount";

/// Options of mount(8) and of units that mean nothing here.
const WITHOUT_MEANING: &[&str] = &[
    "_netdev",
    "async",
    "atime",
    "auto",
    "defaults",
    "diratime",
    "dirsync",
    "exec",
    "group",
    "noatime",
    "noauto",
    "nodev",
    "nodiratime",
    "nofail",
    "norelatime",
    "nostrictatime",
    "nosuid",
    "nouser",
    "owner",
    "relatime",
    "rw",
    "strictatime",
    "sync",
    "user",
    "users",
];

/// A directory of a server and where it is mounted.
#[derive(Debug)]
pub(crate) struct MountPlan {
    /// The directory on the server.
    pub(crate) url: Url,
    /// The directory here.
    pub(crate) directory: PathBuf,
    /// How it is mounted.
    pub(crate) how: MountOptions,
    /// Until it is unmounted; otherwise the command ends once it is mounted.
    pub(crate) foreground: bool,
    /// It is the process behind such a command.
    pub(crate) report_ready: bool,
    /// The login.
    pub(crate) login: LoginPlan,
}

/// What `-o` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MountOptions {
    /// Nothing is written.
    pub(crate) read_only: bool,
    /// No program of it is executed.
    pub(crate) no_exec: bool,
    /// Other users of this machine may use it.
    pub(crate) allow_other: bool,
    /// The server's owners are shown.
    pub(crate) server_owners: bool,
    /// How long a lost server is waited for.
    pub(crate) timeout: Duration,
    /// How long names and attributes are used without another look.
    pub(crate) valid: Duration,
    /// Memory for what is read ahead, and for what is written and not synced.
    pub(crate) cache: usize,
    /// Channels of the session.
    pub(crate) channels: u16,
}

impl Default for MountOptions {
    fn default() -> Self {
        let (read_only, no_exec, allow_other, server_owners) = (false, false, false, false);
        let (timeout, valid, cache) = (TIMEOUT, VALID, CACHE);
        Self { read_only, no_exec, allow_other, server_owners, timeout, valid, cache, channels: 1 }
    }
}

pub(super) fn resolve(args: MountArgs) -> Result<MountPlan, PlanError> {
    if is_empty(&args.url) || is_empty(&args.directory.as_os_str().to_owned()) {
        return Err(PlanError::Empty);
    }
    let (mut how, mut login) = (MountOptions::default(), LoginPlan::from(args.login));
    let options = args.options.iter().flat_map(|options| options.as_bytes().split(|byte| *byte == b','));
    let options: Vec<&[u8]> = options.filter(|option| !option.is_empty()).collect();
    if options.contains(&REMOUNT) {
        return Err(remounted(&args.url, &args.directory, &options));
    }
    for option in options {
        apply(option, &mut how, &mut login)?;
    }
    how.timeout = args.timeout.unwrap_or(how.timeout);
    how.cache = args.cache.unwrap_or(how.cache);
    Ok(MountPlan {
        url: parse_url(&args.url)?,
        directory: args.directory,
        how,
        foreground: args.foreground,
        report_ready: args.report_ready,
        login,
    })
}

/// Options of a mount that is there cannot be changed: the error, with the commands that make it anew.
fn remounted(url: &OsStr, directory: &Path, options: &[&[u8]]) -> PlanError {
    // mount(8) says 'rw' wherever nothing else is said.
    let kept: Vec<&[u8]> = options.iter().copied().filter(|option| ![REMOUNT, b"rw"].contains(option)).collect();
    let kept =
        if kept.is_empty() { String::new() } else { format!("-o {} ", shell_word(&printable(&kept.join(&b',')))) };
    let (unmount, directory) =
        (MountPoint::command(directory), shell_word(&printable(directory.as_os_str().as_bytes())));
    let mount = format!("xdfs mount {kept}{} {directory}", shell_word(&printable(url.as_bytes())));
    let reason = format!(
        "a mount cannot be changed while it is there\nhelp: unmount it, then mount it again: {unmount} && {mount}"
    );
    PlanError::MountOption { option: "remount".to_owned(), reason }
}

/// Applies one option; those that come later win.
fn apply(option: &[u8], how: &mut MountOptions, login: &mut LoginPlan) -> Result<(), PlanError> {
    let unknown = |reason: String| Err(PlanError::MountOption { option: printable(option), reason });
    let (name, value) = match option.iter().position(|byte| *byte == b'=') {
        Some(at) => (&option[..at], Some(&option[at + 1..])),
        None => (option, None),
    };
    let path = || value.map(|value| PathBuf::from(OsStr::from_bytes(value)));
    let text = value.map(|value| String::from_utf8_lossy(value).into_owned()).unwrap_or_default();
    match (std::str::from_utf8(name).unwrap_or_default(), value.is_some()) {
        ("ro", false) => how.read_only = true,
        ("rw", false) => how.read_only = false,
        ("noexec", false) => how.no_exec = true,
        ("exec", false) => how.no_exec = false,
        ("allow_other", false) => how.allow_other = true,
        ("timeout", true) => match seconds(&text) {
            Ok(time) => how.timeout = time,
            Err(reason) => return unknown(reason),
        },
        ("valid", true) => match seconds(&text) {
            Ok(time) => how.valid = time,
            Err(reason) => return unknown(reason),
        },
        ("cache", true) => match cache(&text) {
            Ok(bytes) => how.cache = bytes,
            Err(reason) => return unknown(reason),
        },
        ("channels", true) => match text.parse() {
            Ok(channels @ 1..=64) => how.channels = channels,
            _ => return unknown("a number from 1 to 64 follows".to_owned()),
        },
        ("owner", true) => match text.as_str() {
            "server" => how.server_owners = true,
            "me" => how.server_owners = false,
            _ => return unknown("'owner=server' or 'owner=me'".to_owned()),
        },
        ("identity", true) => login.identity = path(),
        ("password_file", true) => login.password_file = path(),
        ("ca", true) => login.ca = path(),
        ("state", true) => login.state = path(),
        ("suid" | "dev", false) => {
            return unknown("files of a server never have such power here".to_owned());
        }
        (name, false) if WITHOUT_MEANING.contains(&name) => {}
        (name, _) if name.starts_with("x-") || name == "comment" => {}
        _ => return unknown("there is no such option\nhelp: 'xdfs mount --help' lists them".to_owned()),
    }
    Ok(())
}

/// The words of this command, for the process that stays: in the foreground of its own.
pub(crate) fn words_of_background(words: Vec<OsString>) -> Vec<OsString> {
    let mut words = words.into_iter().skip(1);
    let command = words.next();
    let more = ["--foreground", "--report-ready"].map(|word| OsString::from_vec(word.into()));
    command.into_iter().chain(more).chain(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use crate::plan::Plan;
    use clap::Parser;

    fn plan(line: &str) -> Result<MountPlan, PlanError> {
        match crate::plan::resolve(Cli::try_parse_from(line.split(' ')).unwrap()) {
            Ok(Plan::Mount(plan)) => Ok(plan),
            Ok(_) => panic!("no mount"),
            Err(error) => Err(error),
        }
    }

    #[test]
    fn options_of_fstab_are_understood_or_refused_by_name() {
        let options =
            "rw,_netdev,noexec,x-systemd.automount,timeout=5,valid=0,cache=8MiB,channels=4,owner=server,identity=/k";
        let plan = plan(&format!("xdfs mount xdfs://h/e /mnt -o ro -o {options}")).unwrap();
        let expected = MountOptions {
            no_exec: true,
            server_owners: true,
            timeout: Duration::from_secs(5),
            valid: Duration::ZERO,
            cache: 8 << 20,
            channels: 4,
            ..MountOptions::default()
        };
        assert_eq!(plan.how, expected);
        assert_eq!(plan.login.identity, Some(PathBuf::from("/k")));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for bad in ["rsize=5", "timeout", "timeout=x", "channels=0", "cache=x", "cache=1K", "suid", "dev", "owner=root"]
        {
            let error = plan(&format!("xdfs mount xdfs://h/e /mnt -o {bad}")).unwrap_err().to_string();
            assert!(error.contains(&format!("-o {bad}:")), "{error}");
        }
    }

    #[test]
    fn a_mount_that_is_there_is_not_changed() {
        let error = plan("xdfs mount xdfs://h/e /mnt -o rw,remount,noexec").unwrap_err().to_string();
        assert!(error.contains("-o remount: a mount cannot be changed while it is there\nhelp: unmount it"), "{error}");
        assert!(error.ends_with(" /mnt && xdfs mount -o noexec xdfs://h/e /mnt"), "{error}");
    }

    #[test]
    fn the_memory_of_a_mount_is_said_on_the_command_line_or_as_an_option_and_has_a_least_size() {
        let cache = |line: &str| plan(&format!("xdfs mount xdfs://h/e /mnt {line}")).map(|plan| plan.how.cache);
        assert_eq!(cache("-o ro").unwrap(), CACHE);
        assert_eq!(cache("-o cache=8MiB --cache 16MiB").unwrap(), 16 << 20);
        let error = crate::args::cache("1000").unwrap_err();
        assert!(error.contains("less than"), "{error}");
        assert!(Cli::try_parse_from("xdfs mount xdfs://h/e /mnt --cache 1000".split(' ')).is_err());
    }

    #[test]
    fn the_process_that_stays_is_told_so() {
        let words = ["xdfs", "mount", "xdfs://h/e", "/mnt"].map(OsString::from).to_vec();
        let expected = ["mount", "--foreground", "--report-ready", "xdfs://h/e", "/mnt"].map(OsString::from);
        assert_eq!(words_of_background(words), expected);
    }
}
