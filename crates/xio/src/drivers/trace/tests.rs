//! What `trace` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "looks at files from outside")]

use crate::{Answer, ErrorKind, Handle, Options, Server, Stack};

#[test]
fn a_line_tells_of_each_thing_and_of_no_byte() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lines");
    let server = Server::listen(&Stack::new().push("tcp", "").unwrap(), "127.0.0.1:0").unwrap();
    let traced = Stack::new().push("tcp", "").unwrap().push("trace", file.to_str().unwrap()).unwrap();
    let client = Handle::open(&traced, &server.contact().unwrap(), &Options::default()).unwrap();
    let peer = server.accept(None).unwrap().open(&Options::default()).unwrap();
    client.write(b"secret").unwrap();
    peer.write(b"answer").unwrap();
    client.read(&mut [0; 100], 6).unwrap();
    assert!(matches!(client.control(None, "peer", None).unwrap(), Answer::Text(_)));
    peer.control(None, "finish_sending", None).unwrap();
    assert!(client.read(&mut [0; 100], 1).unwrap().info.end);
    client.close().unwrap();
    let lines = std::fs::read_to_string(&file).unwrap();
    let expected = [
        "open",
        "send 6 of 6",
        "receive 6 of 100",
        "command peer",
        "receive 0 of 100, the end",
        "finish sending",
        "close",
    ];
    let lines: Vec<_> = lines.lines().collect();
    assert_eq!(lines, expected.map(|what| format!("trace 0: {what}")));
}

#[test]
fn a_failure_is_told_and_a_file_that_cannot_be_written_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lines");
    let server = Server::listen(&Stack::new().push("tcp", "").unwrap(), "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    drop(server);
    let traced = Stack::new().push("tcp", "").unwrap().push("trace", file.to_str().unwrap()).unwrap();
    Handle::open(&traced, &contact, &Options::default()).unwrap_err();
    let lines = std::fs::read_to_string(&file).unwrap();
    assert!(lines.starts_with("trace 0: open failed: ") && lines.ends_with("trace 0: close\n"), "{lines}");
    let nowhere = Stack::new().push("tcp", "").unwrap().push("trace", "/no/such/directory/lines").unwrap();
    let error = Handle::open(&nowhere, &contact, &Options::default()).unwrap_err();
    assert_eq!((error.kind(), error.driver()), (ErrorKind::Other, Some("trace")), "{error}");
    assert!(error.to_string().contains("/no/such/directory/lines"), "{error}");
}
