//! The interface between a pump and the side it runs on: the server resolves exports, the client
//! knows its own files.

use crate::blocking::Slice;
use crate::pace::Pacer;
use crate::pipeline::Pipeline;
use crate::schedule::QuotaClass;
use crate::transfer::TransferStats;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Poll;
use std::time::Duration;
use xdfs_io::buf::Buffer;
use xdfs_io::store::{Source, Stage};
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Level, OperationId, Timestamp};
use xdfs_proto::session::{CallService, Committed, SessionEvent, SourceFacts};
use xdfs_proto::wire::control::Grant;
use xdfs_proto::wire::request::Request;

/// A storage call that may block; it runs in the pool.
pub type StorageJob<T> = Box<dyn FnOnce() -> Result<T, Error> + Send>;

/// Work that is cut into slices: called again until it is ready, for one slice each time.
pub type SlicedJob<T> = Box<dyn FnMut(&Slice) -> Poll<Result<T, Error>> + Send>;

/// A source that was opened for a download.
#[derive(Debug)]
pub struct Opened {
    /// The source that is read.
    pub source: Source,
    /// Byte of the source that is byte 0 of the transfer.
    pub offset: u64,
    /// Facts about the source that are sent to the peer.
    pub facts: SourceFacts,
}

/// A prepared stage and the metadata of the finished file.
#[derive(Debug)]
pub struct Staged {
    /// Where the bytes are written.
    pub stage: Stage,
    /// Permission bits.
    pub mode: u32,
    /// Modification time.
    pub modified: Option<Timestamp>,
}

/// The side that a pump runs on: the server resolves exports, the client its own files.
pub trait Host: Send {
    /// The peer requests a file.
    fn open(&mut self, operation: OperationId, request: &Request) -> StorageJob<Opened>;

    /// The target of a transfer: an upload that the peer requested, or a download of this side,
    /// which has a `grant`.
    fn stage(&mut self, operation: OperationId, request: Option<&Request>, grant: Option<&Grant>)
    -> StorageJob<Staged>;

    /// A batch of calls arrived: returns the job that runs them and replies with the payload, in
    /// `memory` and within the room that the batch names. It runs under the share of the export it
    /// is about; once `stop` is set it starts no further call.
    fn execute(
        &mut self,
        _operation: OperationId,
        _service: CallService,
        _batch: Bytes,
        _stop: Arc<AtomicBool>,
        _memory: Vec<u8>,
    ) -> (QuotaClass, SlicedJob<Vec<u8>>) {
        let refused = |_: &Slice| Poll::Ready(Err(Error::new(ErrorKind::Unsupported, "no calls are done here")));
        (QuotaClass::default(), Box::new(refused))
    }

    /// How long newly arriving operations wait before they start: a user with much completed work
    /// waits, and no other user does. Queried again when that time is over.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }

    /// The reply to a batch of this side: the first bytes of a buffer. Returns one of its size, which need not be the
    /// same. [`Host::settled`] follows.
    fn replied(&mut self, _operation: OperationId, reply: Buffer, _length: usize) -> Buffer {
        reply
    }

    /// The user and export of the operation, queried after [`Host::open`] or [`Host::stage`].
    fn share(&self, _operation: OperationId) -> QuotaClass {
        QuotaClass::default()
    }

    /// The limit of bandwidth for payloads of an operation; none where nothing is limited. The
    /// payload of a batch arrives before [`Host::execute`].
    fn pace(&self, _operation: OperationId) -> Option<Arc<Pacer>> {
        None
    }

    /// The lowest level at which the operation may run, queried after [`Host::open`] or
    /// [`Host::stage`]: an export may require more than the client does.
    fn floor(&self, _operation: OperationId) -> Level {
        Level::Clear
    }

    /// The number that a command's operation got, or the error if it got none.
    fn numbered(&mut self, ticket: u64, operation: Result<OperationId, Error>);

    /// An operation's outcome, and the bytes it moved.
    fn settled(&mut self, operation: OperationId, outcome: Result<Committed, Error>, tally: TransferStats);

    /// Bytes of a block passed; for progress and rates. Called once per block.
    fn moved(&mut self, operation: OperationId, bytes: u64);

    /// Any other event of the session.
    fn event(&mut self, event: SessionEvent);

    /// A channel was lost of a session that is closing and has nothing left to do.
    fn lost_at_end(&mut self, channel: ChannelId, error: Error) {
        self.event(SessionEvent::ChannelLost { channel, error });
    }
}

/// Why a pump ended.
#[derive(Debug)]
pub enum Ending<L> {
    /// The session is over, cleanly or with an error.
    Over(Option<Error>),
    /// No operation for a while: the pipeline as a value, for its next owner to watch.
    Idle(Box<Pipeline<L>>),
}
