//! `file`: a transport to a regular file. Its contact is a path, `file:/path` or `file:///path`.
//! It has no descriptor to watch: registered operations run on the pool.
//!
//! - Reads and writes share one position, as with POSIX; `seek` moves it. A read tells its offset.
//!   A write with an offset goes there and leaves the position alone.
//! - The end is where the file ends at that moment: a file that grows, or a `seek`, ends it.
//! - What is no file (a directory, a terminal, a named pipe) is refused, so that no thread of the
//!   pool waits for a person.

mod flow;
#[cfg(test)]
mod tests;

use self::flow::FileFlow;
use super::unix::path_of;
use crate::attributes::{AttributeInfo, Attributes, ValueKind, info};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind};
use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io::IsTerminal;
use std::os::fd::OwnedFd;
use std::path::Path;
use xdfs_io::stack::Flow;

/// Permissions of a new file, before the process's mask.
const PERMISSIONS: Mode = Mode::from_raw_mode(0o666);
/// Bits that permissions may have.
const PERMISSION_BITS: u32 = 0o7777;

/// The driver.
pub(super) struct File;

impl Driver for File {
    fn kind(&self) -> Kind {
        Kind::Transport
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        const {
            &[
                info("access", ValueKind::Text, "read, write or both; without it both if permitted, else read."),
                info("create", ValueKind::Flag, "Make the file if it is not there."),
                info("exclusive", ValueKind::Flag, "Make the file, and fail if it is there."),
                info("truncate", ValueKind::Flag, "Empty the file when it is opened."),
                info("length", ValueKind::Bytes, "Cut or extend the file to this length when it is opened."),
                info("append", ValueKind::Flag, "Write at the end of the file, wherever that is by then."),
                info("sync", ValueKind::Flag, "A write is done when the disk has it."),
                info("offset", ValueKind::Bytes, "Where the first read or write begins."),
                info("permissions", ValueKind::Text, "Permissions of a new file, octal; the process's mask applies."),
            ]
        }
    }

    fn open(&self, _: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let path = path_of(contact)?;
        let file = open_file(&path, attributes)?;
        if let Some(length) = attributes.number("length") {
            rustix::fs::ftruncate(&file, length).map_err(|error| failed(error, &path))?;
        }
        Ok(Box::new(FileFlow::new(file, attributes.number("offset").unwrap_or(0), attributes.flag("append"))))
    }
}

fn open_file(path: &Path, attributes: &Attributes) -> Result<OwnedFd> {
    // NONBLOCK: a named pipe without a reader must not keep the opening waiting.
    let mut flags = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    for (name, flag) in [
        ("create", OFlags::CREATE),
        ("exclusive", OFlags::CREATE | OFlags::EXCL),
        ("append", OFlags::APPEND),
        ("sync", OFlags::DSYNC),
    ] {
        if attributes.flag(name) {
            flags |= flag;
        }
    }
    let mode = permissions(attributes)?;
    let open = |access| rustix::fs::open(path, flags | access, mode);
    let writes = ["create", "exclusive", "truncate", "append"].iter().any(|name| attributes.flag(name))
        || attributes.number("length").is_some();
    let opened = match attributes.text("access") {
        Some("read") if writes => return Err(usage("a file that is only read is not made, cut or appended to")),
        Some("read") => open(OFlags::RDONLY),
        Some("write") => open(OFlags::WRONLY),
        Some("both") => open(OFlags::RDWR),
        Some(other) => return Err(usage(format!("access is read, write or both, not '{}'", other.escape_debug()))),
        None => match open(OFlags::RDWR) {
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY) if !writes => open(OFlags::RDONLY),
            result => result,
        },
    };
    let file = opened.map_err(|error| failed(error, path))?;
    check_type(&file, path)?;
    if attributes.flag("truncate") {
        // Not by O_TRUNC: that would also empty what turns out to be no file.
        rustix::fs::ftruncate(&file, 0).map_err(|error| failed(error, path))?;
    }
    Ok(file)
}

/// Regular files, disks, and devices that never wait such as `/dev/zero`.
fn check_type(file: &OwnedFd, path: &Path) -> Result<()> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(file).map_err(|error| failed(error, path))?.st_mode);
    let what = match kind {
        FileType::RegularFile | FileType::BlockDevice => return Ok(()),
        FileType::CharacterDevice if !file.is_terminal() => return Ok(()),
        FileType::CharacterDevice => "a terminal",
        FileType::Fifo => "a named pipe",
        FileType::Directory => "a directory",
        _ => "something else",
    };
    let advice =
        if matches!(kind, FileType::CharacterDevice | FileType::Fifo) { "; the driver 'pipe' takes it" } else { "" };
    Err(usage(format!("'{}' is no file but {what}{advice}", path.display())))
}

fn permissions(attributes: &Attributes) -> Result<Mode> {
    let Some(text) = attributes.text("permissions") else { return Ok(PERMISSIONS) };
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= PERMISSION_BITS && !text.starts_with('+'));
    let bits =
        bits.ok_or_else(|| usage(format!("permissions are octal such as 640, not '{}'", text.escape_debug())))?;
    Ok(Mode::from_raw_mode(bits))
}

fn usage(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, what)
}

/// The system's error about `path`.
fn failed(error: Errno, path: &Path) -> Error {
    let error = std::io::Error::from(error);
    std::io::Error::new(error.kind(), format!("'{}': {error}", path.display())).into()
}
