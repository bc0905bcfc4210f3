//! The transports by name, in one readable table. No code runs before `main` to fill it.

use super::{Address, Link, TransportError, TransportOptions, tcp, unix};

/// How a transport is opened.
#[derive(Clone, Copy, Debug)]
pub struct Transport {
    /// The name in options and messages.
    pub name: &'static str,
    /// Starts listening.
    pub listen: fn(&Address, &TransportOptions) -> Result<Link, TransportError>,
    /// Starts connecting.
    pub connect: fn(&Address, &TransportOptions) -> Result<Link, TransportError>,
}

/// Every transport of this crate.
pub const TRANSPORTS: &[Transport] = &[
    Transport { name: "tcp", listen: tcp::listen, connect: tcp::connect },
    Transport { name: "unix", listen: unix::listen, connect: unix::connect },
];

/// The transport of that name.
pub fn transport(name: &str) -> Option<&'static Transport> {
    TRANSPORTS.iter().find(|transport| transport.name == name)
}
