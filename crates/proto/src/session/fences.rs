//! Channels that are lost, and which of them the peer has not been told of. It must not visit all of
//! them for a message: a peer reports thousands that never were.

use crate::base::ChannelId;
use crate::limits;
use alloc::collections::{BTreeMap, BTreeSet};

/// A lost channel: what was sent and received about it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Fence {
    /// Records of the peer that were processed here, in all epochs.
    pub(super) processed: u64,
    /// Records that this end had sent, in all epochs.
    pub(super) sent: u64,
    /// The peer's FENCE arrived.
    pub(super) heard: bool,
}

/// All of them. Each is either untold, or was told on a channel.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Fences {
    all: BTreeMap<ChannelId, Fence>,
    untold: BTreeSet<ChannelId>,
    /// The channel on which this end's FENCE was sent.
    told_on: BTreeMap<ChannelId, ChannelId>,
    /// How many of them are about channels that were never up here.
    unknown: u16,
}

impl Fences {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn get(&self, lost: ChannelId) -> Option<&Fence> {
        self.all.get(&lost)
    }

    pub(super) fn get_mut(&mut self, lost: ChannelId) -> Option<&mut Fence> {
        self.all.get_mut(&lost)
    }

    pub(super) fn contains(&self, lost: ChannelId) -> bool {
        self.all.contains_key(&lost)
    }

    /// The channel is lost, and the peer is to be told.
    pub(super) fn insert(&mut self, lost: ChannelId, fence: Fence) {
        self.all.insert(lost, fence);
        self.tell_again(lost);
    }

    /// The peer has lost a channel that was never up here, and waits to be told. Returns false if
    /// there were too many of these.
    #[must_use]
    pub(super) fn insert_unknown(&mut self, lost: ChannelId) -> bool {
        if self.unknown >= limits::FENCES_UNKNOWN_MAX {
            return false;
        }
        self.unknown += 1;
        self.insert(lost, Fence { processed: 0, sent: 0, heard: true });
        true
    }

    /// The peer is to be told once more.
    pub(super) fn tell_again(&mut self, lost: ChannelId) {
        self.told_on.remove(&lost);
        self.untold.insert(lost);
    }

    /// What was told on this channel may not have arrived.
    pub(super) fn tell_again_what_was_told_on(&mut self, channel: ChannelId) {
        let told = self.told_on.iter().filter(|(_, on)| **on == channel).map(|(lost, _)| *lost);
        let told: alloc::vec::Vec<_> = told.collect();
        told.into_iter().for_each(|lost| self.tell_again(lost));
    }

    pub(super) fn has_untold(&self) -> bool {
        !self.untold.is_empty()
    }

    /// The next one to tell, with the records that were processed here: told on `channel` from now on.
    pub(super) fn tell_next(&mut self, channel: ChannelId) -> Option<(ChannelId, u64)> {
        let lost = self.untold.pop_first()?;
        self.told_on.insert(lost, channel);
        let fence = self.all.get(&lost)?;
        Some((lost, fence.processed))
    }
}
