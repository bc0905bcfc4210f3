//! The staging directory: the one place below a root that holds part files and journals, and that no path leads into.
//!
//! It is `.xdfs-staging`, mode 0700, of the user who runs the program. Anything else of that name is not used. Must not: follow a
//! link, accept a directory that somebody else can write to.

use super::parent::single;
use super::{Blocked, Cause, Parent};
use crate::store::small::fresh_id;
use crate::store::words;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use xdfs_proto::base::RelPath;

/// The reserved name. With `-UID` behind it the same, where another user's directory has this one.
const STAGING: &[u8] = b".xdfs-staging";

/// A directory that keeps vanishing between two calls is removed by somebody else as fast as it is made.
const TRIES_MAX: usize = 64;

/// Whether `component` is a name that no path may contain: `.xdfs-staging`, or that with a user's number. So is every name that a file
/// system may take for it which folds case and ignores some characters.
pub(in crate::store) fn is_reserved(component: &[u8]) -> bool {
    !component.is_ascii() && may_fold(component) || is_folded_name(component)
}

/// Whether characters beyond ASCII stand for so few letters of the name that a file system may take them for these: one of the
/// ligatures of "st", or letters of another width.
fn may_fold(component: &[u8]) -> bool {
    let mut rest: Vec<u8> = folded(component).collect();
    let mut letters = STAGING.iter();
    // A user's number may stand behind it.
    while rest.last().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-') {
        rest.pop();
    }
    rest.len() + MISSING_MAX >= STAGING.len() && rest.iter().all(|byte| letters.any(|letter| letter == byte))
}

/// Letters of the name that other characters may stand for.
const MISSING_MAX: usize = 5;

fn is_folded_name(component: &[u8]) -> bool {
    let mut folded = folded(component);
    if !STAGING.iter().all(|byte| folded.next() == Some(*byte)) {
        return false;
    }
    match folded.next() {
        None => true,
        Some(b'-') => {
            let mut digits = folded.peekable();
            digits.peek().is_some() && digits.all(|byte| byte.is_ascii_digit())
        }
        Some(_) => false,
    }
}

/// Small letters for large ones and for U+017F, which is a long s, and nothing for other characters beyond ASCII.
fn folded(component: &[u8]) -> impl Iterator<Item = u8> {
    component.iter().enumerate().filter_map(|(at, byte)| match byte {
        0xbf if at > 0 && component.get(at - 1) == Some(&0xc5) => Some(b's'),
        0x80.. => None,
        byte => Some(byte.to_ascii_lowercase()),
    })
}

/// Whether an entry of a directory is a staging directory of this user.
pub(in crate::store) fn is_staging(name: &[u8], stat: &Stat) -> bool {
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    is_reserved(name) && directory && is_of_this_user(stat) && stat.st_mode & 0o077 == 0
}

/// Refuses a path that contains a reserved name.
pub(super) fn must_not_be_reserved(path: &RelPath) -> Result<(), Blocked> {
    match path.components().position(is_reserved) {
        Some(index) => Err(Blocked { depth: index + 1, cause: Cause::Reserved }),
        None => Ok(()),
    }
}

/// Why there is no staging directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::store) enum NoStaging {
    /// The system refuses to make or open it.
    Errno(Errno),
    /// Something else has its name.
    Foreign(String),
}

impl From<Errno> for NoStaging {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// A staging directory that was opened.
#[derive(Debug)]
pub(in crate::store) struct OpenStaging {
    pub(in crate::store) directory: Parent,
    /// Its name in the directory above.
    pub(in crate::store) name: Vec<u8>,
    /// It was made just now.
    pub(in crate::store) made: bool,
}

/// What stands at the reserved name.
enum Found {
    Nothing,
    Own(OwnedFd),
    OtherUser,
    /// Of this user, and not to be used for this reason.
    Wrong(String),
}

impl Parent {
    /// Opens the staging directory in this directory, or makes it.
    pub(in crate::store) fn open_or_make_staging(&self) -> Result<OpenStaging, NoStaging> {
        let [usual, own] = staging_names();
        for name in [&usual, &own] {
            if let Some(open) = self.staging_named(name)? {
                return Ok(open);
            }
        }
        Err(NoStaging::Foreign(format!("'{}' belongs to another user", words::shown_bytes(&own))))
    }

    /// The staging directories of this user in this directory, as far as they are there.
    pub(in crate::store) fn existing_staging(&self) -> Vec<OpenStaging> {
        let open = |name: Vec<u8>| match self.look_for_staging(&name) {
            Ok(Found::Own(directory)) => Some(OpenStaging { directory: Parent::new(directory), name, made: false }),
            _ => None,
        };
        staging_names().into_iter().filter_map(open).collect()
    }

    /// None where another user has the name.
    fn staging_named(&self, name: &[u8]) -> Result<Option<OpenStaging>, NoStaging> {
        let mut made = false;
        for _ in 0..TRIES_MAX {
            let found = self.look_for_staging(name).inspect_err(|_| {
                // It is refused where something is in it.
                let _ = if made { self.remove_directory(name) } else { Ok(()) };
            });
            match found? {
                Found::Own(directory) => {
                    return Ok(Some(OpenStaging { directory: Parent::new(directory), name: name.to_vec(), made }));
                }
                Found::OtherUser => return Ok(None),
                Found::Wrong(why) => return Err(NoStaging::Foreign(why)),
                Found::Nothing => match rustix::fs::mkdirat(&self.directory, name, Mode::RWXU) {
                    Ok(()) => made = true,
                    Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                },
            }
        }
        Err(Errno::BUSY.into())
    }

    fn look_for_staging(&self, name: &[u8]) -> Result<Found, Errno> {
        single(name)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match rustix::fs::openat(&self.directory, name, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(Found::Nothing),
            Err(Errno::NOTDIR | Errno::LOOP) => return self.no_directory(name),
            Err(errno) => return Err(errno),
        };
        let stat = rustix::fs::fstat(&directory)?;
        let (mine, private) = (is_of_this_user(&stat), stat.st_mode & 0o077 == 0);
        if mine && private || self.knows_no_owners(&stat)? {
            return Ok(Found::Own(directory));
        }
        if !mine {
            return Ok(Found::OtherUser);
        }
        let (mode, name) = (stat.st_mode & 0o7777, words::shown_bytes(name));
        Ok(Found::Wrong(format!("'{name}' has mode {mode:04o}, so others may enter it; remove it")))
    }

    fn no_directory(&self, name: &[u8]) -> Result<Found, Errno> {
        let stat = match rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Found::Nothing),
            Err(errno) => return Err(errno),
        };
        if !is_of_this_user(&stat) {
            return Ok(Found::OtherUser);
        }
        let (_, what) = words::kind_words(FileType::from_raw_mode(stat.st_mode));
        Ok(Found::Wrong(format!("'{}' is {what}, not a directory; remove it", words::shown_bytes(name))))
    }

    /// Whether the file system gives every directory the same owner and mode (FAT, some network file systems): then `seen` has what
    /// a directory has that is made now.
    fn knows_no_owners(&self, seen: &Stat) -> Result<bool, Errno> {
        // No user has a number of this length.
        let probe = numbered(u128::from_be_bytes(fresh_id()) | 1 << 127);
        match rustix::fs::mkdirat(&self.directory, probe.as_slice(), Mode::RWXU) {
            Ok(()) => {}
            // Nothing can be made here: what is there counts as it is.
            Err(_) => return Ok(false),
        }
        let made = rustix::fs::statat(&self.directory, probe.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
        rustix::fs::unlinkat(&self.directory, probe.as_slice(), AtFlags::REMOVEDIR)?;
        let told = |stat: &Stat| (stat.st_uid, stat.st_mode & 0o777);
        let made = made?;
        Ok(told(&made) == told(seen) && !(is_of_this_user(&made) && made.st_mode & 0o077 == 0))
    }

    /// The names in this directory, at most `names_max` of them.
    pub(in crate::store) fn names(&self, names_max: usize) -> Result<Vec<Vec<u8>>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&self.directory, ".", flags, Mode::empty())?;
        let names = Dir::new(directory)?.flatten().map(|entry| entry.file_name().to_bytes().to_vec());
        Ok(names.filter(|name| !matches!(name.as_slice(), b"." | b"..")).take(names_max).collect())
    }
}

/// The usual name, and the one of this user.
fn staging_names() -> [Vec<u8>; 2] {
    [STAGING.to_vec(), numbered(rustix::process::geteuid().as_raw().into())]
}

fn numbered(number: u128) -> Vec<u8> {
    [STAGING, format!("-{number}").as_bytes()].concat()
}

fn is_of_this_user(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_reserved_in_every_spelling_that_a_file_system_may_fold_to_it() {
        for name in
            [".xdfs-staging", ".xdfs-staging-0", ".XDFS-Staging", ".xdf\u{17f}-staging", ".xdfs-\u{200b}staging-12"]
                .into_iter()
                .chain([".xdfs-\u{fb06}aging", ".xdfs-\u{fb05}aging-1000", ".xdfs-\u{ff53}taging"])
        {
            assert!(is_reserved(name.as_bytes()), "{name}");
        }
        for name in [
            "xdfs-staging",
            ".xdfs-stagin",
            ".xdfs-staging-",
            ".xdfs-staging-x",
            ".xdfs-staging0",
            ".x",
            "",
            ".xdfs-\u{e9}",
        ] {
            assert!(!is_reserved(name.as_bytes()), "{name}");
        }
    }
}
