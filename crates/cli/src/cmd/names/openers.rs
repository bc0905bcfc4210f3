//! Who has a file open, for `xdfs stat --locks`.

use crate::text::printable;
use serde::Serialize;
use std::fmt::Write;
use xdfs_client::wire::OpenedFor;
use xdfs_client::{Opener, Openers};

/// An open file in JSON.
#[derive(Serialize)]
pub(super) struct OpenerJson {
    /// Null for visitors, and if a visitor asks.
    user: Option<String>,
    read: bool,
    write: bool,
    deny_read: bool,
    deny_write: bool,
    lock: Option<&'static str>,
    locked_ranges: u64,
    lease: Option<&'static str>,
}

fn lock(does: OpenedFor) -> Option<&'static str> {
    let exclusive = does.has(OpenedFor::EXCLUSIVE_LOCK);
    does.has(OpenedFor::LOCK).then_some(if exclusive { "exclusive" } else { "shared" })
}

fn lease(does: OpenedFor) -> Option<&'static str> {
    let writes = does.has(OpenedFor::WRITE_LEASE);
    does.has(OpenedFor::LEASE).then_some(if writes { "write" } else { "read" })
}

fn user(one: &Opener) -> Option<String> {
    (!one.user.is_empty()).then(|| printable(&one.user))
}

/// Them in JSON.
pub(super) fn json(openers: &Openers) -> Vec<OpenerJson> {
    let json = |one: &Opener| OpenerJson {
        user: user(one),
        read: one.does.has(OpenedFor::READING),
        write: one.does.has(OpenedFor::WRITING),
        deny_read: one.does.has(OpenedFor::DENYING_READING),
        deny_write: one.does.has(OpenedFor::DENYING_WRITING),
        lock: lock(one.does),
        locked_ranges: one.ranges,
        lease: lease(one.does),
    };
    openers.list.iter().map(json).collect()
}

/// Lines for people.
pub(super) fn describe(openers: &Openers) -> String {
    if openers.list.is_empty() {
        return "  open   by no client of the server\n".to_owned();
    }
    let mut text = String::new();
    for one in &openers.list {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  open   {}: {}", user(one).as_deref().unwrap_or("(visitor)"), does(one));
    }
    if !openers.complete {
        text += "  open   and more that the server does not list\n";
    }
    text
}

fn does(one: &Opener) -> String {
    let has = |bit, text: &str| one.does.has(bit).then(|| text.to_owned());
    let parts = [
        has(OpenedFor::READING, "reads"),
        has(OpenedFor::WRITING, "writes"),
        has(OpenedFor::DENYING_READING, "lets nobody else read"),
        has(OpenedFor::DENYING_WRITING, "lets nobody else write"),
        lock(one.does).map(|kind| format!("{kind} lock of the whole file")),
        (one.ranges > 0).then(|| format!("{} locked range{}", one.ranges, if one.ranges == 1 { "" } else { "s" })),
        lease(one.does).map(|kind| format!("{kind} lease")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_does_with_an_open_file_is_one_line() {
        let all = Opener { user: b"an\x1bna".to_vec(), does: OpenedFor::ALL, ranges: 2 };
        let reads = Opener { user: Vec::new(), does: OpenedFor::READING.and_if(true, OpenedFor::LOCK), ranges: 0 };
        let text = describe(&Openers { list: vec![all, reads], complete: false });
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines[0],
            "open   an\\u{1b}na: reads, writes, lets nobody else read, lets nobody else write, \
             exclusive lock of the whole file, 2 locked ranges, write lease"
        );
        assert_eq!(
            lines[1..],
            ["open   (visitor): reads, shared lock of the whole file", "open   and more that the server does not list"]
        );
    }
}
