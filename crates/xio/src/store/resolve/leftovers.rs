//! Part files and journals below a root, found by their names: what can be gone on with is counted, what nobody came for is
//! removed. Runs beside everything else when a server starts, since a large tree takes its time.

use super::super::local::parts::resumable;
use super::super::{FileKind, Recovered};
use super::{Parent, Root};
use rustix::fs::{Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use xdfs_proto::base::RelPath;

/// What a name says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leftover {
    Part,
    Journal,
    /// A journal on its way.
    Fresh,
}

/// `.<name>.<32 hexadecimal digits>.part` and the like.
fn kind_of(name: &[u8]) -> Option<(Leftover, &[u8])> {
    let suffixes =
        [(b".part".as_slice(), Leftover::Part), (b".journal", Leftover::Journal), (b".journal.new", Leftover::Fresh)];
    let (stem, kind) = suffixes.iter().find_map(|(suffix, kind)| Some((name.strip_suffix(*suffix)?, *kind)))?;
    let digits = stem.get(stem.len().checked_sub(32)?..)?;
    let dotted = stem.len() > 34 && stem.starts_with(b".") && stem.get(stem.len() - 33) == Some(&b'.');
    (dotted && digits.iter().all(|byte| byte.is_ascii_hexdigit())).then_some((kind, stem))
}

/// Whether a name is one of a file on its way or of its journal.
pub(in crate::store) fn is_leftover(name: &[u8]) -> bool {
    kind_of(name).is_some()
}

impl Root {
    /// Looks at every directory below; what was last written before `expired` (seconds since 1970) is removed.
    pub(in crate::store) fn recover(&self, expired: i64) -> Recovered {
        self.look_through(expired, true)
    }

    /// The same for what lies in this directory itself.
    pub(in crate::store) fn recover_here(&self, expired: i64) -> Recovered {
        self.look_through(expired, false)
    }

    fn look_through(&self, expired: i64, below: bool) -> Recovered {
        let mut found = Recovered::default();
        let mut open = vec![RelPath::default()];
        while let Some(path) = open.pop() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            // What may not be read is nobody's business here, and holds no part file of ours.
            let Ok(directory) = self.beneath(&path, flags) else { continue };
            let Ok(entries) = Dir::read_from(directory.as_fd()) else { continue };
            let parent = Parent::new(directory);
            for entry in entries.flatten() {
                let name = entry.file_name().to_bytes();
                if matches!(name, b"." | b"..") {
                    continue;
                }
                if let Some((kind, stem)) = kind_of(name) {
                    look(&parent, kind, name, stem, expired, &mut found);
                    continue;
                }
                if !below {
                    continue;
                }
                let kind = match entry.file_type() {
                    FileType::Unknown => parent.kind_of(name).ok().flatten(),
                    kind => Some(kind),
                };
                let mut inner = path.clone();
                // Deeper than a path may be there is no target either.
                if kind.map(super::super::words::file_kind) == Some(FileKind::Directory) && inner.push(name).is_ok() {
                    open.push(inner);
                }
            }
        }
        found
    }
}

/// So many names of a directory are looked at for part files of one target: about a millisecond. What is not found expires.
const NAMES_MAX: usize = 16_384;

impl Parent {
    /// Part files of the target `name` besides `own`, as far as they can be told from those of others.
    pub(in crate::store) fn other_parts(&self, name: &[u8], own: &[u8]) -> Vec<Vec<u8>> {
        let stem = [b".", name, b"."].concat();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // A name that was cut is that of several targets, and a directory that may not be read has none to tell.
        let cut = !own.starts_with(&stem);
        let directory = rustix::fs::openat(&self.directory, ".", flags, Mode::empty());
        let Some(entries) = directory.ok().filter(|_| !cut).and_then(|directory| Dir::new(directory).ok()) else {
            return Vec::new();
        };
        let names = entries.take(NAMES_MAX).flatten().map(|entry| entry.file_name().to_bytes().to_vec());
        let of_target = |name: &[u8]| {
            kind_of(name).is_some_and(|(kind, of)| {
                kind == Leftover::Part && of.len() == stem.len() + 32 && of.starts_with(&stem)
            })
        };
        names.filter(|name| name != own && of_target(name)).collect()
    }
}

/// Whether nobody writes it; then nobody else can begin to as long as `file` is open.
pub(in crate::store) fn is_held_by_nobody(file: &OwnedFd) -> bool {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn look(parent: &Parent, kind: Leftover, name: &[u8], stem: &[u8], expired: i64, found: &mut Recovered) {
    let Ok(Some((file, stat))) = parent.open_own(name) else { return };
    let old = stat.st_mtime < expired;
    let of = |suffix: &[u8]| [stem, suffix].concat();
    match kind {
        Leftover::Part => {
            let journal = parent.open_own(&of(b".journal")).ok().flatten();
            let fresher = journal.as_ref().is_some_and(|(_, stat)| stat.st_mtime >= expired);
            if old && !fresher && is_free(&file) {
                // The part first: a journal alone is worth nothing.
                if parent.remove(name).is_ok() {
                    found.expired += 1;
                    let _ = parent.remove(&of(b".journal"));
                }
                return;
            }
            match journal.and_then(|(journal, _)| resumable(&journal, &stat)) {
                Some(bytes) => {
                    found.parts += 1;
                    found.bytes += bytes;
                }
                None => found.others += 1,
            }
        }
        // Left by a crash between the rename of the part and the removal of its journal.
        Leftover::Journal => {
            if matches!(parent.kind_of(&of(b".part")), Ok(None)) && parent.remove(name).is_ok() {
                found.expired += 1;
            }
        }
        Leftover::Fresh if old => found.expired += u64::from(parent.remove(name).is_ok()),
        Leftover::Fresh => {}
    }
}

/// Nobody writes it: a program that does holds a lock.
fn is_free(file: &OwnedFd) -> bool {
    !matches!(rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_part_files_are_taken_for_such() {
        let hex = "0123456789abcdef0123456789abcdef";
        for (name, kind) in [
            (format!(".data.{hex}.part"), Some(Leftover::Part)),
            (format!(".data.{hex}.journal"), Some(Leftover::Journal)),
            (format!(".data.{hex}.journal.new"), Some(Leftover::Fresh)),
            (format!("data.{hex}.part"), None),
            (format!(".{hex}.part"), None),
            (format!(".data{hex}.part"), None),
            (".data.part".to_owned(), None),
            (format!(".data.{}g.part", &hex[1..]), None),
            (format!(".data.{hex}.parts"), None),
        ] {
            assert_eq!(kind_of(name.as_bytes()).map(|(kind, _)| kind), kind, "{name}");
        }
    }
}
