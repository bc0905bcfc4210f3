//! What one side holds for an operation, and in which phase: the data of a phase exist in that
//! phase alone (docs/decisions/0012-transfers.md). Nothing here calls the machine or the kernel.

use super::hashed::Hashed;
use super::{Block, ReadMode, TransferStats, WriteMode};
use crate::bounds;
use crate::schedule::QuotaClass;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use xdfs_io::dispatch::FileId;
use xdfs_io::store::Stage;
use xdfs_proto::base::{Error, Extent, Instant, OperationId, PipelineId, Timestamp};
use xdfs_proto::session::{Committed, PipelineMessage};
use xdfs_secure::content::Leaf;

/// How an operation ended, and what it moved.
pub type OperationOutcome = (Result<Committed, Error>, TransferStats);

/// Everything this side holds for an operation, from its first step to the reported outcome.
#[derive(Debug)]
pub struct Transfer {
    /// The share under which its storage calls run.
    pub share: QuotaClass,
    /// What was moved.
    pub stats: TransferStats,
    /// What is done about its hashes, if its content is hashed. It is of no phase: a pipeline that
    /// takes part may have released its stage before its job has read what an earlier attempt left.
    pub hashed: Option<Hashed>,
    /// The present phase.
    pub phase: Phase,
    /// Its outcome was reported, here or by the pipeline that coordinates it: before its last phase
    /// has ended or after it.
    pub reported: bool,
}

/// The phases of an operation on one side.
#[derive(Debug)]
pub enum Phase {
    /// A storage call opens its source or prepares its stage.
    Opening,
    /// A file is hashed instead of sent.
    Digesting(LongRead),
    /// The source is being sent.
    Reading(Reading),
    /// The stage is being written.
    Writing(Writing),
    /// Everything is written, and is being read and compared.
    Comparing(Writing, LongRead),
    /// Everything is written; this follows when nobody else holds the stage any more.
    Detaching(Writing, AfterDetach),
    /// The stage is becoming the target: the call has it.
    Committing,
    /// It ended while the kernel was sending from this file.
    Closing(FileId),
    /// It ended, and what was written is being kept for the next attempt. The outcome, once it is
    /// known, is reported after that, since a program may exit when it receives it.
    Keeping(Option<OperationOutcome>),
    /// Nothing is held but the counts.
    Done,
}

/// A source that is being sent.
#[derive(Debug)]
pub struct Reading {
    /// How it delivers its bytes.
    pub mode: ReadMode,
    /// Blocks are sent from buffers, whatever the source offers.
    pub buffered: bool,
}

/// A stage that is being written.
#[derive(Debug)]
pub struct Writing {
    /// How it takes its bytes.
    pub mode: WriteMode,
    /// Permission bits of the finished file.
    pub permissions: u32,
    /// Modification time of the finished file.
    pub modified: Option<Timestamp>,
    /// Blocks that are with the writer thread.
    pub at_writer: usize,
    /// How far its checkpoints are.
    pub checkpoint: Checkpoint,
}

/// How far the checkpoints of a stage are. At most one is in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checkpoint {
    /// None was needed yet.
    None,
    /// None is in progress. The last one was requested at this time, or the first one was needed.
    Since(Instant),
    /// The one that was requested at this time is in progress.
    InProgress(Instant),
}

/// What follows when nobody else holds the stage any more.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum AfterDetach {
    /// The stage becomes the target.
    Commit { length: u64, durable: bool },
    /// The pipeline that coordinates the operation may commit.
    Forward { to: PipelineId, message: PipelineMessage },
}

/// A job that reads a file from end to end; it stops when this is dropped.
#[derive(Debug, Default)]
pub struct LongRead(Arc<AtomicBool>);

impl LongRead {
    /// Set when the job must stop.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for LongRead {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How an arriving block is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrival {
    /// Its content is hashed: it is needed as a whole.
    pub hashed: bool,
    /// It is discarded when it has arrived.
    pub discarded: bool,
    /// It may have to wait for its turn.
    pub ordered: bool,
}

impl Transfer {
    /// An operation in its first phase.
    pub fn new(share: QuotaClass, phase: Phase) -> Self {
        Self { share, stats: TransferStats::default(), hashed: None, phase, reported: false }
    }

    /// The source, as long as it is being sent.
    pub fn reading(&self) -> Option<&Reading> {
        match &self.phase {
            Phase::Reading(reading) => Some(reading),
            _ => None,
        }
    }

    /// The same, to change it.
    pub fn reading_mut(&mut self) -> Option<&mut Reading> {
        match &mut self.phase {
            Phase::Reading(reading) => Some(reading),
            _ => None,
        }
    }

    /// The stage, as long as blocks of it may arrive, or may have to come again.
    pub fn writing(&self) -> Option<&Writing> {
        match &self.phase {
            Phase::Writing(writing) | Phase::Comparing(writing, _) => Some(writing),
            _ => None,
        }
    }

    /// The same, to change it.
    pub fn writing_mut(&mut self) -> Option<&mut Writing> {
        match &mut self.phase {
            Phase::Writing(writing) | Phase::Comparing(writing, _) => Some(writing),
            _ => None,
        }
    }

    /// The stage with the writer thread and the checkpoints that hold it: also when it is complete.
    pub fn held_mut(&mut self) -> Option<&mut Writing> {
        match &mut self.phase {
            Phase::Writing(writing) | Phase::Comparing(writing, _) | Phase::Detaching(writing, _) => Some(writing),
            _ => None,
        }
    }

    /// The file that is closed as soon as the kernel has sent what it was given of it.
    pub fn closing(&self) -> Option<FileId> {
        match self.phase {
            Phase::Closing(file) => Some(file),
            _ => None,
        }
    }

    /// How its blocks are taken.
    pub fn arrival(&self) -> Arrival {
        let mode = self.writing().map(|writing| &writing.mode);
        Arrival {
            hashed: self.hashed.is_some(),
            discarded: matches!(mode, Some(WriteMode::Discard(_))),
            ordered: matches!(mode, Some(WriteMode::Ordered { .. })),
        }
    }

    /// Begins a checkpoint if one is due: returns the stage that it is about, and the share under
    /// which it runs.
    pub fn begin_checkpoint(&mut self, now: Instant) -> Option<(Arc<Stage>, QuotaClass)> {
        let stage = self.writing_mut()?.begin_checkpoint(now)?;
        Some((stage, self.share.clone()))
    }

    /// What was written is being read and compared by a job, which stops when that is set; none where
    /// no stage is being written.
    pub fn begin_comparing(&mut self) -> Option<Arc<AtomicBool>> {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Writing(writing) => {
                let read = LongRead::default();
                let stop = read.stop();
                self.phase = Phase::Comparing(writing, read);
                Some(stop)
            }
            other => {
                self.phase = other;
                None
            }
        }
    }

    /// The comparison has ended; some blocks may have to come again.
    pub fn on_compared(&mut self) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Comparing(writing, _) => Phase::Writing(writing),
            other => other,
        };
    }

    /// Everything is written: `then` follows when nobody else holds the stage.
    ///
    /// # Errors
    ///
    /// Returns `then` where no stage is being written.
    pub fn detach(&mut self, then: AfterDetach) -> Result<(), AfterDetach> {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Writing(writing) => {
                self.phase = Phase::Detaching(writing, then);
                Ok(())
            }
            other => {
                self.phase = other;
                Err(then)
            }
        }
    }

    /// Takes the complete stage when nobody else holds it any more; none if somebody does, or if
    /// that is not what this operation waits for.
    pub fn detached(&mut self) -> Option<(Writing, AfterDetach)> {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Detaching(writing, then) if !writing.is_held() => Some((writing, then)),
            other => {
                self.phase = other;
                None
            }
        }
    }

    /// The outcome is known. Returns it if it is to be reported now, and not when what was written
    /// is kept.
    pub fn settle(&mut self, outcome: Result<Committed, Error>) -> Option<OperationOutcome> {
        let outcome = (outcome, std::mem::take(&mut self.stats));
        match &mut self.phase {
            Phase::Keeping(later) => {
                *later = Some(outcome);
                None
            }
            _ => {
                self.reported = true;
                Some(outcome)
            }
        }
    }

    /// What was written is kept. Returns the outcome that waited for that.
    pub fn on_kept(&mut self) -> Option<OperationOutcome> {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Keeping(outcome) => {
                self.reported |= outcome.is_some();
                outcome
            }
            other => {
                self.phase = other;
                None
            }
        }
    }

    /// Whether nothing of it is left to do.
    pub fn is_over(&self) -> bool {
        self.reported && matches!(self.phase, Phase::Done)
    }
}

impl Reading {
    /// A source whose bytes are delivered as it offers them.
    pub fn new(mode: ReadMode) -> Self {
        Self { mode, buffered: false }
    }
}

impl Writing {
    /// A stage to which nothing was written.
    pub fn new(mode: WriteMode, permissions: u32, modified: Option<Timestamp>) -> Self {
        Self { mode, permissions, modified, at_writer: 0, checkpoint: Checkpoint::None }
    }

    /// Passes the blocks whose turn it is to the writer, and returns their number.
    pub fn write_in_order(&mut self, operation: OperationId) -> usize {
        let WriteMode::Ordered { stage, writer, next, waiting } = &mut self.mode else { return 0 };
        let mut passed = 0;
        while let Some((buffer, length, leaf)) = waiting.remove(next) {
            // The machine has checked the range when the block arrived.
            let Ok(extent) = Extent::new(*next, length as u64) else { break };
            *next = extent.end();
            writer.write(Block { operation, stage: Arc::clone(stage), extent, buffer, leaf });
            passed += 1;
        }
        self.at_writer += passed;
        passed
    }

    /// Whether the writer thread or a checkpoint holds the stage.
    pub fn is_held(&self) -> bool {
        self.at_writer > 0 || matches!(self.checkpoint, Checkpoint::InProgress(_))
    }

    /// Begins a checkpoint if enough bytes were written or enough time has passed since the last
    /// one: returns the stage that it is about.
    fn begin_checkpoint(&mut self, now: Instant) -> Option<Arc<Stage>> {
        let stage = self.mode.stage();
        let unmarked = stage.unmarked();
        if unmarked == 0 {
            return None;
        }
        let since = match self.checkpoint {
            Checkpoint::None => now,
            Checkpoint::Since(since) => since,
            Checkpoint::InProgress(_) => return None,
        };
        if unmarked < bounds::MARKER_BYTES && now.since(since) < bounds::MARKER_PERIOD {
            self.checkpoint = Checkpoint::Since(since);
            return None;
        }
        self.checkpoint = Checkpoint::InProgress(now);
        Some(Arc::clone(stage))
    }

    /// The checkpoint that was in progress has ended.
    pub fn on_checkpoint(&mut self) {
        if let Checkpoint::InProgress(requested) = self.checkpoint {
            self.checkpoint = Checkpoint::Since(requested);
        }
    }
}

/// A block that arrived and was hashed is written.
pub fn hash_written(hashed: Option<&Hashed>, leaf: Option<Leaf>) {
    if let (Some(hashed), Some(leaf)) = (hashed, leaf) {
        hashed.hashing.add(leaf);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdfs_proto::base::{ErrorKind, Safety};

    fn writing() -> Writing {
        Writing::new(WriteMode::Discard(Arc::new(Stage::null())), 0o644, None)
    }

    fn transfer(phase: Phase) -> Transfer {
        Transfer::new(QuotaClass::default(), phase)
    }

    fn committed() -> Committed {
        Committed { length: 3, safety: Safety::Written, version: Vec::new(), root: None, reread: false }
    }

    fn commit() -> AfterDetach {
        AfterDetach::Commit { length: 3, durable: true }
    }

    #[test]
    fn an_outcome_waits_until_what_was_written_is_kept() {
        let error = Error::new(ErrorKind::Cancelled, "cancelled");
        let mut late = transfer(Phase::Keeping(None));
        late.stats.bytes = 7;
        assert_eq!(late.settle(Err(error.clone())), None);
        assert!(!late.is_over());
        let (outcome, stats) = late.on_kept().unwrap();
        assert_eq!((outcome, stats.bytes), (Err(error.clone()), 7));
        assert!(late.is_over());
        // The other order: it is reported when it is known.
        let mut early = transfer(Phase::Keeping(None));
        assert_eq!(early.on_kept(), None);
        assert!(!early.is_over());
        assert!(early.settle(Err(error)).is_some() && early.is_over());
    }

    #[test]
    fn a_stage_is_released_when_neither_the_writer_nor_a_checkpoint_holds_it() {
        let (idle, in_progress) = (Checkpoint::Since(Instant(1)), Checkpoint::InProgress(Instant(1)));
        let mut held = transfer(Phase::Writing(Writing { at_writer: 2, checkpoint: in_progress, ..writing() }));
        assert!(held.detached().is_none() && held.writing().is_some());
        held.detach(commit()).unwrap();
        assert!(held.writing().is_none(), "no block may arrive any more");
        assert!(held.begin_checkpoint(Instant(1 << 60)).is_none(), "nothing may take hold of it any more");
        for (at_writer, checkpoint) in [(2, idle), (0, in_progress), (1, in_progress)] {
            let writing = held.held_mut().unwrap();
            (writing.at_writer, writing.checkpoint) = (at_writer, checkpoint);
            assert!(held.detached().is_none(), "{at_writer} blocks, checkpoint: {checkpoint:?}");
        }
        let writing = held.held_mut().unwrap();
        writing.at_writer = 0;
        writing.on_checkpoint();
        assert_eq!(writing.checkpoint, idle);
        assert!(matches!(held.detached(), Some((_, AfterDetach::Commit { length: 3, durable: true }))));
        assert!(held.detached().is_none(), "once");
    }

    #[test]
    fn only_a_stage_that_is_being_written_can_be_detached() {
        for phase in [Phase::Opening, Phase::Committing, Phase::Closing(FileId(1)), Phase::Keeping(None), Phase::Done] {
            let name = format!("{phase:?}");
            let mut other = transfer(phase);
            assert!(other.detach(commit()).is_err(), "{name}");
            assert_eq!(format!("{:?}", other.phase), name);
        }
    }

    #[test]
    fn an_operation_is_over_when_its_phase_is_and_its_outcome_was_reported() {
        for phase in [Phase::Opening, Phase::Closing(FileId(1)), Phase::Done] {
            let over = matches!(phase, Phase::Done);
            let mut one = transfer(phase);
            assert!(!one.is_over());
            assert!(one.settle(Ok(committed())).is_some());
            assert_eq!(one.is_over(), over);
            one.phase = Phase::Done;
            assert!(one.is_over());
        }
    }

    #[test]
    fn a_job_stops_when_the_phase_that_waits_for_it_ends() {
        let read = LongRead::default();
        let stop = read.stop();
        let mut one = transfer(Phase::Digesting(read));
        assert!(!stop.load(Ordering::Relaxed));
        one.phase = Phase::Done;
        assert!(stop.load(Ordering::Relaxed));
    }
}
