//! How much is kept of interrupted transfers: so many part files and bytes of one owner, the oldest removed first.

use super::journal::JournalSubject;
use super::parts::{NAMES_MAX, read};
use super::staging::{PartNames, Staged};
use crate::store::resolve::leftovers::{is_held_by_nobody, is_still};

/// Bounds of what is kept for each owner in one staging directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptLimits {
    /// Part files.
    pub parts: usize,
    /// Bytes that they take.
    pub bytes: u64,
}

impl Default for KeptLimits {
    fn default() -> Self {
        // Two sessions with all the operations that they may have under way; and what a fast disk takes in ten minutes, so that one user's interrupted
        // transfers leave room for others.
        Self { parts: 256, bytes: 1 << 40 }
    }
}

/// A part file that is kept.
struct KeptPart {
    names: PartNames,
    bytes: u64,
    modified: (i64, i64),
}

/// Removes the oldest part files of the owner of `own`, which is kept, until the bounds hold. What somebody writes stays and is not
/// counted, and so does `own`.
pub(super) fn bound(own: &Staged, about: &JournalSubject, limits: KeptLimits) {
    let directory = own.directory();
    let mut kept = Vec::new();
    for name in directory.names(NAMES_MAX).unwrap_or_default() {
        let Some(names) = PartNames::of_part(&name).filter(|names| *names != own.names) else { continue };
        let Ok(Some((file, stat))) = directory.open_own(&names.part) else { continue };
        let journal =
            directory.open_own(&names.journal).ok().flatten().and_then(|(file, _)| read(&file).ok().flatten());
        if journal.is_some_and(|journal| journal.about.owner == about.owner) && is_held_by_nobody(&file) {
            let bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
            kept.push(KeptPart { names, bytes, modified: (stat.st_mtime, stat.st_mtime_nsec as i64) });
        }
    }
    kept.sort_by_key(|part| part.modified);
    let own_bytes = directory.look(&own.names.part).ok().flatten();
    let own_bytes = own_bytes.map_or(0, |stat| u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512));
    let mut bytes = kept.iter().map(|part| part.bytes).fold(own_bytes, u64::saturating_add);
    let mut parts = kept.len() + 1;
    for part in kept {
        if parts <= limits.parts && bytes <= limits.bytes {
            return;
        }
        // Somebody may have gone on with it meanwhile; who holds it here keeps others from that until it is gone.
        let Ok(Some((file, stat))) = directory.open_own(&part.names.part) else { continue };
        if is_held_by_nobody(&file) && is_still(directory, &part.names.part, &stat) {
            let _ = directory.remove(&part.names.part);
            let _ = directory.remove(&part.names.journal);
        }
        (parts, bytes) = (parts - 1, bytes.saturating_sub(part.bytes));
    }
}
