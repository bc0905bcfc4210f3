//! The lines of the file of known hosts: `HOST:PORT SHA256:KEY SECONDS`.
//!
//! A line that cannot be parsed could be the one with the right key, so it is an error and never
//! skipped.

use super::{HostName, Remembered};
use std::collections::BTreeMap;
use std::fmt;

/// Why a file is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadLine {
    /// The line cannot be parsed.
    Unknown(usize),
    /// The line names a server again.
    Again(usize),
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(number) => write!(f, "line {number} is not understood; correct or remove it"),
            Self::Again(number) => write!(f, "line {number} names a server again"),
        }
    }
}

/// Formats the file.
pub fn write(hosts: &BTreeMap<HostName, Remembered>) -> String {
    let mut text = String::from("# Servers and their keys: HOST:PORT SHA256:KEY SECONDS. See 'xdfs trust'.\n");
    for (host, remembered) in hosts {
        text.push_str(&format!("{host} {} {}\n", remembered.fingerprint, remembered.since));
    }
    text
}

/// Parses the file.
pub fn read(text: &str) -> Result<BTreeMap<HostName, Remembered>, BadLine> {
    let mut hosts = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (host, remembered) = parse(line).ok_or(BadLine::Unknown(number))?;
        if hosts.insert(host, remembered).is_some() {
            return Err(BadLine::Again(number));
        }
    }
    Ok(hosts)
}

fn parse(line: &str) -> Option<(HostName, Remembered)> {
    let mut words = line.split_whitespace();
    let (host, fingerprint, since) = (words.next()?, words.next()?, words.next()?);
    let (name, port) = host.rsplit_once(':')?;
    let name = HostName::new(name, port.parse().ok()?);
    let remembered = Remembered { fingerprint: fingerprint.parse().ok()?, since: since.parse().ok()? };
    (words.next().is_none() && name.0 == host).then_some((name, remembered))
}
