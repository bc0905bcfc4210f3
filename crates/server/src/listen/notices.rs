//! Tells sessions of changes of the names that they watch. A session that is idle is told right here:
//! a change that a thousand clients watch must not start a thousand threads.

use super::Server;
use crate::authorise::CurrentAuthority;
use crate::mailbox::{ListenerSender, ServerMessage};
use crate::watches::Watches;
use xdfs_engine::idle::IdlePipeline;
use xdfs_engine::mailbox::{Command, Message};
use xdfs_io::dispatch::Dispatch;
use xdfs_proto::base::SessionId;

/// The watches of a server, which tell this listener.
pub(super) fn watches(authority: &CurrentAuthority, listener: ListenerSender) -> Watches {
    let tell = move |session| listener.try_send(ServerMessage::Notices { session });
    Watches::new(authority.clone(), Box::new(tell))
}

impl Server {
    /// There is something to tell a session.
    pub(super) fn on_notices(&mut self, id: SessionId) {
        // Its watches ended with it.
        let Some(entry) = self.sessions.running.get_mut(&id) else { return };
        let notices = entry.context.watches.take();
        if let Some(post) = entry.running().next() {
            let command = Message::Command(Command::Notices(notices.clone()));
            if post.try_send(command).is_err() {
                entry.context.watches.put_back(notices);
            }
            return;
        }
        // Without a channel its client is leaving, and is told nothing more.
        let Some(pipeline) =
            entry.pipelines.iter().position(|pipeline| pipeline.idle().is_some_and(IdlePipeline::has_channels))
        else {
            return;
        };
        if let Some(idle) = entry.idle_mut(pipeline) {
            idle.notice(notices, self.dispatch.now());
        }
        self.poll_pipeline(id, pipeline);
    }
}
