//! Completions of storage, and how operations fail because of them.

use super::announcements::Pending;
use super::group::{Half, Part, PipelineMessage};
use super::operation::HalfState;
use super::output::{Output, SessionEvent};
use super::receiver::Receiver;
use super::sender::Sender;
use super::{Committed, Session};
use crate::base::{Error, ErrorKind, Extent, Instant, OperationId, Timestamp};
use crate::channel::Life;
use crate::channel::life::{Receiving, Sending};
use crate::wire::control::{Grant, Safety};
use crate::{limits, plan};
use alloc::format;
use alloc::vec::Vec;

/// The properties of an opened source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SourceFacts {
    /// Its size; none for an endless source.
    pub size: Option<u64>,
    /// Permission bits.
    pub mode: u32,
    /// Modification time.
    pub modified: Option<Timestamp>,
    /// Its version.
    pub version: Vec<u8>,
}

/// The properties of a prepared stage.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct StageFacts {
    /// How far the sender may be ahead if the target accepts bytes only in order.
    pub window: Option<u64>,
    /// Ranges that it has from an earlier attempt with the same source, ascending.
    pub kept: Vec<Extent>,
    /// In an upload with a hash, its content may differ: the sender hashes it as well.
    pub unverified: bool,
    /// Storage can read the content back.
    pub reread: bool,
    /// Version of the existing target; empty if there is none.
    pub replaces: Vec<u8>,
}

/// The properties of a committed target.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TargetFacts {
    /// Its durability: `Durable` only if storage can keep that promise and kept it.
    pub safety: Safety,
    /// Its version.
    pub version: Vec<u8>,
}

impl Session {
    /// The source of a download is open, or could not be opened.
    pub fn on_opened(&mut self, id: OperationId, result: Result<SourceFacts, Error>) {
        let facts = match result {
            Ok(facts) => facts,
            Err(error) => return self.settle(id, Err(error)),
        };
        let limits = self.limits.clone();
        let operation = self.operations.get_mut(&id);
        let asked = operation.and_then(|operation| operation.request.take().map(|request| (operation, request)));
        let Some((operation, request)) = asked else {
            // Cancelled in the meantime; perhaps both sides know that.
            return self.outputs.push_back(Output::Abort { operation: id, keep: false });
        };
        let length = match transfer_length(&request, &facts) {
            Ok(length) => length,
            Err(error) => return self.settle(id, Err(error)),
        };
        // What came from a copy counts if it is compared with the source.
        let copy = operation.hash && operation.resembles;
        let same = |source: &Vec<u8>| !facts.version.is_empty() && (*source == facts.version || copy);
        let said = request.resume.as_ref().filter(|resume| same(&resume.source));
        let kept = said.map_or_else(Vec::new, |resume| whole(&resume.kept, length, operation.block, operation.hash));
        let doubt = request.unverified || said.is_some_and(|resume| resume.source != facts.version);
        let grant = Grant {
            level: operation.level,
            block: operation.block,
            credit_limit: 0,
            length: Some(length),
            ranges: plan::split(length, operation.block, limits.pipelines),
            size: facts.size,
            mode: facts.mode,
            modified: facts.modified,
            version: facts.version,
            kept,
            hash: operation.hash,
            unverified: doubt && operation.hash,
            sum: operation.kind.digest(),
            ..Grant::default()
        };
        // Cannot fail: only the sending half opens a source.
        let HalfState::Sending { life, sender, credited, .. } = &mut operation.state else { return };
        if life.on_granted().is_err() {
            return;
        }
        let first = grant.ranges.first().copied().unwrap_or_default();
        let credit = request.credit.max(*credited);
        let fresh = Sender::new(first.offset(), Some(first.end()), grant.block, credit);
        *sender = Some(fresh.within(limits.span(grant.block)).keeping(plan::within(&grant.kept, first)));
        operation.announcements.owe(Pending::GRANT);
        operation.grant = Some(grant.clone());
        if !request.sum {
            self.begin_hash(id, &grant);
            self.start_members(id, Half::Sending, &grant);
            self.after_sending(id);
        }
    }

    /// The stage of a transfer is ready, or could not be prepared.
    pub fn on_staged(&mut self, id: OperationId, result: Result<StageFacts, Error>) {
        let facts = match result {
            Ok(facts) => facts,
            Err(error) => return self.settle(id, Err(error)),
        };
        let Some(operation) = self.operations.get_mut(&id) else {
            return self.outputs.push_back(Output::Abort { operation: id, keep: true });
        };
        // Cannot fail: only the receiving half has a stage.
        let HalfState::Receiving { life, abandoned, .. } = &mut operation.state else { return };
        if let Some(error) = abandoned.take() {
            self.outputs.push_back(Output::Abort { operation: id, keep: error.kind.leaves_part() });
            return self.settle(id, Err(error));
        }
        if life.on_staged().is_err() {
            return self.outputs.push_back(Output::Abort { operation: id, keep: true });
        }
        match operation.grant.clone() {
            Some(grant) => self.receive_granted(id, &grant, &facts),
            None => self.grant_upload(id, &facts),
        }
        // The kept ranges may be the whole transfer.
        self.after_writing(id);
        self.check_early_finish(id);
        self.resume_parked();
    }

    /// The target of a download is ready: blocks may arrive.
    fn receive_granted(&mut self, id: OperationId, grant: &Grant, facts: &StageFacts) {
        if !grant.kept.iter().all(|range| facts.kept.iter().any(|kept| kept.contains(*range))) {
            // Ranges that the server will not send were removed in the meantime.
            let error = Error::new(ErrorKind::Busy, "what an earlier attempt had left is gone; copy the file again");
            return self.abandon(id, error);
        }
        let window = facts.window.unwrap_or_else(|| self.limits.span(grant.block));
        // Cannot fail: the caller has found it, and that it receives.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        // The first blocks use the credit of the request.
        let credit = operation.request.as_ref().map_or(0, |request| request.credit);
        (operation.ordered, operation.reread) = (facts.window.is_some(), operation.reread && facts.reread);
        let HalfState::Receiving { receiver, .. } = &mut operation.state else { return };
        let first = grant.ranges.first().copied().unwrap_or_default();
        let fresh = Receiver::new(first.offset(), Some(first.end()), grant.block, window.max(credit));
        *receiver = Some(fresh.keeping(plan::within(&grant.kept, first)));
        // One block uses the request's credit and channel: unless one was lost, both ends know it.
        let there = self.channels.get(&operation.opening).is_some_and(|opening| opening.life == Life::Up);
        let alone = there
            && self.fences.is_empty()
            && grant.ranges.len() <= 1
            && first.length() <= u64::from(grant.block).min(credit);
        if alone {
            operation.announcements.count_as_sent(Pending::CREDIT);
        } else {
            operation.announcements.owe(Pending::CREDIT);
        }
        self.begin_hash(id, grant);
        self.start_members(id, Half::Receiving, grant);
    }

    /// The target of an upload is ready: the GRANT tells the client how to send.
    fn grant_upload(&mut self, id: OperationId, facts: &StageFacts) {
        // A target written in order has one pipeline: ranges far ahead would need buffers.
        let pipelines = if facts.window.is_some() { 1 } else { self.limits.pipelines };
        // Cannot fail: the caller has found it, and that it receives.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let (level, block, hash) = (operation.level, operation.block, operation.hash);
        (operation.ordered, operation.reread) = (facts.window.is_some(), operation.reread && facts.reread);
        let reread = operation.reread;
        let window = facts.window.unwrap_or_else(|| self.limits.span(block));
        let HalfState::Receiving { receiver, .. } = &mut operation.state else { return };
        let request = operation.request.take();
        let length = request.as_ref().and_then(|request| request.length);
        let resumes = request.as_ref().is_some_and(|request| request.resume.is_some());
        let blinds = request.is_some_and(|request| request.unverified);
        let ranges = length.map_or_else(Vec::new, |length| plan::split(length, block, pipelines));
        let first = ranges.first().copied().unwrap_or_default();
        let kept = match length.filter(|_| resumes) {
            Some(length) => whole(&facts.kept, length, block, hash),
            None => Vec::new(),
        };
        let doubt = hash && facts.unverified && !kept.is_empty();
        let fresh = Receiver::new(0, length.map(|_| first.end()), block, window);
        let fresh = fresh.keeping(plan::within(&kept, first));
        let grant = Grant {
            level,
            block,
            credit_limit: fresh.credit_limit(),
            length,
            ranges,
            version: facts.replaces.clone(),
            kept,
            hash,
            reread,
            unverified: doubt,
            blinded: doubt && blinds,
            ..Grant::default()
        };
        *receiver = Some(fresh);
        operation.announcements.owe(Pending::GRANT);
        operation.grant = Some(grant.clone());
        self.begin_hash(id, &grant);
        self.start_members(id, Half::Receiving, &grant);
    }

    /// FINISH may have arrived before the stage was ready.
    fn check_early_finish(&mut self, id: OperationId) {
        // Given up, and forgotten, by the step before.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let known = operation.grant.as_ref().and_then(|grant| grant.length);
        // It did not.
        let HalfState::Receiving { receiver: Some(receiver), finish: Some(finish), .. } = &mut operation.state else {
            return;
        };
        let fits = known.map_or_else(|| receiver.on_end(*finish), |known| known == *finish);
        if fits {
            self.after_writing(id);
        } else {
            self.fail(id, Error::new(ErrorKind::Protocol, "protocol error: FINISH does not fit the granted length"));
        }
    }

    /// A block was written, or could not be.
    pub fn on_written(&mut self, id: OperationId, extent: Extent, result: Result<(), Error>, now: Instant) {
        if let Err(error) = result {
            return self.fail(id, error);
        }
        // Over: a late block of a stage that was given up.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        if operation.is_settled() {
            return;
        }
        // Cannot fail: what is written was granted.
        let Some(receiver) = operation.receiver() else { return };
        receiver.on_written(extent, now);
        let due = receiver.ack_due(now);
        operation.announcements.on_progress(now);
        if due {
            operation.announcements.owe(Pending::ACK);
        }
        self.after_writing(id);
    }

    /// A source that is read in order has bytes up to `available` (from byte 0 of the transfer).
    pub fn on_source(&mut self, id: OperationId, available: u64, ended: bool) {
        // Over: the reader of the source was ahead.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        match operation.sender() {
            Some(sender) => sender.on_source(available, ended),
            None => operation.source = Some((available, ended)),
        }
        self.after_sending(id);
    }

    /// The source is unchanged, or it changed; also called at any time when it cannot be read.
    pub fn on_checked(&mut self, id: OperationId, result: Result<(), Error>) {
        match result {
            Err(error) => self.fail(id, error),
            Ok(()) => {
                // Over while the source was checked.
                let Some(operation) = self.operations.get_mut(&id) else { return };
                // Given up while the source was checked: the receiver decides.
                let HalfState::Sending { life, given_up: None, .. } = &mut operation.state else { return };
                if life.on_checked().is_ok() {
                    operation.announcements.owe(Pending::FINISH);
                }
            }
        }
    }

    /// The target has its final name, or could not get it.
    pub fn on_committed(&mut self, id: OperationId, result: Result<TargetFacts, Error>) {
        // Cannot fail: an operation is kept while it commits.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        // Cannot fail: only the receiving half commits.
        let HalfState::Receiving { finish, .. } = &operation.state else { return };
        let length = finish.or(operation.grant.as_ref().and_then(|grant| grant.length)).unwrap_or(0);
        let (root, reread) = (operation.root, operation.reread);
        let committed =
            |facts: TargetFacts| Committed { length, safety: facts.safety, version: facts.version, root, reread };
        self.settle(id, result.map(committed));
    }

    /// The application cancels an operation, or its storage failed.
    pub fn fail(&mut self, id: OperationId, error: Error) {
        // Over: nothing is left that could fail.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        if operation.is_member() {
            return self.fail_member(id, error);
        }
        if operation.announcements.is_unrequested() {
            // The server never received it, and will not.
            self.forget(id);
            self.event(SessionEvent::Settled { operation: id, outcome: Err(error) });
            return self.end_channels_when_done();
        }
        match &mut operation.state {
            HalfState::Receiving { .. } => self.abandon(id, error),
            HalfState::Sending { life: Sending::Settled, .. } | HalfState::Sending { given_up: Some(_), .. } => {}
            HalfState::Sending { life: Sending::Opening, .. } => self.settle(id, Err(error)),
            HalfState::Sending { given_up, .. } => {
                // The receiver decides: it may have committed already.
                let cancelled = error.kind == ErrorKind::Cancelled;
                *given_up = Some(error);
                operation.announcements.owe(if cancelled { Pending::CANCEL } else { Pending::EXCEPTION });
                operation.announcements.withdraw(Pending::FINISH);
            }
        }
    }

    /// A member cannot complete its range after all: blocks may have to be sent again.
    pub(super) fn fail_member(&mut self, id: OperationId, error: Error) {
        // Cannot fail: the caller has found a member.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let Part::Member(coordinator, reported) = &mut operation.part else { return };
        *reported = true;
        self.outputs.push_back(Output::Group { to: *coordinator, message: PipelineMessage::Failed(id, error) });
    }

    /// The receiving half gives up unless it is committing or done: that cannot be undone.
    pub(super) fn abandon(&mut self, id: OperationId, error: Error) {
        // Over: nothing is left that could be given up.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        // Cannot fail: every caller has checked the half.
        let HalfState::Receiving { life, abandoned, .. } = &mut operation.state else { return };
        match life {
            Receiving::Committing | Receiving::Settled => {}
            // The stage may become ready at any moment: it is dropped then.
            Receiving::Staging => {
                let first = abandoned.replace(error).is_none();
                if first && operation.kind.calls().is_some() {
                    self.outputs.push_back(Output::Abort { operation: id, keep: false });
                }
            }
            Receiving::Asked => self.settle(id, Err(error)),
            Receiving::Moving | Receiving::Verifying => {
                self.outputs.push_back(Output::Abort { operation: id, keep: error.kind.leaves_part() });
                self.settle(id, Err(error));
            }
        }
    }

    /// At exact cover and FINISH, commits, or compares the content first.
    pub(super) fn after_writing(&mut self, id: OperationId) {
        // Over, as in `on_written`.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        // It is not covered while it waits for a stage, compares or commits.
        let HalfState::Receiving { life: Receiving::Moving, receiver: Some(receiver), finish, .. } = &operation.state
        else {
            return;
        };
        if !receiver.covered() {
            return;
        }
        let finished = finish.is_some();
        match &mut operation.part {
            Part::Coordinator(members) if members.is_empty() && finished => self.verify_now(id),
            Part::Member(coordinator, reported) if !*reported => {
                *reported = true;
                operation.announcements.owe(Pending::ACK);
                self.outputs.push_back(Output::Group { to: *coordinator, message: PipelineMessage::Covered(id) });
            }
            _ => {}
        }
    }

    pub(super) fn commit_now(&mut self, id: OperationId) {
        // Cannot fail: the caller has found it, and that it receives.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let known = operation.grant.as_ref().and_then(|grant| grant.length);
        let HalfState::Receiving { life, finish, receiver, .. } = &mut operation.state else { return };
        // Cannot fail: what is covered has a receiver.
        let Some(length) = finish.or(known).or(receiver.as_ref().map(Receiver::contiguous)) else { return };
        if life.on_covered().is_ok() {
            let durable = operation.durable;
            self.outputs.push_back(Output::Commit { operation: id, length, durable });
        }
    }
}

/// The part of `kept` from which a transfer resumes.
fn whole(kept: &[Extent], length: u64, block: u32, hash: bool) -> Vec<Extent> {
    let whole = plan::whole_blocks(kept, length, block);
    if hash { plan::longest(whole, limits::KEPT_HASHED_MAX) } else { whole }
}

/// Length of a download: the requested range, within the size of the source.
fn transfer_length(request: &crate::wire::request::Request, facts: &SourceFacts) -> Result<u64, Error> {
    if request.sum {
        return Ok(0);
    }
    let Some(size) = facts.size else {
        let endless = || Error::new(ErrorKind::OutOfRange, "the source has no end: name a length (--length)");
        return request.length.ok_or_else(endless);
    };
    let rest = size.checked_sub(request.offset).filter(|rest| request.length.is_none_or(|length| length <= *rest));
    let Some(rest) = rest else {
        let text = match request.length {
            Some(length) => format!("bytes {}..{} asked of a file of {size}", request.offset, request.offset + length),
            None => format!("offset {} lies behind the end of a file of {size} bytes", request.offset),
        };
        return Err(Error::new(ErrorKind::OutOfRange, text));
    };
    Ok(request.length.unwrap_or(rest))
}
