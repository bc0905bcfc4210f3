//! Dates and times as people write them, in UTC and the Gregorian calendar.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use xdfs_client::Timestamp;

/// Now, in seconds since 1970; a clock before that counts as 1970.
pub(crate) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Seconds since 1970 as `2026-11-20 13:47:26`, in the Gregorian calendar for all times; as `@` and
/// the number after the years with four digits.
pub(crate) fn shown(seconds: i64) -> String {
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => format!("@{seconds}"),
    }
}

/// The same for a time that is never negative.
pub(crate) fn shown_unsigned(seconds: u64) -> String {
    shown(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// An expiry time as it was typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expiry {
    /// This many seconds from now.
    In(u64),
    /// At this second since 1970.
    At(u64),
}

impl Expiry {
    /// The second since 1970 at which it expires.
    pub(crate) fn from(self, now: u64) -> u64 {
        match self {
            Self::In(seconds) => now.saturating_add(seconds),
            Self::At(second) => second,
        }
    }
}

/// Reads `30m`, `12h`, `7d`, `4w` or `2027-01-31`.
pub(crate) fn parse_expiry(text: &str) -> Result<Expiry, String> {
    let malformed =
        || "write so many minutes, hours, days or weeks (30m, 12h, 7d, 4w) or a day (2027-01-31)".to_owned();
    if let Some(at) = parse_day(text) {
        return Ok(Expiry::At(at));
    }
    let unit = match text.as_bytes().last() {
        Some(b'm') => 60,
        Some(b'h') => 3600,
        Some(b'd') => 86_400,
        Some(b'w') => 7 * 86_400,
        _ => return Err(malformed()),
    };
    let digits = &text[..text.len() - 1];
    let count: u64 = match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse().map_err(|_| malformed())?,
        false => return Err(malformed()),
    };
    let seconds = count.checked_mul(unit).filter(|seconds| *seconds <= 100 * 366 * 86_400).ok_or_else(malformed)?;
    if seconds == 0 { Err("it would have run out when it is made".to_owned()) } else { Ok(Expiry::In(seconds)) }
}

/// Reads a time: `@SECONDS`, a day or a time of a day in UTC, or one with its zone.
pub(crate) fn parse_time(text: &str) -> Result<Timestamp, String> {
    let wrong =
        || "write a day (2027-01-31), a time in UTC ('2027-01-31 13:47:26'), one with its zone, or @SECONDS".to_owned();
    if let Some(seconds) = text.strip_prefix('@') {
        return seconds.parse().map(|seconds| Timestamp::new(seconds, 0)).map_err(|_| wrong());
    }
    let zoned = text.parse::<jiff::Timestamp>().ok();
    let time = zoned.or_else(|| Some(text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp()));
    Timestamp::from_nanoseconds(time.ok_or_else(wrong)?.as_nanosecond()).ok_or_else(wrong)
}

/// The first second of a day.
fn parse_day(text: &str) -> Option<u64> {
    let day = Date::strptime("%Y-%m-%d", text).ok()?;
    // Nothing may be omitted: each day has one form.
    let midnight = (day.to_string() == text).then(|| day.to_zoned(TimeZone::UTC).ok())??;
    u64::try_from(midnight.timestamp().as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_078_012_799, "2004-02-28 23:59:59"),
            (1_700_000_000, "2023-11-14 22:13:20"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (-62_135_596_800, "0001-01-01 00:00:00"),
        ] {
            assert_eq!(shown(seconds), text);
        }
        // After the last year with four digits.
        assert_eq!(shown(i64::MAX), "@9223372036854775807");
        assert_eq!(shown(i64::MIN), "@-9223372036854775808");
        assert_eq!(shown_unsigned(u64::MAX), shown(i64::MAX));
    }

    #[test]
    fn a_time_is_read_in_the_forms_of_the_help() {
        for (text, time) in [
            ("@0", (0, 0)),
            ("@-5", (-5, 0)),
            ("1970-01-02", (86_400, 0)),
            ("2000-02-29 00:00:01", (951_782_401, 0)),
            ("2000-02-29T01:00:00+01:00", (951_782_400, 0)),
            ("1970-01-01 00:00:00.5", (0, 500_000_000)),
            ("1969-12-31 23:59:59.25Z", (-1, 250_000_000)),
        ] {
            assert_eq!(parse_time(text), Ok(Timestamp::new(time.0, time.1)), "{text}");
        }
        for text in ["", "@", "@x", "yesterday", "2027-02-29", "12:00"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_expiry_is_a_length_of_time_or_a_day() {
        for (text, expiry) in [
            ("30m", Expiry::In(1800)),
            ("12h", Expiry::In(43_200)),
            ("7d", Expiry::In(604_800)),
            ("4w", Expiry::In(2_419_200)),
            ("1970-01-02", Expiry::At(86_400)),
            ("2000-02-29", Expiry::At(951_782_400)),
            ("2100-03-01", Expiry::At(4_107_542_400)),
        ] {
            assert_eq!(parse_expiry(text), Ok(expiry), "{text}");
        }
        for text in [
            "",
            "d",
            "7",
            "0d",
            "-1d",
            "+1d",
            "1.5d",
            "7D",
            "101y",
            "99999999999999999999d",
            "40000w",
            "2027-02-29",
            "2027-13-01",
            "2027-1-1",
            "1969-12-31",
            "2027-01-01-01",
            "soon",
        ] {
            assert!(parse_expiry(text).is_err(), "{text}");
        }
        assert_eq!(Expiry::In(5).from(10), 15);
        assert_eq!(Expiry::At(5).from(10), 5);
    }
}
