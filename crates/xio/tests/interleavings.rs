//! Operations in any order over connections with faults, also from callbacks and with closes among them: the
//! rules for handles of `docs/xio.md` hold, and what is read is what was written, byte for byte, whatever was
//! cancelled or ran out of time. The seed of a failure is printed; XDFS_SEED runs that one alone.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

#[path = "support/faults.rs"]
mod faults;
#[path = "support/told.rs"]
mod told;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use faults::{PATIENCE, Random, SHORT, content, moved, stack};
use told::{Ended, READ, Told, WRITE, registering};
use xdfs_xio::{Completed, Error, ErrorKind, Handle, Options, Received, Server, Timeouts, WriteInfo};

/// Operations that begin, opens, cancels and closes of all runs together.
const STEPS: u64 = 1_000_000;
/// Turns of one connection, at most.
const TURNS_OF_RUN: u64 = 600;
/// Turns after a close, in which nothing begins at that end.
const TURNS_AFTER_CLOSE: u64 = 20;
const THREADS: u64 = 2;
/// Operations of a handle that wait.
const OUTSTANDING_MAX: usize = 24;

/// One end of a connection, as its owner and its callbacks see it.
struct End<'a> {
    handle: &'a Handle,
    told: &'a Arc<Told>,
}

impl End<'_> {
    fn is_full(&self) -> bool {
        self.told.outstanding() >= OUTSTANDING_MAX
    }

    fn read(&self, random: &mut Random) {
        let Some(_order) = self.told.order(READ) else { return };
        let length = random.length();
        let wait_for = random.below(length as u64 + 1) as usize;
        let (at, told) = (self.told.begin(READ, true, Arc::default()), self.told.clone());
        let done = move |handle: &Handle, done: Completed| {
            told.callback(|| {
                check_read(&done.result, length, wait_for);
                told.end(at, kind(&done.result), of_read(done));
                End { handle, told: &told }.act(at);
            });
        };
        self.told.begun(at, registering(|| self.handle.register_read(vec![0; length], wait_for, done)));
    }

    fn write(&self, random: &mut Random) {
        let Some(_order) = self.told.order(WRITE) else { return };
        // Any number tells the writes of a seed apart.
        let bytes: Arc<[u8]> = content(self.told.seed, random.below(1000) as usize, random.length()).into();
        let (at, told, given) = (self.told.begin(WRITE, true, bytes.clone()), self.told.clone(), bytes.to_vec());
        let done = move |handle: &Handle, done: Completed| {
            told.callback(|| {
                let error = kind(&done.result);
                assert!(done.buffers.into_one() == *bytes, "a write changed its buffer");
                let moved = moved(done.result);
                assert!(if error.is_none() { moved == bytes.len() } else { moved <= bytes.len() });
                told.end(at, error, Ended::Wrote(moved));
                End { handle, told: &told }.act(at);
            });
        };
        self.told.begun(at, registering(|| self.handle.register_write(given, WriteInfo::default(), done)));
    }

    /// A read on this thread, of what is there, or of what comes in a short time.
    fn blocking_read(&self, random: &mut Random) {
        let Some(_order) = self.told.order(READ) else { return };
        let short = self.told.is_short(READ);
        if short || self.told.outstanding() == 0 {
            self.read_here(random.length() + 1, short.into());
        }
    }

    /// Whether that was the end of the input.
    fn read_here(&self, length: usize, wait_for: usize) -> bool {
        let at = self.told.begin(READ, false, Arc::default());
        let mut bytes = vec![0; length];
        let result = self.handle.read(&mut bytes, wait_for);
        check_read(&result, length, wait_for);
        let over = match &result {
            Ok(received) => received.info.end,
            // The other end has left without reading everything.
            Err(error) => error.kind() == ErrorKind::Lost,
        };
        let error = kind(&result);
        bytes.truncate(moved(result));
        self.told.end_blocking(at, error, Ended::Read(bytes));
        over
    }

    fn blocking_write(&self, random: &mut Random) {
        let Some(_order) = self.told.order(WRITE) else { return };
        if !self.told.is_short(WRITE) {
            return;
        }
        let bytes: Arc<[u8]> = content(self.told.seed, random.below(1000) as usize, random.length()).into();
        let at = self.told.begin(WRITE, false, bytes.clone());
        let result = self.handle.write(&bytes);
        let error = result.as_ref().err().map(Error::kind);
        let moved = result.unwrap_or_else(|error| faults::transferred(&error));
        self.told.end_blocking(at, error, Ended::Wrote(moved));
    }

    fn cancel(&self, random: &mut Random) {
        if let Some(id) = self.told.recent(random) {
            self.handle.cancel(id);
            self.told.count();
        }
    }

    fn cancel_direction(&self, direction: usize) {
        if direction == READ {
            self.handle.cancel_reads()
        } else {
            self.handle.cancel_writes()
        };
        self.told.count();
    }

    /// Closes, and sees that everything was told before and nothing after it.
    fn close(&self, registered: bool) {
        if !self.told.closes() {
            return;
        }
        self.told.count();
        let told = self.told.clone();
        if registered {
            let see = move |closed: xdfs_xio::Result<()>| told.callback(|| told.on_closed(closed));
            registering(|| self.handle.register_close(see)).unwrap();
        } else {
            told.on_closed(self.handle.close());
        }
        let again = registering(|| self.handle.register_close(|_| panic!("closed twice")));
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Closed);
    }

    /// What the callback of an operation does: all but waiting.
    fn act(&self, at: usize) {
        let mut random = Random(self.told.seed ^ (at as u64) << 32);
        match random.below(100) {
            0..2 => refuses_to_wait(self.handle),
            2..6 if !self.is_full() => self.read(&mut random),
            6..10 if self.told.writes && !self.is_full() => self.write(&mut random),
            10..13 => self.cancel(&mut random),
            13 => self.cancel_direction(READ),
            14 => self.cancel_direction(WRITE),
            15 if self.told.may_close => self.close(true),
            _ => {}
        }
    }

    /// Something that the owner does.
    fn turn(&self, random: &mut Random) {
        match random.below(100) {
            0..30 if !self.is_full() => self.read(random),
            30..65 if self.told.writes && !self.is_full() => self.write(random),
            65..80 => self.cancel(random),
            80..82 => self.cancel_direction(READ),
            82..84 => self.cancel_direction(WRITE),
            84 => self.blocking_read(random),
            85 if self.told.writes => self.blocking_write(random),
            _ => thread::yield_now(),
        }
    }

    /// Reads what is left, whatever fails on the way.
    fn read_to_end(&self) {
        let until = Instant::now() + PATIENCE;
        let _order = self.told.order(READ);
        while !self.read_here(5000, 1) {
            assert!(Instant::now() < until, "the end does not come");
        }
    }
}

fn kind(result: &xdfs_xio::Result<Received>) -> Option<ErrorKind> {
    result.as_ref().err().map(Error::kind)
}

/// A read that succeeds has what it waited for, but at the end.
fn check_read(result: &xdfs_xio::Result<Received>, length: usize, wait_for: usize) {
    if let Ok(received) = result {
        assert!(received.bytes <= length, "{} bytes in {length}", received.bytes);
        let enough = received.bytes >= wait_for || received.info.end;
        assert!(enough, "{} bytes of {wait_for} that were waited for, and no end", received.bytes);
    }
}

fn of_read(done: Completed) -> Ended {
    let moved = moved(done.result);
    let mut bytes = done.buffers.into_one();
    bytes.truncate(moved);
    Ended::Read(bytes)
}

/// In a callback, what would wait is an error of whoever asks for it.
fn refuses_to_wait(handle: &Handle) {
    let read = handle.read(&mut [0], 0).map(drop);
    let write = handle.write(b"x").map(drop);
    for refused in [read, write, handle.close()] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
}

/// Bytes that were not sent when the close begins have time, if somebody reads them.
fn options(random: &mut Random, close: Duration) -> Options {
    let mut time = || Some(if random.below(4) == 0 { SHORT } else { PATIENCE });
    let timeouts = Timeouts { open: Some(PATIENCE), read: time(), write: time(), close: Some(close) };
    Options { timeouts }
}

/// Opens both ends; how many steps that took, and none where a fault or a close came between, which was told
/// as well.
fn open(socket: &Path, random: &mut Random, [here, there]: [&Options; 2]) -> (u64, Option<(Handle, Handle)>) {
    let server = Arc::new(Server::listen(&stack(random), socket.to_str().unwrap()).unwrap());
    let (stack, contact) = (stack(random), server.contact().unwrap());
    let (tell, told) = sync_channel(2);
    let tell_close = tell.clone();
    let (waiting, opening, opens) = (server.clone(), stack.clone(), contact.clone());
    let done = move |_: &Handle, opened: xdfs_xio::Result<()>| {
        let waits = [waiting.accept(None).map(drop), Handle::open(&opening, &opens, &Options::default()).map(drop)];
        let refused = waits.into_iter().all(|waits| waits.is_err_and(|error| error.kind() == ErrorKind::Usage));
        tell.send((Some(opened.is_ok()), refused)).unwrap();
    };
    let client = registering(|| Handle::register_open(&stack, &contact, here, done)).unwrap();
    let closes = random.below(50) == 0;
    let close = |client: &Handle| {
        let tell_close = tell_close.clone();
        client.register_close(move |_| tell_close.send((None, true)).unwrap()).unwrap();
    };
    if closes {
        close(&client);
    }
    let (opened, refused) = told.recv_timeout(PATIENCE).unwrap();
    assert!(refused, "a callback waited for a connection");
    let opened = opened.expect("the close is told last");
    let other = if opened && !closes { server.accept(Some(PATIENCE)).unwrap().open(there).ok() } else { None };
    if let Some(other) = other {
        return (2, Some((client, other)));
    }
    if !closes {
        close(&client);
    }
    assert_eq!(told.recv_timeout(PATIENCE), Ok((None, true)));
    (2, None)
}

/// One connection from its opening to its close; how many steps it took.
fn run(socket: &Path, seed: u64) -> u64 {
    let mut random = Random(seed);
    let to_the_end = random.below(3) > 0;
    let close = if to_the_end { PATIENCE } else { SHORT };
    let options = [options(&mut random, close), options(&mut random, close)];
    let (opens, Some((client, server))) = open(socket, &mut random, [&options[0], &options[1]]) else { return 2 };
    let both_ways = random.below(2) == 0;
    // Where everything is to arrive, only the sender may close before.
    let mut closes = |who: bool| who && random.below(4) == 0;
    let [close_one, close_other] = [closes(true), closes(!to_the_end)];
    let told = [(0, true, close_one), (1, both_ways, close_other)]
        .map(|(at, writes, may_close)| Arc::new(Told::new(options[at].timeouts, seed, writes, may_close)));
    let one = End { handle: &client, told: &told[0] };
    let other = End { handle: &server, told: &told[1] };
    let mut turns = random.below(TURNS_OF_RUN) + 1;
    while turns > 0 {
        turns -= 1;
        let this = if random.below(2) == 0 { &one } else { &other };
        if this.told.may_close && random.below(200) == 0 {
            this.close(true);
        }
        this.turn(&mut random);
        if one.told.is_closing() || other.told.is_closing() {
            turns = turns.min(TURNS_AFTER_CLOSE);
        }
    }
    finish(&one, &other, &mut random, to_the_end);
    opens + told.iter().map(|told| told.steps()).sum::<u64>()
}

/// Closes both ends, and compares what was read with what was written.
fn finish(one: &End<'_>, other: &End<'_>, random: &mut Random, to_the_end: bool) {
    let registered = random.below(8) > 0;
    if to_the_end {
        other.cancel_direction(READ);
        other.cancel_direction(WRITE);
        thread::scope(|scope| {
            if registered {
                one.close(true);
            } else {
                scope.spawn(|| one.close(false));
            }
            other.read_to_end();
        });
        other.close(random.below(2) == 0);
    } else {
        other.close(registered);
        one.close(random.below(2) == 0);
    }
    let (close, _) = (one.told.closed(), other.told.closed());
    // Of two layers with faults the upper one may be kept from sending what it has.
    let is_whole = to_the_end && !matches!(&close, Err(error) if error.contains("a fault that was drawn"));
    let (received, sent) = (other.told.received(), one.told.sent());
    assert!(sent.starts_with(&received), "{} bytes are not those that were sent", received.len());
    let (came, all) = (received.len(), sent.len());
    assert!(!is_whole || came == all, "{came} bytes of {all} arrived; the close: {close:?}");
    let (received, sent) = (one.told.received(), other.told.sent());
    assert!(sent.starts_with(&received), "{} bytes are not those that were sent back", received.len());
}

#[test]
fn every_operation_is_told_once_and_no_byte_is_lost() {
    let steps = AtomicU64::new(0);
    let one = std::env::var("XDFS_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let directory = tempfile::tempdir().unwrap();
    thread::scope(|scope| {
        for number in 0..if one.is_some() { 1 } else { THREADS } {
            let (steps, directory) = (&steps, &directory);
            scope.spawn(move || {
                let mut seed = one.unwrap_or(number);
                while steps.load(Ordering::Relaxed) < STEPS {
                    let socket = directory.path().join(format!("socket{seed}"));
                    let result = catch_unwind(AssertUnwindSafe(|| run(&socket, seed)));
                    let taken = result.unwrap_or_else(|_| panic!("with XDFS_SEED={seed}"));
                    steps.fetch_add(if one.is_some() { STEPS } else { taken }, Ordering::Relaxed);
                    seed += THREADS;
                }
            });
        }
    });
    assert!(steps.into_inner() >= STEPS);
}
