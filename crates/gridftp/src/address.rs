//! Addresses of data channels: the answers to PASV and EPSV are read, the arguments of PORT and EPRT
//! are written (RFC 959, RFC 2428).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::reply::Reply;
use crate::text::printable;

/// Why the address of a data channel is not used.
#[derive(Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum AddressError {
    /// No address can be read.
    #[error("the server names no address for the data channel: '{0}'")]
    Unreadable(String),
    /// A privileged port or 0: a server that asks us to connect there wants to reach another service.
    #[error("the server names port {0} for the data channel; ports below 1024 are refused")]
    Port(u16),
    /// A third host.
    #[error(
        "the server names {named} for the data channel, but its control channel is at {control}; \
         data goes to no third host"
    )]
    Foreign {
        /// The address in the reply.
        named: IpAddr,
        /// The address of the control channel.
        control: IpAddr,
    },
}

/// The address in a reply to PASV (227), which must be that of the control channel.
///
/// # Errors
/// If it is none, or another host's.
pub fn of_pasv(reply: &Reply, control: IpAddr) -> Result<SocketAddr, AddressError> {
    let unreadable = || AddressError::Unreadable(reply.shown());
    let line = reply.lines.last().ok_or_else(unreadable)?;
    // Servers differ in brackets and full stops; the six numbers are the first digits of the text.
    let start = line.iter().position(u8::is_ascii_digit).ok_or_else(unreadable)?;
    let rest = &line[start..];
    let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b',').unwrap_or(rest.len());
    let text = str::from_utf8(&rest[..end]).map_err(|_| unreadable())?;
    let numbers: Vec<u8> = text.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| unreadable())?;
    let [a, b, c, d, high, low] = numbers[..] else { return Err(unreadable()) };
    let named = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
    if named != control.to_canonical() {
        return Err(AddressError::Foreign { named, control });
    }
    checked(control, u16::from_be_bytes([high, low]))
}

/// The address in a reply to EPSV (229): a port of the control channel's host.
///
/// # Errors
/// If it is none, or another host's.
pub fn of_epsv(reply: &Reply, control: IpAddr) -> Result<SocketAddr, AddressError> {
    let unreadable = || AddressError::Unreadable(reply.shown());
    let line = reply.lines.last().ok_or_else(unreadable)?;
    let start = line.iter().position(|&byte| byte == b'(').ok_or_else(unreadable)? + 1;
    let end = start + line[start..].iter().position(|&byte| byte == b')').ok_or_else(unreadable)?;
    let inner = &line[start..end];
    let delimiter = *inner.first().filter(|byte| byte.is_ascii_punctuation()).ok_or_else(unreadable)?;
    let parts: Vec<&[u8]> = inner.split(|&byte| byte == delimiter).collect();
    let [b"", _, host, port, b""] = parts[..] else { return Err(unreadable()) };
    if !host.is_empty() {
        let named = str::from_utf8(host).ok().and_then(|host| host.parse::<IpAddr>().ok());
        let named = named.ok_or_else(|| AddressError::Unreadable(printable(host)))?;
        if named.to_canonical() != control.to_canonical() {
            return Err(AddressError::Foreign { named, control });
        }
    }
    let digits = str::from_utf8(port).ok().filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let port = digits.and_then(|port| port.parse().ok()).ok_or_else(unreadable)?;
    checked(control, port)
}

fn checked(control: IpAddr, port: u16) -> Result<SocketAddr, AddressError> {
    if port < 1024 {
        return Err(AddressError::Port(port));
    }
    Ok(SocketAddr::new(control, port))
}

/// How far an address leads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Reach {
    /// The machine that uses it.
    Machine,
    /// One link, or nowhere.
    Link,
    /// A private network.
    Network,
    /// Everywhere.
    World,
}

fn reach(ip: IpAddr) -> Reach {
    match ip.to_canonical() {
        ip if ip.is_loopback() => Reach::Machine,
        ip if ip.is_unspecified() || ip.is_multicast() => Reach::Link,
        IpAddr::V4(ip) if ip.is_link_local() || ip.is_broadcast() => Reach::Link,
        IpAddr::V4(ip) if ip.is_private() => Reach::Network,
        IpAddr::V6(ip) if ip.is_unicast_link_local() => Reach::Link,
        IpAddr::V6(ip) if ip.is_unique_local() => Reach::Network,
        _ => Reach::World,
    }
}

/// Whether a server at `source` may be told to connect to one at `target`, both as we reach them: the address must
/// mean the same machine there as here. Otherwise a server would be sent to a service of its own machine or network.
pub fn may_be_sent_to(source: IpAddr, target: IpAddr) -> bool {
    match reach(target) {
        Reach::World => true,
        Reach::Link => false,
        private => reach(source) == private,
    }
}

/// The argument of PORT.
pub fn port_argument(ip: Ipv4Addr, port: u16) -> String {
    let ([a, b, c, d], [high, low]) = (ip.octets(), port.to_be_bytes());
    format!("{a},{b},{c},{d},{high},{low}")
}

/// The argument of EPRT.
pub fn eprt_argument(address: SocketAddr) -> String {
    let ip = address.ip().to_canonical();
    let family = if ip.is_ipv4() { 1 } else { 2 };
    format!("|{family}|{ip}|{}|", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_server_is_sent_to_where_an_address_means_another_machine() {
        let may = |source: &str, target: &str| may_be_sent_to(source.parse().unwrap(), target.parse().unwrap());
        for (source, target) in [
            ("127.0.0.1", "127.0.0.1"),
            ("::1", "127.0.0.2"),
            ("192.0.2.1", "198.51.100.7"),
            ("10.0.0.1", "198.51.100.7"),
            ("10.0.0.1", "10.9.0.1"),
            ("fd00::1", "fd00::2"),
            ("2001:db8::1", "2001:db8::2"),
        ] {
            assert!(may(source, target), "{source} {target}");
        }
        for (source, target) in [
            ("192.0.2.1", "127.0.0.1"),
            ("10.0.0.1", "127.0.0.1"),
            ("192.0.2.1", "10.0.0.1"),
            ("127.0.0.1", "192.168.1.1"),
            ("192.0.2.1", "169.254.169.254"),
            ("169.254.1.1", "169.254.169.254"),
            ("fe80::1", "fe80::2"),
            ("2001:db8::1", "::1"),
            ("2001:db8::1", "fd00::2"),
            ("192.0.2.1", "::ffff:127.0.0.1"),
            ("192.0.2.1", "0.0.0.0"),
            ("192.0.2.1", "255.255.255.255"),
            ("192.0.2.1", "224.0.0.1"),
        ] {
            assert!(!may(source, target), "{source} {target}");
        }
    }

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn reply(text: &str) -> Reply {
        Reply { code: 227, lines: vec![text.as_bytes().to_vec()] }
    }

    #[test]
    fn the_answers_of_real_servers_are_read() {
        let pasv = |text| of_pasv(&reply(text), HERE).map(|address| address.port());
        assert_eq!(pasv("Entering Passive Mode (127,0,0,1,187,43)"), Ok(47_915));
        assert_eq!(pasv("Entering Passive Mode (127,0,0,1,105,81)."), Ok(26_961));
        assert_eq!(pasv("=127,0,0,1,4,0"), Ok(1024));
        let epsv = |text| of_epsv(&reply(text), HERE).map(|address| address.port());
        assert_eq!(epsv("Entering Extended Passive Mode (|||32817|)"), Ok(32_817));
        assert_eq!(epsv("x (|1|127.0.0.1|32817|)"), Ok(32_817));
    }

    #[test]
    fn a_third_host_is_refused() {
        let foreign = |result| matches!(result, Err(AddressError::Foreign { .. }));
        assert!(foreign(of_pasv(&reply("(10,0,0,1,187,43)"), HERE)));
        assert!(foreign(of_epsv(&reply("(|1|10.0.0.1|32817|)"), HERE)));
        assert!(foreign(of_epsv(&reply("(|2|::1|32817|)"), HERE)));
        let mapped: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        assert!(of_pasv(&reply("(127,0,0,1,187,43)"), mapped).is_ok());
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "()", "(127,0,0,1,1)", "(127,0,0,1,1,256)", "(127,0,0,1,1,2,3)", "(1270,0,0,1,1,2)", "(,,,,,)"]
        {
            assert!(matches!(of_pasv(&reply(text), HERE), Err(AddressError::Unreadable(_))), "{text}");
        }
        for text in
            ["", "()", "(|||)", "(||||)", "(|||70000|)", "(|||+2000|)", "(|||2000)", "(|||2000|x|)", "(a||a2000a)"]
        {
            assert!(matches!(of_epsv(&reply(text), HERE), Err(AddressError::Unreadable(_))), "{text}");
        }
        assert_eq!(of_epsv(&reply("(|||22|)"), HERE), Err(AddressError::Port(22)));
        assert_eq!(of_pasv(&reply("(127,0,0,1,0,0)"), HERE), Err(AddressError::Port(0)));
    }

    #[test]
    fn our_own_addresses_are_written() {
        assert_eq!(port_argument(Ipv4Addr::LOCALHOST, 47_915), "127,0,0,1,187,43");
        assert_eq!(eprt_argument("[::1]:2000".parse().unwrap()), "|2|::1|2000|");
        assert_eq!(eprt_argument("[::ffff:127.0.0.1]:2000".parse().unwrap()), "|1|127.0.0.1|2000|");
    }
}
