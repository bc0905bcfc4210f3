//! What a server tells a client without being asked: leases that are recalled, names that have changed.
//! Neither is an operation, and nothing is confirmed.

use super::{Fault, Role, Session, SessionEvent};
use crate::limits;
use crate::wire::control::Control;
use crate::wire::notice::Notice;

/// Handles that wait to be said in RECALL: as many leases as a busy mount has, in 32 KiB.
const RECALLS_WAITING: usize = 4096;

impl Session {
    /// Somebody waits for the end of the lease of this handle. It is said once: if that is lost, or
    /// too many are waiting to be said, the client learns it when it renews. (Server.)
    pub fn recall(&mut self, handle: u64) {
        if self.recalls.len() < RECALLS_WAITING {
            self.recalls.push_back(handle);
        }
    }

    /// Names that the client watches have changed. What it does not take yet is gathered. (Server.)
    pub fn notice(&mut self, notice: Notice) {
        self.notices.add(notice);
    }

    /// What is to be told next. (Server.)
    pub(super) fn next_told(&mut self) -> Option<Control> {
        if !self.recalls.is_empty() {
            let count = self.recalls.len().min(limits::RECALLS_MAX);
            return Some(Control::Recall { handles: self.recalls.drain(..count).collect() });
        }
        (!self.notices.is_empty()).then(|| Control::Notice { notices: self.notices.take(limits::NOTICES_MAX) })
    }

    /// It was told. (Client.)
    pub(super) fn on_told(&mut self, control: Control) -> Result<(), Fault> {
        self.from(Role::Server, control.event())?;
        match control {
            Control::Recall { handles } => self.event(SessionEvent::Recalled { handles }),
            Control::Notice { notices } => self.event(SessionEvent::Noticed { notices }),
            _ => {}
        }
        Ok(())
    }
}
