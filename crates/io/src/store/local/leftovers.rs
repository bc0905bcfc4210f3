//! Part files and journals in the staging directories below a root: resumable ones are counted,
//! expired ones are removed. Runs in parallel with everything else when a server starts, since
//! scanning a large tree takes long.
//!
//! Earlier versions had part files next to their targets. None of them is resumed. One is removed
//! if a journal of its own proves what it is; every other name of that form belongs to a user.

use super::parts::{is_about, resumable};
use super::staging::{Leftover, held_by_nobody, kind_of, suffix_of};
use crate::store::errors::file_kind;
use crate::store::locked_file::LockedFile;
use crate::store::reserved::is_reserved;
use crate::store::resolve::{Parent, Root, trees};
use crate::store::{FileKind, Recovered};
use rustix::fs::{Dir, FileType, FlockOperation};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use xdfs_proto::base::RelPath;

/// Maximum number of names of a staging directory that are checked: more than any server keeps.
const NAMES_MAX: usize = 1 << 20;

/// Parses `.<name>.<32 hexadecimal digits>.part`, which earlier versions used next to the target;
/// returns the name without its suffix.
fn former_part(name: &[u8]) -> Option<&[u8]> {
    let (stem, Leftover::Part) = suffix_of(name)? else { return None };
    let digits = stem.get(stem.len().checked_sub(32)?..)?;
    let dotted = stem.len() > 34 && stem.starts_with(b".") && stem.get(stem.len() - 33) == Some(&b'.');
    (dotted && digits.iter().all(u8::is_ascii_hexdigit)).then_some(stem)
}

/// Whether a name in a staging directory is one that is given there.
pub(super) fn is_staged(name: &[u8]) -> bool {
    kind_of(name).is_some() || trees::is_tree(name)
}

impl Root {
    /// Checks every directory below; what was last written before `expired` (seconds since 1970) is
    /// removed.
    pub(super) fn recover(&self, expired: i64) -> Recovered {
        self.look_through(expired, true)
    }

    /// The same for this directory only.
    pub(super) fn recover_here(&self, expired: i64) -> Recovered {
        self.look_through(expired, false)
    }

    fn look_through(&self, expired: i64, below: bool) -> Recovered {
        let mut found = Recovered::default();
        let mut open = vec![RelPath::default()];
        while let Some(path) = open.pop() {
            // An unreadable directory is skipped, and holds no part file of ours.
            let Ok(directory) = self.open_directory_itself(&path) else { continue };
            let Ok(entries) = Dir::read_from(directory.as_fd()) else { continue };
            let parent = Parent::new(directory);
            let mut staging = false;
            for entry in entries.flatten() {
                let name = entry.file_name().to_bytes();
                if matches!(name, b"." | b"..") {
                    continue;
                }
                if is_reserved(name) {
                    staging = true;
                    continue;
                }
                if let Some(stem) = former_part(name) {
                    found.expired += u64::from(remove_former(&parent, name, stem, expired));
                }
                if !below {
                    continue;
                }
                let kind = match entry.file_type() {
                    FileType::Unknown => parent.kind_of(name).ok().flatten(),
                    kind => Some(kind),
                };
                let mut inner = path.clone();
                // At a depth beyond the path limit there is no target either.
                if kind.map(file_kind) == Some(FileKind::Directory) && inner.push(name).is_ok() {
                    open.push(inner);
                }
            }
            if staging {
                parent.recover_staging(expired, &mut found);
            }
        }
        found
    }
}

impl Parent {
    /// The same for the staging directories in this directory. One that is empty afterwards is
    /// removed.
    pub(super) fn recover_staging(&self, expired: i64, found: &mut Recovered) {
        for staging in self.existing_staging() {
            for name in staging.directory.names(NAMES_MAX).unwrap_or_default() {
                if let Some((kind, stem)) = kind_of(&name) {
                    look(&staging.directory, kind, &name, stem, expired, found);
                } else if trees::is_tree(&name) && staging.directory.remove_old_tree(&name, expired) {
                    found.expired += 1;
                }
            }
            // Fails if it is not empty.
            let _ = self.remove_directory(&staging.name);
        }
    }

    /// Removes the staging directories in this directory with the part files that are not being
    /// written, if they contain nothing else.
    pub(super) fn clear_staging(&self) {
        // More than a directory has of them. One that its owner may not list can hold nothing else that is known.
        let names = match self.names(4) {
            Ok(names) => names,
            Err(Errno::ACCESS) => Vec::new(),
            Err(_) => return,
        };
        if !names.iter().all(|name| is_reserved(name)) {
            return;
        }
        for staging in self.existing_staging() {
            let names = staging.directory.names(NAMES_MAX).unwrap_or_default();
            for name in names.iter().filter(|name| trees::is_tree(name)) {
                staging.directory.remove_old_tree(name, i64::MAX);
            }
            let of_kind = |name: &[u8], part: bool| {
                let kind = kind_of(name);
                kind.filter(|(kind, _)| (*kind == Leftover::Part) == part).map(|(_, stem)| stem.to_vec())
            };
            for name in names.iter().filter(|name| of_kind(name, true).is_some()) {
                remove_free(&staging.directory, name);
            }
            // Journals are not locked: each is removed after its part file.
            for (name, stem) in names.iter().filter_map(|name| Some((name, of_kind(name, false)?))) {
                if matches!(staging.directory.look(&[&stem, b".part".as_slice()].concat()), Ok(None)) {
                    let _ = staging.directory.remove(name);
                }
            }
            let _ = self.remove_directory(&staging.name);
        }
    }
}

/// Removes a part file that is not being written, under its lock: it cannot be resumed between the
/// check and the removal.
fn remove_free(parent: &Parent, name: &[u8]) {
    if let Ok(Some((file, stat))) = parent.open_own(name)
        && let Some(_held) = unless_held(file)
        && parent.is_still(name, &stat)
    {
        // A file that cannot be removed keeps the directory, whose removal then reports the error.
        let _ = parent.remove(name);
    }
}

/// Removes a part file of an earlier version that is old, is not being written, and has a journal
/// next to it.
fn remove_former(parent: &Parent, name: &[u8], stem: &[u8], expired: i64) -> bool {
    let journal = [stem, b".journal"].concat();
    let Ok(Some((file, part))) = parent.open_own(name) else { return false };
    let Ok(Some((notes, stat))) = parent.open_own(&journal) else { return false };
    let private = |mode: u32| mode & 0o7777 == 0o600;
    let old = part.st_mtime < expired && stat.st_mtime < expired;
    if !old || !private(part.st_mode) || !private(stat.st_mode) || !is_about(&notes, &part) {
        return false;
    }
    let Some(_held) = unless_held(file) else { return false };
    // The part first: a journal alone is worthless.
    let removed = parent.remove(name).is_ok();
    if removed {
        let _ = parent.remove(&journal);
    }
    removed
}

fn look(parent: &Parent, kind: Leftover, name: &[u8], stem: &[u8], expired: i64, found: &mut Recovered) {
    let Ok(Some((file, stat))) = parent.open_own(name) else { return };
    let old = stat.st_mtime < expired;
    let of = |suffix: &[u8]| [stem, suffix].concat();
    match kind {
        Leftover::Part => {
            let journal = parent.open_own(&of(b".journal")).ok().flatten();
            let fresher = journal.as_ref().is_some_and(|(_, stat)| stat.st_mtime >= expired);
            let bytes = journal.and_then(|(journal, _)| resumable(&journal, &stat));
            // Files that cannot be resumed are removed as soon as they are unlocked, or, without
            // locks, when they are old.
            let held = match (old && !fresher, bytes) {
                (true, _) => unless_held(file),
                (false, None) => held_by_nobody(file),
                (false, Some(_)) => None,
            };
            if let Some(_held) = held {
                // The part first: a journal alone is worthless.
                if parent.is_still(name, &stat) && parent.remove(name).is_ok() {
                    found.expired += u64::from(old);
                    let _ = parent.remove(&of(b".journal.new"));
                    let _ = parent.remove(&of(b".journal"));
                }
                return;
            }
            match bytes {
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
                found.expired += u64::from(old);
            }
        }
        Leftover::Fresh => {
            let part = parent.open_own(&of(b".part"));
            let written = part.is_ok_and(|part| part.is_some_and(|(part, _)| held_by_nobody(part).is_none()));
            if (old || !written) && parent.remove(name).is_ok() {
                found.expired += u64::from(old);
            }
        }
    }
}

/// The file, if it has no writer; also where there are no locks.
fn unless_held(file: OwnedFd) -> Option<LockedFile> {
    let is_held = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
    (!is_held).then(|| LockedFile::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_earlier_versions_gave_are_taken_for_theirs() {
        let hex = "0123456789abcdef0123456789abcdef";
        for (name, former) in [
            (format!(".data.{hex}.part"), true),
            (format!(".data.{hex}.journal"), false),
            (format!("data.{hex}.part"), false),
            (format!(".{hex}.part"), false),
            (format!(".data{hex}.part"), false),
            (format!(".data.{}g.part", &hex[1..]), false),
        ] {
            assert_eq!(former_part(name.as_bytes()).is_some(), former, "{name}");
        }
    }
}
