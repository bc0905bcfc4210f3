//! What `tls` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes the files of certificates")]

use crate::{Answer, Error, ErrorKind, Handle, Options, Server, Stack, Timeouts, WriteInfo};
use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;
use xdfs_secure::identity::{KeyPair, x509};

const PATIENCE: Duration = Duration::from_secs(30);
const MUCH: usize = 3_000_000;

fn options() -> Options {
    let timeouts =
        Timeouts { open: Some(PATIENCE), read: Some(PATIENCE), write: Some(PATIENCE), close: Some(PATIENCE) };
    Options { timeouts }
}

/// Makes `NAME.pem` and `NAME.key`, for `localhost` and this host's address.
fn make(directory: &TempDir, name: &str) {
    let key = KeyPair::generate().unwrap();
    let names = [format!("{name}.example"), "localhost".to_owned(), "127.0.0.1".to_owned()];
    std::fs::write(directory.path().join(format!("{name}.pem")), x509::certificate_pem(&key, &names).unwrap()).unwrap();
    std::fs::write(directory.path().join(format!("{name}.key")), x509::private_pem(&key).as_bytes()).unwrap();
}

fn certificates() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    make(&directory, "server");
    make(&directory, "client");
    directory
}

/// `@NAME` stands for the file of that name.
fn stack(directory: &TempDir, attributes: &str) -> Stack {
    let attributes = attributes.replace('@', &format!("{}/", directory.path().display()));
    Stack::new().push("tcp", "").unwrap().push("tls", &attributes).unwrap()
}

const SERVER: &str = "certificate=@server.pem;key=@server.key";
const CLIENT: &str = "trust=@server.pem";

/// Both ends' results of an opening.
fn open(directory: &TempDir, client: &str, server: &str) -> (Result<Handle, Error>, Result<Handle, Error>) {
    let server = Server::listen(&stack(directory, server), "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    let accepting = thread::spawn(move || server.accept(Some(PATIENCE)).unwrap().open(&options()));
    let client = Handle::open(&stack(directory, client), &contact, &options());
    (client, accepting.join().unwrap())
}

fn pair(directory: &TempDir) -> (Handle, Handle) {
    let (client, server) = open(directory, CLIENT, SERVER);
    (client.unwrap(), server.unwrap())
}

#[test]
fn bytes_pass_both_ways_at_once_and_close_notify_is_the_end() {
    let directory = certificates();
    let (client, server) = pair(&directory);
    let (tell, told) = sync_channel(4);
    for (handle, byte) in [(&client, 1), (&server, 2)] {
        let tell = tell.clone();
        let done = move |_: &Handle, done: crate::Completed| tell.send(done.result.unwrap().bytes).unwrap();
        handle.register_write(vec![byte; MUCH], WriteInfo::default(), done).unwrap();
    }
    for (handle, byte) in [(&client, 2), (&server, 1)] {
        let mut bytes = vec![0; MUCH];
        assert_eq!(handle.read(&mut bytes, MUCH).unwrap().bytes, MUCH);
        assert!(bytes.iter().all(|read| *read == byte));
    }
    assert_eq!([told.recv_timeout(PATIENCE), told.recv_timeout(PATIENCE)], [Ok(MUCH), Ok(MUCH)]);
    client.control(None, "finish_sending", None).unwrap();
    assert!(client.write(b"x").is_err());
    let mut bytes = [0; 10];
    assert!(server.read(&mut bytes, 10).unwrap().info.end);
    server.write(b"still open").unwrap();
    assert_eq!(client.read(&mut bytes, 10).unwrap().bytes, 10);
    server.close().unwrap();
    assert!(client.read(&mut bytes, 10).unwrap().info.end);
    assert!(client.read(&mut bytes, 10).unwrap().info.end, "it stays the end");
    client.close().unwrap();
}

#[test]
fn a_connection_that_is_cut_is_an_error_and_not_the_end() {
    let directory = certificates();
    let (client, server) = pair(&directory);
    server.write(b"half").unwrap();
    // Without a close: the kernel ends the connection, as anybody on the way can.
    drop(server);
    let error = client.read(&mut [0; 10], 10).unwrap_err();
    assert_eq!((error.kind(), error.transferred(), error.driver()), (ErrorKind::Lost, 4, Some("tls")), "{error}");
}

#[test]
fn each_end_takes_only_whom_it_trusts() {
    let directory = certificates();
    let refused = |client: &str, server: &str| {
        let (client, server) = open(&directory, client, server);
        // A client of TLS 1.3 learns at its first read that the server did not take it.
        let client = client.and_then(|client| client.read(&mut [0; 1], 1).map(drop)).unwrap_err();
        (client, server.unwrap_err())
    };
    let only_clients = format!("{SERVER};clients=@client.pem");
    for (client, server, what) in [
        ("trust=@client.pem", SERVER, "another authority"),
        ("trust=@server.pem;name=other.example", SERVER, "another name"),
        (CLIENT, only_clients.as_str(), "no certificate"),
        ("trust=@server.pem;certificate=@server.pem;key=@server.key", &only_clients, "another client"),
    ] {
        let (client, server) = refused(client, server);
        assert_eq!(
            (client.kind(), server.kind()),
            (ErrorKind::Denied, ErrorKind::Denied),
            "{what}: {client}; {server}"
        );
        assert_eq!(client.stack(), Some("tcp,tls"));
    }
    let (client, server) = open(&directory, "trust=@server.pem;certificate=@client.pem;key=@client.key", &only_clients);
    let (client, server) = (client.unwrap(), server.unwrap());
    let Answer::Text(key) = server.control(None, "peer_key", None).unwrap() else { panic!("a text") };
    assert!(key.starts_with("SHA256:"), "{key}");
    client.write(b"me").unwrap();
    server.read(&mut [0; 2], 2).unwrap();
}

#[test]
fn both_ends_agree_on_a_protocol_and_the_server_knows_the_name_that_was_asked_for() {
    let directory = certificates();
    let server_side = format!("{SERVER};alpn=b c");
    let (client, server) = open(&directory, "trust=@server.pem;name=localhost;alpn=a b c", &server_side);
    let (client, server) = (client.unwrap(), server.unwrap());
    for handle in [&client, &server] {
        assert_eq!(handle.control(Some("tls"), "alpn", None).unwrap(), Answer::Text("b".to_owned()));
        assert!(matches!(handle.control(None, "suite", None).unwrap(), Answer::Text(name) if name.contains("TLS13")));
    }
    assert_eq!(server.control(None, "server_name", None).unwrap(), Answer::Text("localhost".to_owned()));
    let (client, server) = open(&directory, "trust=@server.pem;alpn=a", &server_side);
    assert_eq!((client.unwrap_err().kind(), server.unwrap_err().kind()), (ErrorKind::Protocol, ErrorKind::Protocol));
}

#[test]
fn what_is_no_tls_what_leaves_and_what_says_nothing_is_refused() {
    let directory = certificates();
    let listen = |handshake: &str| {
        let server = Server::listen(&stack(&directory, &format!("{SERVER}{handshake}")), "127.0.0.1:0").unwrap();
        let contact = server.contact().unwrap();
        (server, TcpStream::connect(contact).unwrap())
    };
    let outcome = |server: &Server, blocking: bool| {
        let accepted = server.accept(Some(PATIENCE)).unwrap();
        if blocking {
            return accepted.open(&Options::default()).unwrap_err().kind();
        }
        let (tell, told) = sync_channel(1);
        let done = move |_: &Handle, done: crate::Result<()>| tell.send(done.unwrap_err().kind()).unwrap();
        let _handle = accepted.register_open(&Options::default(), done).unwrap();
        told.recv_timeout(PATIENCE).unwrap()
    };
    for blocking in [true, false] {
        let (server, mut peer) = listen("");
        peer.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(outcome(&server, blocking), ErrorKind::Protocol);
        let (server, peer) = listen("");
        drop(peer);
        assert_eq!(outcome(&server, blocking), ErrorKind::Lost);
        let (server, peer) = listen(";handshake=50ms");
        assert_eq!(outcome(&server, blocking), ErrorKind::TimedOut);
        drop(peer);
    }
}

#[test]
fn settings_of_no_use_are_refused_by_name() {
    let directory = certificates();
    for (attributes, word) in [
        ("trust=@server.key", "certificate"),
        ("trust=/no/such/file", "/no/such/file"),
        ("trust=@server.pem;key=@client.key", "belong together"),
        ("trust=@server.pem;certificate=@server.pem;key=@client.key", "of no use"),
        ("trust=@server.pem;name=a b", "no name of a server"),
        ("trust=/dev/zero", "too long"),
    ] {
        let error = Handle::open(&stack(&directory, attributes), "127.0.0.1:9", &options()).unwrap_err().to_string();
        assert!(
            error.starts_with("driver tls of the stack tcp,tls: ") && error.contains(word),
            "{attributes}: {error}"
        );
    }
    let error = Server::listen(&stack(&directory, ""), "127.0.0.1:0").unwrap_err().to_string();
    assert!(error.contains("a server needs"), "{error}");
}
