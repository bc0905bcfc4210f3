//! The bound program: what two processes can move over TCP when there is no protocol at all.
//!
//! It does the cheapest thing this kernel offers and nothing else: no checks, no restart, no login. Every figure of
//! xdfs is a fraction of this one, so nothing may be added here that a file transfer needs and the kernel does not.
//! It binds to loopback only and opens only plain names inside one directory.

mod file;
mod memory;
mod request;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::error::{Context, Error, Result};
pub use request::{BLOCK_MAX, CHANNELS_MAX, Direction, Job, Request};

/// Connections the kernel keeps while the server accepts; a dropped SYN would cost a whole second.
const BACKLOG: i32 = 4096;

/// A peer that connects and says nothing must not hold the server.
const GREETING_SECONDS_MAX: u64 = 10;

/// What one transfer moved and how long it took, from the first connect to the last acknowledgement.
#[derive(Debug, Clone, Copy)]
pub struct Moved {
    /// Payload bytes.
    pub bytes: u64,
    /// Seconds by the client's clock.
    pub seconds: f64,
}

/// The server: one request after the other, on one thread.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    directory: Option<PathBuf>,
    congestion: String,
}

impl Server {
    /// Listens on `address`, which must be loopback; files are served from `directory` alone, and not at all without.
    pub fn listen(address: SocketAddr, directory: Option<PathBuf>, congestion: &str) -> Result<Self> {
        Ok(Self { listener: listen(address, congestion)?, directory, congestion: congestion.to_owned() })
    }

    /// The address with the real port.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().context(|| "address of the listener".to_owned())
    }

    /// Serves one client. An error concerns that client only.
    pub fn serve_one(&self) -> Result<()> {
        let (first, _) = self.listener.accept().context(|| "accept".to_owned())?;
        first
            .set_read_timeout(Some(Duration::from_secs(GREETING_SECONDS_MAX)))
            .context(|| "deadline of the greeting".to_owned())?;
        let request = Request::read(&mut &first)?;
        first.set_read_timeout(None).context(|| "deadline of the greeting".to_owned())?;
        match &request.job {
            Job::Memory { channels, bytes } => {
                let mut streams = vec![first];
                while streams.len() < *channels as usize {
                    streams.push(self.listener.accept().context(|| "accept".to_owned())?.0);
                }
                let block = request.block as usize;
                match request.direction {
                    Direction::Down => memory::send(&streams, *bytes, block),
                    Direction::Up => memory::receive(&streams, block).and_then(|got| memory::tell(&streams[0], got)),
                }
            }
            Job::File { name, bytes } => {
                let path = self.inside(name)?;
                match request.direction {
                    Direction::Down => file::send(&first, &path, true).map(drop),
                    Direction::Up => file::receive(&first, &path, *bytes, request.block as usize)
                        .and_then(|()| memory::tell(&first, *bytes)),
                }
            }
        }
    }

    /// The congestion control this server's connections use.
    pub fn congestion(&self) -> &str {
        &self.congestion
    }

    fn inside(&self, name: &str) -> Result<PathBuf> {
        let plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
        match (&self.directory, plain) {
            (Some(directory), true) => Ok(directory.join(name)),
            (None, _) => Err(Error::Bound("asked for a file, and no directory is served")),
            (_, false) => Err(Error::Bound("asked for a name that is not a plain file name")),
        }
    }
}

/// Moves `bytes` of zeros over `channels` connections, one epoll loop on each side.
pub fn move_memory(
    address: SocketAddr,
    direction: Direction,
    channels: u32,
    bytes: u64,
    block: u32,
    congestion: &str,
) -> Result<Moved> {
    let started = Instant::now();
    let mut streams = Vec::with_capacity(channels as usize);
    for index in 0..channels {
        let stream = connect(address, congestion)?;
        if index == 0 {
            Request { job: Job::Memory { channels, bytes }, direction, block }.write(&mut &stream)?;
        }
        streams.push(stream);
    }
    let moved = match direction {
        Direction::Down => memory::receive(&streams, block as usize)?,
        Direction::Up => {
            memory::send(&streams, bytes, block as usize)?;
            memory::hear(&streams[0])?
        }
    };
    if moved != bytes {
        return Err(Error::Bound("moved another number of bytes than asked"));
    }
    Ok(Moved { bytes, seconds: started.elapsed().as_secs_f64() })
}

/// Sends the file `local` to `name` on the server, or fetches it, over one connection.
pub fn move_file(
    address: SocketAddr,
    direction: Direction,
    local: &Path,
    name: &str,
    block: u32,
    congestion: &str,
) -> Result<Moved> {
    let started = Instant::now();
    let bytes = match direction {
        Direction::Up => std::fs::metadata(local).context(|| local.display().to_string())?.len(),
        Direction::Down => 0,
    };
    let stream = connect(address, congestion)?;
    Request { job: Job::File { name: name.to_owned(), bytes }, direction, block }.write(&mut &stream)?;
    let moved = match direction {
        Direction::Up => {
            let sent = file::send(&stream, local, false)?;
            if memory::hear(&stream)? != sent {
                return Err(Error::Bound("stored another number of bytes than sent"));
            }
            sent
        }
        Direction::Down => {
            let bytes = memory::hear(&stream)?;
            file::receive(&stream, local, bytes, block as usize)?;
            bytes
        }
    };
    Ok(Moved { bytes: moved, seconds: started.elapsed().as_secs_f64() })
}

/// A listener on a loopback address, with `congestion` for all its connections.
pub fn listen(address: SocketAddr, congestion: &str) -> Result<TcpListener> {
    if !address.ip().is_loopback() {
        return Err(Error::Bound("must be on loopback: this program has no login"));
    }
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let listening = || format!("listen on {address}");
    let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).context(listening)?;
    sockopt::set_socket_reuseaddr(&socket, true).context(listening)?;
    sockopt::set_tcp_congestion(&socket, congestion).context(|| format!("congestion control {congestion}"))?;
    net::bind(&socket, &address).context(listening)?;
    net::listen(&socket, BACKLOG).context(listening)?;
    Ok(TcpListener::from(socket))
}

/// Default address of a server: any free port of the loopback interface.
pub fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn connect(address: SocketAddr, congestion: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).context(|| format!("connect to {address}"))?;
    sockopt::set_tcp_congestion(&stream, congestion).context(|| format!("congestion control {congestion}"))?;
    Ok(stream)
}
