//! The sending half of an operation on one pipeline: chooses the next block and the blocks to
//! retransmit.
//!
//! Blocks lie on a grid from the start of the pipeline's range and are sent once each, lowest
//! first, on whichever channel is free (FTSM-08, FTSM-13..17). A block that was on a lost channel
//! is sent again once the peer's FENCE reported that it was not processed; a block that stays
//! unacknowledged for long is retransmitted on an idle channel when nothing new may be sent.

use crate::base::{ChannelId, Duration, Extent, Instant};
use crate::limits;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Where a copy of a block was sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Copy {
    channel: ChannelId,
    /// Number of the record on the channel, counted through all epochs, as fences count.
    record: u64,
    at: Instant,
}

/// A block between the lowest unacknowledged one and the next new one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Slot {
    /// In flight, as one or two copies.
    Flying { first: Copy, second: Option<Copy> },
    /// Its channel is lost and the peer did not process it: to be sent again.
    Again,
    /// Acknowledged.
    Done,
}

/// The sending half of an operation on one pipeline.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BlockSender {
    block: u32,
    start: u64,
    /// End of the range; none while the source's end is not known.
    end: Option<u64>,
    /// Bytes up to here can be read: all of them, except for a source that is read in order.
    available: u64,
    /// First offset that was never sent.
    next: u64,
    /// First offset that the receiver has not granted.
    credit_limit: u64,
    /// Limit on unacknowledged bytes, whatever the receiver grants: each of their blocks is tracked
    /// here.
    send_window: u64,
    /// Offset of the first slot: everything below is acknowledged.
    base: u64,
    slots: VecDeque<Slot>,
    /// The source is read in order: a block that was handed to a transport is stored nowhere else
    /// and cannot be retransmitted.
    in_order: bool,
    /// Ranges that the receiver has from an earlier attempt and that `next` has not passed, in
    /// whole blocks.
    kept: VecDeque<Extent>,
    /// Number of slots that are `Again`.
    again: usize,
    /// Smoothed time from a block's sending to its acknowledgement.
    ack_time: Duration,
}

/// An acknowledgement of something that was never sent: a protocol violation by the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckBeyondSent;

impl BlockSender {
    /// Sends `[start, end)` in blocks of `block` bytes. `end` is none for a source of unknown
    /// length; such a source is read in order, and [`BlockSender::on_source`] reports how far.
    pub fn new(start: u64, end: Option<u64>, block: u32, credit_limit: u64) -> Self {
        Self {
            block,
            start,
            end,
            available: end.unwrap_or(start),
            next: start,
            credit_limit,
            send_window: u64::MAX,
            base: start,
            slots: VecDeque::new(),
            in_order: end.is_none(),
            kept: VecDeque::new(),
            again: 0,
            ack_time: Duration::ZERO,
        }
    }

    /// As above, with at most `send_window` unacknowledged bytes, or one block where that is more.
    pub fn with_send_window(mut self, send_window: u64) -> Self {
        self.send_window = send_window.max(self.block.into());
        self
    }

    /// As above, without these ranges, which the receiver has: whole blocks, ascending, within the
    /// range.
    pub fn keeping(mut self, kept: Vec<Extent>) -> Self {
        self.kept = kept.into();
        self.pass_kept();
        self
    }

    /// A source that is read in order has bytes up to `available`; `ended` when there are no more.
    pub fn on_source(&mut self, available: u64, ended: bool) {
        self.available = self.available.max(available);
        if ended {
            self.end = Some(self.available);
        }
    }

    /// The receiver grants up to `edge`.
    pub fn on_edge(&mut self, edge: u64) {
        self.credit_limit = self.credit_limit.max(edge);
    }

    /// Length of the transfer as far as this pipeline knows it: the end of its range.
    pub const fn end(&self) -> Option<u64> {
        self.end
    }

    /// Everything below is acknowledged: a source that is read in order may discard it.
    pub const fn acknowledged(&self) -> u64 {
        self.base
    }

    /// Every block was sent at least once.
    pub fn all_sent(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end) && self.again == 0
    }

    /// Every block is acknowledged.
    pub fn all_acknowledged(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end) && self.slots.is_empty()
    }

    /// Whether a channel could be given a block that is new or must be sent again.
    pub fn has_work(&self) -> bool {
        self.again > 0 || self.new_block().is_some()
    }

    /// The next block for `channel`, to be sent as its record number `record`, counted through all
    /// epochs, at time `now`.
    pub fn pick(&mut self, channel: ChannelId, record: u64, now: Instant) -> Option<Extent> {
        let copy = Copy { channel, record, at: now };
        if self.again > 0 {
            let index = self.slots.iter().position(|slot| *slot == Slot::Again)?;
            self.slots[index] = Slot::Flying { first: copy, second: None };
            self.again -= 1;
            return self.extent(index);
        }
        if let Some(extent) = self.new_block() {
            self.next = extent.end();
            self.slots.push_back(Slot::Flying { first: copy, second: None });
            self.pass_kept();
            return Some(extent);
        }
        let index = self.repeatable(channel, now)?;
        // Cannot fail: others are not repeatable.
        let Slot::Flying { first, .. } = self.slots[index] else { return None };
        self.slots[index] = Slot::Flying { first, second: Some(copy) };
        self.extent(index)
    }

    /// When a block may be retransmitted for lack of an acknowledgement, where `others` tells
    /// whether a channel other than its own is free.
    pub fn repeat_at(&self, others: impl Fn(ChannelId) -> bool) -> Option<Instant> {
        if self.in_order || self.has_work() {
            return None;
        }
        for slot in self.slots.iter().take(REPEAT_SCAN) {
            if let Slot::Flying { first, second: None } = slot
                && others(first.channel)
            {
                return Some(first.at.after(self.repeat_after()));
            }
        }
        None
    }

    /// The earliest time that [`Self::repeat_at`] and [`Self::repeats_on`] may name.
    pub fn repeat_from(&self) -> Option<Instant> {
        if self.in_order || self.has_work() {
            return None;
        }
        let flying = self.slots.iter().take(REPEAT_SCAN).filter_map(|slot| match slot {
            Slot::Flying { first, second: None } => Some(first.at),
            _ => None,
        });
        flying.min().map(|at| at.after(self.repeat_after()))
    }

    /// The receiver has everything below `low` and the ranges.
    pub fn on_ack(&mut self, low: u64, ranges: &[Extent], now: Instant) -> Result<(), AckBeyondSent> {
        // The receiver's low mark may advance over what it already had.
        let kept = self.kept.front().filter(|kept| kept.offset() <= self.next).map_or(0, |kept| kept.end());
        if low > self.next.max(kept) || ranges.last().is_some_and(|range| range.end() > self.next) {
            return Err(AckBeyondSent);
        }
        let all_below = if low >= self.next { self.slots.len() } else { self.index_of(low) };
        for index in 0..all_below {
            self.done(index, now);
        }
        for range in ranges {
            // Only blocks that lie entirely in the range count.
            let from = range.offset().max(self.base).saturating_sub(self.start).div_ceil(self.block.into());
            let mut index = self.index_of(self.start + from * u64::from(self.block));
            while self.extent(index).is_some_and(|extent| extent.end() <= range.end()) {
                self.done(index, now);
                index += 1;
            }
        }
        while self.slots.front() == Some(&Slot::Done) {
            self.slots.pop_front();
            self.base = (self.base + u64::from(self.block)).min(self.next);
        }
        self.pass_kept();
        Ok(())
    }

    /// `channel` is lost; the peer processed its records before `processed` and none after. Blocks
    /// that were not processed are sent again, unless another copy is in flight.
    pub fn on_fenced(&mut self, channel: ChannelId, processed: u64) {
        let dead = |copy: &Copy| copy.channel == channel && copy.record >= processed;
        for slot in &mut self.slots {
            // Others wait to be sent, or have arrived.
            let Slot::Flying { first, second } = *slot else { continue };
            *slot = match (dead(&first), second.filter(|copy| !dead(copy))) {
                (false, second) => Slot::Flying { first, second },
                (true, Some(second)) => Slot::Flying { first: second, second: None },
                (true, None) => {
                    self.again += 1;
                    Slot::Again
                }
            };
        }
    }

    /// Advances `next` over what the receiver has. Those blocks are tracked as acknowledged while
    /// older ones are in flight, as far as the window allows.
    fn pass_kept(&mut self) {
        while let Some(kept) = self.kept.front().copied().filter(|kept| kept.offset() <= self.next) {
            if self.slots.is_empty() {
                (self.base, self.next) = (kept.end().max(self.base), kept.end().max(self.next));
            }
            while self.next < kept.end() && self.next - self.base < self.send_window.min(KEPT_SPAN) {
                self.slots.push_back(Slot::Done);
                self.next = (self.next + u64::from(self.block)).min(kept.end());
            }
            if self.next < kept.end() {
                return;
            }
            self.kept.pop_front();
        }
    }

    /// The first block that was never sent, if the source has it and the receiver granted it.
    fn new_block(&self) -> Option<Extent> {
        let whole = self.next.checked_add(self.block.into())?;
        let end = match self.end {
            Some(end) if self.next >= end => return None,
            Some(end) => whole.min(end),
            None => whole,
        };
        if self.kept.front().is_some_and(|kept| kept.offset() <= self.next) {
            // The window ends inside a range that the receiver already has.
            return None;
        }
        if end > self.available || end > self.credit_limit || end - self.base > self.send_window {
            return None;
        }
        Extent::new(self.next, end - self.next).ok()
    }

    /// Whether [`Self::pick`] would retransmit a block.
    pub fn repeats_on(&self, channel: ChannelId, now: Instant) -> bool {
        self.repeatable(channel, now).is_some()
    }

    /// A block that has waited too long for its acknowledgement, on a channel other than this one.
    fn repeatable(&self, channel: ChannelId, now: Instant) -> Option<usize> {
        if self.in_order {
            return None;
        }
        let patience = self.repeat_after();
        for (index, slot) in self.slots.iter().take(REPEAT_SCAN).enumerate() {
            if let Slot::Flying { first, second: None } = slot
                && first.channel != channel
                && first.at.after(patience) <= now
                && now > first.at
            {
                return Some(index);
            }
        }
        None
    }

    fn repeat_after(&self) -> Duration {
        if self.ack_time.is_zero() {
            // Without an RTT estimate: blocks in flight on a long path must not be sent twice.
            return limits::REPEAT_AFTER_UNKNOWN;
        }
        limits::REPEAT_AFTER_MIN.max(self.ack_time.saturating_mul(3))
    }

    fn index_of(&self, offset: u64) -> usize {
        ((offset.saturating_sub(self.base)) / u64::from(self.block)) as usize
    }

    fn extent(&self, index: usize) -> Option<Extent> {
        if index >= self.slots.len() {
            return None;
        }
        let offset = self.base + index as u64 * u64::from(self.block);
        let end = (offset + u64::from(self.block)).min(self.next);
        Extent::new(offset, end - offset).ok()
    }

    fn done(&mut self, index: usize, now: Instant) {
        match self.slots[index] {
            Slot::Flying { first, second: None } => {
                // Karn's rule: a block that was sent twice gives no RTT sample.
                let sample = now.since(first.at);
                self.ack_time = if self.ack_time.is_zero() { sample } else { (self.ack_time * 7 + sample) / 8 };
            }
            Slot::Again => self.again -= 1,
            _ => {}
        }
        self.slots[index] = Slot::Done;
    }
}

/// Number of the oldest blocks that are checked for retransmission: the oldest one holds up the
/// window.
const REPEAT_SCAN: usize = 64;

/// Limit on bytes of blocks after an unacknowledged one that are tracked although the receiver has
/// them: a generous window.
const KEPT_SPAN: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u32 = 10;

    fn sender(end: u64, edge: u64) -> BlockSender {
        BlockSender::new(0, Some(end), BLOCK, edge)
    }

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn extent(offset: u64, length: u64) -> Extent {
        Extent::new(offset, length).unwrap()
    }

    #[test]
    fn blocks_go_out_once_within_the_credit_and_the_last_is_short() {
        let mut sender = sender(25, 20);
        assert_eq!(sender.pick(ChannelId(1), 0, at(0)), Some(extent(0, 10)));
        assert_eq!(sender.pick(ChannelId(2), 0, at(0)), Some(extent(10, 10)));
        assert_eq!(sender.pick(ChannelId(1), 1, at(0)), None, "no credit");
        sender.on_edge(100);
        assert_eq!(sender.pick(ChannelId(1), 1, at(0)), Some(extent(20, 5)));
        assert!(sender.all_sent() && !sender.all_acknowledged());
        sender.on_ack(25, &[], at(1)).unwrap();
        assert!(sender.all_acknowledged());
    }

    #[test]
    fn only_what_the_peer_did_not_process_goes_again() {
        let mut sender = sender(40, 100);
        for sequence in 0..4 {
            sender.pick(ChannelId(1 + (sequence % 2) as u16), sequence, at(0)).unwrap();
        }
        // Channel 1 carried the blocks at 0 (record 0) and 20 (record 2); record 0 was processed.
        sender.on_fenced(ChannelId(1), 1);
        assert!(!sender.all_sent());
        assert_eq!(sender.pick(ChannelId(2), 9, at(0)), Some(extent(20, 10)));
        assert_eq!(sender.pick(ChannelId(2), 10, at(0)), None);
    }

    #[test]
    fn ranges_above_a_gap_are_acknowledged_without_the_gap() {
        let mut sender = sender(50, 100);
        for sequence in 0..5 {
            sender.pick(ChannelId(1), sequence, at(0)).unwrap();
        }
        sender.on_ack(10, &[extent(20, 10), extent(40, 10)], at(1)).unwrap();
        sender.on_fenced(ChannelId(1), 0);
        assert_eq!(sender.pick(ChannelId(2), 0, at(1)), Some(extent(10, 10)));
        assert_eq!(sender.pick(ChannelId(2), 1, at(1)), Some(extent(30, 10)));
        assert_eq!(sender.pick(ChannelId(2), 2, at(1)), None);
    }

    #[test]
    fn an_old_block_is_repeated_once_on_another_channel() {
        let mut sender = sender(20, 20);
        sender.pick(ChannelId(1), 0, at(0)).unwrap();
        sender.pick(ChannelId(2), 0, at(0)).unwrap();
        assert_eq!(sender.pick(ChannelId(2), 1, at(50)), None, "not old enough");
        assert_eq!(sender.pick(ChannelId(2), 1, at(200)), None, "nothing is known about the path yet");
        assert_eq!(sender.pick(ChannelId(1), 1, at(1200)), Some(extent(10, 10)), "not its own channel's");
        assert_eq!(sender.pick(ChannelId(2), 1, at(1200)), Some(extent(0, 10)));
        assert_eq!(sender.pick(ChannelId(3), 0, at(9000)), None, "twice is enough");
        assert_eq!((sender.repeat_from(), sender.repeat_at(|_| true)), (None, None));
        // The first copy is lost, the second is in flight.
        sender.on_fenced(ChannelId(1), 0);
        assert!(!sender.has_work());
    }

    #[test]
    fn no_block_is_repeated_before_the_time_of_the_first_of_them() {
        let mut sender = sender(20, 20);
        sender.pick(ChannelId(1), 0, at(0)).unwrap();
        sender.pick(ChannelId(2), 0, at(10)).unwrap();
        // The block at 0 is sent again, and later than the other one.
        sender.on_fenced(ChannelId(1), 0);
        sender.pick(ChannelId(3), 0, at(20)).unwrap();
        let from = sender.repeat_from().unwrap();
        assert_eq!(
            sender.repeat_at(|_| true),
            Some(from.after(Duration::from_millis(10))),
            "the oldest block comes first"
        );
        assert_eq!(sender.repeat_at(|own| own != ChannelId(3)), Some(from), "unless no channel is free for it");
        assert!(!sender.repeats_on(ChannelId(1), Instant(from.0 - 1)) && sender.repeats_on(ChannelId(1), from));
    }

    #[test]
    fn a_receiver_that_grants_without_end_and_says_nothing_is_sent_a_bounded_span() {
        let mut sender = sender(1000, u64::MAX).with_send_window(35);
        let sent = (0..100).filter(|sequence| sender.pick(ChannelId(1), *sequence, at(0)).is_some()).count();
        assert_eq!(sent, 3);
        sender.on_ack(10, &[], at(1)).unwrap();
        assert_eq!(sender.pick(ChannelId(1), 200, at(1)), Some(extent(30, 10)));
        // Less than a block would mean nothing at all.
        assert!(BlockSender::new(0, Some(10), BLOCK, 10).with_send_window(3).has_work());
    }

    #[test]
    fn what_the_receiver_has_is_not_sent_and_its_count_goes_on_over_it() {
        let mut sender = sender(95, 1000).keeping(alloc::vec![extent(0, 20), extent(30, 30), extent(90, 5)]);
        let mut sent = alloc::vec::Vec::new();
        while let Some(block) = sender.pick(ChannelId(1), sent.len() as u64, at(0)) {
            sent.push(block.offset());
        }
        assert_eq!(sent, [20, 60, 70, 80]);
        assert!(sender.all_sent() && !sender.all_acknowledged());
        assert_eq!(sender.on_ack(96, &[], at(1)), Err(AckBeyondSent));
        sender.on_ack(60, &[extent(70, 10)], at(1)).unwrap();
        sender.on_fenced(ChannelId(1), 0);
        assert_eq!(sender.pick(ChannelId(2), 0, at(2)), Some(extent(60, 10)));
        assert_eq!(sender.pick(ChannelId(2), 1, at(2)), Some(extent(80, 10)));
        sender.on_ack(95, &[], at(3)).unwrap();
        assert!(sender.all_acknowledged());
        let whole = BlockSender::new(0, Some(95), BLOCK, 0).keeping(alloc::vec![extent(0, 95)]);
        assert!(whole.all_acknowledged());
    }

    #[test]
    fn kept_blocks_beyond_the_span_wait_and_the_receivers_count_may_be_ahead() {
        let mut sender = BlockSender::new(0, Some(100), BLOCK, 1000).with_send_window(30);
        sender = sender.keeping(alloc::vec![extent(10, 80)]);
        assert_eq!(sender.pick(ChannelId(1), 0, at(0)), Some(extent(0, 10)));
        assert_eq!(sender.pick(ChannelId(1), 1, at(0)), None, "the window ends inside what is kept");
        assert_eq!(sender.on_ack(91, &[], at(1)), Err(AckBeyondSent));
        sender.on_ack(90, &[], at(1)).unwrap();
        assert_eq!(sender.acknowledged(), 90);
        assert_eq!(sender.pick(ChannelId(1), 1, at(1)), Some(extent(90, 10)));
    }

    #[test]
    fn an_acknowledgement_of_what_was_never_sent_is_refused() {
        let mut sender = sender(50, 100);
        sender.pick(ChannelId(1), 0, at(0)).unwrap();
        assert_eq!(sender.on_ack(11, &[], at(0)), Err(AckBeyondSent));
        assert_eq!(sender.on_ack(0, &[extent(10, 10)], at(0)), Err(AckBeyondSent));
    }

    #[test]
    fn a_source_of_unknown_length_sends_what_it_has_and_ends_short() {
        let mut sender = BlockSender::new(0, None, BLOCK, 100);
        sender.on_source(9, false);
        assert_eq!(sender.pick(ChannelId(1), 0, at(0)), None, "a block that is not full yet");
        sender.on_source(13, true);
        assert_eq!(sender.pick(ChannelId(1), 0, at(0)), Some(extent(0, 10)));
        assert_eq!(sender.pick(ChannelId(1), 1, at(0)), Some(extent(10, 3)));
        assert!(sender.all_sent());
        assert_eq!(sender.end(), Some(13));
    }

    #[test]
    fn an_empty_transfer_is_sent_and_acknowledged_at_once() {
        let sender = sender(0, 0);
        assert!(sender.all_sent() && sender.all_acknowledged() && !sender.has_work());
    }
}
