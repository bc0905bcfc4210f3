//! One channel as the pump sees it: its socket, its keys, what is arriving and what is being sent.

use crate::bounds;
use crate::record::{Record, RecordLayer};
use xdfs_io::dispatch::SocketId;
use xdfs_proto::base::{Extent, OperationId};
use xdfs_secure::handshake::tls::Farewell;

/// What is arriving.
#[derive(Debug)]
pub(super) enum Arriving {
    /// The peer's close_notify of the handshake.
    Farewell(Farewell),
    /// The next head.
    Head,
    /// A head whose record may not be read yet.
    Parked(Record),
    /// A control payload.
    Control(Record),
    /// A long control payload that is not read before others of its pipeline are whole.
    Held(Record),
    /// A block that waits for a buffer.
    Waiting { record: Record, wanted: bool },
    /// A block that is read into a buffer. `wanted` is false for a record that is read only to be
    /// discarded.
    Filling { record: Record, wanted: bool },
    /// A block at level clear that is taken as it arrives.
    Pieces(Pieces),
    /// Nothing more arrives.
    Nothing,
}

/// A block that is taken piece by piece.
#[derive(Debug)]
pub(super) struct Pieces {
    pub record: Record,
    /// Bytes that have arrived.
    pub done: u32,
    pub to: PieceTarget,
    /// Bytes after the last whole page.
    pub carry: Vec<u8>,
}

/// What becomes of a block that arrives piece by piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PieceTarget {
    /// It is written.
    File,
    /// Its target discards everything.
    Discarded,
    /// It is read only to come to the next record.
    Skipped,
}

/// Where the buffer of a block goes when the transport is done with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BufferOrigin {
    /// There is no buffer: the kernel moves the bytes.
    Nowhere,
    /// The pool of send buffers.
    Pool,
    /// The reader thread of a stream.
    Stream,
}

/// What is being sent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum SendState {
    /// The transport has nothing of this channel.
    #[default]
    Nothing,
    /// A record that is no block, or one that waits for a buffer before it is passed on.
    Record,
    /// A block that is with the transport.
    Block(SendingBlock),
}

/// A block that is with the transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SendingBlock {
    pub operation: OperationId,
    pub extent: Extent,
    pub origin: BufferOrigin,
}

/// One channel of the pump: its socket, its keys, what is arriving and what is being sent.
#[derive(Debug)]
pub(super) struct ChannelIo {
    pub socket: SocketId,
    pub records: RecordLayer,
    pub arriving: Arriving,
    pub sending: SendState,
}

impl ChannelIo {
    pub(super) fn new(socket: SocketId, records: RecordLayer) -> Self {
        Self { socket, records, arriving: Arriving::Nothing, sending: SendState::Nothing }
    }

    /// The memory of a long control payload that is arriving.
    pub(super) fn long_control_bytes(&self) -> usize {
        match &self.arriving {
            Arriving::Control(record) if is_long(record) => record.head.length as usize,
            _ => 0,
        }
    }

    /// Whether the channel is between two records in both directions.
    pub(super) fn at_boundary(&self) -> bool {
        self.sending == SendState::Nothing && matches!(self.arriving, Arriving::Head)
    }

    /// The block that is with the transport.
    pub(super) const fn block_in_flight(&self) -> Option<SendingBlock> {
        match self.sending {
            SendState::Block(block) => Some(block),
            SendState::Nothing | SendState::Record => None,
        }
    }
}

/// Whether a control payload counts against the pipeline's memory for long ones.
pub(super) fn is_long(record: &Record) -> bool {
    record.head.length as usize > bounds::SHORT_CONTROL_BYTES
}
