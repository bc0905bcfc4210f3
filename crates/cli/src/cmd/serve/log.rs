//! The log for people: standard error, a line for each event with its time and severity. Under
//! journald, which adds the time, a line begins with its priority instead, as in sd-daemon(3).
//!
//! `XDFS_LOG` chooses what is written, such as `info,session=debug`. What peers cause has a bounded
//! number of lines a second; the audit log has all of it.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use xdfs_server::{Area, LogEvent, Severity};

use super::lines::Line;
use crate::exit::{Exit, Failure};
use crate::output::without_errno;
use crate::text::printable;

/// Lines of an area that peers may cause in a second.
const LINES_PER_SECOND: u32 = 200;

/// The environment variable with the filter.
const VARIABLE: &str = "XDFS_LOG";

/// Which lines are written: of each area those of this severity and the more important ones; `None`
/// is none.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Filter {
    others: Option<Severity>,
    areas: BTreeMap<Area, Option<Severity>>,
}

impl Filter {
    /// Reads `info,session=debug`.
    fn parse(text: &str, usual: Severity) -> Result<Self, String> {
        let level = |word: &str| match Severity::ALL.into_iter().find(|severity| severity.name() == word) {
            Some(severity) => Ok(Some(severity)),
            None if word == "off" => Ok(None),
            None => {
                let known = Severity::ALL.map(Severity::name).join(", ");
                Err(format!("'{}' is no level\nhelp: write off, {known}", printable(word.as_bytes())))
            }
        };
        let mut filter = Self { others: Some(usual), areas: BTreeMap::new() };
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let Some((name, wanted)) = word.split_once('=') else {
                filter.others = level(word)?;
                continue;
            };
            let area = Area::ALL.into_iter().find(|area| area.name() == name).ok_or_else(|| {
                let known = Area::ALL.map(Area::name).join(", ");
                format!("'{}' is no part of the log\nhelp: write one of: {known}", printable(name.as_bytes()))
            })?;
            filter.areas.insert(area, level(wanted)?);
        }
        Ok(filter)
    }

    fn takes(&self, area: Area, severity: Severity) -> bool {
        self.areas.get(&area).copied().unwrap_or(self.others).is_some_and(|least| severity <= least)
    }
}

/// How lines begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// `2026-11-24T10:20:30.123Z info session: `
    Timed,
    /// `<6>session: `
    Journal,
}

impl Form {
    /// That of standard error: journald names the device and inode that it listens to.
    fn of_standard_error() -> Self {
        let named = std::env::var("JOURNAL_STREAM").ok();
        let here = rustix::fs::fstat(std::io::stderr().as_fd()).ok();
        let here = here.map(|stat| format!("{}:{}", stat.st_dev, stat.st_ino));
        if named.is_some() && named == here { Self::Journal } else { Self::Timed }
    }

    fn start(self, now: Timestamp, area: Area, severity: Severity) -> String {
        let area = area.name();
        match self {
            Self::Timed => format!("{} {} {area}: ", now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ"), severity.name()),
            Self::Journal => {
                let priority = match severity {
                    Severity::Error => 3,
                    Severity::Warning => 4,
                    Severity::Info => 6,
                    Severity::Debug => 7,
                };
                format!("<{priority}>{area}: ")
            }
        }
    }
}

/// Bounds the lines of an area: a second begins with the first line after the last one.
#[derive(Clone, Copy, Debug)]
struct LineCount {
    since: Instant,
    lines: u32,
    left_out: u64,
}

impl LineCount {
    const fn new(now: Instant) -> Self {
        Self { since: now, lines: 0, left_out: 0 }
    }

    /// Whether a line may be written now, and how many were not before it.
    fn admit(&mut self, now: Instant) -> (bool, u64) {
        let mut left_out = 0;
        if now.saturating_duration_since(self.since) >= Duration::from_secs(1) {
            left_out = self.left_out;
            *self = Self::new(now);
        }
        if self.lines >= LINES_PER_SECOND {
            self.left_out += 1;
            return (false, 0);
        }
        self.lines += 1;
        (true, left_out)
    }
}

/// Writes the log for people.
#[derive(Debug)]
pub(super) struct Logger {
    filter: Filter,
    form: Form,
    counts: Mutex<BTreeMap<Area, LineCount>>,
}

impl Logger {
    /// By `XDFS_LOG`; what it leaves open is `info` and more, or problems only where the log is to be
    /// `quiet`.
    pub(super) fn of_environment(quiet: bool) -> Result<Self, Failure> {
        let usual = if quiet { Severity::Warning } else { Severity::Info };
        let text = std::env::var_os(VARIABLE).unwrap_or_default();
        let filter = Filter::parse(&text.to_string_lossy(), usual)
            .map_err(|error| Failure::new(Exit::Usage, format!("{VARIABLE}: {error}")))?;
        Ok(Self { filter, form: Form::of_standard_error(), counts: Mutex::default() })
    }

    /// Writes the line of an event, if it is wanted.
    pub(super) fn event(&self, event: &LogEvent) {
        let (area, severity) = (event.area(), event.severity());
        // Who asks for the state gets it.
        if !matches!(event, LogEvent::Status { .. }) && !self.filter.takes(area, severity) {
            return;
        }
        if area == Area::Server {
            return self.write(area, severity, &Line(event).to_string());
        }
        let now = Instant::now();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (admitted, left_out) = counts.entry(area).or_insert_with(|| LineCount::new(now)).admit(now);
        drop(counts);
        if left_out > 0 {
            let text = format!("{left_out} line(s) were left out: more than {LINES_PER_SECOND} in a second");
            self.write(area, Severity::Warning, &text);
        }
        if admitted {
            // What a peer sent makes no line of its own.
            self.write(area, severity, &Line(event).to_string().replace('\n', "\\n"));
        }
    }

    /// Writes a message of the server about itself, if it is wanted.
    pub(super) fn say(&self, severity: Severity, text: &str) {
        if self.filter.takes(Area::Server, severity) {
            self.write(Area::Server, severity, text);
        }
    }

    fn write(&self, area: Area, severity: Severity, text: &str) {
        let start = self.form.start(Timestamp::now(), area, severity);
        let line = |line: &str| format!("{start}{}\n", printable(without_errno(line).as_bytes()));
        let lines: String = text.lines().map(line).collect();
        // In one piece: standard error has no buffer, and a busy server writes many lines. Without a
        // reader there is nobody to tell.
        let _ = std::io::stderr().write_all(lines.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(filter: &str, area: Area) -> Vec<&'static str> {
        let filter = Filter::parse(filter, Severity::Info).unwrap();
        Severity::ALL.into_iter().filter(|one| filter.takes(area, *one)).map(Severity::name).collect()
    }

    #[test]
    fn a_filter_has_a_level_and_levels_of_areas() {
        assert_eq!(taken("", Area::Calls), ["error", "warn", "info"]);
        assert_eq!(taken("warn", Area::Server), ["error", "warn"]);
        assert_eq!(taken("info, session=debug,calls=off", Area::Session), ["error", "warn", "info", "debug"]);
        assert_eq!(taken("info,session=debug,calls=off", Area::Login), ["error", "warn", "info"]);
        assert!(taken("info,session=debug,calls=off", Area::Calls).is_empty());
        assert!(taken("off", Area::Server).is_empty());
        for (text, words) in [
            ("loud", "'loud' is no level\nhelp: write off, error, warn, info, debug"),
            ("session=\u{1b}", "'\\u{1b}' is no level"),
            ("tls=debug", "'tls' is no part of the log\nhelp: write one of: server, login, session, transfer, calls"),
        ] {
            let error = Filter::parse(text, Severity::Info).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
    }

    #[test]
    fn a_channel_that_a_closing_session_loses_is_a_detail() {
        let severity = |closing, left| {
            let session = xdfs_proto::base::SessionId([7; 16]);
            let error = "connection reset by peer".to_owned();
            LogEvent::ChannelLost { session, channel: 2, error, closing, left }.severity()
        };
        assert_eq!((severity(false, false), severity(true, false)), (Severity::Warning, Severity::Debug));
        assert_eq!((severity(false, true), severity(true, true)), (Severity::Info, Severity::Debug));
    }

    #[test]
    fn a_line_begins_with_its_time_or_as_journald_wants_it() {
        let at = Timestamp::from_millisecond(1_700_000_000_007).unwrap();
        let start = |form: Form, severity| form.start(at, Area::Session, severity);
        assert_eq!(start(Form::Timed, Severity::Info), "2023-11-14T22:13:20.007Z info session: ");
        assert_eq!(start(Form::Journal, Severity::Info), "<6>session: ");
        assert_eq!(start(Form::Journal, Severity::Error), "<3>session: ");
    }

    #[test]
    fn peers_cause_a_bounded_number_of_lines_and_the_rest_is_counted() {
        let start = Instant::now();
        let mut count = LineCount::new(start);
        let admitted = (0..1000).filter(|_| count.admit(start).0).count();
        assert_eq!(admitted, LINES_PER_SECOND as usize);
        assert_eq!(count.admit(start + Duration::from_secs(1)), (true, 1000 - u64::from(LINES_PER_SECOND)));
        assert_eq!(count.admit(start + Duration::from_secs(3)), (true, 0));
    }
}
