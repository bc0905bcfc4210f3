//! Tells sessions of changes of the names that they watch. A session that is idle is told right here:
//! a change that a thousand clients watch must not start a thousand threads.

use super::Server;
use super::close::introduce;
use crate::authorise::CurrentAuthority;
use crate::mailbox::{ListenerSender, ServerMessage};
use crate::sessions::PipelineState;
use crate::watches::Watches;
use xdfs_engine::mailbox::{Command, Message};
use xdfs_io::dispatch::Dispatch;
use xdfs_proto::base::{Error, ErrorKind, Instant, SessionId};

/// The watches of a server, which tell this listener.
pub(super) fn watches(authority: &CurrentAuthority, listener: ListenerSender) -> Watches {
    let tell = move |session| listener.try_send(ServerMessage::Notices { session });
    Watches::new(authority.clone(), Box::new(tell))
}

impl Server {
    /// There is something to tell a session.
    pub(super) fn on_notices(&mut self, id: SessionId) {
        let Some(entry) = self.sessions.running.get_mut(&id) else { return };
        let notices = entry.context.watches.take();
        if let Some(post) = entry.running().next() {
            let command = Message::Command(Command::Notices(notices.clone()));
            if post.try_send(command).is_err() {
                entry.context.watches.put_back(notices);
            }
            return;
        }
        let now = self.dispatch.now();
        let idle = |pipe: &PipelineState| matches!(pipe, PipelineState::Idle { channels, .. } if !channels.is_empty());
        // Without a channel its client is leaving, and is told nothing more.
        let Some(pipeline) = entry.pipes.iter().position(idle) else { return };
        if let Some(PipelineState::Idle { session, channels }) = entry.pipes.get_mut(pipeline) {
            introduce(session, channels, now);
            notices.into_iter().for_each(|notice| session.notice(notice));
        }
        self.tell_idle(id, pipeline);
    }

    /// Ends sessions that do not take what they wanted to be told: their requests would not be heard
    /// either.
    pub(super) fn end_deaf_sessions(&mut self, now: Instant) {
        let is_deaf = |pipe: &PipelineState| match pipe {
            // One that is closing has a deadline of its own.
            PipelineState::Idle { session, channels } if !session.is_closing() => {
                let since = channels.values().filter_map(|idle| idle.sending_since).min();
                since.is_some_and(|since| now.since(since) >= session.limits().stall)
            }
            _ => false,
        };
        let deaf = self.sessions.running.iter().filter(|(_, entry)| entry.pipes.iter().any(is_deaf));
        let deaf: Vec<SessionId> = deaf.map(|(id, _)| *id).collect();
        for id in deaf {
            let error = Error::new(ErrorKind::TimedOut, "the client does not take the notices that it asked for");
            self.drop_session(id, Some(error));
        }
    }
}
