//! Directories between the walk and the requests in flight: each gets its mode and time when
//! nothing in it is missing any more.

use super::compare::TargetState;
use std::collections::BTreeMap;
use xdfs_proto::base::Timestamp;

/// Number of a directory in this copy.
pub(super) type DirectoryId = u64;

/// The directory of a name that is handled after everything else: its directory is finished.
pub(super) const FINISHED: DirectoryId = DirectoryId::MAX;

/// How a directory stands at the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Presence {
    /// It is to be made.
    Missing {
        /// Something else has its name and is removed before.
        in_its_way: bool,
        /// As in `Made`.
        odd_mode: bool,
    },
    /// This copy has made it: nothing in it has to be compared.
    Made {
        /// It may have another mode than it was asked for with: it was asked for more than once, and
        /// where that failed, one in it that was made with its parents may have given it another; or
        /// it was unlocked after it was made.
        odd_mode: bool,
    },
    /// It could not be made, so nothing in it can be.
    Failed,
    /// It was there.
    Existed,
    /// It was there, and its owner may not change its entries: it is unlocked before any is changed.
    Locked {
        /// The owner may not even list it.
        unlisted: bool,
    },
    /// It was locked, and gets its mode at the end.
    Unlocked,
}

impl Presence {
    /// Of a directory of the source whose name has this state at the target.
    pub(super) fn of(there: Option<TargetState>) -> Self {
        match there {
            Some(there) if there.is_locked() => Self::Locked { unlisted: false },
            Some(there) if there.is_directory() => Self::Existed,
            _ => Self::Missing { in_its_way: there == Some(TargetState::OtherKind), odd_mode: false },
        }
    }

    /// Of a directory of this machine that is there by now.
    pub(super) const fn local(made: bool, unlocked: bool) -> Self {
        match (made, unlocked) {
            (true, odd_mode) => Self::Made { odd_mode },
            (false, true) => Self::Unlocked,
            (false, false) => Self::Existed,
        }
    }

    /// Whether this copy has made it.
    pub(super) const fn is_new(self) -> bool {
        matches!(self, Self::Made { .. })
    }

    /// Whether entries of it may be changed, or a try to make that so has failed.
    pub(super) const fn is_ready(self) -> bool {
        match self {
            Self::Made { .. } | Self::Failed | Self::Existed | Self::Unlocked => true,
            Self::Missing { .. } | Self::Locked { .. } => false,
        }
    }

    /// Whether it may have another mode than it was, or is, asked for with.
    pub(super) const fn has_other_mode(self) -> bool {
        match self {
            Self::Missing { odd_mode, .. } | Self::Made { odd_mode } => odd_mode,
            Self::Unlocked => true,
            Self::Failed | Self::Existed | Self::Locked { .. } => false,
        }
    }

    /// The call that makes or unlocks it is sent again.
    const fn asked_again(self) -> Self {
        match self {
            Self::Missing { in_its_way, .. } => Self::Missing { in_its_way, odd_mode: true },
            Self::Made { .. } => Self::Made { odd_mode: true },
            Self::Failed | Self::Existed | Self::Locked { .. } | Self::Unlocked => self,
        }
    }
}

/// A directory of the target that is not complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Directory {
    /// Path below the top of the tree.
    pub(super) path: Vec<u8>,
    pub(super) parent: Option<DirectoryId>,
    /// Permission bits and modification time that it is to have.
    pub(super) mode: u32,
    pub(super) modified: Option<Timestamp>,
    /// Owner and group, where they are to be kept.
    pub(super) owner: Option<(u32, u32)>,
    pub(super) presence: Presence,
    /// What the other side has in it could not be listed.
    pub(super) unknown: bool,
    /// How many parts of it are unfinished: its own walk, its files and its subdirectories.
    open: u64,
    /// It accepts no new names.
    pub(super) closed: bool,
    /// Something in it failed or was changed, so its time is not automatically that of the source.
    pub(super) touched: bool,
}

/// Directories that still wait for entries; each gets its mode and time when the last one is done.
#[derive(Debug, Default)]
pub(super) struct Directories {
    all: BTreeMap<DirectoryId, Directory>,
    next: DirectoryId,
}

impl Directories {
    /// Adds a directory that is about to be walked.
    pub(super) fn enter(&mut self, directory: Directory) -> DirectoryId {
        if let Some(parent) = directory.parent {
            self.hold(parent);
        }
        let id = self.next;
        self.next += 1;
        self.all.insert(id, Directory { open: 1, ..directory });
        id
    }

    pub(super) fn get(&self, id: DirectoryId) -> Option<&Directory> {
        self.all.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: DirectoryId) -> Option<&mut Directory> {
        self.all.get_mut(&id)
    }

    /// Records that the owner of a locked directory cannot list it, either. False if that was known
    /// already or the directory is not locked.
    pub(super) fn is_unlisted(&mut self, id: DirectoryId) -> bool {
        match self.all.get_mut(&id).map(|directory| &mut directory.presence) {
            Some(Presence::Locked { unlisted }) => !std::mem::replace(unlisted, true),
            _ => false,
        }
    }

    /// The call that makes or unlocks a directory is sent again.
    pub(super) fn asked_again(&mut self, id: DirectoryId) {
        // A directory is known as long as anything waits for it.
        if let Some(directory) = self.all.get_mut(&id) {
            directory.presence = directory.presence.asked_again();
        }
    }

    /// Adds one unfinished part.
    pub(super) fn hold(&mut self, id: DirectoryId) {
        // As above: only what is in it adds a part.
        if let Some(directory) = self.all.get_mut(&id) {
            directory.open += 1;
        }
    }

    /// Removes one unfinished part. Returns the directory if that was the last; it then holds its
    /// parent only until it got its attributes ([`Self::leave`]).
    pub(super) fn settle(&mut self, id: DirectoryId) -> Option<DirectoryId> {
        let directory = self.all.get_mut(&id)?;
        directory.open = directory.open.saturating_sub(1);
        (directory.open == 0).then_some(id)
    }

    /// Forgets a complete directory; returns its parent if that is complete now.
    pub(super) fn leave(&mut self, id: DirectoryId) -> Option<DirectoryId> {
        let parent = self.all.remove(&id)?.parent?;
        self.settle(parent)
    }

    /// The directory and its ancestors that are not confirmed to exist, or are locked, outermost
    /// first.
    pub(super) fn missing(&self, id: DirectoryId) -> Vec<DirectoryId> {
        let mut chain = Vec::new();
        let mut at = Some(id);
        while let Some((id, directory)) = at.and_then(|id| Some((id, self.all.get(&id)?))) {
            match directory.presence {
                Presence::Missing { .. } => at = directory.parent,
                // It exists, and so do its ancestors.
                Presence::Locked { .. } => at = None,
                _ => break,
            }
            chain.push(id);
        }
        chain.reverse();
        chain
    }

    /// Whether no name can be made in it; this has been reported.
    pub(super) fn takes_nothing(&self, id: DirectoryId) -> bool {
        self.get(id).is_some_and(|directory| directory.closed) || self.is_lost(id)
    }

    /// Whether it or an ancestor could not be made.
    pub(super) fn is_lost(&self, id: DirectoryId) -> bool {
        let mut chain = std::iter::successors(self.get(id), |directory| self.get(directory.parent?));
        chain.any(|directory| directory.presence == Presence::Failed)
    }

    /// Directories that are not complete.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

impl Directory {
    /// One without a time or an owner, of the usual mode.
    pub(super) fn new(path: Vec<u8>, parent: Option<DirectoryId>, presence: Presence) -> Self {
        Self {
            path,
            parent,
            mode: 0o755,
            modified: None,
            owner: None,
            presence,
            unknown: false,
            open: 0,
            closed: false,
            touched: false,
        }
    }

    /// Calls that make or unlock it, and bytes of their paths.
    pub(super) fn making(&self) -> (usize, usize) {
        let in_its_way = matches!(self.presence, Presence::Missing { in_its_way: true, .. });
        let calls = 1 + usize::from(in_its_way);
        (calls, calls * self.path.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(path: &str, parent: Option<DirectoryId>) -> Directory {
        Directory::new(path.as_bytes().to_vec(), parent, Presence::of(None))
    }

    #[test]
    fn a_directory_is_complete_when_all_that_is_in_it_is() {
        let mut all = Directories::default();
        let top = all.enter(directory("", None));
        let inner = all.enter(directory("a", Some(top)));
        all.hold(inner);
        assert_eq!(all.settle(top), None, "the walk of the top");
        assert_eq!(all.settle(inner), None, "the walk of the inner one");
        assert_eq!(all.settle(inner), Some(inner), "its file");
        assert_eq!(all.leave(inner), Some(top));
        assert_eq!(all.leave(top), None);
        assert_eq!(all.len(), 0);
    }

    #[test]
    fn what_is_missing_is_told_outermost_first() {
        let mut all = Directories::default();
        let top = all.enter(directory("", None));
        let inner = all.enter(directory("a", Some(top)));
        let innermost = all.enter(directory("a/b", Some(inner)));
        assert_eq!(all.missing(innermost), [top, inner, innermost]);
        all.get_mut(top).unwrap().presence = Presence::local(true, false);
        assert_eq!(all.missing(innermost), [inner, innermost]);
        all.get_mut(innermost).unwrap().presence = Presence::local(true, false);
        assert_eq!(all.missing(innermost), [] as [DirectoryId; 0]);
    }
}
