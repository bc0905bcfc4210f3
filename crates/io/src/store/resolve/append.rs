//! The file to which a log is appended: named by the operator of the server, with the kernel's
//! usual rules.

use super::folder::give;
use crate::store::Result;
use crate::store::errors::{self, Verb};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Users that services run as; people have higher numbers.
const SERVICE_USERS: std::ops::RangeInclusive<u32> = 1..=999;

/// Opens the regular file `path` for appending; a missing file is created, accessible by its owner
/// only. If root creates it in the folder of a service, it is the service's: else a start by hand would
/// be the last one of the service. A person whose folder it is in gets nothing to read.
pub fn append_named(path: &Path) -> Result<File> {
    let shown = errors::shown_bytes(path.as_os_str().as_bytes());
    let fail = |errno| errors::failed(Verb::Open, &shown, errno);
    // Not blocking: a FIFO of that name would wait for its reader.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let open = |flags| rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
    let file = match open(flags | OFlags::EXCL) {
        Ok(file) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let stat = rustix::fs::stat(parent).map_err(fail)?;
            if SERVICE_USERS.contains(&stat.st_uid) {
                // Root without that right, or a file system without owners: it stays root's.
                let _ = give(&file, (stat.st_uid, stat.st_gid));
            }
            file
        }
        // Or a link to where it is to be.
        Err(Errno::EXIST) => open(flags).map_err(fail)?,
        Err(errno) => return Err(fail(errno)),
    };
    let stat = rustix::fs::fstat(&file).map_err(fail)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(File::from(file)),
        kind => {
            let (kind, what) = errors::kind_words(kind);
            Err(errors::refused(kind, Verb::Open, &shown, &format!("{what} is in the way")))
        }
    }
}
