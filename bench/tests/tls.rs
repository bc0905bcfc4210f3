//! The TLS bound moves what it says it moves, and talks to nobody but the server whose certificate it was given.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use xdfs_bench::bound::{self, Direction};
use xdfs_bench::tls::{Client, Server};

fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("tls-{name}-{}", std::process::id()));
    fs::create_dir_all(&path).expect("directory of the test");
    path
}

/// A server for exactly `connections` connections, and a client that trusts `trusted`.
fn pair(certificate: &Path, trusted: &Path, connections: usize) -> (Client, thread::JoinHandle<Vec<bool>>) {
    let server = Server::listen(bound::any_port(), certificate, "cubic").expect("listen");
    let client = Client::new(server.address().expect("address"), trusted, "cubic").expect("client");
    (client, thread::spawn(move || (0..connections).map(|_| server.serve_one().is_ok()).collect()))
}

#[test]
fn every_byte_moves_over_several_connections_and_handshakes_ask_for_nothing() {
    let directory = directory("memory");
    let certificate = directory.join("certificate");
    let (client, server) = pair(&certificate, &certificate, 3 + 2 + 4);
    // Odd on purpose: no multiple of a block or of the number of connections.
    for (direction, channels, bytes) in [(Direction::Up, 3, 1_000_003), (Direction::Down, 2, 700_001)] {
        assert_eq!(client.move_memory(direction, channels, bytes).expect("move").bytes, bytes);
    }
    assert!(client.handshakes(4).expect("handshakes") > 0.0);
    assert_eq!(server.join().expect("server"), [true; 9]);
    fs::remove_dir_all(directory).expect("clean");
}

#[test]
fn a_server_with_another_certificate_is_not_talked_to() {
    let directory = directory("other");
    let (certificate, other) = (directory.join("certificate"), directory.join("other"));
    drop(Server::listen(bound::any_port(), &other, "cubic").expect("another server"));
    let (client, server) = pair(&certificate, &other, 1);
    assert!(client.handshakes(1).is_err());
    assert_eq!(server.join().expect("server"), [false]);
    fs::remove_dir_all(directory).expect("clean");
}
