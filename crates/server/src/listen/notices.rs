//! Tells sessions of changes of the names that they watch. A session that is idle is told right here:
//! a change that a thousand clients watch must not start a thousand threads.

use super::Server;
use super::close::introduce;
use crate::authorise::CurrentAuthority;
use crate::sessions::{PipelineState, ServerMessage};
use crate::watches::Watches;
use std::sync::mpsc::SyncSender;
use xdfs_engine::control;
use xdfs_engine::mailbox::{Command, Message};
use xdfs_io::dispatch::{DescriptorWaker, Dispatch, Op, Wake};
use xdfs_proto::base::{Error, ErrorKind, Instant, SessionId};
use xdfs_proto::session::{Output, Payload};

/// The watches of a server, whose listener gets `letters`.
pub(super) fn watches(
    authority: &CurrentAuthority,
    letters: SyncSender<ServerMessage>,
    waker: DescriptorWaker,
) -> Watches {
    let tell = move |session| {
        let told = letters.try_send(ServerMessage::Notices { session }).is_ok();
        if told {
            waker.wake();
        }
        told
    };
    Watches::new(authority.clone(), Box::new(tell))
}

impl Server {
    /// There is something to tell a session.
    pub(super) fn on_notices(&mut self, id: SessionId) {
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        let notices = entry.watches.take();
        let running = entry.pipes.iter().find_map(|pipe| match pipe {
            PipelineState::Running(post) => Some(post),
            _ => None,
        });
        if let Some(post) = running {
            let command = Message::Command(Command::Notices(notices.clone()));
            if post.try_send(command).is_err() {
                entry.watches.put_back(notices);
            }
            return;
        }
        let now = self.dispatch.now();
        let idle = |pipe: &PipelineState| matches!(pipe, PipelineState::Idle { channels, .. } if !channels.is_empty());
        let Some(pipeline) = entry.pipes.iter().position(idle) else { return };
        if let Some(PipelineState::Idle { session, channels }) = entry.pipes.get_mut(pipeline) {
            introduce(session, channels, now);
            notices.into_iter().for_each(|notice| session.notice(notice));
        }
        self.tell_idle(id, pipeline);
    }

    /// Sends what the machine of an idle pipeline has to say about its session, as far as its channels
    /// take it; the rest follows when they do.
    pub(super) fn tell_idle(&mut self, id: SessionId, pipeline: usize) {
        let now = self.dispatch.now();
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        let Some(PipelineState::Idle { session, channels }) = entry.pipes.get_mut(pipeline) else { return };
        while let Some(output) = session.poll_idle(now) {
            let Output::Send { channel, head, payload: Payload::Control(payload) } = output else { continue };
            let Some(idle) = channels.get_mut(&channel) else { continue };
            match control::seal(&mut idle.sealer, &head, &payload) {
                Ok((head, body)) => {
                    idle.sending = true;
                    entry.telling_since.get_or_insert(now);
                    self.dispatch.submit(Op::Send { socket: idle.socket, head: Some(head), body });
                }
                Err(error) => session.on_lost(channel, error),
            }
        }
    }

    /// Ends sessions that do not take what they wanted to be told: their requests would not be heard
    /// either.
    pub(super) fn end_deaf_sessions(&mut self, now: Instant) {
        let deaf = self.sessions.iter().filter(|(_, entry)| {
            let stall = entry.pipes.iter().find_map(|pipe| match pipe {
                PipelineState::Idle { session, .. } => Some(session.limits().stall),
                _ => None,
            });
            entry.telling_since.zip(stall).is_some_and(|(since, stall)| now.since(since) >= stall)
        });
        let deaf: Vec<SessionId> = deaf.map(|(id, _)| *id).collect();
        for id in deaf {
            let error = Error::new(ErrorKind::TimedOut, "the client does not take the notices that it asked for");
            self.drop_session(id, Some(error));
        }
    }
}
