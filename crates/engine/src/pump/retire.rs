//! The end of a pump: when its session is over, or when it is idle and its channels go back to the
//! listener.

use super::channel_io::ChannelIo;
use super::{EndState, Host, Pump};
use crate::bounds;
use crate::host::Ending;
use crate::pipeline::{Pipeline, PipelineChannel};
use xdfs_io::dispatch::Dispatch;
use xdfs_proto::base::Instant;
use xdfs_proto::session::{Role, Session};

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    /// Whether a storage call or the writer thread holds something of this pipeline.
    pub(super) fn is_storing(&self) -> bool {
        self.storage.pending > 0 || self.writer.blocks > 0
    }

    pub(super) fn ending(&mut self) -> Option<Ending<D::Link>> {
        if let EndState::Over(error) = &self.end.state {
            // A running commit completes, and the session's reaction to it is processed.
            let done = !self.is_storing() && !self.session.is_at_work() && self.end.lingering.is_empty();
            return done.then(|| Ending::Over(error.clone()));
        }
        let due = self.retires_at().is_some_and(|at| self.dispatch.now() >= at);
        due.then(|| Ending::Idle(Box::new(self.take_pipeline())))
    }

    /// When the pump retires if nothing happens until then.
    pub(super) fn retires_at(&self) -> Option<Instant> {
        let since = self.timers.idle_since.filter(|_| self.settings.retire && !self.session.is_closing())?;
        // A session that has ended, or is about to, waits for its peers only; and a reply that may have to be sent again would be
        // lost with the thread that holds it.
        let may = matches!(self.end.state, EndState::Running) && self.batches.is_empty();
        let idle = !self.session.is_at_work() && !self.is_storing();
        let boundary = self.channels.by_id.values().all(ChannelIo::at_boundary);
        (may && idle && boundary).then(|| since.after(bounds::IDLE_BEFORE_RETIRING))
    }

    /// The pipeline as a value: every channel is between two records.
    fn take_pipeline(&mut self) -> Pipeline<D::Link> {
        let mut channels = Vec::with_capacity(self.channels.by_id.len());
        for (channel, io) in std::mem::take(&mut self.channels.by_id) {
            let detached = self.dispatch.detach(io.socket, &mut self.buffers.returned);
            channels.push(PipelineChannel {
                channel,
                link: detached.link,
                unread: detached.unread,
                records: io.records,
                known: true,
                farewell: None,
            });
        }
        let limits = self.session.limits().clone();
        let empty = Session::new(Role::Server, self.settings.pipeline, limits);
        Pipeline { session: std::mem::replace(&mut self.session, empty), channels }
    }
}
