//! Handles over real sockets, through stacks of one driver and of several: what a program may rely on.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes the files of a certificate")]

#[path = "support/certificate.rs"]
mod certificate;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use certificate::tls;
use tempfile::TempDir;
use xdfs_xio::{
    Completed, ErrorKind, Flow, Handle, Kind, Options, ReadInfo, Registry, Server, Stack, Timeouts, WriteInfo,
};

/// Nothing that is waited for takes this long, unless it never comes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Short enough to wait for.
const SHORT: Duration = Duration::from_millis(30);

const STACKS: [&str; 10] = [
    "tcp",
    "unix",
    "tcp,noop",
    "unix,noop,noop,noop,noop",
    "tcp,noop,rate=1GB/s,noop",
    "tcp,tls",
    "tcp,zstd",
    "tcp,telnet",
    "tcp,http=POST",
    "tcp,noop,tls,zstd,telnet,http=PUT",
];

/// `tls` stands for it with a certificate, which both ends show and trust.
fn stack(text: &str) -> Stack {
    Stack::new().push_all(&text.replace("tls", tls())).unwrap()
}

/// Both ends of a connection.
fn pair(text: &str, options: &Options) -> (Handle, Handle, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let listen = if text.starts_with("unix") { socket.to_str().unwrap() } else { "127.0.0.1:0" };
    let server = Server::listen(&stack(text), listen).unwrap();
    let (contact, options) = (server.contact().unwrap(), *options);
    let accepting = thread::spawn(move || server.accept(Some(PATIENCE)).unwrap().open(&options).unwrap());
    let client = Handle::open(&stack(text), &contact, &options).unwrap();
    (client, accepting.join().unwrap(), directory)
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Where a callback tells what it got.
fn told() -> (SyncSender<Completed>, Receiver<Completed>) {
    sync_channel(64)
}

#[test]
fn bytes_arrive_in_order_over_every_stack() {
    let content = pattern(3_000_001);
    for text in STACKS {
        let (client, server, _directory) = pair(text, &Options::default());
        let sent = content.clone();
        let sending = thread::spawn(move || {
            for piece in sent.chunks(100_003) {
                assert_eq!(client.write(piece).unwrap(), piece.len());
            }
            client.close().unwrap();
        });
        let mut received = Vec::new();
        let mut buffer = vec![0; 70_001];
        loop {
            let got = server.read(&mut buffer, 70_001).unwrap();
            received.extend_from_slice(&buffer[..got.bytes]);
            if got.info.end {
                break;
            }
            assert_eq!(got.bytes, buffer.len(), "{text}: fewer only at the end");
        }
        assert!(received == content, "{text}");
        let again = server.read(&mut buffer, 1).unwrap();
        assert_eq!((again.bytes, again.info.end), (0, true), "it stays the end");
        sending.join().unwrap();
    }
}

#[test]
fn registered_operations_are_told_in_order_and_never_inside_the_call() {
    for text in STACKS {
        let (client, server, _directory) = pair(text, &Options::default());
        let content = pattern(200_000);
        let (tell, reads) = told();
        for _ in 0..20 {
            let tell = tell.clone();
            let before = thread::current().id();
            let read = server.register_read(vec![0; 10_000], 10_000, move |_, completed| {
                assert_ne!(thread::current().id(), before);
                tell.send(completed).unwrap();
            });
            read.unwrap();
        }
        let (tell, writes) = told();
        client.register_write(content.clone(), WriteInfo::default(), move |_, done| tell.send(done).unwrap()).unwrap();
        let written = writes.recv_timeout(PATIENCE).unwrap();
        assert_eq!(written.result.unwrap().bytes, content.len());
        assert!(written.buffers.into_one() == content, "the buffer comes back");
        let mut received = Vec::new();
        for _ in 0..20 {
            received.extend(reads.recv_timeout(PATIENCE).unwrap().buffers.into_one());
        }
        assert!(received == content, "{text}");
    }
}

#[test]
fn the_next_operation_may_be_registered_from_a_callback_and_none_may_wait_there() {
    fn echo(handle: &Handle, completed: Completed) {
        let Ok(received) = completed.result else { return };
        if received.info.end {
            return;
        }
        let error = handle.read(&mut [0], 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        let mut bytes = completed.buffers.into_one();
        bytes.truncate(received.bytes);
        let again = |handle: &Handle, _: Completed| drop(handle.register_read(vec![0; 4096], 1, echo));
        handle.register_write(bytes, WriteInfo::default(), again).unwrap();
    }
    for text in STACKS {
        let (client, server, _directory) = pair(text, &Options::default());
        server.register_read(vec![0; 4096], 1, echo).unwrap();
        for round in 0..50_u32 {
            let word = round.to_be_bytes();
            client.write(&word).unwrap();
            let mut back = [0; 4];
            client.read(&mut back, 4).unwrap();
            assert_eq!(back, word, "{text}");
        }
        client.close().unwrap();
    }
}

#[test]
fn a_cancel_loses_no_byte_and_says_what_had_moved() {
    for text in STACKS {
        let (client, server, _directory) = pair(text, &Options::default());
        let (tell, reads) = told();
        let read = server.register_read(vec![0; 1000], 1000, move |_, done| tell.send(done).unwrap()).unwrap();
        client.write(b"half").unwrap();
        assert!(server.cancel(read));
        assert!(!server.cancel(read), "it is over");
        let completed = reads.recv_timeout(PATIENCE).unwrap();
        let error = completed.result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        let moved = error.transferred();
        let mut rest = [0; 4];
        server.read(&mut rest[moved..], 4 - moved).unwrap();
        rest[..moved].copy_from_slice(&completed.buffers.into_one()[..moved]);
        assert_eq!(&rest, b"half", "{text}: {moved} bytes had moved");
    }
}

#[test]
fn a_thread_that_waits_is_woken_by_a_cancel_and_by_a_timeout() {
    let timeouts = Timeouts { read: Some(SHORT), ..Timeouts::default() };
    for text in STACKS {
        let (_client, server, _directory) = pair(text, &Options { timeouts });
        let began = Instant::now();
        let error = server.read(&mut [0; 8], 8).unwrap_err();
        assert_eq!((error.kind(), error.transferred()), (ErrorKind::TimedOut, 0), "{text}");
        assert!(began.elapsed() >= SHORT);
        let (client, patient, _directory) = pair(text, &Options::default());
        let waiting = patient.clone();
        let reading = thread::spawn(move || waiting.read(&mut [0; 8], 8).unwrap_err().kind());
        let until = Instant::now() + PATIENCE;
        while patient.cancel_reads() == 0 {
            assert!(Instant::now() < until, "the read never began");
            thread::yield_now();
        }
        assert_eq!(reading.join().unwrap(), ErrorKind::Cancelled);
        client.write(b"still open").unwrap();
        assert_eq!(patient.read(&mut [0; 64], 10).unwrap().bytes, 10);
    }
}

#[test]
fn close_tells_everything_that_is_outstanding_first_and_itself_last() {
    for text in STACKS {
        let (_client, server, _directory) = pair(text, &Options::default());
        let (tell, told) = sync_channel(64);
        for number in 0..5 {
            let tell = tell.clone();
            let read = move |_: &Handle, completed: Completed| {
                tell.send((number, completed.result.map(drop).map_err(|error| error.kind()))).unwrap();
            };
            server.register_read(vec![0; 10], 10, read).unwrap();
        }
        let (last, handle) = (tell.clone(), server.clone());
        handle.register_close(move |closed| last.send((5, closed.map_err(|error| error.kind()))).unwrap()).unwrap();
        for number in 0..5 {
            assert_eq!(told.recv_timeout(PATIENCE), Ok((number, Err(ErrorKind::Cancelled))), "{text}");
        }
        assert_eq!(told.recv_timeout(PATIENCE), Ok((5, Ok(()))));
        assert_eq!(server.read(&mut [0], 1).unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(server.close().unwrap_err().kind(), ErrorKind::Closed);
    }
}

#[test]
fn what_cannot_be_opened_says_which_driver_of_which_stack_and_why() {
    let dead = {
        let server = Server::listen(&stack("tcp"), "127.0.0.1:0").unwrap();
        server.contact().unwrap()
    };
    for (text, contact, words) in [
        ("tcp,noop", dead.as_str(), ["tcp,noop", "refused"]),
        ("unix", "/no/such/socket", ["unix", "o such file"]),
        ("tcp", "/a/path", ["tcp", "host:port"]),
        ("tcp", "127.0.0.1:x", ["tcp", "port"]),
    ] {
        let error = Handle::open(&stack(text), contact, &Options::default()).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{text} {contact}: {error}");
        let (tell, told) = sync_channel(64);
        let opened = move |_: &Handle, result: xdfs_xio::Result<()>| tell.send(result).unwrap();
        let registered = Handle::register_open(&stack(text), contact, &Options::default(), opened);
        if registered.is_ok() {
            assert!(told.recv_timeout(PATIENCE).unwrap().is_err(), "{text} {contact}");
        }
    }
}

/// A driver that breaks every promise.
struct Liar(fn() -> std::io::Result<usize>);

struct LiarFlow(fn() -> std::io::Result<usize>, Box<dyn Flow>);

impl xdfs_xio::Driver for Liar {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn open(
        &self,
        below: &xdfs_xio::Below,
        contact: &xdfs_xio::Contact,
        _: &xdfs_xio::Attributes,
    ) -> xdfs_xio::Result<Box<dyn Flow>> {
        Ok(Box::new(LiarFlow(self.0, below.open(contact)?)))
    }
}

impl Flow for LiarFlow {
    fn receive(&mut self, _: &mut [std::io::IoSliceMut<'_>], _: &mut ReadInfo) -> std::io::Result<usize> {
        (self.0)()
    }

    fn send(&mut self, _: &[std::io::IoSlice<'_>], _: &WriteInfo) -> std::io::Result<usize> {
        (self.0)()
    }

    fn below(&self) -> Option<&dyn Flow> {
        Some(&*self.1)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        Some(&mut *self.1)
    }
}

#[test]
fn a_driver_that_breaks_its_contract_fails_its_own_handle_alone() {
    // More than was asked for, a panic, and nothing without an end or a message.
    let lies: [fn() -> std::io::Result<usize>; 3] = [|| Ok(1 << 40), || panic!("a driver's bug"), || Ok(0)];
    for lie in lies {
        let mut registry = Registry::built_in();
        registry.add("liar", std::sync::Arc::new(Liar(lie))).unwrap();
        let lying = Stack::of(std::sync::Arc::new(registry)).push_all("tcp,liar").unwrap();
        let server = Server::listen(&stack("tcp"), "127.0.0.1:0").unwrap();
        let handle = Handle::open(&lying, &server.contact().unwrap(), &Options::default()).unwrap();
        for error in [handle.read(&mut [0; 8], 1).unwrap_err(), handle.write(b"x").unwrap_err()] {
            assert!(error.to_string().contains("liar"), "{error}");
        }
        let (client, other, _directory) = pair("tcp", &Options::default());
        client.write(b"fine").unwrap();
        assert_eq!(other.read(&mut [0; 4], 4).unwrap().bytes, 4);
    }
}

/// A transport whose opening takes as long as a name server does.
struct Slow(std::sync::Mutex<Receiver<()>>);

impl xdfs_xio::Driver for Slow {
    fn kind(&self) -> Kind {
        Kind::Transport
    }

    fn open(
        &self,
        _: &xdfs_xio::Below,
        _: &xdfs_xio::Contact,
        _: &xdfs_xio::Attributes,
    ) -> xdfs_xio::Result<Box<dyn Flow>> {
        self.0.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        Err(xdfs_xio::Error::new(ErrorKind::NotFound, "the name has no address"))
    }
}

#[test]
fn an_opening_that_looks_up_a_name_keeps_no_other_handle_waiting() {
    let (answer, name_server) = sync_channel(1);
    let mut registry = Registry::built_in();
    registry.add("slow", std::sync::Arc::new(Slow(std::sync::Mutex::new(name_server)))).unwrap();
    let slow = Stack::of(std::sync::Arc::new(registry)).push("slow", "").unwrap();
    let (tell, opened) = sync_channel(1);
    let done = move |_: &Handle, result: xdfs_xio::Result<()>| tell.send(result.unwrap_err().kind()).unwrap();
    let _opening = Handle::register_open(&slow, "name:1", &Options::default(), done).unwrap();
    let (client, server, _directory) = pair("tcp", &Options::default());
    let (tell, reads) = told();
    server.register_read(vec![0; 4], 4, move |_, completed| tell.send(completed).unwrap()).unwrap();
    client.write(b"fast").unwrap();
    assert_eq!(reads.recv_timeout(PATIENCE).unwrap().result.unwrap().bytes, 4);
    assert!(opened.try_recv().is_err(), "the name is still looked up");
    answer.send(()).unwrap();
    assert_eq!(opened.recv_timeout(PATIENCE), Ok(ErrorKind::NotFound));
}

#[test]
fn an_opening_that_looks_up_a_name_can_be_cancelled_and_closed_before_the_answer() {
    let (answer, name_server) = sync_channel(1);
    let mut registry = Registry::built_in();
    registry.add("slow", std::sync::Arc::new(Slow(std::sync::Mutex::new(name_server)))).unwrap();
    let slow = Stack::of(std::sync::Arc::new(registry)).push("slow", "").unwrap();
    let (tell, told) = sync_channel(4);
    let tell_close = tell.clone();
    let done = move |_: &Handle, opened: xdfs_xio::Result<()>| tell.send(("open", opened)).unwrap();
    let handle = Handle::register_open(&slow, "name:1", &Options::default(), done).unwrap();
    assert!(handle.cancel_open());
    assert!(!handle.cancel_open(), "it is over");
    let (what, opened) = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!((what, opened.unwrap_err().kind()), ("open", ErrorKind::Cancelled));
    handle.register_close(move |closed| tell_close.send(("close", closed)).unwrap()).unwrap();
    let (what, closed) = told.recv_timeout(PATIENCE).unwrap();
    assert!(what == "close" && closed.is_ok());
    // Nobody is told of what the answer would have been.
    answer.send(()).unwrap();
    drop(handle);
    assert!(told.recv_timeout(PATIENCE).is_err(), "told once");
}

/// Stacks that end one direction alone.
const HALVES: [&str; 10] = [
    "tcp",
    "unix",
    "tcp,noop",
    "tcp,tls",
    "tcp,zstd",
    "tcp,telnet",
    "tcp,op",
    "tcp,queue",
    "tcp,fault",
    "tcp,noop,tls,zstd,telnet",
];

fn read_to_end(handle: &Handle) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 70_001]);
    loop {
        let got = handle.read(&mut buffer, 1).unwrap();
        all.extend_from_slice(&buffer[..got.bytes]);
        if got.info.end {
            return all;
        }
    }
}

#[test]
fn who_has_finished_sending_goes_on_receiving_and_a_write_before_it_is_waited_for() {
    let content = pattern(600_001);
    for text in HALVES {
        let (client, server, _directory) = pair(text, &Options::default());
        let (tell, writes) = told();
        client.register_write(content.clone(), WriteInfo::default(), move |_, done| tell.send(done).unwrap()).unwrap();
        let finishing = client.clone();
        let finishing = thread::spawn(move || finishing.finish_sending());
        assert!(read_to_end(&server) == content, "{text}");
        finishing.join().unwrap().unwrap();
        assert_eq!(writes.recv_timeout(PATIENCE).unwrap().result.unwrap().bytes, content.len(), "{text}");
        assert!(client.write(b"more").is_err(), "{text}: it said that no more comes");
        let (answering, answer) = (server.clone(), content.clone());
        let answering = thread::spawn(move || {
            answering.write(&answer).unwrap();
            answering.finish_sending().unwrap();
        });
        assert!(read_to_end(&client) == content, "{text}");
        answering.join().unwrap();
        server.finish_sending().unwrap();
        server.close().unwrap();
        client.close().unwrap();
        assert_eq!(client.finish_sending().unwrap_err().kind(), ErrorKind::Closed, "{text}");
    }
}

#[test]
fn the_end_of_sending_is_cancelled_and_late_as_a_write_is() {
    let options = Options { timeouts: Timeouts { write: Some(10 * SHORT), ..Timeouts::default() } };
    let (client, server, _directory) = pair("tcp,zstd", &options);
    // Nobody reads, and no driver can make this shorter: what the drivers hold cannot be passed on.
    let mut state = 1_u64;
    let noise = (0..1 << 20).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    });
    let block: Vec<u8> = noise.collect();
    while client.write(&block).is_ok() {}
    assert_eq!(client.finish_sending().unwrap_err().kind(), ErrorKind::TimedOut);
    // One whose time does not run out.
    let (client, _server, _second) = pair("tcp,zstd", &Options::default());
    let filling = client.clone();
    let filling = thread::spawn(move || while filling.write(&block).is_ok() {});
    let until = Instant::now() + PATIENCE;
    while !filling.is_finished() {
        assert!(Instant::now() < until);
        client.cancel_writes();
        thread::yield_now();
    }
    filling.join().unwrap();
    let finishing = client.clone();
    let finishing = thread::spawn(move || finishing.finish_sending());
    let until = Instant::now() + PATIENCE;
    while !finishing.is_finished() {
        assert!(Instant::now() < until);
        client.cancel_writes();
        thread::yield_now();
    }
    assert_eq!(finishing.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    drop(server);
}
