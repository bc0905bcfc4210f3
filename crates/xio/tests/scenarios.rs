//! The scenarios with which Globus XIO tests its framework, by their names, each over a transport, a
//! loaded one whose calls wait, TLS, and a stack of five drivers. Those of the driver `http` are in `http_scenarios.rs`; what it calls spaces, threads on
//! which callbacks run, is here one thread for all.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes the files of a certificate")]

#[path = "support/certificate.rs"]
mod certificate;
#[path = "support/compiled.rs"]
mod compiled;
#[path = "support/failing.rs"]
mod failing;
#[path = "support/stuck.rs"]
mod stuck;

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use certificate::tls;
use compiled::{compile, registry, skeletons};
use stuck::{noise, silent};
use xdfs_xio::{Completed, ErrorKind, Handle, Options, Server, Stack, Timeouts, WriteInfo};

/// Nothing that is waited for takes this long, unless it never comes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Short enough to wait for.
const SHORT: Duration = Duration::from_millis(30);

const STACKS: [&str; 4] = ["tcp", "skeleton_block", "tcp,tls", "tcp,noop,tls,zstd,telnet"];

fn stack(text: &str) -> Stack {
    Stack::of(skeletons()).push_all(&text.replace("tls", tls())).unwrap()
}

fn patient() -> Options {
    let time = Some(PATIENCE);
    Options { timeouts: Timeouts { open: time, read: time, write: time, close: time } }
}

fn listen(text: &str) -> (Server, String) {
    let server = Server::listen(&stack(text), "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    (server, contact)
}

/// A client of `server` and what that accepts.
fn connect(server: &Server, text: &str, contact: &str, options: &Options) -> (Handle, Handle) {
    thread::scope(|scope| {
        let accepting = scope.spawn(|| server.accept(Some(PATIENCE)).unwrap().open(options).unwrap());
        (Handle::open(&stack(text), contact, options).unwrap(), accepting.join().unwrap())
    })
}

fn pair(text: &str, options: &Options) -> (Handle, Handle) {
    let (server, contact) = listen(text);
    connect(&server, text, &contact, options)
}

/// A callback, and where it tells.
fn telling() -> (impl Fn(&Handle, Completed) + Clone + Send + 'static, Receiver<Completed>) {
    let (tell, told) = sync_channel(1100);
    (move |_: &Handle, done: Completed| tell.send(done).unwrap(), told)
}

#[track_caller]
fn kind(told: &Receiver<Completed>) -> Result<usize, ErrorKind> {
    let completed = told.recv_timeout(PATIENCE).expect("a callback is called");
    completed.result.map(|received| received.bytes).map_err(|error| error.kind())
}

#[test]
fn basic() {
    for text in STACKS {
        let (client, server) = pair(text, &patient());
        for (from, to) in [(&client, &server), (&server, &client)] {
            assert_eq!(from.write(b"hello").unwrap(), 5);
            let mut bytes = [0; 5];
            assert_eq!(to.read(&mut bytes, 5).unwrap().bytes, 5, "{text}");
            assert_eq!(&bytes, b"hello");
        }
        client.close().unwrap();
        assert!(server.read(&mut [0], 1).unwrap().info.end, "{text}");
        // Whoever has to send an end of his own finds that nobody is there.
        let closed = server.close().map_err(|error| error.kind());
        assert!(matches!(closed, Ok(()) | Err(ErrorKind::Lost)), "{text}: {closed:?}");
    }
}

#[test]
fn block_barrier() {
    // A blocking operation waits for the registered ones before it.
    for text in STACKS {
        let (client, server) = pair(text, &patient());
        for _ in 0..30 {
            let (done, told) = telling();
            server.register_read(vec![0; 4], 4, done).unwrap();
            let (reading, (tell, begins)) = (server.clone(), sync_channel(1));
            let reading = thread::spawn(move || {
                let mut bytes = [0; 4];
                tell.send(()).unwrap();
                reading.read(&mut bytes, 4).map(|_| bytes)
            });
            begins.recv_timeout(PATIENCE).unwrap();
            // It mostly waits by then; both orders are right.
            (0..1000).for_each(|_| thread::yield_now());
            client.write(b"onetwo  ").unwrap();
            assert_eq!(told.recv_timeout(PATIENCE).unwrap().buffers.into_one(), b"onet", "{text}");
            assert_eq!(&reading.join().unwrap().unwrap(), b"wo  ", "{text}");
        }
    }
}

#[test]
fn read_barrier() {
    // Reads that are outstanding at the end are all told, in their order, and each that it is the end.
    for text in STACKS {
        let (client, server) = pair(text, &patient());
        let (done, told) = telling();
        let ids: Vec<_> = (0..20).map(|_| server.register_read(vec![0; 10], 10, done.clone()).unwrap()).collect();
        client.write(&[7; 25]).unwrap();
        client.close().unwrap();
        for (at, id) in ids.into_iter().enumerate() {
            let completed = told.recv_timeout(PATIENCE).unwrap();
            assert_eq!(completed.operation, id, "{text}");
            let read = completed.result.unwrap();
            let expected = [10, 10, 5].get(at).copied().unwrap_or(0);
            assert_eq!((read.bytes, read.info.end), (expected, at >= 2), "{text}: {at}");
        }
    }
}

#[test]
fn close_barrier() {
    for text in STACKS {
        let (_client, server) = pair(text, &patient());
        let (done, told) = telling();
        for _ in 0..10 {
            server.register_read(vec![0; 10], 10, done.clone()).unwrap();
        }
        server.close().unwrap();
        for _ in 0..10 {
            // They were told before the close returned.
            let completed = told.try_recv().unwrap_or_else(|_| panic!("{text}: the close came first"));
            assert_eq!(completed.result.unwrap_err().kind(), ErrorKind::Cancelled);
        }
    }
}

#[test]
fn close_cancel() {
    // What the close has cancelled cannot be cancelled again, and nothing can be begun.
    for text in STACKS {
        let (_client, server) = pair(text, &patient());
        let (done, told) = telling();
        let read = server.register_read(vec![0; 10], 10, done).unwrap();
        let (tell, closed) = sync_channel(1);
        server.register_close(move |result| tell.send(result.is_ok()).unwrap()).unwrap();
        assert!(!server.cancel(read), "{text}");
        assert_eq!(server.cancel_reads(), 0);
        assert_eq!(kind(&told), Err(ErrorKind::Cancelled), "{text}");
        assert_eq!(closed.recv_timeout(PATIENCE), Ok(true));
        assert_eq!(server.register_read(vec![0], 1, |_, _| ()).unwrap_err().kind(), ErrorKind::Closed);
    }
}

#[test]
fn cancel() {
    for text in STACKS {
        let (client, server) = pair(text, &patient());
        let (done, told) = telling();
        let ids = [(); 3].map(|()| server.register_read(vec![0; 4], 4, done.clone()).unwrap());
        assert!(server.cancel(ids[1]), "{text}");
        assert_eq!(kind(&told), Err(ErrorKind::Cancelled));
        client.write(b"12345678").unwrap();
        for id in [ids[0], ids[2]] {
            let completed = told.recv_timeout(PATIENCE).unwrap();
            assert_eq!((completed.operation, completed.result.unwrap().bytes), (id, 4), "{text}: the others go on");
        }
        // Nobody reads.
        let write = client.register_write(noise(), WriteInfo::default(), done).unwrap();
        assert!(client.cancel(write), "{text}");
        assert_eq!(kind(&told), Err(ErrorKind::Cancelled), "{text}");
    }
}

#[test]
fn cancel_of_an_opening() {
    // One that is under way: nobody connects, or nobody accepts, so that no handshake ends.
    let (_silent, contact) = silent();
    let accepts_nothing = listen("tcp");
    let openings = STACKS.iter().map(|text| (text, &contact));
    let openings = openings.chain(STACKS[2..].iter().map(|text| (text, &accepts_nothing.1)));
    for ((text, contact), by_close) in openings.flat_map(|opening| [true, false].map(|by_close| (opening, by_close))) {
        let (tell, told) = sync_channel(2);
        let opened = tell.clone();
        let done =
            move |_: &Handle, result: xdfs_xio::Result<()>| opened.send(result.map_err(|error| error.kind())).unwrap();
        let handle = Handle::register_open(&stack(text), contact, &patient(), done).unwrap();
        // The drivers have begun, and none of them keeps the close waiting.
        let until = Instant::now() + PATIENCE;
        while handle.control(None, "none", None).unwrap_err().kind() == ErrorKind::Closed {
            assert!(Instant::now() < until, "{text}: it does not begin");
        }
        if !by_close {
            assert!(handle.cancel_open(), "{text}");
            assert!(!handle.cancel_open(), "{text}: it is over");
            assert_eq!(handle.write(b"x").unwrap_err().kind(), ErrorKind::Closed, "{text}: only close is left");
        }
        handle.register_close(move |closed| tell.send(closed.map_err(|error| error.kind())).unwrap()).unwrap();
        assert!(!handle.cancel_open(), "{text}");
        assert_eq!(told.recv_timeout(PATIENCE), Ok(Err(ErrorKind::Cancelled)), "{text}");
        assert_eq!(told.recv_timeout(PATIENCE / 2), Ok(Ok(())), "{text}: the close is told");
    }
}

#[test]
fn timeout() {
    for text in STACKS {
        let timeouts = Timeouts { read: Some(SHORT), write: Some(SHORT), ..patient().timeouts };
        let (client, server) = pair(text, &Options { timeouts });
        let (done, told) = telling();
        assert_eq!(server.read(&mut [0], 1).unwrap_err().kind(), ErrorKind::TimedOut, "{text}");
        server.register_read(vec![0], 1, done.clone()).unwrap();
        assert_eq!(kind(&told), Err(ErrorKind::TimedOut), "{text}");
        client.register_write(noise(), WriteInfo::default(), done).unwrap();
        assert_eq!(kind(&told), Err(ErrorKind::TimedOut), "{text}");
        let error = client.write(&noise()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{text}: {error}");
    }
    let (_silent, contact) = silent();
    let accepts_nothing = listen("tcp");
    let openings = STACKS.iter().map(|text| (text, &contact));
    for (text, contact) in openings.chain(STACKS[2..].iter().map(|text| (text, &accepts_nothing.1))) {
        let timeouts = Timeouts { open: Some(SHORT), ..patient().timeouts };
        let (tell, told) = sync_channel(1);
        let done = move |_: &Handle, opened: xdfs_xio::Result<()>| tell.send(opened.unwrap_err()).unwrap();
        let _opening = Handle::register_open(&stack(text), contact, &Options { timeouts }, done).unwrap();
        let blocking = Handle::open(&stack(text), contact, &Options { timeouts }).unwrap_err();
        for error in [blocking, told.recv_timeout(PATIENCE).unwrap()] {
            assert_eq!((error.kind(), error.driver()), (ErrorKind::TimedOut, None), "{text}: {error}");
        }
    }
    for text in STACKS {
        let error = listen(text).0.accept(Some(SHORT)).unwrap_err();
        assert_eq!((error.kind(), error.stack()), (ErrorKind::TimedOut, Some(text)), "{error}");
    }
}

#[test]
fn timeout_of_a_close() {
    // Bytes that the drivers hold, of a write that was not finished, go to a peer that reads nothing. TCP alone
    // holds none: what it took is the kernel's.
    let content = noise();
    for text in STACKS.map(|text| if text == "tcp" { "tcp,queue" } else { text }) {
        for registered in [false, true] {
            let timeouts = Timeouts { write: Some(SHORT), close: Some(SHORT), ..patient().timeouts };
            let (client, _server) = pair(text, &Options { timeouts });
            // Until neither the kernel, which may find some room yet, nor a driver's queue has taken anything for long.
            let moved = |bytes: &[u8]| client.write(bytes).unwrap_or_else(|error| error.transferred());
            let until = Instant::now() + PATIENCE;
            let mut nothing = 0;
            while nothing < 8 {
                let some = moved(&content) > 0 || moved(&content[..60_000]) == 60_000;
                nothing = if some { 0 } else { nothing + 1 };
                assert!(Instant::now() < until, "{text}: somebody reads");
            }
            let began = Instant::now();
            let closed = if registered {
                let (tell, told) = sync_channel(1);
                client.register_close(move |closed| tell.send(closed).unwrap()).unwrap();
                told.recv_timeout(PATIENCE).unwrap()
            } else {
                client.close()
            };
            let error = closed.expect_err(text);
            assert_eq!((error.kind(), error.stack()), (ErrorKind::TimedOut, Some(text)), "{error}");
            assert!(began.elapsed() >= SHORT, "{text}");
            assert_eq!(client.close().unwrap_err().kind(), ErrorKind::Closed, "{text}: it is closed all the same");
        }
    }
}

#[test]
fn failure() {
    // A layer fails now and then, on top of a stack and directly above its transport, at either end; what it fails
    // can be done again.
    for text in STACKS {
        let above = format!("{text},fault:errors=200;seed=3");
        let below = match text.split_once(',') {
            Some((transport, rest)) => format!("{transport},fault:errors=200;seed=3,{rest}"),
            None => above.clone(),
        };
        for faulty in [above, below] {
            failing::fails_and_goes_on(&faulty, text);
            failing::fails_and_goes_on(text, &faulty);
        }
    }
}

#[test]
fn random_and_verify() {
    for text in STACKS {
        let (client, server) = pair(text, &patient());
        let mut state = 1_u64;
        let mut length = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % 40_000
        };
        let lengths: Vec<_> = (0..100).map(|_| length()).collect();
        let content: Vec<u8> =
            (0..lengths.iter().sum()).map(|at: usize| (at.wrapping_mul(0x9e37_79b9) >> 11) as u8).collect();
        let sending = {
            let content = content.clone();
            thread::spawn(move || {
                let mut rest = &content[..];
                for length in lengths {
                    client.write(&rest[..length]).unwrap();
                    rest = &rest[length..];
                }
                client.close().unwrap();
            })
        };
        let mut received = Vec::new();
        loop {
            let mut bytes = vec![0; length() + 1];
            let wait_for = length().min(bytes.len());
            let read = server.read(&mut bytes, wait_for).unwrap();
            received.extend_from_slice(&bytes[..read.bytes]);
            if read.info.end {
                break;
            }
        }
        sending.join().unwrap();
        assert!(received == content, "{text}");
    }
}

#[test]
fn attr() {
    // Attributes belong to the stack: another stack of the same drivers has its own.
    for text in STACKS.into_iter().filter(|text| text.starts_with("tcp")) {
        let windows = ["tcp:window=64KiB", "tcp:window=512KiB"].map(|tcp| {
            let text = text.replacen("tcp", tcp, 1);
            let (client, _server) = pair(&text, &patient());
            client.control(Some("tcp"), "window", None).unwrap()
        });
        assert_ne!(windows[0], windows[1], "{text}");
        let error = Stack::of(skeletons()).push_all(&text.replacen("tcp", "tcp:window=large", 1)).unwrap_err();
        assert_eq!((error.kind(), error.driver()), (ErrorKind::Usage, Some("tcp")), "{error}");
    }
    // `skeleton_block` has none, so a loaded one that has some takes its place, alone and below others.
    let folder = tempfile::tempdir().unwrap();
    compile("crates/xio/tests/loaded/attributes.c", "attributes", folder.path(), &[]);
    let stack = |text: &str| Stack::of(registry(folder.path())).push_all(text);
    for above in ["", ",noop,trace=/dev/null"] {
        let handles = ["", ":first=1", "=1", ":second=b;first=a c"].map(|attributes| {
            let stack = stack(&format!("attributes{attributes}{above}")).unwrap();
            (attributes, Handle::open(&stack, "anywhere", &patient()).unwrap())
        });
        for (attributes, handle) in handles {
            let mut bytes = [0; 100];
            let read = handle.read(&mut bytes, 100).unwrap();
            let text = String::from_utf8(bytes[..read.bytes].to_vec()).unwrap();
            let mut got: Vec<_> = text.split(';').collect();
            got.sort_unstable();
            let expected = match attributes {
                "" => vec![""],
                ":first=1" | "=1" => vec!["first=1"],
                _ => vec!["first=a c", "second=b"],
            };
            assert_eq!(got, expected, "{attributes}");
        }
        let wrong = stack(&format!("attributes=wrong{above}")).unwrap();
        let error = Handle::open(&wrong, "anywhere", &patient()).unwrap_err();
        assert_eq!((error.kind(), error.driver()), (ErrorKind::Usage, Some("attributes")), "{error}");
        for unlisted in [":third=1", ":first=1;first=2"] {
            let error = stack(&format!("attributes{unlisted}{above}")).unwrap_err();
            assert_eq!((error.kind(), error.driver()), (ErrorKind::Usage, Some("attributes")), "{error}");
        }
    }
}

#[test]
fn space() {
    // Callbacks of all handles run on one thread, one at a time.
    for text in STACKS {
        let (client, server) = pair(text, &patient());
        let (threads, (tell, told)) = (Arc::new(Mutex::new(Vec::new())), sync_channel(10));
        for handle in [&client, &server] {
            let (threads, tell) = (threads.clone(), tell.clone());
            let done = move |_: &Handle, _: Completed| {
                threads.try_lock().expect("another callback is running").push(thread::current().id());
                tell.send(()).unwrap();
            };
            handle.register_write(vec![1], WriteInfo::default(), done).unwrap();
        }
        (0..2).for_each(|_| told.recv_timeout(PATIENCE).unwrap());
        let threads = threads.lock().unwrap();
        assert!(threads[0] == threads[1] && threads[0] != thread::current().id(), "{text}");
    }
}

#[test]
fn stack_order() {
    for text in STACKS {
        let (client, _server) = pair(text, &patient());
        assert_eq!(client.stack(), text, "bottom first");
        let high = format!("{text}{}", ",noop".repeat(64));
        let cases = [
            (format!("{text},tcp"), "tcp", "it is a transport"),
            (format!("{text},skeleton_block"), "skeleton_block", "it is a transport"),
            (format!("noop,{text}"), "noop", "it is a transform"),
            (format!("{text},nobody"), "nobody", "libxdfs_xio_nobody.so"),
            (high, "noop", "at most 64 drivers"),
            (String::new(), "", "there is no driver"),
        ];
        for (wrong, driver, why) in cases {
            let error = Stack::of(skeletons()).push_all(&wrong.replace("tls", tls())).unwrap_err();
            assert_eq!((error.kind(), error.driver()), (ErrorKind::Usage, Some(driver)), "{wrong}: {error}");
            assert!(error.to_string().contains(why), "{wrong}: {error}");
            let stack = error.stack().unwrap();
            assert!(wrong.starts_with(stack) && stack.ends_with(driver), "{wrong}: {error}");
        }
    }
}

#[test]
fn server_and_server2() {
    // Several clients of one server, and two servers at once.
    for text in STACKS {
        let servers = [listen(text), listen(text)];
        let mut pairs = Vec::new();
        for number in 0..6_u8 {
            let (server, contact) = &servers[usize::from(number) % 2];
            pairs.push((number, connect(server, text, contact, &patient())));
        }
        for (number, (client, server)) in &pairs {
            server.write(&[*number]).unwrap();
            let mut byte = [99];
            client.read(&mut byte, 1).unwrap();
            assert_eq!(byte, [*number], "{text}");
        }
        servers[0].0.close();
        assert_eq!(servers[0].0.accept(None).unwrap_err().kind(), ErrorKind::Closed, "{text}");
        drop(connect(&servers[1].0, text, &servers[1].1, &patient()));
    }
}

#[test]
fn server_pre_init() {
    // A client that connects before anybody accepts is not lost.
    for text in STACKS {
        let (server, contact) = listen(text);
        let (tell, told) = sync_channel(1);
        let done = move |_: &Handle, result: xdfs_xio::Result<()>| tell.send(result.is_ok()).unwrap();
        let client = Handle::register_open(&stack(text), &contact, &patient(), done).unwrap();
        let waits = text.contains("tls");
        if !waits {
            assert_eq!(told.recv_timeout(PATIENCE), Ok(true), "it connects without an accept");
        }
        let peer = server.accept(Some(PATIENCE)).unwrap().open(&patient()).unwrap();
        peer.write(b"x").unwrap();
        if waits {
            assert_eq!(told.recv_timeout(PATIENCE), Ok(true), "{text}");
        }
        assert_eq!(client.read(&mut [0], 1).unwrap().bytes, 1, "{text}");
    }
}

#[test]
fn unload() {
    // What is open goes on when the stack and the table of its drivers are gone.
    for text in STACKS {
        let (client, server) = {
            let stack = stack(text);
            let server = Server::listen(&stack, "127.0.0.1:0").unwrap();
            let contact = server.contact().unwrap();
            let accepting = thread::spawn(move || server.accept(Some(PATIENCE)).unwrap().open(&patient()).unwrap());
            (Handle::open(&stack, &contact, &patient()).unwrap(), accepting.join().unwrap())
        };
        client.write(b"still").unwrap();
        assert_eq!(server.read(&mut [0; 5], 5).unwrap().bytes, 5, "{text}");
        client.close().unwrap();
    }
}

#[test]
fn handle_from_url() {
    for text in STACKS {
        let (server, contact) = listen(text);
        for scheme in ["tcp", "anything"] {
            let (client, peer) = connect(&server, text, &format!("{scheme}://{contact}/a/path"), &patient());
            client.write(b"x").unwrap();
            assert_eq!(peer.read(&mut [0], 1).unwrap().bytes, 1, "{text}");
        }
    }
}
