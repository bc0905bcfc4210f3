//! What is refused, as tables of cases, and that our two ends agree. Other programs are the other end
//! in `tests/http.rs`.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use super::body::{Decoder, Encoder, Next};
use super::head::{self, Framing, HEAD_BYTES_MAX, Scan};
use crate::{Answer, ErrorKind, Handle, Options, Server, Stack, Timeouts, WriteInfo};
use std::io::{IoSlice, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const MUCH: usize = 3_000_000;

/// Requests that are refused, each with the status that the peer is told.
fn bad_requests() -> Vec<(Vec<u8>, u16)> {
    let text = |request: &str, status| (request.as_bytes().to_vec(), status);
    let fields = |fields: &str, status| text(&format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n"), status);
    vec![
        // Where it ends could be read in two ways: smuggling.
        fields("Content-Length: 5\r\nTransfer-Encoding: chunked", 400),
        fields("Transfer-Encoding: chunked\r\nContent-Length: 5", 400),
        fields("Content-Length: 5\r\nContent-Length: 6", 400),
        fields("Content-Length: 5\r\nContent-Length: 5", 400),
        fields("Content-Length: 5, 5", 400),
        fields("Content-Length: +5", 400),
        fields("Content-Length: -5", 400),
        fields("Content-Length: 0x5", 400),
        fields("Content-Length: 5 5", 400),
        fields("Content-Length:", 400),
        fields("Content-Length: 9999999999999999999", 400),
        fields("Content-Length : 5", 400),
        fields("Content-Length\t: 5", 400),
        fields(" Content-Length: 5", 400),
        fields("X: a\r\n b", 400),
        fields("X: a\r\n\tTransfer-Encoding: chunked", 400),
        fields("X: a\nTransfer-Encoding: chunked", 400),
        fields("X: a\rTransfer-Encoding: chunked", 400),
        fields("X: a\0b", 400),
        fields("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
        fields("Transfer-Encoding: chunked, chunked", 501),
        fields("Transfer-Encoding: gzip, chunked", 501),
        fields("Transfer-Encoding: chunked, identity", 501),
        fields("Transfer-Encoding: xchunked", 501),
        fields("Transfer-Encoding: \x0bchunked", 400),
        text("POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        text("GET / HTTP/1.1\nHost: h\n\n", 400),
        text("\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        // Who is meant.
        text("GET / HTTP/1.1\r\n\r\n", 400),
        fields("Host: other", 400),
        text("GET http://other/ HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        text("GET other HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        text("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", 501),
        // No HTTP.
        text("GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
        text("GET /\r\n\r\n", 400),
        text("G\u{e9}T / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), 400),
        fields("Expect: 200-ok", 417),
        // Bombs.
        fields("X: y\r\n".repeat(70).trim_end(), 431),
        fields(&format!("X: {}", "y".repeat(HEAD_BYTES_MAX)), 431),
        (vec![b'A'; HEAD_BYTES_MAX + 1], 431),
    ]
}

#[test]
fn a_request_that_could_be_read_in_two_ways_is_refused_with_a_status() {
    for (request, status) in bad_requests() {
        let shown = String::from_utf8_lossy(&request[..request.len().min(120)]).into_owned();
        let read =
            Scan::default().end_of(&request).and_then(|end| head::read_request(&request[..end.expect("a whole head")]));
        let bad = read.map(|read| panic!("{shown:?} was taken for {read:?}")).unwrap_err();
        assert_eq!(bad.status, status, "{shown:?}: {}", bad.what);
    }
    let good = "PUT /a?b HTTP/1.1\r\nHost: h\r\ntransfer-encoding: Chunked\r\nX: \u{e9}\r\n\r\n";
    assert_eq!(Scan::default().end_of(good.as_bytes()), Ok(Some(good.len())));
    assert_eq!(Scan::default().end_of(&good.as_bytes()[..good.len() - 1]), Ok(None));
    let request = head::read_request(good.as_bytes()).unwrap();
    assert_eq!((request.body, request.target.as_str()), (Framing::Chunked, "/a?b"));
}

/// Takes a body apart, given in pieces of `piece` bytes: its content and the bytes behind it.
fn decoded(framing: Framing, bytes: &[u8], piece: usize) -> Result<(Vec<u8>, usize), String> {
    let (mut body, mut content, mut from, mut to) = (Decoder::new(framing), Vec::new(), 0, 0);
    loop {
        match body.next(&bytes[from..to])? {
            Next::End => return Ok((content, bytes.len() - from)),
            Next::Framing(used) => from += used,
            Next::Content(left) if from < to => {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(to - from);
                content.extend_from_slice(&bytes[from..from + taken]);
                body.took(taken as u64);
                from += taken;
            }
            Next::Content(_) | Next::More if to == bytes.len() => return Err("it is cut off".to_owned()),
            Next::Content(_) | Next::More => to = (to + piece).min(bytes.len()),
        }
    }
}

#[test]
fn chunks_are_put_together_and_those_that_lie_are_refused_however_they_arrive() {
    let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "e".repeat(300));
    let trailer = format!("0\r\n{}\r\n", "X: y\r\n".repeat(2000));
    for piece in [1, 2, 7, 1000] {
        for (text, content, behind) in [
            ("5\r\nhello\r\n0\r\n\r\nGET", "hello", 3),
            ("5;a=\"b\"\r\nhello\r\n00003\r\n!!!\r\n0\r\nX: y\r\nZ: w\r\n\r\n", "hello!!!", 0),
            ("A\r\n0123456789\r\n0\r\n\r\n", "0123456789", 0),
            ("0\r\n\r\n", "", 0),
        ] {
            assert_eq!(decoded(Framing::Chunked, text.as_bytes(), piece), Ok((content.into(), behind)), "{text:?}");
        }
        for text in [
            "5\r\nhello!\r\n0\r\n\r\n",
            "6\r\nhello\r\n0\r\n\r\n",
            "5\nhello\r\n0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5\r\r\nhello\r\n0\r\n\r\n",
            "5\r\nhello\r\n0\r\nX: y\n\r\n",
            "0x5\r\nhello\r\n0\r\n\r\n",
            "+5\r\nhello\r\n0\r\n\r\n",
            "-5\r\nhello\r\n0\r\n\r\n",
            " 5\r\nhello\r\n0\r\n\r\n",
            "5 \r\nhello\r\n0\r\n\r\n",
            "5 ;a\r\nhello\r\n0\r\n\r\n",
            "5_0\r\nhello\r\n0\r\n\r\n",
            "5;a\0\r\nhello\r\n0\r\n\r\n",
            "\r\nhello\r\n0\r\n\r\n",
            "FFFFFFFFFFFFFFFF\r\nhello",
            "0000000000000005\r\nhello\r\n0\r\n\r\n",
            "5\r\nhello\r\n0\r\n",
            "5\r\nhel",
            "",
            &long,
            &trailer,
        ] {
            let read = decoded(Framing::Chunked, text.as_bytes(), piece);
            assert!(read.is_err(), "{text:?} in pieces of {piece} was taken for {read:?}");
        }
    }
    assert_eq!(decoded(Framing::Length(3), b"abcd", 2), Ok((b"abc".to_vec(), 1)));
    assert!(decoded(Framing::Length(5), b"abcd", 2).is_err());
}

fn options() -> Options {
    let timeouts =
        Timeouts { open: Some(PATIENCE), read: Some(PATIENCE), write: Some(PATIENCE), close: Some(PATIENCE) };
    Options { timeouts }
}

fn stack(attributes: &str) -> Stack {
    Stack::new().push("tcp", "").unwrap().push("noop", "").unwrap().push("http", attributes).unwrap()
}

fn pair(client: &str, server: &str, target: &str) -> (Handle, Handle) {
    let server = Server::listen(&stack(server), "127.0.0.1:0").unwrap();
    let contact = format!("http://{}{target}", server.contact().unwrap());
    let accepting = thread::spawn(move || server.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap());
    let client = Handle::open(&stack(client), &contact, &options()).unwrap();
    (client, accepting.join().unwrap())
}

fn text(handle: &Handle, command: &str, value: Option<&str>) -> String {
    match handle.control(Some("http"), command, value).unwrap() {
        Answer::Text(text) => text,
        other => panic!("{command}: {other:?}"),
    }
}

fn read_all(handle: &Handle) -> crate::Result<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 50_000]);
    loop {
        let read = handle.read(&mut buffer, 1)?;
        all.extend_from_slice(&buffer[..read.bytes]);
        if read.info.end {
            return Ok(all);
        }
    }
}

#[test]
fn bodies_pass_both_ways_at_once_and_end() {
    let (client, server) = pair("POST;type=text/plain;header=X-A: 1|X-B: 2", "", "/a%20b?c=d#e");
    assert_eq!((text(&server, "method", None), text(&server, "target", None)), ("POST".into(), "/a%20b?c=d".into()));
    assert_eq!(text(&server, "header", Some("x-b")), "2");
    assert_eq!(text(&server, "header", Some("Content-Type")), "text/plain");
    let (tell, told) = sync_channel(4);
    for (handle, byte) in [(&client, 1), (&server, 2)] {
        let tell = tell.clone();
        let done = move |_: &Handle, done: crate::Completed| tell.send(done.result.unwrap().bytes).unwrap();
        let info = WriteInfo { end_of_message: true, ..WriteInfo::default() };
        handle.register_write(vec![byte; MUCH], info, done).unwrap();
    }
    assert!(read_all(&server).unwrap() == vec![1; MUCH]);
    assert!(read_all(&client).unwrap() == vec![2; MUCH]);
    assert_eq!([told.recv_timeout(PATIENCE), told.recv_timeout(PATIENCE)], [Ok(MUCH), Ok(MUCH)]);
    assert_eq!(client.control(None, "status", None).unwrap(), Answer::Number(200));
    assert_eq!(client.write(b"more").unwrap_err().kind(), ErrorKind::Usage);
    client.close().unwrap();
    server.close().unwrap();
}

#[test]
fn one_connection_carries_several_requests_where_both_ends_keep_it() {
    let (client, server) = pair("PUT;keep;length=5", "keep", "/first");
    client.write(b"hello").unwrap();
    for (method, target) in [("PUT", "/first"), ("GET", "/second"), ("HEAD", "/third"), ("POST", "/fourth")] {
        let body = read_all(&server).unwrap();
        assert_eq!(body, if matches!(method, "PUT" | "POST") { b"hello".to_vec() } else { Vec::new() });
        // The head is there with the first bytes, or with the end.
        assert_eq!((text(&server, "method", None), text(&server, "target", None)), (method.into(), target.into()));
        server.control(None, "status", Some("201")).unwrap();
        server.write(target.as_bytes()).unwrap();
        assert_eq!(client.control(None, "next", Some("/early")).unwrap_err().kind(), ErrorKind::Usage);
        server.control(None, "finish_sending", None).unwrap();
        let body = read_all(&client).unwrap();
        assert_eq!(body, if method == "HEAD" { Vec::new() } else { target.as_bytes().to_vec() });
        assert_eq!(client.control(None, "status", None).unwrap(), Answer::Number(201));
        server.control(None, "next", None).unwrap();
        let next = match target {
            "/first" => "/second",
            "/second" => "HEAD /third",
            "/third" => "POST /fourth",
            _ => break,
        };
        client.control(None, "next", Some(next)).unwrap();
        if next.starts_with("POST") {
            let info = WriteInfo { end_of_message: true, ..WriteInfo::default() };
            client.writev(&mut [IoSlice::new(b"he"), IoSlice::new(b"llo")], &info).unwrap();
        }
    }
    client.close().unwrap();
    assert!(server.read(&mut [0; 1], 1).unwrap().info.end);
    assert_eq!(server.control(None, "method", None).unwrap(), Answer::Done, "the client has left");
    let (client, server) = pair("", "keep", "/");
    server.control(None, "finish_sending", None).unwrap();
    read_all(&client).unwrap();
    read_all(&server).unwrap();
    assert!(server.control(None, "next", None).unwrap_err().to_string().contains("'keep' was not set"));
}

#[test]
fn a_status_of_failure_is_an_error_unless_any_is_asked_for() {
    for (status, kind) in [("404", ErrorKind::NotFound), ("403", ErrorKind::Denied), ("500", ErrorKind::Other)] {
        for any in [false, true] {
            let (client, server) = pair(if any { "any_status" } else { "" }, "", "/");
            server.control(None, "status", Some(status)).unwrap();
            server.write(b"sorry").unwrap();
            server.close().unwrap();
            if any {
                assert_eq!(read_all(&client).unwrap(), b"sorry");
            } else {
                let error = read_all(&client).unwrap_err();
                assert_eq!((error.kind(), error.driver()), (kind, Some("http")), "{error}");
                assert!(error.to_string().contains(status));
            }
            assert_eq!(client.control(None, "status", None).unwrap(), Answer::Number(status.parse().unwrap()));
        }
    }
}

#[test]
fn a_server_refuses_what_is_no_request_and_its_peer_is_told() {
    let server = Server::listen(&stack("timeout=50ms"), "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    for (request, status) in bad_requests() {
        let mut peer = TcpStream::connect(&contact).unwrap();
        peer.write_all(&request).unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        let error = server.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap_err();
        assert_eq!((error.kind(), error.stack()), (ErrorKind::Protocol, Some("tcp,noop,http")), "{error}");
        let mut answer = Vec::new();
        // The reset of a connection whose rest nobody read may overtake the answer.
        if peer.read_to_end(&mut answer).is_ok() {
            assert!(answer.starts_with(format!("HTTP/1.1 {status} ").as_bytes()), "{}", answer.escape_ascii());
        }
    }
    let silent = TcpStream::connect(&contact).unwrap();
    assert_eq!(server.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap_err().kind(), ErrorKind::TimedOut);
    drop(silent);
    drop(TcpStream::connect(&contact).unwrap());
    assert_eq!(server.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap_err().kind(), ErrorKind::Lost);
    let mut peer = TcpStream::connect(&contact).unwrap();
    peer.write_all(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello!!\r\n").unwrap();
    let handle = server.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap();
    let error = handle.read(&mut [0; 10], 10).unwrap_err();
    assert_eq!((error.kind(), error.transferred()), (ErrorKind::Protocol, 5), "{error}");
}

#[test]
fn a_client_refuses_answers_that_could_be_read_in_two_ways_or_are_cut() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let contact = format!("http://{}/", listener.local_addr().unwrap());
    let interim = format!("{}HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 103 Hints\r\n\r\n".repeat(20));
    let bomb = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(HEAD_BYTES_MAX));
    for (answer, kind) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ErrorKind::Protocol),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", ErrorKind::Protocol),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\nhello", ErrorKind::Protocol),
        ("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", ErrorKind::Protocol),
        ("HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", ErrorKind::Protocol),
        ("HTTP/1.1 101 Switching\r\n\r\n", ErrorKind::Protocol),
        ("HTTP/1.1 099 Odd\r\n\r\n", ErrorKind::Protocol),
        ("SSH-2.0-OpenSSH\r\n\r\n", ErrorKind::Protocol),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", ErrorKind::Lost),
        ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", ErrorKind::Lost),
        ("HTTP/1.1 200 OK\r\nContent-", ErrorKind::Lost),
        ("", ErrorKind::Lost),
        (&interim, ErrorKind::Protocol),
        (&bomb, ErrorKind::Protocol),
    ] {
        let client = Handle::open(&stack(""), &contact, &options()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(answer.as_bytes()).unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        let error = read_all(&client).unwrap_err();
        assert_eq!((error.kind(), error.driver()), (kind, Some("http")), "{answer:?}: {error}");
    }
    let client = Handle::open(&stack(""), &contact, &options()).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let mut request = [0; 1000];
    let bytes = peer.read(&mut request).unwrap();
    assert!(request[..bytes].ends_with(b"\r\n\r\n"));
    peer.write_all(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\nto the end").unwrap();
    drop(peer);
    assert_eq!(read_all(&client).unwrap(), b"to the end");
}

#[test]
fn what_is_sent_cannot_be_split_by_what_it_is_made_of() {
    for attributes in [
        "G ET",
        "method=CONNECT",
        "type=a\r\nX: y",
        "header=Content-Length: 1",
        "header=Host: x",
        "header=X",
        "target=a",
        "target=/a b",
    ] {
        let error = Handle::open(&stack(attributes), "http://127.0.0.1:9/", &options()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{attributes}: {error}");
    }
    for (contact, word) in
        [("ftp://h:1/", "http or https"), ("https://h:1/", "'tls'"), ("http://u:p@h:1/", "Authorization")]
    {
        let error = Handle::open(&stack(""), contact, &options()).unwrap_err();
        assert!(error.kind() == ErrorKind::Contact && error.to_string().contains(word), "{error}");
    }
    let (client, server) = pair("PUT;length=3", "", "/");
    assert_eq!(client.write(b"four").unwrap_err().kind(), ErrorKind::Usage);
    for (command, value) in
        [("status", "700"), ("status", "100"), ("length", "x"), ("line", "A: b\r\nC: d"), ("line", "Connection: close")]
    {
        assert_eq!(
            server.control(None, command, Some(value)).unwrap_err().kind(),
            ErrorKind::Usage,
            "{command}={value}"
        );
    }
    server.control(None, "length", Some("3")).unwrap();
    server.write(b"ab").unwrap();
    assert!(server.close().unwrap_err().to_string().contains("less is written"));
}

#[test]
fn a_write_that_is_cancelled_leaves_no_chunk_unfinished() {
    let (client, server) = pair("POST", "", "/");
    let (tell, told) = sync_channel(1);
    let done = move |_: &Handle, done: crate::Completed| tell.send(done.result.unwrap_err()).unwrap();
    // More than all queues on the way hold, and nobody reads.
    let write = client.register_write(vec![7; 100_000_000], WriteInfo::default(), done).unwrap();
    let mut one = [0; 1];
    server.read(&mut one, 1).unwrap();
    assert!(client.cancel(write));
    let error = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    let closing = thread::spawn(move || client.close());
    assert_eq!(read_all(&server).unwrap().len() + 1, error.transferred());
    closing.join().unwrap().unwrap();
}

#[test]
fn a_head_that_comes_byte_by_byte_is_looked_at_once() {
    let (mut scan, head) = (Scan::default(), b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    for end in 0..head.len() {
        // What was looked at may be anything by now.
        let mut bytes = vec![b'\n'; end.saturating_sub(2)];
        bytes.extend_from_slice(&head[bytes.len()..end]);
        assert_eq!(scan.end_of(&bytes), Ok(None), "{end}");
    }
    assert_eq!(scan.end_of(head), Ok(Some(head.len())));
    for bytes in [&b"a\rb"[..], b"a\nb", b"\r\n"] {
        let mut scan = Scan::default();
        let found: Vec<_> = (1..=bytes.len()).map(|end| scan.end_of(&bytes[..end])).collect();
        assert!(found.iter().any(Result::is_err), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_body_that_is_too_short_has_not_ended() {
    let mut body = Encoder::new(Framing::Length(10));
    assert!(body.allowed(4, true).is_err());
    body.sent(4);
    assert!(body.finish(&mut Vec::new()).is_err());
    assert_eq!(body, Encoder::Length(6));
    let (client, server) = pair("PUT;length=10;keep", "keep", "/");
    let info = WriteInfo { end_of_message: true, ..WriteInfo::default() };
    let error = client.writev(&mut [IoSlice::new(b"four")], &info).unwrap_err();
    assert_eq!((error.kind(), error.transferred()), (ErrorKind::Usage, 0), "{error}");
    assert_eq!(client.control(None, "finish_sending", None).unwrap_err().kind(), ErrorKind::Usage);
    client.writev(&mut [IoSlice::new(b"all of ten")], &info).unwrap();
    assert_eq!(read_all(&server).unwrap(), b"all of ten");
}

#[test]
fn a_message_ends_with_its_last_part_wherever_a_layer_above_divides_it() {
    let parts = Stack::new().push_all("tcp,http=POST,rate=5MB/s").unwrap();
    let server = Server::listen(&parts, "127.0.0.1:0").unwrap();
    let contact = format!("http://{}/", server.contact().unwrap());
    let accepting = thread::spawn(move || server.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap());
    let client = Handle::open(&parts, &contact, &options()).unwrap();
    let server = accepting.join().unwrap();
    let reading = thread::spawn(move || read_all(&server).unwrap().len());
    let info = WriteInfo { end_of_message: true, ..WriteInfo::default() };
    // More than goes at once.
    client.writev(&mut [IoSlice::new(&vec![1; 700_000])], &info).unwrap();
    assert_eq!(reading.join().unwrap(), 700_000);
}

#[test]
fn behind_what_was_refused_nothing_is_read() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Handle::open(&stack(""), &format!("http://{}/", listener.local_addr().unwrap()), &options()).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    peer.write_all(b"HTTP/1.1 099 Odd\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    let server = Server::listen(&stack("keep"), "127.0.0.1:0").unwrap();
    let mut asking = TcpStream::connect(server.contact().unwrap()).unwrap();
    let get = "GET / HTTP/1.1\r\nHost: h\r\n";
    asking.write_all(format!("{get}\r\n{get}Host: i\r\n\r\n{get}\r\n").as_bytes()).unwrap();
    let server = server.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap();
    assert_eq!(read_all(&server).unwrap(), b"");
    server.control(None, "finish_sending", None).unwrap();
    server.control(None, "next", None).unwrap();
    for handle in [client, server] {
        for _ in 0..3 {
            let error = handle.read(&mut [0; 10], 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
        }
    }
}

#[test]
fn an_error_about_a_line_of_the_head_does_not_show_its_value() {
    let attributes = "header=Authorization: secret\u{e9}";
    let error = Handle::open(&stack(attributes), "http://127.0.0.1:9/", &options()).unwrap_err().to_string();
    assert!(error.contains("'Authorization'") && !error.contains("secret"), "{error}");
}
