//! The scenarios with which Globus XIO tests its driver `http`, by their names, each over a transport, a loaded
//! one whose calls wait, TLS, and a stack of five drivers. Both ends are ours; other programs are the other
//! end in `http.rs`.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes the files of a certificate")]

#[path = "support/certificate.rs"]
mod certificate;
#[path = "support/compiled.rs"]
mod compiled;

use std::thread;
use std::time::Duration;

use certificate::tls;
use compiled::skeletons;
use xdfs_xio::{Answer, ErrorKind, Handle, Options, Server, Stack, Timeouts};

/// Nothing that is waited for takes this long, unless it never comes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Short enough to wait for.
const SHORT: Duration = Duration::from_millis(30);

const BELOW: [&str; 4] = ["tcp", "skeleton_block", "tcp,tls", "tcp,noop,tls,zstd"];

fn options() -> Options {
    let time = Some(PATIENCE);
    Options { timeouts: Timeouts { open: time, read: time, write: time, close: time } }
}

fn stack(below: &str, attributes: &str) -> Stack {
    let below = Stack::of(skeletons()).push_all(&below.replace("tls", tls())).unwrap();
    below.push("http", attributes).unwrap()
}

/// A client with these attributes that asks for `/path`, and what the server accepted.
fn pair(below: &str, client: &str, server: &str) -> (Handle, Handle) {
    let listening = Server::listen(&stack(below, server), "127.0.0.1:0").unwrap();
    let contact = format!("http://{}/path", listening.contact().unwrap());
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listening.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap());
        (Handle::open(&stack(below, client), &contact, &options()).unwrap(), accepting.join().unwrap())
    })
}

fn ask(handle: &Handle, command: &str, value: Option<&str>) -> String {
    match handle.control(Some("http"), command, value).unwrap() {
        Answer::Text(text) => text,
        Answer::Number(number) => number.to_string(),
        Answer::Done => String::new(),
    }
}

fn rest(handle: &Handle) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 50_000]);
    loop {
        let read = handle.read(&mut buffer, 1).unwrap();
        all.extend_from_slice(&buffer[..read.bytes]);
        if read.info.end {
            return all;
        }
    }
}

/// A request with a body, in one of the framings, and its answer.
fn carries(below: &str, method: &str, attributes: &str) {
    let (client, server) = pair(below, attributes, "");
    client.write(b"the body").unwrap();
    client.control(None, "finish_sending", None).unwrap();
    assert_eq!(ask(&server, "method", None), method, "{below}");
    assert_eq!(rest(&server), b"the body", "{below}: {attributes}");
    server.control(None, "status", Some("201")).unwrap();
    server.write(b"done").unwrap();
    server.control(None, "finish_sending", None).unwrap();
    assert_eq!(rest(&client), b"done", "{below}: {attributes}");
    assert_eq!(ask(&client, "status", None), "201", "{below}");
}

#[test]
fn get() {
    for below in BELOW {
        let (client, server) = pair(below, "", "");
        assert_eq!((ask(&server, "method", None), ask(&server, "target", None)), ("GET".into(), "/path".into()));
        assert_eq!(rest(&server), b"", "{below}");
        server.write(b"content").unwrap();
        server.control(None, "finish_sending", None).unwrap();
        assert_eq!(rest(&client), b"content", "{below}");
        assert_eq!(ask(&client, "status", None), "200", "{below}");
    }
}

#[test]
fn put() {
    for below in BELOW {
        carries(below, "PUT", "PUT");
        carries(below, "PUT", "PUT;length=8");
    }
}

#[test]
fn post() {
    for below in BELOW {
        carries(below, "POST", "POST");
        carries(below, "POST", "POST;length=8");
    }
}

#[test]
fn header() {
    for below in BELOW {
        let (client, server) = pair(below, "header=X-A: 1|X-B: two words", "");
        assert_eq!(ask(&server, "header", Some("x-a")), "1", "{below}");
        assert_eq!(ask(&server, "header", Some("X-B")), "two words", "{below}");
        server.control(None, "line", Some("X-C: three")).unwrap();
        server.control(None, "finish_sending", None).unwrap();
        assert_eq!(rest(&client), b"", "{below}");
        assert_eq!(ask(&client, "header", Some("x-c")), "three", "{below}");
    }
}

#[test]
fn timeout() {
    // Nobody answers: the read of a client ends in time. Nobody asks: so does the opening of a server's element.
    for below in BELOW {
        let listening = Server::listen(&stack(below, ""), "127.0.0.1:0").unwrap();
        let contact = format!("http://{}/path", listening.contact().unwrap());
        let timeouts = Timeouts { read: Some(SHORT), ..options().timeouts };
        let (client, _server) = thread::scope(|scope| {
            let accepting = scope.spawn(|| listening.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap());
            let client = Handle::open(&stack(below, ""), &contact, &Options { timeouts }).unwrap();
            (client, accepting.join().unwrap())
        });
        assert_eq!(client.read(&mut [0], 1).unwrap_err().kind(), ErrorKind::TimedOut, "{below}");
        let listening = Server::listen(&stack(below, "timeout=30ms"), "127.0.0.1:0").unwrap();
        let silent = Stack::of(skeletons()).push_all(&below.replace("tls", tls())).unwrap();
        let contact = listening.contact().unwrap();
        let (_silent, opened) = thread::scope(|scope| {
            let accepting = scope.spawn(|| listening.accept(Some(PATIENCE)).unwrap().open(&options()));
            (Handle::open(&silent, &contact, &options()), accepting.join().unwrap())
        });
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::TimedOut, "{below}");
    }
}

#[test]
fn ping_pong() {
    // Many requests over one connection, each answered before the next.
    for below in BELOW {
        let (client, server) = pair(below, "POST;keep", "keep");
        for round in 0..50 {
            client.write(b"hey").unwrap();
            client.control(None, "finish_sending", None).unwrap();
            assert_eq!(rest(&server), b"hey", "{below}: {round}");
            server.write(format!("{round}").as_bytes()).unwrap();
            server.control(None, "finish_sending", None).unwrap();
            assert_eq!(rest(&client), format!("{round}").as_bytes(), "{below}");
            server.control(None, "next", None).unwrap();
            client.control(None, "next", Some("POST /path")).unwrap();
        }
    }
}

#[test]
fn throughput() {
    // Much in both directions, in pieces of several sizes.
    for below in BELOW {
        let content: Vec<u8> = (0..2_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let (client, server) = pair(below, "POST", "");
        thread::scope(|scope| {
            for (from, to) in [(&client, &server), (&server, &client)] {
                let content = &content;
                scope.spawn(move || {
                    content.chunks(37_003).for_each(|piece| assert_eq!(from.write(piece).unwrap(), piece.len()));
                    from.control(None, "finish_sending", None).unwrap();
                });
                scope.spawn(move || assert!(rest(to) == *content, "{below}"));
            }
        });
    }
}
