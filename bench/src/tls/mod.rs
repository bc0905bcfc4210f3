//! The TLS bound: what two processes can move over plain rustls, and what a bare TLS 1.3 handshake costs.
//!
//! TLS 1.3 with AES-256-GCM by aws-lc-rs, an Ed25519 key, the groups that rustls prefers, writes of 256 KiB and no
//! limit of its buffer: rustls as fast as its documented interface goes. Nothing may be added here that a file transfer
//! needs and TLS does not. It listens on loopback only; the client takes the one certificate that it was given.

mod flow;
mod settings;

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use crate::bound::{self, Direction, Moved};
use crate::error::{Context, Error, Result};
use flow::Flow;

/// A peer that connects and says nothing must not hold the server.
const GREETING_SECONDS_MAX: u64 = 10;

/// A request: direction and number of bytes.
const REQUEST_BYTES: usize = 9;

/// The name in the certificate; nobody resolves it.
const NAME: &str = "localhost";

/// The server: handshakes one after the other, then a thread for each connection that wants bytes.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    config: Arc<ServerConfig>,
}

impl Server {
    /// Listens on `address`, which must be loopback, and writes its new certificate to `certificate`.
    pub fn listen(address: SocketAddr, certificate: &Path, congestion: &str) -> Result<Self> {
        let config = settings::server(certificate)?;
        Ok(Self { listener: bound::listen(address, congestion)?, config: Arc::new(config) })
    }

    /// The address with the real port.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().context(|| "address of the listener".to_owned())
    }

    /// Serves one connection. An error concerns that one only.
    pub fn serve_one(&self) -> Result<()> {
        let (stream, _) = self.listener.accept().context(|| "accept".to_owned())?;
        let greeting = || "deadline of the greeting".to_owned();
        stream.set_read_timeout(Some(Duration::from_secs(GREETING_SECONDS_MAX))).context(greeting)?;
        let connection = ServerConnection::new(Arc::clone(&self.config))?;
        let mut flow = Flow::open(Connection::Server(connection), stream)?;
        let mut request = [0; REQUEST_BYTES];
        if flow.read(&mut request[..1]).context(|| "request".to_owned())? == 0 {
            // A bare handshake: it is closed in order and asks for nothing.
            return Ok(());
        }
        flow.read_exact(&mut request[1..]).context(|| "request".to_owned())?;
        flow.socket().set_read_timeout(None).context(greeting)?;
        let bytes = u64::from_be_bytes(request[1..].try_into().unwrap_or_default());
        let upload = request[0] != 0;
        // In a thread, so that the channels of one client move beside each other. The number of clients is the bench's.
        thread::spawn(move || {
            if let Err(error) = answer(flow, upload, bytes) {
                eprintln!("tls-bound: {error}");
            }
        });
        Ok(())
    }
}

fn answer(mut flow: Flow, upload: bool, bytes: u64) -> Result<()> {
    if upload {
        let got = flow.receive(bytes)?;
        flow.write_all(&got.to_be_bytes())?;
    } else {
        flow.send(bytes)?;
    }
    flow.finish()
}

/// A client that knows the server's certificate.
#[derive(Debug, Clone)]
pub struct Client {
    address: SocketAddr,
    config: Arc<ClientConfig>,
    congestion: String,
}

impl Client {
    /// Reads the certificate that the server wrote.
    pub fn new(address: SocketAddr, certificate: &Path, congestion: &str) -> Result<Self> {
        let config = settings::client(certificate)?;
        Ok(Self { address, config: Arc::new(config), congestion: congestion.to_owned() })
    }

    /// Moves `bytes` of zeros over `channels` connections, each with a thread of its own.
    pub fn move_memory(&self, direction: Direction, channels: u32, bytes: u64) -> Result<Moved> {
        let started = Instant::now();
        let count = u64::from(channels);
        let moved: Result<Vec<u64>> = thread::scope(|scope| {
            let share = |index: u64| bytes / count + u64::from(index < bytes % count);
            let threads: Vec<_> =
                (0..count).map(|index| scope.spawn(move || self.move_share(direction, share(index)))).collect();
            let broken = || Error::Bound("lost a thread of its own");
            threads.into_iter().map(|thread| thread.join().map_err(|_| broken())?).collect()
        });
        if moved?.into_iter().sum::<u64>() != bytes {
            return Err(Error::Bound("moved another number of bytes than asked"));
        }
        Ok(Moved { bytes, seconds: started.elapsed().as_secs_f64() })
    }

    /// Connects, shakes hands and closes, `count` times, one after the other.
    pub fn handshakes(&self, count: u32) -> Result<f64> {
        let started = Instant::now();
        for _ in 0..count {
            self.connect()?.finish()?;
        }
        Ok(started.elapsed().as_secs_f64())
    }

    fn move_share(&self, direction: Direction, bytes: u64) -> Result<u64> {
        let mut flow = self.connect()?;
        let mut request = [0; REQUEST_BYTES];
        request[0] = u8::from(direction == Direction::Up);
        request[1..].copy_from_slice(&bytes.to_be_bytes());
        flow.write_all(&request)?;
        if direction == Direction::Down {
            return flow.receive(bytes);
        }
        flow.send(bytes)?;
        let mut got = [0; 8];
        flow.read_exact(&mut got).context(|| "wait for the acknowledgement".to_owned())?;
        Ok(u64::from_be_bytes(got))
    }

    fn connect(&self) -> Result<Flow> {
        let stream = TcpStream::connect(self.address).context(|| format!("connect to {}", self.address))?;
        sockopt::set_tcp_congestion(&stream, &self.congestion)
            .context(|| format!("congestion control {}", self.congestion))?;
        let name = ServerName::try_from(NAME).map_err(|_| Error::Bound("has no usable name"))?;
        Flow::open(Connection::Client(ClientConnection::new(Arc::clone(&self.config), name)?), stream)
    }
}
