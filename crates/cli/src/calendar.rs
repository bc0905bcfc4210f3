//! Points in time as people write them, in UTC and the Gregorian calendar, without a time zone's data.

/// Seconds of a day.
const DAY: i64 = 86_400;

/// Days from 1 March of year 0 to 1 January 1970.
const DAYS_TO_1970: i64 = 719_468;

/// Now, in seconds since 1970; a clock before that is taken for 1970.
pub(crate) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Seconds since 1970 as `2026-11-20 13:47:26`, in the Gregorian calendar for all times.
pub(crate) fn shown(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    // Counted from 1 March of year 0, leap days come last in a year, and 400 years repeat exactly.
    let shifted = i128::from(days) + i128::from(DAYS_TO_1970);
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i128::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// The same for a time that is never negative.
pub(crate) fn shown_unsigned(seconds: u64) -> String {
    shown(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// When something runs out, as it was typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expiry {
    /// So many seconds from now.
    In(u64),
    /// At this second since 1970.
    At(u64),
}

impl Expiry {
    /// The second since 1970 at which it is.
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

/// The first second of a day.
fn parse_day(text: &str) -> Option<u64> {
    let number = |part: &str, digits: usize| {
        (part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit())).then(|| part.parse::<i64>().ok())?
    };
    let mut parts = text.split('-');
    let (year, month, day) = (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year_from_march = year - i64::from(month <= 2);
    let (era, year_of_era) = (year_from_march.div_euclid(400), year_from_march.rem_euclid(400));
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let seconds = (era * 146_097 + day_of_era - DAYS_TO_1970) * DAY;
    // A day that the month does not have comes out as one of the next month.
    shown(seconds).starts_with(text).then_some(u64::try_from(seconds).ok())?
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
        // The ends of the range do not overflow.
        assert!(shown(i64::MAX).ends_with("-04 15:30:07"));
        shown(i64::MIN);
        assert_eq!(shown_unsigned(u64::MAX), shown(i64::MAX));
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
