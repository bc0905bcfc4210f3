//! Trees that are published atomically: created where only paths of the session that began them
//! lead, and renamed when complete.
//!
//! A tree is in the staging directory **next to its target**, never in the one at the top: so it
//! has group, default access control list, project quota and file system of the directory that it
//! goes into, and the rename is atomic. Must not: replace anything.

use super::LocalStore;
use super::staging::{StagingDirectory, beside, no_staging, within};
use crate::store::errors::{self, Verb};
use crate::store::resolve::{Parent, trees};
use crate::store::tree::{TreeKey, TreePlace};
use crate::store::{Result, Store, descriptors};
use rustix::io::Errno;
use std::sync::Arc;
use xdfs_proto::base::{Error, ErrorKind, RelPath};

/// Maximum number of names of a staging directory that are checked for the limit: more than any
/// server keeps.
const NAMES_MAX: usize = 1 << 16;

/// The names of a tree until it is published.
struct Names {
    id: [u8; 16],
    holder: Vec<u8>,
}

impl LocalStore {
    fn names_of_tree(&self, key: &TreeKey<'_>) -> Result<Names> {
        let tags = self.parts.tags.as_ref();
        let tags =
            tags.ok_or_else(|| Error::new(ErrorKind::Unsupported, "this store has no key to name trees with"))?;
        let tag = tags.tag(&[b"tree", key.owner, key.target.as_bytes(), key.client]);
        let user = tags.tag(&[b"tree of", key.owner]);
        let (mut id, mut owner) = ([0; 16], [0; 8]);
        // A tag has 32 bytes.
        id.iter_mut().zip(tag).for_each(|(to, from)| *to = from);
        owner.iter_mut().zip(user).for_each(|(to, from)| *to = from);
        Ok(Names { id, holder: trees::name_of(id, owner) })
    }

    /// Creates, or finds, the staging directory of a tree for a target.
    pub(super) fn make_tree_place(&self, key: &TreeKey<'_>) -> Result<TreePlace> {
        let names = self.names_of_tree(key)?;
        let (parent, name) = self.changed_parent(Verb::Create, key.target)?;
        let failed = |errno| errors::failed(Verb::Create, &self.shown(key.target), errno);
        if parent.kind_of(name).map_err(failed)?.is_some() {
            return Err(failed(Errno::EXIST));
        }
        let parent = Arc::new(parent);
        let opened = within(|| beside(&parent), |staging: &Parent| staging.hold_staged_tree(&names.holder, true));
        let (staging, (_, lock)) = opened.map_err(|why| no_staging(&self.shown(key.target), why))?;
        // It stays open as long as the session has the tree.
        descriptors::must_be_below_line(&lock, Verb::Create, &self.shown(key.target))?;
        bound(&staging, &names.holder, self.parts.kept_limits.parts);
        let mut holder = key.target.parent().unwrap_or_default();
        let mut top = Err(());
        if holder.push(staging.name()).is_ok() && holder.push(&names.holder).is_ok() {
            let mut path = holder.clone();
            top = path.push(trees::TOP).map(|_| path).map_err(drop);
        }
        let top = top.map_err(|()| failed(Errno::NAMETOOLONG))?;
        Ok(TreePlace { id: names.id, holder, top, lock: Arc::new(lock) })
    }

    /// The store of the files in one such directory, and of nothing else.
    pub(super) fn in_tree_place(&self, holder: &RelPath) -> Arc<dyn Store> {
        Arc::new(Self { root: Arc::new(self.root.inside(holder.clone())), ..self.clone() })
    }

    /// Renames a tree to its target, which must not exist.
    pub(super) fn publish_tree_at(&self, key: &TreeKey<'_>) -> Result<()> {
        let names = self.names_of_tree(key)?;
        let changing = self.fresh.changing(key.target);
        let (parent, name) = self.changed_parent(Verb::Create, key.target)?;
        let parent = Arc::new(parent);
        let failed = |errno| errors::failed(Verb::Create, &self.shown(key.target), errno);
        for open in parent.existing_staging() {
            let staging = StagingDirectory::new(&parent, open);
            let held = staging.directory().hold_staged_tree(&names.holder, false);
            let (holder, lock) = match held {
                Err(Errno::NOENT) => continue,
                held => held.map_err(failed)?,
            };
            match holder.publish_tree(&parent, name) {
                // A server that was killed after the rename left the directory empty.
                Err(Errno::NOENT) => {}
                outcome => {
                    outcome.map_err(failed)?;
                    changing.moved();
                    drop(lock);
                    let _ = staging.directory().remove_directory(&names.holder);
                    return Ok(());
                }
            }
            drop(lock);
            let _ = staging.directory().remove_directory(&names.holder);
        }
        Err(failed(Errno::NOENT))
    }
}

/// Removes the oldest unused trees of the owner of `own`, until there are no more than `most`,
/// including `own`.
fn bound(staging: &StagingDirectory, own: &[u8], most: usize) {
    let directory = staging.directory();
    let owner = trees::owner_in(own);
    let mut others: Vec<(i64, Vec<u8>)> = Vec::new();
    for name in directory.names(NAMES_MAX).unwrap_or_default() {
        if name == own || trees::owner_in(&name) != owner {
            continue;
        }
        let since = directory.look(&name).ok().flatten().map_or(0, |stat| stat.st_mtime);
        others.push((since, name));
    }
    others.sort();
    let surplus = (others.len() + 1).saturating_sub(most);
    for (_, name) in others.iter().take(surplus) {
        directory.remove_old_tree(name, i64::MAX);
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "sets the scene with a directory of its own")]
mod tests {
    use super::*;
    use crate::store::stored_range::JournalTags;
    use crate::store::tree::Tree as _;
    use std::os::unix::fs::PermissionsExt;

    #[derive(Debug)]
    struct Tags;

    impl JournalTags for Tags {
        fn tag(&self, parts: &[&[u8]]) -> [u8; 32] {
            let sum = parts.iter().flat_map(|part| part.iter()).fold(7_u8, |sum, byte| sum.wrapping_mul(31) ^ byte);
            [sum; 32]
        }
    }

    #[test]
    fn what_nobody_works_on_goes_by_age_however_deep_and_locked_it_is() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let store = LocalStore::open_root(folder, true).unwrap().with_journal_tags(Arc::new(Tags));
        let target = RelPath::parse(b"new").unwrap();
        let key = TreeKey { target: &target, owner: b"ada", client: &[1; 16] };
        let place = store.stage_tree(&key).unwrap();
        let inner = store.within_tree(&place.holder).unwrap();
        let mut deep = place.top.clone();
        for _ in 0..300 {
            inner.tree().unwrap().make_directory(&deep, 0o755, false).unwrap();
            deep.push(b"d").unwrap();
        }
        inner.tree().unwrap().make_symlink(&deep, b"/").unwrap();
        let top = folder.join(std::str::from_utf8(place.top.as_bytes()).unwrap());
        std::fs::set_permissions(&top, std::fs::Permissions::from_mode(0o500)).unwrap();
        assert!(store.node(&place.top).is_err(), "it is there for its own store alone");
        assert!(inner.tree().unwrap().node(&RelPath::parse(b"new").unwrap()).is_err(), "and that has nothing else");
        assert_eq!(store.recover(i64::MAX).expired, 0, "somebody works on it");
        drop(place);
        assert_eq!((store.recover(0).expired, top.exists()), (0, true), "it is young");
        assert_eq!(store.recover(i64::MAX).expired, 1);
        assert!(std::fs::read_dir(folder).unwrap().next().is_none());
    }
}
