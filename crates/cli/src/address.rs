//! From a host and a port to socket addresses, and the rule that holds until xSec: loopback only.
//!
//! The rule lives here and nowhere else; `require_loopback` is the line to remove. The libraries do not check it.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use crate::exit::{Exit, Failure};
use crate::plan::PlanError;
use crate::url::{Host, Url};

/// Refuses an address of another machine; `what` is what was typed.
pub(crate) fn require_loopback(address: IpAddr, what: &str) -> Result<(), PlanError> {
    // An IPv4 address in IPv6 form (::ffff:127.0.0.1) is the IPv4 address.
    if address.to_canonical().is_loopback() { Ok(()) } else { Err(PlanError::NotLoopback { what: what.to_owned() }) }
}

/// The addresses of a URL's server, in the order to try them. A name is looked up; all it stands for must be loopback.
pub(crate) fn resolve(url: &Url) -> Result<Vec<SocketAddr>, Failure> {
    match &url.host {
        Host::Address(address) => {
            require_loopback(*address, &url.to_string())?;
            Ok(vec![SocketAddr::new(*address, url.port)])
        }
        Host::Name(name) => {
            let unknown = |reason: String| {
                Failure::new(
                    Exit::ConnectionLost,
                    format!("{url}: the host {name} is not known ({reason}); check its name"),
                )
            };
            let addresses: Vec<SocketAddr> =
                (name.as_str(), url.port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?.collect();
            if addresses.is_empty() {
                return Err(unknown("it has no address".to_owned()));
            }
            for address in &addresses {
                require_loopback(address.ip(), &format!("{url} ({})", address.ip()))?;
            }
            Ok(addresses)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_pass() {
        for address in ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"] {
            assert!(require_loopback(address.parse().unwrap(), "x").is_ok(), "{address}");
        }
        for address in ["0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "fe80::1", "::ffff:10.0.0.1", "::ffff:0.0.0.0"] {
            let refused = require_loopback(address.parse().unwrap(), "x");
            assert_eq!(refused, Err(PlanError::NotLoopback { what: "x".to_owned() }), "{address}");
        }
    }
}
