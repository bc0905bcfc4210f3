//! The inodes that the kernel knows, and the names that lead to them.
//!
//! An inode has a number, an identity that the server told, and names: a directory one, a file one
//! for each hard link that was looked up. A path is put together from the names on the way to it, so
//! renaming a directory moves everything below it. An inode is kept while the kernel has looked it up
//! and not forgotten it, while a file of it is open, and while another inode is below it: the kernel
//! bounds the table.

use std::collections::BTreeMap;
use std::time::Instant;

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
    names: Names,
    /// How often the kernel was told of it, and until when it may use a name without asking.
    lookups: u64,
    told_until: Option<Instant>,
    /// Names below it.
    children: usize,
    /// Files of it that are open.
    opened: usize,
}

/// The names of an inode.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Names {
    /// The last one is the latest that was seen; none if it was removed.
    Seen(Vec<Name>),
    /// Its last known name was removed while it was open.
    Hidden {
        /// The one that it has until it is closed, which nobody else sees; none if that was removed.
        name: Option<Name>,
        /// Further hard links that were looked up since.
        seen: Vec<Name>,
    },
}

impl Names {
    /// The latest one is the last.
    fn iter(&self) -> impl DoubleEndedIterator<Item = &Name> {
        let (seen, hidden) = match self {
            Self::Seen(seen) => (seen, None),
            Self::Hidden { name, seen } => (seen, name.as_ref()),
        };
        seen.iter().chain(hidden)
    }

    fn last(&self) -> Option<&Name> {
        self.iter().next_back()
    }

    const fn seen(&mut self) -> &mut Vec<Name> {
        match self {
            Self::Seen(seen) | Self::Hidden { seen, .. } => seen,
        }
    }

    /// One that it has was seen once more.
    fn seen_again(&mut self, at: &Name) {
        let seen = self.seen();
        if let Some(index) = seen.iter().position(|name| name == at) {
            seen[index..].rotate_left(1);
        }
    }

    fn remove(&mut self, at: &Name) {
        if let Self::Hidden { name, .. } = self {
            name.take_if(|name| name == at);
        }
        self.seen().retain(|name| name != at);
    }

    /// One that it has becomes another one, which is the latest.
    fn rename(&mut self, from: &Name, to: Name) {
        match self {
            Self::Hidden { name, .. } if name.as_ref() == Some(from) => *name = Some(to),
            Self::Seen(seen) | Self::Hidden { seen, .. } => {
                seen.retain(|name| name != from);
                seen.push(to);
            }
        }
    }
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

impl Inode {
    /// Nobody was told of it.
    const fn new(identity: Identity, directory: bool) -> Self {
        let names = Names::Seen(Vec::new());
        Self { identity, directory, names, lookups: 0, told_until: None, children: 0, opened: 0 }
    }
}

impl Inodes {
    /// The mounted directory alone.
    pub(crate) fn new(identity: Identity) -> Self {
        let root = Inode { lookups: 1, ..Inode::new(identity, true) };
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
            inode.names.seen_again(&at);
        }
        Some(id)
    }

    /// The kernel may use the names that it was told of until then.
    pub(crate) fn told(&mut self, id: u64, until: Instant) {
        self.inodes.get_mut(&id).into_iter().for_each(|inode| inode.told_until = Some(until));
    }

    /// Whether the kernel may still use the name, and has another reason to ask: a program wants to make it, say.
    pub(crate) fn is_told(&self, parent: u64, name: &[u8], now: Instant) -> bool {
        let inode = self.named(parent, name).and_then(|id| self.inodes.get(&id));
        inode.is_some_and(|inode| inode.lookups > 0 && inode.told_until.is_some_and(|until| now < until))
    }

    /// Something new has this identity. What had it before is gone, also if the answer that tells so has
    /// not come yet: the kernel would take the two for one.
    pub(crate) fn made(&mut self, identity: Identity) {
        if let Some(id) = self.identities.remove(&identity) {
            self.detach_all(id);
        }
    }

    /// Whether the file is known, and not by this name. A listing may be older than a rename.
    pub(crate) fn is_known_otherwise(&self, parent: u64, name: &[u8], identity: Identity) -> bool {
        self.identities.get(&identity).is_some_and(|id| self.named(parent, name) != Some(*id))
    }

    fn insert(&mut self, identity: Identity, directory: bool) -> u64 {
        let id = self.next;
        self.next += 1;
        self.inodes.insert(id, Inode::new(identity, directory));
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
        if self.claim(&at, id)
            && let Some(inode) = self.inodes.get_mut(&id)
        {
            inode.names.seen().push(at);
        }
    }

    /// The name leads to this inode, which has to note that it has it; false if one of them is not known.
    fn claim(&mut self, at: &Name, id: u64) -> bool {
        if !self.inodes.contains_key(&id) {
            return false;
        }
        if let Some(before) = self.names.get(at).copied() {
            self.detach(at, before);
        }
        let Some(parent) = self.inodes.get_mut(&at.0).filter(|inode| inode.directory) else { return false };
        parent.children += 1;
        self.names.insert(at.clone(), id);
        true
    }

    fn detach(&mut self, at: &Name, id: u64) {
        if self.names.remove(at).is_none() {
            return;
        }
        if let Some(inode) = self.inodes.get_mut(&id) {
            inode.names.remove(at);
        }
        if let Some(parent) = self.inodes.get_mut(&at.0) {
            parent.children -= 1;
        }
        self.drop_unused(id);
        self.drop_unused(at.0);
    }

    fn detach_all(&mut self, id: u64) {
        while let Some(at) = self.inodes.get(&id).and_then(|inode| inode.names.iter().next().cloned()) {
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
            for at in inode.names.iter() {
                self.names.remove(at);
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
        if inode.opened == 0 && matches!(inode.names, Names::Hidden { .. }) {
            return self.end_hidden(id);
        }
        self.drop_unused(id);
        None
    }

    /// Nobody has a hidden file open: the path to remove. Other names that were seen stay.
    fn end_hidden(&mut self, id: u64) -> Option<Vec<u8>> {
        let Names::Hidden { name, seen } = &mut self.inodes.get_mut(&id)?.names else { return None };
        let (hidden, seen) = (name.take(), std::mem::take(seen));
        let path = hidden.as_ref().and_then(|(parent, name)| self.path_in(*parent, name));
        self.inodes.get_mut(&id)?.names = Names::Seen(seen);
        if let Some(hidden) = hidden {
            self.detach(&hidden, id);
        }
        self.forget_identity(id);
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

    /// The latest name of an inode.
    pub(crate) fn latest_name(&self, id: u64) -> Option<(u64, Vec<u8>)> {
        self.inodes.get(&id)?.names.last().cloned()
    }

    /// The directory of the latest name of an inode.
    pub(crate) fn parent(&self, id: u64) -> Option<u64> {
        self.inodes.get(&id)?.names.last().map(|(parent, _)| *parent)
    }

    /// Inodes of a directory with their paths, those behind this one first, then those before it: at most so many of those that
    /// are wanted.
    pub(crate) fn around(&self, id: u64, most: usize, wanted: impl Fn(u64) -> bool) -> Vec<(u64, Vec<u8>)> {
        let Some(at) = self.inodes.get(&id).and_then(|inode| inode.names.last()) else { return Vec::new() };
        let behind = self.names.range(at.clone()..).take_while(|((parent, _), _)| *parent == at.0);
        let before = self.names.range((at.0, Vec::new())..at.clone());
        let wanted = behind.chain(before).filter(|(_, id)| wanted(**id)).take(most);
        wanted.filter_map(|((parent, name), id)| Some((*id, self.path_in(*parent, name)?))).collect()
    }

    pub(crate) fn is_directory(&self, id: u64) -> bool {
        self.inodes.get(&id).is_some_and(|inode| inode.directory)
    }

    /// Whether this name is the last one that is known of a file that is open.
    pub(crate) fn is_last_name_of_open(&self, parent: u64, name: &[u8]) -> Option<u64> {
        let id = self.named(parent, name)?;
        let inode = self.inodes.get(&id)?;
        (inode.opened > 0 && !inode.directory && inode.names.iter().count() == 1).then_some(id)
    }

    pub(crate) fn identity(&self, id: u64) -> Option<Identity> {
        self.inodes.get(&id).map(|inode| inode.identity)
    }

    /// Whether it was unlinked, and lives on under a hidden name.
    pub(crate) fn is_hidden(&self, id: u64) -> bool {
        self.inodes.get(&id).is_some_and(|inode| matches!(inode.names, Names::Hidden { .. }))
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
            && inode.names.last().is_none()
            && self.identities.get(&inode.identity) == Some(&id)
        {
            self.identities.remove(&inode.identity);
        }
    }

    /// The name was removed, and the file has this hidden one in `parent` now. If it was closed meanwhile,
    /// the path to remove.
    #[must_use]
    pub(crate) fn hid(&mut self, parent: u64, name: &[u8], hidden: &[u8]) -> Option<Vec<u8>> {
        let id = self.named(parent, name)?;
        let at = (parent, hidden.to_vec());
        // First the new name: without any it might go.
        let hidden = self.claim(&at, id).then_some(at);
        let names = &mut self.inodes.get_mut(&id)?.names;
        *names = Names::Hidden { name: hidden, seen: std::mem::take(names.seen()) };
        self.detach(&(parent, name.to_vec()), id);
        let inode = self.inodes.get_mut(&id)?;
        if inode.opened == 0 { self.end_hidden(id) } else { None }
    }

    /// The names of a directory that are known, and what they lead to.
    pub(crate) fn names_in(&self, directory: u64) -> Vec<(Vec<u8>, u64)> {
        let within = self.names.range((directory, Vec::new())..(directory + 1, Vec::new()));
        within.map(|((_, name), id)| (name.clone(), *id)).collect()
    }

    /// The hidden files of a directory, with their names.
    pub(crate) fn hidden_in(&self, directory: u64) -> Vec<(u64, Vec<u8>)> {
        let within = self.names.range((directory, Vec::new())..(directory + 1, Vec::new()));
        let hidden = within.filter(|(at, id)| {
            let names = self.inodes.get(id).map(|inode| &inode.names);
            matches!(names, Some(Names::Hidden { name: Some(name), .. }) if name == *at)
        });
        hidden.map(|((_, name), id)| (*id, name.clone())).collect()
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
            let (from, to) = ((from.0, from.1.to_vec()), (to.0, to.1.to_vec()));
            if self.claim(&to, id)
                && let Some(inode) = self.inodes.get_mut(&id)
            {
                inode.names.rename(&from, to);
            }
            self.detach(&from, id);
        }
    }

    /// The open files at or below `id`.
    pub(crate) fn is_below(&self, id: u64, top: u64) -> bool {
        self.is_above(top, id)
    }
}

#[cfg(test)]
mod tests;
