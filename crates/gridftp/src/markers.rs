//! What servers say of a transfer while it runs: 111 names the ranges that are stored, 112 how many bytes have moved.
//!
//! Nobody but the server knows whether it is true: a marker decides where a transfer continues, never that a file is whole.

use crate::ranges::Range;
use crate::reply::Reply;

/// Most ranges of one marker.
pub const RANGES_MAX: usize = 4096;

/// A marker.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Marker {
    /// These bytes are stored.
    Stored(Vec<Range>),
    /// So many bytes have moved through a part of the server.
    Moved {
        /// Which part; servers of one machine have one.
        stripe: u16,
        /// How many.
        bytes: u64,
    },
    /// The server is at work.
    Alive,
}

impl Marker {
    /// What a preliminary reply says; `None` if it is a marker that cannot be read.
    pub fn of(reply: &Reply) -> Option<Self> {
        match reply.code {
            111 => ranges_of(reply).map(Self::Stored),
            112 => moved_of(reply),
            _ => Some(Self::Alive),
        }
    }
}

/// `111 Range Marker 0-29,30-89`.
fn ranges_of(reply: &Reply) -> Option<Vec<Range>> {
    let line = str::from_utf8(reply.lines.first()?).ok()?;
    let list = line.trim().rsplit(' ').next()?;
    let mut ranges = Vec::new();
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (start, end) = part.split_once('-')?;
        let range = Range { start: number(start)?, end: number(end)? };
        if range.start > range.end || ranges.len() == RANGES_MAX {
            return None;
        }
        ranges.push(range);
    }
    Some(ranges)
}

/// Lines such as ` Stripe Bytes Transferred: 12345`.
fn moved_of(reply: &Reply) -> Option<Marker> {
    let (mut stripe, mut bytes) = (0, None);
    for line in &reply.lines {
        let Ok(line) = str::from_utf8(line) else { continue };
        let Some((name, value)) = line.trim().split_once(':') else { continue };
        match name.trim().to_ascii_lowercase().as_str() {
            "stripe index" => stripe = u16::try_from(number(value.trim())?).ok()?,
            "stripe bytes transferred" => bytes = Some(number(value.trim())?),
            _ => {}
        }
    }
    Some(bytes.map_or(Marker::Alive, |bytes| Marker::Moved { stripe, bytes }))
}

fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(code: u16, lines: &[&str]) -> Option<Marker> {
        Marker::of(&Reply { code, lines: lines.iter().map(|line| line.as_bytes().to_vec()).collect() })
    }

    #[test]
    fn the_markers_of_globus_are_read() {
        let ranges = vec![Range { start: 0, end: 262_144 }, Range { start: 524_288, end: 786_432 }];
        assert_eq!(marker(111, &["Range Marker 0-262144,524288-786432"]), Some(Marker::Stored(ranges)));
        let lines = [
            "Perf Marker",
            " Timestamp:  1795639150.1",
            " Stripe Index: 1",
            " Stripe Bytes Transferred: 393216",
            " Total Stripe Count: 2",
            "End.",
        ];
        assert_eq!(marker(112, &lines), Some(Marker::Moved { stripe: 1, bytes: 393_216 }));
        assert_eq!(marker(112, &["Perf Marker"]), Some(Marker::Alive));
        assert_eq!(marker(113, &["whatever"]), Some(Marker::Alive));
    }

    #[test]
    fn nothing_that_is_no_number_is_believed() {
        for list in ["5", "5-", "-5", "9-5", "0-x", "0-5;7-9", "0-99999999999999999999", "+1-5"] {
            assert_eq!(marker(111, &[&format!("Range Marker {list}")]), None, "{list}");
        }
        assert_eq!(marker(111, &[&format!("Range Marker {}", "1-2,".repeat(RANGES_MAX + 1))]), None);
        for value in ["-1", "x", "99999999999999999999", ""] {
            assert_eq!(marker(112, &[&format!("Stripe Bytes Transferred: {value}")]), None, "{value}");
        }
    }
}
