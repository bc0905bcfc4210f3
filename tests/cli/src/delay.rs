//! A relay between client and server that makes the way longer: every byte arrives later, and nothing else changes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::{Relay, Server};

/// Bytes read at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces under way in one direction of one connection: 64 MiB, more than any sender here has unacknowledged.
const PIECES_MAX: usize = 256;

/// Passes every connection on to a server, each byte so much later. Accepts no more connections once this value is dropped.
#[derive(Debug)]
pub struct Delay {
    address: SocketAddr,
    host_key: String,
    closed: Arc<AtomicBool>,
}

impl Delay {
    /// A relay to `server` that takes `latency` for each direction.
    pub fn new(server: &Server, latency: Duration) -> Self {
        Self::to(server.address(), server.host_key(), latency)
    }

    /// The same to a server behind another relay.
    pub fn through(relay: &Relay, latency: Duration) -> Self {
        Self::to(&relay.address(), relay.host_key(), latency)
    }

    fn to(address: &str, host_key: &str, latency: Duration) -> Self {
        let target: SocketAddr = address.parse().expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let closed = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&closed);
        std::thread::spawn(move || accept_all(&listener, target, latency, &stop));
        Self { address, host_key: host_key.to_owned(), closed }
    }

    /// The URL of `path` in the export `export`, through the relay.
    pub fn url_in(&self, export: &str, path: &str) -> String {
        format!("xdfs://{}/{export}/{path}#{}", self.address, self.host_key)
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        // Wakes the accepting thread, which then sees the flag.
        drop(TcpStream::connect(self.address));
    }
}

fn accept_all(listener: &TcpListener, target: SocketAddr, latency: Duration, closed: &AtomicBool) {
    for client in listener.incoming().map_while(Result::ok) {
        if closed.load(Ordering::Acquire) {
            return;
        }
        // Dropping the client's connection tells it that the server is gone.
        let Ok(server) = TcpStream::connect(target) else { continue };
        for stream in [&client, &server] {
            stream.set_nodelay(true).expect("a TCP socket");
        }
        let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
        for (from, to) in [(clone(&client), clone(&server)), (server, client)] {
            let (send, arrive) = sync_channel(PIECES_MAX);
            std::thread::spawn(move || read_all(from, latency, &send));
            std::thread::spawn(move || write_all(to, &arrive));
        }
    }
}

/// Lets so much time pass: where the time itself is what is asked for, and no event tells that it is over.
pub fn pass(time: Duration) {
    // Nobody sends here, so it always takes the whole time.
    let (_sender, never) = sync_channel::<()>(1);
    assert_eq!(never.recv_timeout(time), Err(RecvTimeoutError::Timeout));
}

/// Bytes, and when they are due. No bytes: the end of the stream.
type Piece = (Instant, Vec<u8>);

fn read_all(mut from: TcpStream, latency: Duration, send: &SyncSender<Piece>) {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        // A connection that was reset ends as one that was closed.
        let count = from.read(&mut buffer).unwrap_or(0);
        if send.send((Instant::now() + latency, buffer[..count].to_vec())).is_err() || count == 0 {
            return;
        }
    }
}

fn write_all(mut to: TcpStream, arrive: &Receiver<Piece>) {
    while let Ok((due, piece)) = arrive.recv() {
        pass(due.saturating_duration_since(Instant::now()));
        if piece.is_empty() || to.write_all(&piece).is_err() {
            break;
        }
    }
    // The other direction may still carry an answer.
    let _ = to.shutdown(Shutdown::Write);
}
