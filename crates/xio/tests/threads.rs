//! One handle that several threads use at once, over connections with faults: each callback is called once, that of
//! the close last, and what is read is what was written. `interleavings.rs` has the same with a thread for each end.
//! The seed of a failure is printed; XDFS_SEED runs that one alone.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

#[path = "support/faults.rs"]
mod faults;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use faults::{PATIENCE, Random, SHORT, content, moved, stack};
use xdfs_xio::{Completed, Error, ErrorKind, Handle, OperationId, Options, Server, Timeouts, WriteInfo};

/// Steps of all threads together.
const STEPS: usize = 200_000;
/// Steps of one thread at one end, at most: three threads stay below the bound of outstanding operations.
const STEPS_OF_THREAD: u64 = 250;
/// Threads at each end.
const THREADS: u64 = 3;

/// What was told of the operations of one handle.
#[derive(Default)]
struct Book {
    /// What was read and written, by the order in which the operations were begun.
    read: BTreeMap<OperationId, Vec<u8>>,
    written: BTreeMap<OperationId, Vec<u8>>,
    /// Bytes that blocking calls moved, of which the order is not known.
    blocking_read: usize,
    blocking_written: usize,
    /// Operations that could begin, and those that were told.
    begun: usize,
    told: usize,
    /// Promises that were not kept.
    broken: Vec<String>,
    closed: Option<Result<(), String>>,
}

/// One end of a connection, which all of its threads share.
#[derive(Clone)]
struct End {
    handle: Handle,
    book: Arc<(Mutex<Book>, Condvar)>,
    /// What is cancelled now and then; most of it is over by then.
    last: Arc<Mutex<Option<OperationId>>>,
}

impl End {
    fn new(handle: Handle) -> Self {
        Self { handle, book: Arc::default(), last: Arc::default() }
    }

    fn with<T>(&self, then: impl FnOnce(&mut Book) -> T) -> T {
        let result = then(&mut self.book.0.lock().unwrap());
        self.book.1.notify_all();
        result
    }

    fn wait(&self, what: &str, there: impl Fn(&Book) -> bool) {
        let book = self.book.0.lock().unwrap();
        let (book, waited) = self.book.1.wait_timeout_while(book, PATIENCE, |book| !there(book)).unwrap();
        assert!(!waited.timed_out(), "{what}: {} of {} were told", book.told, book.begun);
    }

    /// Counts an operation that could begin.
    fn begun(&self, result: Result<OperationId, Error>) {
        if let Ok(id) = result {
            *self.last.lock().unwrap() = Some(id);
            self.with(|book| book.begun += 1);
        }
    }

    fn read(&self, random: &mut Random) {
        let length = random.length();
        let wait_for = random.below(length as u64 + 1) as usize;
        let (end, again) = (self.clone(), random.below(5) == 0);
        let done = move |handle: &Handle, done: Completed| {
            end.told_read(done);
            if again {
                let after = end.clone();
                end.begun(handle.register_read(vec![0; 7], 1, move |_, done| after.told_read(done)));
            }
        };
        self.begun(self.handle.register_read(vec![0; length], wait_for, done));
    }

    fn told_read(&self, done: Completed) {
        let bytes = moved(done.result);
        let mut buffer = done.buffers.into_one();
        buffer.truncate(bytes);
        self.told(done.operation, |book| book.read.insert(done.operation, buffer).is_some());
    }

    fn write(&self, random: &mut Random, seed: u64) {
        let bytes = content(seed, random.below(1000) as usize, random.length());
        let end = self.clone();
        let done = move |_: &Handle, done: Completed| {
            let sent = moved(done.result);
            let mut buffer = done.buffers.into_one();
            buffer.truncate(sent);
            end.told(done.operation, |book| book.written.insert(done.operation, buffer).is_some());
        };
        self.begun(self.handle.register_write(bytes, WriteInfo::default(), done));
    }

    fn told(&self, operation: OperationId, note: impl FnOnce(&mut Book) -> bool) {
        self.with(|book| {
            book.told += 1;
            if note(book) {
                book.broken.push(format!("{operation:?} was told twice"));
            }
            if book.closed.is_some() {
                book.broken.push(format!("{operation:?} was told after the close"));
            }
        });
    }

    fn blocking_read(&self, random: &mut Random) {
        let mut bytes = vec![0; random.length() + 1];
        let bytes = moved(self.handle.read(&mut bytes, 1));
        self.with(|book| book.blocking_read += bytes);
    }

    fn blocking_write(&self, random: &mut Random) {
        let bytes = moved_of(self.handle.write(&vec![7; random.length()]));
        self.with(|book| book.blocking_written += bytes);
    }

    fn cancel(&self, random: &mut Random) {
        let last = *self.last.lock().unwrap();
        match random.below(20) {
            0 => drop(self.handle.cancel_reads()),
            1 => drop(self.handle.cancel_writes()),
            _ => drop(last.map(|id| self.handle.cancel(id))),
        }
    }

    /// True where it was this call that closes.
    fn close(&self, registered: bool) -> bool {
        let end = self.clone();
        let see = move |closed: xdfs_xio::Result<()>| {
            end.with(|book| {
                if book.closed.replace(closed.map_err(|error| error.to_string())).is_some() {
                    book.broken.push("closed twice".to_owned());
                }
            });
        };
        if registered {
            return self.handle.register_close(see).is_ok();
        }
        let closed = self.handle.close();
        let is_ours = !matches!(&closed, Err(error) if error.kind() == ErrorKind::Closed);
        if is_ours {
            see(closed);
        }
        is_ours
    }

    /// Registers reads one after the other until the end.
    fn read_to_end(&self) {
        loop {
            let (tell, told) = sync_channel(1);
            let end = self.clone();
            let done = move |_: &Handle, done: Completed| {
                let over = match &done.result {
                    Ok(received) => received.info.end,
                    Err(error) => error.kind() == ErrorKind::Lost,
                };
                end.told_read(done);
                tell.send(over).unwrap();
            };
            self.begun(self.handle.register_read(vec![0; 5000], 1, done));
            if told.recv_timeout(PATIENCE).expect("the end does not come") {
                return;
            }
        }
    }
}

fn moved_of(result: xdfs_xio::Result<usize>) -> usize {
    result.unwrap_or_else(|error| faults::transferred(&error))
}

fn options(read: std::time::Duration, write: std::time::Duration) -> Options {
    let timeouts = Timeouts { open: Some(PATIENCE), read: Some(read), write: Some(write), close: Some(PATIENCE) };
    Options { timeouts }
}

/// Both ends; none where a fault came between. What goes from the first to the second moves by registered operations
/// alone, whose order is known; blocking calls of the other direction end soon.
fn open(socket: &Path, random: &mut Random) -> Option<(End, End)> {
    let server = Server::listen(&stack(random), socket.to_str().unwrap()).unwrap();
    let stack = stack(random);
    let mut time = || if random.below(4) == 0 { SHORT } else { PATIENCE };
    let (writer, reader) = (options(SHORT, time()), options(time(), SHORT));
    let one = Handle::open(&stack, &server.contact().unwrap(), &writer).ok()?;
    let other = server.accept(Some(PATIENCE)).unwrap().open(&reader).ok()?;
    Some((End::new(one), End::new(other)))
}

/// What one thread does at one end; `closes` after half of it.
fn work(end: &End, is_writer: bool, mut random: Random, seed: u64, closes: bool) -> usize {
    let steps = random.below(STEPS_OF_THREAD) + 2;
    for step in 0..steps {
        if closes && step == steps / 2 {
            assert!(end.close(true), "nobody else closes");
        }
        match (random.below(100), is_writer) {
            (0..30, _) => end.read(&mut random),
            (30..60, _) => end.write(&mut random, seed),
            (60..75, _) => end.cancel(&mut random),
            (75..77, true) => end.blocking_read(&mut random),
            (75..77, false) => end.blocking_write(&mut random),
            _ => thread::yield_now(),
        }
    }
    steps as usize
}

/// One connection from its opening to its close; how many steps were made.
fn run(socket: &Path, seed: u64) -> usize {
    let mut random = Random(seed);
    let Some((one, other)) = open(socket, &mut random) else { return 1 };
    let steps = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (end, is_writer) in [(&one, true), (&other, false)] {
            for number in 0..THREADS {
                let (random, closes) = (Random(random.below(1 << 60)), is_writer && number == 0);
                threads.push(scope.spawn(move || work(end, is_writer, random, seed, closes)));
            }
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    other.handle.cancel_reads();
    other.handle.cancel_writes();
    other.read_to_end();
    one.wait("the close", |book| book.closed.is_some());
    // Several close at once, in both ways, and one of them does.
    let closed = thread::scope(|scope| {
        let other = &other;
        let closing = [true, false, true].map(|registered| scope.spawn(move || other.close(registered)));
        closing.map(|thread| usize::from(thread.join().unwrap())).iter().sum::<usize>()
    });
    assert_eq!(closed, 1, "closes that succeeded");
    other.wait("the other close", |book| book.closed.is_some());
    check(&one, &other);
    steps
}

fn check(one: &End, other: &End) {
    for end in [one, other] {
        end.with(|book| {
            assert!(book.broken.is_empty(), "{:?}", book.broken);
            assert_eq!(book.told, book.begun, "operations that were told");
        });
    }
    let bytes = |parts: &BTreeMap<_, Vec<u8>>| parts.values().flatten().copied().collect::<Vec<_>>();
    let (sent, close) = one.with(|book| (bytes(&book.written), book.closed.clone().unwrap()));
    let received = other.with(|book| bytes(&book.read));
    assert!(sent.starts_with(&received), "{} bytes are not those that were sent", received.len());
    // Of two layers with faults the upper one may be kept from sending what it has.
    let is_whole = !matches!(&close, Err(error) if error.contains("a fault that was drawn"));
    assert!(
        !is_whole || sent.len() == received.len(),
        "{} of {} bytes; the close: {close:?}",
        received.len(),
        sent.len()
    );
    let back = one.with(|book| bytes(&book.read).len() + book.blocking_read);
    let written = other.with(|book| bytes(&book.written).len() + book.blocking_written);
    assert!(back <= written, "{back} bytes came of {written} that were sent back");
}

#[test]
fn threads_that_share_a_handle_are_each_told_once_and_the_close_last() {
    let one = std::env::var("XDFS_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let (mut seed, steps) = (one.unwrap_or(1), AtomicUsize::new(0));
    while steps.load(Ordering::Relaxed) < STEPS {
        let socket = directory.path().join(format!("socket{seed}"));
        let taken = catch_unwind(AssertUnwindSafe(|| run(&socket, seed)));
        let taken = taken.unwrap_or_else(|_| panic!("with XDFS_SEED={seed}"));
        steps.fetch_add(if one.is_some() { STEPS } else { taken }, Ordering::Relaxed);
        seed += 1;
    }
}
