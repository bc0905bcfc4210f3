//! What must be true, during a run and after it. It knows the plan and what both ends said and did, never what a machine
//! has inside.

use crate::disk::{self, Disk};
use crate::network::Side;
use crate::plan::Plan;
use crate::schedule::Who;
use crate::transition::{Fault, Task};
use std::collections::{BTreeMap, BTreeSet};
use xdfs_proto::base::{ChannelId, Error, ErrorKind, OperationId};
use xdfs_proto::session::{Committed, SessionEvent};
use xdfs_proto::wire::Head;
use xdfs_proto::wire::control::Control;

/// What one end said about an operation.
pub type Outcome = Result<Committed, Error>;

/// An operation as an observer of both ends sees it.
#[derive(Default)]
struct Seen {
    id: Option<OperationId>,
    /// The client could not even open it.
    refused: Option<Error>,
    /// The server heard of it.
    asked: bool,
    outcomes: [Option<Outcome>; 2],
    /// A fault struck that may end it.
    excused: bool,
    /// It came to its end in an earlier session.
    done: bool,
    /// It got its name in an earlier session, and nobody but the receiver heard of it.
    named: bool,
}

/// The properties that must hold during and after a run.
#[derive(Default)]
pub struct Oracle {
    operations: Vec<Seen>,
    /// Channels on which the wire did something that may end them.
    faulty: BTreeSet<ChannelId>,
    /// Machines that ended.
    over: BTreeSet<Who>,
    /// Machines that ended with an error.
    failed: BTreeSet<Who>,
    /// Everything may end: all channels of a pipeline were lost, or the server went down.
    excused: bool,
    /// How far a sender may go: operation and sending machine's pipeline.
    edges: BTreeMap<(OperationId, u8), u64>,
    /// Records that a machine processed, per channel.
    processed: BTreeMap<(Side, ChannelId), u64>,
    /// Blocks that arrived.
    pub blocks: u64,
    /// Keys that were followed by another.
    pub rekeyed: u64,
    /// Comparisons that found another content.
    pub repaired: u64,
    /// Bytes that attempts went on with.
    pub resumed: u64,
    /// Kinds of fault that struck, and how often.
    pub fired: BTreeMap<Fault, u64>,
    violation: Option<String>,
}

impl Oracle {
    /// For the operations of `plan`.
    pub fn new(plan: &Plan) -> Self {
        Self { operations: plan.operations.iter().map(|_| Seen::default()).collect(), ..Self::default() }
    }

    /// For what a restart left of the operations of `plan`; what was counted stays.
    pub fn again(&mut self, plan: &Plan, disks: &[Disk; 2]) {
        let fresh = Self::new(plan);
        let Self { blocks, rekeyed, repaired, resumed, .. } = *self;
        let (fired, violation) = (std::mem::take(&mut self.fired), self.violation.take());
        *self = Self { blocks, rekeyed, repaired, resumed, fired, violation, ..fresh };
        for (index, (seen, wish)) in self.operations.iter_mut().zip(&plan.operations).enumerate() {
            seen.done = wish.done;
            seen.named = disks[wish.sender().other().index()].target(index).is_some();
        }
    }

    /// Nobody tries anything again.
    pub fn nothing_left(&mut self) {
        self.operations.iter_mut().for_each(|seen| seen.done = true);
    }

    /// A fault struck.
    pub fn struck(&mut self, fault: Fault) {
        let count = self.fired.entry(fault).or_default();
        *count = if fault.lasts() { 1 } else { *count + 1 };
    }

    /// A restart breaks these channels.
    pub fn restarted(&mut self, channels: impl IntoIterator<Item = ChannelId>) {
        self.faulty.extend(channels);
    }

    /// Which operations nobody has to try again behind a restart: those that were done, and those that ended for a reason of their own.
    pub fn done(&self) -> Vec<bool> {
        let lost = |outcome: &Option<Outcome>| match outcome {
            None => true,
            Some(outcome) => outcome.as_ref().is_err_and(|error| error.kind == ErrorKind::ConnectionLost),
        };
        let again = |seen: &Seen| !seen.excused && seen.refused.is_none() && lost(&seen.outcomes[Side::Client.index()]);
        self.operations.iter().map(|seen| !again(seen)).collect()
    }

    /// Looks at what a restart left: what was told is there, and what has a name is whole.
    pub fn check_restart(&mut self, plan: &Plan, disks: &[Disk; 2], survivor: Side) {
        let left: Vec<_> = disks[survivor.index()].stages().collect();
        if !left.is_empty() {
            self.violation(|| format!("stages were left at the {survivor:?}, which lost its peer: {left:?}"));
        }
        for (index, wish) in plan.operations.iter().enumerate() {
            let target = disks[wish.sender().other().index()].target(index);
            let told = self.operations[index].outcomes.iter().flatten().any(Result::is_ok);
            let wrong = match target {
                Some(bytes) => Disk::expected(index, wish, bytes).err(),
                None => (told && wish.task != Task::Sum).then(|| "success was told, and there is no target".to_owned()),
            };
            if let Some(wrong) = wrong {
                self.violation(|| format!("operation {index}, behind a restart: {wrong}"));
            }
        }
    }

    /// Something is wrong; the first such thing is kept.
    pub fn violation(&mut self, text: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(text());
        }
    }

    /// The first thing that was wrong.
    pub fn verdict(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// The client opened an operation, or was refused.
    pub fn opened(&mut self, index: usize, result: Result<OperationId, Error>) {
        match result {
            Ok(id) => self.operations[index].id = Some(id),
            Err(error) => self.operations[index].refused = Some(error),
        }
    }

    /// The server heard of it.
    pub fn asked(&mut self, index: usize) {
        self.operations[index].asked = true;
    }

    /// Whether `side` has an outcome of the operation at `index`, or never got as far.
    pub fn is_settled(&self, side: Side, index: usize) -> bool {
        let seen = &self.operations[index];
        seen.refused.is_some() || seen.outcomes[side.index()].is_some()
    }

    /// An end knows the outcome.
    pub fn settled(&mut self, side: Side, index: usize, outcome: Outcome) {
        if let Some(error) = outcome.as_ref().err().filter(|error| error.kind == ErrorKind::Protocol) {
            let text = format!("operation {index} ended in a protocol error at the {side:?}: {error}");
            self.violation(|| text);
        }
        let place = &mut self.operations[index].outcomes[side.index()];
        if place.is_some() {
            return self.violation(|| format!("operation {index} was settled twice at the {side:?}"));
        }
        *place = Some(outcome);
    }

    /// A fault struck that may end one operation, or all.
    pub fn fault(&mut self, index: Option<usize>, fault: Fault) {
        self.struck(fault);
        match index {
            Some(index) => self.operations[index].excused = true,
            None => self.excused |= fault == Fault::Drain,
        }
    }

    /// Whether a record of the channel was processed at either end.
    pub fn has_joined(&self, channel: ChannelId) -> bool {
        Side::BOTH.into_iter().any(|side| self.processed.contains_key(&(side, channel)))
    }

    /// A fault struck on the wire.
    pub fn wire_fault(&mut self, channel: ChannelId, fault: Fault) {
        self.struck(fault);
        if !matches!(fault, Fault::ShortReads | Fault::ShortWrites | Fault::Pause | Fault::SlowChannel) {
            self.faulty.insert(channel);
        }
    }

    /// A machine says something to its application.
    pub fn event(&mut self, who: Who, event: &SessionEvent) {
        match event {
            SessionEvent::ChannelLost { channel, error } => {
                let peer = Who { side: who.side.other(), ..who };
                if !self.faulty.contains(channel) && !self.over.contains(&peer) {
                    self.violation(|| format!("{who:?} lost the healthy channel {channel}: {error}"));
                }
            }
            SessionEvent::Over { error } => {
                self.over.insert(who);
                if let Some(error) = error {
                    self.failed.insert(who);
                    self.excused = true;
                    if error.kind == ErrorKind::Protocol {
                        self.violation(|| format!("{who:?} ended the session: {error}"));
                    }
                }
            }
            _ => {}
        }
    }

    /// A machine ends a channel. In order: only after both EOFT; else: only for a reason.
    pub fn closed(&mut self, who: Who, channel: ChannelId, error: Option<&Error>) {
        let Some(error) = error else { return };
        let peer = Who { side: who.side.other(), ..who };
        if !self.faulty.contains(&channel) && !self.over.contains(&peer) && !self.any_lost(who) {
            self.violation(|| format!("{who:?} closed the healthy channel {channel}: {error}"));
        }
    }

    /// Whether some channel of this pipeline broke: then others that were ending may have to go with it.
    fn any_lost(&self, _who: Who) -> bool {
        !self.faulty.is_empty()
    }

    /// A record was processed.
    pub fn processed(&mut self, side: Side, channel: ChannelId, block: bool) {
        *self.processed.entry((side, channel)).or_default() += 1;
        self.blocks += u64::from(block);
    }

    /// A machine sends a control message.
    pub fn control(&mut self, who: Who, head: &Head, control: &Control, in_use: impl Fn(ChannelId) -> bool) {
        let mut edge = |pipeline: u8, edge: u64| {
            let known = self.edges.entry((head.operation, pipeline)).or_default();
            *known = edge.max(*known);
        };
        match control {
            Control::Credit(to) => edge(who.pipeline, *to),
            Control::Ack(ack) => edge(who.pipeline, ack.credit_limit),
            // Whatever range they lie in, the coordinator's pipeline sends them.
            Control::Again { .. } => edge(who.pipeline, u64::MAX),
            Control::Grant(grant) => edge(who.pipeline, grant.credit_limit),
            Control::Fence { channel, processed } => {
                let (channel, processed) = (*channel, *processed);
                let known = self.processed.get(&(who.side, channel)).copied().unwrap_or(0);
                if known != processed || in_use(channel) {
                    self.violation(|| {
                        format!("{who:?} fences channel {channel} at {processed}, {known} records were processed")
                    });
                }
            }
            _ => {}
        }
    }

    /// The client asks for a download: bytes that may be sent before the first CREDIT.
    pub fn initial_credit(&mut self, id: OperationId, pipeline: u8, bytes: u64) {
        self.edges.insert((id, pipeline), bytes);
    }

    /// A machine sends a block.
    pub fn block(&mut self, who: Who, head: &Head) {
        let edge = self.edges.get(&(head.operation, who.pipeline)).copied().unwrap_or(0);
        let end = head.offset + u64::from(head.length);
        if end > edge {
            self.violation(|| {
                format!("{who:?} sends {}..{end} of operation {}, granted up to {edge}", head.offset, head.operation)
            });
        }
    }

    /// Looks at everything once the run is over.
    pub fn finish(&mut self, plan: &Plan, disks: &[Disk; 2], ended: bool) {
        if !ended {
            self.violation(|| "not every machine ended".to_owned());
        }
        for side in Side::BOTH {
            let left: Vec<_> = disks[side.index()].stages().collect();
            if !left.is_empty() {
                self.violation(|| format!("stages were left at the {side:?}: {left:?}"));
            }
        }
        for index in 0..self.operations.len() {
            if let Err(text) = self.judge(index, plan, disks) {
                let task = plan.operations[index].task;
                let outcomes = format!("{:?}", self.operations[index].outcomes);
                self.violation(|| format!("operation {index} ({task:?}): {text}; client and server say {outcomes}"));
            }
        }
    }

    fn judge(&self, index: usize, plan: &Plan, disks: &[Disk; 2]) -> Result<(), String> {
        let (seen, wish) = (&self.operations[index], &plan.operations[index]);
        if seen.done {
            return Ok(());
        }
        let excused = self.excused || seen.excused || wish.is_out_of_range();
        let receiver = wish.sender().other();
        let target = disks[receiver.index()].target(index);
        if disks[wish.sender().index()].target(index).is_some() {
            return Err("a target at the sending end".into());
        }
        let [client, server] = &seen.outcomes;
        if let Some(error) = &seen.refused {
            let by_plan = excused || self.fired.contains_key(&Fault::CloseEarly);
            return if by_plan { Ok(()) } else { Err(format!("it could not be opened: {error}")) };
        }
        let client = client.as_ref().ok_or("the client has no outcome")?;
        if seen.asked && server.is_none() {
            return Err("the server has no outcome".into());
        }
        let (sends, receives) = match wish.sender() {
            Side::Client => (Some(client), server.as_ref()),
            Side::Server => (server.as_ref(), Some(client)),
        };
        if sends.is_some_and(Result::is_ok) && !receives.is_some_and(Result::is_ok) {
            return Err("the sender reports success, the receiver does not".into());
        }
        let sender_failed = self.failed.iter().any(|who| who.side == wish.sender());
        if receives.is_some_and(Result::is_ok) && sends.is_some_and(Result::is_err) && !sender_failed {
            return Err("the receiver committed, the sender reports a failure although its session lived".into());
        }
        match (receives, target) {
            (Some(Ok(committed)), None) if wish.task == Task::Sum && committed.root == Some(disk::SUM) => {}
            (Some(Ok(_)), None) => return Err("success, but no target".into()),
            (Some(Ok(committed)), Some(bytes)) => {
                Disk::expected(index, wish, bytes)?;
                if committed.length != wish.bytes() {
                    return Err(format!("the outcome names {} bytes, not {}", committed.length, wish.bytes()));
                }
            }
            (Some(Err(_)) | None, Some(bytes)) if seen.named => Disk::expected(index, wish, bytes)?,
            (Some(Err(_)) | None, Some(_)) => return Err("failure, but there is a target".into()),
            _ => {}
        }
        if client.is_err() && !excused {
            return Err("it failed although nothing happened that ends it".into());
        }
        Ok(())
    }
}
