//! The local directory of a tree: found, or made.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use xdfs_client::{Error, ErrorKind};
use xdfs_io::store::{FileKind, LocalPlace, LocalStore, Tree as _};

use crate::text::printable_path;

/// The directory that a tree is made in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Above {
    /// It has to exist.
    Needed,
    /// It is missing, and a run that is no dry run would have made it.
    WouldBeMade,
}

/// The directory that the user named.
pub(super) fn directory(path: &Path) -> Result<LocalStore, Error> {
    let place = LocalPlace::of(path.as_os_str().as_bytes())?;
    match place.existing {
        Some(FileKind::Directory) => Ok(place.store),
        Some(_) => {
            let text = format!("'{}' is not a directory\nhelp: a file is copied by 'xdfs cp'", printable_path(path));
            Err(Error::new(ErrorKind::NotDirectory, text))
        }
        None => Err(Error::new(ErrorKind::NotFound, format!("'{}': no such directory", printable_path(path)))),
    }
}

/// The directory at `path`, or the one that it would be made in, which the second value reports.
fn existing(path: &Path) -> Result<(LocalPlace, bool), Error> {
    // A slash at the end only means that a directory is expected.
    let place = LocalPlace::of(trimmed(path).as_os_str().as_bytes())?;
    match place.existing {
        Some(FileKind::Directory) => Ok((place, false)),
        Some(_) => Err(Error::new(ErrorKind::NotDirectory, format!("'{}' is not a directory", printable_path(path)))),
        None => Ok((place, true)),
    }
}

/// For a dry run. Nothing is looked for below a directory that is missing.
pub(super) fn would_be_made(path: &Path, above: Above) -> Result<(LocalStore, bool), Error> {
    let base = match above {
        Above::Needed => path,
        Above::WouldBeMade => path.parent().unwrap_or(path),
    };
    existing(base).map(|(place, fresh)| (place.store, fresh))
}

/// The same; a missing one is made, which the second value reports.
pub(super) fn made(path: &Path) -> Result<(LocalStore, bool), Error> {
    match existing(path)? {
        (place, false) => Ok((place.store, false)),
        (place, true) => {
            let fresh = match place.store.make_directory(&place.name, 0o777, false) {
                Ok(_) => true,
                // Another copy to the same place made it meanwhile.
                Err(error) if error.kind == ErrorKind::AlreadyExists => false,
                Err(error) => return Err(error),
            };
            Ok((directory(&trimmed(path))?, fresh))
        }
    }
}

pub(super) fn trimmed(path: &Path) -> PathBuf {
    // Components omit slashes at the end, and nothing else that matters here.
    path.components().collect()
}
