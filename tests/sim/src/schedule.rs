//! The virtual clock: what happens next. Events of one moment come in an order that the seed chooses.
//!
//! It must not look at a real clock; nothing here waits.

use crate::network::{Side, Wake};
use crate::random::Random;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use xdfs_proto::base::{ChannelId, Extent, Instant, OperationId};
use xdfs_proto::session::PipelineMessage;

/// One machine: a pipeline of one side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Who {
    /// The side.
    pub side: Side,
    /// The pipeline.
    pub pipeline: u8,
}

/// A storage call that takes time.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "named like the calls of the disk")]
pub enum Job {
    Open(OperationId),
    Stage(OperationId),
    Write(OperationId, Extent, Vec<u8>),
    Check(OperationId),
    Verify(OperationId, u64),
    Commit(OperationId),
    Execute(OperationId),
}

/// Something that happens.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the variant's line names its fields")]
pub enum Event {
    /// The wire tells an endpoint something.
    Wake(Wake),
    /// A record was taken by the transport as a whole.
    Sent(Who, ChannelId),
    /// A parked head is judged again.
    Resume(Who, ChannelId),
    /// A storage call completes.
    Disk(Who, Job),
    /// A pipeline hears from another one of its side.
    ToPipeline { to: Who, from: u8, message: PipelineMessage },
    /// The regular look at the clock.
    Tick(Who),
    /// The machine asked to be called now.
    Timer(Who),
    /// The client has connected: channel and secret of its grant.
    Join(ChannelId, [u8; 32]),
    /// The client opens the operation with this place in the plan.
    Open(usize),
    /// The client makes the calls with this place in the plan.
    Calls(usize),
    /// A source that is read in order delivers more.
    Stream(usize),
    /// A planned fault strikes.
    Act(usize),
    /// Everything is done: the client closes.
    Close,
}

struct Entry {
    at: Instant,
    /// Drawn, then counted: equal moments are in a random order that the seed repeats.
    tie: (u64, u64),
    event: Event,
}

/// The virtual clock and its events.
pub struct Schedule {
    heap: BinaryHeap<Entry>,
    random: Random,
    count: u64,
}

impl Schedule {
    /// Nothing planned.
    pub fn new(random: Random) -> Self {
        Self { heap: BinaryHeap::new(), random, count: 0 }
    }

    /// `event` happens at `at`.
    pub fn add(&mut self, at: Instant, event: Event) {
        self.count += 1;
        self.heap.push(Entry { at, tie: (self.random.bits(), self.count), event });
    }

    /// What happens next.
    pub fn pop(&mut self) -> Option<(Instant, Event)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// Reversed: the heap hands out its greatest entry.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.tie).cmp(&(self.at, self.tie))
    }
}
