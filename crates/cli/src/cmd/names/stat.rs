//! `xdfs stat`: all attributes that a server reports for a name. Also formats attributes for `xdfs
//! ls`.

use super::openers::{self, OpenerJson};
use super::{Done, NameError, json_name, trouble, wire_name};
use crate::calendar;
use crate::exit::{Exit, Failure};
use crate::output::{JsonLines, print};
use crate::plan::NamesPlan;
use crate::text::printable;
use crate::url::Url;
use serde::Serialize;
use std::fmt::Write;
use xdfs_client::wire::{FileType, Wanted};
use xdfs_client::{ErrorKind, Facts, Openers, Session};
use xdfs_proto::base::Timestamp;

/// The attributes that a listing shows for each name.
pub(super) const SHOWN: Wanted = Wanted::MODE
    .and(Wanted::SIZE)
    .and(Wanted::MODIFIED)
    .and(Wanted::OWNER)
    .and(Wanted::NAMES)
    .and(Wanted::LINKS)
    .and(Wanted::TARGET);

const WANTED: Wanted = SHOWN.and(Wanted::ACCESSED).and(Wanted::ALLOCATED).and(Wanted::DEVICE);

/// Attributes in JSON; those that the server does not report are null.
#[derive(Serialize)]
pub(super) struct StatAttributes {
    #[serde(rename = "type")]
    kind: &'static str,
    size: Option<u64>,
    mode: Option<String>,
    mtime: Option<i64>,
    mtime_nanoseconds: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    links: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    target_escaped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename = "stat")]
struct StatLine {
    url: String,
    /// Its last path component; `None` for the top of an export.
    name: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    name_escaped: bool,
    #[serde(flatten)]
    told: StatAttributes,
    atime: Option<i64>,
    atime_nanoseconds: Option<u32>,
    allocated: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<Vec<OpenerJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_complete: Option<bool>,
}

pub(super) fn run(plan: &NamesPlan, session: &Session, url: &Url, locks: bool) -> Done {
    // Before anybody looks at the file, which ends a write lease.
    let openers = match locks {
        true => Some(session.openers(wire_name(url)).map_err(|error| trouble(url, &error))?),
        false => None,
    };
    let facts = session.look(wire_name(url), WANTED).map_err(|error| trouble(url, &error))?;
    if url.directory && facts.kind != FileType::Directory {
        let text = format!("{url}: this is not a directory");
        return Err(NameError::Told(Failure::new(Exit::Usage, text), ErrorKind::NotDirectory));
    }
    show_with(plan, url, &facts, openers.as_ref())
}

/// Shows what is known of a name.
pub(super) fn show(plan: &NamesPlan, url: &Url, facts: &Facts) -> Done {
    show_with(plan, url, facts, None)
}

fn show_with(plan: &NamesPlan, url: &Url, facts: &Facts, openers: Option<&Openers>) -> Done {
    if plan.json {
        JsonLines.write(&line(url, facts, openers))?
    } else {
        print(&format!("{}{}", describe(url, facts), openers.map(openers::describe).unwrap_or_default()))?
    }
    Ok(())
}

fn line(url: &Url, facts: &Facts, openers: Option<&Openers>) -> StatLine {
    let (name, name_escaped) = url.name().map(json_name).unzip();
    let (atime, atime_nanoseconds) = facts.accessed.map(|time| (time.seconds, time.nanoseconds)).unzip();
    StatLine {
        url: url.to_string(),
        name,
        name_escaped: name_escaped.unwrap_or(false),
        told: StatAttributes::of(facts),
        atime,
        atime_nanoseconds,
        allocated: facts.allocated,
        device: facts.device.map(|(major, minor)| format!("{major}:{minor}")),
        open: openers.map(openers::json),
        open_complete: openers.map(|told| told.complete),
    }
}

impl StatAttributes {
    pub(super) fn of(facts: &Facts) -> Self {
        let (mtime, mtime_nanoseconds) = facts.modified.map(|time| (time.seconds, time.nanoseconds)).unzip();
        let (uid, gid) = facts.owner.unzip();
        let (target, target_escaped) = facts.target.as_deref().map(json_name).unzip();
        let (user, group) =
            facts.names.as_ref().map_or((None, None), |(user, group)| (owner_json(user), owner_json(group)));
        Self {
            kind: word(facts.kind),
            size: facts.size,
            mode: facts.mode.map(|mode| format!("{mode:04o}")),
            mtime,
            mtime_nanoseconds,
            uid,
            gid,
            links: facts.links,
            target,
            target_escaped: target_escaped.unwrap_or(false),
            user,
            group,
        }
    }
}

/// The description of a file for people.
fn describe(url: &Url, facts: &Facts) -> String {
    let name = url.name().map_or("(the export's top)".to_owned(), printable);
    let mut text = format!("{url}\n  name   {name}\n  type   {}\n", word_of(facts.kind));
    // Writing to a string cannot fail.
    let mut field = |name: &str, value: Option<String>| {
        let _ = value.map(|value| writeln!(text, "  {name:<6} {value}"));
    };
    let endless = (facts.kind == FileType::Regular).then(|| "endless".to_owned());
    field("target", facts.target.as_deref().map(printable));
    field("size", facts.size.map(|size| format!("{size} bytes ({})", crate::size::human(size))).or(endless));
    field("disk", facts.allocated.map(|bytes| format!("{bytes} bytes")));
    field("device", facts.device.map(|(major, minor)| format!("{major}, {minor}")));
    field("mode", facts.mode.map(|mode| format!("{mode:04o} ({})", letters(mode))));
    field("owner", owner(facts));
    field("links", facts.links.map(|links| links.to_string()));
    field("mtime", facts.modified.map(time));
    field("atime", facts.accessed.map(time));
    text
}

fn time(Timestamp { seconds, nanoseconds }: Timestamp) -> String {
    format!("{}.{nanoseconds:09} UTC", calendar::shown(seconds))
}

/// The name of an owner for JSON, if it has one.
fn owner_json(name: &[u8]) -> Option<String> {
    (!name.is_empty()).then(|| json_name(name).0)
}

/// Names of owner and group for display, if they have any.
fn named(facts: &Facts) -> (Option<String>, Option<String>) {
    let shown = |name: &[u8]| (!name.is_empty()).then(|| printable(name));
    facts.names.as_ref().map_or((None, None), |(user, group)| (shown(user), shown(group)))
}

fn owner(facts: &Facts) -> Option<String> {
    let (user, group) = named(facts);
    let shown =
        |number: u32, name: Option<String>| name.map_or(number.to_string(), |name| format!("{number} ({name})"));
    facts.owner.map(|(uid, gid)| format!("user {}, group {}", shown(uid, user), shown(gid, group)))
}

/// The word of a file type in JSON.
pub(super) fn word(kind: FileType) -> &'static str {
    match kind {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character_device",
        FileType::BlockDevice => "block_device",
        FileType::Other => "other",
    }
}

/// The same for display.
fn word_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Regular => "regular file",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "pipe",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
        other => word(other),
    }
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
}
