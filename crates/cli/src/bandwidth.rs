//! Limits of bandwidth as users type them: `10M`, `1.5G`, `off`, and by the time of day
//! `08:00,10M 19:00,off`.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Zoned;
use xdfs_client::{Limit, rate};

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
    // A number and its unit, or two rates that need times.
    let second = words.clone().nth(1).filter(|_| !text.contains(','));
    if second.is_some_and(|second| !second.starts_with(|first: char| first.is_ascii_digit())) {
        return Err(format!("'{}' is no rate\nhelp: write it without a space, as in 2M", escaped(text.trim())));
    }
    for word in words {
        match word.split_once(',') {
            Some((time, rate)) => entries.push((parse_time(time)?, rate::parse(rate)?)),
            None if text.trim() == word => return Ok(Schedule { entries: vec![(0, rate::parse(word)?)] }),
            None => {
                return Err(format!(
                    "'{}' has no time\nhelp: write a schedule as '08:00,10M 19:00,off'",
                    escaped(word)
                ));
            }
        }
    }
    entries.sort_unstable();
    if entries.len() > ENTRIES_MAX || entries.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err("a time stands there twice\nhelp: give each time one rate".to_owned());
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
    let (hour, minute) =
        parts.ok_or_else(|| format!("'{}' is no time of day\nhelp: write it as 08:00", escaped(text)))?;
    Ok(hour * 60 + minute)
}

impl Schedule {
    /// Bytes per second in this minute of the day; 0 is no limit.
    fn at(&self, minute: u64) -> u64 {
        let begun = self.entries.iter().rev().find(|(from, _)| *from <= minute);
        begun.or(self.entries.last()).map_or(0, |(_, rate)| *rate)
    }

    /// The slowest rate that ever holds, if there is a limit.
    pub(crate) fn slowest(&self) -> Option<u64> {
        self.entries.iter().map(|(_, rate)| *rate).filter(|rate| *rate > 0).min()
    }

    /// How many of `channels` help at this rate.
    pub(crate) fn channels(&self, channels: u16) -> u16 {
        self.slowest().map_or(channels, |rate| rate::channels(rate, channels))
    }

    /// The window of each of `channels` channels, if it is another than the kernel's.
    pub(crate) fn window(&self, channels: u16) -> Option<u32> {
        rate::window(self.slowest()?, channels)
    }

    /// The block size that suits the rate, if it is another than usual.
    pub(crate) fn block(&self) -> Option<u32> {
        self.slowest().filter(|rate| rate::wants_small_blocks(*rate)).map(|_| xdfs_client::BLOCK_BYTES_MIN)
    }

    /// How long the blocks of all channels take at the slowest rate: progress is counted in whole blocks.
    pub(crate) fn longest_pause(&self) -> Duration {
        let Some(rate) = self.slowest() else { return Duration::ZERO };
        let blocks = u64::from(self.channels(u16::MAX)) * u64::from(xdfs_client::BLOCK_BYTES_MIN);
        Duration::from_secs(blocks.div_ceil(rate))
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
    fn a_slow_rate_has_pauses_in_which_nothing_is_wrong() {
        assert!(parse("10K").unwrap().longest_pause() >= Duration::from_secs(6));
        assert!(parse("08:00,off 19:00,10K").unwrap().longest_pause() >= Duration::from_secs(6));
        assert!(parse("100M").unwrap().longest_pause() <= Duration::from_secs(1));
        assert_eq!(parse("off").unwrap().longest_pause(), Duration::ZERO);
    }

    #[test]
    fn what_is_no_rate_is_refused_with_what_to_write() {
        for text in ["", " ", "fast", "1,5M", "10M 5M", "08:00,"] {
            assert!(parse(text).is_err_and(|error| error.contains("write")), "{text}: {:?}", parse(text));
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
