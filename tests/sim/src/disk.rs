//! Storage of one end: sources that may change or fail while they are read, stages that may be refused or run full,
//! targets that appear at commit. Everything is named by its operation, as in the stores of the engine.
//!
//! It must not call a machine: the driver asks, waits as long as [`Disk::delay`] says, and asks for the result.

use crate::content::Content;
use crate::plan::Plan;
use crate::random::Random;
use crate::transition::{Fault, OperationPlan, Task};
use std::collections::BTreeMap;
use xdfs_proto::base::{Digest, Duration, Error, ErrorKind, Extent, OperationId, Timestamp};
use xdfs_proto::session::{Comparison, Mismatch, SourceFacts};

/// The hash of whatever is asked for instead of its bytes.
pub const SUM: Digest = [0x5a; 32];

/// Something that is read.
struct Source {
    index: usize,
    content: Content,
    size: u64,
    /// Content and size when it was opened.
    opened: (Content, u64),
    /// Start of the transfer's range.
    offset: u64,
    unreadable_from: Option<u64>,
    /// The last look at it was asked for: what is read after that has to be compared again.
    checked: bool,
    /// A source that is read in order: bytes that it has delivered, and that it has forgotten.
    stream: Option<(u64, u64)>,
}

/// Something that is written and has no name yet.
struct Stage {
    index: usize,
    bytes: Vec<u8>,
    /// Room of the disk.
    fault: Option<(Fault, u64)>,
    in_order: Option<InOrder>,
    /// Commit was asked for: nothing is written any more.
    sealed: bool,
    /// Blocks that were written, and those of them that a marker told of; none where nothing can be gone on with.
    ledger: Option<(Vec<Extent>, Vec<Extent>)>,
}

/// What an attempt left.
struct Part {
    bytes: Vec<u8>,
    noted: Vec<Extent>,
}

#[derive(Default)]
struct InOrder {
    next: u64,
    held: BTreeMap<u64, (Extent, Vec<u8>)>,
}

/// The simulated storage of one end.
pub struct Disk {
    random: Random,
    slow: bool,
    sources: BTreeMap<OperationId, Source>,
    stages: BTreeMap<OperationId, Stage>,
    targets: BTreeMap<usize, Vec<u8>>,
    parts: BTreeMap<usize, Part>,
    fired: Vec<(Option<usize>, Fault)>,
}

/// Why bytes of a source are not what was promised.
pub struct Unreadable {
    /// The error for the machine.
    pub error: Error,
    /// The source had passed its last check: what was read must not be sent.
    pub after_check: bool,
}

/// What the source of the operation at `index` calls its first version.
pub fn version_of(index: usize) -> Vec<u8> {
    vec![index as u8; 8]
}

/// First version of the source of the operation at `index`.
pub const fn content_of(index: usize) -> Content {
    Content(index as u64 * 2 + 1)
}

impl Disk {
    /// Empty storage.
    pub fn new(random: Random, slow: bool) -> Self {
        Self {
            random,
            slow,
            sources: BTreeMap::new(),
            stages: BTreeMap::new(),
            targets: BTreeMap::new(),
            parts: BTreeMap::new(),
            fired: Vec::new(),
        }
    }

    /// How long the next call takes.
    pub fn delay(&mut self) -> Duration {
        let late = self.slow && self.random.chance(300);
        if late {
            self.fired.push((None, Fault::SlowDisk));
        }
        Duration::from_micros(if late { self.random.magnitude(1_000, 300_000) } else { self.random.magnitude(1, 500) })
    }

    /// Faults that struck: the operation's place in the plan where it is one operation's, and the kind.
    pub fn take_fired(&mut self) -> Vec<(Option<usize>, Fault)> {
        std::mem::take(&mut self.fired)
    }

    /// Opens the source of the operation at `index` of the plan.
    pub fn open(&mut self, id: OperationId, index: usize, plan: &OperationPlan) -> Result<SourceFacts, Error> {
        if let Some((Fault::SourceMissing, _)) = plan.disk {
            self.fired.push((Some(index), Fault::SourceMissing));
            return Err(Error::new(ErrorKind::NotFound, "no such file"));
        }
        let unreadable_from = plan.disk.filter(|(fault, _)| *fault == Fault::SourceUnreadable).map(|(_, from)| from);
        let source = Source {
            index,
            content: content_of(index),
            size: plan.size,
            opened: (content_of(index), plan.size),
            offset: plan.offset,
            unreadable_from,
            checked: false,
            stream: (plan.task == Task::UploadStream).then_some((0, 0)),
        };
        self.sources.insert(id, source);
        Ok(SourceFacts {
            size: Some(plan.size),
            mode: 0o644,
            modified: Some(Timestamp::new(index as i64, 7)),
            version: version_of(index),
            resembles: false,
            sum: (plan.task == Task::Sum).then_some(SUM),
        })
    }

    /// Closes the source.
    pub fn close(&mut self, id: OperationId) {
        self.sources.remove(&id);
    }

    /// The source becomes another. Whether there is one.
    pub fn change(&mut self, id: OperationId, shrink: bool) -> bool {
        let Some(source) = self.sources.get_mut(&id).filter(|source| source.stream.is_none()) else { return false };
        if shrink {
            source.size -= source.size.saturating_sub(source.offset).min(1 + self.random.below(200_000));
            self.fired.push((Some(source.index), Fault::SourceShrank));
        } else {
            source.content = Content(source.content.0 + 1);
            self.fired.push((Some(source.index), Fault::SourceChanged));
        }
        true
    }

    /// A source that is read in order has delivered up to `available`, and forgets what lies below `forgotten`.
    pub fn stream(&mut self, id: OperationId, available: u64, forgotten: u64) {
        if let Some(Source { stream: Some(stream), .. }) = self.sources.get_mut(&id) {
            *stream = (stream.0.max(available), stream.1.max(forgotten));
        }
    }

    /// Appends a range of the transfer to `bytes`. Whatever happens, as many bytes are appended as were asked for: zeros
    /// where there is nothing, as the design demands of a started record.
    pub fn read(&mut self, id: OperationId, extent: Extent, bytes: &mut Vec<u8>) -> Result<(), Unreadable> {
        let length = extent.length() as usize;
        let Some(source) = self.sources.get_mut(&id) else {
            bytes.resize(bytes.len() + length, 0);
            let error = Error::new(ErrorKind::Storage, "the source is closed");
            return Err(Unreadable { error, after_check: false });
        };
        let after_check = source.checked;
        if let Some((available, forgotten)) = source.stream {
            assert!(extent.end() <= available, "a stream is read beyond what it delivered");
            assert!(extent.offset() >= forgotten, "a stream is read below what was acknowledged");
        }
        if source.unreadable_from.is_some_and(|from| extent.end() > from) {
            bytes.resize(bytes.len() + length, 0);
            self.fired.push((Some(source.index), Fault::SourceUnreadable));
            return Err(Unreadable { error: Error::new(ErrorKind::Storage, "input/output error"), after_check });
        }
        let there = source.size.saturating_sub(source.offset + extent.offset()).min(extent.length());
        source.content.append(source.offset + extent.offset(), there as usize, bytes);
        bytes.resize(bytes.len() + (extent.length() - there) as usize, 0);
        let changed = after_check && (source.content, source.size) != source.opened;
        if there < extent.length() || changed {
            return Err(Unreadable { error: Error::new(ErrorKind::SourceChanged, "the source changed"), after_check });
        }
        Ok(())
    }

    /// A last look at the source is asked for.
    pub fn begin_check(&mut self, id: OperationId) {
        if let Some(source) = self.sources.get_mut(&id) {
            source.checked = true;
        }
    }

    /// What the last look found.
    pub fn check(&mut self, id: OperationId) -> Result<(), Error> {
        match self.sources.get(&id) {
            Some(source) if (source.content, source.size) == source.opened => Ok(()),
            _ => Err(Error::new(ErrorKind::SourceChanged, "the source changed")),
        }
    }

    /// Prepares a target. The window that it bounds, where it takes bytes in order only; what an earlier attempt left of it.
    pub fn stage(
        &mut self,
        id: OperationId,
        index: usize,
        plan: &OperationPlan,
        block: u32,
    ) -> Result<(Option<u64>, Vec<Extent>), Error> {
        if let Some((Fault::StageRefused, _)) = plan.disk {
            self.fired.push((Some(index), Fault::StageRefused));
            return Err(Error::new(ErrorKind::PermissionDenied, "the target cannot be made"));
        }
        let in_order = plan.in_order.map(|_| InOrder::default());
        let part = self.parts.remove(&index).filter(|_| plan.resumes());
        let Part { bytes, noted } = part.unwrap_or(Part { bytes: Vec::new(), noted: Vec::new() });
        let ledger = plan.resumes().then(|| (noted.clone(), noted.clone()));
        let stage = Stage { index, bytes, fault: plan.disk, in_order, sealed: false, ledger };
        self.stages.insert(id, stage);
        Ok((plan.in_order.map(|blocks| blocks * u64::from(block)), noted))
    }

    /// What an earlier attempt left of the target of the operation at `index`.
    pub fn kept(&self, index: usize) -> Vec<Extent> {
        self.parts.get(&index).map_or_else(Vec::new, |part| part.noted.clone())
    }

    /// A block is written whole. Now and then a marker follows.
    pub fn complete(&mut self, id: OperationId, block: Extent) {
        let Some(Stage { ledger: Some((written, noted)), sealed: false, .. }) = self.stages.get_mut(&id) else {
            return;
        };
        add(written, block);
        if self.random.chance(MARKERS) {
            noted.clone_from(written);
        }
    }

    /// These blocks are to come again: what is there of them counts no more.
    pub fn void(&mut self, id: OperationId, bad: &[Extent]) {
        if let Some(Stage { ledger: Some((written, noted)), .. }) = self.stages.get_mut(&id) {
            for ranges in [written, noted] {
                *ranges = without(ranges, bad);
            }
        }
    }

    /// The program is killed, or the machine with it: what a marker told of is there, and of the rest nobody knows.
    pub fn restart(&mut self, power: bool) {
        self.sources.clear();
        for (_, stage) in std::mem::take(&mut self.stages) {
            let Some((_, noted)) = stage.ledger else { continue };
            let mut bytes = stage.bytes;
            if power {
                let whole = Extent::new(0, bytes.len() as u64).expect("it is in memory");
                for lost in without(&[whole], &noted) {
                    bytes[lost.offset() as usize..lost.end() as usize].fill(0);
                }
            }
            self.parts.insert(stage.index, Part { bytes, noted });
        }
    }

    /// Whether the target takes bytes in order only.
    pub fn is_in_order(&self, id: OperationId) -> bool {
        self.stages.get(&id).is_some_and(|stage| stage.in_order.is_some())
    }

    /// Writes bytes that may come in parts of a block. Where the stage is gone or sealed they are dropped.
    pub fn write(&mut self, id: OperationId, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let Some(stage) = self.stages.get_mut(&id).filter(|stage| !stage.sealed) else { return Ok(()) };
        let end = offset + bytes.len() as u64;
        match stage.fault {
            Some((Fault::NoSpace, room)) if end > room => {
                self.fired.push((Some(stage.index), Fault::NoSpace));
                return Err(Error::new(ErrorKind::NoSpace, "no space left on device"));
            }
            Some((Fault::WriteError, at)) if offset <= at && at < end => {
                self.fired.push((Some(stage.index), Fault::WriteError));
                return Err(Error::new(ErrorKind::Storage, "input/output error"));
            }
            _ => {}
        }
        let (from, to) = (offset as usize, end as usize);
        if stage.bytes.len() == from {
            stage.bytes.extend_from_slice(bytes);
            return Ok(());
        }
        if stage.bytes.len() < to {
            stage.bytes.resize(to, 0);
        }
        stage.bytes[from..to].copy_from_slice(bytes);
        Ok(())
    }

    /// Writes a whole block to a target that takes them in order; which blocks that completes, and how.
    pub fn write_in_order(
        &mut self,
        id: OperationId,
        extent: Extent,
        bytes: Vec<u8>,
    ) -> Vec<(Extent, Result<(), Error>)> {
        let Some(InOrder { next, held }) = self.stages.get_mut(&id).and_then(|stage| stage.in_order.as_mut()) else {
            return vec![(extent, Ok(()))];
        };
        if extent.offset() < *next {
            return vec![(extent, Ok(()))];
        }
        let mut next = *next;
        held.insert(extent.offset(), (extent, bytes));
        let mut completed = Vec::new();
        loop {
            let held = self.stages.get_mut(&id).and_then(|stage| stage.in_order.as_mut());
            let Some((extent, bytes)) = held.and_then(|order| order.held.remove(&next)) else { break };
            completed.push((extent, self.write(id, extent.offset(), &bytes)));
            next = extent.end();
        }
        if let Some(order) = self.stages.get_mut(&id).and_then(|stage| stage.in_order.as_mut()) {
            order.next = next;
        }
        completed
    }

    /// Blocks that wait for their turn.
    pub fn held(&self, id: OperationId) -> usize {
        self.stages.get(&id).and_then(|stage| stage.in_order.as_ref()).map_or(0, |order| order.held.len())
    }

    /// What a comparison of hashes finds in a stage: the blocks whose bytes are not those of the source.
    pub fn compare(&self, id: OperationId, plan: &OperationPlan, length: u64, block: u32) -> Comparison {
        let Some(stage) = self.stages.get(&id) else { return Comparison::default() };
        let mut bytes = stage.bytes.clone();
        bytes.resize(length as usize, 0);
        let content = content_of(stage.index);
        let differs = |offset: u64, part: &[u8]| content.difference(plan.offset + offset, part).is_some();
        let blocks = bytes.chunks(block as usize).zip((0..).step_by(block as usize));
        let bad: Vec<_> = blocks
            .filter(|(part, offset)| differs(*offset, part))
            .filter_map(|(part, offset)| Extent::new(offset, part.len() as u64).ok())
            .collect();
        Comparison { root: Some([u8::from(!bad.is_empty()); 32]), bad, place: Mismatch::OnTheWay }
    }

    /// Commit is asked for.
    pub fn begin_commit(&mut self, id: OperationId, length: u64) {
        if let Some(stage) = self.stages.get_mut(&id) {
            stage.sealed = true;
            stage.bytes.resize(length as usize, 0);
        }
    }

    /// The target gets its name, or not. None where there is no stage.
    pub fn commit(&mut self, id: OperationId) -> Option<Result<Vec<u8>, Error>> {
        let stage = self.stages.remove(&id)?;
        if let Some((Fault::CommitRefused, _)) = stage.fault {
            self.fired.push((Some(stage.index), Fault::CommitRefused));
            return Some(Err(Error::new(ErrorKind::PermissionDenied, "the target cannot be renamed")));
        }
        self.targets.insert(stage.index, stage.bytes);
        Some(Ok(vec![1]))
    }

    /// Drops a stage, or leaves what was written of it for the next attempt.
    pub fn abort(&mut self, id: OperationId, keep: bool) {
        let Some(stage) = self.stages.remove(&id) else { return };
        if let Some((written, _)) = stage.ledger.filter(|_| keep) {
            self.parts.insert(stage.index, Part { bytes: stage.bytes, noted: written });
        }
    }

    /// Stages that are left.
    pub fn stages(&self) -> impl Iterator<Item = OperationId> {
        self.stages.keys().copied()
    }

    /// The target of the operation at `index` of the plan, once it has its name.
    pub fn target(&self, index: usize) -> Option<&[u8]> {
        self.targets.get(&index).map(Vec::as_slice)
    }

    /// Whether `bytes` are what the operation of `plan` was to move.
    pub fn expected(index: usize, plan: &OperationPlan, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() as u64 != plan.bytes() {
            return Err(format!("the target has {} bytes, not {}", bytes.len(), plan.bytes()));
        }
        match content_of(index).difference(plan.offset, bytes) {
            None => Ok(()),
            Some(at) => Err(format!("the target differs from the source at byte {at} of {}", bytes.len())),
        }
    }
}

/// In how many of a thousand blocks a marker follows.
const MARKERS: u32 = 300;

/// `range` is there, too: the ranges stay ascending and apart.
fn add(ranges: &mut Vec<Extent>, range: Extent) {
    let (mut start, mut end) = (range.offset(), range.end());
    ranges.retain(|other| {
        let touches = other.offset() <= end && start <= other.end();
        if touches {
            (start, end) = (start.min(other.offset()), end.max(other.end()));
        }
        !touches
    });
    let at = ranges.partition_point(|other| other.end() < start);
    ranges.insert(at, Extent::new(start, end - start).expect("as long as two of them"));
}

/// What of `ranges` is not in `taken`.
fn without(ranges: &[Extent], taken: &[Extent]) -> Vec<Extent> {
    let mut left = ranges.to_vec();
    for hole in taken {
        let parts = left.iter().flat_map(|range| {
            let cut = |from: u64, to: u64| (from < to).then(|| Extent::new(from, to - from).expect("within the range"));
            let before = cut(range.offset(), range.end().min(hole.offset()));
            [before, cut(range.offset().max(hole.end()), range.end())]
        });
        left = parts.flatten().collect();
    }
    left
}

/// The operation's place in the plan, from the remote name of its request.
pub fn index_of(name: &[u8], plan: &Plan) -> Option<usize> {
    let text = std::str::from_utf8(name).ok()?.strip_prefix("sim/")?;
    text.parse().ok().filter(|index| *index < plan.operations.len())
}
