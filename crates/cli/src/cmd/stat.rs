//! `xdfs stat`: name, type, size, mode and modification time of files on servers.

use xdfs_client::{ErrorKind, RemoteFile};
use xdfs_proto::wire::control::Kind;

use super::remote::{Sessions, Wishes, wire_name};
use crate::exit::{Exit, Failure, Side};
use crate::output::{JsonLines, Stat, complain, print};
use crate::plan::StatPlan;
use crate::text::printable;
use crate::url::Url;

/// Seconds of a day.
const DAY: i64 = 86_400;

/// Shows every file that can be looked at; the others are told and do not stop it.
pub(crate) fn run(plan: &StatPlan) -> Result<Exit, Failure> {
    let mut sessions = Sessions::new(Wishes::default());
    let mut exits = Vec::with_capacity(plan.urls.len());
    for url in &plan.urls {
        match look(&mut sessions, url) {
            Ok(stat) if plan.json => JsonLines.write(&stat)?,
            Ok(stat) => print(&describe(&stat))?,
            Err((failure, kind)) => {
                complain(&failure.message);
                if plan.json {
                    JsonLines.error(&url.to_string(), kind, &failure.message)?;
                }
                exits.push(failure.exit);
                continue;
            }
        }
        exits.push(Exit::Done);
    }
    sessions.close();
    Ok(Exit::of_all(&exits))
}

fn look(sessions: &mut Sessions, url: &Url) -> Result<Stat, (Failure, ErrorKind)> {
    let (session, _) = sessions.with(url)?;
    let found = session.stat(wire_name(url)).map_err(|error| {
        let failure = Failure::new(Exit::of_error(&error, Side::Peer), format!("{url}: {error}"));
        (failure, error.kind)
    })?;
    if url.directory && found.kind != Kind::Directory {
        let kind = ErrorKind::NotDirectory;
        return Err((Failure::new(Exit::Refused, format!("{url}: this is not a directory")), kind));
    }
    Ok(stat_of(url, &found))
}

fn stat_of(url: &Url, found: &RemoteFile) -> Stat {
    let (mtime, mtime_nanoseconds) = found.modified.unzip();
    let kind = match found.kind {
        Kind::Regular => "file",
        Kind::Directory => "directory",
        Kind::Other => "other",
    };
    let name = url.name().map(printable);
    Stat { url: url.to_string(), name, kind, size: found.size, mode: found.mode, mtime, mtime_nanoseconds }
}

/// What a person reads about a file.
fn describe(stat: &Stat) -> String {
    let kind = match stat.kind {
        "file" => "regular file",
        kind => kind,
    };
    let size = match (stat.size, stat.kind) {
        (Some(size), _) => format!("{size} bytes ({})", crate::size::human(size)),
        (None, "file") => "endless".to_owned(),
        (None, _) => "-".to_owned(),
    };
    format!(
        "{url}\n  name   {name}\n  type   {kind}\n  size   {size}\n  mode   {mode:04o} ({letters})\n  mtime  {time}\n",
        url = stat.url,
        name = stat.name.as_deref().unwrap_or("(the export's root)"),
        mode = stat.mode,
        letters = letters(stat.mode),
        time = stat.mtime.map_or("-".to_owned(), |seconds| format!("{} UTC", calendar(seconds))),
    )
}

/// `rw-r-----` for 0640, with s and t for the three bits above.
fn letters(mode: u32) -> String {
    let mut letters = String::with_capacity(9);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        letters.push(if bits & 4 != 0 { 'r' } else { '-' });
        letters.push(if bits & 2 != 0 { 'w' } else { '-' });
        letters.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    letters
}

/// Seconds since 1970 as `2026-11-20 13:47:26`, in the Gregorian calendar for all times.
fn calendar(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    // Counted from 1 March of year 0, leap days come last in a year, and 400 years repeat exactly.
    let shifted = i128::from(days) + 719_468;
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
            assert_eq!(calendar(seconds), text);
        }
        // The ends of the range do not overflow.
        assert!(calendar(i64::MAX).ends_with("-04 15:30:07"));
        calendar(i64::MIN);
    }

    #[test]
    fn modes_are_shown_as_ls_shows_them() {
        for (mode, text) in [
            (0o640, "rw-r-----"),
            (0o755, "rwxr-xr-x"),
            (0, "---------"),
            (0o4755, "rwsr-xr-x"),
            (0o2644, "rw-r-Sr--"),
            (0o1777, "rwxrwxrwt"),
        ] {
            assert_eq!(letters(mode), text);
        }
    }

    #[test]
    fn a_description_names_everything() {
        let stat = Stat {
            url: "xdfs://h/e/a%20b".to_owned(),
            name: Some("a b".to_owned()),
            kind: "file",
            size: Some(12_345),
            mode: 0o640,
            mtime: Some(0),
            mtime_nanoseconds: Some(5),
        };
        let text = describe(&stat);
        for part in
            ["xdfs://h/e/a%20b", "a b", "regular file", "12345 bytes (12.3 kB)", "0640 (rw-r-----)", "1970-01-01"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
