//! Operations in any order over connections with faults: each callback is called once, that of the close
//! last, and what is read is what was written, byte for byte, whatever was cancelled or ran out of time.
//! The seed of a failure is printed; XDFS_SEED runs that one alone.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

#[path = "support/faults.rs"]
mod faults;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use faults::{PATIENCE, Random, SHORT, content, moved, stack, transferred};
use xdfs_xio::{Completed, ErrorKind, Handle, OperationId, Options, Server, Timeouts, WriteInfo};

/// Steps of all runs together.
const STEPS: u64 = 1_000_000;
/// Steps of one connection, at most.
const STEPS_OF_RUN: u64 = 600;
const THREADS: u64 = 2;
/// Operations of a direction that wait.
const OUTSTANDING_MAX: usize = 24;

/// What an operation came to: the bytes that it read, or how many it wrote.
enum Ended {
    Read(Vec<u8>),
    Wrote(usize),
}

/// What was told of the operations of one handle.
#[derive(Default)]
struct Book {
    /// By the order in which they were begun.
    ended: Vec<Option<Ended>>,
    /// Operations that were told.
    told: usize,
    /// How the close ended, once that was told.
    closed: Option<Result<(), String>>,
}

#[derive(Default)]
struct Told {
    book: Mutex<Book>,
    changed: Condvar,
}

impl Told {
    fn begin(&self) -> usize {
        let mut book = self.book.lock().unwrap();
        book.ended.push(None);
        book.ended.len() - 1
    }

    fn end(&self, at: usize, ended: Ended) {
        let mut book = self.book.lock().unwrap();
        assert!(book.closed.is_none(), "an operation was told after the close");
        assert!(book.ended[at].replace(ended).is_none(), "an operation was told twice");
        book.told += 1;
        self.changed.notify_all();
    }

    /// An operation that could not begin is told by that.
    fn refuse(&self, at: usize) {
        self.end(at, Ended::Wrote(0));
    }

    fn wait(&self, what: &str, there: impl Fn(&Book) -> bool) {
        let until = Instant::now() + PATIENCE;
        let mut book = self.book.lock().unwrap();
        while !there(&book) {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what}: {} of {} were told", book.told, book.ended.len());
            book = self.changed.wait_timeout(book, left).unwrap().0;
        }
    }
}

/// One end of a connection.
struct End {
    handle: Handle,
    told: Arc<Told>,
    /// What each write would write, by its number; nothing for reads.
    contents: Vec<Vec<u8>>,
    ids: Vec<OperationId>,
    /// Reads, and writes, run out of time soon.
    short: [bool; 2],
}

impl End {
    fn new(handle: Handle, options: &Options) -> Self {
        let short = [options.timeouts.read, options.timeouts.write].map(|timeout| timeout == Some(SHORT));
        Self { handle, told: Arc::default(), contents: Vec::new(), ids: Vec::new(), short }
    }

    fn outstanding(&self) -> usize {
        let book = self.told.book.lock().unwrap();
        book.ended.len() - book.told
    }

    fn read(&mut self, random: &mut Random) {
        let length = random.length();
        let wait_for = random.below(length as u64 + 1) as usize;
        let at = self.told.begin();
        self.contents.push(Vec::new());
        let told = self.told.clone();
        let done = move |_: &Handle, done: Completed| told.end(at, of_read(done));
        match self.handle.register_read(vec![0; length], wait_for, done) {
            Ok(id) => self.ids.push(id),
            Err(_) => self.told.refuse(at),
        }
    }

    fn write(&mut self, random: &mut Random, seed: u64) {
        let at = self.told.begin();
        let bytes = content(seed, at, random.length());
        self.contents.push(bytes.clone());
        let told = self.told.clone();
        let done = move |_: &Handle, done: Completed| {
            let moved = moved(done.result);
            told.end(at, Ended::Wrote(moved));
        };
        match self.handle.register_write(bytes, WriteInfo::default(), done) {
            Ok(id) => self.ids.push(id),
            Err(_) => self.told.refuse(at),
        }
    }

    /// A read on this thread, of what is there, or of what comes in a short time.
    fn blocking_read(&mut self, random: &mut Random) {
        if self.outstanding() > 0 && !self.short[0] {
            return;
        }
        let mut bytes = vec![0; random.length() + 1];
        let at = self.told.begin();
        self.contents.push(Vec::new());
        let result = self.handle.read(&mut bytes, self.short[0].into());
        bytes.truncate(moved(result));
        self.told.end(at, Ended::Read(bytes));
    }

    fn blocking_write(&mut self, random: &mut Random, seed: u64) {
        if !self.short[1] {
            return;
        }
        let at = self.told.begin();
        let bytes = content(seed, at, random.length());
        let moved = self.handle.write(&bytes).unwrap_or_else(|error| transferred(&error));
        self.contents.push(bytes);
        self.told.end(at, Ended::Wrote(moved));
    }

    /// Cancels one of the last operations, which may be over.
    fn cancel(&self, random: &mut Random) {
        let last = self.ids.len().saturating_sub(8);
        if let Some(id) = self.ids.get(last + random.below(8) as usize) {
            self.handle.cancel(*id);
        }
    }

    /// Reads what is left, whatever fails on the way.
    fn read_to_end(&mut self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let at = self.told.begin();
            self.contents.push(Vec::new());
            let mut bytes = vec![0; 5000];
            let result = self.handle.read(&mut bytes, 1);
            let over = match &result {
                Ok(received) => received.info.end,
                // The other end has left without reading everything.
                Err(error) => error.kind() == ErrorKind::Lost,
            };
            bytes.truncate(moved(result));
            self.told.end(at, Ended::Read(bytes));
            if over {
                return;
            }
            assert!(Instant::now() < until, "the end does not come");
        }
    }

    /// Closes, and sees that everything was told before and nothing after it.
    fn close(&self, registered: bool) {
        let told = self.told.clone();
        let see = move |closed: xdfs_xio::Result<()>| {
            let mut book = told.book.lock().unwrap();
            assert_eq!(book.told, book.ended.len(), "closed before everything was told");
            let closed = closed.map_err(|error| error.to_string());
            assert!(book.closed.replace(closed).is_none(), "closed twice");
            told.changed.notify_all();
        };
        if registered {
            self.handle.register_close(see).unwrap();
        } else {
            see(self.handle.close());
        }
    }

    /// What was read, in the order of the reads.
    fn received(&self) -> Vec<u8> {
        let book = self.told.book.lock().unwrap();
        let parts = book.ended.iter().map(|ended| if let Some(Ended::Read(bytes)) = ended { &bytes[..] } else { &[] });
        parts.collect::<Vec<_>>().concat()
    }

    /// What the other end should have read, or will.
    fn sent(&self) -> Vec<u8> {
        let book = self.told.book.lock().unwrap();
        let parts = book.ended.iter().zip(&self.contents).map(|(ended, content)| match ended {
            Some(Ended::Wrote(moved)) => &content[..(*moved).min(content.len())],
            _ => &[],
        });
        parts.collect::<Vec<_>>().concat()
    }
}

fn of_read(done: Completed) -> Ended {
    let moved = moved(done.result);
    let mut bytes = done.buffers.into_one();
    bytes.truncate(moved);
    Ended::Read(bytes)
}

/// Bytes that were not sent when the close begins have time, if somebody reads them.
fn options(random: &mut Random, close: Duration) -> Options {
    let mut time = || Some(if random.below(4) == 0 { SHORT } else { PATIENCE });
    let timeouts = Timeouts { open: Some(PATIENCE), read: time(), write: time(), close: Some(close) };
    Options { timeouts }
}

/// Opens both ends; none where a fault or a close came between, which was told as well.
fn open(socket: &Path, random: &mut Random, close: Duration) -> Option<(End, End)> {
    let server = Server::listen(&stack(random), socket.to_str().unwrap()).unwrap();
    let (stack, here, there) = (stack(random), options(random, close), options(random, close));
    let (tell, told) = sync_channel(2);
    let tell_close = tell.clone();
    let done = move |_: &Handle, opened: xdfs_xio::Result<()>| tell.send(Some(opened.is_ok())).unwrap();
    let client = Handle::register_open(&stack, &server.contact().unwrap(), &here, done).unwrap();
    let closes = random.below(50) == 0;
    let close = |client: &Handle| {
        let tell_close = tell_close.clone();
        client.register_close(move |_| tell_close.send(None).unwrap()).unwrap();
    };
    if closes {
        close(&client);
    }
    let opened = told.recv_timeout(PATIENCE).unwrap().expect("the close is told last");
    let other = if opened && !closes { server.accept(Some(PATIENCE)).unwrap().open(&there).ok() } else { None };
    if let Some(other) = other {
        return Some((End::new(client, &here), End::new(other, &there)));
    }
    if !closes {
        close(&client);
    }
    assert_eq!(told.recv_timeout(PATIENCE), Ok(None));
    None
}

/// One connection from its opening to its close; how many steps it took.
fn run(socket: &Path, seed: u64) -> u64 {
    let mut random = Random(seed);
    let to_the_end = random.below(3) > 0;
    let close = if to_the_end { PATIENCE } else { SHORT };
    let Some((mut one, mut other)) = open(socket, &mut random, close) else { return 1 };
    let steps = random.below(STEPS_OF_RUN) + 1;
    let both_ways = random.below(2) == 0;
    for _ in 0..steps {
        let (this, writes) = if random.below(2) == 0 { (&mut one, true) } else { (&mut other, both_ways) };
        let is_free = this.outstanding() < OUTSTANDING_MAX;
        match random.below(100) {
            0..30 if is_free => this.read(&mut random),
            30..65 if is_free && writes => this.write(&mut random, seed),
            65..80 => this.cancel(&mut random),
            80..82 => drop(this.handle.cancel_reads()),
            82..84 => drop(this.handle.cancel_writes()),
            84 => this.blocking_read(&mut random),
            85 if writes => this.blocking_write(&mut random, seed),
            _ => thread::yield_now(),
        }
    }
    finish(&one, &mut other, &mut random, to_the_end);
    steps
}

/// Closes both ends, and compares what was read with what was written.
fn finish(one: &End, other: &mut End, random: &mut Random, to_the_end: bool) {
    let registered = random.below(8) > 0;
    if to_the_end {
        other.handle.cancel_reads();
        other.handle.cancel_writes();
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
    for end in [one, other] {
        end.told.wait("the close", |book| book.closed.is_some());
    }
    // Of two layers with faults the upper one may be kept from sending what it has.
    let close = one.told.book.lock().unwrap().closed.clone().unwrap();
    let is_whole = to_the_end && !matches!(&close, Err(error) if error.contains("a fault that was drawn"));
    let (received, sent) = (other.received(), one.sent());
    assert!(sent.starts_with(&received), "{} bytes are not those that were sent", received.len());
    let (came, all) = (received.len(), sent.len());
    assert!(!is_whole || came == all, "{came} bytes of {all} arrived; the close: {close:?}");
    let (received, sent) = (one.received(), other.sent());
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
