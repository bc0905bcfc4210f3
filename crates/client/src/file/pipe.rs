//! FIFOs of a server (DFSM-17, DFSM-18): programs of this machine and of others, and of the server's,
//! read what is written to them. A pipe has no position and keeps nothing, so nothing is sent twice: with
//! the session the pipe is lost, for the program here and for whoever has the other end.

mod reading;
mod writing;

use super::batches::{Answered, PendingFileReply, unexpected};
use super::remote::Remote;
use super::stream::{BROKEN, to_io};
use crate::calls::failed;
use crate::retry::{FOREVER, after, is_lost};
use crate::session::Session;
use reading::Reading;
use std::sync::Arc;
use std::time::{Duration, Instant};
use writing::Writing;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::file::{FileAnswer, FileBatch, FileCall, OpenFile};

/// What a batch takes besides its data.
const FRAME_BYTES: usize = 1024;

/// How long the server may take to answer that there is nothing yet.
const WAIT_MS: u64 = 10_000;

/// Pauses between two questions if it answers that at once.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Calls that are on their way at a time: 2 MiB.
const CALLS_MAX: usize = 8;

/// One end of a FIFO on a server, which exists (`mkfifo`) in an export that grants `pipes`.
///
/// Reading waits for somebody who writes, and ends when everybody who wrote has closed the pipe. Writing
/// waits for somebody who reads. Up to 4096 bytes that are written at once stay together among those of
/// others who write. If a client that wrote is lost before it closed the pipe, those who read through the
/// server get an error instead of the end; programs of the server's machine see the end.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::io::Write;
/// use xdfs_client::ConnectOptions;
/// use xdfs_client::file::{Pipe, PipeSide, Remote};
///
/// let server = Remote::new(ConnectOptions::to("192.0.2.1:2799".parse::<std::net::SocketAddr>()?));
/// let mut results = Pipe::open(&server, "export/results", PipeSide::Write)?;
/// results.write_all(b"42\n")?;
/// results.close()?;
/// # Ok(())
/// # }
/// ```
pub struct Pipe {
    pipe_end: PipeEnd,
    way: Way,
    closed: bool,
}

/// Which end of a FIFO is opened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PipeSide {
    /// The one that bytes come out of.
    Read,
    /// The one that they go into.
    Write,
}

enum Way {
    Read(Reading),
    Write(Writing),
}

/// The handle at the server, and what became of it.
struct PipeEnd {
    session: Arc<Session>,
    handle: u64,
    path: Vec<u8>,
    /// Why nothing passes any more.
    failed: Option<Error>,
    pause: Duration,
}

impl std::fmt::Debug for Pipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pipe({})", self.pipe_end.path.escape_ascii())
    }
}

impl Pipe {
    /// Opens one end of the FIFO `path` (`EXPORT/path`, nothing encoded), without waiting for the other
    /// one.
    pub fn open(remote: &Arc<Remote>, path: impl AsRef<[u8]>, side: PipeSide) -> Result<Self, Error> {
        let (session, path) = (remote.session()?, path.as_ref());
        let (read, write) = (side == PipeSide::Read, side == PipeSide::Write);
        let open = OpenFile { path, read, write, pipe: true, ..OpenFile::default() };
        let batch = FileBatch { calls: vec![FileCall::Open(open)], ..FileBatch::default() };
        let answered = session.call_file(batch)?.wait().map_err(|error| match error.kind {
            // The flag is none that it knows.
            ErrorKind::Protocol => Error::new(ErrorKind::Unsupported, "the server is older, and has no pipes"),
            _ => error,
        })?;
        let handle = match answered.read()?.into_iter().next() {
            Some(Ok(FileAnswer::Opened(opened))) => opened.handle,
            Some(Err(failure)) => return Err(failed(failure, &format!("cannot open '{}'", path.escape_ascii()))),
            _ => return Err(unexpected()),
        };
        let pipe_end = PipeEnd { session, handle, path: path.to_vec(), failed: None, pause: PAUSE_MIN };
        let way = match side {
            PipeSide::Read => Way::Read(Reading::default()),
            PipeSide::Write => Way::Write(Writing::default()),
        };
        Ok(Self { pipe_end, way, closed: false })
    }

    /// Takes bytes out of the pipe before the program asks for them, so that a long way to the server
    /// costs little. What was taken and not read when the pipe is closed is gone: for a program that
    /// reads all there is.
    pub fn read_ahead(&mut self) {
        if let Way::Read(reading) = &mut self.way {
            reading.ahead();
        }
    }

    /// Reads what is there, waiting at most this long for the first byte: how many bytes; 0 at the end,
    /// none if nothing came.
    pub fn read_within(&mut self, buf: &mut [u8], patience: Duration) -> Result<Option<usize>, Error> {
        let until = after(Instant::now(), patience);
        match &mut self.way {
            Way::Read(_) if buf.is_empty() => Ok(Some(0)),
            Way::Read(reading) => reading.read(&mut self.pipe_end, buf, until),
            Way::Write(_) => Err(Error::new(ErrorKind::Refused, "the pipe is not open to read")),
        }
    }

    /// Sends what there is room for, waiting at most this long: how many bytes. An error of them may be
    /// reported by a later call, at the latest by [`Pipe::close`].
    pub fn write_within(&mut self, data: &[u8], patience: Duration) -> Result<usize, Error> {
        let until = after(Instant::now(), patience);
        self.writing().and_then(|(writing, pipe_end)| writing.write(pipe_end, data, until))
    }

    /// Waits at most this long until the pipe has taken all that was written, and somebody has been
    /// there to read; returns whether that is so.
    pub fn settle_within(&mut self, patience: Duration) -> Result<bool, Error> {
        let until = after(Instant::now(), patience);
        self.writing().and_then(|(writing, pipe_end)| writing.settle(pipe_end, until))
    }

    fn writing(&mut self) -> Result<(&mut Writing, &mut PipeEnd), Error> {
        match &mut self.way {
            Way::Write(writing) => Ok((writing, &mut self.pipe_end)),
            Way::Read(_) => Err(Error::new(ErrorKind::Refused, "the pipe is not open to write")),
        }
    }

    /// Waits until all that was written has gone into the pipe, and closes it: whoever reads finds the
    /// end behind it. A pipe to write that nobody has read from waits for somebody.
    pub fn close(mut self) -> Result<(), Error> {
        self.closed = true;
        if let Way::Write(_) = self.way {
            while !self.settle_within(FOREVER)? {}
        }
        self.pipe_end.close()
    }

    /// Gives it up: it ends with its session, and those who read get an error instead of the end.
    pub fn abandon(mut self) {
        self.closed = true;
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // What is half written must not look as if it were all.
        if self.closed || self.pipe_end.failed.is_some() || std::thread::panicking() {
            return;
        }
        // Nobody is there to tell.
        let settled = match &mut self.way {
            Way::Write(writing) if writing.is_idle() => Ok(true),
            Way::Write(writing) => writing.settle(&mut self.pipe_end, after(Instant::now(), FOREVER)),
            Way::Read(_) => Ok(true),
        };
        if settled.is_ok() {
            let _ = self.pipe_end.close();
        }
    }
}

impl std::io::Read for Pipe {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        loop {
            if let Some(read) = self.read_within(buf, FOREVER).map_err(to_io)? {
                return Ok(read);
            }
        }
    }
}

impl std::io::Write for Pipe {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        loop {
            let written = self.write_within(data, FOREVER).map_err(to_io)?;
            if written > 0 || data.is_empty() {
                return Ok(written);
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        while !self.settle_within(FOREVER).map_err(to_io)? {}
        Ok(())
    }
}

fn broken(what: &str, why: &str) -> Error {
    Error::new(ErrorKind::Storage, format!("{what}: {why}")).with_errno(BROKEN)
}

impl PipeEnd {
    fn must_work(&self) -> Result<(), Error> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Most bytes of data in one call.
    fn chunk(&self) -> usize {
        self.session.batch_bytes_max() - FRAME_BYTES
    }

    fn send(&mut self, call: FileCall<'_>) -> Result<PendingFileReply, Error> {
        let batch = FileBatch { handle: self.handle, calls: vec![call], ..FileBatch::default() };
        let sent = self.session.call_file(batch);
        sent.map_err(|error| self.fail(error))
    }

    /// The reply of a call, if it comes in time.
    fn receive(&mut self, pending: &PendingFileReply, until: Instant) -> Result<Option<Answered>, Error> {
        let patience = until.saturating_duration_since(Instant::now());
        pending.wait_within(patience).transpose().map_err(|error| self.fail(error))
    }

    /// What a reply says.
    fn answer<'a>(&mut self, answered: &'a Answered, side: PipeSide) -> Result<FileAnswer<'a>, Error> {
        let what = if side == PipeSide::Read { "read from" } else { "write to" };
        let outcome = answered.read().map(|outcomes| outcomes.into_iter().next());
        match outcome {
            Ok(Some(Ok(answer))) => Ok(answer),
            Ok(Some(Err(failure))) => {
                let what = format!("cannot {what} '{}'", self.path.escape_ascii());
                Err(self.fail(match (failure.errno, side) {
                    (BROKEN, PipeSide::Write) => broken(&what, "nobody reads it any more"),
                    (BROKEN, PipeSide::Read) => {
                        broken(&what, "a client that wrote to it was lost before it closed it: bytes are missing")
                    }
                    _ => failed(failure, &what),
                }))
            }
            Ok(None) => Err(self.fail(unexpected())),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Nothing passes from now on.
    fn fail(&mut self, error: Error) -> Error {
        let lost = || format!("'{}' was lost with its session, and what it held: {error}", self.path.escape_ascii());
        let error = if is_lost(&error) { Error::new(ErrorKind::ConnectionLost, lost()) } else { error };
        self.failed = Some(error.clone());
        error
    }

    /// Bytes passed: the next wait is a short one.
    fn progress(&mut self) {
        self.pause = PAUSE_MIN;
    }

    /// Waits before the next question, but not behind `until`; a server that itself waited before it
    /// answered is asked again at once.
    fn rest(&mut self, asked: Instant, until: Instant) {
        let now = Instant::now();
        if now.saturating_duration_since(asked) >= self.pause.max(Duration::from_millis(100)) {
            return;
        }
        // A channel that nobody sends on: the wait is its timeout.
        let (_sender, receiver) = std::sync::mpsc::sync_channel::<()>(0);
        let _ = receiver.recv_timeout(self.pause.min(until.saturating_duration_since(now)));
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    fn close(&mut self) -> Result<(), Error> {
        self.must_work()?;
        let sent = self.send(FileCall::Close)?;
        let answered = sent.wait().map_err(|error| self.fail(error))?;
        self.answer(&answered, PipeSide::Write).map(drop)
    }
}
