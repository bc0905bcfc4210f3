//! TCP sockets of a process, as the kernel lists them: a test learns the ports that nobody tells it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::process::Pid;

/// The state of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpState {
    /// It is a connection.
    Established,
    /// It waits for connections.
    Listening,
}

/// The addresses of the process's own ends of its sockets that are in this state.
pub fn tcp_sockets(process: Pid, state: TcpState) -> Vec<SocketAddr> {
    let of_process = format!("/proc/{}", process.as_raw_nonzero());
    let descriptors = std::fs::read_dir(format!("{of_process}/fd")).into_iter().flatten().flatten();
    let links: Vec<String> = descriptors
        .filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok())
        .map(|link| link.to_string_lossy().into_owned())
        .collect();
    let state = match state {
        TcpState::Established => "01",
        TcpState::Listening => "0A",
    };
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        // A process that has ended has none.
        let text = std::fs::read_to_string(format!("{of_process}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if fields[3] == state && links.contains(&format!("socket:[{}]", fields[9])) {
                found.push(address(fields[1]));
            }
        }
    }
    found
}

/// `0100007F:0AF0`: words of 32 bits in the order of this machine, and a port.
fn address(text: &str) -> SocketAddr {
    let (ip, port) = text.split_once(':').expect("an address and a port");
    let word = |index: usize| {
        let digits = &ip[8 * index..8 * index + 8];
        u32::from_str_radix(digits, 16).expect("hexadecimal").to_ne_bytes()
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0))),
        _ => {
            let mut bytes = [0; 16];
            for (index, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(index));
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
    };
    SocketAddr::new(ip, u16::from_str_radix(port, 16).expect("hexadecimal"))
}
