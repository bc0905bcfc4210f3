//! Completions of storage, and how operations fail because of them.

use super::announcements::Pending;
use super::block_receiver::BlockReceiver;
use super::coordination::{Half, PipelineMessage, PipelineRole};
use super::operation::{Operation, State, Terms};
use super::output::{Output, SessionEvent};
use super::receiving_half::{GrantedReceiver, ReceiveProgress, ReceivingHalf, StageFate, Staging, Target};
use super::sending_half::{GrantedSender, Opening, SendingHalf};
use super::{Committed, Session};
use crate::base::{Digest, Error, ErrorKind, Extent, Instant, OperationId, Timestamp};
use crate::channel::Life;
use crate::wire::control::{Grant, Safety};
use crate::{limits, plan};
use alloc::format;
use alloc::vec::Vec;

/// The properties of an opened source.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct SourceFacts {
    /// Its size; none for an endless source.
    pub size: Option<u64>,
    /// Permission bits.
    pub mode: u32,
    /// Modification time.
    pub modified: Option<Timestamp>,
    /// Its version.
    pub version: Vec<u8>,
    /// It may be a copy of what the peer's earlier attempt read.
    pub resembles: bool,
    /// Its hash, if that was requested instead of the bytes.
    pub sum: Option<Digest>,
}

/// The properties of a prepared stage.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct StageFacts {
    /// How far the sender may be ahead if the target accepts bytes only in order.
    pub receive_window: Option<u64>,
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
        let granted = match self.operations.get(&id) {
            Some(Operation { state: State::Sending(SendingHalf::Opening(opening)), terms, .. }) => {
                grant_download(opening, *terms, facts, self.limits.pipelines)
            }
            // Cancelled in the meantime; perhaps both sides know that.
            _ => return self.outputs.push_back(Output::Abort { operation: id, keep: false }),
        };
        let grant = match granted {
            Ok(grant) => grant,
            Err(error) => return self.settle(id, Err(error)),
        };
        let send_window = self.limits.flow_window_for(grant.block);
        // None of these can fail: it was found above, and it is opening its source.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let State::Sending(half) = &mut operation.state else { return };
        // As above.
        if half.on_granted(grant.clone(), send_window).is_err() {
            return;
        }
        operation.announcements.owe(Pending::GRANT);
        if !operation.kind.is_digest() {
            self.begin_hash(id, &grant);
            self.start_participants(id, Half::Sending, &grant);
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
        let half = operation.half();
        let staging = match &mut operation.state {
            State::Receiving(ReceivingHalf::Staging(staging)) => staging,
            // Cannot be: a batch has no stage.
            State::Receiving(ReceivingHalf::Executing(_)) => return,
            // Cannot be: only the receiving half has a stage.
            _ if half == Half::Sending => return,
            // Over while the stage was prepared.
            _ => return self.outputs.push_back(Output::Abort { operation: id, keep: true }),
        };
        if let StageFate::Abandoned(error) = &staging.fate {
            let error = error.clone();
            return self.drop_stage(id, error);
        }
        match &staging.target {
            Target::Download { grant, credit } => {
                let (grant, credit) = (grant.clone(), *credit);
                self.receive_granted(id, grant, credit, &facts);
            }
            Target::Upload { length, resumes, blinds } => {
                let (length, resumes, blinds) = (*length, *resumes, *blinds);
                self.grant_upload(id, length, resumes, blinds, &facts);
            }
        }
        self.check_early_finish(id);
        // The kept ranges may be the whole transfer.
        self.after_writing(id);
        self.resume_parked();
    }

    /// The target of a download is ready: blocks may arrive, the first ones with the `credit` of the
    /// request.
    fn receive_granted(&mut self, id: OperationId, grant: Grant, credit: u64, facts: &StageFacts) {
        if !grant.kept.iter().all(|range| facts.kept.iter().any(|kept| kept.contains(*range))) {
            // Ranges that the server will not send were removed in the meantime.
            let error = Error::new(ErrorKind::Busy, "what an earlier attempt had left is gone; copy the file again");
            return self.drop_stage(id, error);
        }
        let receive_window = facts.receive_window.unwrap_or_else(|| self.limits.flow_window_for(grant.block));
        // Cannot fail: the caller has found it, and that its stage was prepared.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let State::Receiving(half) = &mut operation.state else { return };
        let first = grant.ranges.first().copied().unwrap_or_default();
        let receiver = BlockReceiver::new(first.offset(), Some(first.end()), grant.block, receive_window.max(credit));
        let receiver = receiver.keeping(plan::within(&grant.kept, first));
        // Cannot fail, as above.
        if half.on_staged(grant.clone(), receiver, facts.receive_window.is_some()).is_err() {
            return;
        }
        operation.terms.reread &= facts.reread;
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
        self.begin_hash(id, &grant);
        self.start_participants(id, Half::Receiving, &grant);
    }

    /// The target of an upload is ready: the GRANT tells the client how to send.
    fn grant_upload(&mut self, id: OperationId, length: Option<u64>, resumes: bool, blinds: bool, facts: &StageFacts) {
        // A target written in order has one pipeline: ranges far ahead would need buffers.
        let pipelines = if facts.receive_window.is_some() { 1 } else { self.limits.pipelines };
        // Cannot fail: the caller has found it, and that its stage was prepared.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let State::Receiving(half) = &mut operation.state else { return };
        operation.terms.reread &= facts.reread;
        let Terms { level, block, hash, reread, .. } = operation.terms;
        let receive_window = facts.receive_window.unwrap_or_else(|| self.limits.flow_window_for(block));
        let ranges = length.map_or_else(Vec::new, |length| plan::split(length, block, pipelines));
        let first = ranges.first().copied().unwrap_or_default();
        let kept = match length.filter(|_| resumes) {
            Some(length) => whole(&facts.kept, length, block, hash),
            None => Vec::new(),
        };
        let doubt = hash && facts.unverified && !kept.is_empty();
        let receiver = BlockReceiver::new(0, length.map(|_| first.end()), block, receive_window);
        let receiver = receiver.keeping(plan::within(&kept, first));
        let grant = Grant {
            level,
            block,
            credit_limit: receiver.credit_limit(),
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
        // Cannot fail, as above.
        if half.on_staged(grant.clone(), receiver, facts.receive_window.is_some()).is_err() {
            return;
        }
        operation.announcements.owe(Pending::GRANT);
        self.begin_hash(id, &grant);
        self.start_participants(id, Half::Receiving, &grant);
    }

    /// FINISH may have arrived before the stage was ready.
    fn check_early_finish(&mut self, id: OperationId) {
        // Given up by the step before, and perhaps forgotten.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let State::Receiving(ReceivingHalf::Granted(granted)) = &mut operation.state else { return };
        let known = granted.granted_length();
        // It did not.
        let ReceiveProgress::Moving { finish: Some(finish) } = &granted.progress else { return };
        let length = finish.length;
        let fits = known.map_or_else(|| granted.receiver.on_end(length), |known| known == length);
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
        // Over, and not forgotten yet.
        let State::Sending(half) = &mut operation.state else { return };
        half.on_source(available, ended);
        self.after_sending(id);
    }

    /// The source is unchanged, or it changed; also called at any time when it cannot be read.
    pub fn on_checked(&mut self, id: OperationId, result: Result<(), Error>) {
        match result {
            Err(error) => self.fail(id, error),
            Ok(()) => {
                // Over while the source was checked.
                let Some(operation) = self.operations.get_mut(&id) else { return };
                // Over, and not forgotten yet.
                let State::Sending(SendingHalf::Granted(GrantedSender { progress, .. })) = &mut operation.state else {
                    return;
                };
                // Else it was given up while the source was checked, and nobody waits for it any more.
                if progress.on_checked().is_ok() {
                    operation.announcements.owe(Pending::FINISH);
                }
            }
        }
    }

    /// The target has its final name, or could not get it.
    pub fn on_committed(&mut self, id: OperationId, result: Result<TargetFacts, Error>) {
        // Cannot fail: an operation is kept while it commits.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        // Cannot fail: nothing else commits, and nothing but this ends it.
        let State::Receiving(ReceivingHalf::Granted(GrantedReceiver {
            progress: ReceiveProgress::Committing { length, root },
            ..
        })) = operation.state
        else {
            return;
        };
        let reread = operation.terms.reread;
        let committed =
            |facts: TargetFacts| Committed { length, safety: facts.safety, version: facts.version, root, reread };
        self.settle(id, result.map(committed));
    }

    /// The application cancels an operation, or its storage failed.
    pub fn fail(&mut self, id: OperationId, error: Error) {
        // Over: nothing is left that could fail.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        if operation.is_participant() {
            return self.fail_participant(id, error);
        }
        if operation.announcements.is_unrequested() {
            // The server never received it, and will not.
            self.forget(id);
            self.event(SessionEvent::Settled { operation: id, outcome: Err(error) });
            return self.end_channels_when_done();
        }
        match &mut operation.state {
            State::Receiving(_) => self.abandon(id, error),
            State::Settled(_) => {}
            State::Sending(SendingHalf::Opening(_)) => self.settle(id, Err(error)),
            State::Sending(half) => {
                let cancelled = error.kind == ErrorKind::Cancelled;
                if half.give_up(error) {
                    // The receiver decides: it may have committed already.
                    operation.announcements.owe(if cancelled { Pending::CANCEL } else { Pending::EXCEPTION });
                    operation.announcements.withdraw(Pending::FINISH);
                }
            }
        }
    }

    /// A participant cannot complete its range after all: blocks may have to be sent again.
    pub(super) fn fail_participant(&mut self, id: OperationId, error: Error) {
        // Cannot fail: the caller has found a participant.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        // Over: the coordinator knows the outcome.
        let Some(PipelineRole::Participant { coordinator, reported }) = operation.role_mut() else { return };
        *reported = true;
        self.outputs.push_back(Output::ToPipeline { to: *coordinator, message: PipelineMessage::Failed(id, error) });
    }

    /// The receiving half gives up unless it is committing or done: that cannot be undone.
    pub(super) fn abandon(&mut self, id: OperationId, error: Error) {
        // Over: nothing is left that could be given up.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        match &mut operation.state {
            State::Receiving(ReceivingHalf::Asked(_)) => self.settle(id, Err(error)),
            // The stage may become ready at any moment: it is dropped then.
            State::Receiving(ReceivingHalf::Staging(Staging { fate, .. })) => match fate {
                StageFate::Awaited { .. } => *fate = StageFate::Abandoned(error),
                // The first reason counts.
                StageFate::Abandoned(_) => {}
            },
            State::Receiving(ReceivingHalf::Executing(executing)) => {
                if !core::mem::replace(&mut executing.stopped, true) {
                    self.outputs.push_back(Output::Abort { operation: id, keep: false });
                }
            }
            State::Receiving(ReceivingHalf::Granted(GrantedReceiver {
                progress: ReceiveProgress::Committing { .. },
                ..
            })) => {}
            State::Receiving(ReceivingHalf::Granted(_)) => self.drop_stage(id, error),
            // Over; or every caller has checked the half.
            State::Settled(_) | State::Sending(_) => {}
        }
    }

    /// The stage is there, and the operation has failed.
    fn drop_stage(&mut self, id: OperationId, error: Error) {
        self.outputs.push_back(Output::Abort { operation: id, keep: error.kind.leaves_part() });
        self.settle(id, Err(error));
    }

    /// At exact cover and FINISH, commits, or compares the content first.
    pub(super) fn after_writing(&mut self, id: OperationId) {
        // Over, as in `on_written`.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        // It is not covered while it waits for a stage, compares or commits.
        let State::Receiving(ReceivingHalf::Granted(GrantedReceiver {
            progress: ReceiveProgress::Moving { finish },
            role,
            receiver,
            ..
        })) = &mut operation.state
        else {
            return;
        };
        if !receiver.covered() {
            return;
        }
        let finished = finish.is_some();
        match role {
            PipelineRole::Coordinator { participants, .. } if participants.is_empty() && finished => {
                self.verify_now(id)
            }
            PipelineRole::Participant { coordinator, reported } if !*reported => {
                *reported = true;
                operation.announcements.owe(Pending::ACK);
                self.outputs.push_back(Output::ToPipeline { to: *coordinator, message: PipelineMessage::Covered(id) });
            }
            // Participants or FINISH are still to come, or the coordinator knows already.
            _ => {}
        }
    }

    /// The content is complete, and nothing speaks against it.
    pub(super) fn commit_now(&mut self, id: OperationId, length: u64, root: Option<Digest>) {
        // Cannot fail: the caller has found it, and that it receives.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let State::Receiving(ReceivingHalf::Granted(granted)) = &mut operation.state else { return };
        // Else it is being committed already.
        if granted.progress.on_covered(length, root).is_ok() {
            let durable = operation.terms.durable;
            self.outputs.push_back(Output::Commit { operation: id, length, durable });
        }
    }
}

/// The part of `kept` from which a transfer resumes.
fn whole(kept: &[Extent], length: u64, block: u32, hash: bool) -> Vec<Extent> {
    let whole = plan::whole_blocks(kept, length, block);
    if hash { plan::longest(whole, limits::KEPT_HASHED_MAX) } else { whole }
}

/// What a server grants for the source that it has opened.
fn grant_download(opening: &Opening, terms: Terms, facts: SourceFacts, pipelines: u8) -> Result<Grant, Error> {
    let (request, Terms { level, block, hash, .. }) = (&opening.request, terms);
    let length = transfer_length(request, &facts)?;
    // What came from a copy counts if it is compared with the source.
    let copy = hash && facts.resembles;
    let same = |source: &Vec<u8>| !facts.version.is_empty() && (*source == facts.version || copy);
    let said = request.resume.as_ref().filter(|resume| same(&resume.source));
    let kept = said.map_or_else(Vec::new, |resume| whole(&resume.kept, length, block, hash));
    let doubt = request.unverified || said.is_some_and(|resume| resume.source != facts.version);
    Ok(Grant {
        level,
        block,
        credit_limit: 0,
        length: Some(length),
        ranges: plan::split(length, block, pipelines),
        size: facts.size,
        mode: facts.mode,
        modified: facts.modified,
        version: facts.version,
        kept,
        hash,
        unverified: doubt && hash,
        sum: facts.sum.filter(|_| request.sum),
        ..Grant::default()
    })
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
