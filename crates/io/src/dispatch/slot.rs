//! One attached socket: its driver, its outstanding operations, and bytes read ahead.

use super::linger::LingerPolicy;
use super::pace::Paced;
use super::wait::Interest;
use super::{AHEAD_BYTES, Completion, End, HEAD_BYTES, Instant, Op, Progress, Side, SocketId};
use crate::buf::Buffer;
use crate::dispatch::{Body, Pace};
use crate::stack::{self, Driver, Layers};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

/// Maximum length of an [`Op::Small`], in bytes.
pub(super) const SMALL_BYTES_MAX: usize = 64 * 1024;

/// A socket and its state.
pub(super) struct Slot<L> {
    pub(super) driver: DriverState<L>,
    pub(super) unread: Unread,
    pub(super) receiving: Option<ReceiveState>,
    pub(super) sending: Option<SendState>,
    /// The interest last passed to the waiting back end.
    pub(super) armed: Interest,
    /// How its interest may have to change, while it is in the list of such sockets.
    pub(super) listed: Option<InterestChange>,
}

/// How the interest of a listed socket may change before the next wait; the stronger one last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum InterestChange {
    /// Usually it only grows, since a socket that moves bytes needs the same interest again and again.
    Grow,
    /// It becomes what is wanted, which may be less: an event arrived that no operation waited for, or layers wait for
    /// something else.
    Exact,
}

/// The driver and the state of its two directions.
pub(super) struct DriverState<L> {
    pub(super) link: L,
    pub(super) receive: IoDirection,
    pub(super) send: IoDirection,
    /// An error that one direction met, which the kernel reports only once: the other direction
    /// then sees only an end.
    failed: Option<i32>,
    pub(super) progress: Progress,
}

/// One direction.
pub(super) struct IoDirection {
    /// Not known to be blocked: a call is worth trying.
    pub(super) ready: bool,
    /// The back end reported it ready since the last turn.
    pub(super) told: bool,
    /// In a queue for a turn.
    pub(super) queued: bool,
    /// It has ended, and every further operation ends at once.
    pub(super) ended: Option<End>,
    /// The round of the last turn, and the bytes moved in it.
    pub(super) round: u64,
    pub(super) spent: usize,
    pub(super) patience: LingerPolicy,
    pub(super) paced: Paced,
}

/// What is being received.
pub(super) enum ReceiveState {
    Head,
    Small { bytes: Vec<u8>, at: usize },
    Fill { buffer: Buffer, at: usize, to: usize },
    Some { limit: usize, length: usize },
    Accept,
}

/// What is being sent.
pub(super) enum SendState {
    Connect,
    Send(Outgoing),
}

/// A head and a body being sent.
pub(super) struct Outgoing {
    pub(super) head: [u8; HEAD_BYTES],
    /// Bytes of the head already sent; all of them if there is none.
    pub(super) head_at: usize,
    pub(super) body: Body,
    /// Bytes of the body already sent.
    pub(super) at: u64,
    pub(super) short_by: u64,
}

/// The result of a turn.
pub(super) enum Turn<L> {
    Done(Completion<L>),
    Again,
    Blocked,
    /// There was no operation.
    Nothing,
}

/// How far an operation came in a turn.
pub(super) enum IoStep {
    /// The operation is complete.
    Done,
    /// The budget is used up and the socket may have more.
    Again,
    /// No progress is possible until the back end reports readiness.
    Blocked,
    Ended(End),
}

/// Result of one call.
pub(super) enum Moved {
    Bytes(usize),
    Blocked,
    Ended(End),
}

impl<L> Slot<L> {
    pub(super) fn new(link: L, unread: &[u8], now: Instant) -> Self {
        let progress = Progress { received_at: now, sent_at: now, ..Progress::default() };
        Self {
            driver: DriverState { link, receive: IoDirection::new(), send: IoDirection::new(), failed: None, progress },
            unread: Unread::new(unread),
            receiving: None,
            sending: None,
            armed: Interest::NONE,
            listed: None,
        }
    }
}

impl<L: Driver> Slot<L> {
    /// What the outstanding operations wait for.
    pub(super) fn wanted(&self) -> Interest {
        let asked = Interest {
            readable: self.receiving.is_some() && self.driver.receive.waits(),
            writable: self.sending.is_some() && self.driver.send.waits(),
        };
        self.driver.link.layers().map_or(asked, |layers| wanted_by(layers, asked))
    }

    /// The limit of the operation of `side`, if one holds for it.
    pub(super) fn pace(&self, side: Side) -> Option<&Arc<dyn Pace>> {
        let (way, limited) = match side {
            Side::Receive => {
                let bulk = matches!(self.receiving, Some(ReceiveState::Fill { .. } | ReceiveState::Some { .. }));
                (&self.driver.receive, bulk)
            }
            Side::Send => {
                (&self.driver.send, matches!(&self.sending, Some(SendState::Send(send)) if send.is_payload()))
            }
        };
        way.paced.pace().filter(|_| limited && way.ended.is_none())
    }

    /// Whether the blocked operation of `side` is in the middle of a turn of `budget` bytes that
    /// continues with more than a message.
    pub(super) fn may_linger(&mut self, side: Side, budget: usize) -> bool {
        let bulk = match side {
            Side::Receive => matches!(self.receiving, Some(ReceiveState::Fill { .. } | ReceiveState::Some { .. })),
            Side::Send => matches!(self.sending, Some(SendState::Send(_))),
        };
        let way = self.driver.way(side);
        bulk && (1..budget).contains(&way.spent) && way.patience.stays() && self.driver.link.layers().is_none()
    }

    /// Waits briefly for `side`, using `wait`; returns whether it is ready.
    pub(super) fn linger(&mut self, side: Side, wait: impl FnOnce(&L, Interest) -> bool) -> bool {
        let ready = wait(&self.driver.link, Interest::of(side));
        let way = self.driver.way(side);
        way.patience.learn(ready);
        way.ready |= ready;
        way.told |= ready;
        ready
    }
}

/// The directions of the socket for which operations on `asked` wait.
fn wanted_by(layers: &Layers, asked: Interest) -> Interest {
    let wants = layers.wants(stack::Interest { read: asked.readable, write: asked.writable });
    Interest { readable: wants.read, writable: wants.write }
}

impl IoDirection {
    fn new() -> Self {
        let patience = LingerPolicy::default();
        let paced = Paced::default();
        Self { ready: true, told: false, queued: false, ended: None, round: 0, spent: 0, patience, paced }
    }

    /// No progress is possible until the back end reports readiness.
    pub(super) fn waits(&self) -> bool {
        !self.ready && self.ended.is_none()
    }
}

impl<L> DriverState<L> {
    pub(super) fn way(&mut self, side: Side) -> &mut IoDirection {
        match side {
            Side::Receive => &mut self.receive,
            Side::Send => &mut self.send,
        }
    }
}

impl<L: Driver> DriverState<L> {
    /// One receiving call. An end is remembered.
    pub(super) fn pull(&mut self, into: &mut [IoSliceMut<'_>], now: Instant) -> Moved {
        let asked: usize = into.iter().map(|slice| slice.len()).sum();
        loop {
            match self.link.receive(into) {
                Ok(0) => {
                    let end = self.failed.map_or(End::Closed, End::Failed);
                    self.receive.ended = Some(end);
                    return Moved::Ended(end);
                }
                Ok(bytes) => {
                    // Fewer bytes than requested: the socket is empty, and a further call would
                    // only be refused.
                    self.receive.ready = bytes == asked || self.link.layers().is_some();
                    self.receive.spent += bytes;
                    self.progress.received += bytes as u64;
                    self.progress.received_at = now;
                    return Moved::Bytes(bytes);
                }
                Err(error) => match self.failure(&error) {
                    Some(Moved::Blocked) => {
                        self.receive.ready = false;
                        return Moved::Blocked;
                    }
                    Some(Moved::Ended(end)) => {
                        self.receive.ended = Some(end);
                        return Moved::Ended(end);
                    }
                    // Layers that have worked without a result: others first.
                    None if self.link.layers().is_some() => {
                        self.receive.ready = true;
                        return Moved::Blocked;
                    }
                    _ => {}
                },
            }
        }
    }

    /// One sending call. An end is remembered.
    pub(super) fn push(&mut self, from: &[IoSlice<'_>], more: bool, now: Instant) -> Moved {
        let asked: usize = from.iter().map(|slice| slice.len()).sum();
        loop {
            match self.link.send(from, more) {
                Ok(bytes) => {
                    self.send.ready = bytes == asked || self.link.layers().is_some();
                    self.sent(bytes, now);
                    return Moved::Bytes(bytes);
                }
                Err(error) => {
                    if let Some(moved) = self.failure(&error) {
                        return self.send_stopped(moved);
                    }
                    if self.link.layers().is_some() {
                        self.send.ready = true;
                        return Moved::Blocked;
                    }
                }
            }
        }
    }

    /// Remembers what ended the sending side.
    fn send_stopped(&mut self, moved: Moved) -> Moved {
        match moved {
            Moved::Blocked => self.send.ready = false,
            Moved::Ended(end) => self.send.ended = Some(end),
            Moved::Bytes(_) => {}
        }
        moved
    }

    /// The effect of a call that returned an error on the sending side; none for a call that must be
    /// repeated.
    pub(super) fn send_failed(&mut self, error: &io::Error) -> Option<IoStep> {
        let moved = self.failure(error)?;
        Some(match self.send_stopped(moved) {
            Moved::Ended(end) => IoStep::Ended(end),
            _ => IoStep::Blocked,
        })
    }

    /// Counts bytes that the transport accepted.
    pub(super) fn sent(&mut self, bytes: usize, now: Instant) {
        if bytes > 0 {
            self.send.spent += bytes;
            self.progress.sent += bytes as u64;
            self.progress.sent_at = now;
        }
    }

    /// The meaning of a socket error; none for a call that must be repeated.
    pub(super) fn failure(&mut self, error: &io::Error) -> Option<Moved> {
        match error.kind() {
            io::ErrorKind::Interrupted => None,
            io::ErrorKind::WouldBlock => Some(Moved::Blocked),
            _ => {
                let number = error_number(error);
                self.failed.get_or_insert(number);
                Some(Moved::Ended(End::Failed(number)))
            }
        }
    }
}

/// The errno of an error; a driver's own error without one counts as an input/output error.
pub(super) fn error_number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// Bytes that were read ahead: at most a head, unless `attach` was passed more.
pub(super) struct Unread {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
}

impl Unread {
    fn new(bytes: &[u8]) -> Self {
        let mut own = vec![0; bytes.len().max(HEAD_BYTES)];
        own[..bytes.len()].copy_from_slice(bytes);
        Self { bytes: own, from: 0, to: bytes.len() }
    }

    pub(super) fn length(&self) -> usize {
        self.to - self.from
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    /// Moves as many bytes as available and fitting to the front of `into`; returns their number.
    pub(super) fn take(&mut self, into: &mut [u8]) -> usize {
        let count = self.length().min(into.len());
        into[..count].copy_from_slice(&self.bytes[self.from..self.from + count]);
        self.from += count;
        count
    }

    /// Space for the missing bytes of a head, after those already read. Empty when none is missing.
    pub(super) fn space(&mut self) -> &mut [u8] {
        if self.from > 0 {
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        &mut self.bytes[self.to..HEAD_BYTES.max(self.to)]
    }

    /// Space for [`AHEAD_BYTES`], if nothing is stored.
    pub(super) fn ahead(&mut self) -> &mut [u8] {
        debug_assert_eq!(self.length(), 0, "what is here comes first");
        (self.from, self.to) = (0, 0);
        if self.bytes.len() < AHEAD_BYTES {
            self.bytes.resize(AHEAD_BYTES, 0);
        }
        &mut self.bytes[..AHEAD_BYTES]
    }

    /// Frees unused space: a socket may wait for a long time.
    pub(super) fn shrink(&mut self) {
        if self.length() == 0 && self.bytes.len() > HEAD_BYTES {
            *self = Self::new(&[]);
        }
    }

    /// The first `count` bytes of [`Unread::space`] or [`Unread::ahead`] were filled.
    pub(super) fn filled(&mut self, count: usize) {
        self.to += count;
    }
}

impl Outgoing {
    pub(super) fn new(head: Option<[u8; HEAD_BYTES]>, body: Body) -> Self {
        let head_at = if head.is_some() { 0 } else { HEAD_BYTES };
        Self { head: head.unwrap_or([0; HEAD_BYTES]), head_at, body, at: 0, short_by: 0 }
    }

    /// Bytes of the body.
    pub(super) fn length(&self) -> u64 {
        match &self.body {
            Body::None => 0,
            Body::Bytes(bytes) | Body::Lead(bytes) => bytes.len() as u64,
            Body::Buffer { from, to, .. } => (to - from) as u64,
            Body::File { length, .. } | Body::Zero { length } => *length,
        }
    }

    /// Whether the body is bulk data, which a limit of bandwidth holds for.
    pub(super) fn is_payload(&self) -> bool {
        matches!(self.body, Body::Buffer { .. } | Body::File { .. } | Body::Zero { .. })
    }

    /// Bytes left to send, including the head.
    pub(super) fn rest(&self) -> u64 {
        (HEAD_BYTES - self.head_at) as u64 + self.length() - self.at
    }

    /// `count` bytes were sent, those of the head first.
    pub(super) fn advance(&mut self, count: usize) {
        let head = count.min(HEAD_BYTES - self.head_at);
        self.head_at += head;
        self.at += (count - head) as u64;
    }

    /// The source has ended early: the missing bytes are sent as zeros and reported.
    pub(super) fn continue_with_zeros(&mut self) {
        let length = self.length();
        self.short_by = length - self.at;
        self.body = Body::Zero { length };
    }

    /// The operation's buffer.
    pub(super) fn into_buffer(self) -> Option<Buffer> {
        match self.body {
            Body::Buffer { buffer, .. } => Some(buffer),
            _ => None,
        }
    }
}

impl ReceiveState {
    /// The receiving operation in `op`, with its arguments checked; the operation itself when it is
    /// none.
    pub(super) fn from_op(op: Op) -> Result<(SocketId, Self), Op> {
        Ok(match op {
            Op::Head { socket } => (socket, Self::Head),
            Op::Small { socket, length } => {
                assert!(length <= SMALL_BYTES_MAX, "Op::Small takes at most 64 KiB");
                (socket, Self::Small { bytes: vec![0; length], at: 0 })
            }
            Op::Fill { socket, buffer, from, to } => {
                assert!(from <= to && to <= buffer.capacity(), "Op::Fill outside of its buffer");
                (socket, Self::Fill { buffer, at: from, to })
            }
            Op::Some { socket, limit } => {
                assert!(limit > 0, "Op::Some takes at least one byte");
                (socket, Self::Some { limit, length: 0 })
            }
            Op::Accept { socket } => (socket, Self::Accept),
            other @ (Op::Send { .. } | Op::Connect { .. }) => return Err(other),
        })
    }

    /// The operation's buffer.
    pub(super) fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Fill { buffer, .. } => Some(buffer),
            _ => None,
        }
    }
}

impl SendState {
    /// The sending operation in `op`, with its arguments checked.
    ///
    /// # Panics
    /// When it is a receiving one.
    pub(super) fn from_op(op: Op) -> (SocketId, Self) {
        match op {
            Op::Connect { socket } => (socket, Self::Connect),
            Op::Send { socket, head, body } => {
                if let Body::Buffer { buffer, from, to } = &body {
                    assert!(from <= to && *to <= buffer.capacity(), "Body::Buffer outside of its buffer");
                }
                (socket, Self::Send(Outgoing::new(head, body)))
            }
            _ => unreachable!("receiving operations are taken out before"),
        }
    }

    /// The operation's buffer.
    pub(super) fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Send(outgoing) => outgoing.into_buffer(),
            Self::Connect => None,
        }
    }
}
