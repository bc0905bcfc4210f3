//! The staging directory: the only place below a root that holds part files and journals. No path
//! leads into it.
//!
//! It is `.xdfs-staging`, mode 0700, owned by the user who runs the program. Anything else of that
//! name is not used. Must not: follow a link, accept a directory that other users can write to.

use super::names::each_name;
use super::parent::single;
use super::{Blocked, Cause, Parent};
use crate::store::errors;
use crate::store::fresh_id::fresh_id;
use crate::store::reserved::{STAGING, is_reserved};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use xdfs_proto::base::RelPath;

/// A directory that keeps vanishing between two calls is being removed by other programs as fast as
/// it is created.
const TRIES_MAX: usize = 64;

/// Maximum number of names in a staging directory that a listing looks at.
const NAMES_SEEN: usize = 4096;
/// Names that NFS and FUSE give to files that are removed while they are open.
const REMOVED: [&[u8]; 2] = [b".nfs", b".fuse_hidden"];

/// Names of probes have this number and higher ones, which no user has.
const PROBE_MIN: u128 = 1 << 127;
/// A mode that is never requested.
const PROBE_MODE: u32 = 0o612;

/// Whether a staging directory has the owner and the mode that it was created with: some file systems
/// have none of their own.
pub(in crate::store) fn is_private(stat: &Stat) -> bool {
    is_of_this_user(stat) && stat.st_mode & 0o077 == 0
}

fn is_probe(name: &[u8]) -> bool {
    let number = name.strip_prefix(STAGING).and_then(|rest| rest.strip_prefix(b"-"));
    let number = number.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u128>().ok());
    number.is_some_and(|number| number >= PROBE_MIN)
}

/// Refuses a path that contains a reserved name after its first `known` components.
pub(super) fn must_not_be_reserved(path: &RelPath, known: usize) -> Result<(), Blocked> {
    match path.components().skip(known).position(is_reserved) {
        Some(index) => Err(Blocked { depth: known + index + 1, cause: Cause::Reserved }),
        None => Ok(()),
    }
}

/// Why there is no staging directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::store) enum NoStaging {
    /// The system refuses to create or open it.
    Errno(Errno),
    /// Something else has its name.
    Foreign(String),
}

impl From<Errno> for NoStaging {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// An open staging directory.
#[derive(Debug)]
pub(in crate::store) struct OpenStaging {
    pub(in crate::store) directory: Parent,
    /// Its name in the parent directory.
    pub(in crate::store) name: Vec<u8>,
    /// It was just created.
    pub(in crate::store) made: bool,
}

/// What exists at the reserved name.
enum ReservedName {
    Nothing,
    Own(OwnedFd),
    OtherUser,
    /// It belongs to this user, but must not be used for this reason.
    Wrong(String),
}

impl Parent {
    /// Opens the staging directory in this directory, or creates it.
    pub(in crate::store) fn open_or_make_staging(&self) -> Result<OpenStaging, NoStaging> {
        let mut why = String::new();
        for name in staging_names() {
            match self.staging_named(&name) {
                Ok(Some(open)) => return Ok(open),
                Ok(None) => why = format!("'{}' belongs to another user", errors::shown_bytes(&name)),
                Err(NoStaging::Foreign(wrong)) => why = wrong,
                Err(errno) => return Err(errno),
            }
        }
        Err(NoStaging::Foreign(why))
    }

    /// The existing staging directories of this user in this directory.
    pub(in crate::store) fn existing_staging(&self) -> Vec<OpenStaging> {
        let open = |name: Vec<u8>| match self.look_for_staging(&name) {
            Ok(ReservedName::Own(directory)) => {
                Some(OpenStaging { directory: Parent::new(directory), name, made: false })
            }
            _ => None,
        };
        staging_names().into_iter().filter_map(open).collect()
    }

    /// Whether an entry of this directory is a staging directory, of whomever, or a probe in it: listings
    /// hide these. A directory of that name that holds what this program would not put there is a user's.
    pub(in crate::store) fn is_staging(&self, name: &[u8], stat: &Stat, is_ours: fn(&[u8]) -> bool) -> bool {
        if !is_reserved(name) {
            return false;
        }
        let is_ours = |name: &Vec<u8>| is_ours(name) || REMOVED.iter().any(|prefix| name.starts_with(prefix));
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => match self.names_below(name) {
                Ok(names) => names.iter().all(is_ours),
                // Another user's: they let nobody look into theirs.
                Err(_) => stat.st_mode & 0o077 == 0,
            },
            FileType::RegularFile => stat.st_size == 0 && is_probe(name),
            _ => false,
        }
    }

    fn names_below(&self, name: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
        single(name)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.directory, name, flags, Mode::empty()) {
            Ok(directory) => Self::new(directory).names(NAMES_SEEN),
            // It has vanished.
            Err(Errno::NOENT) => Ok(Vec::new()),
            Err(errno) => Err(errno),
        }
    }

    /// None if the name belongs to another user.
    fn staging_named(&self, name: &[u8]) -> Result<Option<OpenStaging>, NoStaging> {
        let mut made = false;
        for _ in 0..TRIES_MAX {
            let found = self.look_for_staging(name).inspect_err(|_| {
                // Fails if it is not empty.
                let _ = if made { self.remove_directory(name) } else { Ok(()) };
            });
            match found? {
                ReservedName::Own(directory) => {
                    return Ok(Some(OpenStaging { directory: Parent::new(directory), name: name.to_vec(), made }));
                }
                ReservedName::OtherUser => return Ok(None),
                ReservedName::Wrong(why) => return Err(NoStaging::Foreign(why)),
                ReservedName::Nothing => match rustix::fs::mkdirat(&self.directory, name, Mode::RWXU) {
                    Ok(()) => made = true,
                    Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                },
            }
        }
        Err(Errno::BUSY.into())
    }

    fn look_for_staging(&self, name: &[u8]) -> Result<ReservedName, Errno> {
        single(name)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match rustix::fs::openat(&self.directory, name, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(ReservedName::Nothing),
            Err(Errno::NOTDIR | Errno::LOOP) => return self.no_directory(name),
            Err(errno) => return Err(errno),
        };
        let stat = rustix::fs::fstat(&directory)?;
        let mine = is_of_this_user(&stat);
        if is_private(&stat) || self.knows_no_owners(&stat)? {
            return Ok(ReservedName::Own(directory));
        }
        if !mine {
            return Ok(ReservedName::OtherUser);
        }
        let (mode, name) = (stat.st_mode & 0o7777, errors::shown_bytes(name));
        Ok(ReservedName::Wrong(format!("'{name}' has mode {mode:04o}, so others may enter it; remove it")))
    }

    fn no_directory(&self, name: &[u8]) -> Result<ReservedName, Errno> {
        let stat = match rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(ReservedName::Nothing),
            Err(errno) => return Err(errno),
        };
        if !is_of_this_user(&stat) {
            return Ok(ReservedName::OtherUser);
        }
        let (_, what) = errors::kind_words(FileType::from_raw_mode(stat.st_mode));
        Ok(ReservedName::Wrong(format!("'{}' is {what}, not a directory; remove it", errors::shown_bytes(name))))
    }

    /// Whether the file system gives all files the same owner or mode, whoever creates them (FAT,
    /// some network file systems), so that `seen` does not tell who created the file. Tested with a
    /// new file that is held open: a user who may change this directory can replace its name at any
    /// time, but not its descriptor.
    fn knows_no_owners(&self, seen: &Stat) -> Result<bool, Errno> {
        let Some(file) = self.probe()? else { return Ok(false) };
        let made = rustix::fs::fstat(&file)?;
        let same = (made.st_dev, made.st_uid) == (seen.st_dev, seen.st_uid);
        // No file is created with this mode, and it cannot be set where modes are a mount option.
        let keeps_modes = rustix::fs::fchmod(&file, Mode::from_raw_mode(PROBE_MODE)).is_ok()
            && rustix::fs::fstat(&file)?.st_mode & 0o777 == PROBE_MODE;
        // With both, only a network file system that maps this user to another number reports this.
        Ok(same && (!keeps_modes || !is_of_this_user(&made) && seen.st_mode & 0o077 == 0))
    }

    /// An empty file in this directory; none if nothing can be created here: the existing
    /// attributes then count.
    fn probe(&self) -> Result<Option<OwnedFd>, Errno> {
        match self.create_unnamed(Mode::RUSR | Mode::WUSR) {
            Ok(Some(file)) => return Ok(Some(file)),
            Ok(None) => {}
            Err(_) => return Ok(None),
        }
        let name = numbered(u128::from_be_bytes(fresh_id()) | PROBE_MIN);
        let Ok(file) = self.create_new(&name) else { return Ok(None) };
        // It may have been removed by another program, or its name may refer to another file by
        // now.
        let _ = self.remove(&name);
        Ok(Some(file))
    }

    /// The names in this directory, at most `names_max`.
    pub(in crate::store) fn names(&self, names_max: usize) -> Result<Vec<Vec<u8>>, Errno> {
        self.names_from(b"", names_max)
    }

    /// Those of the first `names_max` names in this directory that begin like this.
    pub(in crate::store) fn names_from(&self, start: &[u8], names_max: usize) -> Result<Vec<Vec<u8>>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&self.directory, ".", flags, Mode::empty())?;
        let mut names = Vec::new();
        let mut seen = 0;
        each_name(&directory, |name| {
            if name.starts_with(start) {
                names.push(name.to_vec());
            }
            seen += 1;
            seen < names_max
        })?;
        Ok(names)
    }
}

/// The usual name, and the one with this user's number.
fn staging_names() -> [Vec<u8>; 2] {
    [STAGING.to_vec(), numbered(rustix::process::geteuid().as_raw().into())]
}

fn numbered(number: u128) -> Vec<u8> {
    [STAGING, format!("-{number}").as_bytes()].concat()
}

fn is_of_this_user(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}
