//! The source of a connection, as limits define it: an IPv4 address, or the IPv6 /56 that one
//! customer of a provider has. Anonymous users are named by it, so that they do not share limits.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use xdfs_io::transport::Peer;

/// The source of a connection for limits: an IPv4 address or an IPv6 /56 network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum SourceNetwork {
    /// One address.
    V4(Ipv4Addr),
    /// The first seven bytes of an address; the others are zero.
    V6(Ipv6Addr),
    /// A process of this host, over a Unix socket: the permissions of its name control access.
    Local,
}

impl SourceNetwork {
    /// The source of a peer; all peers without a known address are one source.
    pub fn of(peer: Option<&Peer>) -> Self {
        match peer {
            Some(Peer::Tcp(address)) => Self::of_address(address.ip()),
            Some(Peer::Unix) => Self::Local,
            None => Self::V6(Ipv6Addr::UNSPECIFIED),
        }
    }

    /// The source of an address; an IPv4-mapped IPv6 address counts as IPv4.
    pub fn of_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let mut octets = address.octets();
                octets[7..].fill(0);
                Self::V6(octets.into())
            }
        }
    }
}

impl fmt::Display for SourceNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => write!(f, "{address}/56"),
            Self::Local => f.write_str("local"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> SourceNetwork {
        SourceNetwork::of_address(text.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn one_source_is_one_address_or_one_56_of_ipv6() {
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_eq!(source("2001:db8:0:ff::1"), source("2001:db8:0:0:ffff::2"));
        assert_ne!(source("2001:db8:0:100::1"), source("2001:db8:0:ff::1"));
        assert_eq!(source("2001:db8:0:12ff::1").to_string(), "2001:db8:0:1200::/56");
    }
}
