//! Holds the limits on what is kept of interrupted transfers: a number of part files and bytes per
//! owner, the oldest removed first.

use super::journal::JournalSubject;
use super::parts::{KeptLimits, NAMES_MAX, read};
use super::staging::{PartLocation, PartNames, held_by_nobody};

/// A part file that is kept.
struct KeptPart {
    names: PartNames,
    bytes: u64,
    modified: (i64, i64),
}

/// Removes the oldest part files of the owner of `own` until the limits hold. `own` and files that
/// are being written are kept; the latter are not counted.
pub(super) fn bound(own: &PartLocation, about: &JournalSubject, limits: KeptLimits) {
    let directory = own.directory();
    let mut kept = Vec::new();
    for name in directory.names(NAMES_MAX).unwrap_or_default() {
        let Some(names) = PartNames::of_part(&name).filter(|names| *names != own.names) else { continue };
        let Ok(Some((file, stat))) = directory.open_own(&names.part) else { continue };
        let journal =
            directory.open_own(&names.journal).ok().flatten().and_then(|(file, _)| read(&file).ok().flatten());
        if journal.is_some_and(|journal| journal.about.owner == about.owner) && held_by_nobody(file).is_some() {
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
        // It may have been resumed meanwhile; while it is held here, no other session can resume it
        // before it is removed.
        let Ok(Some((file, stat))) = directory.open_own(&part.names.part) else { continue };
        let held = held_by_nobody(file);
        if held.is_some() && directory.is_still(&part.names.part, &stat) {
            let _ = directory.remove(&part.names.part);
            let _ = part.names.remove_journal(directory);
        }
        (parts, bytes) = (parts - 1, bytes.saturating_sub(part.bytes));
    }
}
