//! Batches of calls beside the transfers: done once at most, heard only where they were done, and never with other bytes than
//! they were told with.

use crate::network::Side;
use crate::random::Random;
use crate::schedule::{Event, Who};
use crate::simulation::Simulation;
use std::collections::BTreeMap;
use xdfs_proto::base::{Error, ErrorKind, Instant, OperationId};
use xdfs_proto::session::{CallService, Committed};

/// Longest batch or reply here: below the smallest block.
const BYTES_MAX: u64 = 60_000;

/// A batch that the client makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallsPlan {
    at: Instant,
    pipeline: u8,
    bytes: u32,
    reply: u32,
}

impl CallsPlan {
    /// Those of a session of so many pipelines.
    pub fn draw(random: &mut Random, pipelines: u8) -> Vec<Self> {
        let count = if random.chance(500) { random.magnitude(1, 12) } else { 0 };
        let mut one = |_| Self {
            at: Instant(random.magnitude(1, 100_000_000)),
            pipeline: random.below(pipelines.into()) as u8,
            bytes: random.magnitude(1, BYTES_MAX) as u32,
            reply: random.magnitude(1, BYTES_MAX) as u32,
        };
        (0..count).map(&mut one).collect()
    }
}

struct Seen {
    reply: u32,
    done: u32,
    heard: u32,
    aborted: bool,
    told: [Option<Result<(), ErrorKind>>; 2],
}

/// What was seen of all of them.
#[derive(Default)]
pub struct Calls(BTreeMap<OperationId, Seen>);

/// What a batch or its reply consists of.
pub fn content(id: OperationId, request: bool, length: u32) -> Vec<u8> {
    (0..length).map(|at| (at ^ id.0.wrapping_mul(31) ^ u32::from(request)) as u8).collect()
}

impl Calls {
    /// Whether the operation is one of calls.
    pub fn has(&self, id: OperationId) -> bool {
        self.0.contains_key(&id)
    }

    /// A batch is to be done.
    pub fn on_execute(&mut self, id: OperationId) -> Result<(), String> {
        let seen = self.0.get_mut(&id).ok_or("calls that nobody made are to be done")?;
        seen.done += 1;
        if seen.done == 1 { Ok(()) } else { Err(format!("the calls of operation {id} are done again")) }
    }

    /// Nothing more of it is to be begun.
    pub fn abort(&mut self, id: OperationId) {
        self.0.get_mut(&id).into_iter().for_each(|seen| seen.aborted = true);
    }

    /// How a batch that was to be done ended.
    pub fn answer(&mut self, id: OperationId, begun: bool) -> Result<u32, Error> {
        let seen = self.0.get(&id).expect("it is to be done");
        if seen.aborted && !begun {
            return Err(Error::new(ErrorKind::Cancelled, "not begun"));
        }
        Ok(seen.reply)
    }

    /// A reply was taken.
    pub fn on_reply(&mut self, id: OperationId) {
        self.0.get_mut(&id).into_iter().for_each(|seen| seen.heard += 1);
    }

    /// An end was told the outcome.
    pub fn settled(&mut self, side: Side, id: OperationId, outcome: &Result<Committed, Error>) -> Result<(), String> {
        let seen = self.0.get_mut(&id).ok_or("an outcome of nothing")?;
        let told = outcome.as_ref().map(drop).map_err(|error| error.kind);
        if told == Err(ErrorKind::Protocol) {
            return Err(format!("calls of operation {id} ended in a protocol error"));
        }
        match seen.told[side.index()].replace(told) {
            None => Ok(()),
            Some(_) => Err(format!("calls of operation {id} were settled twice at the {side:?}")),
        }
    }

    /// Looks at all of them when the session is over.
    pub fn finish(&self, ended: bool) -> Result<(), String> {
        for (id, seen) in &self.0 {
            let [client, server] = &seen.told;
            let ok = |told: &Option<Result<(), ErrorKind>>| *told == Some(Ok(()));
            let wrong = if ended && client.is_none() {
                "the client has no outcome"
            } else if ok(client) && (seen.heard, seen.done) != (1, 1) {
                "success at the client, and not one reply to what was done once"
            } else if ok(client) && !ok(server) {
                "the client reports success, the server does not"
            } else if ok(server) && seen.done != 1 {
                "the server reports success of what was not done"
            } else if !ok(client) && seen.heard > 0 {
                "a reply was heard, and a failure is reported"
            } else {
                continue;
            };
            return Err(format!("calls of operation {id}: {wrong}; client and server say {:?}", seen.told));
        }
        Ok(())
    }
}

impl Simulation {
    /// The client makes calls.
    pub(crate) fn make_calls(&mut self, index: usize) {
        let Some(plan) = self.around.plan.calls.get(index).copied() else { return };
        let place = self.place(Who { side: Side::Client, pipeline: plan.pipeline });
        // As the client does it: a pipeline takes part from its first channel on.
        if self.worlds[place].session.channels_up() == 0 {
            return;
        }
        // Too many at a time, or on the way to the end: then not.
        let service = if index.is_multiple_of(2) { CallService::Path } else { CallService::File };
        let Ok(id) = self.worlds[place].session.open_calls(service, plan.bytes) else { return };
        let seen = Seen { reply: plan.reply, done: 0, heard: 0, aborted: false, told: [None, None] };
        self.around.calls.0.insert(id, seen);
        self.worlds[place].pump(&mut self.around);
    }

    pub(crate) fn schedule_calls(&mut self) {
        for (index, calls) in self.around.plan.calls.iter().enumerate() {
            self.around.schedule.add(calls.at, Event::Calls(index));
        }
    }
}
