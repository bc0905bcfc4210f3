//! Resolves a host and a port to socket addresses. Nothing here connects.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::exit::{Exit, Failure};
use crate::url::{Host, Url};

/// The addresses of a URL's server, in the order to try them. A name is resolved.
pub(crate) fn resolve(url: &Url) -> Result<Vec<SocketAddr>, Failure> {
    match &url.host {
        Host::Address(address) => Ok(vec![SocketAddr::new(*address, url.port)]),
        Host::Name(name) => {
            let unknown = |reason: String| {
                Failure::new(Exit::ConnectionLost, format!("{url}: the host {name} is not known ({reason})"))
                    .help(format!("check its name: getent hosts {name}"))
            };
            let addresses: Vec<SocketAddr> =
                (name.as_str(), url.port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?.collect();
            if addresses.is_empty() {
                return Err(unknown("it has no address".to_owned()));
            }
            Ok(addresses)
        }
    }
}
