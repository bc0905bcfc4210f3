//! `xdfs stat`: name, type, size, mode and modification time of files on servers.

use xdfs_client::{ErrorKind, RemoteFile};
use xdfs_proto::wire::control::Kind;

use super::remote::{Sessions, Wishes, wire_name};
use crate::calendar;
use crate::exit::{Exit, Failure, Side};
use crate::output::{JsonLines, Stat, complain, print};
use crate::plan::StatPlan;
use crate::text::printable;
use crate::url::Url;

/// Shows every file that can be looked at; the others are told and do not stop it.
pub(crate) fn run(plan: &StatPlan) -> Result<Exit, Failure> {
    let mut sessions = Sessions::new(Wishes::default(), plan.login.clone());
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
        time = stat.mtime.map_or("-".to_owned(), |seconds| format!("{} UTC", calendar::shown(seconds))),
    )
}

/// `rw-r-----` for 0640, with s and t for the three bits above.
pub(super) fn letters(mode: u32) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
