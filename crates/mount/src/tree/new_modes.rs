//! Modes of what programs make: less their umask, or what the default access control list of the directory leaves instead,
//! as on a file system of this machine.

use super::Tree;
use crate::kernel::NewMode;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(super) const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";

/// Directories of which the list is known.
const KNOWN_MAX: usize = 4096;

/// Of a list in the kernel's form: a version, then entries of a tag, bits and an id.
const VERSION_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
const OWNER: u16 = 0x01;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

/// The bits of modes that the default lists of directories leave; none of a directory without one.
#[derive(Default, Debug)]
pub(super) struct DefaultLists(Mutex<Lists>);

#[derive(Default, Debug)]
struct Lists {
    known: BTreeMap<u64, (Option<u32>, Instant)>,
    /// How often this mount has changed any.
    changes: u64,
}

impl DefaultLists {
    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, directory: u64) -> Option<Option<u32>> {
        let known = self.lock().known.get(&directory).copied();
        known.filter(|(_, until)| Instant::now() < *until).map(|(bits, _)| bits)
    }

    fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Keeps what was asked for after so many changes, unless there were more.
    fn keep(&self, directory: u64, bits: Option<u32>, changes: u64, valid: Duration) {
        let (mut lists, now) = (self.lock(), Instant::now());
        if lists.changes != changes {
            return;
        }
        if lists.known.len() >= KNOWN_MAX {
            lists.known.retain(|_, (_, until)| now < *until);
        }
        if lists.known.len() >= KNOWN_MAX {
            // All of them are asked for again.
            lists.known.clear();
        }
        lists.known.insert(directory, (bits, now + valid));
    }

    /// A list was set or removed through this mount.
    pub(super) fn forget(&self, directory: u64) {
        let mut lists = self.lock();
        lists.known.remove(&directory);
        lists.changes += 1;
    }
}

/// What a default list leaves of a mode. A mask, if there is one, takes the place of the group's bits.
fn left_by(list: &[u8]) -> Option<u32> {
    let (entries, _) = list.get(VERSION_BYTES..)?.as_chunks::<ENTRY_BYTES>();
    let bits_of = |tag: u16| {
        let entry = entries.iter().find(|entry| u16::from_le_bytes([entry[0], entry[1]]) == tag)?;
        Some(u32::from(u16::from_le_bytes([entry[2], entry[3]])) & 7)
    };
    let group = bits_of(MASK).or_else(|| bits_of(GROUP))?;
    Some(0o7000 | bits_of(OWNER)? << 6 | group << 3 | bits_of(OTHERS)?)
}

impl Tree {
    /// The mode of what a program makes in a directory.
    pub(super) fn mode_in(&self, directory: u64, new: NewMode) -> Result<u32, Errno> {
        Ok(match self.default_list(directory)? {
            Some(left) => new.mode & (left | !0o7777),
            None => new.mode & !(new.umask & 0o777),
        })
    }

    fn default_list(&self, directory: u64) -> Result<Option<u32>, Errno> {
        if let Some(known) = self.known.default_lists.find(directory) {
            return Ok(known);
        }
        let changes = self.known.default_lists.changes();
        let bits = match self.xattr_value(directory, DEFAULT_LIST) {
            Ok(list) => left_by(&list),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => None,
            Err(errno) => return Err(errno),
        };
        self.known.default_lists.keep(directory, bits, changes, self.settings.valid);
        Ok(bits)
    }

    /// A directory that was made in another one has the list of that.
    pub(super) fn inherits_list(&self, directory: u64, parent: u64) {
        let changes = self.known.default_lists.changes();
        if let Some(bits) = self.known.default_lists.find(parent) {
            self.known.default_lists.keep(directory, bits, changes, self.settings.valid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16)]) -> Vec<u8> {
        let entry = |(tag, bits): &(u16, u16)| [tag.to_le_bytes(), bits.to_le_bytes(), [255; 2], [255; 2]].concat();
        [2_u32.to_le_bytes().to_vec(), entries.iter().flat_map(entry).collect()].concat()
    }

    #[test]
    fn a_list_leaves_the_bits_of_the_owner_of_the_mask_or_the_group_and_of_others() {
        assert_eq!(left_by(&list(&[(1, 7), (4, 5), (32, 1)])), Some(0o7751));
        assert_eq!(left_by(&list(&[(1, 6), (2, 7), (4, 7), (16, 3), (32, 0)])), Some(0o7630));
        for broken in [&b""[..], b"\x02\0\0\0", b"\x02\0\0\0\x01"] {
            assert_eq!(left_by(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn what_is_known_has_a_bound_and_a_time() {
        let known = DefaultLists::default();
        known.keep(1, Some(0o7700), 0, Duration::ZERO);
        assert_eq!(known.find(1), None);
        let keep = |directory| known.keep(directory, None, 0, Duration::from_secs(3600));
        (0..=KNOWN_MAX as u64).for_each(keep);
        assert_eq!(known.lock().known.len(), 1);
        assert_eq!(known.find(KNOWN_MAX as u64), Some(None));
        known.forget(7);
        keep(7);
        assert_eq!(known.find(7), None, "it was asked for before the change");
    }
}
