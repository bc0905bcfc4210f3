//! Congestion control by name.

use super::TransportError;
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt;
use std::io;
use std::os::fd::AsFd;

/// Congestion controls with pacing. On loopback and between namespaces pacing makes small segments
/// and timer wake-ups: 3.7 GB/s where `cubic` reached 7.9 (measured, one stream).
const PACING: &[&str] = &["bbr", "bbr2", "bbr3"];

/// The control used within one host instead.
const LOCAL: &str = "cubic";

/// Where the kernel lists the available controls.
const LIST: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The control of a socket.
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

/// Selects the control for a connection within one host if the caller named none. Must be called
/// before the socket is connected: the kernel keeps pacing a socket that once had a control with
/// pacing, and a receiver then spends twice the processor time (seen as timers in its profile). A
/// system without `cubic` keeps its control: slower, but working.
pub(super) fn set_local(socket: impl AsFd) {
    let paces = current(&socket).is_ok_and(|name| PACING.contains(&name.as_str()));
    if paces {
        let _ = sockopt::set_tcp_congestion(&socket, LOCAL);
    }
}

/// Gives a connection from another host the system's own control if its listener had [`LOCAL`]
/// instead.
pub(super) fn set_default(socket: impl AsFd, default: impl FnOnce() -> io::Result<String>) {
    if let Ok(name) = default()
        && PACING.contains(&name.as_str())
    {
        let _ = sockopt::set_tcp_congestion(&socket, &name);
    }
}

/// The controls that this user may select.
fn available() -> String {
    let list = read(LIST).unwrap_or_default();
    let list = list.split_whitespace().collect::<Vec<_>>().join(", ");
    if list.is_empty() { "the system does not tell".to_owned() } else { list }
}

/// The first kilobyte of a kernel file: names of a few bytes each.
fn read(path: &str) -> io::Result<String> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = [0; 1024];
    let count = rustix::io::read(file, &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
}
