//! What a pump asks of the side it runs on: the server resolves exports, the client knows its own files.

use crate::blocking::Slice;
use crate::pipeline::Pipeline;
use crate::schedule::QuotaClass;
use crate::transfer::TransferStats;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Poll;
use std::time::Duration;
use xdfs_proto::base::{Error, ErrorKind, Level, OperationId};
use xdfs_proto::session::{Committed, SessionEvent, SourceFacts};
use xdfs_proto::wire::control::Grant;
use xdfs_proto::wire::request::Request;
use xdfs_xio::store::{Source, Stage};

/// A storage call that may block; it runs in the pool.
pub type StorageJob<T> = Box<dyn FnOnce() -> Result<T, Error> + Send>;

/// Work that is cut in slices: called again until it is ready, each time for so long.
pub type SlicedJob<T> = Box<dyn FnMut(&Slice) -> Poll<Result<T, Error>> + Send>;

/// A source that was opened for a download.
#[derive(Debug)]
pub struct Opened {
    /// What is read.
    pub source: Source,
    /// Byte of the source that is byte 0 of the transfer.
    pub offset: u64,
    /// What the peer is told about it.
    pub facts: SourceFacts,
    /// It may be a copy of what the peer's earlier attempt read.
    pub resembles: bool,
}

/// A stage that was prepared, and what the finished file gets.
#[derive(Debug)]
pub struct Staged {
    /// Where the bytes go.
    pub stage: Stage,
    /// Permission bits.
    pub mode: u32,
    /// Modification time.
    pub modified: Option<(i64, u32)>,
}

/// The side that a pump runs on: the server resolves exports, the client its own files.
pub trait Host: Send {
    /// The peer asks for a file.
    fn open(&mut self, operation: OperationId, request: &Request) -> StorageJob<Opened>;

    /// The target of a transfer: an upload that the peer asked for, or a download of ours, which has a `grant`.
    fn stage(&mut self, operation: OperationId, request: Option<&Request>, grant: Option<&Grant>)
    -> StorageJob<Staged>;

    /// A batch of calls came: what does them, and answers with the payload of the reply, in `memory` and within the room that the
    /// batch names. It runs under the share of what it is about; from the moment on that `stop` is set it begins no further call.
    fn execute(
        &mut self,
        _operation: OperationId,
        _batch: Vec<u8>,
        _stop: Arc<AtomicBool>,
        _memory: Vec<u8>,
    ) -> (QuotaClass, SlicedJob<Vec<u8>>) {
        let refused = |_: &Slice| Poll::Ready(Err(Error::new(ErrorKind::Unsupported, "no calls are done here")));
        (QuotaClass::default(), Box::new(refused))
    }

    /// How long operations that come now wait before they are begun: whoever has much done waits, and nobody else does. Asked
    /// again when that time is over.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }

    /// The reply to a batch of ours; [`Host::settled`] follows.
    fn replied(&mut self, _operation: OperationId, _reply: &[u8]) {}

    /// Whose work the operation is and on which export, asked after [`Host::open`] or [`Host::stage`].
    fn share(&self, _operation: OperationId) -> QuotaClass {
        QuotaClass::default()
    }

    /// The lowest level at which the operation may run, asked after [`Host::open`] or [`Host::stage`]: an export may
    /// demand more than the client does.
    fn floor(&self, _operation: OperationId) -> Level {
        Level::Clear
    }

    /// The number that a command's operation got, or why it got none.
    fn numbered(&mut self, ticket: u64, operation: Result<OperationId, Error>);

    /// An operation's outcome, and what it moved.
    fn settled(&mut self, operation: OperationId, outcome: Result<Committed, Error>, tally: TransferStats);

    /// Bytes of a block passed; for progress and rates. Called once per block.
    fn moved(&mut self, operation: OperationId, bytes: u64);

    /// Anything else that the session tells.
    fn event(&mut self, event: SessionEvent);
}

/// Why a pump came to its end.
#[derive(Debug)]
pub enum Ending<L> {
    /// The session is over, in order or not.
    Over(Option<Error>),
    /// No operation for a while: the pipeline as a value, to be watched by somebody else.
    Idle(Box<Pipeline<L>>),
}
