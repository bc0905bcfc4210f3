//! What UDT's library does to the rest of its process. A program of its own: others' descriptors and threads are counted.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "counts the threads of its process")]

#[path = "support/compiled.rs"]
mod compiled;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use compiled::loaded;
use xdfs_xio::{ErrorKind, Handle, Options, Server, Stack};

/// Connections, each of which has two sockets of the kernel.
const CONNECTIONS: usize = 40;
/// Threads that compute all the time, so that those of the library, which have less of a processor, come late.
const BUSY: usize = 4;
/// Longest wait for what the library closes in turns of a second.
const PATIENCE: Duration = Duration::from_secs(180);

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Opens a connection and closes both its ends.
fn open_and_close(stack: &Stack) {
    let server = Server::listen(stack, "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    let options = Options::default();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| server.accept(Some(PATIENCE)).unwrap().open(&options).unwrap());
        // It gives up after three seconds.
        let client = std::iter::repeat_with(|| Handle::open(stack, &contact, &options))
            .take(60)
            .find(|opened| !opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::TimedOut));
        let client = client.unwrap().unwrap();
        // libudt forgets an accepted connection whose client has gone.
        let accepted = accepting.join().unwrap();
        client.close().unwrap();
        accepted.close().unwrap();
    });
}

/// Whether what is written to each of two sockets is there for whoever reads the other.
fn have_their_bytes() -> bool {
    let (mut one, mut other) = UnixStream::pair().unwrap();
    one.write_all(b"from one").unwrap();
    other.write_all(b"and back").unwrap();
    thread::yield_now();
    [(one, b"and back"), (other, b"from one")].into_iter().all(|(mut socket, sent)| {
        let mut bytes = [0; 100];
        socket.set_nonblocking(true).unwrap();
        socket.read(&mut bytes).is_ok_and(|count| bytes[..count] == sent[..])
    })
}

/// The library closes a socket while threads of its own still use its number, which may be another socket's then.
#[test]
fn what_is_opened_while_the_library_closes_its_sockets_is_left_alone() {
    let (registry, has_udt) = loaded();
    if !has_udt {
        return;
    }
    let before = threads() + BUSY;
    let stack = Stack::of(registry).push("udt_ref", "").unwrap();
    let done = AtomicBool::new(false);
    let end = Instant::now() + PATIENCE;
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            // The thread that closes is the first one's.
            open_and_close(&stack);
            let opening = scope.spawn(|| {
                rustix::process::setpriority_process(Some(rustix::thread::gettid()), 5).unwrap();
                (0..CONNECTIONS).for_each(|_| open_and_close(&stack));
            });
            // One thread of the library stays, and this one.
            let is_over = || opening.is_finished() && threads() <= before + 2;
            let (mut is_whole, mut in_time) = (true, false);
            while is_whole && !in_time && Instant::now() < end {
                is_whole = have_their_bytes();
                in_time = is_over();
            }
            done.store(true, Ordering::Relaxed);
            (is_whole, in_time)
        });
        for _ in 0..BUSY {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) && Instant::now() < end {
                    std::hint::spin_loop();
                }
            });
        }
        let (is_whole, in_time) = watching.join().unwrap();
        assert!(is_whole, "another thread had their bytes");
        assert!(in_time, "{} threads, {before} before", threads());
    });
}
