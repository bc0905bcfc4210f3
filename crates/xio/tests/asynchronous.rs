//! Handles whose calls are polled, by a runtime of this test's own: no byte is lost whenever a future is given up.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use xdfs_xio::{AsyncHandle, Error, ErrorKind, Handle, Options, Server, Stack, Timeouts};

/// Nothing that is waited for takes this long, unless it never comes.
const PATIENCE: Duration = Duration::from_secs(30);

const STACKS: [&str; 3] = ["tcp", "tcp,zstd", "tcp,fault:seed=5;late=300,noop,queue=5000"];

/// Wakes the thread that runs a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
#[track_caller]
fn run<T>(future: impl Future<Output = T>) -> T {
    let (mut future, until) = (pin!(future), Instant::now() + PATIENCE);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        thread::park_timeout(until.saturating_duration_since(Instant::now()));
        assert!(Instant::now() < until, "nobody woke the task");
    }
}

/// Polls a future once, and gives it up.
fn once<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn pair(text: &str, read: Duration) -> (AsyncHandle, Handle) {
    let stack = Stack::new().push_all(text).unwrap();
    let time = Some(PATIENCE);
    let options = Options { timeouts: Timeouts { open: time, read: Some(read), write: time, close: time } };
    let server = Server::listen(&stack, "127.0.0.1:0").unwrap();
    let client = Handle::open(&stack, &server.contact().unwrap(), &options).unwrap();
    let patient = Options { timeouts: Timeouts { read: time, ..options.timeouts } };
    (client.into(), server.accept(time).unwrap().open(&patient).unwrap())
}

fn content(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn bytes_move_both_ways_and_the_end_is_told_and_stays() {
    for text in STACKS {
        let (mut ours, theirs) = pair(text, PATIENCE);
        let sent = content(1_000_003);
        thread::scope(|scope| {
            let echo = scope.spawn(|| {
                let mut bytes = vec![0; sent.len()];
                assert_eq!(theirs.read(&mut bytes, sent.len()).unwrap().bytes, sent.len(), "{text}");
                theirs.write(&bytes).unwrap();
                theirs.close().unwrap();
            });
            let received = run(async {
                let mut rest = &sent[..];
                while !rest.is_empty() {
                    let count = ours.write(rest).await.unwrap();
                    rest = &rest[count..];
                }
                ours.flush().await.unwrap();
                let (mut all, mut buffer) = (Vec::new(), vec![0; 7919]);
                loop {
                    match ours.read(&mut buffer).await.unwrap() {
                        0 => return all,
                        count => all.extend_from_slice(&buffer[..count]),
                    }
                }
            });
            assert!(received == sent, "{text}: {} bytes", received.len());
            assert_eq!(run(ours.read(&mut [0])).unwrap(), 0, "{text}: it stays the end");
            echo.join().unwrap();
        });
    }
}

#[test]
fn a_read_that_is_given_up_loses_no_byte() {
    for text in STACKS {
        let (mut ours, theirs) = pair(text, PATIENCE);
        let sent = content(200_003);
        thread::scope(|scope| {
            scope.spawn(|| {
                sent.chunks(1009).for_each(|piece| assert_eq!(theirs.write(piece).unwrap(), piece.len()));
                theirs.close().unwrap();
            });
            let (mut received, mut given_up) = (Vec::new(), 0);
            loop {
                // Each is first asked once and given up, also with a buffer that is shorter than the next one's.
                let mut short = [0; 10];
                if let Poll::Ready(count) = once(ours.read(&mut short)) {
                    received.extend_from_slice(&short[..count.unwrap()]);
                } else {
                    given_up += 1;
                }
                let mut buffer = [0; 300];
                match run(ours.read(&mut buffer)).unwrap() {
                    0 => break,
                    count => received.extend_from_slice(&buffer[..count]),
                }
            }
            assert!(received == sent, "{text}: {} bytes", received.len());
            assert!(given_up > 0, "{text}: nothing was given up");
        });
    }
}

#[test]
fn a_write_that_is_given_up_has_taken_nothing() {
    let (mut ours, theirs) = pair("tcp", PATIENCE);
    let piece = content(200_000);
    let (mut taken, mut given_up) = (0, 0);
    // Nobody reads: sooner or later none is taken.
    while given_up < 3 {
        match once(ours.write(&piece)) {
            Poll::Ready(count) => taken += count.unwrap(),
            Poll::Pending => given_up += 1,
        }
    }
    let mut received = vec![0; taken + 1];
    thread::scope(|scope| {
        let reading = scope.spawn(|| theirs.read(&mut received, taken + 1).unwrap());
        run(ours.close()).unwrap();
        let read = reading.join().unwrap();
        assert_eq!((read.bytes, read.info.end), (taken, true));
    });
    assert!(received[..taken].chunks(piece.len()).all(|part| part == &piece[..part.len()]));
    run(ours.close()).unwrap();
    let late = run(ours.write(b"x")).unwrap_err().downcast::<Error>().unwrap();
    assert_eq!(late.kind(), ErrorKind::Closed, "{late}");
}

#[test]
fn a_timeout_is_told_once_and_reading_goes_on() {
    let (mut ours, theirs) = pair("tcp", Duration::from_millis(30));
    let late = run(ours.read(&mut [0; 10])).unwrap_err().downcast::<Error>().unwrap();
    assert_eq!(late.kind(), ErrorKind::TimedOut, "{late}");
    theirs.write(b"later").unwrap();
    let mut bytes = [0; 5];
    // Each has a deadline of its own.
    let read = loop {
        match run(ours.read(&mut bytes)).map_err(|error| error.downcast::<Error>().unwrap()) {
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            read => break read.unwrap(),
        }
    };
    assert_eq!((read, &bytes), (5, b"later"));
}

#[test]
fn what_is_dropped_is_closed_though_a_read_was_under_way() {
    let (mut ours, theirs) = pair("tcp", PATIENCE);
    assert!(once(ours.read(&mut [0; 10])).is_pending());
    drop(ours);
    assert!(theirs.read(&mut [0], 1).unwrap().info.end);
}
