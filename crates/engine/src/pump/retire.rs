//! The end of a pump: when its session is over, or when it is idle and its channels go back to the
//! listener.

use super::channel_io::ChannelIo;
use super::{Host, Pump};
use crate::bounds;
use crate::host::Ending;
use crate::pipeline::{Pipeline, PipelineChannel};
use xdfs_io::dispatch::Dispatch;
use xdfs_proto::session::{Role, Session};

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    pub(super) fn ending(&mut self) -> Option<Ending<D::Link>> {
        if let Some(error) = self.ended.clone() {
            // A running commit completes, and the session's reaction to it is processed.
            let done = self.pending_storage == 0 && !self.session.is_at_work() && self.lingering.is_empty();
            return done.then(|| Ending::Over(error));
        }
        let now = self.dispatch.now();
        let due = self.idle_since.is_some_and(|since| now >= since.after(bounds::IDLE_BEFORE_RETIRING));
        if !self.retire || !due || self.session.is_closing() {
            return None;
        }
        if self.session.is_at_work() || self.pending_storage > 0 || !self.batches.is_empty() {
            return None;
        }
        self.lines.values().all(ChannelIo::at_boundary).then(|| Ending::Idle(Box::new(self.take_pipeline())))
    }

    /// The pipeline as a value: every channel is between two records.
    fn take_pipeline(&mut self) -> Pipeline<D::Link> {
        let mut channels = Vec::with_capacity(self.lines.len());
        for (channel, line) in std::mem::take(&mut self.lines) {
            let detached = self.dispatch.detach(line.socket, &mut self.returned);
            channels.push(PipelineChannel {
                channel,
                link: detached.link,
                unread: detached.unread,
                sealer: line.sealer,
                opener: line.opener,
                known: true,
                farewell: None,
            });
        }
        let limits = self.session.limits().clone();
        let empty = Session::new(Role::Server, self.pipeline, limits, Default::default());
        Pipeline { session: std::mem::replace(&mut self.session, empty), channels }
    }
}
