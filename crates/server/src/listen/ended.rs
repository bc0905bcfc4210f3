//! Pipelines whose threads have ended: the session is over, or the pipeline is idle, and what is meant for it then
//! starts a thread for it again.

use super::Server;
use crate::admit::{Drop, ServerLimits};
use crate::files::leases::Leases;
use crate::log::LogEvent;
use crate::mailbox::PumpMailbox;
use crate::mailbox::{ListenerSender, ServerMessage};
use crate::sessions::{IdleSocket, PipelineState};
use crate::severity::has_left;
use std::sync::atomic::Ordering;
use xdfs_engine::host::Ending;
use xdfs_engine::idle::IdlePipeline;
use xdfs_engine::mailbox::{Command, Message};
use xdfs_engine::pipeline::Pipeline;
use xdfs_io::dispatch::Dispatch;
use xdfs_io::transport::Link;
use xdfs_proto::base::{Error, ErrorKind, Instant, SessionId};
use xdfs_proto::limits;
use xdfs_secure::random;

/// The leases that a server with these limits grants.
pub(super) fn leases(limits: &ServerLimits, inherited: bool, listener: ListenerSender) -> Leases {
    let tell = move |session, handles| {
        // Never waits: a client that is not told learns it when it renews.
        listener.try_send(ServerMessage::Recall { session, handles });
    };
    Leases::new(limits.lease, limits.leased_before, inherited, Box::new(tell))
}

impl Server {
    /// A pipeline's thread has ended: its session is over, or the listener watches it from now on.
    pub(super) fn on_pipeline_ended(
        &mut self,
        id: SessionId,
        pipeline: u8,
        ending: Ending<Link>,
        mailbox: PumpMailbox,
    ) {
        let index = usize::from(pipeline);
        match ending {
            Ending::Over(error) => {
                // The session was ended before its thread: nothing is left to end.
                let Some(entry) = self.sessions.running.get_mut(&id) else { return };
                entry.pipelines[index] = PipelineState::Over;
                // Data that one pipeline has lost cannot be recovered by another (P-42).
                if error.is_some() || entry.pipelines.iter().all(|pipeline| matches!(pipeline, PipelineState::Over)) {
                    self.drop_session(id, error);
                }
            }
            Ending::Idle(pipeline) => self.keep(id, index, *pipeline, mailbox),
        }
    }

    fn keep(&mut self, id: SessionId, index: usize, mut pipeline: Pipeline<Link>, mailbox: PumpMailbox) {
        let mut late_commands = Vec::new();
        while let Some(message) = mailbox.try_recv() {
            match message {
                Message::Attach(channel) => pipeline.channels.push(*channel),
                // Sent to a thread that was about to end: a new one reads it.
                Message::Command(command) => late_commands.push(command),
                // Answers of storage and messages of other pipelines: a thread that may get one does not retire.
                _ => {}
            }
        }
        // The session ended when its thread had: the channels are closed.
        let Some(entry) = self.sessions.running.get_mut(&id) else { return };
        let (idle, resumed) = IdlePipeline::resume(&mut self.dispatch, pipeline);
        entry.pipelines[index] = PipelineState::Idle(Box::new(idle));
        for (channel, socket) in resumed.sockets {
            self.sessions.idle.insert(socket, IdleSocket { session: id, pipeline: index, channel });
        }
        for loss in resumed.lost {
            self.on_channel_lost(id, index, loss);
        }
        if late_commands.is_empty() && !self.phase.is_draining() {
            return;
        }
        self.start_pipelines(id);
        let pipeline = self.sessions.running.get(&id).and_then(|entry| entry.pipelines.get(index));
        if let Some(PipelineState::Running(post)) = pipeline {
            for command in late_commands {
                // It fits: the mailbox is new, and as large as the one that it was in.
                let _ = post.try_send(Message::Command(command));
            }
        }
        if self.phase.is_draining() {
            self.sessions.tell_drain(id);
        }
    }

    /// Ends a session: every idle channel is closed, every thread notified.
    pub(super) fn drop_session(&mut self, id: SessionId, error: Option<Error>) {
        // It has ended already.
        let Some(entry) = self.sessions.end(id, error.as_ref(), &mut self.dispatch) else { return };
        self.services.rates.left(&entry.context.budget);
        let left = error.as_ref().is_some_and(has_left);
        let error = error.map(|error| error.to_string());
        self.totals.sessions_failed += u64::from(error.is_some());
        (self.config.log)(&LogEvent::SessionEnded {
            session: id,
            user: entry.context.principal.user.escape_debug().to_string(),
            peer: entry.terms.peer.clone(),
            lasted: self.dispatch.now().since(entry.terms.opened),
            moved: entry.context.metrics.traffic.read(),
            first_failure: entry.context.metrics.first_failure.get().cloned(),
            error,
            left,
        });
        self.sessions.add_ending(entry);
    }

    /// A client wants more channels.
    pub(super) fn on_want(&mut self, id: SessionId, pipeline: u8, count: u16) {
        let now = self.dispatch.now();
        let count = self.sessions.room_for_channels(id, count, self.config.limits.channels);
        // It has ended since it asked.
        let Some(entry) = self.sessions.running.get_mut(&id) else { return };
        // Without randomness nothing may be granted: the client goes on with the channels that it has.
        let Ok(secret) = random::array() else { return };
        let up = entry.context.metrics.channels.load(Ordering::Relaxed);
        let grant = self.sessions.registry.more(id, count, up, secret, limits::GRANT_LIFE.as_millis() as u32, now);
        // It has as many as it may have, or there is no room.
        let Some(grant) = grant else { return };
        let index = usize::from(pipeline);
        match &mut entry.pipelines[index] {
            PipelineState::Running(post) => {
                // Without room in its mailbox, the client goes on with the channels that it has.
                let _ = post.try_send(Message::Command(Command::GiveChannels(grant)));
            }
            // Its thread has ended since it asked.
            PipelineState::Idle(idle) => {
                idle.give_channels(grant, now);
                self.poll_pipeline(id, index);
            }
            // Its client has ended the session.
            PipelineState::Over => {}
        }
    }

    pub(super) fn end_idle_sessions(&mut self, now: Instant) {
        let idle_for = self.config.limits.idle;
        let quiet =
            self.sessions.running.iter_mut().filter_map(|(id, entry)| entry.is_quiet(idle_for, now).then_some(*id));
        let old: Vec<SessionId> = quiet.collect();
        for id in old {
            self.logins.admission.drops().count(Drop::Idle);
            let text = format!("no operation for {} s", idle_for.as_secs());
            self.drop_session(id, Some(Error::new(ErrorKind::TimedOut, text)));
        }
    }

    /// Leases of a session are recalled: a thread tells its client, and ends. What is lost here, the
    /// client learns when it renews.
    pub(super) fn on_recalled(&mut self, id: SessionId, handles: Vec<u64>) {
        if self.sessions.running.contains_key(&id) {
            self.start_pipelines(id);
        }
        if let Some(post) = self.sessions.running.get(&id).and_then(|entry| entry.running().next()) {
            let _ = post.try_send(Message::Command(Command::Recall(handles)));
        }
    }
}
