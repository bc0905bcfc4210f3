//! One channel of an idle pipeline: its socket, what protects its records, and what comes next.

use crate::pipeline::PipelineChannel;
use crate::record::{Record, RecordLayer};
use xdfs_io::dispatch::{Detached, HEAD_BYTES, Op, SocketId};
use xdfs_proto::base::{ChannelId, Instant};
use xdfs_secure::handshake::tls::{FAREWELL_BYTES, Farewell};

/// A channel of a pipeline that no thread serves.
#[derive(Debug)]
pub(super) struct IdleChannel {
    /// Its socket.
    pub socket: SocketId,
    /// What protects its records.
    pub records: RecordLayer,
    /// The machine of the pipeline knows of it.
    pub known: bool,
    /// What comes next.
    pub arriving: Arriving,
    /// While a record is with the transport: since when the pipeline has had one there.
    pub sending_since: Option<Instant>,
}

/// What comes next on a channel of an idle pipeline.
#[derive(Debug)]
pub(super) enum Arriving {
    /// Channel 1: the peer's close_notify of the handshake.
    Farewell(Farewell),
    /// The next head.
    Head,
    /// The payload of this EOFT.
    End(Record),
    /// Nothing: this head has arrived, and a thread reads its record.
    Work([u8; HEAD_BYTES]),
    /// Nothing more: the peer's last record has arrived.
    Nothing,
}

impl IdleChannel {
    /// A channel that waits for its next head.
    pub(super) fn new(socket: SocketId, records: RecordLayer, known: bool, farewell: Option<Farewell>) -> Self {
        let arriving = farewell.map_or(Arriving::Head, Arriving::Farewell);
        Self { socket, records, known, arriving, sending_since: None }
    }

    /// The operation that reads what comes next, before any record.
    pub(super) fn read_on(&self) -> Op {
        match &self.arriving {
            Arriving::Farewell(_) => Op::Small { socket: self.socket, length: FAREWELL_BYTES },
            _ => Op::Head { socket: self.socket },
        }
    }

    /// The channel for a thread, whose next bytes begin with the head that has arrived already.
    pub(super) fn into_pipeline_channel<L>(self, channel: ChannelId, detached: Detached<L>) -> PipelineChannel<L> {
        let Self { records, known, arriving, .. } = self;
        let (farewell, mut unread) = match arriving {
            Arriving::Farewell(farewell) => (Some(farewell), Vec::new()),
            Arriving::End(Record { raw, .. }) | Arriving::Work(raw) => (None, raw.to_vec()),
            Arriving::Head | Arriving::Nothing => (None, Vec::new()),
        };
        unread.extend(detached.unread);
        PipelineChannel { channel, link: detached.link, unread, records, known, farewell }
    }
}
