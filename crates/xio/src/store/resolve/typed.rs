//! Paths as a person types them: relative to the working directory, with `..`, through symbolic links, as `cp` takes
//! them. The person may go wherever the kernel lets them; what they named is then held like any other root.
//!
//! The rules, those of GNU `cp`:
//! - a link as source is followed to the file;
//! - a link to a file as target means the file it points to: that one is replaced, the link stays;
//! - a link that points to nothing is an error as source and as target. POSIX would create what it points to; in a
//!   directory that others write to, that lets them choose the place;
//! - a path that ends in a slash names a directory and nothing else.

use super::Root;
use super::reserved::is_reserved;
use crate::store::errors::{self, Verb};
use crate::store::stream::{StreamSource, StreamStage};
use crate::store::{Base, Existing, FileKind, Kept, LocalStore, Result, Resume, Source, Stage, StageRequest, Store};
use rustix::fs::{AtFlags, CWD, FileType};
use rustix::io::Errno;
use xdfs_proto::base::{ErrorKind, RelPath};

/// Links followed before it is taken for a loop: what the kernel itself allows.
const LINKS_MAX: usize = 40;

/// What a person typed, as a held directory and a name in it.
#[derive(Clone, Debug)]
pub struct LocalPlace {
    /// The directory: of the file, or the directory itself where one was named. Writable.
    pub store: LocalStore,
    /// The name in it; empty where a directory was named, so that `name.push(file)` names a file inside it.
    pub name: RelPath,
    /// What stands there; none when nothing does.
    pub existing: Option<FileKind>,
    /// As it was typed, for what has no place of its own: the pipe of a shell's `<(...)`.
    typed: Vec<u8>,
}

impl LocalPlace {
    /// Finds the place of `typed`. Its directory must exist, the file need not.
    pub fn of(typed: &[u8]) -> Result<Self> {
        let fail = |errno| errors::failed(Verb::Find, &errors::shown_bytes(typed), errno);
        if typed.contains(&0) {
            return Err(refused(ErrorKind::InvalidPath, typed, "it contains a NUL byte"));
        }
        if typed.is_empty() {
            return Err(refused(ErrorKind::InvalidPath, typed, "the name is empty"));
        }
        match rustix::fs::stat(typed) {
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => Self::directory(typed),
                FileType::RegularFile => Self::in_directory(&follow(typed)?, Some(FileKind::Regular)),
                // Not followed by hand: the links under /proc/self/fd, which a shell's <(...) leads to, have no text.
                _ => Self::in_directory(typed, Some(FileKind::Other)),
            },
            Err(Errno::NOENT) => Self::absent(typed),
            Err(errno) => Err(fail(errno)),
        }
    }

    /// Opens what stands here: a regular file, or a FIFO or device in order. Opening a FIFO waits for its writer.
    pub fn open(&self) -> Result<Source> {
        if self.existing == Some(FileKind::Other) {
            return StreamSource::open(&self.typed).map(Source::Stream);
        }
        match self.store.open(&self.name) {
            // A regular file that the store does not take is one of the kernel's (/proc, /sys): its size says nothing,
            // but it can be read to its end.
            Err(error) if error.kind == ErrorKind::NotRegular && self.existing == Some(FileKind::Regular) => {
                StreamSource::open(&self.typed).map(Source::Stream)
            }
            other => other,
        }
    }

    /// Prepares the file of this place; into a FIFO, terminal or `/dev/null` the bytes go as they come. `name` was
    /// extended by the caller where this is a directory.
    pub fn stage(
        &self,
        size: Option<u64>,
        existing: Existing,
        transfer: [u8; 16],
        resume: Option<Resume>,
        base: Option<Base>,
        holes: bool,
    ) -> Result<Stage> {
        if self.existing != Some(FileKind::Other) {
            let target = self.name.clone();
            return self.store.stage(&StageRequest { target, size, existing, transfer, resume, base, holes });
        }
        if existing == Existing::Keep {
            return Err(refused(ErrorKind::AlreadyExists, &self.typed, "it already exists"));
        }
        let stat = rustix::fs::stat(self.typed.as_slice())
            .map_err(|errno| errors::failed(Verb::Open, &errors::shown_bytes(&self.typed), errno))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo | FileType::CharacterDevice => StreamStage::open(&self.typed).map(Stage::Stream),
            // A disk would be overwritten; a socket cannot be opened.
            kind => {
                let (kind, what) = errors::kind_words(kind);
                Err(errors::refused(
                    kind,
                    Verb::Create,
                    &errors::shown_bytes(&self.typed),
                    &format!("{what} is in the way"),
                ))
            }
        }
    }

    /// Version of what stands here; empty for nothing, none where it cannot be told.
    pub fn version(&self) -> Option<Vec<u8>> {
        match self.store.attributes(&self.name) {
            Ok(attributes) => Some(attributes.version.0),
            Err(error) => (error.kind == ErrorKind::NotFound).then(Vec::new),
        }
    }

    /// What an earlier attempt with this id left here.
    pub fn kept(&self, transfer: &[u8; 16]) -> Option<Kept> {
        match self.existing {
            Some(FileKind::Other) => None,
            _ => self.store.kept(&self.name, transfer, b""),
        }
    }

    fn directory(typed: &[u8]) -> Result<Self> {
        let label = if typed.ends_with(b"/") { typed.to_vec() } else { [typed, b"/"].concat() };
        let (name, existing) = (RelPath::default(), Some(FileKind::Directory));
        Ok(Self { store: store_at(typed, &label)?, name, existing, typed: typed.to_vec() })
    }

    /// Nothing answers to `typed`: a link to nothing, a missing directory, or a name that is free.
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
        let store = store_at(if above.is_empty() { b"." } else { above }, above).map_err(|mut error| {
            if error.kind == ErrorKind::NotFound {
                let directory = errors::shown_bytes(trimmed(above));
                error.message = refused(error.kind, path, &format!("no such directory '{directory}'")).message;
            }
            error
        })?;
        Ok(Self { store, name: relative, existing, typed: path.to_vec() })
    }
}

/// The directory `path` as a store that shows `label` in front of names.
fn store_at(path: &[u8], label: &[u8]) -> Result<LocalStore> {
    let root =
        Root::open(path).map_err(|errno| errors::failed(Verb::Find, &errors::shown_bytes(trimmed(path)), errno))?;
    Ok(LocalStore::of_root(root, true, &label.escape_ascii().to_string()))
}

/// Follows the links of the last component until it is none. Directories on the way are the kernel's business.
fn follow(typed: &[u8]) -> Result<Vec<u8>> {
    let fail = |path: &[u8], errno| errors::failed(Verb::Find, &errors::shown_bytes(path), errno);
    let mut path = typed.to_vec();
    for _ in 0..LINKS_MAX {
        match rustix::fs::readlinkat(CWD, path.as_slice(), Vec::new()) {
            Ok(text) => {
                let text = text.into_bytes();
                path = if text.starts_with(b"/") { text } else { [split(&path).0, &text].concat() };
            }
            // No link: this is the file.
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
