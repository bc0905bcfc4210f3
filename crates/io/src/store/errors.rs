//! Error messages of stores: every message states what was tried, on which name, and why it failed.
//!
//! Names get into messages only here, escaped and bounded. Nothing here makes a system call.

use super::FileKind;
use rustix::fs::FileType;
use rustix::io::Errno;
use xdfs_proto::base::{Error, ErrorKind, RelPath};

/// Maximum length of a name in a message, in bytes, so that two of them and the text fit into
/// [`Error::MESSAGE_BYTES_MAX`]. A longer name is cut to its end, the most informative part.
const SHOWN_BYTES_MAX: usize = 440;

/// The operation that was attempted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Read attributes.
    Look,
    /// Open for reading.
    Open,
    /// Prepare or name a new file.
    Create,
    /// Read a range.
    Read,
    /// Write a range.
    Write,
    /// Resolve a path that the user typed.
    Find,
    /// Make durable.
    Sync,
    /// Read a directory.
    List,
    /// Remove a name.
    Remove,
    /// Rename.
    Rename,
    /// Create a hard link.
    Link,
    /// Change attributes.
    Change,
}

impl Verb {
    const fn text(self) -> &'static str {
        match self {
            Self::Look => "cannot look at",
            Self::Open => "cannot open",
            Self::Create => "cannot create",
            Self::Read => "cannot read",
            Self::Write => "cannot write",
            Self::Find => "cannot find",
            Self::Sync => "cannot make durable",
            Self::List => "cannot list",
            Self::Remove => "cannot remove",
            Self::Rename => "cannot rename",
            Self::Link => "cannot link",
            Self::Change => "cannot change",
        }
    }
}

/// `path` as shown in a message; `label` is the prefix that the user typed (empty in an export).
pub fn shown(label: &str, path: &RelPath) -> String {
    match (label.is_empty(), path.is_root()) {
        (true, true) => ".".to_owned(),
        (false, true) => shorten(label.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(label).to_owned()),
        _ => shorten(format!("{label}{path}")),
    }
}

/// Arbitrary bytes as shown in a message.
pub fn shown_bytes(bytes: &[u8]) -> String {
    shorten(bytes.escape_ascii().to_string())
}

fn shorten(text: String) -> String {
    if text.len() <= SHOWN_BYTES_MAX {
        return text;
    }
    // Escaped text is ASCII, so any cut is at a character boundary; `get` avoids a panic
    // regardless.
    let tail = text.get(text.len() - SHOWN_BYTES_MAX..).unwrap_or_default();
    format!("...{tail}")
}

/// The error for a number of the kernel: `cannot open 'a/b': permission denied`.
pub fn failed(verb: Verb, name: &str, errno: Errno) -> Error {
    let kind = kind_of(errno);
    let cause = match kind {
        // These kinds cover many numbers, or say more than was requested: the system's own text is
        // better.
        ErrorKind::Storage | ErrorKind::Resources | ErrorKind::Busy => std::io::Error::from(errno).to_string(),
        ErrorKind::NotRegular => "a symbolic link or special file is in the way".to_owned(),
        _ => kind.text().to_owned(),
    };
    refused(kind, verb, name, &cause).with_errno(number(errno))
}

/// An error detected by this program: `cannot create 'a': the export is read-only`.
pub fn refused(kind: ErrorKind, verb: Verb, name: &str, because: &str) -> Error {
    Error::new(kind, format!("{} '{name}': {because}", verb.text()))
}

/// A retried copy finds another target than the one it began with.
pub fn target_changed(shown: &str) -> Error {
    let because =
        "somebody else replaced or removed it after this copy began; copy it again to replace what is there now";
    refused(ErrorKind::TargetChanged, Verb::Create, shown, because)
}

/// The error kind and the noun for a file type found where a regular file is required.
pub(super) fn kind_words(kind: FileType) -> (ErrorKind, &'static str) {
    match kind {
        FileType::Directory => (ErrorKind::IsDirectory, "a directory"),
        FileType::Symlink => (ErrorKind::NotRegular, "a symbolic link"),
        FileType::Fifo => (ErrorKind::NotRegular, "a FIFO"),
        FileType::Socket => (ErrorKind::NotRegular, "a socket"),
        FileType::CharacterDevice | FileType::BlockDevice => (ErrorKind::NotRegular, "a device"),
        FileType::RegularFile => (ErrorKind::AlreadyExists, "a regular file"),
        _ => (ErrorKind::NotRegular, "a special file"),
    }
}

/// The [`FileKind`] of a file type.
pub(super) fn file_kind(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        _ => FileKind::Other,
    }
}

/// The error kind of an errno.
pub(super) fn kind_of(errno: Errno) -> ErrorKind {
    match errno {
        Errno::NOENT | Errno::NODATA => ErrorKind::NotFound,
        Errno::ACCESS | Errno::PERM => ErrorKind::PermissionDenied,
        Errno::EXIST | Errno::NOTEMPTY => ErrorKind::AlreadyExists,
        Errno::ISDIR => ErrorKind::IsDirectory,
        Errno::NOTDIR => ErrorKind::NotDirectory,
        // ELOOP is a symbolic link where none is followed, ENXIO a socket or a FIFO without a
        // reader.
        Errno::LOOP | Errno::NXIO => ErrorKind::NotRegular,
        // EXDEV is a path that would leave the export.
        Errno::XDEV => ErrorKind::Refused,
        Errno::NAMETOOLONG | Errno::ILSEQ => ErrorKind::InvalidPath,
        Errno::NOSPC => ErrorKind::NoSpace,
        Errno::DQUOT => ErrorKind::QuotaExceeded,
        Errno::FBIG | Errno::OVERFLOW => ErrorKind::TooLarge,
        Errno::ROFS => ErrorKind::ReadOnly,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => ErrorKind::Resources,
        Errno::AGAIN | Errno::BUSY | Errno::TXTBSY => ErrorKind::Busy,
        Errno::TIMEDOUT => ErrorKind::TimedOut,
        Errno::OPNOTSUPP | Errno::NOSYS => ErrorKind::Unsupported,
        _ => ErrorKind::Storage,
    }
}

/// The errno as sent on the wire. Linux errnos are below 4096.
pub(super) fn number(errno: Errno) -> u16 {
    u16::try_from(errno.raw_os_error()).unwrap_or(0)
}

/// A human-readable byte count: `512 B`, `1.5 MB`, in thousands as everywhere in messages. Whole units
/// omit `.0`.
pub fn amount(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    // The largest unit in which the value is at least 1; u64 ends in EB.
    let power = bytes.ilog10() / 3;
    let unit = UNITS.get(power as usize - 1).copied().unwrap_or("EB");
    let tenths = u128::from(bytes) * 10 / 1000u128.pow(power);
    if tenths.is_multiple_of(10) {
        format!("{} {unit}", tenths / 10)
    } else {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_as_a_person_writes_them() {
        let cases: [(u64, &str); 7] = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1 kB"),
            (1599, "1.5 kB"),
            (512_000_000, "512 MB"),
            (2 << 30, "2.1 GB"),
            (u64::MAX, "18.4 EB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(amount(bytes), text);
        }
    }

    #[test]
    fn control_bytes_of_a_name_never_reach_a_message() {
        let path = RelPath::parse(b"a\x1b[31m\n\r\x9b").unwrap();
        let text = failed(Verb::Open, &shown("", &path), Errno::ACCESS).message;
        assert!(text.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{text:?}");
    }
}
