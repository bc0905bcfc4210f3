//! The receiving half of an operation on one pipeline: which blocks are accepted, which ranges are
//! written, and how far the sender may advance.

use crate::base::{Duration, Extent, Instant};
use crate::limits;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The receiving half of an operation on one pipeline.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BlockReceiver {
    block: u32,
    start: u64,
    /// End of the range; none while it is not known.
    end: Option<u64>,
    /// Everything below is written.
    contiguous: u64,
    /// Blocks above `low`.
    above: VecDeque<BlockState>,
    /// Ranges above `low` that were kept from an earlier attempt, in whole blocks.
    kept: VecDeque<Extent>,
    /// Span that the sender may be ahead of `low`.
    receive_window: u64,
    /// Bytes written since the last acknowledgement.
    unacked: u64,
    /// When the first of them was written.
    untold_since: Instant,
    /// Number of bytes after which an acknowledgement is sent.
    ack_bytes: u64,
}

/// How much of a block has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum BlockState {
    /// Nothing.
    #[default]
    Missing,
    /// All of it, in memory.
    Arrived,
    /// All of it, written.
    Written,
}

/// What to do with an announced block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockDecision {
    /// Accept it and write it.
    Take,
    /// A duplicate of a block that already arrived.
    Duplicate,
}

/// An invalid block: a protocol violation by the peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum InvalidBlock {
    /// Empty, or longer than a block.
    Length,
    /// Not on the block grid, or a short block that is not the last.
    Misplaced,
    /// Outside the range.
    OutsideRange,
    /// Beyond the granted window.
    OutsideCredit,
}

impl BlockReceiver {
    /// Receives `[start, end)` in blocks of `block` bytes, at most `receive_window` bytes ahead of the
    /// first gap.
    pub fn new(start: u64, end: Option<u64>, block: u32, receive_window: u64) -> Self {
        let receive_window = receive_window.max(block.into());
        Self {
            block,
            start,
            end,
            contiguous: start,
            above: VecDeque::new(),
            kept: VecDeque::new(),
            receive_window,
            unacked: 0,
            untold_since: Instant(0),
            ack_bytes: (receive_window / 8).clamp(block.into(), (8 << 20).max(u64::from(block))),
        }
    }

    /// As above, with ranges that are already present: whole blocks, ascending, within the range.
    pub fn keeping(mut self, kept: Vec<Extent>) -> Self {
        self.kept = kept.into();
        self.advance();
        self
    }

    /// Offset up to which the sender may send.
    pub const fn credit_limit(&self) -> u64 {
        self.contiguous.saturating_add(self.receive_window)
    }

    /// Everything below is written.
    pub const fn contiguous(&self) -> u64 {
        self.contiguous
    }

    /// What to do with a block at `offset`.
    pub fn judge(&self, offset: u64, length: u32) -> Result<BlockDecision, InvalidBlock> {
        if length == 0 || length > self.block {
            return Err(InvalidBlock::Length);
        }
        let end = offset.checked_add(length.into()).ok_or(InvalidBlock::OutsideRange)?;
        if offset < self.start || self.end.is_some_and(|last| end > last) {
            return Err(InvalidBlock::OutsideRange);
        }
        let last = self.end == Some(end) || self.end.is_none();
        if !(offset - self.start).is_multiple_of(self.block.into()) || (length < self.block && !last) {
            return Err(InvalidBlock::Misplaced);
        }
        if offset >= self.credit_limit() || end > self.credit_limit().max(self.contiguous + u64::from(self.block)) {
            return Err(InvalidBlock::OutsideCredit);
        }
        let kept = self.kept.iter().take_while(|kept| kept.offset() <= offset).any(|kept| offset < kept.end());
        if kept || self.place_of(offset) != BlockState::Missing {
            return Ok(BlockDecision::Duplicate);
        }
        Ok(BlockDecision::Take)
    }

    fn place_of(&self, offset: u64) -> BlockState {
        if offset < self.contiguous {
            return BlockState::Written;
        }
        self.above.get(self.index_of(offset)).copied().unwrap_or_default()
    }

    fn set_place(&mut self, offset: u64, place: BlockState) {
        let index = self.index_of(offset);
        while self.above.len() <= index {
            self.above.push_back(BlockState::Missing);
        }
        self.above[index] = place;
    }

    /// An accepted block has arrived completely: if it is shorter than the grid, it must be the
    /// last one. Returns false if another copy of it arrived first: only one may be written.
    pub fn on_arrived(&mut self, offset: u64, length: u32) -> Result<bool, InvalidBlock> {
        if length < self.block && self.end.is_none() {
            let end = offset + u64::from(length);
            if self.highest() > end {
                return Err(InvalidBlock::Misplaced);
            }
            self.end = Some(end);
        }
        if self.place_of(offset) != BlockState::Missing {
            return Ok(false);
        }
        self.set_place(offset, BlockState::Arrived);
        Ok(true)
    }

    /// A block is written. Writing it again changes nothing.
    pub fn on_written(&mut self, extent: Extent, now: Instant) {
        if self.place_of(extent.offset()) == BlockState::Written {
            return;
        }
        if self.unacked == 0 {
            self.untold_since = now;
        }
        self.unacked += extent.length();
        self.set_place(extent.offset(), BlockState::Written);
        self.advance();
    }

    /// Advances `low` over what is written or kept.
    fn advance(&mut self) {
        loop {
            if self.above.front() == Some(&BlockState::Written) {
                self.above.pop_front();
                let next = self.contiguous + u64::from(self.block);
                self.contiguous = self.end.map_or(next, |end| next.min(end));
            } else if let Some(kept) = self.kept.pop_front_if(|kept| kept.offset() <= self.contiguous) {
                let blocks = (kept.end().saturating_sub(self.contiguous)).div_ceil(self.block.into());
                // At most as many as are present: a usize.
                self.above.drain(..(self.above.len() as u64).min(blocks) as usize);
                self.contiguous = self.contiguous.max(kept.end());
            } else {
                return;
            }
        }
    }

    /// The sender reports that the range ends here. Returns false if a block above it was accepted
    /// or another end is known.
    #[must_use]
    pub fn on_end(&mut self, end: u64) -> bool {
        match self.end {
            Some(known) => known == end,
            None if self.highest() > end || end < self.start => false,
            None => {
                self.end = Some(end);
                // The last block may have been counted as a full block of the grid.
                self.contiguous = self.contiguous.min(end);
                true
            }
        }
    }

    /// Every byte of the range is written, exactly once.
    pub fn covered(&self) -> bool {
        let Some(end) = self.end else { return false };
        self.contiguous == end && self.above.is_empty()
    }

    /// Whether an acknowledgement should be sent now.
    pub fn ack_due(&self, now: Instant) -> bool {
        self.unacked > 0
            && (self.unacked >= self.ack_bytes || self.covered() || now >= self.untold_since.after(limits::ACK_DELAY))
    }

    /// When an acknowledgement must be sent at the latest.
    pub fn ack_at(&self) -> Option<Instant> {
        (self.unacked > 0).then(|| self.untold_since.after(limits::ACK_DELAY))
    }

    /// Shortens the delay of acknowledgements; for tests of lost acknowledgements.
    pub const fn ack_delay() -> Duration {
        limits::ACK_DELAY
    }

    /// The acknowledgement of the present state: there is no gap below the first value; the ranges
    /// lie above it.
    pub fn acknowledge(&mut self) -> (u64, Vec<Extent>) {
        self.unacked = 0;
        let mut ranges: Vec<Extent> = Vec::new();
        for (index, place) in self.above.iter().enumerate() {
            if *place != BlockState::Written {
                continue;
            }
            let offset = self.contiguous + index as u64 * u64::from(self.block);
            let end = offset + u64::from(self.block);
            let end = self.end.map_or(end, |last| end.min(last));
            let touching = ranges.pop_if(|range| range.end() == offset);
            let from = touching.map_or(offset, Extent::offset);
            if ranges.len() == limits::ACK_RANGES_MAX {
                break;
            }
            ranges.extend(Extent::new(from, end - from).ok());
        }
        (self.contiguous, ranges)
    }

    fn highest(&self) -> u64 {
        match self.above.iter().rposition(|place| *place != BlockState::Missing) {
            None => self.contiguous,
            Some(index) => {
                let end = self.contiguous + (index as u64 + 1) * u64::from(self.block);
                self.end.map_or(end, |last| end.min(last))
            }
        }
    }

    fn index_of(&self, offset: u64) -> usize {
        (offset.saturating_sub(self.contiguous) / u64::from(self.block)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(0);

    fn extent(offset: u64, length: u64) -> Extent {
        Extent::new(offset, length).unwrap()
    }

    fn receiver(end: Option<u64>) -> BlockReceiver {
        BlockReceiver::new(0, end, 10, 40)
    }

    #[test]
    fn blocks_outside_the_grid_the_range_or_the_credit_are_refused() {
        let receiver = receiver(Some(95));
        assert_eq!(receiver.judge(0, 10), Ok(BlockDecision::Take));
        assert_eq!(receiver.judge(0, 0), Err(InvalidBlock::Length));
        assert_eq!(receiver.judge(0, 11), Err(InvalidBlock::Length));
        assert_eq!(receiver.judge(5, 10), Err(InvalidBlock::Misplaced));
        assert_eq!(receiver.judge(10, 9), Err(InvalidBlock::Misplaced));
        assert_eq!(receiver.judge(90, 10), Err(InvalidBlock::OutsideRange));
        assert_eq!(receiver.judge(u64::MAX, 1), Err(InvalidBlock::OutsideRange));
        assert_eq!(receiver.judge(40, 10), Err(InvalidBlock::OutsideCredit));
        assert_eq!(receiver.judge(30, 10), Ok(BlockDecision::Take));
    }

    #[test]
    fn cover_is_exact_whatever_the_order_and_duplicates_change_nothing() {
        let mut receiver = receiver(Some(35));
        for offset in [20, 20, 0, 30, 0, 20] {
            assert!(!receiver.covered());
            receiver.on_written(extent(offset, if offset == 30 { 5 } else { 10 }), NOW);
        }
        assert_eq!(receiver.acknowledge(), (10, alloc::vec![extent(20, 15)]));
        receiver.on_written(extent(10, 10), NOW);
        assert!(receiver.covered());
        assert_eq!(receiver.acknowledge(), (35, alloc::vec![]));
        assert_eq!(receiver.judge(10, 10), Ok(BlockDecision::Duplicate));
    }

    #[test]
    fn an_unknown_end_comes_from_a_short_block_or_from_finish() {
        let mut short = receiver(None);
        assert_eq!(short.judge(0, 3), Ok(BlockDecision::Take));
        short.on_arrived(0, 3).unwrap();
        short.on_written(extent(0, 3), NOW);
        assert!(short.covered() && short.on_end(3) && !short.on_end(4));

        let mut whole = receiver(None);
        whole.on_written(extent(0, 10), NOW);
        assert!(!whole.covered());
        assert!(!whole.on_end(9), "a block above the end was taken");
        assert!(whole.on_end(10) && whole.covered());

        let mut late = receiver(None);
        late.on_written(extent(20, 10), NOW);
        assert_eq!(late.on_arrived(10, 3), Err(InvalidBlock::Misplaced));
        let mut empty = receiver(None);
        assert!(empty.on_end(0) && empty.covered());
    }

    #[test]
    fn what_was_kept_counts_as_written_and_is_not_taken_again() {
        let kept =
            |ranges: &[(u64, u64)]| receiver(Some(95)).keeping(ranges.iter().map(|(o, l)| extent(*o, *l)).collect());
        let mut some = kept(&[(0, 20), (40, 10), (90, 5)]);
        assert_eq!((some.contiguous(), some.credit_limit()), (20, 60));
        assert_eq!(some.judge(10, 10), Ok(BlockDecision::Duplicate));
        assert_eq!(some.judge(40, 10), Ok(BlockDecision::Duplicate));
        assert_eq!(some.judge(20, 10), Ok(BlockDecision::Take));
        for offset in [50, 30, 20] {
            some.on_written(extent(offset, 10), NOW);
        }
        assert_eq!(some.acknowledge(), (60, alloc::vec![]));
        for offset in [80, 60, 70] {
            assert!(!some.covered());
            some.on_written(extent(offset, 10), NOW);
        }
        assert!(some.covered());
        assert_eq!(some.contiguous(), 95);
        assert!(kept(&[(0, 95)]).covered());
        assert!(!kept(&[(10, 85)]).covered());
    }

    #[test]
    fn acknowledgements_wait_for_company_but_not_for_ever() {
        let mut receiver = BlockReceiver::new(0, Some(1000), 10, 400);
        receiver.on_written(extent(0, 10), Instant(5));
        assert!(!receiver.ack_due(Instant(5)));
        assert!(receiver.ack_due(Instant(5).after(limits::ACK_DELAY)));
        for offset in 1..5 {
            receiver.on_written(extent(offset * 10, 10), Instant(6));
        }
        assert!(receiver.ack_due(Instant(6)));
        receiver.acknowledge();
        assert!(!receiver.ack_due(Instant(u64::MAX)));
    }
}
