//! Sizes as users type and read them: `64K`, `10GiB`, `1.25 GB/s`.
//!
//! K, M, G and T are powers of 1000, as in disk and network figures; KiB, MiB, GiB and TiB are
//! powers of 1024. A size is never rounded: a fraction is refused, and so is a number that no file
//! offset can hold.

use std::time::Duration;

/// Largest size: the largest file offset of the kernel.
pub(crate) const SIZE_MAX: u64 = i64::MAX as u64;

/// Why text is not a size.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum SizeError {
    /// No digit at the start, a sign, a fraction.
    #[error(
        "a size is a whole number with an optional unit (K, M, G, T = 1000s; KiB, MiB, GiB, TiB = 1024s), such as 512KiB"
    )]
    NoNumber,
    /// Letters that are not a unit.
    #[error("there is no unit '{0}'\nhelp: use K, M, G, T (1000s) or KiB, MiB, GiB, TiB (1024s)")]
    Unit(String),
    /// Above [`SIZE_MAX`].
    #[error("it is larger than any file can be (2^63 - 1 bytes)")]
    TooLarge,
}

/// Reads a size such as `4096`, `64K`, `1MiB`. Units are read in any case.
pub(crate) fn parse(text: &str) -> Result<u64, SizeError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() || unit.starts_with(['.', ',']) {
        return Err(SizeError::NoNumber);
    }
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "m" | "mb" => 1000_u64.pow(2),
        "g" | "gb" => 1000_u64.pow(3),
        "t" | "tb" => 1000_u64.pow(4),
        "kib" => 1024,
        "mib" => 1024_u64.pow(2),
        "gib" => 1024_u64.pow(3),
        "tib" => 1024_u64.pow(4),
        _ => return Err(SizeError::Unit(unit.escape_default().to_string())),
    };
    // Digits alone fail to parse only if there are too many of them.
    let number: u64 = number.parse().map_err(|_| SizeError::TooLarge)?;
    match number.checked_mul(factor) {
        Some(size) if size <= SIZE_MAX => Ok(size),
        _ => Err(SizeError::TooLarge),
    }
}

/// `1234567` as `1.23 MB`: three significant digits, for display only.
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = 0;
    // 999.5 would print as 1000: it is the next unit's 1.00.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// Bytes per second for display; nothing moved in no time has no rate.
pub(crate) fn human_rate(bytes: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    if seconds <= 0.0 {
        return "-".to_owned();
    }
    format!("{}/s", human((bytes as f64 / seconds) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_thousands_and_with_an_i_they_are_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("1", 1),
            ("17B", 17),
            ("64K", 64_000),
            ("64k", 64_000),
            ("64KB", 64_000),
            ("64KiB", 65_536),
            ("64kib", 65_536),
            ("1M", 1_000_000),
            ("1MiB", 1_048_576),
            ("2G", 2_000_000_000),
            ("2GiB", 2_147_483_648),
            ("8T", 8_000_000_000_000),
            ("8TiB", 8_796_093_022_208),
            ("9223372036854775807", SIZE_MAX),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn text_that_is_no_size_is_refused_with_its_reason() {
        for text in ["", "K", "-1", "+1", "1.5G", "1,5G", " 1", "\u{661}"] {
            assert_eq!(parse(text), Err(SizeError::NoNumber), "{text}");
        }
        for (text, unit) in [("1X", "X"), ("1 K", " K"), ("1KK", "KK"), ("1e9", "e9"), ("0x10", "x10"), ("1Ki", "Ki")] {
            assert_eq!(parse(text), Err(SizeError::Unit(unit.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_size_that_no_file_offset_can_hold_is_refused_not_wrapped() {
        for text in [
            "9223372036854775808",
            "18446744073709551616",
            "18446744073709551617B",
            "9223373T",
            "8388608TiB",
            "99999999999999999999999K",
        ] {
            assert_eq!(parse(text), Err(SizeError::TooLarge), "{text}");
        }
    }

    #[test]
    fn people_read_three_digits_and_a_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (9_994, "9.99 kB"),
            (9_996, "10.0 kB"),
            (99_960, "100 kB"),
            (999_499, "999 kB"),
            (999_500, "1.00 MB"),
            (2_310_000_000, "2.31 GB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(human(bytes), text);
        }
        assert_eq!(human_rate(3_000_000, Duration::from_millis(1500)), "2.00 MB/s");
        assert_eq!(human_rate(3, Duration::ZERO), "-");
    }
}
