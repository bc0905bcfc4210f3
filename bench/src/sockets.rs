//! What the kernel says about sockets: who listens, what crossed the network, how even the channels are.
//!
//! A program that counts zeros instead of sending them is caught here: in a network of our own the IP layer's octet
//! counter must have grown by at least the payload.

use std::collections::HashMap;
use std::fs;
use std::process::Command;

use serde::Serialize;

use crate::stats;

/// TCP states of /proc/net/tcp.
const ESTABLISHED: &str = "01";
const LISTEN: &str = "0A";

/// True when some process listens on `port`.
pub fn listens(port: u16) -> bool {
    count(port, LISTEN) > 0
}

/// Connections of a server: established sockets whose own port is `port`.
pub fn established(port: u16) -> usize {
    count(port, ESTABLISHED)
}

fn count(port: u16, state: &str) -> usize {
    let matching = |text: String| {
        let wanted = |line: &&str| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let own = fields.next().and_then(|address| address.rsplit(':').next());
            let own = own.and_then(|port| u16::from_str_radix(port, 16).ok());
            own == Some(port) && fields.nth(1) == Some(state)
        };
        text.lines().skip(1).filter(wanted).count()
    };
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().filter_map(|path| fs::read_to_string(path).ok()).map(matching).sum()
}

/// Octets received by the IP layer of this network so far, heads included.
pub fn octets() -> u64 {
    let text = fs::read_to_string("/proc/net/netstat").unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let position = names.split(' ').position(|name| name == "InOctets");
    position.and_then(|at| values.split(' ').nth(at)?.parse().ok()).unwrap_or(0)
}

/// Payload bytes that each connection of this network has carried so far, in its heavier direction, largest first.
pub fn carried() -> Vec<u64> {
    let output = Command::new("ss").args(["-tinHO", "state", "connected"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    parse_carried(&text)
}

fn parse_carried(text: &str) -> Vec<u64> {
    let mut connections: HashMap<(String, String), u64> = HashMap::new();
    for line in text.lines() {
        let mut addresses = line.split_ascii_whitespace().filter(|word| is_address(word));
        let (Some(own), Some(peer)) = (addresses.next(), addresses.next()) else { continue };
        // Both ends of a connection are in this network: they are one entry.
        let key = if own < peer { (own.to_owned(), peer.to_owned()) } else { (peer.to_owned(), own.to_owned()) };
        let acked = value(line, "bytes_acked:").max(value(line, "bytes_received:"));
        let entry = connections.entry(key).or_default();
        *entry = acked.max(*entry);
    }
    let mut carried: Vec<u64> = connections.into_values().collect();
    carried.sort_unstable_by(|a, b| b.cmp(a));
    carried
}

/// 127.0.0.1:80 or [::1]:80; the figures of TCP look like name:value.
fn is_address(word: &str) -> bool {
    word.rsplit_once(':').is_some_and(|(host, port)| {
        port.parse::<u16>().is_ok() && (host.starts_with('[') || host.split('.').count() == 4)
    })
}

fn value(line: &str, name: &str) -> u64 {
    let word = line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name));
    word.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// How evenly the channels share the work, from one look at about half time.
#[derive(Debug, Clone, Serialize)]
pub struct Fairness {
    /// Share of the payload that had been carried when the look was taken.
    pub at: f64,
    /// Jain's index over the channels: 1 when all are equal, 1/n when one has all.
    pub jain: f64,
    /// The smallest channel in multiples of the mean.
    pub least_share: f64,
    /// Connections that carried something.
    pub connections: usize,
}

/// Picks the look nearest to half time. `looks` are the results of [`carried`] during one transfer of `bytes`.
pub fn fairness(looks: &[Vec<u64>], channels: u32, bytes: u64) -> Option<Fairness> {
    let share = |look: &Vec<u64>| look.iter().take(channels as usize).sum::<u64>() as f64 / bytes as f64;
    let distance = |look: &&Vec<u64>| (share(look) - 0.5).abs();
    let look = looks.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let at = share(look);
    // Before a quarter or after three quarters nothing can be said about half time.
    if !(0.25..=0.75).contains(&at) {
        return None;
    }
    let mut shares: Vec<f64> = look.iter().take(channels as usize).map(|bytes| *bytes as f64).collect();
    shares.resize(channels as usize, 0.0);
    let mean = shares.iter().sum::<f64>() / f64::from(channels);
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let connections = look.iter().filter(|bytes| **bytes > 0).count();
    Some(Fairness { at, jain: stats::jain(&shares), least_share: least / mean, connections })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_ENDS: &str = "ESTAB 0 0 127.0.0.1:5000 127.0.0.1:40000 cubic rto:201 bytes_sent:10 bytes_acked:10 bytes_received:900\n\
                            ESTAB 0 0 127.0.0.1:40000 127.0.0.1:5000 cubic mss:65483 bytes_sent:950 bytes_acked:901 bytes_received:10\n\
                            ESTAB 0 0 127.0.0.1:40002 127.0.0.1:5000 cubic bytes_acked:700\n";

    #[test]
    fn both_ends_of_a_connection_count_once() {
        assert_eq!(parse_carried(TWO_ENDS), vec![901, 700]);
    }

    #[test]
    fn a_channel_that_carried_nothing_lowers_the_index() {
        let looks = [vec![500, 0], vec![250, 250]];
        let even = fairness(&looks[1..], 2, 1000).expect("half time");
        let uneven = fairness(&looks[..1], 2, 1000).expect("half time");
        assert!((even.jain - 1.0).abs() < 1e-9 && (even.least_share - 1.0).abs() < 1e-9);
        assert!((uneven.jain - 0.5).abs() < 1e-9 && uneven.least_share == 0.0);
    }

    #[test]
    fn a_look_far_from_half_time_says_nothing() {
        assert!(fairness(&[vec![10, 10]], 2, 1000).is_none());
    }
}
