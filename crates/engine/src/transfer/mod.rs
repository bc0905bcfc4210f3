//! The local source or target of an operation.

pub mod commit;
pub mod hashed;
pub mod hashing;
pub mod parallel;
pub mod phase;
pub mod reader;
pub mod stored;
pub mod sum;
pub mod writer;

pub use phase::{AfterDetach, LongRead, OperationOutcome, Phase, Reading, Transfer, Writing};
pub use writer::{Block, Writer, Written};

use crate::schedule::QuotaClass;
use std::collections::BTreeMap;
use std::sync::Arc;
use xdfs_io::buf::Buffer;
use xdfs_io::dispatch::FileId;
use xdfs_io::store::{Source, Stage};
use xdfs_proto::base::ChannelId;
use xdfs_secure::content::Leaf;

/// The source of an upload, passed to a pump.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum SourceSide {
    /// Any range at any time; byte 0 of the transfer is byte `offset` of the source.
    Ranges { source: Source, offset: u64 },
    /// In order only, from a source whose reads may block; exactly `limit` bytes if it is given.
    Stream { source: Source, limit: Option<u64> },
}

/// A source or stage that several pipelines use.
#[derive(Clone, Debug)]
pub struct SharedFile {
    /// The file.
    pub end: SharedEnd,
    /// The hashes so far.
    pub hashing: Option<Arc<hashing::Hashing>>,
    /// The user and export of the work.
    pub share: QuotaClass,
}

/// See [`SharedFile`].
#[derive(Clone, Debug)]
pub enum SharedEnd {
    /// The source, and the offset of byte 0 of the transfer in it.
    Source(Arc<Source>, u64),
    /// The stage that is written.
    Stage(Arc<Stage>),
}

/// What an operation moved on this side.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TransferStats {
    /// Bytes of blocks, including repeated ones.
    pub bytes: u64,
    /// The same per channel.
    pub channel_bytes: BTreeMap<ChannelId, u64>,
    /// The target existed here already.
    pub unchanged: bool,
}

impl TransferStats {
    /// Counts `bytes` more on `channel`.
    pub fn add(&mut self, channel: ChannelId, bytes: u64) {
        self.bytes += bytes;
        *self.channel_bytes.entry(channel).or_default() += bytes;
    }
}

/// How a source delivers its bytes.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum ReadMode {
    /// The kernel moves them (the direct route).
    Direct { source: Arc<Source>, file: FileId, offset: u64 },
    /// They are read into a buffer (the buffered route).
    Buffered { source: Arc<Source>, offset: u64 },
    /// They are zeros.
    Zero,
    /// A reader thread delivers them in order; blocks are kept until they are acknowledged.
    Stream(reader::Stream),
}

impl ReadMode {
    /// A source of any range, and the offset of byte 0 of the transfer in it; none for a stream.
    pub fn source(&self) -> Option<(Arc<Source>, u64)> {
        match self {
            Self::Direct { source, offset, .. } | Self::Buffered { source, offset } => {
                Some((Arc::clone(source), *offset))
            }
            Self::Zero => Some((Arc::new(Source::zero(None)), 0)),
            Self::Stream(_) => None,
        }
    }
}

/// Blocks that wait for their turn: by offset, with their length and hash.
pub type WaitingBlocks = BTreeMap<u64, (Buffer, usize, Option<Leaf>)>;

/// How a stage takes its bytes.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum WriteMode {
    /// They are discarded.
    Discard(Arc<Stage>),
    /// Written by the pipeline's thread (SRV-64).
    Inline(Arc<Stage>),
    /// Written by the writer thread in parallel to receiving (SRV-65).
    Beside { stage: Arc<Stage>, writer: Arc<Writer> },
    /// In order only, by the writer thread; blocks wait here for their turn.
    Ordered { stage: Arc<Stage>, writer: Arc<Writer>, next: u64, waiting: WaitingBlocks },
}

impl WriteMode {
    /// The stage.
    pub fn stage(&self) -> &Arc<Stage> {
        match self {
            Self::Discard(stage) | Self::Inline(stage) => stage,
            Self::Beside { stage, .. } | Self::Ordered { stage, .. } => stage,
        }
    }

    /// The stage, with this side's hold on it released.
    pub fn into_stage(self) -> Arc<Stage> {
        match self {
            Self::Discard(stage) | Self::Inline(stage) => stage,
            Self::Beside { stage, .. } | Self::Ordered { stage, .. } => stage,
        }
    }
}
