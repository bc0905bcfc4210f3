//! A folder of settings and keys: small files that are read whole and replaced whole, for a single
//! user.
//!
//! The folder is named by the user who runs the program and resolved with the kernel's usual rules;
//! it is then held open, and a file in it is one component below the open directory. Files that
//! others could have written are refused, and so is a secret that others could have read: either
//! would make a check of keys worthless.
//!
//! Must not: follow a link inside the folder, read a file without a size limit, leave a partial
//! file under a name.

mod records;

pub use self::records::{FoundRecord, Record};
use super::Parent;
use crate::store::Result;
use crate::store::errors::{self, Verb};
use crate::store::locked_file::LockedFile;
use rustix::fs::{CWD, FileType, FlockOperation, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use xdfs_proto::base::{Error, ErrorKind};

/// The holder of the lock reads one file and writes one; a longer wait means that it was stopped.
const LOCK_DEADLINE: Duration = Duration::from_secs(10);

/// Temporary names tried before giving up: leftovers of killed programs are few.
const NAME_TRIES_MAX: u32 = 100;

/// Permissions that a file may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Secrecy {
    /// Readable by its owner only: a file that others may read or write is refused.
    Secret,
    /// Readable by everybody: a file that others may write is refused.
    Public,
    /// Readable by everybody, and its content is not trusted: a public key passed by the user.
    Open,
}

/// One state of a file: a different value means that the file was replaced or written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    inode: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

/// A file that root has created goes to the owner of the folder that it is in, if that is somebody else.
pub(super) fn give(file: &OwnedFd, (user, group): (u32, u32)) -> std::result::Result<(), Errno> {
    if rustix::process::geteuid().is_root() && user != 0 {
        rustix::fs::fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
    }
    Ok(())
}

/// A private folder of small files that are read and replaced as a whole.
#[derive(Debug)]
pub struct Folder {
    directory: OwnedFd,
    parent: Parent,
    /// Its owner; files that root writes get the same owner.
    owner: (u32, u32),
    shown: String,
}

/// The step in which a written file is named.
type GiveName = fn(&Parent, &[u8], &[u8]) -> std::result::Result<(), Errno>;

/// The exclusive right to write to a folder; released on drop.
#[derive(Debug)]
pub struct FolderLock(#[expect(dead_code, reason = "holds the lock")] LockedFile);

impl Folder {
    /// Opens the folder `path`; none if it does not exist.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        match Self::held(path) {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// Opens the folder `path`. Missing directories are created, accessible by their owner only.
    pub fn create(path: &Path) -> Result<Self> {
        let missing: Vec<&Path> =
            path.ancestors().take_while(|above| matches!(rustix::fs::stat(*above), Err(Errno::NOENT))).collect();
        for directory in missing.into_iter().rev().filter(|directory| !directory.as_os_str().is_empty()) {
            match rustix::fs::mkdirat(CWD, directory, Mode::RWXU) {
                // Another process created it first.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errors::failed(Verb::Create, &shown(directory), errno)),
            }
        }
        Self::held(path)
    }

    fn held(path: &Path) -> Result<Self> {
        let shown = shown(path);
        let fail = |errno| errors::failed(Verb::Open, &shown, errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(fail)?;
        let stat = rustix::fs::fstat(&directory).map_err(fail)?;
        must_be_ours(&stat, &shown)?;
        if stat.st_mode & 0o022 != 0 {
            return Err(too_open(&stat, &shown, "write into it", "go-w"));
        }
        let parent = Parent::new(rustix::io::fcntl_dupfd_cloexec(&directory, 0).map_err(fail)?);
        Ok(Self { directory, parent, owner: (stat.st_uid, stat.st_gid), shown })
    }

    /// The folder, escaped, for messages.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The name of a file in it, escaped, for messages.
    pub fn shown_file(&self, name: &str) -> String {
        format!("{}/{}", self.shown, name.escape_default())
    }

    /// The content of the file `name`, at most `bytes_max` bytes; none if it does not exist.
    pub fn read(&self, name: &str, bytes_max: usize, secrecy: Secrecy) -> Result<Option<Vec<u8>>> {
        let shown = self.shown_file(name);
        single(name)?;
        // Not blocking: a FIFO of that name would wait for its writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.directory, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errors::failed(Verb::Open, &shown, errno)),
        };
        let stat = rustix::fs::fstat(&file).map_err(|errno| errors::failed(Verb::Look, &shown, errno))?;
        must_be_ours(&stat, &shown)?;
        whole(&file, &stat, bytes_max, secrecy, &shown).map(Some)
    }

    /// The current state of the file `name`; none if it does not exist.
    pub fn stamp(&self, name: &str) -> Result<Option<Stamp>> {
        single(name)?;
        match rustix::fs::statat(&self.directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Stamp {
                inode: stat.st_ino,
                size: stat.st_size,
                modified: (stat.st_mtime, stat.st_mtime_nsec),
                changed: (stat.st_ctime, stat.st_ctime_nsec),
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errors::failed(Verb::Look, &self.shown_file(name), errno)),
        }
    }

    /// Replaces the content of the file `name`, readable by its owner only, atomically and durably.
    pub fn replace(&self, name: &str, content: &[u8]) -> Result<()> {
        self.write(name, content, 0o600, Parent::replace)
    }

    /// Creates the file `name` with this content and these permissions; `AlreadyExists` if the name
    /// exists in any form.
    pub fn create_file(&self, name: &str, content: &[u8], mode: u32) -> Result<()> {
        self.write(name, content, mode, |parent, from, to| parent.keep(from, parent, to))
    }

    fn write(&self, name: &str, content: &[u8], mode: u32, give_name: GiveName) -> Result<()> {
        single(name)?;
        let shown = self.shown_file(name);
        let fail = |errno| errors::failed(Verb::Write, &shown, errno);
        let (file, temporary) = self.temporary(name).map_err(fail)?;
        let written = self.fill(&file, content, mode).and_then(|()| {
            give_name(&self.parent, temporary.as_bytes(), name.as_bytes())?;
            rustix::fs::fsync(&self.directory)
        });
        written.map_err(|errno| {
            // It no longer exists if the rename succeeded and only its sync failed.
            let _ = self.parent.remove(temporary.as_bytes());
            fail(errno)
        })
    }

    /// A new file under a temporary name.
    fn temporary(&self, name: &str) -> std::result::Result<(OwnedFd, String), Errno> {
        let process = std::process::id();
        for attempt in 0..NAME_TRIES_MAX {
            let temporary = format!(".{name}.{process}-{attempt}");
            match self.parent.create_new(temporary.as_bytes()) {
                Ok(file) => return Ok((file, temporary)),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }

    fn fill(&self, file: &OwnedFd, content: &[u8], mode: u32) -> std::result::Result<(), Errno> {
        self.give(file)?;
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
        let mut rest = content;
        while !rest.is_empty() {
            match rustix::io::write(file, rest) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        rustix::fs::fsync(file)
    }

    /// The lock file `name`, created if it does not exist. Root gives a new one to the service, but
    /// never an existing one: that may be another name of another user's file.
    fn lock_file(&self, name: &str) -> std::result::Result<OwnedFd, Errno> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = |flags| rustix::fs::openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR);
        for _ in 0..NAME_TRIES_MAX {
            match open(flags | OFlags::CREATE | OFlags::EXCL) {
                Ok(file) => return self.give(&file).map(|()| file),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            match open(flags) {
                // It was removed in between.
                Err(Errno::NOENT) => {}
                opened => return opened,
            }
        }
        Err(Errno::BUSY)
    }

    /// Root works on files that a service reads: a file that was created here is given to the
    /// service.
    fn give(&self, file: &OwnedFd) -> std::result::Result<(), Errno> {
        give(file, self.owner)
    }

    /// Waits, up to a deadline, until no other process holds the lock file `name`.
    pub fn lock(&self, name: &str) -> Result<FolderLock> {
        single(name)?;
        let shown = self.shown_file(name);
        let fail = |errno| errors::failed(Verb::Open, &shown, errno);
        let file = self.lock_file(name).map_err(fail)?;
        let (tell, locked) = sync_channel(1);
        // The kernel's wait has no deadline of its own. A thread that never gets the lock ends with
        // the process.
        let waiting = std::thread::Builder::new().name("xdfs-lock".into()).spawn(move || {
            let mut outcome = rustix::fs::flock(&file, FlockOperation::LockExclusive);
            while outcome == Err(Errno::INTR) {
                outcome = rustix::fs::flock(&file, FlockOperation::LockExclusive);
            }
            // After the deadline there is no receiver; the file is then unlocked.
            let _ = tell.send(outcome.map(|()| LockedFile::new(file)));
        });
        waiting.map_err(|error| Error::new(ErrorKind::Resources, format!("cannot wait for '{shown}': {error}")))?;
        match locked.recv_timeout(LOCK_DEADLINE) {
            Ok(Ok(file)) => Ok(FolderLock(file)),
            Ok(Err(errno)) => Err(fail(errno)),
            Err(_) => {
                let text = format!("another xdfs has been changing '{}' for {LOCK_DEADLINE:?}; end it", self.shown);
                Err(Error::new(ErrorKind::Busy, text))
            }
        }
    }
}

/// The content of a file that the user named, at most `bytes_max` bytes; none if it does not exist.
/// A pipe (a shell's `<(...)`) is read to its end.
pub fn read_named(path: &Path, bytes_max: usize, secrecy: Secrecy) -> Result<Option<Vec<u8>>> {
    let shown = shown(path);
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errors::failed(Verb::Open, &shown, errno)),
    };
    let stat = rustix::fs::fstat(&file).map_err(|errno| errors::failed(Verb::Look, &shown, errno))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Fifo {
        return bounded(&file, bytes_max, &shown).map(Some);
    }
    whole(&file, &stat, bytes_max, secrecy, &shown).map(Some)
}

/// The content of a file that says what this program does; none if it does not exist. Whoever else
/// could change it is refused: others with a right to write, and another owner than the user and root.
pub fn read_settings(path: &Path, bytes_max: usize) -> Result<Option<Vec<u8>>> {
    let shown = shown(path);
    // A pipe is no place for settings, and would be waited for.
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errors::failed(Verb::Open, &shown, errno)),
    };
    let stat = rustix::fs::fstat(&file).map_err(|errno| errors::failed(Verb::Look, &shown, errno))?;
    let user = rustix::process::geteuid().as_raw();
    if stat.st_uid != 0 && stat.st_uid != user {
        let text =
            format!("'{shown}' belongs to user {}, who could change it; run: chown {user} '{shown}'", stat.st_uid);
        return Err(Error::new(ErrorKind::PermissionDenied, text));
    }
    whole(&file, &stat, bytes_max, Secrecy::Public, &shown).map(Some)
}

/// The target of a path that the user gave, with links followed; none if it does not exist.
pub fn leads_to(path: &Path) -> Option<PathBuf> {
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let target = rustix::fs::readlink(link, Vec::new()).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
}

/// Creates the file that the user named; `AlreadyExists` if the name exists in any form.
pub fn create_named(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let not_a_file = || errors::refused(ErrorKind::InvalidPath, Verb::Create, &shown(path), "it names no file");
    let name = path.file_name().and_then(OsStr::to_str).ok_or_else(not_a_file)?;
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fail = |errno| errors::failed(Verb::Open, &shown(above), errno);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(above, flags, Mode::empty()).map_err(fail)?;
    let parent = Parent::new(rustix::io::fcntl_dupfd_cloexec(&directory, 0).map_err(fail)?);
    // Owned by the user who creates it, wherever it is.
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Folder { directory, parent, owner, shown: shown(above) }.create_file(name, content, mode)
}

fn shown(path: &Path) -> String {
    errors::shown_bytes(path.as_os_str().as_bytes())
}

/// A file's name comes from this program, not from a peer; this check is the last line of defence.
fn single(name: &str) -> Result<()> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(errors::refused(ErrorKind::InvalidPath, Verb::Open, name, "it is no single name"));
    }
    Ok(())
}

fn must_be_ours(stat: &Stat, shown: &str) -> Result<()> {
    let me = rustix::process::geteuid();
    if me.is_root() || stat.st_uid == me.as_raw() {
        return Ok(());
    }
    let text = format!("'{shown}' belongs to user id {} and this program runs as {}", stat.st_uid, me.as_raw());
    Err(Error::new(ErrorKind::PermissionDenied, text))
}

/// Checks a regular file and reads it.
fn whole(file: &OwnedFd, stat: &Stat, bytes_max: usize, secrecy: Secrecy, shown: &str) -> Result<Vec<u8>> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        kind => {
            let (error, what) = errors::kind_words(kind);
            return Err(errors::refused(error, Verb::Read, shown, &format!("it is {what}")));
        }
    }
    match secrecy {
        Secrecy::Secret if stat.st_mode & 0o077 != 0 => return Err(too_open(stat, shown, "read it", "go=")),
        Secrecy::Public if stat.st_mode & 0o022 != 0 => return Err(too_open(stat, shown, "write to it", "go-w")),
        _ => {}
    }
    bounded(file, bytes_max, shown)
}

/// Reads to the end. The buffer has its final size from the start, so that a secret leaves no
/// copies behind as it grows.
fn bounded(file: &OwnedFd, bytes_max: usize, shown: &str) -> Result<Vec<u8>> {
    let mut content = vec![0; bytes_max + 1];
    let mut filled = 0;
    while let Some(room) = content.get_mut(filled..).filter(|room| !room.is_empty()) {
        match rustix::io::read(file, room) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errors::failed(Verb::Read, shown, errno)),
        }
    }
    if filled > bytes_max {
        let because = format!("it has more than {bytes_max} bytes");
        return Err(errors::refused(ErrorKind::LimitExceeded, Verb::Read, shown, &because));
    }
    content.truncate(filled);
    Ok(content)
}

fn too_open(stat: &Stat, shown: &str, may: &str, change: &str) -> Error {
    let mode = stat.st_mode & 0o7777;
    let text = format!("'{shown}' has mode {mode:04o}: others may {may}\nhelp: run chmod {change} '{shown}'");
    Error::new(ErrorKind::PermissionDenied, text)
}

#[cfg(test)]
mod tests;
