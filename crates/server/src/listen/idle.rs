//! Sockets of idle pipelines: what arrives there, and what the pipelines have to say. A client that
//! ends its session is answered without a thread.
//!
//! It never waits: what a client does not take in time is dropped with its session.

use super::Server;
use crate::log::LogEvent;
use crate::sessions::{IdleSocket, SessionEntry};
use crate::severity::has_left;
use std::sync::atomic::Ordering;
use xdfs_engine::idle::{ChannelLoss, IdleEvent, IdlePipeline, IdleStep};
use xdfs_io::dispatch::{HEAD_BYTES, SocketId};
use xdfs_proto::base::{Error, ErrorKind, Instant, SessionId};

impl Server {
    /// A head arrived on an idle channel.
    pub(super) fn on_idle_head(&mut self, socket: SocketId, raw: [u8; HEAD_BYTES]) {
        // It was closed by what came before in this turn.
        let Some((of, idle)) = self.sessions.idle_of(socket) else { return };
        let step = idle.on_head(&mut self.dispatch, of.channel, raw);
        self.on_idle_step(socket, of, step);
    }

    /// Bytes arrived on an idle channel.
    pub(super) fn on_idle_bytes(&mut self, socket: SocketId, bytes: &[u8]) {
        // It was closed by what came before in this turn.
        let Some((of, idle)) = self.sessions.idle_of(socket) else { return };
        let step = idle.on_bytes(&mut self.dispatch, of.channel, bytes);
        self.on_idle_step(socket, of, step);
    }

    /// A record of an idle channel is with the transport.
    pub(super) fn on_idle_sent(&mut self, socket: SocketId) {
        // It was closed by what came before in this turn.
        let Some((of, idle)) = self.sessions.idle_of(socket) else { return };
        idle.on_sent(&self.dispatch, of.channel);
        self.start_if_needed(of.session);
        self.poll_pipeline(of.session, of.pipeline);
    }

    /// An idle channel ended without a clean close.
    pub(super) fn idle_ended(&mut self, socket: SocketId, error: Error) {
        // It was closed by what came before in this turn.
        let Some((of, idle)) = self.sessions.idle_of(socket) else { return };
        let loss = idle.on_ended(&mut self.dispatch, of.channel, error);
        self.on_idle_step(socket, of, IdleStep::Lost(loss));
    }

    fn on_idle_step(&mut self, socket: SocketId, of: IdleSocket, step: IdleStep) {
        match step {
            IdleStep::Wait => {}
            IdleStep::Poll => self.poll_pipeline(of.session, of.pipeline),
            // If close reasons are being sent, the thread waits for them, and they have a deadline.
            IdleStep::Start => self.start_pipelines(of.session),
            IdleStep::Lost(loss) => {
                self.sessions.idle.remove(&socket);
                self.on_channel_lost(of.session, of.pipeline, loss);
            }
            IdleStep::Fault(error) => {
                // A thread sends the reason, and the session ends for it.
                self.start_pipelines(of.session);
                self.drop_session(of.session, Some(error));
            }
        }
    }

    /// An idle pipeline has lost a channel, of whose socket nothing is left here.
    pub(super) fn on_channel_lost(&mut self, id: SessionId, pipeline: usize, loss: ChannelLoss) {
        match loss {
            ChannelLoss::Last(error) => return self.drop_session(id, Some(error)),
            ChannelLoss::Unreported => self.channel_gone(id),
            ChannelLoss::Reported => {}
        }
        let idle = self.sessions.running.get(&id).and_then(|entry| entry.pipelines.get(pipeline)?.idle());
        if idle.is_some_and(IdlePipeline::is_closing) {
            self.poll_pipeline(id, pipeline);
        } else {
            // A record may have waited for one that this channel was sending.
            self.start_if_needed(id);
        }
    }

    /// Gives the session its threads if a record has arrived that one of them reads. What is left to tell a thread
    /// tells, unless close reasons are being sent.
    fn start_if_needed(&mut self, id: SessionId) {
        if self.sessions.running.get(&id).is_some_and(|entry| entry.idle().any(IdlePipeline::has_work)) {
            self.start_pipelines(id);
        }
    }

    /// A session has one channel fewer.
    fn channel_gone(&self, id: SessionId) {
        if let Some(entry) = self.sessions.running.get(&id) {
            entry.context.metrics.channels.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Does what an idle pipeline requests.
    pub(super) fn poll_pipeline(&mut self, id: SessionId, pipeline: usize) {
        // It may have got a thread, or its session may have ended, by what came before.
        while let Some(idle) = self.sessions.running.get_mut(&id).and_then(|entry| entry.idle_mut(pipeline)) {
            match idle.poll(&mut self.dispatch) {
                Some(IdleEvent::Closed { socket }) => {
                    self.sessions.idle.remove(&socket);
                }
                Some(IdleEvent::Lost { channel, error, closing }) => {
                    self.channel_gone(id);
                    let (channel, left, error) = (channel.0, has_left(&error), error.to_string());
                    (self.config.log)(&LogEvent::ChannelLost { session: id, channel, error, closing, left });
                }
                Some(IdleEvent::Over { error }) => return self.drop_session(id, error),
                None => return,
            }
        }
    }

    /// Stops waiting for a client that does not complete the close it started. Once it has sent its
    /// EOFT on some channel, everything was sent, and nothing is lost with the rest (P-46).
    pub(super) fn end_leaving_sessions(&mut self, now: Instant) {
        let is_late = |entry: &SessionEntry| {
            // A pipeline that got a thread after all has its deadlines there.
            let idle = entry.idle().count() == entry.pipelines.len();
            (idle && entry.idle().any(|idle| idle.is_late(now))).then(|| entry.idle().any(IdlePipeline::is_closing))
        };
        let late = self.sessions.running.iter().filter_map(|(id, entry)| Some((*id, is_late(entry)?)));
        for (id, said) in late.collect::<Vec<_>>() {
            let error = Error::new(ErrorKind::TimedOut, "the rest of a record did not come");
            self.drop_session(id, (!said).then_some(error));
        }
    }

    /// Ends sessions that do not take what they wanted to be told.
    pub(super) fn end_deaf_sessions(&mut self, now: Instant) {
        let is_deaf = |entry: &SessionEntry| entry.idle().any(|idle| idle.is_deaf(now));
        let deaf = self.sessions.running.iter().filter_map(|(id, entry)| is_deaf(entry).then_some(*id));
        for id in deaf.collect::<Vec<_>>() {
            let error = Error::new(ErrorKind::TimedOut, "the client does not take the notices that it asked for");
            self.drop_session(id, Some(error));
        }
    }
}
