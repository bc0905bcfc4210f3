//! The memory of blocks: what is free, what waits for some, and the end of a session that finds none.

use super::Pump;
use crate::host::Host;
use std::collections::VecDeque;
use xdfs_io::buf::{Buffer, Pool};
use xdfs_io::dispatch::Dispatch;
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Extent, Instant};
use xdfs_proto::wire::Head;

/// The memory of blocks, and what waits for some.
pub(super) struct Buffers {
    pub(super) receive: Pool,
    pub(super) send: Pool,
    /// Channels whose next block waits for a buffer.
    pub(super) want_receive: VecDeque<ChannelId>,
    /// Blocks that wait for a buffer to be read into.
    pub(super) want_send: VecDeque<(ChannelId, Head, Extent)>,
    /// Buffers of a socket that was detached; empty between two calls.
    pub(super) returned: Vec<Buffer>,
}

impl Buffers {
    pub(super) fn new(count: usize, block: usize) -> Self {
        Self {
            receive: Pool::new(count, block),
            send: Pool::new(count, block),
            want_receive: VecDeque::new(),
            want_send: VecDeque::new(),
            returned: Vec::new(),
        }
    }

    /// Whether blocks wait for buffers of which none is in use.
    fn are_starved(&self) -> bool {
        let starved = |waits: bool, pool: &Pool| waits && pool.outstanding() == 0;
        starved(!self.want_receive.is_empty(), &self.receive) || starved(!self.want_send.is_empty(), &self.send)
    }
}

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    /// Blocks that wait although no buffer is in use wait for the kernel: nothing here returns one. It may have memory
    /// again, but is not waited for longer than a peer is.
    pub(super) fn end_without_memory(&mut self, now: Instant) {
        self.serve_waiting();
        if !self.buffers.are_starved() {
            self.timers.starved_since = None;
            return;
        }
        let since = *self.timers.starved_since.get_or_insert(now);
        if now.since(since) >= self.session.limits().stall {
            self.abandon(Error::new(ErrorKind::Resources, "no memory for a block"));
        }
    }
}
