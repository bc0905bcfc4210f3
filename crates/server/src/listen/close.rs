//! Data on idle channels. A client that ends its session is answered right here (P-46, P-47): EOFT
//! requires nothing that would need a thread. Every other record does.
//!
//! It must not open a file or process a request, and never waits: what a client does not take in
//! time is dropped with its session.

use super::Server;
use crate::log::LogEvent;
use crate::sessions::{Arriving, IdleChannel, PipelineState};
use crate::severity::has_left;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use xdfs_engine::control;
use xdfs_io::dispatch::{Dispatch, HEAD_BYTES, Op, SocketId};
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Instant, SessionId};
use xdfs_proto::limits;
use xdfs_proto::session::{Fault, Output, Payload, Session, SessionEvent};
use xdfs_proto::wire::{Event, Head};

/// Bytes of an EOFT at most: one number.
const END_BYTES_MAX: u32 = 8;

impl Server {
    /// A head arrived on an idle channel.
    pub(super) fn on_idle_head(&mut self, socket: SocketId, raw: [u8; HEAD_BYTES]) {
        let Some((id, channel)) = self.sessions.idle.get(&socket).copied() else { return };
        let end = read(&raw).filter(|head| {
            let ends = Event::from_code(head.event) == Some(Event::EndOfTransfer);
            ends && (1..=END_BYTES_MAX).contains(&head.length)
        });
        let now = self.dispatch.now();
        let Some(entry) = self.sessions.running.get_mut(&id) else { return };
        let pipeline = entry.pipeline_of(channel);
        let Some(PipelineState::Idle { session, channels }) = entry.pipes.get_mut(pipeline) else { return };
        let Some(idle) = channels.get_mut(&channel) else { return };
        match end {
            Some(head) => {
                idle.arriving = Arriving::End(raw);
                entry.leaving_until.get_or_insert(now.after(session.limits().stall));
                self.dispatch.submit(Op::Small { socket, length: head.length as usize });
            }
            None => {
                idle.arriving = Arriving::Work(raw);
                // If close reasons are being sent, the thread waits for them, and they have a
                // deadline.
                self.start_pipelines(id);
            }
        }
    }

    /// Bytes arrived on an idle channel.
    pub(super) fn on_idle_bytes(&mut self, socket: SocketId, bytes: &[u8]) {
        let Some((id, channel)) = self.sessions.idle.get(&socket).copied() else { return };
        let Some((_, idle)) = self.sessions.idle_channel(id, channel) else { return };
        match std::mem::replace(&mut idle.arriving, Arriving::Nothing) {
            // The client has sent close_notify for the handshake too: records follow.
            Arriving::Farewell(farewell) => match farewell.check(bytes) {
                Ok(()) => {
                    idle.arriving = Arriving::Head;
                    let next = idle.read_on();
                    self.dispatch.submit(next);
                }
                Err(error) => self.idle_ended(socket, error),
            },
            Arriving::End(raw) => self.on_end(socket, &raw, bytes),
            Arriving::Head | Arriving::Work(_) | Arriving::Nothing => {}
        }
    }

    /// An EOFT is complete.
    fn on_end(&mut self, socket: SocketId, raw: &[u8; HEAD_BYTES], payload: &[u8]) {
        let now = self.dispatch.now();
        let Some((id, channel)) = self.sessions.idle.get(&socket).copied() else { return };
        let Some(entry) = self.sessions.running.get_mut(&id) else { return };
        let pipeline = entry.pipeline_of(channel);
        let Some(PipelineState::Idle { session, channels }) = entry.pipes.get_mut(pipeline) else { return };
        introduce(session, channels, now);
        let Some(idle) = channels.get_mut(&channel) else { return };
        let opened = read(raw).ok_or(Fault::Channel).and_then(|head| {
            // Nothing of it is used before its tag was verified.
            session.on_head(channel, &head, now).map(|_| head)
        });
        let opened =
            opened.map_err(Error::from).and_then(|head| control::open(&mut idle.records.opener, &head, raw, payload));
        let heard = match opened {
            Ok(payload) => session.on_control(channel, &payload, now),
            Err(error) => return self.idle_ended(socket, error),
        };
        if let Err(fault) = heard {
            // A thread sends the reason, and the session ends for it.
            self.start_pipelines(id);
            return self.drop_session(id, Some(Error::from(fault)));
        }
        self.tell_idle(id, pipeline);
    }

    /// A record of an idle channel is with the transport.
    pub(super) fn on_last_word(&mut self, socket: SocketId) {
        let now = self.dispatch.now();
        let Some((id, channel)) = self.sessions.idle.get(&socket).copied() else { return };
        let Some((session, idle)) = self.sessions.idle_channel(id, channel) else { return };
        idle.sending_since = None;
        session.on_sent(channel, now);
        let Some(pipeline) = self.sessions.running.get(&id).map(|entry| entry.pipeline_of(channel)) else { return };
        let work = |pipe: &PipelineState| match pipe {
            PipelineState::Idle { channels, .. } => {
                channels.values().any(|idle| matches!(idle.arriving, Arriving::Work(_)))
            }
            PipelineState::Running(_) | PipelineState::Over => false,
        };
        if self.sessions.running.get(&id).is_some_and(|entry| entry.pipes.iter().any(work)) {
            // What is left to tell a thread tells, unless close reasons are being sent.
            self.start_pipelines(id);
        }
        self.tell_idle(id, pipeline);
    }

    /// Does what the machine of an idle pipeline requests: all of it if the client is leaving, else what is
    /// about the session itself, as far as its channels take it; the rest follows when they do.
    pub(super) fn tell_idle(&mut self, id: SessionId, pipeline: usize) {
        let now = self.dispatch.now();
        loop {
            let Some(entry) = self.sessions.running.get_mut(&id) else { return };
            let Some(PipelineState::Idle { session, channels }) = entry.pipes.get_mut(pipeline) else { return };
            let leaving = session.is_closing();
            let output = if leaving { session.poll(now) } else { session.poll_idle(now) };
            match output {
                Some(Output::Send { channel, head, payload: Payload::Control(payload) }) => {
                    let since = channels.values().filter_map(|idle| idle.sending_since).min().unwrap_or(now);
                    let Some(idle) = channels.get_mut(&channel) else { continue };
                    match control::seal(&mut idle.records.sealer, &head, &payload) {
                        Ok((head, body)) => {
                            idle.sending_since = Some(since);
                            self.dispatch.submit(Op::Send { socket: idle.socket, head: Some(head), body });
                        }
                        Err(error) => session.on_lost(channel, error),
                    }
                }
                Some(Output::Close { channel, .. }) => {
                    if leaving {
                        // After EOFT both ways on one channel the others get only a moment (P-48).
                        let soon = now.after(limits::LAST_WORDS);
                        entry.leaving_until = Some(entry.leaving_until.map_or(soon, |until| until.min(soon)));
                    }
                    if let Some(idle) = channels.remove(&channel) {
                        self.sessions.idle.remove(&idle.socket);
                        self.dispatch.detach(idle.socket, &mut Vec::new());
                    }
                }
                Some(Output::Event(SessionEvent::ChannelLost { channel, error })) => {
                    entry.context.metrics.channels.fetch_sub(1, Ordering::Relaxed);
                    let (channel, left, error) = (channel.0, has_left(&error), error.to_string());
                    (self.config.log)(&LogEvent::ChannelLost { session: id, channel, error, closing: leaving, left });
                }
                Some(Output::Event(SessionEvent::Over { error })) => return self.drop_session(id, error),
                // The remaining outputs concern operations, which an idle session does not have,
                // and parked heads, which do not occur here.
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Stops waiting for a client that does not complete the close it started. Once it has sent its
    /// EOFT on some channel, everything was sent, and nothing is lost with the rest (P-46).
    pub(super) fn end_leaving_sessions(&mut self, now: Instant) {
        let late =
            self.sessions.running.iter().filter(|(_, entry)| entry.leaving_until.is_some_and(|until| now >= until));
        let late: Vec<SessionId> = late.map(|(id, _)| *id).collect();
        'late: for id in late {
            let Some(entry) = self.sessions.running.get_mut(&id) else { continue };
            entry.leaving_until = None;
            let mut said = false;
            for pipe in &entry.pipes {
                // A pipeline that got a thread after all has its deadlines there.
                let PipelineState::Idle { session, .. } = pipe else { continue 'late };
                said |= session.is_closing();
            }
            let error = Error::new(ErrorKind::TimedOut, "the rest of a record did not come");
            self.drop_session(id, (!said).then_some(error));
        }
    }
}

/// Notifies the machine of channels that joined while it was idle.
pub(super) fn introduce(session: &mut Session, channels: &mut BTreeMap<ChannelId, IdleChannel>, now: Instant) {
    for (channel, idle) in channels.iter_mut().filter(|(_, idle)| !idle.known) {
        idle.known = true;
        session.on_channel(*channel, now);
    }
}

fn read(raw: &[u8; HEAD_BYTES]) -> Option<Head> {
    Head::decode(raw.first_chunk()?).ok()
}
