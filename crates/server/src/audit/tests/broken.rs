//! Logs that take a line in parts, or not at all, and readers that follow them.
#![allow(clippy::disallowed_methods, reason = "the files of a test")]

use super::transfer;
use crate::audit::AuditLog;
use crate::audit::append::PendingLines;
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Result, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// A log with a scripted result for each call.
#[derive(Default)]
struct Moody {
    /// How many bytes it takes in each of the next calls; none fails.
    takes: VecDeque<Option<usize>>,
    calls: Vec<usize>,
    content: Vec<u8>,
}

impl Write for Moody {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let taken = self.takes.pop_front().unwrap_or(Some(bytes.len()));
        let count = taken.ok_or(Error::from(ErrorKind::StorageFull))?.min(bytes.len());
        self.calls.push(count);
        self.content.extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

fn lost(lines: u64) -> String {
    format!("{lines} lost\n")
}

#[test]
fn a_line_goes_out_in_one_call() {
    let (mut log, mut owed) = (Moody::default(), PendingLines::default());
    assert!(owed.write(&mut log, b"a line\n", lost).unwrap());
    assert!(owed.write(&mut log, b"another\n", lost).unwrap());
    assert_eq!((log.calls, log.content), (vec![7, 8], b"a line\nanother\n".to_vec()));
}

#[test]
fn a_line_that_was_taken_in_parts_is_completed_and_that_is_said() {
    let mut log = Moody { takes: [Some(3), Some(2)].into(), ..Moody::default() };
    assert!(!PendingLines::default().write(&mut log, b"a line\n", lost).unwrap());
    assert_eq!(log.content, b"a line\n");
}

#[test]
fn what_a_full_disk_cut_off_follows_when_there_is_room_and_lost_lines_are_counted() {
    let mut log = Moody { takes: [Some(3), None, None, None, None].into(), ..Moody::default() };
    let mut owed = PendingLines::default();
    for line in [&b"first\n"[..], b"second\n", b"third\n"] {
        assert!(owed.write(&mut log, line, lost).is_err());
    }
    assert_eq!(log.content, b"fir");
    log.takes = [Some(2), None, Some(1), Some(2), None].into();
    assert!(owed.write(&mut log, b"fourth\n", lost).is_err());
    assert!(owed.write(&mut log, b"fifth\n", lost).is_err(), "the line about the loss was begun");
    assert!(owed.write(&mut log, b"sixth\n", lost).is_ok());
    assert_eq!(String::from_utf8(log.content).unwrap(), "first\n3 lost\n1 lost\nsixth\n");
}

#[test]
fn a_log_that_was_moved_away_with_half_a_line_counts_it_in_the_new_one() {
    let mut log = Moody { takes: [Some(3), None].into(), ..Moody::default() };
    let mut owed = PendingLines::default();
    assert!(owed.write(&mut log, b"first\n", lost).is_err());
    owed.reopened();
    let mut new = Moody::default();
    assert!(owed.write(&mut new, b"second\n", lost).is_ok());
    assert_eq!(new.content, b"1 lost\nsecond\n");
}

#[test]
fn a_full_disk_is_told_and_the_lines_that_are_missing_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let log = AuditLog::file(&path).unwrap();
    let write = |name: &str| log.write(&transfer(name, None)).failed;
    assert!(!write("data/1"));
    log.target.lock().unwrap().file = Some(std::fs::OpenOptions::new().append(true).open("/dev/full").unwrap());
    assert!(write("data/2") && write("data/3"));
    log.reopen().unwrap();
    assert!(!write("data/4"));
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [one, missing, four] = &lines[..] else { panic!("{text}") };
    assert_eq!((&one["path"], &four["path"]), (&"data/1".into(), &"data/4".into()));
    assert_eq!((&missing["event"], &missing["lines"]), (&"audit_lost".into(), &2.into()));
}

#[test]
fn who_follows_the_log_by_its_line_breaks_never_reads_half_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let log = AuditLog::file(&path).unwrap();
    let ended = AtomicBool::new(false);
    const LINES: usize = 3000;
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for number in 0..LINES {
                assert!(!log.write(&transfer(&format!("data/{number}"), None)).failed);
            }
            ended.store(true, Ordering::Release);
        });
        loop {
            let last = ended.load(Ordering::Acquire);
            let text = std::fs::read_to_string(&path).unwrap();
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            let lines: Vec<Value> =
                whole.lines().map(|line| serde_json::from_str(line).expect("a whole line")).collect();
            if last {
                assert_eq!(lines.len(), LINES);
                break;
            }
        }
    });
}
