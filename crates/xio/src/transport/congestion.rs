//! Congestion control by name.

use super::TransportError;
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt;
use std::io;
use std::os::fd::AsFd;

/// Controls that pace what they send. On loopback and between namespaces pacing makes small segments and wakes by
/// timer: 3.7 GB/s where `cubic` reached 7.9 (measured, one stream).
const PACING: &[&str] = &["bbr", "bbr2", "bbr3"];

/// What is picked within one host instead.
const LOCAL: &str = "cubic";

/// Where the kernel lists the controls that it has.
const LIST: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The control that a socket uses.
pub(super) fn current(socket: impl AsFd) -> io::Result<String> {
    Ok(sockopt::tcp_congestion(socket)?)
}

/// Sets the control that the caller named.
pub(super) fn set_named(socket: impl AsFd, name: &str) -> Result<(), TransportError> {
    match sockopt::set_tcp_congestion(socket, name) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::PERM | rustix::io::Errno::INVAL) => {
            Err(TransportError::Congestion { name: name.to_owned(), available: available() })
        }
        Err(error) => {
            Err(TransportError::Option { option: "congestion control", value: name.to_owned(), source: error.into() })
        }
    }
}

/// Picks the control for a connection within one host where the caller named none. To be called before the socket is
/// connected: the kernel goes on pacing a socket that once had a control that paces, and a receiver then spends twice
/// the processor time (seen as timers in its profile). A system without `cubic` keeps what it has: slower, not broken.
pub(super) fn set_local(socket: impl AsFd) {
    let paces = current(&socket).is_ok_and(|name| PACING.contains(&name.as_str()));
    if paces {
        let _ = sockopt::set_tcp_congestion(&socket, LOCAL);
    }
}

/// Gives a connection from elsewhere the system's own control where its listener had [`LOCAL`] instead.
pub(super) fn set_default(socket: impl AsFd, default: impl FnOnce() -> io::Result<String>) {
    if let Ok(name) = default()
        && PACING.contains(&name.as_str())
    {
        let _ = sockopt::set_tcp_congestion(&socket, &name);
    }
}

/// The controls that this user may name.
fn available() -> String {
    let list = read(LIST).unwrap_or_default();
    let list = list.split_whitespace().collect::<Vec<_>>().join(", ");
    if list.is_empty() { "the system does not tell".to_owned() } else { list }
}

/// The first kilobyte of a file of the kernel's: names of a few bytes each.
fn read(path: &str) -> io::Result<String> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = [0; 1024];
    let count = rustix::io::read(file, &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
}
