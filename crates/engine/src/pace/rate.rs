//! Rates as people write them, and what suits a slow one: how many channels, and how much the kernel
//! holds for each.
//!
//! They are written as rsync and rclone write them, so that their users get what they expect: K, M
//! and G are powers of 1024, and a number alone counts KiB. That differs from sizes.

/// Slowest rate: below it, a block of the smallest size takes longer than a stalled channel may.
const RATE_MIN: u64 = 1024;
/// Bytes per second for which a channel more helps: more channels only make each of them slow.
const RATE_PER_CHANNEL: u64 = 128 << 10;
/// Below this rate, blocks of the smallest size keep the first bytes from waiting for the last.
const RATE_OF_SMALL_BLOCKS: u64 = 16 << 20;
/// A window holds what moves in a quarter of a second: more than the round trip of a long path.
const WINDOWS_PER_SECOND: u64 = 4;
/// Half of the smallest block, so that a block needs few windows.
const WINDOW_MIN: u64 = 32 << 10;
/// Above this, the kernel's tuning holds no more than that.
const WINDOW_MAX: u32 = 4 << 20;

/// Bytes per second; 0 is no limit, written as `off`.
pub fn parse(text: &str) -> Result<u64, String> {
    if matches!(text, "off" | "0") {
        return Ok(0);
    }
    let form = || {
        format!(
            "'{}' is no rate\nhelp: write it as 512K, 10M or 1.5G (KiB, MiB, GiB a second), or 'off'",
            text.escape_debug()
        )
    };
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at(digits);
    let factor: f64 = match unit.to_ascii_lowercase().as_str() {
        "b" => 1.0,
        "" | "k" | "kib" => 1024.0,
        "m" | "mib" => 1024_f64.powi(2),
        "g" | "gib" => 1024_f64.powi(3),
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        _ => return Err(form()),
    };
    // A few digits and at most one point: anything else fails to parse.
    let number: f64 = number.parse().map_err(|_| form())?;
    let rate = number * factor;
    if !(RATE_MIN as f64..=1e15).contains(&rate) {
        return Err(format!("'{}' is out of bounds: a rate has at least 1K", text.escape_debug()));
    }
    Ok(rate as u64)
}

/// How many of `channels` help at this rate.
pub fn channels(rate: u64, channels: u16) -> u16 {
    channels.min(u16::try_from((rate / RATE_PER_CHANNEL).max(1)).unwrap_or(u16::MAX))
}

/// The window of each of `channels` channels, if the kernel's tuning would hold far more than moves
/// in the time of a long path: what waits in a socket is acknowledged late, and is then sent again.
pub fn window(rate: u64, channels: u16) -> Option<u32> {
    let share = rate / WINDOWS_PER_SECOND / u64::from(channels.max(1));
    u32::try_from(share.max(WINDOW_MIN)).ok().filter(|window| *window <= WINDOW_MAX)
}

/// Whether blocks of the smallest size suit the rate.
pub const fn wants_small_blocks(rate: u64) -> bool {
    rate < RATE_OF_SMALL_BLOCKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_rsync_and_rclone() {
        for (text, rate) in [
            ("10M", 10 << 20),
            ("1.5G", 3 << 29),
            ("10m", 10 << 20),
            ("512K", 512 << 10),
            ("1000", 1_024_000),
            ("0.5M", 512 << 10),
            ("10MB", 10_000_000),
            ("10MiB", 10 << 20),
            ("1500b", 1500),
            ("off", 0),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(rate), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_with_what_to_write() {
        for text in ["", "fast", "10X", "-1", "1,5M", "1.5.2M", ".", "M", "1e3", "inf", "NaN"] {
            assert!(parse(text).is_err_and(|error| error.contains("write")), "{text}: {:?}", parse(text));
        }
        for text in ["1b", "0.1K", "9999999G"] {
            assert!(parse(text).is_err_and(|error| error.contains("out of bounds")), "{text}");
        }
    }

    #[test]
    fn a_slow_rate_needs_few_channels_and_small_windows() {
        assert_eq!((channels(10 << 10, 8), window(10 << 10, 1)), (1, Some(32 << 10)));
        assert_eq!((channels(4 << 20, 8), window(4 << 20, 8)), (8, Some(128 << 10)));
        assert_eq!((channels(100 << 20, 1024), window(1 << 30, 8)), (800, None));
        assert!(wants_small_blocks(10 << 20) && !wants_small_blocks(100 << 20));
    }
}
