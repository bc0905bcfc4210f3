//! A pipeline as a plain value: its machine and its channels, which can move to another thread at a
//! record boundary.

use crate::record::RecordLayer;
use xdfs_proto::base::ChannelId;
use xdfs_proto::session::Session;
use xdfs_secure::handshake::tls::Farewell;

/// A channel that is connected and authenticated.
#[derive(Debug)]
pub struct PipelineChannel<L> {
    /// Its number.
    pub channel: ChannelId,
    /// The socket.
    pub link: L,
    /// Bytes that were read from it already: at most part of a head.
    pub unread: Vec<u8>,
    /// What protects its records.
    pub records: RecordLayer,
    /// The machine was notified that the channel is up.
    pub known: bool,
    /// Channel 1: the peer's close_notify of the handshake is still to arrive, before its first
    /// record.
    pub farewell: Option<Farewell>,
}

/// A pipeline as a value: its machine and its channels. It moves between threads at a record
/// boundary.
#[derive(Debug)]
pub struct Pipeline<L> {
    /// The machine.
    pub session: Session,
    /// The channels.
    pub channels: Vec<PipelineChannel<L>>,
}
