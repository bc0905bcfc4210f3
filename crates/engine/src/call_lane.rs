//! Which batches of calls wait for each other.

use xdfs_proto::base::{ChannelId, OperationId};
use xdfs_proto::session::CallService;
use xdfs_proto::wire::file::FileBatch;

/// Batches of one lane are executed one after the other, in the order in which they arrived.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CallLane {
    /// Calls on names that arrived on a channel.
    Channel(ChannelId),
    /// Calls on an open file that arrived on a channel.
    File(ChannelId, u64),
    /// A batch that needs no order.
    Alone(OperationId),
}

impl CallLane {
    /// The lane of a batch that arrived on a channel.
    pub(crate) fn of(service: CallService, payload: &[u8], channel: ChannelId, operation: OperationId) -> Self {
        match service {
            CallService::Path => Self::Channel(channel),
            CallService::File => match FileBatch::head_of(payload) {
                Ok(batch) if batch.handle != 0 && !batch.unordered => Self::File(channel, batch.handle),
                _ => Self::Alone(operation),
            },
        }
    }
}
