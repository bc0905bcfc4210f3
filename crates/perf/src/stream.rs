//! What moves the bytes of one stream in one direction, on a thread of its own, by blocking calls.

use crate::board::Board;
use crate::datagrams::{ENDS, Findings, Head, Kind};
use crate::ends::SILENCE;
use crate::options::Plan;
use crate::tally::{Budget, Counter};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use xdfs_xio::{Error, ErrorKind, Handle, Result};

/// Receives at least so much with one call, whatever the sender's block: fewer calls, and still in
/// the cache.
const RECEIVE_BYTES_MIN: usize = 256 << 10;
/// Longer than any datagram.
const DATAGRAM_ROOM: usize = 64 << 10;
/// Where a rate is given, a write is at most so much of a second's bytes.
const WRITES_PER_SECOND_MIN: u64 = 10;

/// What the threads of a run share.
pub(crate) struct Shared<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) board: &'a Board,
    pub(crate) handles: Vec<Handle>,
    pub(crate) counters: Vec<Counter>,
    pub(crate) budget: Option<Budget>,
    pub(crate) findings: Mutex<Findings>,
    pub(crate) file: Option<Handle>,
}

/// One direction of one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Sending,
    Receiving,
}

impl Shared<'_> {
    /// Moves the bytes of stream `at` until it ends, and says so on the board, however it ends: the main thread waits
    /// for that.
    pub(crate) fn work(&self, at: usize, direction: Direction) {
        let mut last = None;
        let moving = AssertUnwindSafe(|| match (direction, self.plan.datagrams) {
            (Direction::Sending, false) => self.send(at),
            (Direction::Sending, true) => self.send_datagrams(at),
            (Direction::Receiving, false) => self.receive(at),
            (Direction::Receiving, true) => self.receive_datagrams(at, &mut last),
        });
        // What it said has been printed.
        let panicked = |_| Err(Error::new(ErrorKind::Other, format!("a thread of stream {} panicked", at + 1)));
        let result = catch_unwind(moving).unwrap_or_else(panicked);
        self.board.on_done(result.or_else(|error| self.judge(error, direction)), last.unwrap_or_else(Instant::now));
    }

    /// Which errors are an end like any other: those of a run that is to stop, and of a peer that
    /// has had enough where this side has no limit of its own.
    fn judge(&self, error: Error, direction: Direction) -> Result<()> {
        let ended = match error.kind() {
            ErrorKind::Cancelled => true,
            ErrorKind::Lost => self.board.is_stopping() || direction == Direction::Sending && self.sends_for_ever(),
            _ => false,
        };
        if ended { Ok(()) } else { Err(error) }
    }

    /// Closes a stream. Of one that would be sent for ever, what the drivers still held is nobody's loss.
    pub(crate) fn close(&self, handle: &Handle) -> Result<()> {
        handle.close().or_else(|error| self.unless_left(error))
    }

    /// An error that is no more than the end of what would be sent for ever.
    fn unless_left(&self, error: Error) -> Result<()> {
        if error.kind() == ErrorKind::Lost && self.sends_for_ever() { Ok(()) } else { Err(error) }
    }

    /// Whether the peer's leaving is how this side's sending ends.
    fn sends_for_ever(&self) -> bool {
        let limits = &self.plan.limits;
        self.plan.sends && limits.time.is_none() && limits.bytes.is_none() && self.file.is_none()
    }

    fn send(&self, at: usize) -> Result<()> {
        let (handle, counter) = (&self.handles[at], &self.counters[at]);
        let mut pace = self.plan.limits.rate.map(Pace::new);
        let piece = pace.as_ref().map_or(self.plan.block, |pace| pace.piece(self.plan.block));
        let mut block = random(piece)?;
        while !self.board.is_stopping() {
            let length = match &self.file {
                Some(file) => file.read(&mut block, piece)?.bytes,
                None => self.budget.as_ref().map_or(piece, |budget| budget.take(piece)),
            };
            if length == 0 {
                break;
            }
            if let Some(pace) = &mut pace {
                pace.wait(self.board, length);
            }
            write(handle, counter, &block[..length])?;
        }
        if self.plan.receives {
            // The other end learns that no more comes, and this one goes on receiving.
            handle.finish_sending().or_else(|error| self.unless_left(error))?;
        }
        Ok(())
    }

    fn receive(&self, at: usize) -> Result<()> {
        let (handle, counter) = (&self.handles[at], &self.counters[at]);
        let mut buffer = vec![0; self.plan.block.max(RECEIVE_BYTES_MIN)];
        // In both directions at a time, what the other end still sends is taken to its end.
        while self.plan.sends || !self.board.is_stopping() {
            let received = handle.read(&mut buffer, 1)?;
            counter.on_received(received.bytes);
            if let Some(file) = &self.file {
                file.write(&buffer[..received.bytes])?;
            }
            if received.info.end {
                break;
            }
        }
        Ok(())
    }

    fn send_datagrams(&self, at: usize) -> Result<()> {
        let (handle, counter) = (&self.handles[at], &self.counters[at]);
        let mut pace = self.plan.limits.rate.map(Pace::new);
        let mut block = random(self.plan.block)?;
        let mut head = Head { run: number()?, number: 0, sent_us: 0, end: false };
        let start = Instant::now();
        while !self.board.is_stopping() {
            if self.budget.as_ref().is_some_and(|budget| budget.take(block.len()) == 0) {
                break;
            }
            if let Some(pace) = &mut pace {
                pace.wait(self.board, block.len());
            }
            head.sent_us = microseconds_since(start);
            head.write(&mut block);
            write(handle, counter, &block)?;
            head.number += 1;
        }
        head.end = true;
        head.write(&mut block);
        handle.write(&block)?;
        // Who has it is gone, and the next one is refused.
        let _ = (1..ENDS).try_for_each(|_| handle.write(&block).map(drop));
        Ok(())
    }

    fn receive_datagrams(&self, at: usize, last: &mut Option<Instant>) -> Result<()> {
        let (handle, counter) = (&self.handles[at], &self.counters[at]);
        let mut buffer = vec![0; DATAGRAM_ROOM];
        let base = Instant::now();
        while !self.board.is_stopping() {
            let bytes = match handle.read(&mut buffer, 1) {
                Ok(received) => received.bytes,
                // It waits for the first one, and not for ever for the next.
                Err(error) if error.kind() == ErrorKind::TimedOut && last.is_none() => continue,
                Err(error) if error.kind() == ErrorKind::TimedOut => break,
                Err(error) => return Err(error),
            };
            let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
            match findings.on_datagram(&buffer[..bytes], microseconds_since(base)) {
                Kind::Data => {}
                Kind::End => break,
                // Whoever else sends does not make it wait longer for the sender.
                Kind::Foreign if last.is_some_and(|last| last.elapsed() >= SILENCE) => break,
                Kind::Foreign => continue,
            }
            drop(findings);
            if last.replace(Instant::now()).is_none() {
                self.board.start();
            }
            counter.on_received(bytes);
        }
        Ok(())
    }
}

/// Writes all of `block`. A write that was not finished in time goes on if it has moved something.
fn write(handle: &Handle, counter: &Counter, mut block: &[u8]) -> Result<()> {
    loop {
        let error = match handle.write(block) {
            Ok(bytes) => {
                counter.on_sent(bytes);
                return Ok(());
            }
            Err(error) => error,
        };
        let moved = error.transferred();
        counter.on_sent(moved);
        if error.kind() != ErrorKind::TimedOut || moved == 0 {
            return Err(error);
        }
        block = &block[moved..];
    }
}

/// Bytes that no driver can make shorter.
fn random(length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes).map_err(no_random)?;
    Ok(bytes)
}

fn number() -> Result<u64> {
    getrandom::u64().map_err(no_random)
}

fn no_random(error: getrandom::Error) -> Error {
    Error::new(ErrorKind::Other, format!("the system gives no random bytes: {error}"))
}

fn microseconds_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Keeps a stream at a rate. What was late is caught up, but not more than a tenth of a second's.
struct Pace {
    bits_per_second: u64,
    next: Instant,
}

impl Pace {
    fn new(bits_per_second: u64) -> Self {
        Self { bits_per_second, next: Instant::now() }
    }

    /// A block that is small enough for the rate to be even.
    fn piece(&self, block: usize) -> usize {
        let even = self.bits_per_second / 8 / WRITES_PER_SECOND_MIN;
        block.min(usize::try_from(even).unwrap_or(usize::MAX)).max(1)
    }

    /// Waits until `bytes` may be sent, or the run is to stop.
    fn wait(&mut self, board: &Board, bytes: usize) {
        board.pause(self.next);
        let late = Instant::now().checked_sub(Duration::from_secs(1) / WRITES_PER_SECOND_MIN as u32);
        let from = late.map_or(self.next, |late| self.next.max(late));
        let nanoseconds = bytes as u128 * 8 * 1_000_000_000 / u128::from(self.bits_per_second);
        self.next = from + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
    }
}
