//! Messages about the session itself, which belong to no operation: more channels, the end of
//! service, leases that are recalled, names that have changed. They wait here for a free channel;
//! each is sent once, and nothing is confirmed.

use super::{Fault, Role, Session, SessionEvent};
use crate::limits;
use crate::notices::PendingNotices;
use crate::wire::control::{ChannelGrant, Control};
use crate::wire::notice::Notice;
use alloc::collections::VecDeque;

/// Handles that wait to be said in RECALL: as many leases as a busy mount has, in 32 KiB.
const RECALLS_WAITING: usize = 4096;

/// The messages about the session that are to be sent.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct SessionMessages {
    /// Grants for more channels. (Server.)
    grants: VecDeque<ChannelGrant>,
    /// A request for this many more channels. (Client.)
    wants: Option<u16>,
    /// DRAIN, with the milliseconds after which the client may try again. (Server.)
    drain: Option<u32>,
    /// Handles whose leases are recalled. (Server.)
    recalls: VecDeque<u64>,
    /// Changes of names that the client watches. (Server.)
    notices: PendingNotices,
}

impl SessionMessages {
    /// The service ends: it is said once, with the last time that was named.
    pub(super) fn drain(&mut self, retry_after_ms: u32) {
        self.drain = Some(retry_after_ms);
    }

    /// The next message, if there is one.
    pub(super) fn next(&mut self) -> Option<Control> {
        if let Some(grant) = self.grants.pop_front() {
            return Some(Control::Channels(grant));
        }
        if let Some(count) = self.wants.take() {
            return Some(Control::WantChannels(count));
        }
        if let Some(retry_after_ms) = self.drain.take() {
            return Some(Control::Drain { retry_after_ms });
        }
        if !self.recalls.is_empty() {
            let count = self.recalls.len().min(limits::RECALLS_MAX);
            return Some(Control::Recall { handles: self.recalls.drain(..count).collect() });
        }
        (!self.notices.is_empty()).then(|| Control::Notice { notices: self.notices.take(limits::NOTICES_MAX) })
    }

    fn want_channels(&mut self, count: u16) {
        // No message asks for more, however often it was wanted before one could go.
        self.wants = Some(self.wants.unwrap_or(0).saturating_add(count).min(limits::CHANNELS_HARD_MAX));
    }

    fn give_channels(&mut self, grant: ChannelGrant) {
        if self.grants.len() < usize::from(limits::PIPELINES_MAX) {
            self.grants.push_back(grant);
        }
    }

    fn recall(&mut self, handle: u64) {
        if self.recalls.len() < RECALLS_WAITING {
            self.recalls.push_back(handle);
        }
    }
}

impl Session {
    /// Requests more channels. (Client.)
    pub fn want_channels(&mut self, count: u16) {
        self.messages.want_channels(count);
    }

    /// Grants more channels. (Server.)
    pub fn give_channels(&mut self, grant: ChannelGrant) {
        self.messages.give_channels(grant);
    }

    /// Somebody waits for the end of the lease of this handle. It is said once: if that is lost, or
    /// too many are waiting to be said, the client learns it when it renews. (Server.)
    pub fn recall(&mut self, handle: u64) {
        self.messages.recall(handle);
    }

    /// Names that the client watches have changed. What it does not take yet is gathered. (Server.)
    pub fn notice(&mut self, notice: Notice) {
        self.messages.notices.add(notice);
    }

    /// It was told. (Client.)
    pub(super) fn on_told(&mut self, control: Control) -> Result<(), Fault> {
        self.from(Role::Server, control.event())?;
        match control {
            Control::Recall { handles } => self.event(SessionEvent::Recalled { handles }),
            Control::Notice { notices } => self.event(SessionEvent::Noticed { notices }),
            // Cannot be: the caller passes these two.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_asks_for_more_channels_than_one_may() {
        let mut messages = SessionMessages::default();
        (0..3).for_each(|_| messages.want_channels(limits::CHANNELS_HARD_MAX - 1));
        assert_eq!(messages.next(), Some(Control::WantChannels(limits::CHANNELS_HARD_MAX)));
        assert_eq!(messages.next(), None);
    }
}
