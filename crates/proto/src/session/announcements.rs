//! What one end has to tell the other about an operation, and when it tells it again (P-41, P-48).
//!
//! Each state is sent in full whenever it is due, and again when the channel that carried it was
//! lost: nothing is tracked record by record.

use super::retransmit::RetransmitTimer;
use crate::base::Instant;

/// A set of states that one end sends to the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct Pending(u16);

impl Pending {
    pub(super) const NOTHING: Pending = Pending(0);
    pub(super) const REQUEST: Pending = Pending(1);
    pub(super) const EXCEPTION: Pending = Pending(2);
    pub(super) const COMMITTED: Pending = Pending(4);
    pub(super) const GRANT: Pending = Pending(8);
    pub(super) const CREDIT: Pending = Pending(16);
    pub(super) const CANCEL: Pending = Pending(32);
    pub(super) const ACK: Pending = Pending(64);
    pub(super) const FINISH: Pending = Pending(128);
    pub(super) const AGAIN: Pending = Pending(256);
    /// In the order in which they are sent.
    const ORDER: [Pending; 9] = [
        Self::REQUEST,
        Self::EXCEPTION,
        Self::COMMITTED,
        Self::GRANT,
        Self::CREDIT,
        Self::CANCEL,
        Self::AGAIN,
        Self::ACK,
        Self::FINISH,
    ];

    fn add(&mut self, other: Pending) {
        self.0 |= other.0;
    }

    fn remove(&mut self, other: Pending) {
        self.0 &= !other.0;
    }

    const fn has(self, other: Pending) -> bool {
        self.0 & other.0 != 0
    }

    const fn without(self, other: Pending) -> Pending {
        Pending(self.0 & !other.0)
    }
}

/// The states that this end has to send about an operation, and those that it has sent.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Announcements {
    /// To be sent.
    owed: Pending,
    /// Sent at least once, and still true.
    sent: Pending,
    /// When what was sent is sent again for want of an answer.
    timer: RetransmitTimer,
}

impl Announcements {
    /// This is to be sent.
    pub(super) fn owe(&mut self, state: Pending) {
        self.owed.add(state);
    }

    /// Whether this is to be sent.
    pub(super) fn owes(&self, state: Pending) -> bool {
        self.owed.has(state)
    }

    /// Whether anything is to be sent.
    pub(super) fn owes_any(&self) -> bool {
        self.owed != Pending::NOTHING
    }

    /// What is sent next.
    pub(super) fn next(&self) -> Option<Pending> {
        Pending::ORDER.into_iter().find(|state| self.owed.has(*state))
    }

    /// Whether this was sent, and may have to be sent again.
    pub(super) fn has_sent(&self, state: Pending) -> bool {
        self.sent.has(state)
    }

    /// The request was never sent: the peer does not know the operation.
    pub(super) fn is_unrequested(&self) -> bool {
        self.owed.has(Pending::REQUEST) && !self.sent.has(Pending::REQUEST)
    }

    /// This is not to be sent for now; it may have been sent before.
    pub(super) fn postpone(&mut self, state: Pending) {
        self.owed.remove(state);
    }

    /// This is no longer true, or no longer of use: it is not sent any more.
    pub(super) fn withdraw(&mut self, state: Pending) {
        self.owed.remove(state);
        self.sent.remove(state);
    }

    /// The peer was told this by other means than its message.
    pub(super) fn count_as_sent(&mut self, state: Pending) {
        self.owed.remove(state);
        self.sent.add(state);
    }

    /// This is handed to a channel.
    pub(super) fn on_sent(&mut self, state: Pending, now: Instant) {
        self.count_as_sent(state);
        self.timer.on_word(now);
    }

    /// Something about the operation arrived.
    pub(super) fn on_received(&mut self, now: Instant) {
        self.timer.on_word(now);
    }

    /// The operation made progress.
    pub(super) fn on_progress(&mut self, now: Instant) {
        self.timer.on_step(now);
    }

    /// The outcome is known: nothing else is sent from now on.
    pub(super) fn conclude(&mut self, outcome: Pending) {
        (self.owed, self.sent) = (outcome, Pending::NOTHING);
    }

    /// Everything that was sent is sent again: a channel that may have carried it is lost.
    pub(super) fn send_again(&mut self) {
        self.owed.add(self.sent);
    }

    /// When what was sent is sent again for want of an answer, where the peer has answered
    /// `answered`; none while something is to be sent anyway.
    pub(super) fn retry_at(&self, answered: Pending) -> Option<Instant> {
        let waits = !self.owes_any() && self.sent.without(answered) != Pending::NOTHING;
        if waits { self.timer.over_at() } else { None }
    }

    /// What was sent and not answered is sent again.
    pub(super) fn retry(&mut self, answered: Pending, now: Instant) {
        self.owed.add(self.sent.without(answered));
        self.timer.on_retry(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    #[test]
    fn a_state_is_sent_again_until_it_is_answered_or_withdrawn() {
        let mut told = Announcements::default();
        told.owe(Pending::CREDIT);
        told.owe(Pending::GRANT);
        assert_eq!((told.next(), told.retry_at(Pending::NOTHING)), (Some(Pending::GRANT), None));
        told.on_sent(Pending::GRANT, Instant(5));
        told.on_sent(Pending::CREDIT, Instant(5));
        assert!(!told.owes_any() && told.has_sent(Pending::GRANT));
        assert_eq!(told.retry_at(Pending::NOTHING), Some(Instant(5).after(limits::QUIET)));
        told.withdraw(Pending::CREDIT);
        assert_eq!(told.retry_at(Pending::GRANT), None, "what is answered is not repeated");
        told.send_again();
        assert!(told.owes(Pending::GRANT) && !told.owes(Pending::CREDIT));
        told.conclude(Pending::COMMITTED);
        assert_eq!(told.next(), Some(Pending::COMMITTED));
        told.on_sent(Pending::COMMITTED, Instant(6));
        told.send_again();
        assert_eq!(told.next(), Some(Pending::COMMITTED), "of what was said before, nothing");
    }
}
