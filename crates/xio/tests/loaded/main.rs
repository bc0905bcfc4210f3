//! Drivers that are loaded from files: what is wrong with a file is told with its name, and what a driver
//! returns that it may not stays with its own handle.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "writes files that are no drivers")]

#[path = "../support/compiled.rs"]
mod compiled;
mod waiting;

use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use compiled::{compile, compile_rust, loaded, registry, skeletons};
use tempfile::TempDir;
use xdfs_xio::{Error, ErrorKind, Handle, Options, Server, Stack, Timeouts};

const PATIENCE: Duration = Duration::from_secs(30);

/// Cases of `odd.c`, by the numbers that they have there.
const GOOD: u32 = 0;
const OPEN_FAILS: u32 = 8;
const OPEN_NONSENSE: u32 = 9;
const READ_TOO_MUCH: u32 = 10;
const LATE: u32 = 15;
const READ_INTERRUPTED: u32 = 16;
const RECEIVE_TOO_MUCH: u32 = 17;
const LISTEN_FAILS: u32 = 22;
const ACCEPT_FAILS: u32 = 23;
const ENDLESS_CONTACT: u32 = 26;
const NO_ACCEPT: u32 = 27;
const OLD: u32 = 28;
const WRITE_INTERRUPTED: u32 = 29;
const ACCEPT_INTERRUPTED: u32 = 30;
const FLUSH_COUNTS: u32 = 31;
const OPEN_INTERRUPTED: u32 = 32;
const FINISH_INTERRUPTED: u32 = 33;
const NEEDS_MORE: u32 = 98;

fn patient() -> Options {
    let time = Some(PATIENCE);
    Options { timeouts: Timeouts { open: time, read: time, write: time, close: time } }
}

/// A folder with the odd driver of that case.
fn odd(case: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    compile("crates/xio/tests/loaded/odd.c", "odd", folder.path(), &[&format!("-DCASE={case}"), "-Wno-unused"]);
    folder
}

fn refused(folder: &TempDir) -> String {
    let error = Stack::of(registry(folder.path())).push("odd", "").unwrap_err();
    assert_eq!((error.kind(), error.driver()), (ErrorKind::Driver, Some("odd")), "{error}");
    assert_eq!(error.stack(), Some("odd"), "{error}");
    // Above others, the stack as far as it was built.
    let upper = Stack::of(registry(folder.path())).push_all("tcp,noop,odd").unwrap_err();
    assert_eq!((upper.driver(), upper.stack()), (Some("odd"), Some("tcp,noop,odd")), "{upper}");
    error.to_string()
}

#[test]
fn a_file_that_is_no_driver_is_refused_with_its_name_and_the_reason() {
    let cases = [
        (1, "version 7"),
        (2, "bytes and needs"),
        (3, "'another'"),
        (4, "no kind 9"),
        (5, "lacks a function"),
        (6, "lacks a function"),
        (7, "an attribute"),
        (NO_ACCEPT, "lacks a function"),
        (NEEDS_MORE, "xdfs_nobody_has_this"),
        (99, "no symbol xdfs_xio_driver_v1"),
    ];
    for (case, why) in cases {
        let folder = odd(case);
        let text = refused(&folder);
        let file = folder.path().join("libxdfs_xio_odd.so");
        assert!(text.contains(file.to_str().unwrap()) && text.contains(why), "{case}: {text}");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("libxdfs_xio_odd.so"), b"not a library").unwrap();
    assert!(refused(&folder).contains("libxdfs_xio_odd.so"));
}

#[test]
fn what_is_nowhere_is_told_with_the_folders() {
    let folder = tempfile::tempdir().unwrap();
    let error = Stack::of(registry(folder.path())).push("nosuch", "").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let text = error.to_string();
    assert!(text.contains("libxdfs_xio_nosuch.so") && text.contains(folder.path().to_str().unwrap()), "{text}");
    // A name is no path.
    for name in ["../odd", "Odd", "odd/x", ""] {
        let error = Stack::of(registry(folder.path())).push(name, "").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
    // A registry without folders loads nothing.
    assert_eq!(Stack::new().push("odd", "").unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn the_first_folder_wins_and_attributes_are_those_of_the_driver() {
    let (good, bad) = (odd(GOOD), odd(1));
    let folders = vec![good.path().to_owned(), bad.path().to_owned()];
    let registry = std::sync::Arc::new(xdfs_xio::Registry::with_folders(folders));
    Stack::of(registry.clone()).push("odd", "a=1").unwrap();
    assert_eq!(Stack::of(registry).push("odd", "b=1").unwrap_err().kind(), ErrorKind::Usage);
}

/// The driver broke its contract in that stack.
fn broke(case: u32, stack: &str, error: &Error) {
    assert_eq!((error.kind(), error.driver()), (ErrorKind::Driver, Some("odd")), "{case}: {error}");
    assert_eq!(error.stack(), Some(stack), "{case}: {error}");
}

/// Both ends of a connection without a loaded driver, and with that stack at the first.
fn connect(stack: &Stack) -> (Handle, Handle) {
    let server = Server::listen(&Stack::new().push("tcp", "").unwrap(), "127.0.0.1:0").unwrap();
    let handle = Handle::open(stack, &server.contact().unwrap(), &patient()).unwrap();
    (handle, server.accept(Some(PATIENCE)).unwrap().open(&patient()).unwrap())
}

/// Bytes that move from one end to the other.
fn moves(from: &Handle, to: &Handle) {
    let mut bytes = [0; 5];
    assert_eq!(from.write(b"moves").unwrap(), 5);
    assert_eq!(to.read(&mut bytes, 5).unwrap().bytes, 5);
    assert_eq!(&bytes, b"moves");
}

/// A connection without a loaded driver goes on.
fn others_go_on() {
    let (one, other) = connect(&Stack::new().push("tcp", "").unwrap());
    moves(&one, &other);
    moves(&other, &one);
}

#[test]
fn nonsense_of_a_blocking_driver_is_an_error_of_its_handle() {
    for case in OPEN_FAILS..=14 {
        let folder = odd(case);
        let stack = Stack::of(registry(folder.path())).push("odd", "").unwrap();
        let second = Handle::open(&stack, "anywhere", &patient());
        let opened = Handle::open(&stack, "anywhere", &patient());
        match case {
            OPEN_FAILS => {
                let error = opened.unwrap_err();
                assert_eq!((error.kind(), error.driver()), (ErrorKind::Lost, Some("odd")), "{error}");
                assert_eq!(error.stack(), Some("odd"), "{error}");
            }
            OPEN_NONSENSE => broke(case, "odd", &opened.unwrap_err()),
            READ_TOO_MUCH..=12 => {
                let handle = opened.unwrap();
                broke(case, "odd", &handle.read(&mut [0; 10], 1).unwrap_err());
                handle.write(b"the other direction goes on").unwrap();
                handle.close().unwrap();
                // Another handle of the driver hears of its own alone.
                let second = second.unwrap();
                assert_eq!(second.write(b"bytes").unwrap(), 5);
                broke(case, "odd", &second.read(&mut [0; 10], 1).unwrap_err());
            }
            _ => {
                let handle = opened.unwrap();
                broke(case, "odd", &handle.write(b"bytes").unwrap_err());
                assert!(handle.read(&mut [0; 10], 1).unwrap().info.end, "the other direction goes on");
                let second = second.unwrap();
                assert!(second.read(&mut [0; 10], 1).unwrap().info.end, "another handle goes on");
                broke(case, "odd", &second.write(b"bytes").unwrap_err());
            }
        }
        others_go_on();
    }
}

#[test]
fn what_a_blocking_driver_does_wrong_while_it_accepts_is_told_and_it_goes_on() {
    let listen = |case| {
        let folder = odd(case);
        let stack = Stack::of(registry(folder.path())).push("odd", "").unwrap();
        Server::listen(&stack, "anywhere")
    };
    let named = |error: &Error, kind| {
        assert_eq!((error.kind(), error.driver(), error.stack()), (kind, Some("odd"), Some("odd")), "{error}");
    };
    named(&listen(LISTEN_FAILS).unwrap_err(), ErrorKind::Other);
    named(&listen(OLD).unwrap_err(), ErrorKind::Unsupported);
    let server = listen(ENDLESS_CONTACT).unwrap();
    broke(ENDLESS_CONTACT, "odd", &server.contact().unwrap_err());
    for case in ACCEPT_FAILS..ENDLESS_CONTACT {
        let server = listen(case).unwrap();
        assert_eq!(server.contact().unwrap(), "ccc");
        // The first and the fourth fail.
        let fails = || {
            let error = server.accept(Some(PATIENCE)).unwrap_err();
            if case == ACCEPT_FAILS {
                named(&error, ErrorKind::Other);
            } else {
                broke(case, "odd", &error);
            }
        };
        fails();
        for _ in 0..2 {
            let handle = server.accept(Some(PATIENCE)).unwrap().open(&patient()).unwrap();
            assert!(handle.read(&mut [0; 10], 1).unwrap().info.end);
        }
        fails();
        server.close();
        assert_eq!(server.accept(Some(PATIENCE)).unwrap_err().kind(), ErrorKind::Closed);
    }
}

#[test]
fn nonsense_after_the_close_is_heard_by_nobody() {
    let folder = odd(LATE);
    let stack = Stack::of(registry(folder.path())).push("odd", "").unwrap();
    let handle = Handle::open(&stack, "anywhere", &patient()).unwrap();
    let (tell, told) = sync_channel(1);
    handle.register_read(vec![0; 10], 1, move |_, done| tell.send(done.result).unwrap()).unwrap();
    handle.close().unwrap();
    let error = told.recv_timeout(PATIENCE).unwrap().unwrap_err();
    assert_eq!((error.kind(), error.driver(), error.stack()), (ErrorKind::Cancelled, None, Some("odd")), "{error}");
    assert!(told.recv().is_err(), "told once");
    // What is asked for after it is an error of the framework, and no driver is called.
    let late =
        [handle.read(&mut [0; 10], 1).unwrap_err(), handle.write(b"x").unwrap_err(), handle.close().unwrap_err()];
    for error in late {
        assert_eq!((error.kind(), error.driver(), error.stack()), (ErrorKind::Closed, None, Some("odd")), "{error}");
    }
}

#[test]
fn nonsense_of_a_transform_is_an_error_of_its_handle() {
    for case in RECEIVE_TOO_MUCH..=21 {
        let folder = odd(case);
        let stack = Stack::of(registry(folder.path())).push_all("tcp,odd").unwrap();
        let (second, seconds_peer) = connect(&stack);
        let (handle, peer) = connect(&stack);
        peer.write(b"bytes").unwrap();
        let read = handle.read(&mut [0; 3], 1);
        match case {
            20 => broke(case, "tcp,odd", &handle.write(b"bytes").unwrap_err()),
            21 => {
                let error = read.unwrap_err();
                assert_eq!((error.driver(), error.stack()), (Some("odd"), Some("tcp,odd")), "{error}");
            }
            _ => broke(case, "tcp,odd", &read.unwrap_err()),
        }
        // Another handle of the driver does in the other direction what it should.
        if case == 20 {
            moves(&seconds_peer, &second)
        } else {
            moves(&second, &seconds_peer)
        }
        others_go_on();
    }
}

#[test]
fn a_flush_that_counts_is_an_error_of_its_handle() {
    let folder = odd(FLUSH_COUNTS);
    let (handle, peer) = connect(&Stack::of(registry(folder.path())).push_all("tcp,odd").unwrap());
    let error = handle.write(b"bytes").unwrap_err();
    broke(FLUSH_COUNTS, "tcp,odd", &error);
    assert!(error.to_string().contains("its flush returned 5"), "{error}");
    moves(&peer, &handle);
    others_go_on();
}

#[test]
fn a_loaded_stack_is_read_by_whoever_has_the_same_driver_and_key() {
    let stack =
        |name: &str, attributes: &str| Stack::of(skeletons()).push("tcp", "").unwrap().push(name, attributes).unwrap();
    let server = Server::listen(&stack("skeleton", "key=7"), "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    let clients = [("skeleton", "key=7", true), ("skeleton", "key=8", false), ("skeleton_rust", "key=7", true)];
    for (name, attributes, same) in clients {
        let peer = thread::scope(|scope| {
            let accepting = scope.spawn(|| server.accept(Some(PATIENCE)).unwrap().open(&patient()).unwrap());
            let client = Handle::open(&stack(name, attributes), &contact, &patient()).unwrap();
            client.write(b"hello").unwrap();
            accepting.join().unwrap()
        });
        let mut bytes = [0; 5];
        peer.read(&mut bytes, 5).unwrap();
        assert_eq!(&bytes == b"hello", same, "{name}: {attributes}");
    }
    for key in ["256", "7x", "", "-1"] {
        for name in ["skeleton", "skeleton_rust"] {
            let stack = stack(name, &format!("key={key}"));
            let refused = Handle::open(&stack, &contact, &patient()).unwrap_err();
            assert_eq!((refused.kind(), refused.driver()), (ErrorKind::Usage, Some(name)), "{key}: {refused}");
        }
    }
}

#[test]
fn a_panic_of_a_loaded_driver_in_rust_stays_with_its_own_handle() {
    let folder = tempfile::tempdir().unwrap();
    compile_rust("crates/xio/tests/loaded/panics.rs", "panics", folder.path());
    let stack = |call: &str| Stack::of(registry(folder.path())).push_all(&format!("tcp,panics={call}")).unwrap();
    let server = Server::listen(&Stack::new().push("tcp", "").unwrap(), "127.0.0.1:0").unwrap();
    for call in ["open", "refuse", "text", "number"] {
        let refused = Handle::open(&stack(call), &server.contact().unwrap(), &patient()).unwrap_err();
        assert_eq!((refused.kind(), refused.driver()), (ErrorKind::Other, Some("panics")), "{refused}");
        others_go_on();
    }
    for call in ["receive", "send", "flush", "holds", "close"] {
        let (second, seconds_peer) = connect(&stack("none"));
        let (handle, peer) = connect(&stack(call));
        let named = |error: &Error| {
            let named = (error.kind(), error.driver(), error.stack());
            assert_eq!(named, (ErrorKind::Other, Some("panics"), Some("tcp,panics")), "{call}: {error}");
        };
        // One direction fails, with each call anew, and the other goes on.
        for _ in 0..2 {
            match call {
                "send" | "flush" => {
                    named(&handle.write(b"bytes").unwrap_err());
                    moves(&peer, &handle);
                }
                "receive" => {
                    named(&handle.read(&mut [0; 5], 5).unwrap_err());
                    moves(&handle, &peer);
                }
                // That it cannot say whether it holds bytes is as if it held none; of the close nobody is left to hear.
                _ => moves(&handle, &peer),
            }
        }
        if call == "holds" {
            let (tell, told) = sync_channel(1);
            handle.register_read(vec![0; 5], 5, move |_, done| tell.send(done.result.unwrap().bytes).unwrap()).unwrap();
            peer.write(b"bytes").unwrap();
            assert_eq!(told.recv_timeout(PATIENCE), Ok(5));
        }
        let closed = handle.close();
        assert!(if call == "flush" { closed.is_err() } else { closed.is_ok() }, "{call}: {closed:?}");
        drop((handle, peer));
        moves(&second, &seconds_peer);
        moves(&seconds_peer, &second);
        others_go_on();
    }
}

#[test]
fn what_a_number_cannot_say_is_on_standard_error_with_the_name_of_the_driver_in_rust() {
    // The other test again, as a process of which standard error can be read.
    let mut process = std::process::Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "a_panic_of_a_loaded_driver_in_rust_stays_with_its_own_handle", "--nocapture"]);
    let output = process.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let panicked = ["it panicked: a bug in open", "it panicked: a bug in a text", "it panicked: a bug in holds"];
    for text in panicked.into_iter().chain(["the licence is over"]) {
        assert!(errors.lines().any(|line| line == format!("driver panics: {text}")), "{text}: {errors}");
    }
    // What has a number is told by it alone.
    assert!(!errors.contains("driver panics: Input/output error"), "{errors}");
}

#[test]
fn a_transform_in_rust_may_keep_bytes_too() {
    let folder = tempfile::tempdir().unwrap();
    compile_rust("crates/xio/tests/loaded/keeps.rs", "keeps", folder.path());
    let stack = Stack::of(registry(folder.path())).push_all("tcp,keeps").unwrap();
    let server = Server::listen(&stack, "127.0.0.1:0").unwrap();
    let content: Vec<u8> = (0..300_007_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let client = Handle::open(&stack, &server.contact().unwrap(), &patient()).unwrap();
    let peer = server.accept(Some(PATIENCE)).unwrap().open(&patient()).unwrap();
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            content.chunks(7919).for_each(|piece| assert_eq!(client.write(piece).unwrap(), piece.len()));
            client.close().unwrap();
        });
        // Registered reads of a byte wait for the kernel, unless the driver says that it holds some.
        let (tell, told) = sync_channel(1000);
        for _ in 0..1000 {
            let tell = tell.clone();
            peer.register_read(vec![0], 1, move |_, done| tell.send(done.buffers.into_one()).unwrap()).unwrap();
        }
        let mut received: Vec<u8> = (0..1000).flat_map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
        let mut rest = vec![0; content.len()];
        let read = peer.read(&mut rest, content.len()).unwrap();
        received.extend(&rest[..read.bytes]);
        assert!(read.info.end && received == content, "{} bytes", received.len());
        sending.join().unwrap();
    });
}

#[test]
fn a_transform_that_keeps_bytes_in_both_directions_delivers_them_and_finds_a_change() {
    let folder = tempfile::tempdir().unwrap();
    compile("crates/xio/tests/loaded/records.c", "records", folder.path(), &[]);
    let stack = |salt: &str| Stack::of(registry(folder.path())).push("tcp", "").unwrap().push("records", salt).unwrap();
    let content: Vec<u8> = (0..1_000_003_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let server = Server::listen(&stack("salt=7"), "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let client = Handle::open(&stack("salt=7"), &contact, &patient()).unwrap();
            for piece in content.chunks(7919) {
                assert_eq!(client.write(piece).unwrap(), piece.len());
            }
            client.close().unwrap();
        });
        let peer = server.accept(Some(PATIENCE)).unwrap().open(&patient()).unwrap();
        let mut received = vec![0; content.len() + 1];
        // Half a record is left in the driver after each read.
        let mut at = 0;
        loop {
            let until = received.len().min(at + 1003);
            let read = peer.read(&mut received[at..until], until - at).unwrap();
            at += read.bytes;
            if read.info.end {
                break;
            }
        }
        assert!(received[..at] == content, "{at} bytes");
        sending.join().unwrap();
    });
    let other = Handle::open(&stack("salt=8"), &contact, &patient()).unwrap();
    let peer = server.accept(Some(PATIENCE)).unwrap().open(&patient()).unwrap();
    other.write(b"hello").unwrap();
    let changed = peer.read(&mut [0; 5], 5).unwrap_err();
    assert_eq!(changed.driver(), Some("records"), "{changed}");
    assert!(changed.to_string().contains("Bad message"), "{changed}");
    let refused = Handle::open(&stack("salt=201"), &contact, &patient()).unwrap_err();
    assert_eq!((refused.kind(), refused.driver()), (ErrorKind::Usage, Some("records")), "{refused}");
}

#[test]
fn who_listens_may_leave_out_the_host_and_who_opens_may_not() {
    let (registry, has_udt) = loaded();
    for name in ["skeleton_block"].into_iter().chain(has_udt.then_some("udt_ref")) {
        let stack = Stack::of(registry.clone()).push(name, "").unwrap();
        let server = Server::listen(&stack, ":0").unwrap();
        let contact = server.contact().unwrap();
        let (_, port) = contact.rsplit_once(':').unwrap();
        let error = Handle::open(&stack, &format!(":{port}"), &patient()).unwrap_err();
        assert!(error.to_string().contains("Invalid argument"), "{error}");
        thread::scope(|scope| {
            let accepting = scope.spawn(|| server.accept(Some(PATIENCE)).unwrap().open(&patient()).unwrap());
            let client = Handle::open(&stack, &contact, &patient()).unwrap();
            client.write(b"hello").unwrap();
            let mut bytes = [0; 5];
            accepting.join().unwrap().read(&mut bytes, 5).unwrap();
            assert_eq!(&bytes, b"hello", "{name}");
        });
    }
}
