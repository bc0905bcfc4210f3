//! One direction of a channel: how many records were carried, under which key, and which operation
//! its blocks currently belong to.
//!
//! It must not hold a key: it mirrors the counters of the cipher, so that the machine moves to the
//! next epoch before the cipher refuses.

use super::life::{Carrying, Refused};
use crate::base::{Instant, KeyLimits, Level, OperationId};
use crate::wire::{Event, HEAD_BYTES, Head};

/// One direction of a channel: record counter, key epoch and current operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DirectionState {
    /// Records carried, in all epochs: fences and EOFT count these.
    pub records: u64,
    /// Epoch of the next record.
    pub epoch: u16,
    /// Sequence number of the next record: the number of records in this epoch.
    pub sequence: u64,
    /// Bytes that the cipher has processed in this epoch, if that is limited. (Sending.)
    bytes: u64,
    /// When this epoch began. (Sending.)
    since: Instant,
    carrying: Carrying,
    present: OperationId,
}

/// REKEY in the last epoch that a head can name: it has no successor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoEpochLeft;

impl DirectionState {
    /// A direction that has carried nothing.
    pub fn new(now: Instant) -> Self {
        Self {
            records: 0,
            epoch: 0,
            sequence: 0,
            bytes: 0,
            since: now,
            carrying: Carrying::Reusable,
            present: OperationId(0),
        }
    }

    /// A record was carried.
    pub fn count(&mut self) {
        // 2^64 records cannot be reached.
        self.records += 1;
        self.sequence += 1;
    }

    /// The record of `head` is handed to the transport.
    pub fn count_sent(&mut self, head: &Head, limits: &KeyLimits) {
        self.count();
        if limits.bytes < u64::MAX {
            let payload = if head.level == Level::Clear { 0 } else { u64::from(head.length) };
            self.bytes = self.bytes.saturating_add(HEAD_BYTES as u64 + payload);
        }
    }

    /// Whether REKEY must be sent before the next record, because a record of `payload_max` bytes
    /// would leave it no room or because the key is too old. Never twice in a row, so that limits
    /// too small for a record cannot keep a channel busy with REKEY; nor in the last epoch, or
    /// after EOFT. Where it cannot be sent, the cipher's own limit ends the channel.
    pub fn rekey_due(&self, limits: &KeyLimits, payload_max: u64, now: Instant) -> bool {
        let bytes = payload_max.saturating_add(2 * HEAD_BYTES as u64);
        let full = self.sequence.saturating_add(2) > limits.records || self.bytes.saturating_add(bytes) > limits.bytes;
        let old = now.since(self.since) >= limits.age;
        (full || old) && self.sequence > 0 && self.epoch < u16::MAX && !self.has_ended()
    }

    /// REKEY was carried and counted: what follows belongs to the next epoch.
    pub fn on_rekey(&mut self, now: Instant) -> Result<(), NoEpochLeft> {
        self.epoch = self.epoch.checked_add(1).ok_or(NoEpochLeft)?;
        (self.sequence, self.bytes, self.since) = (0, 0, now);
        Ok(())
    }

    /// The event for the next block of `operation`, whose own event is `event`: CONM if the
    /// direction already carries that operation.
    pub fn block_event(&mut self, operation: OperationId, event: Event) -> Event {
        let same = self.carrying == Carrying::Moving && self.present == operation;
        // Cannot fail: blocks are only sent on directions that have not ended.
        let _ = self.carrying.on_block();
        self.present = operation;
        if same { Event::Continue } else { event }
    }

    /// A block arrived with `event`. CONM must name the operation that is carried.
    pub fn on_block(&mut self, event: Event, operation: OperationId) -> Result<(), Refused> {
        if event != Event::Continue {
            self.carrying.on_block()?;
            self.present = operation;
            return Ok(());
        }
        self.carrying.on_continue()?;
        if self.present == operation {
            Ok(())
        } else {
            Err(Refused { machine: "Carrying", state: "Moving (another operation)", event: "on_continue" })
        }
    }

    /// EOFR was carried. An operation other than the current one ends without changing what is
    /// carried.
    pub fn on_end_of_range(&mut self, operation: OperationId) {
        if self.present == operation {
            let _ = self.carrying.on_end_of_range();
        }
    }

    /// Whether EOFT was carried.
    pub fn has_ended(&self) -> bool {
        self.carrying == Carrying::Ended
    }

    /// EOFT was carried.
    pub fn on_end_of_transfer(&mut self) -> Result<(), Refused> {
        self.carrying.on_end_of_transfer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Flags;
    use core::time::Duration;

    const NEVER: KeyLimits = KeyLimits { records: u64::MAX, bytes: u64::MAX, age: Duration::MAX };

    fn sent(state: &mut DirectionState, level: Level, length: u32, limits: &KeyLimits) {
        let head = Head {
            event: Event::Nothing as u8,
            level,
            epoch: state.epoch,
            operation: OperationId(0),
            sequence: state.sequence,
            offset: 0,
            length,
            flags: Flags::NONE,
        };
        state.count_sent(&head, limits);
    }

    #[test]
    fn the_last_record_that_an_epoch_takes_is_left_for_rekey() {
        let limits = KeyLimits { records: 3, ..NEVER };
        let mut state = DirectionState::new(Instant(0));
        for epoch in 0..3 {
            for sequence in 0..3 {
                assert_eq!((state.epoch, state.sequence), (epoch, sequence));
                assert_eq!(state.rekey_due(&limits, 0, Instant(0)), sequence == 2);
                sent(&mut state, Level::Private, 0, &limits);
            }
            assert_eq!(state.on_rekey(Instant(0)), Ok(()));
        }
        assert_eq!(state.records, 9);
    }

    #[test]
    fn bytes_count_as_the_cipher_counts_them() {
        let (head, limits) = (HEAD_BYTES as u64, KeyLimits { bytes: 1000, ..NEVER });
        let mut state = DirectionState::new(Instant(0));
        sent(&mut state, Level::Clear, 5000, &limits);
        sent(&mut state, Level::Integrity, 200, &limits);
        // Two heads and 200 bytes are used, and two heads are still to come.
        let room = 1000 - 2 * head - 200 - 2 * head;
        assert!(!state.rekey_due(&limits, room, Instant(0)));
        assert!(state.rekey_due(&limits, room + 1, Instant(0)));
    }

    #[test]
    fn a_key_that_was_used_grows_old_and_its_successor_is_new() {
        let limits = KeyLimits { age: Duration::from_secs(5), ..NEVER };
        let at = |seconds| Instant(0).after(Duration::from_secs(seconds));
        let mut state = DirectionState::new(at(1));
        assert!(!state.rekey_due(&limits, 0, at(100)), "a key under which nothing went");
        sent(&mut state, Level::Private, 0, &limits);
        assert!(!state.rekey_due(&limits, 0, at(5)));
        assert!(state.rekey_due(&limits, 0, at(6)));
        assert_eq!(state.on_rekey(at(6)), Ok(()));
        sent(&mut state, Level::Private, 0, &limits);
        assert!(!state.rekey_due(&limits, 0, at(10)));
        assert!(state.rekey_due(&limits, 0, at(11)));
    }

    #[test]
    fn the_last_epoch_has_no_successor_and_none_is_asked_for() {
        let limits = KeyLimits { records: 2, ..NEVER };
        let mut state = DirectionState { epoch: u16::MAX, sequence: 1, ..DirectionState::new(Instant(0)) };
        assert!(!state.rekey_due(&limits, 0, Instant(0)));
        assert_eq!(state.on_rekey(Instant(0)), Err(NoEpochLeft));
        state.epoch -= 1;
        assert!(state.rekey_due(&limits, 0, Instant(0)));
        assert_eq!(state.on_end_of_transfer(), Ok(()));
        assert!(!state.rekey_due(&limits, 0, Instant(0)), "EOFT is the last record");
    }
}
