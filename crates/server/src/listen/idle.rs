//! Sessions between their operations: idle pipelines, deadlines, status, drain.

use super::Server;
use crate::admit::{Drop, ServerLimits};
use crate::files::leases::Leases;
use crate::log::LogEvent;
use crate::mailbox::{ListenerSender, ServerMessage};
use crate::sessions::{EndingSession, IdleChannel, PipelineState, PumpMessage};
use crate::severity::has_left;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use xdfs_engine::host::Ending;
use xdfs_engine::mailbox::{Command, Message};
use xdfs_engine::pipeline::{Pipeline, PipelineChannel};
use xdfs_io::dispatch::{Dispatch, SocketId};
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
        mailbox: PumpMessage,
    ) {
        let index = usize::from(pipeline);
        match ending {
            Ending::Over(error) => {
                let Some(entry) = self.sessions.get_mut(&id) else { return };
                entry.pipes[index] = PipelineState::Over;
                // Data that one pipeline has lost cannot be recovered by another (P-42).
                if error.is_some() || entry.pipes.iter().all(|pipe| matches!(pipe, PipelineState::Over)) {
                    self.drop_session(id, error);
                }
            }
            Ending::Idle(group) => self.keep(id, index, *group, mailbox),
        }
    }

    fn keep(&mut self, id: SessionId, index: usize, group: Pipeline<Link>, mailbox: PumpMessage) {
        if !self.sessions.contains_key(&id) {
            return;
        }
        let mut channels = BTreeMap::new();
        let mut again = false;
        let late: Vec<_> = mailbox.try_iter().collect();
        let mut attach = group.channels;
        for mail in late {
            match mail {
                Message::Attach(channel) => attach.push(*channel),
                // Sent to a thread that was about to end: a new one reads it.
                Message::Command(command) => {
                    again = true;
                    self.late_commands.push((id, index, command));
                }
                _ => {}
            }
        }
        for channel in attach {
            let Ok(socket) = self.dispatch.attach(channel.link, &channel.unread) else { continue };
            let PipelineChannel { channel, sealer, opener, known, farewell, .. } = channel;
            let idle = IdleChannel::new(socket, sealer, opener, known, farewell);
            self.dispatch.submit(idle.read_on());
            self.idle.insert(socket, (id, channel));
            channels.insert(channel, idle);
        }
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        entry.leaving_until = None;
        entry.pipes[index] = PipelineState::Idle { session: Box::new(group.session), channels };
        if again || self.draining.is_some() {
            self.start_pipelines(id);
            self.deliver_late(id);
        }
    }

    fn deliver_late(&mut self, id: SessionId) {
        for (session, index, command) in std::mem::take(&mut self.late_commands) {
            let pipe = self.sessions.get(&session).and_then(|entry| entry.pipes.get(index));
            if let Some(PipelineState::Running(post)) = pipe {
                let _ = post.try_send(Message::Command(command));
            }
        }
        if self.draining.is_some() {
            self.tell_drain(id);
        }
    }

    /// An idle channel ended without a clean close.
    pub(super) fn idle_ended(&mut self, socket: SocketId, error: Error) {
        let Some((id, channel)) = self.idle.remove(&socket) else { return };
        self.dispatch.detach(socket, &mut Vec::new());
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        let pipeline = entry.pipeline_of(channel);
        let Some(PipelineState::Idle { session, channels }) = entry.pipes.get_mut(pipeline) else { return };
        let known = channels.remove(&channel).is_some_and(|idle| idle.known);
        if !known {
            // For the others the machine reports it.
            entry.context.metrics.channels.fetch_sub(1, Ordering::Relaxed);
        }
        let leaving = session.is_closing();
        if channels.is_empty() && !leaving {
            return self.drop_session(id, Some(error));
        }
        if known {
            // The machine must send a fence: it does when the pipeline has work again.
            session.on_lost(channel, error);
        }
        if leaving {
            self.tell_idle(id, pipeline);
        }
    }

    /// Ends a session: every idle channel is closed, every thread notified.
    pub(super) fn drop_session(&mut self, id: SessionId, error: Option<Error>) {
        self.roster.end(id);
        let Some(entry) = self.sessions.remove(&id) else { return };
        self.services.rates.left(&entry.context.budget);
        for pipe in &entry.pipes {
            match pipe {
                PipelineState::Idle { channels, .. } => {
                    for idle in channels.values() {
                        self.idle.remove(&idle.socket);
                        self.dispatch.detach(idle.socket, &mut Vec::new());
                    }
                }
                PipelineState::Running(post) => {
                    let why = error.clone();
                    let why = why.unwrap_or_else(|| Error::new(ErrorKind::ConnectionLost, "the session has ended"));
                    self.untold.tell(post.clone(), why, self.dispatch.now());
                }
                PipelineState::Over => {}
            }
        }
        let left = error.as_ref().is_some_and(has_left);
        let error = error.map(|error| error.to_string());
        self.totals.sessions_failed += u64::from(error.is_some());
        (self.config.log)(&LogEvent::SessionEnded {
            session: id,
            user: entry.context.principal.user.escape_debug().to_string(),
            peer: entry.grant.peer.clone(),
            lasted: self.dispatch.now().since(entry.grant.opened),
            moved: entry.context.metrics.traffic.read(),
            first_failure: entry.context.metrics.first_failure.get().cloned(),
            error,
            left,
        });
        self.ending.retain(EndingSession::has_threads);
        self.ending.extend(EndingSession::of(entry));
    }

    /// A client wants more channels.
    pub(super) fn on_want(&mut self, id: SessionId, pipeline: u8, count: u16) {
        let now = self.dispatch.now();
        let count = self.room_for_channels(id, count);
        let Some(entry) = self.sessions.get(&id) else { return };
        let Ok(secret) = random::array() else { return };
        let up = entry.context.metrics.channels.load(Ordering::Relaxed);
        let grant = self.roster.more(id, count, up, secret, limits::GRANT_LIFE.as_millis() as u32, now);
        if let (Some(grant), Some(PipelineState::Running(post))) = (grant, entry.pipes.get(usize::from(pipeline))) {
            let _ = post.try_send(Message::Command(Command::GiveChannels(grant)));
        }
    }

    pub(super) fn end_idle_sessions(&mut self, now: Instant) {
        let idle_for = self.config.limits.idle;
        let quiet = self.sessions.iter_mut().filter_map(|(id, entry)| entry.is_quiet(idle_for, now).then_some(*id));
        let old: Vec<SessionId> = quiet.collect();
        for id in old {
            self.admission.drops().count(Drop::Idle);
            let text = format!("no operation for {} s", idle_for.as_secs());
            self.drop_session(id, Some(Error::new(ErrorKind::TimedOut, text)));
        }
    }

    pub(super) fn retire(&mut self) {
        if let Some(socket) = self.listener.take() {
            self.dispatch.detach(socket, &mut Vec::new());
        }
        self.retired = true;
        self.accept_at = None;
        if !self.config.limits.lease.is_zero() {
            // The files are the other process's: what is done here does not wait for its leases.
            self.services.files.recall_all();
            self.drain_sessions();
        }
        (self.config.log)(&LogEvent::Retired { sessions: self.sessions.len() });
    }

    pub(super) fn drain(&mut self) {
        if let Some(socket) = self.listener.take() {
            self.dispatch.detach(socket, &mut Vec::new());
        }
        let until = self.dispatch.now().after(self.config.limits.drain);
        self.draining.get_or_insert(until);
        self.accept_at = None;
        self.drain_sessions();
        (self.config.log)(&LogEvent::Draining { sessions: self.sessions.len() });
    }

    /// Leases of a session are recalled: a thread tells its client, and ends. What is lost here, the
    /// client learns when it renews.
    pub(super) fn on_recalled(&mut self, id: SessionId, handles: Vec<u64>) {
        if self.sessions.contains_key(&id) {
            self.start_pipelines(id);
        }
        let pipes = self.sessions.get(&id).map_or(&[][..], |entry| entry.pipes.as_slice());
        let running = pipes.iter().find_map(|pipe| match pipe {
            PipelineState::Running(post) => Some(post),
            _ => None,
        });
        if let Some(post) = running {
            let _ = post.try_send(Message::Command(Command::Recall(handles)));
        }
    }

    pub(super) fn drain_sessions(&mut self) {
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.start_pipelines(id);
            self.tell_drain(id);
        }
    }

    fn tell_drain(&self, id: SessionId) {
        let Some(entry) = self.sessions.get(&id) else { return };
        for pipe in &entry.pipes {
            if let PipelineState::Running(post) = pipe {
                let _ = post.try_send(Message::Command(Command::Drain { retry_after_ms: 1000 }));
                let _ = post.try_send(Message::Command(Command::Close));
            }
        }
    }

    /// Sessions, threads, memory and rates, one line each (SRV-54).
    pub(super) fn status_lines(&mut self) -> Vec<String> {
        let now = self.dispatch.now();
        let running =
            |pipes: &[PipelineState]| pipes.iter().filter(|pipe| matches!(pipe, PipelineState::Running(_))).count();
        let threads: usize = self.sessions.values().map(|entry| running(&entry.pipes)).sum();
        let memory = xdfs_io::host::resident_bytes().map_or_else(|| "?".into(), |bytes| format!("{} KiB", bytes >> 10));
        let mut lines = vec![format!(
            "status: {} session(s), {} connection(s) opening, {threads} pipeline thread(s), {} thread(s) in all, {memory} resident",
            self.sessions.len(),
            self.guests.len(),
            xdfs_io::host::threads().map_or_else(|| "?".into(), |count| count.to_string()),
        )];
        let drops: Vec<String> =
            self.admission.drops().all().into_iter().map(|(name, count)| format!("{name} {count}")).collect();
        if !drops.is_empty() {
            lines.push(format!("limits that have bitten: {}", drops.join(", ")));
        }
        for (id, entry) in &self.sessions {
            let moved = entry.context.metrics.traffic.read();
            let bytes = moved.received + moved.sent;
            let seconds = now.since(entry.grant.opened).as_secs_f64().max(1e-9);
            lines.push(format!(
                "session {id} of {}: {} channel(s), {} running pipeline(s), {} operation(s) done, {bytes} bytes, {:.1} MB/s since it was opened",
                entry.grant.peer,
                entry.grant.channels,
                running(&entry.pipes),
                entry.context.metrics.operations.load(Ordering::Relaxed),
                bytes as f64 / seconds / 1e6,
            ));
        }
        lines
    }
}
