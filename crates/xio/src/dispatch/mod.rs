//! The event dispatcher (the papers' PIOD): operations go in, completions come out.
//!
//! # Contract
//!
//! A member owns the sockets that were attached to it and serves one thread. At most one receiving operation
//! ([`Op::Head`], [`Op::Small`], [`Op::Fill`], [`Op::Some`], [`Op::Accept`]) and one sending operation ([`Op::Send`],
//! [`Op::Connect`]) is outstanding per socket; submitting a second one is a bug of the caller and panics.
//!
//! A member must provide:
//! - every submitted operation ends in exactly one completion, or is dropped by [`Dispatch::detach`];
//! - sockets are served in turns of at most a byte budget per socket and round, so no socket starves; a turn may stay a
//!   tenth of a millisecond with a socket that blocks in the middle of it
//!   (an edge-triggered loop "until it blocks" was measured to leave half of the sockets with nothing at half time);
//! - bytes of a socket are delivered in order and none is read beyond what was asked for, but for the 48 bytes of the
//!   next head behind an [`Op::Fill`] and [`AHEAD_BYTES`] behind an [`Op::Small`], which the member keeps for the operations
//!   that follow and gives back on [`Dispatch::detach`];
//! - an end or error of the receiving side is reported once, as the completion of the outstanding receiving operation
//!   or of the next one submitted.
//!
//! Until [`Op::Connect`] has completed, a connecting socket takes no other operation. A socket whose side has ended
//! answers every further operation on that side with the same end. What a [`Op::Fill`] has filled in part is lost when
//! its socket is detached; the bytes of a [`Op::Head`] or [`Op::Small`] are not.
//!
//! A caller may not assume: that completions of different sockets keep the order of submission; that `submit` does or
//! does not make a system call; that a completed [`Op::Send`] reached the peer (it reached the transport).
//!
//! Members: `epoll` (default), `poll` (portable), `sim` (in memory, seeded, with a virtual clock). `XDFS_DISPATCH=poll`
//! forces a member for a whole program run.

mod choice;
mod clock;
mod direct;
mod epoll;
mod linger;
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
pub use poll::Poll;
pub use sim::{Chance, Faults, Network, Sim, SimLink};
pub use sockets::Sockets;
pub use wait::{Event, Interest, Until, Wait, Waited};

use crate::buf::Buffer;
use xdfs_proto::base::Instant;

/// Bytes of a record's head and tag, which every record starts with.
pub const HEAD_BYTES: usize = 48;

/// Bytes that an [`Op::Small`] may read beyond its own: what small messages are followed by is small too, and a call costs more
/// than a copy. A hello of TLS fits.
pub const AHEAD_BYTES: usize = 2048;

/// A socket attached to a dispatcher; reused after `detach`, so it is a name inside one dispatcher and nothing more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId(pub u32);

/// A source file registered with a dispatcher for [`Body::File`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u32);

/// What to do on a socket.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum Op {
    /// Take the next [`HEAD_BYTES`] bytes.
    Head { socket: SocketId },
    /// Take exactly `length` bytes (handshake messages, control payloads; at most 64 KiB).
    Small { socket: SocketId, length: usize },
    /// Fill `buffer[from..to]` of the payload area; completes when it is full. The member may read the head that
    /// follows in the same call.
    Fill { socket: SocketId, buffer: Buffer, from: usize, to: usize },
    /// Take some bytes, at least one and at most `limit`, into the member's scratch area ([`Dispatch::scratch`]).
    Some { socket: SocketId, limit: usize },
    /// Send head (if any) and body; completes when the transport took the last byte.
    Send { socket: SocketId, head: Option<[u8; HEAD_BYTES]>, body: Body },
    /// Wait until a connecting socket is connected or has failed.
    Connect { socket: SocketId },
    /// Wait for a connection on a listening socket.
    Accept { socket: SocketId },
}

/// What follows the head.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum Body {
    /// Nothing.
    None,
    /// A small payload: control messages and handshake bytes.
    Bytes(Vec<u8>),
    /// The same in front of what follows soon: a transport may hold it back for a moment (TCP: a fifth of a second) to send
    /// both at once.
    Lead(Vec<u8>),
    /// `buffer[from..to]` of the payload area.
    Buffer { buffer: Buffer, from: usize, to: usize },
    /// A range of a registered file, moved by the kernel without a copy of ours (the direct route).
    File { file: FileId, offset: u64, length: u64 },
    /// `length` zero bytes, from one hot block.
    Zero { length: u64 },
}

/// What became of an operation.
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
    /// [`Op::Send`]: all bytes were taken. `buffer` comes back for [`Body::Buffer`]. `short_by` counts the bytes that a
    /// [`Body::File`] lacked and that went out as zeros: the source shrank under the record.
    Sent { socket: SocketId, buffer: Option<Buffer>, short_by: u64 },
    /// [`Op::Connect`]: the socket is connected.
    Connected { socket: SocketId },
    /// [`Op::Accept`]: a connection, not attached yet.
    Accepted { socket: SocketId, link: L },
    /// The socket failed or the peer closed it. `operation` tells which side it ended; a buffer that was lent to the
    /// operation comes back.
    Ended { socket: SocketId, side: Side, cause: End, buffer: Option<Buffer> },
    /// Somebody called the waker.
    Woken,
    /// The deadline handed to `next` passed.
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
    /// An error of the operating system, by its number.
    Failed(i32),
    /// A [`Body::File`] could not be read: the error of the *file*, by its number. The socket is unusable since the
    /// record that was started cannot be completed.
    Source(i32),
}

/// How far a socket got, for stall detection and statistics.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Progress {
    /// When bytes last arrived.
    pub received_at: Instant,
    /// When the transport last took bytes.
    pub sent_at: Instant,
    /// Bytes received since the socket was attached.
    pub received: u64,
    /// Bytes sent since the socket was attached.
    pub sent: u64,
}

/// What `detach` gives back: the link, and the bytes of a head that had arrived in part.
#[derive(Debug)]
pub struct Detached<L> {
    /// The socket itself.
    pub link: L,
    /// Bytes already read from it, to be handed to the next `attach`.
    pub unread: Vec<u8>,
}

/// One event mechanism. The module's documentation has its contract.
pub trait Dispatch {
    /// A socket outside of a dispatcher.
    type Link;
    /// Wakes `next` from another thread.
    type Waker: Wake;

    /// Takes a socket over. `unread` are bytes that were read from it before (see [`Detached`]).
    fn attach(&mut self, link: Self::Link, unread: &[u8]) -> std::io::Result<SocketId>;

    /// Gives a socket back and drops its outstanding operations; buffers they held go to `returned`.
    fn detach(&mut self, socket: SocketId, returned: &mut Vec<Buffer>) -> Detached<Self::Link>;

    /// Registers a file for [`Body::File`].
    fn open_file(&mut self, file: std::os::fd::OwnedFd) -> FileId;

    /// Forgets a file; sends that use it must have completed or been detached.
    fn close_file(&mut self, file: FileId);

    /// Starts an operation.
    fn submit(&mut self, op: Op);

    /// Nothing more is sent on a socket whose last [`Op::Send`] has completed: the peer reads the end behind it. Receiving
    /// goes on.
    fn finish_sending(&mut self, socket: SocketId) -> std::io::Result<()>;

    /// The next completion; blocks until there is one or `deadline` has come. `None` waits without end.
    fn next(&mut self, deadline: Option<Instant>) -> std::io::Result<Completion<Self::Link>>;

    /// The bytes of the last [`Completion::Some`].
    fn scratch(&mut self) -> &mut [u8];

    /// How far a socket got.
    fn progress(&self, socket: SocketId) -> Progress;

    /// Borrow of the socket, for options and information.
    fn link(&self, socket: SocketId) -> &Self::Link;

    /// The monotonic (or virtual) time, read at most once per wait.
    fn now(&self) -> Instant;

    /// A handle that wakes this dispatcher.
    fn waker(&self) -> Self::Waker;
}

/// See [`Dispatch::waker`].
pub trait Wake: Clone + Send + 'static {
    /// Makes `next` return [`Completion::Woken`]; several calls before that are one.
    fn wake(&self);
}
