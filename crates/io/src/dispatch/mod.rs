//! The event dispatcher (the papers' PIOD): it takes operations and returns completions.
//!
//! # Contract
//!
//! An implementation owns the sockets that were attached to it and serves one thread. At most one receiving
//! operation ([`Op::Head`], [`Op::Small`], [`Op::Fill`], [`Op::Some`], [`Op::Accept`]) and one
//! sending operation ([`Op::Send`], [`Op::Connect`]) is outstanding per socket; submitting a second
//! one is a bug of the caller and panics.
//!
//! An implementation must provide:
//! - every submitted operation ends in exactly one completion, or is dropped by
//!   [`Dispatch::detach`];
//! - sockets are served in turns of at most a byte budget per socket and round, so that no socket
//!   starves; a turn may wait a tenth of a millisecond for a socket that blocks in the middle of it
//!   (an edge-triggered loop "until it blocks" was measured to leave half of the sockets with
//!   nothing at half time);
//! - bytes of a socket are delivered in order and none is read beyond what was requested, except
//!   for the 48 bytes of the next head after an [`Op::Fill`] and [`AHEAD_BYTES`] after an
//!   [`Op::Small`], which the implementation keeps for the following operations and returns on
//!   [`Dispatch::detach`];
//! - an end or error of the receiving side is reported once, as the completion of the outstanding
//!   receiving operation or of the next one submitted.
//!
//! Until [`Op::Connect`] has completed, a connecting socket accepts no other operation. A socket
//! whose side has ended completes every further operation on that side with the same end. The
//! partial data of an [`Op::Fill`] is lost when its socket is detached; the bytes of an
//! [`Op::Head`] or [`Op::Small`] are not.
//!
//! A caller must not assume that completions of different sockets keep the order of submission,
//! that `submit` does or does not make a system call, or that a completed [`Op::Send`] reached the
//! peer (it reached the transport).
//!
//! Implementations: `epoll` (default), `poll` (portable), `sim` (in memory, seeded, with a virtual clock).
//! `XDFS_DISPATCH=poll` selects an implementation for a whole program run.

mod choice;
mod clock;
mod direct;
mod epoll;
mod layered;
mod lazy_buffer;
mod linger;
mod memory;
mod pace;
mod poll;
mod receive;
mod send;
pub mod sim;
mod slot;
mod sockets;
mod wait;

pub use choice::{DISPATCH_VARIABLE, Dispatcher};
pub use clock::DescriptorWaker;
pub use epoll::Epoll;
pub use pace::{Allowance, Pace};
pub use poll::Poll;
pub use sim::{Chance, Faults, Network, Sim, SimLink};
pub use sockets::Sockets;
pub use wait::{Event, Interest, Until, Wait, Waited};

use crate::buf::Buffer;
use xdfs_proto::base::Instant;

/// Size of a record's head and tag, with which every record starts.
pub const HEAD_BYTES: usize = 48;

/// Bytes that an [`Op::Small`] may read beyond its own: small messages are usually followed by
/// small ones, and a call costs more than a copy. A TLS hello fits.
pub const AHEAD_BYTES: usize = 2048;

/// A socket attached to a dispatcher; valid only within that dispatcher, and reused after `detach`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId(pub u32);

/// A source file registered with a dispatcher for [`Body::File`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u32);

/// An operation on a socket.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum Op {
    /// Receive the next [`HEAD_BYTES`] bytes.
    Head { socket: SocketId },
    /// Receive exactly `length` bytes (handshake messages, control payloads; at most 64 KiB).
    Small { socket: SocketId, length: usize },
    /// Fill `buffer[from..to]` of the payload area; completes when it is full. The implementation may read
    /// the head that follows in the same call.
    Fill { socket: SocketId, buffer: Buffer, from: usize, to: usize },
    /// Receive at least one and at most `limit` bytes into the implementation's scratch area
    /// ([`Dispatch::scratch`]).
    Some { socket: SocketId, limit: usize },
    /// Send head (if any) and body; completes when the transport has accepted the last byte.
    Send { socket: SocketId, head: Option<[u8; HEAD_BYTES]>, body: Body },
    /// Wait until a connecting socket is connected or has failed.
    Connect { socket: SocketId },
    /// Wait for a connection on a listening socket.
    Accept { socket: SocketId },
}

/// The body that follows the head.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum Body {
    /// Nothing.
    None,
    /// A small payload: control messages and handshake bytes.
    Bytes(Vec<u8>),
    /// The same, followed soon by more data: a transport may delay it briefly (TCP: a fifth of a
    /// second) to send both at once.
    Lead(Vec<u8>),
    /// `buffer[from..to]` of the payload area.
    Buffer { buffer: Buffer, from: usize, to: usize },
    /// A range of a registered file, moved by the kernel without a copy in user space (the direct
    /// route).
    File { file: FileId, offset: u64, length: u64 },
    /// `length` zero bytes, sent from one cached block.
    Zero { length: u64 },
}

/// The result of an operation.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum Completion<L> {
    /// [`Op::Head`]: the bytes.
    Head { socket: SocketId, head: [u8; HEAD_BYTES] },
    /// [`Op::Small`]: the bytes.
    Small { socket: SocketId, bytes: Vec<u8> },
    /// [`Op::Fill`]: the buffer, full from `from` to `to`.
    Filled { socket: SocketId, buffer: Buffer },
    /// [`Op::Some`]: `length` bytes are in [`Dispatch::scratch`] until the next call of `next`.
    Some { socket: SocketId, length: usize },
    /// [`Op::Send`]: all bytes were accepted. `buffer` is returned for [`Body::Buffer`]. `short_by`
    /// counts the bytes that were missing in a [`Body::File`] and were sent as zeros: the source
    /// shrank during the record.
    Sent { socket: SocketId, buffer: Option<Buffer>, short_by: u64 },
    /// [`Op::Connect`]: the socket is connected.
    Connected { socket: SocketId },
    /// [`Op::Accept`]: a connection, not attached yet.
    Accepted { socket: SocketId, link: L },
    /// The socket failed or the peer closed it. `operation` is the side that ended; the operation's
    /// buffer is returned.
    Ended { socket: SocketId, side: Side, cause: End, buffer: Option<Buffer> },
    /// The waker was called.
    Woken,
    /// The deadline passed to `next` has expired.
    Deadline,
}

/// The direction of a socket that an operation used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// Receiving, or accepting.
    Receive,
    /// Sending, or connecting.
    Send,
}

/// Why a side of a socket ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum End {
    /// The peer closed its sending side (FIN).
    Closed,
    /// An errno of the operating system.
    Failed(i32),
    /// A [`Body::File`] could not be read: the errno of the *file*. The socket is unusable since
    /// the started record cannot be completed.
    Source(i32),
}

/// Progress of a socket, for stall detection and statistics.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Progress {
    /// When bytes last arrived.
    pub received_at: Instant,
    /// When the transport last accepted bytes.
    pub sent_at: Instant,
    /// Bytes received since the socket was attached.
    pub received: u64,
    /// Bytes sent since the socket was attached.
    pub sent: u64,
}

/// The result of `detach`: the link, and the bytes of a partially received head.
#[derive(Debug)]
pub struct Detached<L> {
    /// The socket itself.
    pub link: L,
    /// Bytes already read from it, to be passed to the next `attach`.
    pub unread: Vec<u8>,
}

/// An event mechanism. Its contract is in the module documentation.
pub trait Dispatch {
    /// A socket that is not attached to a dispatcher.
    type Link;
    /// Wakes `next` from another thread.
    type Waker: Wake;

    /// Takes ownership of a socket. `unread` are bytes that were read from it before (see
    /// [`Detached`]).
    fn attach(&mut self, link: Self::Link, unread: &[u8]) -> std::io::Result<SocketId>;

    /// Returns a socket and drops its outstanding operations; their buffers are added to
    /// `returned`.
    fn detach(&mut self, socket: SocketId, returned: &mut Vec<Buffer>) -> Detached<Self::Link>;

    /// Registers a file for [`Body::File`].
    fn open_file(&mut self, file: std::os::fd::OwnedFd) -> FileId;

    /// Unregisters a file; sends that use it must have completed or been detached.
    fn close_file(&mut self, file: FileId);

    /// Starts an operation.
    fn submit(&mut self, op: Op);

    /// From the next operation of `side` on, payloads move no faster than `pace` allows: those of
    /// [`Op::Fill`] and [`Op::Some`], and the bodies of [`Op::Send`] that are a buffer, a file or
    /// zeros. A side that waits for its pace counts as making progress.
    fn pace(&mut self, socket: SocketId, side: Side, pace: Option<std::sync::Arc<dyn Pace>>);

    /// Shuts down sending on a socket whose last [`Op::Send`] has completed: the peer reads the end
    /// after the sent data. Receiving continues.
    fn finish_sending(&mut self, socket: SocketId) -> std::io::Result<()>;

    /// The next completion; blocks until there is one or `deadline` has passed. `None` waits
    /// indefinitely.
    fn next(&mut self, deadline: Option<Instant>) -> std::io::Result<Completion<Self::Link>>;

    /// The bytes of the last [`Completion::Some`].
    fn scratch(&mut self) -> &mut [u8];

    /// The progress of a socket.
    fn progress(&self, socket: SocketId) -> Progress;

    /// Why the layers of a socket failed, where that says more than the errno of its end.
    fn failure(&self, socket: SocketId) -> Option<String> {
        let _ = socket;
        None
    }

    /// Borrows the socket, for options and information.
    fn link(&self, socket: SocketId) -> &Self::Link;

    /// The monotonic (or virtual) time, read at most once per wait.
    fn now(&self) -> Instant;

    /// A handle that wakes this dispatcher.
    fn waker(&self) -> Self::Waker;
}

/// See [`Dispatch::waker`].
pub trait Wake: Clone + Send + 'static {
    /// Makes `next` return [`Completion::Woken`]; several calls before that count as one.
    fn wake(&self);
}
