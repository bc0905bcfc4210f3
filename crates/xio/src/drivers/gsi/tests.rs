//! What `gsi` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes the files of certificates")]

use super::grid::{FULL, Grid, LIMITED};
use crate::{Answer, Error, ErrorKind, Handle, Options, Server, Stack, Timeouts};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const SERVER: &str = "credential=@host";
const CLIENT: &str = "credential=@proxy";

fn options() -> Options {
    let time = Some(PATIENCE);
    Options { timeouts: Timeouts { open: time, read: time, write: time, close: time } }
}

fn stack(attributes: &str) -> Stack {
    Stack::new().push_all(&format!("tcp,{}", Grid::of_process().gsi(attributes))).unwrap()
}

fn listen(attributes: &str) -> Server {
    Server::listen(&stack(attributes), "127.0.0.1:0").unwrap()
}

/// Both ends' results of an opening; what is between them may change its contact.
fn open_through(
    client: &str,
    server: &str,
    way: impl FnOnce(String) -> String,
) -> (Result<Handle, Error>, Result<Handle, Error>) {
    let server = listen(server);
    let contact = way(server.contact().unwrap());
    let accepting = thread::spawn(move || server.accept(Some(PATIENCE)).unwrap().open(&options()));
    let client = Handle::open(&stack(client), &contact, &options());
    (client, accepting.join().unwrap())
}

fn open(client: &str, server: &str) -> (Result<Handle, Error>, Result<Handle, Error>) {
    open_through(client, server, |contact| contact)
}

fn pair(client: &str, server: &str) -> (Handle, Handle) {
    let (client, server) = open(client, server);
    (client.unwrap(), server.unwrap())
}

#[test]
fn both_ends_know_who_the_other_is() {
    let (client, server) = pair(CLIENT, SERVER);
    let peer = |handle: &Handle| handle.control(Some("gsi"), "peer", None).unwrap();
    // Below the proxy.
    assert_eq!(peer(&server), Answer::Text("/O=Grid/OU=Anna".to_owned()));
    assert_eq!(peer(&client), Answer::Text("/O=Grid/OU=Host".to_owned()));
    let much = vec![7; 3_000_000];
    let mut read = vec![0; much.len()];
    thread::scope(|scope| {
        scope.spawn(|| client.write(&much).unwrap());
        server.read(&mut read, much.len()).unwrap();
    });
    assert!(read == much);
    // A name is as good as the host, wherever it is given.
    pair("credential=@proxy;subject=/O=Grid/OU=Host", "credential=@host;subject=/O=Grid/OU=Anna");
    pair("credential=@proxy;name=localhost", SERVER);
    open_through(CLIENT, SERVER, |contact| format!("tcp://<%2FO=Grid%2FOU=Host>{contact}")).0.unwrap();
}

/// What both ends say of an opening that fails.
fn refused(client: &str, server: &str) -> (Error, Error) {
    let (client, server) = open(client, server);
    // A client of TLS 1.3 learns of the refusal at its first read, if the server has let go of the handshake.
    let client = client.and_then(|client| client.read(&mut [0; 1], 1).map(drop));
    (client.unwrap_err(), server.unwrap_err())
}

#[test]
fn whoever_is_not_expected_is_refused_with_the_reason() {
    let grid = Grid::of_process();
    let anna = grid.signed("Anna", &[]);
    grid.write("limited", &grid.proxy(&anna, LIMITED, 4000));
    let host = grid.signed("Host", &["127.0.0.1"]);
    grid.write("limited-host", &grid.proxy(&host, LIMITED, 4000));
    grid.write("revoked-host", &grid.revoked("Host", &["127.0.0.1"], "revoked-hosts"));
    grid.write("revoked-anna", &grid.revoked("Anna", &[], "revoked-users"));
    let other = Grid::new();
    let stranger = format!("credential={};authorities={}", other.path("proxy"), other.path("authorities"));
    let (host, anna) = ("/O=Grid/OU=Host", "/O=Grid/OU=Anna");
    let otto = "expected is '/O=Grid/OU=Otto'";
    for (client, reason) in [
        (format!("{CLIENT};name=elsewhere"), format!("is for '{host}' and not for the host 'elsewhere'")),
        (format!("{CLIENT};subject=/O=Grid/OU=Otto"), format!("the other end is '{host}', {otto}")),
        (stranger, "it was not signed by '/O=Grid/OU=CA'".to_owned()),
    ] {
        let (client, server) = refused(&client, SERVER);
        assert!(client.to_string().contains(&reason), "{client}");
        assert_eq!((client.kind(), server.kind()), (ErrorKind::Denied, ErrorKind::Denied), "{client}; {server}");
    }
    for (client, server, reason) in [
        (CLIENT, format!("{SERVER};subject=/O=Grid/OU=Otto"), format!("the other end is '{anna}', {otto}")),
        ("credential=@limited", SERVER.to_owned(), format!("the other end shows a limited proxy of '{anna}'")),
        (
            "credential=@revoked-anna",
            format!("{SERVER};authorities=@revoked-users"),
            format!("'{anna}' was revoked by its authority"),
        ),
    ] {
        let (client, server) = refused(client, &server);
        assert!(server.to_string().contains(&reason), "{server}");
        assert_eq!((client.kind(), server.kind()), (ErrorKind::Denied, ErrorKind::Denied), "{client}; {server}");
    }
    for (client, server, reason) in [
        (CLIENT.to_owned(), "credential=@limited-host", format!("the server shows a limited proxy of '{host}'")),
        (
            format!("{CLIENT};authorities=@revoked-hosts"),
            "credential=@revoked-host",
            format!("'{host}' was revoked by its authority"),
        ),
    ] {
        let (client, _) = refused(&client, server);
        assert!(client.to_string().contains(&reason), "{client}");
    }
}

#[test]
fn an_own_credential_of_no_use_is_refused_before_anybody_is_connected_to() {
    let grid = Grid::of_process();
    let anna = grid.signed("Anna", &[]);
    grid.write("expired", &grid.proxy(&anna, FULL, 2001));
    grid.write("readable", &anna);
    std::fs::set_permissions(grid.path("readable"), Permissions::from_mode(0o644)).unwrap();
    for (attributes, words) in [
        ("credential=@expired", "'/O=Grid/OU=Anna/CN=1' has expired: it was valid until 2001-01-01"),
        ("credential=@readable", "other users can read this private key; run: chmod 600 "),
        ("credential=@missing", "No such file"),
        ("credential=@proxy;key=@host", "the private key is not that of its first certificate"),
        ("key=@host", "the attribute 'key' needs 'credential'"),
    ] {
        let error = Handle::open(&stack(attributes), "127.0.0.1:9", &options()).unwrap_err().to_string();
        assert!(
            error.starts_with("driver gsi of the stack tcp,gsi: ") && error.contains(words),
            "{attributes}: {error}"
        );
        let error = Server::listen(&stack(attributes), "127.0.0.1:0").unwrap_err().to_string();
        assert!(error.contains(words), "{attributes}: {error}");
    }
    let error = Server::listen(&stack("credential=@host;name=x"), "127.0.0.1:0").unwrap_err().to_string();
    assert!(error.contains("'name' is for clients"), "{error}");
}

/// A relay to a server that ends the connection within the record that has this number, or behind it.
fn cutting(contact: String, records: usize, within: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(contact).unwrap();
        let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let upwards = thread::spawn(move || std::io::copy(&mut up, &mut down));
        for number in 1..=records {
            let mut head = [0; 5];
            server.read_exact(&mut head).unwrap();
            let mut body = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
            server.read_exact(&mut body).unwrap();
            let kept = if within && number == records { body.len() / 2 } else { body.len() };
            client.write_all(&[&head, &body[..kept]].concat()).unwrap();
        }
        client.shutdown(std::net::Shutdown::Both).unwrap();
        upwards.join().unwrap().unwrap();
    });
    own
}

#[test]
fn the_transports_end_is_the_end_between_two_records_unless_only_close_notify_is() {
    // Greeting, change of ciphers, four messages and Finished in records of their own, the flag; then the data.
    let handshake = handshake_records();
    for (attributes, within, is_end) in
        [("", false, true), ("", true, false), (";strict", false, false), (";strict", true, false)]
    {
        let client = format!("{CLIENT}{attributes}");
        let (client, server) = open_through(&client, SERVER, |contact| cutting(contact, handshake + 2, within));
        let (client, server) = (client.unwrap(), server.unwrap());
        server.write(b"first").unwrap();
        server.write(b"second").unwrap();
        let mut bytes = [0; 100];
        let read = client.read(&mut bytes, 100);
        match read {
            Ok(read) => assert!(is_end && read.info.end && read.bytes == 11, "{attributes}: {read:?}"),
            Err(error) => {
                assert!(!is_end && error.kind() == ErrorKind::Lost, "{attributes}: {error}");
                assert!(error.to_string().contains("the connection was cut"), "{error}");
            }
        }
    }
    // Our own ends say it.
    let (client, server) = pair(&format!("{CLIENT};strict"), SERVER);
    server.close().unwrap();
    assert!(client.read(&mut [0; 1], 1).unwrap().info.end);
}

/// How many records a server of ours sends until it is open.
fn handshake_records() -> usize {
    let server = listen(SERVER);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (contact, own) = (server.contact().unwrap(), listener.local_addr().unwrap().to_string());
    let accepting = thread::spawn(move || server.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap());
    let counting = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(contact).unwrap();
        let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut up, &mut down));
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = server.read(&mut piece) {
            bytes.extend_from_slice(&piece[..count]);
            if client.write_all(&piece[..count]).is_err() {
                break;
            }
        }
        let (mut at, mut records) = (0, 0);
        while at < bytes.len() {
            at += 5 + usize::from(u16::from_be_bytes([bytes[at + 3], bytes[at + 4]]));
            records += 1;
        }
        records
    });
    let client = Handle::open(&stack(CLIENT), &own, &options()).unwrap();
    let server = accepting.join().unwrap();
    // The kernel ends the connection: no record is sent for that.
    drop(server);
    drop(client);
    counting.join().unwrap()
}

#[test]
fn what_is_no_gsi_what_leaves_and_what_says_nothing_is_refused() {
    let outcome = |bytes: Option<&[u8]>| {
        let server = listen("credential=@host;handshake=50ms");
        let mut peer = TcpStream::connect(server.contact().unwrap()).unwrap();
        match bytes {
            Some(bytes) => peer.write_all(bytes).unwrap(),
            None => drop(peer.shutdown(std::net::Shutdown::Both)),
        }
        server.accept(Some(PATIENCE)).unwrap().open(&Options::default()).unwrap_err()
    };
    for (bytes, kind, words) in [
        (Some(&b"GET / HTTP/1.1\r\n\r\n"[..]), ErrorKind::Protocol, "no record of TLS"),
        // A token with its length before it, as programs of grids send it to delegate.
        (Some(&[0, 0, 1, 0, 22, 3, 1]), ErrorKind::Protocol, "no record of TLS"),
        (Some(&[22, 2, 0]), ErrorKind::Protocol, "an unknown version"),
        (Some(&[22, 3, 1, 0x41, 1]), ErrorKind::Protocol, "longer than any may be"),
        (Some(&[23, 3, 3, 0, 1, 0]), ErrorKind::Protocol, "TLS failed"),
        (Some(&[22, 3, 1, 0, 200, 1]), ErrorKind::TimedOut, "the GSI handshake was not finished in time"),
        (Some(&[]), ErrorKind::TimedOut, "the GSI handshake was not finished in time"),
        (None, ErrorKind::Lost, "the peer left during the GSI handshake"),
    ] {
        let error = outcome(bytes);
        assert_eq!(error.kind(), kind, "{bytes:?}: {error}");
        assert!(error.to_string().contains(words), "{bytes:?}: {error}");
    }
}
