//! What can happen next. Some of it has to happen if nothing else does (a record arrives, storage returns); the rest is
//! faults, each within its budget, and only while something is under way.

use crate::setting::Setting;
use crate::world::{CLIENT, Job, SERVER, Side, World, number};
use xdfs_proto::base::{ChannelId, Instant, OperationId, PipelineId};
use xdfs_proto::session::Payload;

/// One step of the world.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// The next record of the channel, or the rest of it, arrives at this side.
    Deliver(Side, ChannelId),
    /// The next record of the channel, a block, arrives at this side as another.
    Alter(Side, ChannelId),
    /// The transport has taken this side's record.
    Accept(Side, ChannelId),
    /// A message from one pipeline of this side to another arrives.
    ToPipeline(Side, PipelineId, PipelineId),
    /// A storage call returns, well or not.
    Storage(Job, bool),
    /// The source of an upload of unknown length shows more, or its end.
    Source(OperationId),
    /// This side loses the channel, by an error or at its deadline.
    Lose(Side, ChannelId),
    /// Every channel breaks.
    CutAll,
    /// This side gives the operation up.
    Cancel(Side, OperationId),
    /// Patience with an acknowledgement runs out at this pipeline.
    Repeat(Side, PipelineId),
    /// An acknowledgement has waited long enough for company at this pipeline.
    Tick(Side, PipelineId),
    /// The client ends the session.
    Close,
    /// The server says that it goes down.
    Drain,
}

impl World {
    /// Everything that can happen next; nothing where the world has come to rest.
    pub fn actions(&self, setting: &Setting, actions: &mut Vec<Action>) {
        if self.oracle.violation.is_some() {
            return;
        }
        self.must_happen(setting, actions);
        if actions.is_empty() {
            self.time_passes(actions);
        }
        if !actions.is_empty() {
            self.may_fail(setting, actions);
        }
    }

    /// Nothing can happen any more, and nothing went wrong on the way.
    pub fn rests(&self, setting: &Setting) -> bool {
        let moving = self.lines.iter().flatten().any(|line| !line.queue.is_empty() && !line.parked);
        if moving || !self.jobs.is_empty() || self.oracle.violation.is_some() {
            return false;
        }
        let mut actions = Vec::new();
        self.actions(setting, &mut actions);
        actions.is_empty()
    }

    fn must_happen(&self, setting: &Setting, actions: &mut Vec<Action>) {
        for side in [CLIENT, SERVER] {
            for (index, line) in self.lines[side].iter().enumerate() {
                let channel = ChannelId(index as u16 + 1);
                if !line.queue.is_empty() && !line.parked {
                    actions.push(Action::Deliver(side, channel));
                }
                if line.busy && !line.closed {
                    actions.push(Action::Accept(side, channel));
                }
                if !line.closed && self.lines[1 - side][index].broken {
                    actions.push(Action::Lose(side, channel));
                }
            }
            for (index, queue) in self.to_pipelines[side].iter().enumerate() {
                if !queue.is_empty() {
                    let pipelines = usize::from(setting.pipelines);
                    let pipeline = |number: usize| PipelineId(number as u8);
                    actions.push(Action::ToPipeline(side, pipeline(index / pipelines), pipeline(index % pipelines)));
                }
            }
        }
        for (index, job) in self.jobs.iter().enumerate() {
            // Two writes of one block are one action.
            if index == 0 || self.jobs[index - 1] != *job {
                actions.push(Action::Storage(*job, true));
            }
        }
        for (index, plan) in setting.plans.iter().enumerate() {
            if !plan.known && self.shown[index] <= plan.blocks && self.oracle.ledgers[index].told[CLIENT].is_none() {
                actions.push(Action::Source(number(setting, index)));
            }
        }
        let settled = self.oracle.ledgers.iter().all(|ledger| ledger.told[CLIENT].is_some());
        if setting.close && !self.closing && settled {
            actions.push(Action::Close);
        }
    }

    /// Acknowledgements wait for company only where nothing else happens: sooner they would only add records that the
    /// next written block brings anyway.
    fn time_passes(&self, actions: &mut Vec<Action>) {
        for side in [CLIENT, SERVER] {
            for (pipeline, session) in self.ends[side].iter().enumerate() {
                if session.deadline().is_some_and(|at| at <= ACK_IS_DUE) {
                    actions.push(Action::Tick(side, PipelineId(pipeline as u8)));
                }
            }
        }
    }

    fn may_fail(&self, setting: &Setting, actions: &mut Vec<Action>) {
        if self.storage_faults > 0 {
            let jobs = self.jobs.iter().enumerate().filter(|(index, job)| *index == 0 || self.jobs[index - 1] != **job);
            actions.extend(jobs.map(|(_, job)| Action::Storage(*job, false)));
        }
        let up = |side: Side, index: usize| !self.lines[side][index].closed;
        for index in 0..usize::from(setting.channels) {
            for side in [CLIENT, SERVER] {
                if self.breaks > 0 && up(side, index) && !self.lines[1 - side][index].broken {
                    actions.push(Action::Lose(side, ChannelId(index as u16 + 1)));
                }
            }
        }
        for (side, index) in
            [CLIENT, SERVER].into_iter().flat_map(|side| (0..self.lines[side].len()).map(move |i| (side, i)))
        {
            let line = &self.lines[side][index];
            let block = line.queue.front().is_some_and(|record| matches!(record.payload, Payload::Block(_)));
            if self.flips > 0 && block && !line.parked {
                actions.push(Action::Alter(side, ChannelId(index as u16 + 1)));
            }
        }
        if self.cut_all {
            actions.push(Action::CutAll);
        }
        for side in [CLIENT, SERVER] {
            for (pipeline, session) in self.ends[side].iter().enumerate() {
                if self.repeats > 0 && session.deadline().is_some_and(|at| at > ACK_IS_DUE && at <= PATIENCE_IS_OUT) {
                    actions.push(Action::Repeat(side, PipelineId(pipeline as u8)));
                }
            }
            if self.cancels > 0 {
                for (index, plan) in setting.plans.iter().enumerate() {
                    let id = number(setting, index);
                    let mut here = self.ends[side][usize::from(plan.coordinator)].operations();
                    if here.any(|operation| operation.id() == id && !operation.is_settled()) {
                        actions.push(Action::Cancel(side, id));
                    }
                }
            }
        }
        if self.drain {
            actions.push(Action::Drain);
        }
    }
}

/// A moment at which every acknowledgement that waits for company is due, and no repetition is.
pub const ACK_IS_DUE: Instant = Instant(20_000_000);
/// A moment at which every block that went out at the start may be repeated, and no channel has stalled.
pub const PATIENCE_IS_OUT: Instant = Instant(1_000_000_000);
