//! Waiting costs no processor time, whatever a driver has half of. In a program of its own: the time
//! of the whole process is looked at.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes the files of a certificate")]

#[path = "support/certificate.rs"]
mod certificate;
#[path = "support/never.rs"]
mod support;

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use certificate::tls;
use rustix::time::{ClockId, clock_gettime};
use support::Never;
use xdfs_xio::{Completed, Handle, Options, Registry, Server, Stack, Timeouts};

const PATIENCE: Duration = Duration::from_secs(30);
/// How long nothing happens.
const IDLE: Duration = Duration::from_millis(500);
/// What one thread that turns in a circle would use is all of the time.
const USED_MAX: Duration = Duration::from_millis(150);

fn used() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

fn wait_for_more(handle: &Handle, tell: &SyncSender<()>) {
    let tell = tell.clone();
    let done = move |_: &Handle, _: Completed| tell.send(()).unwrap_or_default();
    handle.register_read(vec![0; 1000], 1000, done).unwrap();
}

/// Both ends of a connection, of which each waits for more than it got.
fn half_read(text: &str, tell: &SyncSender<()>) -> [Handle; 2] {
    let stack = Stack::new().push_all(text).unwrap();
    let server = Server::listen(&stack, "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    let accepting = thread::spawn(move || server.accept(Some(PATIENCE)).unwrap().open(&Options::default()).unwrap());
    let client = Handle::open(&stack, &contact, &Options::default()).unwrap();
    let server = accepting.join().unwrap();
    for (from, to) in [(&client, &server), (&server, &client)] {
        from.write(b"not enough").unwrap();
        wait_for_more(to, tell);
    }
    [client, server]
}

/// A server's end whose peer has sent these bytes and nothing else.
fn half_sent(text: &str, sent: &[u8], tell: &SyncSender<()>) -> (TcpStream, Handle) {
    let server = Server::listen(&Stack::new().push_all(text).unwrap(), "127.0.0.1:0").unwrap();
    let mut peer = TcpStream::connect(server.contact().unwrap()).unwrap();
    peer.write_all(sent).unwrap();
    let accepted = server.accept(Some(PATIENCE)).unwrap();
    let tell = tell.clone();
    let opened = move |handle: &Handle, opened: xdfs_xio::Result<()>| {
        if opened.is_ok() {
            wait_for_more(handle, &tell);
        }
    };
    (peer, accepted.register_open(&Options::default(), opened).unwrap())
}

/// Two openings of a driver that is always due: the reactor's, and one that a thread waits for.
fn always_due() -> (Handle, thread::JoinHandle<()>) {
    let mut registry = Registry::built_in();
    registry.add("always_due", Arc::new(Never { due: true })).unwrap();
    let stack = Stack::of(Arc::new(registry)).push("always_due", "").unwrap();
    let opening = Handle::register_open(&stack, "nowhere:1", &Options::default(), |_, _| ()).unwrap();
    let options = Options { timeouts: Timeouts { open: Some(5 * IDLE), ..Timeouts::default() } };
    (opening, thread::spawn(move || drop(Handle::open(&stack, "nowhere:1", &options).unwrap_err())))
}

#[test]
fn who_waits_uses_no_processor() {
    let (tell, told): (_, Receiver<()>) = sync_channel(100);
    let stacks = [
        "tcp",
        "tcp,noop",
        "tcp,rate=1MB/s",
        "tcp,tls",
        "tcp,zstd",
        "tcp,telnet",
        "tcp,http=POST",
        "tcp,tls,zstd,telnet,http=PUT",
    ];
    let pairs: Vec<_> = stacks.iter().map(|text| half_read(&text.replace("tls", tls()), &tell)).collect();
    let chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let halves = [
        ("tcp,http", "GET / HT".to_owned()),
        ("tcp,http", format!("{chunked}5")),
        ("tcp,http", format!("{chunked}5\r\nhello\r")),
        ("tcp,http", format!("{chunked}5\r\nhello\r\n0\r\nX: ")),
        ("tcp,telnet", "abc\r".to_owned()),
        ("tcp,zstd", "\u{28}".to_owned()),
        ("tcp,tls", "\u{16}\u{3}\u{1}".to_owned()),
    ];
    let halves: Vec<_> =
        halves.iter().map(|(text, sent)| half_sent(&text.replace("tls", tls()), sent.as_bytes(), &tell)).collect();
    let (_opening, waiting) = always_due();
    // What was sent is taken, and nothing is left to do.
    assert!(told.recv_timeout(IDLE).is_err(), "a read that waits for more ended");
    let before = used();
    assert!(told.recv_timeout(IDLE).is_err(), "a read that waits for more ended");
    let used = used().saturating_sub(before);
    assert!(used < USED_MAX, "{used:?} of processor time in {IDLE:?}");
    drop((pairs, halves));
    waiting.join().unwrap();
}
