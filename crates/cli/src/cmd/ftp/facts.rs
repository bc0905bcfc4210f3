//! Facts of names as FTP servers say them, as the rest of the command knows them.

use jiff::Unit;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use xdfs_client::Facts;
use xdfs_client::wire::{Attributes, FileType};
use xdfs_gridftp::listing::{Entry, Kind};
use xdfs_proto::base::Timestamp;

/// The attributes of an entry.
pub(in crate::cmd) fn attributes_of(entry: &Entry) -> Attributes<'_> {
    let kind = match entry.kind {
        Kind::File => FileType::Regular,
        Kind::Directory | Kind::Itself => FileType::Directory,
        Kind::Other => FileType::Other,
    };
    let modified = entry.modified.and_then(seconds_of).map(|seconds| Timestamp::new(seconds, 0));
    Attributes { mode: entry.mode, size: entry.size, modified, ..Attributes::of(kind) }
}

/// The same, to keep.
pub(in crate::cmd) fn facts_of(entry: &Entry) -> Facts {
    Facts::from(&attributes_of(entry))
}

/// Seconds since 1970 of `YYYYMMDDHHMMSS` in UTC; `None` for what no calendar has.
pub(in crate::cmd) fn seconds_of(digits: [u8; 14]) -> Option<i64> {
    let number = |from: usize, to: usize| str::from_utf8(&digits[from..to]).ok()?.parse::<i8>().ok();
    let year = str::from_utf8(&digits[..4]).ok()?.parse::<i16>().ok()?;
    let (month, day) = (number(4, 6)?, number(6, 8)?);
    // A leap second is the last of its minute.
    let (hour, minute, second) = (number(8, 10)?, number(10, 12)?, number(12, 14)?.min(59));
    let time = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

/// The digits of a time; `None` before year 0 and after year 9999.
pub(in crate::cmd) fn digits_of(Timestamp { seconds, .. }: Timestamp) -> Option<[u8; 14]> {
    let time = jiff::Timestamp::from_second(seconds).ok()?.round(Unit::Second).ok()?;
    let text = time.strftime("%Y%m%d%H%M%S").to_string();
    <[u8; 14]>::try_from(text.as_bytes()).ok().filter(|digits| digits.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_utc_both_ways() {
        for (digits, seconds) in
            [(b"19700101000000", 0), (b"20200102030405", 1_577_934_245), (b"20240229235959", 1_709_251_199)]
        {
            assert_eq!(seconds_of(*digits), Some(seconds));
            assert_eq!(digits_of(Timestamp::new(seconds, 5)).as_ref(), Some(digits));
        }
        assert_eq!(seconds_of(*b"20161231235960"), seconds_of(*b"20161231235959"));
        for digits in [b"20230229000000", b"20231301000000", b"20230101240000", b"00000000000000"] {
            assert_eq!(seconds_of(*digits), None);
        }
        assert_eq!(digits_of(Timestamp::new(i64::MAX, 0)), None);
    }
}
