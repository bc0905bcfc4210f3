//! Sends files to sockets without a copy in user space: splice through one pipe per dispatcher;
//! where the system refuses that, `sendfile`; where a layer has to see the bytes or the file
//! supports neither, read and send.
//!
//! The pipe is shared. What a full socket leaves in it stays only until another socket needs the
//! pipe, and is then dropped: the file still has those bytes. Spliced pages are sent in the state
//! in which the transport reads them, so a file that changes meanwhile is sent changed; a caller
//! that needs one consistent state does not use this route.
//!
//! A splice to a connection that was reset raises SIGPIPE, and no flag prevents it: the program
//! must ignore that signal, as every Rust program does by default.

use super::lazy_buffer::LazyBuffer;
use super::memory::{head_first, memory};
use super::slot::{DriverState, IoStep, Moved, Outgoing, error_number};
use super::{Body, End, FileId, Instant, SocketId};
use crate::stack::Driver;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice};
use std::io::{self, IoSlice};
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;

/// Requested capacity of the pipe: the system's limit for users, and a block of the usual size. One
/// pipe per thread, since a user may have 64 of this size.
const PIPE_BYTES: usize = 1 << 20;
/// Below this capacity `sendfile` was measured to be faster than splice.
const PIPE_BYTES_MIN: usize = 512 * 1024;

/// How the bytes of a file are moved. Each fallback happens once, when the system refuses the
/// method above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Route {
    Splice,
    Sendfile,
    Read,
}

/// Bytes that are read at once for layers.
const LAYERED_BYTES: usize = 64 * 1024;

struct File {
    descriptor: OwnedFd,
    route: Route,
}

/// The registered files.
#[derive(Default)]
pub(super) struct Files {
    files: Vec<Option<File>>,
    free: Vec<u32>,
}

impl Files {
    pub(super) fn open(&mut self, descriptor: OwnedFd) -> FileId {
        let file = Some(File { descriptor, route: Route::Splice });
        match self.free.pop() {
            Some(index) => {
                self.files[index as usize] = file;
                FileId(index)
            }
            None => {
                self.files.push(file);
                FileId(u32::try_from(self.files.len() - 1).expect("fewer files than descriptors"))
            }
        }
    }

    pub(super) fn close(&mut self, file: FileId) {
        let closed = self.files.get_mut(file.0 as usize).and_then(Option::take);
        assert!(closed.is_some(), "{file:?} is not registered");
        self.free.push(file.0);
    }

    /// # Panics
    /// When the file is not registered, which is a bug of the caller.
    fn file(&mut self, file: FileId) -> &mut File {
        self.files.get_mut(file.0 as usize).and_then(Option::as_mut).expect("a send names a registered file")
    }
}

/// The pipe, created on first use if possible.
#[derive(Default)]
pub(super) enum PipeRoute {
    #[default]
    Untried,
    Ready(Pipe),
    Unavailable,
}

pub(super) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    /// Where dropped bytes are written.
    null: OwnedFd,
    capacity: usize,
    content: PipeContent,
}

/// What is in the pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PipeContent {
    Empty,
    /// So many bytes for this socket.
    Held {
        bytes: NonZeroUsize,
        owner: SocketId,
    },
}

impl PipeContent {
    /// So many bytes, which may be none.
    fn of(bytes: usize, owner: SocketId) -> Self {
        NonZeroUsize::new(bytes).map_or(Self::Empty, |bytes| Self::Held { bytes, owner })
    }
}

impl PipeRoute {
    fn pipe(&mut self) -> Option<&mut Pipe> {
        if let Self::Untried = self {
            *self = match Pipe::new() {
                Ok(pipe) if pipe.capacity >= PIPE_BYTES_MIN => Self::Ready(pipe),
                _ => Self::Unavailable,
            };
        }
        match self {
            Self::Ready(pipe) => Some(pipe),
            _ => None,
        }
    }

    /// The socket's operation has ended: what it left in the pipe may be dropped.
    pub(super) fn release(&mut self, socket: SocketId) {
        if let Self::Ready(pipe) = self
            && matches!(pipe.content, PipeContent::Held { owner, .. } if owner == socket)
            && pipe.drop_held().is_err()
        {
            *self = Self::Untried;
        }
    }
}

impl Pipe {
    fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        for bytes in [PIPE_BYTES, PIPE_BYTES_MIN] {
            if fcntl_setpipe_size(&write, bytes).is_ok() {
                break;
            }
        }
        let capacity = fcntl_getpipe_size(&write)?;
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
        let null = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())?;
        Ok(Self { read, write, null, capacity, content: PipeContent::Empty })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.content == PipeContent::Empty && rustix::io::ioctl_fionread(&self.read).is_ok_and(|bytes| bytes == 0)
    }

    /// Empties the pipe: the pages are released, no byte is copied.
    fn drop_held(&mut self) -> io::Result<()> {
        while let PipeContent::Held { bytes, owner } = self.content {
            match splice(&self.read, None, &self.null, None, bytes.get(), SpliceFlags::NONBLOCK) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.content = PipeContent::of(bytes.get() - count, owner),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Buffers needed for sending; one set per dispatcher.
pub(super) struct SendContext {
    /// What sends name by [`FileId`].
    pub(super) files: Files,
    /// What files are spliced through.
    pub(super) pipe: PipeRoute,
    /// Never written to.
    pub(super) zeros: LazyBuffer,
    /// Where received bytes wait for their caller; between two completions it is available for file
    /// bytes.
    pub(super) scratch: LazyBuffer,
}

/// One turn of a send whose body is a file. `told`: the back end reported that the socket has
/// space.
pub(super) fn step<L: Driver>(
    driver: &mut DriverState<L>,
    outgoing: &mut Outgoing,
    socket: SocketId,
    tools: &mut SendContext,
    budget: usize,
    told: bool,
    now: Instant,
) -> IoStep {
    if !told && lacks_room(driver, outgoing.rest().min(budget as u64)) {
        driver.send.ready = false;
        return IoStep::Blocked;
    }
    if let Some(step) = head_first(driver, outgoing, now) {
        return step;
    }
    let mut left = budget;
    loop {
        let Body::File { file, offset, length } = outgoing.body else {
            return memory(driver, outgoing, &mut tools.zeros, left, now);
        };
        if outgoing.at == length {
            return IoStep::Done;
        }
        if left == 0 {
            return IoStep::Again;
        }
        let from = offset + outgoing.at;
        let ask = (length - outgoing.at).min(left as u64) as usize;
        let route = match driver.link.direct() {
            Some(_) => tools.files.file(file).route,
            None => Route::Read,
        };
        let moved = match route {
            Route::Splice => {
                by_splice(driver, tools, file, socket, from, ask, outgoing.at + (ask as u64) < length, now)
            }
            Route::Sendfile => by_sendfile(driver, tools, file, from, ask, now),
            Route::Read => by_reading(driver, tools, file, from, ask, outgoing.at + (ask as u64) < length, now),
        };
        match moved {
            FileMoved::Bytes(count) => {
                outgoing.at += count as u64;
                left = left.saturating_sub(count);
                if !driver.send.ready && outgoing.at < length {
                    return IoStep::Blocked;
                }
            }
            FileMoved::SourceEnd => outgoing.continue_with_zeros(),
            FileMoved::Refused => tools.files.file(file).route = below(route),
            FileMoved::Repeat => {}
            FileMoved::Stopped(step) => return step,
        }
    }
}

/// The result of one attempt to move file bytes.
enum FileMoved {
    Bytes(usize),
    /// The file has no byte at this offset.
    SourceEnd,
    /// This route does not work for this file.
    Refused,
    /// Interrupted.
    Repeat,
    Stopped(IoStep),
}

fn below(route: Route) -> Route {
    match route {
        Route::Splice => Route::Sendfile,
        Route::Sendfile | Route::Read => Route::Read,
    }
}

/// Whether the socket is so full that it would accept only a part of this turn: then waiting for
/// space costs fewer calls. The kernel reports "writable" from a third of the buffer on, so this
/// never waits for an event that does not come.
fn lacks_room<L: Driver>(driver: &DriverState<L>, turn: u64) -> bool {
    let Some(room) = driver.link.room() else { return false };
    room.free < turn && room.free.saturating_mul(3) < room.total
}

#[allow(clippy::too_many_arguments)]
fn by_splice<L: Driver>(
    driver: &mut DriverState<L>,
    tools: &mut SendContext,
    file: FileId,
    socket: SocketId,
    from: u64,
    ask: usize,
    more: bool,
    now: Instant,
) -> FileMoved {
    let Some(pipe) = tools.pipe.pipe() else { return FileMoved::Refused };
    let held = match pipe.content {
        PipeContent::Held { bytes, owner } if owner == socket => bytes.get(),
        PipeContent::Held { .. } | PipeContent::Empty => {
            if pipe.drop_held().is_err() {
                tools.pipe = PipeRoute::Untried;
                return FileMoved::Repeat;
            }
            let mut at = from;
            let source = &tools.files.file(file).descriptor;
            // Never waits for space: the pipe is empty. It may wait for the disk.
            match splice(source, Some(&mut at), &pipe.write, None, ask.min(pipe.capacity), SpliceFlags::empty()) {
                Ok(0) => return FileMoved::SourceEnd,
                Ok(count) => {
                    pipe.content = PipeContent::of(count, socket);
                    count
                }
                Err(error) => return source_failed(error),
            }
        }
    };
    let Some(target) = driver.link.direct() else { return FileMoved::Refused };
    let mut flags = SpliceFlags::NONBLOCK;
    flags.set(SpliceFlags::MORE, more);
    match splice(&pipe.read, None, target, None, held, flags) {
        Ok(count) => {
            pipe.content = PipeContent::of(held - count, socket);
            driver.send.ready = count == held;
            moved_directly(driver, count, now)
        }
        Err(error) => socket_failed(driver, error),
    }
}

fn by_sendfile<L: Driver>(
    driver: &mut DriverState<L>,
    tools: &mut SendContext,
    file: FileId,
    from: u64,
    ask: usize,
    now: Instant,
) -> FileMoved {
    let Some(target) = driver.link.direct() else { return FileMoved::Refused };
    let mut at = from;
    match rustix::fs::sendfile(target, &tools.files.file(file).descriptor, Some(&mut at), ask) {
        Ok(0) => FileMoved::SourceEnd,
        // Short: the socket is full or the file ends here; the next call shows which.
        Ok(count) => moved_directly(driver, count, now),
        // One call on two descriptors: these are errors of a connection, all others of the file.
        Err(
            error @ (Errno::AGAIN
            | Errno::PIPE
            | Errno::CONNRESET
            | Errno::CONNABORTED
            | Errno::NOTCONN
            | Errno::TIMEDOUT
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
            | Errno::NETDOWN
            | Errno::HOSTDOWN),
        ) => socket_failed(driver, error),
        Err(error) => source_failed(error),
    }
}

fn by_reading<L: Driver>(
    driver: &mut DriverState<L>,
    tools: &mut SendContext,
    file: FileId,
    from: u64,
    ask: usize,
    more: bool,
    now: Instant,
) -> FileMoved {
    let room = match tools.scratch.payload() {
        Ok(room) => room,
        Err(step) => return FileMoved::Stopped(step),
    };
    // Layers take less at once, and what they do not take is read again.
    let ask = ask.min(if driver.link.layers().is_some() { LAYERED_BYTES } else { room.len() });
    match rustix::io::pread(&tools.files.file(file).descriptor, &mut room[..ask], from) {
        Ok(0) => FileMoved::SourceEnd,
        // Bytes that the socket does not accept are read again later.
        Ok(count) => match driver.push(&[IoSlice::new(&room[..count])], more, now) {
            Moved::Bytes(count) => FileMoved::Bytes(count),
            Moved::Blocked => FileMoved::Stopped(IoStep::Blocked),
            Moved::Ended(end) => FileMoved::Stopped(IoStep::Ended(end)),
        },
        Err(Errno::INTR) => FileMoved::Repeat,
        Err(error) => ended_by_source(error),
    }
}

fn moved_directly<L: Driver>(driver: &mut DriverState<L>, count: usize, now: Instant) -> FileMoved {
    driver.sent(count, now);
    driver.link.moved_directly(count as u64);
    FileMoved::Bytes(count)
}

fn socket_failed<L: Driver>(driver: &mut DriverState<L>, error: Errno) -> FileMoved {
    driver.send_failed(&error.into()).map_or(FileMoved::Repeat, FileMoved::Stopped)
}

/// An error of the file on a route that has a fallback.
fn source_failed(error: Errno) -> FileMoved {
    match error {
        Errno::INTR => FileMoved::Repeat,
        Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::SPIPE => FileMoved::Refused,
        error => ended_by_source(error),
    }
}

fn ended_by_source(error: Errno) -> FileMoved {
    FileMoved::Stopped(IoStep::Ended(End::Source(error_number(&error.into()))))
}
