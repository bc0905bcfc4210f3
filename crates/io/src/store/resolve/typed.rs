//! Paths as a user types them: relative to the working directory, with `..`, through symbolic
//! links, as `cp` accepts them. The user may go wherever the kernel permits; the named directory is
//! then held open like any other root.
//!
//! The rules, those of GNU `cp`:
//! - a link as source is followed to the file;
//! - a link to a file as target means the file it points to: that file is replaced, the link stays;
//! - a dangling link is an error as source and as target. POSIX would create what it points to; in
//!   a directory that others write to, that lets them choose the place;
//! - a path that ends in a slash names a directory and nothing else.
//!
//! Must not: know what is done with the file.

use super::Root;
use crate::store::errors::{self, Verb};
use crate::store::reserved::is_reserved;
use crate::store::{FileKind, Result};
use rustix::fs::{AtFlags, CWD, FileType};
use rustix::io::Errno;
use xdfs_proto::base::{ErrorKind, RelPath};

/// Maximum number of links followed before it is reported as a loop: the kernel's own limit.
const LINKS_MAX: usize = 40;

/// A typed path, resolved: an open directory and a name in it.
pub(in crate::store) struct TypedPath {
    /// The directory: the parent of the file, or the named directory itself.
    pub(in crate::store) root: Root,
    /// Escaped prefix of names in messages: what the user typed of the directory.
    pub(in crate::store) label: String,
    /// The name in it; empty where a directory was named.
    pub(in crate::store) name: RelPath,
    /// What exists there; none if nothing does.
    pub(in crate::store) existing: Option<FileKind>,
    /// The whole path: what was typed, or where the links led that were followed.
    pub(in crate::store) path: Vec<u8>,
}

impl TypedPath {
    /// Resolves `typed`. Its directory must exist, the file need not.
    pub(in crate::store) fn of(typed: &[u8]) -> Result<Self> {
        let fail = |errno| errors::failed(Verb::Find, &errors::shown_bytes(typed), errno);
        if typed.contains(&0) {
            return Err(refused(ErrorKind::InvalidPath, typed, "it contains a NUL byte"));
        }
        if typed.is_empty() {
            return Err(refused(ErrorKind::InvalidPath, typed, "the name is empty"));
        }
        match kind_of(typed) {
            Ok(FileType::Directory) => Self::directory(typed),
            Ok(FileType::RegularFile) => Self::in_directory(&follow(typed)?, Some(FileKind::Regular)),
            // Not resolved here: the links under /proc/self/fd, which a shell's <(...) leads to,
            // have no text.
            Ok(_) => Self::in_directory(typed, Some(FileKind::Other)),
            Err(Errno::NOENT) => Self::absent(typed),
            Err(errno) => Err(fail(errno)),
        }
    }

    fn directory(typed: &[u8]) -> Result<Self> {
        let label = if typed.ends_with(b"/") { typed.to_vec() } else { [typed, b"/"].concat() };
        let (name, existing) = (RelPath::default(), Some(FileKind::Directory));
        Ok(Self { root: root_at(typed)?, label: shown_label(&label), name, existing, path: typed.to_vec() })
    }

    /// `typed` does not exist: a dangling link, a missing directory, or a name that is free.
    fn absent(typed: &[u8]) -> Result<Self> {
        if typed.ends_with(b"/") {
            return Err(refused(ErrorKind::NotFound, typed, "no such directory"));
        }
        let stat = rustix::fs::statat(CWD, typed, AtFlags::SYMLINK_NOFOLLOW);
        if stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink) {
            let target =
                rustix::fs::readlinkat(CWD, typed, Vec::new()).map(|text| text.into_bytes()).unwrap_or_default();
            let because = format!("it is a symbolic link to '{}', which does not exist", errors::shown_bytes(&target));
            return Err(refused(ErrorKind::NotFound, typed, &because));
        }
        Self::in_directory(typed, None)
    }

    fn in_directory(path: &[u8], existing: Option<FileKind>) -> Result<Self> {
        let (above, name) = split(path);
        let mut relative = RelPath::default();
        relative.push(name).map_err(|error| refused(ErrorKind::InvalidPath, path, &error.to_string()))?;
        if is_reserved(name) {
            return Err(refused(ErrorKind::InvalidPath, path, "it is a name that xdfs reserves for part files"));
        }
        let root = root_at(if above.is_empty() { b"." } else { above }).map_err(|mut error| {
            if error.kind == ErrorKind::NotFound {
                let directory = errors::shown_bytes(trimmed(above));
                error.message = refused(error.kind, path, &format!("no such directory '{directory}'")).message;
            }
            error
        })?;
        Ok(Self { root, label: shown_label(above), name: relative, existing, path: path.to_vec() })
    }
}

/// The type of what is at `path`, as the kernel finds it through links.
pub(in crate::store) fn kind_of(path: &[u8]) -> std::result::Result<FileType, Errno> {
    rustix::fs::stat(path).map(|stat| FileType::from_raw_mode(stat.st_mode))
}

/// Opens the directory `path`.
fn root_at(path: &[u8]) -> Result<Root> {
    Root::open(path).map_err(|errno| errors::failed(Verb::Find, &errors::shown_bytes(trimmed(path)), errno))
}

/// What messages show before names in a directory.
fn shown_label(directory: &[u8]) -> String {
    directory.escape_ascii().to_string()
}

/// Follows the links of the last component until it is not a link. Parent directories are resolved
/// by the kernel.
fn follow(typed: &[u8]) -> Result<Vec<u8>> {
    let fail = |path: &[u8], errno| errors::failed(Verb::Find, &errors::shown_bytes(path), errno);
    let mut path = typed.to_vec();
    for _ in 0..LINKS_MAX {
        match rustix::fs::readlinkat(CWD, path.as_slice(), Vec::new()) {
            Ok(text) => {
                let text = text.into_bytes();
                path = if text.starts_with(b"/") { text } else { [split(&path).0, &text].concat() };
            }
            // Not a link: this is the file.
            Err(Errno::INVAL) => return Ok(path),
            Err(errno) => return Err(fail(&path, errno)),
        }
    }
    Err(fail(typed, Errno::LOOP))
}

/// The directory part with its slash (empty when there is none) and the last component.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => path.split_at(slash + 1),
        None => (&[], path),
    }
}

/// Without trailing slashes, except for the root.
fn trimmed(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&byte| byte != b'/') {
        Some(last) => path.get(..=last).unwrap_or(path),
        None => path.get(..1).unwrap_or(path),
    }
}

fn refused(kind: ErrorKind, typed: &[u8], because: &str) -> xdfs_proto::base::Error {
    errors::refused(kind, Verb::Find, &errors::shown_bytes(typed), because)
}
