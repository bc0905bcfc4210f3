//! A pipeline as a plain value: its machine and its channels, which can move to another thread at a record boundary
//! (design rules 4 and 19).

use xdfs_proto::base::ChannelId;
use xdfs_proto::session::Session;
use xdfs_secure::handshake::tls::Farewell;
use xdfs_secure::record::{Opener, Sealer};

/// A channel that is connected and proved.
#[derive(Debug)]
pub struct PipelineChannel<L> {
    /// Its number.
    pub channel: ChannelId,
    /// The socket.
    pub link: L,
    /// Bytes that were read from it already: part of a head, at most.
    pub unread: Vec<u8>,
    /// Seals what goes out.
    pub sealer: Sealer,
    /// Opens what comes in.
    pub opener: Opener,
    /// The machine has been told that it is up.
    pub known: bool,
    /// Channel 1: the peer's leave of the handshake has still to come, in front of its first record.
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
