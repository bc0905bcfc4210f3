//! Staged trees: which path of an export is the staging directory of which tree, and for which user
//! (P-79).
//!
//! `EXPORT/.xdfs-staging/tree-<32 digits>` refers to it as long as the session that requested it
//! lives, only for its owner, and with the rights that the user has at the target. A tree that is
//! not listed here is reported as not found. Each keeps a descriptor, which counts as one of its
//! user's.

use crate::descriptor_slots::DescriptorSlot;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use xdfs_io::store::tree::TreePlace;
use xdfs_proto::base::RelPath;
use xdfs_secure::policy::Principal;

/// The name on the wire below which staged trees appear, as the first component of a path in an
/// export.
const TOP: &[u8] = b".xdfs-staging";
const PREFIX: &[u8] = b"tree-";

/// Staged trees of one session; beyond that the session loses access to the oldest.
const TREES_MAX: usize = 64;

/// The wire path of the tree with this id, below its export.
pub(crate) fn wire_path(id: [u8; 16]) -> Vec<u8> {
    let digits = format!("{:032x}", u128::from_be_bytes(id));
    [TOP, b"/", PREFIX, digits.as_bytes()].concat()
}

/// The id that a path below an export names, and what follows it.
pub(super) fn read(path: &RelPath) -> Option<([u8; 16], RelPath)> {
    let mut components = path.components();
    if components.next()? != TOP {
        return None;
    }
    let digits = components.next()?.strip_prefix(PREFIX)?;
    // Each tree has exactly one spelling.
    let plain = digits.len() == 32 && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let id = u128::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| plain)?, 16).ok()?;
    let mut rest = RelPath::default();
    for component in components {
        rest.push(component).ok()?;
    }
    Some((id.to_be_bytes(), rest))
}

/// One tree.
#[derive(Debug)]
pub(super) struct StagedTree {
    /// The session that requested it; the tree is dropped when this is gone.
    session: Weak<Principal>,
    /// Whose it is, as of part files: a user's, or that of the user's tokens.
    owner: Vec<u8>,
    export: String,
    pub(super) target: RelPath,
    /// The client's id of it.
    client: [u8; 16],
    pub(super) place: TreePlace,
    /// The descriptor that the place keeps.
    slot: Arc<DescriptorSlot>,
}

/// The list of staged trees. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct StagedTrees(Arc<Mutex<Vec<Arc<StagedTree>>>>);

impl StagedTrees {
    /// The list, without trees of ended sessions: a panicked holder of the lock must not block
    /// others.
    fn present(&self) -> MutexGuard<'_, Vec<Arc<StagedTree>>> {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|stage| stage.session.strong_count() > 0);
        list
    }

    /// Forgets the trees of ended sessions.
    pub(super) fn tidy(&self) {
        drop(self.present());
    }

    /// The slot of this tree, if `session` has it already.
    pub(super) fn slot_of(
        &self,
        session: &Arc<Principal>,
        export: &str,
        target: &RelPath,
        client: &[u8; 16],
    ) -> Option<Arc<DescriptorSlot>> {
        let session = Arc::downgrade(session);
        let list = self.present();
        let mut own = list.iter().filter(|stage| stage.session.ptr_eq(&session) && stage.export == export);
        Some(Arc::clone(&own.find(|stage| stage.target == *target && stage.client == *client)?.slot))
    }

    /// Registers the tree with this id of a client's, at `target`, for `session`.
    pub(super) fn note(
        &self,
        by: &Arc<Principal>,
        export: &str,
        (target, client): (&RelPath, &[u8; 16]),
        place: TreePlace,
        slot: Arc<DescriptorSlot>,
    ) {
        let session = Arc::downgrade(by);
        let mut list = self.present();
        let same = |stage: &Arc<StagedTree>| stage.session.ptr_eq(&session);
        list.retain(|stage| !same(stage) || stage.place.id != place.id || stage.export != export);
        if list.iter().filter(|stage| same(stage)).count() >= TREES_MAX
            && let Some(oldest) = list.iter().position(same)
        {
            list.remove(oldest);
        }
        let (owner, export, target) = (by.part_owner(), export.to_owned(), target.clone());
        list.push(Arc::new(StagedTree { session, owner, export, target, client: *client, place, slot }));
    }

    /// The tree of this id in an export, if it is one of `who`.
    pub(super) fn of(&self, who: &Principal, export: &str, id: [u8; 16]) -> Option<Arc<StagedTree>> {
        let (list, owner) = (self.present(), who.part_owner());
        list.iter().find(|stage| stage.place.id == id && stage.owner == owner && stage.export == export).cloned()
    }

    /// The tree was published under its name.
    pub(super) fn forget(&self, owner: &[u8], export: &str, target: &RelPath) {
        self.present().retain(|stage| stage.owner != owner || stage.export != export || stage.target != *target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_tree_in_one_spelling() {
        let path = |text: &str| RelPath::parse(text.as_bytes()).unwrap();
        let id = [0x0a; 16];
        let text = String::from_utf8(wire_path(id)).unwrap();
        assert_eq!(read(&path(&text)), Some((id, RelPath::default())));
        assert_eq!(read(&path(&format!("{text}/a/b"))), Some((id, path("a/b"))));
        for other in [
            text.to_uppercase(),
            text.replace(".xdfs-staging", ".xdfs-staging-0"),
            text.replace("tree-", "tree-+"),
            text.replace("0a", "0A"),
            format!("{text}0"),
            format!("a/{text}"),
            ".xdfs-staging".to_owned(),
        ] {
            assert_eq!(read(&path(&other)), None, "{other}");
        }
        assert!(text.len() <= xdfs_proto::limits::STAGE_PATH_BYTES_MAX);
    }
}
