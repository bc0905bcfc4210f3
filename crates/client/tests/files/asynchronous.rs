//! Files whose calls are futures.

use super::support::serving::Serving;
use super::{BOTH, refused, remote};
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use xdfs_client::file::{AsyncRemote, File, OpenOptions};
use xdfs_client::{Error, ErrorKind};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest runtime that there is.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// More than there are.
const THREADS: usize = 20;

const WRITES: u64 = 250;
const READS: usize = 3000;
const EACH: usize = 500;

#[test]
fn thousands_of_reads_at_a_time_are_each_answered_with_their_bytes() {
    let serving = Serving::start();
    let content: Vec<u8> = (0..READS * EACH).map(|at| (at / EACH) as u8 ^ at as u8).collect();
    serving.directory.write("f", &content);
    let server = AsyncRemote::new(remote(&serving));
    block_on(async {
        let file = server.open("data/f", &OpenOptions::new().read(true)).await.unwrap();
        let begun: Vec<_> = (0..READS).map(|number| file.read_at((number * EACH) as u64, EACH)).collect();
        for (number, read) in begun.into_iter().enumerate() {
            assert!(read.await.unwrap() == content[number * EACH..][..EACH], "read {number}");
        }
        let (end, behind) = (file.read_at((READS * EACH - 7) as u64, EACH), file.read_at((READS * EACH) as u64, 1));
        assert_eq!(end.await.unwrap(), content[READS * EACH - 7..]);
        assert_eq!(behind.await.unwrap(), b"");
        assert_eq!(file.read_at(u64::MAX, 1).await.unwrap_err().kind, ErrorKind::TooLarge);
        file.close().await.unwrap();
    });
}

#[test]
fn every_call_does_to_the_file_what_the_blocking_one_does() {
    let serving = Serving::start();
    let server = AsyncRemote::new(remote(&serving));
    let missing = block_on(async { server.open("data/missing", &BOTH).await.map(drop).unwrap_err().kind });
    assert_eq!(missing, ErrorKind::NotFound);
    block_on(async {
        let file = server.open("data/f", &BOTH.create(true)).await.unwrap();
        file.write_at("one two", 0).await.unwrap();
        file.set_len(4).await.unwrap();
        assert_eq!(file.append("three").await.unwrap(), 4);
        assert_eq!(file.length().await.unwrap(), 9);
        file.call(|file| file.try_lock(true)).await.unwrap();
        file.sync_all().await.unwrap();
        file.close().await.unwrap();
    });
    assert_eq!(serving.directory.read("f"), b"one three");
}

#[test]
fn one_read_is_not_answered_with_the_trouble_of_another() {
    let serving = Serving::start();
    serving.directory.write("f", &[7; 100_000]);
    let server = AsyncRemote::new(remote(&serving));
    block_on(async {
        let file = server.open("data/f", &OpenOptions::new().read(true)).await.unwrap();
        // What lies behind the largest offset of the wire is refused before it is sent, and with it all that is sent with it.
        let (most, far) = (file.read_at(0, usize::MAX), file.read_at((1 << 62) - 1, 100));
        let near = file.read_at(5, 3);
        assert_eq!(most.await.unwrap().len(), 100_000, "there is no more, and no memory is taken for it");
        assert_eq!(near.await.unwrap(), [7; 3]);
        assert!(far.await.unwrap_or_default().is_empty());
        file.close().await.unwrap();
    });
}

#[test]
fn calls_that_panic_cost_no_thread() {
    let serving = Serving::start();
    let server = AsyncRemote::new(remote(&serving));
    block_on(async {
        let file = server.open("data/f", &BOTH.create(true)).await.unwrap();
        for _ in 0..THREADS {
            assert!(file.call(|_| -> Result<(), Error> { panic!("the program's own trouble") }).await.is_err());
        }
        assert_eq!(file.length().await.unwrap(), 0);
        file.close().await.unwrap();
    });
}

#[test]
fn what_was_begun_is_made_though_nobody_waits_and_a_dropped_file_is_closed() {
    let serving = Serving::start();
    let alone = BOTH.create(true).deny(true, true);
    let server = AsyncRemote::new(remote(&serving));
    block_on(async {
        let file = server.open("data/f", &alone).await.unwrap();
        (0..WRITES).for_each(|at| drop(file.write_at([at as u8; 100], at * 100)));
    });
    let other = remote(&serving);
    // It is closed by another thread.
    while File::open(&other, "data/f", &BOTH).is_err() {
        assert_eq!(refused(&other, "data/missing", &BOTH), ErrorKind::NotFound, "the server is there");
    }
    let content: Vec<u8> = (0..WRITES * 100).map(|at| (at / 100) as u8).collect();
    assert!(serving.directory.read("f") == content, "it was closed before they were made");
}
