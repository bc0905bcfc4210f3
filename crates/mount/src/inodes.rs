//! The inodes that the kernel knows, and the names that lead to them.
//!
//! An inode has a number, an identity that the server told, and names: a directory one, a file one
//! for each hard link that was looked up. A path is put together from the names on the way to it, so
//! renaming a directory moves everything below it. An inode is kept while the kernel has looked it up
//! and not forgotten it, while a file of it is open, and while another inode is below it: the kernel
//! bounds the table.

use std::collections::BTreeMap;

/// The number of the directory that is mounted.
pub(crate) const ROOT: u64 = 1;

/// Most names on the way to an inode; no path is longer (4096 bytes, two a component).
const DEPTH_MAX: usize = 2048;

/// Which file it is, as the server tells.
pub(crate) type Identity = [u8; 16];

/// A directory and a name in it.
type Name = (u64, Vec<u8>);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Inode {
    identity: Identity,
    directory: bool,
    /// The last one is the latest that was seen; none if it was removed.
    names: Vec<Name>,
    /// How often the kernel was told of it.
    lookups: u64,
    /// Names below it.
    children: usize,
    /// Files of it that are open.
    opened: usize,
    /// Its only name is one that nobody else sees.
    hidden: bool,
}

/// What a name leads to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Found {
    pub(crate) identity: Identity,
    pub(crate) directory: bool,
    /// There is no other name: a directory has none, nor a file without further hard links.
    pub(crate) only_name: bool,
}

/// The table.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Inodes {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<Name, u64>,
    identities: BTreeMap<Identity, u64>,
    next: u64,
}

impl Inodes {
    /// The mounted directory alone.
    pub(crate) fn new(identity: Identity) -> Self {
        let root =
            Inode { identity, directory: true, names: Vec::new(), lookups: 1, children: 0, opened: 0, hidden: false };
        Self {
            inodes: BTreeMap::from([(ROOT, root)]),
            names: BTreeMap::new(),
            identities: BTreeMap::from([(identity, ROOT)]),
            next: ROOT + 1,
        }
    }

    /// Inodes in it.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.inodes.len()
    }

    /// The kernel is told that `name` in `parent` leads to this file; its inode. None if the parent is
    /// no directory that is known.
    pub(crate) fn look_up(&mut self, parent: u64, name: &[u8], found: Found) -> Option<u64> {
        let Found { identity, directory, only_name } = found;
        self.inodes.get(&parent).filter(|inode| inode.directory)?;
        let at = (parent, name.to_vec());
        let known = self.identities.get(&identity).copied();
        let known = known.filter(|id| self.inodes.get(id).is_some_and(|inode| inode.directory == directory));
        if let Some(id) = self.names.get(&at).copied()
            && known != Some(id)
        {
            // Somebody else gave the name to another file.
            self.detach(&at, id);
        }
        // A directory that contains itself: the mounted one is below a name of its own, or moves cross.
        let id = match known.filter(|id| !(directory && self.is_above(*id, parent))) {
            Some(id) => id,
            None => self.insert(identity, directory),
        };
        // Before a name is taken away, which may be what keeps it.
        self.inodes.get_mut(&id)?.lookups += 1;
        if self.names.get(&at) != Some(&id) {
            if only_name {
                // It was moved by somebody else.
                self.detach_all(id);
            }
            self.attach(at, id);
        } else if let Some(inode) = self.inodes.get_mut(&id) {
            inode.names.retain(|name| *name != at);
            inode.names.push(at);
        }
        Some(id)
    }

    /// Whether the file is known, and not by this name. A listing may be older than a rename.
    pub(crate) fn is_known_otherwise(&self, parent: u64, name: &[u8], identity: Identity) -> bool {
        self.identities.get(&identity).is_some_and(|id| self.named(parent, name) != Some(*id))
    }

    fn insert(&mut self, identity: Identity, directory: bool) -> u64 {
        let id = self.next;
        self.next += 1;
        let names = Vec::new();
        let inode = Inode { identity, directory, names, lookups: 0, children: 0, opened: 0, hidden: false };
        self.inodes.insert(id, inode);
        self.identities.insert(identity, id);
        id
    }

    fn is_above(&self, id: u64, mut below: u64) -> bool {
        for _ in 0..DEPTH_MAX {
            if below == id {
                return true;
            }
            match self.inodes.get(&below).and_then(|inode| inode.names.last()) {
                Some((parent, _)) => below = *parent,
                None => return false,
            }
        }
        true
    }

    fn attach(&mut self, at: Name, id: u64) {
        if !self.inodes.contains_key(&id) {
            return;
        }
        if let Some(before) = self.names.get(&at).copied() {
            self.detach(&at, before);
        }
        let Some(parent) = self.inodes.get_mut(&at.0).filter(|inode| inode.directory) else { return };
        parent.children += 1;
        if let Some(inode) = self.inodes.get_mut(&id) {
            inode.names.push(at.clone());
            inode.hidden = false;
        }
        self.names.insert(at, id);
    }

    fn detach(&mut self, at: &Name, id: u64) {
        if self.names.remove(at).is_none() {
            return;
        }
        if let Some(inode) = self.inodes.get_mut(&id) {
            inode.names.retain(|name| name != at);
        }
        if let Some(parent) = self.inodes.get_mut(&at.0) {
            parent.children -= 1;
        }
        self.drop_unused(id);
        self.drop_unused(at.0);
    }

    fn detach_all(&mut self, id: u64) {
        while let Some(at) = self.inodes.get(&id).and_then(|inode| inode.names.first().cloned()) {
            self.detach(&at, id);
        }
    }

    /// Removes what nobody needs: the inode, and then perhaps the directories above it.
    fn drop_unused(&mut self, id: u64) {
        let mut waiting = vec![id];
        while let Some(id) = waiting.pop() {
            let unused = |inode: &Inode| inode.lookups == 0 && inode.children == 0 && inode.opened == 0;
            if id == ROOT || !self.inodes.get(&id).is_some_and(unused) {
                continue;
            }
            let Some(inode) = self.inodes.remove(&id) else { continue };
            if self.identities.get(&inode.identity) == Some(&id) {
                self.identities.remove(&inode.identity);
            }
            for at in inode.names {
                self.names.remove(&at);
                if let Some(parent) = self.inodes.get_mut(&at.0) {
                    parent.children -= 1;
                }
                waiting.push(at.0);
            }
        }
    }

    /// The kernel forgets as many look-ups.
    pub(crate) fn forget(&mut self, id: u64, count: u64) {
        if let Some(inode) = self.inodes.get_mut(&id) {
            inode.lookups = inode.lookups.saturating_sub(count);
            self.drop_unused(id);
        }
    }

    /// A file of it was opened.
    pub(crate) fn open(&mut self, id: u64) {
        if let Some(inode) = self.inodes.get_mut(&id) {
            inode.opened += 1;
        }
    }

    /// A file of it was closed; if it was the last one of a hidden file, the path to remove.
    pub(crate) fn close(&mut self, id: u64) -> Option<Vec<u8>> {
        let inode = self.inodes.get_mut(&id)?;
        inode.opened = inode.opened.saturating_sub(1);
        let hidden = inode.hidden && inode.opened == 0;
        let path = if hidden { self.path(id) } else { None };
        if hidden {
            self.detach_all(id);
        }
        self.drop_unused(id);
        path
    }

    /// The path below the mounted directory; none if it was removed.
    pub(crate) fn path(&self, id: u64) -> Option<Vec<u8>> {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut at = id;
        while at != ROOT {
            let (parent, name) = self.inodes.get(&at)?.names.last()?;
            names.push(name);
            if names.len() > DEPTH_MAX {
                return None;
            }
            at = *parent;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    /// The path of `name` in `parent`.
    pub(crate) fn path_in(&self, parent: u64, name: &[u8]) -> Option<Vec<u8>> {
        let mut path = self.path(parent)?;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Some(path)
    }

    /// The inode that has this name.
    pub(crate) fn named(&self, parent: u64, name: &[u8]) -> Option<u64> {
        self.names.get(&(parent, name.to_vec())).copied()
    }

    /// Whether this name is the last one that is known of a file that is open.
    pub(crate) fn is_last_name_of_open(&self, parent: u64, name: &[u8]) -> Option<u64> {
        let id = self.named(parent, name)?;
        let inode = self.inodes.get(&id)?;
        (inode.opened > 0 && !inode.directory && inode.names.len() == 1).then_some(id)
    }

    pub(crate) fn identity(&self, id: u64) -> Option<Identity> {
        self.inodes.get(&id).map(|inode| inode.identity)
    }

    /// Whether it was unlinked, and lives on under a hidden name.
    pub(crate) fn is_hidden(&self, id: u64) -> bool {
        self.inodes.get(&id).is_some_and(|inode| inode.hidden)
    }

    /// The name was removed.
    pub(crate) fn unlinked(&mut self, parent: u64, name: &[u8]) {
        if let Some(id) = self.named(parent, name) {
            self.detach(&(parent, name.to_vec()), id);
            self.forget_identity(id);
        }
    }

    /// What has no name is not found by its identity: the server may give that to another file.
    fn forget_identity(&mut self, id: u64) {
        if let Some(inode) = self.inodes.get(&id)
            && inode.names.is_empty()
            && self.identities.get(&inode.identity) == Some(&id)
        {
            self.identities.remove(&inode.identity);
        }
    }

    /// The name was removed, and the file has this hidden one in `parent` now.
    pub(crate) fn hid(&mut self, parent: u64, name: &[u8], hidden: &[u8]) {
        if let Some(id) = self.named(parent, name) {
            // First the new name: without any it might go.
            self.attach((parent, hidden.to_vec()), id);
            self.detach(&(parent, name.to_vec()), id);
            if let Some(inode) = self.inodes.get_mut(&id) {
                inode.hidden = true;
            }
        }
    }

    /// The file or directory has another name, and what had that is gone.
    pub(crate) fn renamed(&mut self, from: (u64, &[u8]), to: (u64, &[u8])) {
        let moved = self.named(from.0, from.1);
        if moved.is_some() && moved == self.named(to.0, to.1) {
            // Two names of one file: rename does nothing.
            return;
        }
        self.unlinked(to.0, to.1);
        // No server moves a directory below itself.
        if let Some(id) = moved.filter(|id| !self.is_above(*id, to.0)) {
            self.attach((to.0, to.1.to_vec()), id);
            self.detach(&(from.0, from.1.to_vec()), id);
        }
    }

    /// The open files at or below `id`.
    pub(crate) fn is_below(&self, id: u64, top: u64) -> bool {
        self.is_above(top, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn identity(of: u8) -> Identity {
        [of; 16]
    }

    fn table() -> Inodes {
        Inodes::new(identity(0))
    }

    fn a_directory(of: u8) -> Found {
        Found { identity: identity(of), directory: true, only_name: true }
    }

    /// One of several names of a file.
    fn a_link(of: u8) -> Found {
        Found { identity: identity(of), directory: false, only_name: false }
    }

    fn a_file(of: u8) -> Found {
        Found { only_name: true, ..a_link(of) }
    }

    #[test]
    fn a_renamed_directory_moves_everything_below_it() {
        let mut table = table();
        let one = table.look_up(ROOT, b"one", a_directory(1)).unwrap();
        let two = table.look_up(one, b"two", a_directory(2)).unwrap();
        let file = table.look_up(two, b"file", a_file(3)).unwrap();
        let other = table.look_up(ROOT, b"other", a_directory(4)).unwrap();
        assert_eq!(table.path(file).as_deref(), Some(&b"one/two/file"[..]));
        table.renamed((one, b"two"), (other, b"moved"));
        assert_eq!(table.path(file).as_deref(), Some(&b"other/moved/file"[..]));
        assert!(table.is_below(file, other) && !table.is_below(file, one));
    }

    #[test]
    fn an_inode_goes_when_nothing_needs_it_and_its_parents_with_it() {
        let mut table = table();
        let directory = table.look_up(ROOT, b"d", a_directory(1)).unwrap();
        let file = table.look_up(directory, b"f", a_file(2)).unwrap();
        assert_eq!(table.look_up(directory, b"f", a_file(2)), Some(file));
        table.forget(directory, 1);
        assert_eq!(table.path(file).as_deref(), Some(&b"d/f"[..]), "its file is still known");
        table.open(file);
        table.forget(file, 2);
        assert_eq!(table.len(), 3, "it is open");
        assert_eq!(table.close(file), None);
        assert_eq!(table.len(), 1);
        assert_eq!(table, Inodes { next: table.next, ..Inodes::new(identity(0)) });
    }

    #[test]
    fn hard_links_are_one_inode_and_either_name_leads_to_it() {
        let mut table = table();
        let file = table.look_up(ROOT, b"a", a_link(1)).unwrap();
        assert_eq!(table.look_up(ROOT, b"b", a_link(1)), Some(file));
        table.open(file);
        assert_eq!(table.is_last_name_of_open(ROOT, b"a"), None);
        table.unlinked(ROOT, b"a");
        assert_eq!(table.path(file).as_deref(), Some(&b"b"[..]));
        assert_eq!(table.is_last_name_of_open(ROOT, b"b"), Some(file));
    }

    #[test]
    fn a_hidden_file_is_removed_with_its_last_close() {
        let mut table = table();
        let file = table.look_up(ROOT, b"a", a_file(1)).unwrap();
        table.open(file);
        table.open(file);
        table.hid(ROOT, b"a", b".hidden");
        assert!(table.is_hidden(file));
        assert_eq!(table.named(ROOT, b"a"), None);
        assert_eq!(table.path(file).as_deref(), Some(&b".hidden"[..]));
        assert_eq!(table.close(file), None);
        assert_eq!(table.close(file).as_deref(), Some(&b".hidden"[..]));
        assert_eq!(table.path(file), None);
        table.forget(file, 1);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn another_file_under_a_known_name_is_another_inode() {
        let mut table = table();
        let old = table.look_up(ROOT, b"a", a_file(1)).unwrap();
        let new = table.look_up(ROOT, b"a", a_file(2)).unwrap();
        assert_ne!(old, new);
        assert_eq!(table.path(old), None);
        // The number of a removed file is given to the next one.
        table.unlinked(ROOT, b"a");
        let reused = table.look_up(ROOT, b"b", a_file(2)).unwrap();
        assert_ne!(reused, new);
    }

    #[test]
    fn a_directory_is_never_below_itself() {
        let mut table = table();
        let a = table.look_up(ROOT, b"a", a_directory(1)).unwrap();
        let b = table.look_up(a, b"b", a_directory(2)).unwrap();
        let again = table.look_up(b, b"c", a_directory(1)).unwrap();
        assert_ne!(again, a);
        assert_eq!(table.path(again).as_deref(), Some(&b"a/b/c"[..]));
        assert_eq!(table.path(b).as_deref(), Some(&b"a/b"[..]));
    }

    fn found(of: u8, pick: usize) -> Found {
        match (of % 2, pick % 2) {
            (0, _) => a_directory(of),
            (_, 0) => a_file(of),
            _ => a_link(of),
        }
    }

    #[test]
    fn a_file_that_somebody_else_renamed_is_found_by_its_latest_name() {
        for (found, names) in [(a_file(1), 1), (a_link(1), 2)] {
            let mut table = table();
            let moved = table.look_up(ROOT, b"log", found).unwrap();
            assert_eq!(table.look_up(ROOT, b"log.1", found), Some(moved));
            assert_eq!(table.path(moved).as_deref(), Some(&b"log.1"[..]));
            assert_eq!(table.inodes[&moved].names.len(), names);
            let new = table.look_up(ROOT, b"log", a_file(2)).unwrap();
            assert_eq!((table.path(moved), table.path(new)), (Some(b"log.1".to_vec()), Some(b"log".to_vec())));
            // Back again.
            assert_eq!(table.look_up(ROOT, b"log", found), Some(moved));
            assert_eq!(table.path(moved).as_deref(), Some(&b"log"[..]));
            assert_eq!(table.path(new), None);
        }
    }

    #[test]
    fn a_listing_that_is_older_than_a_rename_is_recognized() {
        let mut table = table();
        table.look_up(ROOT, b"old", a_file(1)).unwrap();
        table.renamed((ROOT, b"old"), (ROOT, b"new"));
        assert!(table.is_known_otherwise(ROOT, b"old", identity(1)));
        assert!(!table.is_known_otherwise(ROOT, b"new", identity(1)));
        assert!(!table.is_known_otherwise(ROOT, b"other", identity(2)), "it was never seen");
    }

    proptest! {
        /// Whatever happens, the two directions of the names agree, and when the kernel has forgotten
        /// everything nothing is left.
        #[test]
        fn the_table_agrees_with_itself_and_empties(
            steps in proptest::collection::vec((0_u8..7, 0_usize..6, 0_usize..6, 0_u8..4, 1_u8..6), 1..80)
        ) {
            let mut table = table();
            let (mut told, mut open): (Vec<u64>, Vec<u64>) = (vec![ROOT], Vec::new());
            for (what, one, two, name, of) in steps {
                let (at, to, name) = (told[one % told.len()], told[two % told.len()], [b'a' + name]);
                match what {
                    0 | 1 => told.extend(table.look_up(at, &name, found(of, two))),
                    2 if table.inodes.contains_key(&at) => (table.open(at), open.push(at)).1,
                    3 => table.renamed((at, &name), (to, b"n")),
                    4 => table.unlinked(at, &name),
                    5 if table.is_last_name_of_open(at, &name).is_some() => table.hid(at, &name, b".h"),
                    _ => drop(open.pop().map(|id| table.close(id))),
                }
                for (at, id) in &table.names {
                    prop_assert!(table.inodes[id].names.contains(at));
                    prop_assert!(table.inodes.contains_key(&at.0));
                }
                for (id, inode) in &table.inodes {
                    prop_assert!(inode.names.iter().all(|at| table.names.get(at) == Some(id)));
                    prop_assert_eq!(inode.children, table.names.keys().filter(|at| at.0 == *id).count());
                    let _ = table.path(*id);
                }
            }
            open.into_iter().for_each(|id| drop(table.close(id)));
            told.into_iter().skip(1).for_each(|id| table.forget(id, 1));
            prop_assert_eq!(table.len(), 1);
            prop_assert!(table.names.is_empty());
        }
    }
}
