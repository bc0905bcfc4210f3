//! Heads of records that arrive: what may follow them, and what a complete block means.

use super::block_receiver::BlockDecision;
use super::channels::Arriving;
use super::operation::State;
use super::receiving_half::{GrantedReceiver, ReceiveProgress, ReceivingHalf};
use super::{CallService, Fault, HeadVerdict, Session};
use crate::base::{ChannelId, Extent, Instant, OperationId};
use crate::channel::Life;
use crate::limits;
use crate::wire::{Event, Flags, Head, WireError};
use core::cmp::Ordering;

impl Session {
    /// A head arrived on `channel`, authenticated by its tag (or, at other levels, by the tag that
    /// follows). Changes nothing except for `Park`, after which the same head is evaluated again.
    pub fn on_head(&mut self, channel: ChannelId, head: &Head, now: Instant) -> Result<HeadVerdict, Fault> {
        let state = self.channels.get_mut(&channel).ok_or(Fault::Channel)?;
        if !matches!(state.life, Life::Up | Life::Ending) {
            return Err(Fault::Channel);
        }
        state.heard_at = now;
        if head.epoch != state.receive.epoch {
            return Err(Fault::Epoch);
        }
        if head.sequence != state.receive.sequence {
            return Err(Fault::Sequence);
        }
        let verdict = self.judge(head)?;
        let state = self.channels.get_mut(&channel).ok_or(Fault::Channel)?;
        state.arriving = match verdict {
            HeadVerdict::Park => Arriving::Parked,
            _ => Arriving::Payload(*head),
        };
        Ok(verdict)
    }

    fn judge(&mut self, head: &Head) -> Result<HeadVerdict, Fault> {
        let Some(event) = Event::from_code(head.event) else {
            if head.event >= Event::SKIPPABLE_FROM && head.length as usize <= limits::CONTROL_BYTES_MAX {
                return Ok(HeadVerdict::Skip);
            }
            return Err(Fault::UnknownEvent(head.event));
        };
        if event.carries_block() && !head.flags.has(Flags::REQUEST) {
            return self.judge_block(event, head);
        }
        if head.flags.round() != 0 {
            return Err(Fault::Wire(WireError::Invalid("flags")));
        }
        if head.level < self.limits.control_level {
            return Err(Fault::Level(head.level));
        }
        if let Some(service) = CallService::of(event) {
            return self.judge_calls(service, head);
        }
        if head.length as usize > limits::CONTROL_BYTES_MAX {
            return Err(Fault::TooLong);
        }
        if event == Event::Hole {
            return Err(Fault::UnknownEvent(head.event));
        }
        if head.flags.has(Flags::REQUEST) && self.owes_many_marks() {
            // A peer that sends requests and accepts no replies would make this end keep the end of
            // every operation.
            return Ok(HeadVerdict::Park);
        }
        Ok(HeadVerdict::Control)
    }

    /// The operation was opened, as far as this pipeline can know.
    pub(super) fn check_opened(&self, operation: OperationId) -> Result<(), Fault> {
        let unused = self.numbers.is_unused(operation);
        if operation.0 == 0 || unused { Err(Fault::Operation) } else { Ok(()) }
    }

    fn judge_block(&mut self, event: Event, head: &Head) -> Result<HeadVerdict, Fault> {
        if head.length > limits::BLOCK_BYTES_MAX || Extent::new(head.offset, head.length.into()).is_err() {
            return Err(Fault::TooLong);
        }
        self.check_opened(head.operation)?;
        let Some(operation) = self.operations.get_mut(&head.operation) else {
            // Ended long ago: a late repetition. A participant that does not know the operation yet
            // granted no credit for it.
            return Ok(HeadVerdict::Skip);
        };
        if operation.kind.calls().is_some() {
            return Err(Fault::WrongSide(event.name()));
        }
        let (level, upload) = (operation.terms.level, operation.kind.is_to_server());
        if operation.is_sending() {
            return Err(Fault::WrongSide(event.name()));
        }
        if matches!(event, Event::Upload | Event::Download) && (event == Event::Upload) != upload {
            return Err(Fault::WrongSide(event.name()));
        }
        match &operation.state {
            // GRANT precedes the first blocks on their channel.
            State::Receiving(ReceivingHalf::Asked(_)) => Err(Fault::Operation),
            State::Receiving(ReceivingHalf::Staging(_)) => Ok(HeadVerdict::Park),
            // Refused above: no block moves.
            State::Receiving(ReceivingHalf::Executing(_)) => Err(Fault::WrongSide(event.name())),
            State::Receiving(ReceivingHalf::Granted(GrantedReceiver {
                progress: ReceiveProgress::Moving { .. },
                receiver,
                round,
                ..
            })) => {
                if head.level < level {
                    return Err(Fault::Level(head.level));
                }
                match head.flags.round().cmp(round) {
                    // Sent before part of it was requested again: void.
                    Ordering::Less => return Ok(HeadVerdict::Skip),
                    Ordering::Equal => {}
                    Ordering::Greater => return Err(Fault::Again),
                }
                // Whether CONM may continue is decided when the block has arrived: this check may
                // run twice.
                Ok(match receiver.judge(head.offset, head.length)? {
                    BlockDecision::Take => {
                        HeadVerdict::Block { operation: head.operation, offset: head.offset, length: head.length }
                    }
                    BlockDecision::Duplicate => HeadVerdict::Skip,
                })
            }
            // Every block has arrived, or the operation is over: a late repetition.
            State::Receiving(ReceivingHalf::Granted(_)) | State::Sending(_) | State::Settled(_) => {
                Ok(HeadVerdict::Skip)
            }
        }
    }

    /// The payload that `on_head` classified as `Skip` has been read.
    pub fn on_skipped(&mut self, channel: ChannelId) -> Result<(), Fault> {
        let head = self.complete(channel)?;
        match Event::from_code(head.event) {
            Some(event) if event.carries_block() => self.count_block(channel, event, &head),
            Some(Event::Path | Event::File) if !head.flags.has(Flags::REQUEST) => {
                self.outcome_again(channel, head.operation);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The block that `on_head` announced is complete in memory (or, at clear, written), and its
    /// tag is valid. Returns false if it is no longer wanted because another copy completed first:
    /// then it must not be written, and there is no `on_written`.
    pub fn on_block(&mut self, channel: ChannelId) -> Result<bool, Fault> {
        let head = self.complete(channel)?;
        let event = Event::from_code(head.event).ok_or(Fault::UnknownEvent(head.event))?;
        self.count_block(channel, event, &head)?;
        // It ended while the block arrived.
        let Some(operation) = self.operations.get_mut(&head.operation) else { return Ok(false) };
        match &mut operation.state {
            State::Receiving(ReceivingHalf::Granted(granted))
                if matches!(granted.progress, ReceiveProgress::Moving { .. })
                    && head.flags.round() == granted.round =>
            {
                Ok(granted.receiver.on_arrived(head.offset, head.length)?)
            }
            _ => Ok(false),
        }
    }

    pub(super) fn complete(&mut self, channel: ChannelId) -> Result<Head, Fault> {
        let state = self.channels.get_mut(&channel).ok_or(Fault::Channel)?;
        let Arriving::Payload(head) = state.arriving else { return Err(Fault::Channel) };
        state.arriving = Arriving::Nothing;
        state.receive.count();
        Ok(head)
    }

    fn count_block(&mut self, channel: ChannelId, event: Event, head: &Head) -> Result<(), Fault> {
        let state = self.channels.get_mut(&channel).ok_or(Fault::Channel)?;
        state.receive.on_block(event, head.operation)?;
        if let Some(operation) = self.operations.get_mut(&head.operation) {
            *operation.carried.entry(channel).or_default() += 1;
        }
        Ok(())
    }
}
