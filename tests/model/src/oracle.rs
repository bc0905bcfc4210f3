//! What must be true, whatever the machines believe: kept beside them and told only what really happened (a block was
//! written, an outcome was told), never what a machine thinks.

use crate::setting::{Plan, Setting};
use crate::world::{BLOCK, Side};
use xdfs_proto::base::{ChannelId, ErrorKind, Extent};
use xdfs_proto::session::{Comparison, Fault, Mismatch};

/// What went wrong. Each belongs to the property of its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Violation {
    /// A machine found fault with an honest peer.
    Fault(Fault),
    /// A machine panicked.
    Panic,
    /// A commit without every byte in its place, a second one, or a block that is not where its head says.
    Place,
    /// Two outcomes of one operation.
    Outcome,
    /// A block went again although its channel was not fenced, or had delivered it.
    Again,
    /// A commit of content that is not what was sent.
    Content,
    /// A fence that counts wrongly, or a record that was taken behind it.
    Fence,
}

/// An outcome as one end told it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Told {
    /// Success.
    Committed,
    /// Failure, and why.
    Failed(ErrorKind),
}

/// The truth about one operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ledger {
    /// The side that gets the bytes.
    pub target: Side,
    blocks: u64,
    /// A bit per block: written at the target.
    written: u16,
    /// A bit per block: what is written is not what was sent.
    altered: u16,
    /// Where each block went last: channel and number of the record.
    sent: Vec<Option<(ChannelId, u64)>>,
    /// The target was asked to commit.
    pub committing: bool,
    /// The target has its name.
    pub committed: bool,
    /// What each end told its application.
    pub told: [Option<Told>; 2],
    /// The sender lost its last channel before it heard the outcome.
    unaware: bool,
}

impl Ledger {
    fn new(plan: &Plan, kept: &[Extent]) -> Self {
        let mut ledger = Self {
            target: usize::from(plan.upload),
            blocks: plan.blocks,
            written: 0,
            altered: 0,
            sent: vec![None; plan.blocks as usize],
            committing: false,
            committed: false,
            told: [None; 2],
            unaware: false,
        };
        ledger.written = ledger.blocks_in(kept);
        ledger
    }

    /// A bit per block that is written at the target.
    pub const fn written(&self) -> u16 {
        self.written
    }

    /// A bit per block that these ranges hold.
    pub fn blocks_in(&self, ranges: &[Extent]) -> u16 {
        let held =
            |block: &u64| ranges.iter().any(|range| self.extent_of(*block).is_some_and(|one| range.contains(one)));
        (0..self.blocks).filter(held).map(|block| 1 << block).sum()
    }

    /// The range of a block.
    pub fn extent_of(&self, block: u64) -> Option<Extent> {
        let end = ((block + 1) * BLOCK).min(self.length());
        Extent::new(block * BLOCK, end - block * BLOCK).ok()
    }

    /// Bytes of the transfer: the last block has one byte, so that a short one is always there.
    pub const fn length(&self) -> u64 {
        length_of(self.blocks)
    }

    /// Success was told only where the target has its name, and failure only where it has not; but a sender whose last
    /// channel is gone need not know.
    fn agrees(&self) -> bool {
        let allowed = |side: Side, told: Told| match told {
            Told::Committed => self.committed,
            Told::Failed(_) => !self.committed || (side != self.target && self.unaware),
        };
        (0..2).all(|side| self.told[side].is_none_or(|told| allowed(side, told)))
    }

    /// The block that this range is exactly; none for any other range.
    fn block_of(&self, extent: Extent) -> Option<usize> {
        let index = extent.offset() / BLOCK;
        let end = ((index + 1) * BLOCK).min(self.length());
        let exact = extent.offset() == index * BLOCK && index < self.blocks && extent.end() == end;
        exact.then_some(index as usize)
    }
}

/// Bytes of a transfer of so many blocks.
pub const fn length_of(blocks: u64) -> u64 {
    if blocks == 0 { 0 } else { (blocks - 1) * BLOCK + 1 }
}

/// The properties that must hold, based only on what really happened.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Oracle {
    /// One per operation, in the order of the setting's plans.
    pub ledgers: Vec<Ledger>,
    /// Records that each side processed of each channel.
    processed: [Vec<u64>; 2],
    /// What the peer's FENCE for a channel said to each side.
    heard: [Vec<Option<u64>>; 2],
    /// What each side said in its FENCE for a channel.
    said: [Vec<Option<u64>>; 2],
    /// A copy of a block that was written already was dropped.
    pub dropped: bool,
    /// The first thing that went wrong; nothing is searched behind it.
    pub violation: Option<Violation>,
}

impl Oracle {
    /// Nothing has happened.
    pub fn new(setting: &Setting, kept: &[Extent]) -> Self {
        let channels = usize::from(setting.channels);
        let each = |value| [vec![value; channels], vec![value; channels]];
        Self {
            ledgers: setting.plans.iter().map(|plan| Ledger::new(plan, kept)).collect(),
            processed: [vec![0; channels], vec![0; channels]],
            heard: each(None),
            said: each(None),
            dropped: false,
            violation: None,
        }
    }

    /// Something is wrong.
    pub fn wrong(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    /// `side` has processed one more record of the channel.
    pub fn on_processed(&mut self, side: Side, channel: ChannelId) {
        let index = usize::from(channel.0) - 1;
        self.processed[side][index] += 1;
        if self.said[side][index].is_some() {
            self.wrong(Violation::Fence);
        }
    }

    /// `side` sends FENCE.
    pub fn on_fence_sent(&mut self, side: Side, channel: ChannelId, processed: u64) {
        let index = usize::from(channel.0) - 1;
        if self.processed[side][index] != processed || self.said[side][index].is_some_and(|said| said != processed) {
            self.wrong(Violation::Fence);
        }
        self.said[side][index] = Some(processed);
    }

    /// FENCE reached `side`.
    pub fn on_fence_heard(&mut self, side: Side, channel: ChannelId, processed: u64) {
        self.heard[side][usize::from(channel.0) - 1] = Some(processed);
    }

    /// A block leaves. `repeated` where patience ran out, which needs no fence.
    pub fn on_block_sent(&mut self, plan: usize, extent: Extent, to: (ChannelId, u64), repeated: bool) {
        let side = 1 - self.ledgers[plan].target;
        let ledger = &mut self.ledgers[plan];
        let Some(block) = ledger.block_of(extent) else { return self.wrong(Violation::Place) };
        let before = ledger.sent[block].replace(to);
        let Some((channel, sequence)) = before else { return };
        let fenced = self.heard[side][usize::from(channel.0) - 1].is_some_and(|processed| processed <= sequence);
        if !fenced && !repeated {
            self.wrong(Violation::Again);
        }
    }

    /// A block was written at the target, as it was sent or as another.
    pub fn on_written(&mut self, plan: usize, extent: Extent, altered: bool) {
        let ledger = &mut self.ledgers[plan];
        match ledger.block_of(extent) {
            Some(block) => {
                ledger.written |= 1 << block;
                ledger.altered = ledger.altered & !(1 << block) | u16::from(altered) << block;
            }
            None => self.wrong(Violation::Place),
        }
    }

    /// The machine wants to commit so many bytes.
    pub fn on_commit(&mut self, plan: usize, side: Side, length: u64) {
        let ledger = &mut self.ledgers[plan];
        let whole = ledger.written == ((1u32 << ledger.blocks) - 1) as u16 && length == ledger.length();
        if !whole || ledger.committing || side != ledger.target {
            self.wrong(Violation::Place);
        }
        if self.ledgers[plan].altered != 0 {
            self.wrong(Violation::Content);
        }
        self.ledgers[plan].committing = true;
    }

    /// What a comparison of hashes finds.
    pub fn compare(&self, plan: usize) -> Comparison {
        let ledger = &self.ledgers[plan];
        let altered = (0..ledger.blocks).filter(|block| ledger.altered & 1 << block != 0);
        let root = Some([u8::from(ledger.altered != 0); 32]);
        let bad = altered.filter_map(|block| ledger.extent_of(block)).collect();
        Comparison { root, bad, place: Mismatch::OnTheWay }
    }

    /// The sender was asked for these ranges once more: no fence is needed for them.
    pub fn on_again(&mut self, plan: usize, ranges: &[Extent]) {
        let ledger = &mut self.ledgers[plan];
        for (block, sent) in ledger.sent.iter_mut().enumerate() {
            if ranges.iter().any(|range| range.offset() <= block as u64 * BLOCK && block as u64 * BLOCK < range.end()) {
                *sent = None;
            }
        }
    }

    /// An end tells its application the outcome. `alone` where its session is over: it could not learn more.
    pub fn on_told(&mut self, plan: usize, side: Side, told: Told, alone: bool) {
        let ledger = &mut self.ledgers[plan];
        let twice = ledger.told[side].replace(told).is_some();
        ledger.unaware |= side != ledger.target && alone && told == Told::Failed(ErrorKind::ConnectionLost);
        if twice || !ledger.agrees() {
            self.wrong(Violation::Outcome);
        }
    }

    /// The target has its name.
    pub fn on_committed(&mut self, plan: usize) {
        self.ledgers[plan].committed = true;
        if !self.ledgers[plan].agrees() {
            self.wrong(Violation::Outcome);
        }
    }
}
