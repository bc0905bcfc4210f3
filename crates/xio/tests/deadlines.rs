//! Deadlines of elements: who says nothing is given up in time, and nobody else waits for that.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes the file of a certificate")]

#[path = "support/never.rs"]
mod support;

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use support::Never;
use xdfs_secure::identity::{KeyPair, x509};
use xdfs_xio::{Completed, ErrorKind, Handle, Options, Registry, Server, Stack, Timeouts};

/// Nothing that is waited for takes this long, unless it never comes.
const PATIENCE: Duration = Duration::from_secs(20);
fn stack(text: &str) -> Stack {
    let mut registry = Registry::built_in();
    registry.add("never", Arc::new(Never { due: false })).unwrap();
    registry.add("always_due", Arc::new(Never { due: true })).unwrap();
    Stack::of(Arc::new(registry)).push_all(text).unwrap()
}

fn patient() -> Options {
    let timeouts = Timeouts { open: Some(PATIENCE), ..Timeouts::default() };
    Options { timeouts }
}

/// The driver, kind and text of the error with which an opening ends.
type Failure = (Option<String>, ErrorKind, String);

fn failure(error: &xdfs_xio::Error) -> Failure {
    (error.driver().map(str::to_owned), error.kind(), error.to_string())
}

/// Others are served.
fn assert_others_are_served() {
    let server = Server::listen(&stack("tcp"), "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    let accepting = thread::spawn(move || server.accept(Some(PATIENCE)).unwrap().open(&patient()).unwrap());
    let client = Handle::open(&stack("tcp"), &contact, &patient()).unwrap();
    let server = accepting.join().unwrap();
    let (tell, told) = sync_channel(1);
    let done = move |_: &Handle, done: Completed| tell.send(done.result.unwrap().bytes).unwrap();
    server.register_read(vec![0; 4], 4, done).unwrap();
    client.write(b"fast").unwrap();
    assert_eq!(told.recv_timeout(PATIENCE), Ok(4), "the reactor serves nobody");
}

#[test]
fn a_handshake_that_never_begins_ends_in_time_and_stops_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let pem = directory.path().join("pem");
    let key = KeyPair::generate().unwrap();
    std::fs::write(&pem, x509::certificate_pem(&key, &["localhost".to_owned()]).unwrap()).unwrap();
    let text = format!("never,tls:handshake=50ms;trust={};name=localhost", pem.display());
    let late = |(driver, kind, text): Failure| {
        assert_eq!((driver.as_deref(), kind), (Some("tls"), ErrorKind::TimedOut), "{text}");
    };
    late(failure(&Handle::open(&stack(&text), "localhost:1", &patient()).unwrap_err()));
    let (tell, told) = sync_channel(1);
    let done = move |_: &Handle, result: xdfs_xio::Result<()>| tell.send(failure(&result.unwrap_err())).unwrap();
    let _handle = Handle::register_open(&stack(&text), "localhost:1", &patient(), done).unwrap();
    late(told.recv_timeout(PATIENCE).unwrap());
    assert_others_are_served();
}

#[test]
fn a_client_that_says_nothing_is_given_up_in_time_and_stops_nobody() {
    let server = Server::listen(&stack("tcp,telnet,http:timeout=50ms"), "127.0.0.1:0").unwrap();
    for registered in [false, true] {
        let _silent = TcpStream::connect(server.contact().unwrap()).unwrap();
        let accepted = server.accept(Some(PATIENCE)).unwrap();
        let (driver, kind, text) = if registered {
            let (tell, told) = sync_channel(1);
            let done =
                move |_: &Handle, result: xdfs_xio::Result<()>| tell.send(failure(&result.unwrap_err())).unwrap();
            let _handle = accepted.register_open(&patient(), done).unwrap();
            told.recv_timeout(PATIENCE).unwrap()
        } else {
            failure(&accepted.open(&patient()).unwrap_err())
        };
        assert_eq!((driver.as_deref(), kind), (Some("http"), ErrorKind::TimedOut), "{text}");
    }
    assert_others_are_served();
}

#[test]
fn a_server_whose_layer_below_never_opens_gives_up_in_time() {
    // The element of the server's end, above a transport that was accepted and is not open yet.
    let server = Server::listen(&stack("tcp,http:timeout=50ms,http:timeout=20s"), "127.0.0.1:0").unwrap();
    let _silent = TcpStream::connect(server.contact().unwrap()).unwrap();
    let server_2 = Server::listen(&stack("tcp,http:timeout=20s,http:timeout=50ms"), "127.0.0.1:0").unwrap();
    let _silent_2 = TcpStream::connect(server_2.contact().unwrap()).unwrap();
    for server in [server, server_2] {
        let (tell, told) = sync_channel(1);
        let done = move |_: &Handle, result: xdfs_xio::Result<()>| tell.send(failure(&result.unwrap_err())).unwrap();
        let _handle = server.accept(Some(PATIENCE)).unwrap().register_open(&patient(), done).unwrap();
        let (driver, kind, text) = told.recv_timeout(Duration::from_secs(10)).expect("nobody else is served");
        assert_eq!((driver.as_deref(), kind), (Some("http"), ErrorKind::TimedOut), "{text}");
    }
}

#[test]
fn a_driver_whose_deadline_stays_due_stops_neither_others_nor_its_own_close() {
    let (tell, told) = sync_channel(2);
    let tell_open = tell.clone();
    let done =
        move |_: &Handle, result: xdfs_xio::Result<()>| tell_open.send(result.map_err(|error| error.kind())).unwrap();
    let handle = Handle::register_open(&stack("always_due"), "nowhere:1", &Options::default(), done).unwrap();
    assert_others_are_served();
    handle.register_close(move |closed| tell.send(closed.map_err(|error| error.kind())).unwrap()).unwrap();
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Err(ErrorKind::Cancelled)));
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Ok(())));
}
