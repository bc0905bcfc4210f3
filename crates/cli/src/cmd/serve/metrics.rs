//! The socket of the metrics: opened before the process is confined, answered by one thread
//! (`xdfs_server::metrics`), and handed over with the listener.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::JoinHandle;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use xdfs_server::ServerHandle;
use xdfs_server::metrics::{HttpLimits, MetricsPlace, serve};

use super::fixed::Fixed;
use crate::exit::{Exit, Failure};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 16;

/// The socket of the metrics, if they are answered: that of the process that hands over, or a new one.
pub(super) fn take(fixed: &Fixed, inherited: Option<OwnedFd>) -> Result<Option<OwnedFd>, Failure> {
    let Some(place) = &fixed.metrics else { return Ok(None) };
    inherited.map_or_else(|| open(place), Ok).map(Some)
}

/// Answers on the socket, if there is one.
pub(super) fn answer(socket: Option<OwnedFd>, handle: &ServerHandle) -> Result<Option<Answering>, Failure> {
    let answering = socket.map(|socket| Answering::start(socket, handle.clone())).transpose();
    answering.map_err(|error| Failure::new(Exit::Local, format!("--metrics: {error}")))
}

/// Opens the socket.
fn open(place: &MetricsPlace) -> Result<OwnedFd, Failure> {
    let opened = match place {
        MetricsPlace::Unix(path) => open_unix(path),
        MetricsPlace::Tcp(address) => open_tcp(address),
    };
    opened.map_err(|error| {
        let text = format!("--metrics {place}: {}", std::io::Error::from(error));
        Failure::new(Exit::Local, text).help("name another place, or stop what listens there")
    })
}

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

fn open_tcp(address: &SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, FLAGS, None)?;
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn open_unix(path: &Path) -> Result<OwnedFd, Errno> {
    // What an earlier server left; a socket that somebody listens to stays, and so does anything else.
    let is_socket = path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    {
        rustix::fs::unlink(path)?;
    }
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // Nobody can connect before it listens.
    rustix::fs::chmod(path, Mode::from_raw_mode(0o660))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// The thread that answers; it stops when this is dropped, which waits for who is connected then: a second at most.
#[derive(Debug)]
pub(super) struct Answering {
    socket: OwnedFd,
    running: Option<(UnixStream, JoinHandle<()>)>,
}

impl Answering {
    /// Answers with the figures of the server behind `handle`.
    pub(super) fn start(socket: OwnedFd, handle: ServerHandle) -> std::io::Result<Self> {
        let (running, stopped) = UnixStream::pair()?;
        let listener = socket.as_fd().try_clone_to_owned()?;
        let thread = std::thread::Builder::new().name("xdfs-metrics".into()).spawn(move || {
            let figures = || handle.figures().map(|figures| figures.to_text());
            serve(&listener, &stopped.into(), HttpLimits::default(), figures);
        })?;
        Ok(Self { socket, running: Some((running, thread)) })
    }

    /// The socket, for the process that takes over.
    pub(super) const fn socket(&self) -> &OwnedFd {
        &self.socket
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let Some((running, thread)) = self.running.take() {
            drop(running);
            // A panic in it was said by the runtime.
            let _ = thread.join();
        }
    }
}
