//! The end of a session: the close reason reaches the peer before a reset can.
//!
//! A connection that is closed while bytes of the peer are unread is reset, and a peer that is
//! sending then sees the reset but never the reason. So the reason is sent on a channel that is
//! between two records, nothing follows it, and whatever still arrives is read and discarded until
//! the peer has closed: within bounds, since the peer is not trusted.

use super::channel_io::{Arriving, ChannelIo, SendState};
use super::{EndState, Host, Pump};
use crate::bounds;
use xdfs_io::dispatch::{Completion, Dispatch, HEAD_BYTES, Op, Side, SocketId};
use xdfs_proto::base::{Error, Instant};

/// A socket of an ended session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lingering {
    until: Instant,
    /// Bytes that were read and discarded.
    drained: usize,
}

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    /// Ends the session for a reason of this side. If every channel is in the middle of a record,
    /// the first one that has finished its record sends the reason.
    pub(super) fn abandon(&mut self, error: Error) {
        if self.session.can_tell() || !self.channels.by_id.values().any(|io| io.sending != SendState::Nothing) {
            return self.session.end_telling(error);
        }
        let until = self.dispatch.now().after(bounds::LAST_WORDS);
        self.timers.next_tick = self.timers.next_tick.min(until);
        // The first reason stays.
        if let EndState::Running = self.end.state {
            self.end.state = EndState::Abandoned { reason: error, until };
        }
    }

    /// A channel is free to send the reason for which this side ends the session, if it does. Returns
    /// whether that is so.
    pub(super) fn end_if_abandoned(&mut self) -> bool {
        match std::mem::take(&mut self.end.state) {
            EndState::Abandoned { reason, .. } => {
                self.session.end_telling(reason);
                true
            }
            other => {
                self.end.state = other;
                false
            }
        }
    }

    /// The channel's last record, which carries the reason, is with the transport.
    pub(super) fn linger(&mut self, io: &ChannelIo) {
        let until = self.dispatch.now().after(bounds::LAST_WORDS);
        self.timers.next_tick = self.timers.next_tick.min(until);
        self.end.lingering.insert(io.socket, Lingering { until, drained: 0 });
        // An outstanding operation is waited for; it may be part of a block.
        let held = matches!(io.arriving, Arriving::Parked(_) | Arriving::Waiting { .. } | Arriving::Held(_));
        if held || matches!(io.arriving, Arriving::Nothing) {
            self.drain_lingering(io.socket, 0);
        }
    }

    /// The earliest deadline of a lingering socket or a pending reason.
    pub(super) fn linger_until(&self) -> Option<Instant> {
        let abandoned = match self.end.state {
            EndState::Abandoned { until, .. } => Some(until),
            EndState::Running | EndState::Over(_) => None,
        };
        self.end.lingering.values().map(|lingering| lingering.until).chain(abandoned).min()
    }

    /// Ends everything whose deadline has passed.
    pub(super) fn end_late_lingering(&mut self, now: Instant) {
        if let EndState::Abandoned { until, .. } = self.end.state
            && now >= until
        {
            self.end_if_abandoned();
        }
        let late = self.end.lingering.iter().filter(|(_, lingering)| now >= lingering.until);
        let late: Vec<_> = late.map(|(socket, _)| *socket).collect();
        late.into_iter().for_each(|socket| self.drop_lingering(socket));
    }

    /// Takes the completions of lingering sockets; returns the others.
    pub(super) fn on_lingering(&mut self, completion: Completion<D::Link>) -> Option<Completion<D::Link>> {
        let is_lingering = |socket: &SocketId| self.end.lingering.contains_key(socket);
        match &completion {
            Completion::Head { socket, .. } if is_lingering(socket) => self.drain_lingering(*socket, HEAD_BYTES),
            Completion::Small { socket, bytes } if is_lingering(socket) => self.drain_lingering(*socket, bytes.len()),
            Completion::Some { socket, length } if is_lingering(socket) => self.drain_lingering(*socket, *length),
            Completion::Filled { socket, buffer } if is_lingering(socket) => {
                let length = buffer.payload().len();
                self.drain_lingering(*socket, length);
            }
            Completion::Sent { socket, .. } if is_lingering(socket) => {
                if self.dispatch.finish_sending(*socket).is_err() {
                    self.drop_lingering(*socket);
                }
            }
            // The peer has closed, or cannot be reached any more.
            Completion::Ended { socket, side: Side::Receive | Side::Send, .. } if is_lingering(socket) => {
                self.drop_lingering(*socket);
            }
            _ => return Some(completion),
        }
        None
    }

    fn drain_lingering(&mut self, socket: SocketId, length: usize) {
        // Cannot fail: every caller has found it.
        let Some(lingering) = self.end.lingering.get_mut(&socket) else { return };
        lingering.drained += length;
        if lingering.drained > bounds::LAST_WORDS_BYTES {
            return self.drop_lingering(socket);
        }
        self.dispatch.submit(Op::Some { socket, limit: bounds::PIECE_BYTES });
    }

    fn drop_lingering(&mut self, socket: SocketId) {
        if self.end.lingering.remove(&socket).is_some() {
            let _ = self.dispatch.detach(socket, &mut self.buffers.returned);
            self.buffers.returned.clear();
        }
    }
}
