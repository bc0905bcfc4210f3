//! Limits of bandwidth as users type them: `10M`, `1.5G`, `off`, and by the time of day
//! `08:00,10M 19:00,off`.
//!
//! Rates are written as rsync and rclone write them, so that their users get what they expect: K, M
//! and G are powers of 1024, and a number alone counts KiB. That differs from sizes (`size`).

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Zoned;
use xdfs_client::Limit;

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
/// Entries of a schedule: one for each minute would do.
const ENTRIES_MAX: usize = 1440;
const MINUTES_OF_DAY: u64 = 1440;

/// A limit of bandwidth that may depend on the time of day.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Schedule {
    /// From this minute of the day on, this many bytes per second; 0 is no limit. In order; the last
    /// one holds until the first one of the next day.
    entries: Vec<(u64, u64)>,
}

/// Reads `--bwlimit`.
pub(crate) fn parse(text: &str) -> Result<Schedule, String> {
    let mut entries = Vec::new();
    let mut words = text.split_ascii_whitespace().peekable();
    if words.peek().is_none() {
        return Err("write a rate such as 10M, or 'off'".to_owned());
    }
    for word in words {
        match word.split_once(',') {
            Some((time, rate)) => entries.push((parse_time(time)?, parse_rate(rate)?)),
            None if text.trim() == word => return Ok(Schedule { entries: vec![(0, parse_rate(word)?)] }),
            None => return Err(format!("'{}' has no time; write a schedule as '08:00,10M 19:00,off'", escaped(word))),
        }
    }
    entries.sort_unstable();
    if entries.len() > ENTRIES_MAX || entries.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err("a time stands there twice; give each time one rate".to_owned());
    }
    Ok(Schedule { entries })
}

fn escaped(word: &str) -> String {
    word.escape_debug().to_string()
}

/// Minutes since midnight.
fn parse_time(text: &str) -> Result<u64, String> {
    let number = |digits: &str, below: u64| -> Option<u64> {
        let plain = (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|number| plain && *number < below)
    };
    let parts = text.split_once(':').and_then(|(hour, minute)| Some((number(hour, 24)?, number(minute, 60)?)));
    let (hour, minute) = parts.ok_or_else(|| format!("'{}' is no time of day; write it as 08:00", escaped(text)))?;
    Ok(hour * 60 + minute)
}

/// Bytes per second.
fn parse_rate(text: &str) -> Result<u64, String> {
    if matches!(text, "off" | "0") {
        return Ok(0);
    }
    let form =
        || format!("'{}' is no rate; write it as 512K, 10M or 1.5G (KiB, MiB, GiB a second), or 'off'", escaped(text));
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
        return Err(format!("'{}' is out of bounds; a rate has at least 1K", escaped(text)));
    }
    Ok(rate as u64)
}

impl Schedule {
    /// Bytes per second in this minute of the day; 0 is no limit.
    fn at(&self, minute: u64) -> u64 {
        let begun = self.entries.iter().rev().find(|(from, _)| *from <= minute);
        begun.or(self.entries.last()).map_or(0, |(_, rate)| *rate)
    }

    /// The slowest rate that ever holds, if there is a limit.
    fn slowest(&self) -> Option<u64> {
        self.entries.iter().map(|(_, rate)| *rate).filter(|rate| *rate > 0).min()
    }

    /// How many of `channels` help at this rate.
    pub(crate) fn channels(&self, channels: u16) -> u16 {
        let useful = self.slowest().map_or(u64::MAX, |rate| (rate / RATE_PER_CHANNEL).max(1));
        channels.min(u16::try_from(useful).unwrap_or(u16::MAX))
    }

    /// The window of each of `channels` channels, if the kernel's tuning would hold far more than moves in the time of a
    /// long path: what waits in a socket is acknowledged late, and is then sent again.
    pub(crate) fn window(&self, channels: u16) -> Option<u32> {
        let share = self.slowest()? / WINDOWS_PER_SECOND / u64::from(channels.max(1));
        u32::try_from(share.max(WINDOW_MIN)).ok().filter(|window| *window <= WINDOW_MAX)
    }

    /// The block size that suits the rate, if it is another than usual.
    pub(crate) fn block(&self) -> Option<u32> {
        self.slowest().filter(|rate| *rate < RATE_OF_SMALL_BLOCKS).map(|_| xdfs_client::BLOCK_BYTES_MIN)
    }

    /// The limit of all channels together, at the rate that holds now. Where the rate depends on the
    /// time, a thread changes it for as long as the returned value exists.
    pub(crate) fn start(self) -> Bandwidth {
        let limit = Arc::new(Limit::new(self.at(minute_now())));
        let keeper = (self.entries.len() > 1).then(|| self.keep(Arc::downgrade(&limit)));
        Bandwidth { limit, _keeper: keeper }
    }

    fn keep(self, limit: Weak<Limit>) -> SyncSender<()> {
        let (running, ended) = sync_channel(0);
        std::thread::spawn(move || {
            while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                let Some(limit) = limit.upgrade() else { return };
                limit.set_rate(self.at(minute_now()));
            }
        });
        running
    }
}

/// The minute of the day, in the time zone of this machine.
fn minute_now() -> u64 {
    let now = Zoned::now();
    // Neither is negative.
    (now.hour().unsigned_abs() as u64 * 60 + u64::from(now.minute().unsigned_abs())) % MINUTES_OF_DAY
}

/// The limit of a command.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    limit: Arc<Limit>,
    /// The thread that changes the rate ends with it.
    _keeper: Option<SyncSender<()>>,
}

impl Bandwidth {
    /// The limit, for the sessions of the command.
    pub(crate) fn limit(&self) -> Arc<Limit> {
        Arc::clone(&self.limit)
    }
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
            assert_eq!(parse(text), Ok(Schedule { entries: vec![(0, rate)] }), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_with_what_to_write() {
        for text in ["", " ", "fast", "10X", "-1", "1,5M", "1.5.2M", ".", "M", "10M 5M", "08:00,", "1e3", "inf", "NaN"]
        {
            assert!(parse(text).is_err_and(|error| error.contains("write")), "{text}: {:?}", parse(text));
        }
        for text in ["1b", "0.1K", "9999999G"] {
            assert!(parse(text).is_err_and(|error| error.contains("out of bounds")), "{text}");
        }
        for text in ["24:00,1M", "8,1M", "08:60,1M", "-1:00,1M", "008:00,1M", "08:00,1M 8:00,2M"] {
            assert!(parse(text).is_err_and(|error| error.contains("time")), "{text}");
        }
    }

    #[test]
    fn a_schedule_holds_from_each_time_to_the_next_across_midnight() {
        let schedule = parse("19:00,off 08:00,10M 12:30,1M").unwrap();
        for (minute, rate) in
            [(0, 0), (479, 0), (480, 10 << 20), (749, 10 << 20), (750, 1 << 20), (1139, 1 << 20), (1140, 0), (1439, 0)]
        {
            assert_eq!(schedule.at(minute), rate, "{minute}");
        }
        assert_eq!(parse("10:00,2M").unwrap().at(5), 2 << 20, "one entry holds all day");
        assert!(minute_now() < MINUTES_OF_DAY);
    }

    #[test]
    fn a_slow_rate_needs_few_channels_and_small_blocks() {
        let slow = parse("10K").unwrap();
        assert_eq!((slow.channels(8), slow.block()), (1, Some(64 << 10)));
        assert_eq!((slow.window(1), parse("4M").unwrap().window(8)), (Some(32 << 10), Some(128 << 10)));
        let usual = parse("08:00,100M 19:00,off").unwrap();
        assert_eq!((usual.channels(8), usual.channels(1024), usual.block()), (8, 800, None));
        let none = parse("off").unwrap();
        assert_eq!((none.channels(1024), none.block(), none.window(8)), (1024, None, None));
    }
}
