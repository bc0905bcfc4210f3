//! The tables of docs/protocol.md say what the code says, and its rules are numbered without gaps.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test of files of the tree")]

use std::path::Path;
use xdfs_proto::base::{ErrorKind, Retry, path};
use xdfs_proto::limits;
use xdfs_proto::wire::file::FileCode;
use xdfs_proto::wire::handshake::MessageType;
use xdfs_proto::wire::path::Code;
use xdfs_proto::wire::preface::Status;
use xdfs_proto::wire::{Event, HEAD_BYTES};

fn document() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md")).unwrap()
}

/// Rows of the tables in the section with this heading, cell by cell, without heads and rulers.
fn rows(section: &str) -> Vec<Vec<String>> {
    let document = document();
    let start = document.find(&format!("\n## {section}")).unwrap_or_else(|| panic!("no section {section}"));
    let rest = &document[start + 1..];
    let section = &rest[..rest[1..].find("\n## ").map_or(rest.len(), |end| end + 1)];
    let row = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    section.lines().filter(|line| line.starts_with('|')).map(row).collect()
}

/// Code and name of every row that starts with a number.
fn coded(section: &str) -> Vec<(u16, String)> {
    let code = |row: Vec<String>| row[0].parse().ok().map(|code| (code, row[1].clone()));
    rows(section).into_iter().filter_map(code).collect()
}

#[test]
fn the_table_of_events_is_the_codes() {
    let events: Vec<_> = Event::ALL.iter().map(|event| (*event as u16, event.name().to_owned())).collect();
    assert_eq!(coded("7. Events"), events);
}

#[test]
fn the_table_of_calls_is_the_codes() {
    let calls: Vec<_> = Code::ALL.iter().map(|code| (*code as u16, code.name().to_owned())).collect();
    assert_eq!(coded("8. Messages"), calls);
    assert_eq!(u64::from(calls.last().unwrap().0) + 1, 33, "the first number behind the reserved ones and the calls");
}

#[test]
fn the_table_of_calls_on_files_is_the_codes() {
    let calls: Vec<_> = FileCode::ALL.iter().map(|code| (*code as u16, code.name().to_owned())).collect();
    assert_eq!(coded("17. Remote files"), calls);
}

#[test]
fn the_table_of_errors_is_the_codes_with_their_retry_kinds_and_words() {
    let retry = |kind: &ErrorKind| match kind.retry() {
        Retry::Permanent => "permanent",
        Retry::Temporary => "temporary",
        Retry::Persistent => "persistent",
    };
    let line = |kind: &ErrorKind| {
        vec![(*kind as u16).to_string(), format!("{kind:?}"), retry(kind).to_owned(), kind.text().to_owned()]
    };
    let kinds: Vec<_> = ErrorKind::ALL.iter().map(line).collect();
    assert_eq!(rows("10. Errors")[2..], kinds);
}

#[test]
fn the_tables_of_statuses_and_handshake_messages_are_the_codes() {
    let statuses: Vec<_> = Status::ALL.iter().map(|status| (*status as u16, format!("{status:?}"))).collect();
    assert_eq!(coded("2. The preface"), statuses);
    let messages: Vec<_> = MessageType::ALL.iter().map(|message| (*message as u16, format!("{message:?}"))).collect();
    assert_eq!(coded("3. The handshake"), messages);
}

#[test]
fn the_table_of_limits_is_the_codes() {
    #[rustfmt::skip]
    let limits: &[(&str, u64)] = &[
        ("CONTROL_BYTES_MAX", limits::CONTROL_BYTES_MAX as u64),
        ("BLOCK_BYTES_MIN", limits::BLOCK_BYTES_MIN.into()),
        ("BLOCK_BYTES_MAX", limits::BLOCK_BYTES_MAX.into()),
        ("BLOCK_BYTES_DEFAULT", limits::BLOCK_BYTES_DEFAULT.into()),
        ("CHANNELS_DEFAULT_MAX", limits::CHANNELS_DEFAULT_MAX.into()),
        ("CHANNELS_HARD_MAX", limits::CHANNELS_HARD_MAX.into()),
        ("PIPELINES_MAX", limits::PIPELINES_MAX.into()),
        ("OPERATIONS_MAX", limits::OPERATIONS_MAX as u64),
        ("WINDOW_BYTES_MAX", limits::WINDOW_BYTES_MAX),
        ("ACK_RANGES_MAX", limits::ACK_RANGES_MAX as u64),
        ("INITIAL_CREDIT_MAX", limits::INITIAL_CREDIT_MAX),
        ("LOGIN_BYTES_MAX", limits::LOGIN_BYTES_MAX as u64),
        ("USER_BYTES_MAX", limits::USER_BYTES_MAX as u64),
        ("SUITES_MAX", limits::SUITES_MAX as u64),
        ("OPTIONS_MAX", limits::OPTIONS_MAX as u64),
        ("OPTION_BYTES_MAX", limits::OPTION_BYTES_MAX as u64),
        ("LABEL_BYTES_MAX", limits::LABEL_BYTES_MAX as u64),
        ("FENCES_UNKNOWN_MAX", limits::FENCES_UNKNOWN_MAX.into()),
        ("OUTCOME_AGAIN_MAX", limits::OUTCOME_AGAIN_MAX.into()),
        ("LEDGER_ENTRIES_MAX", limits::LEDGER_ENTRIES_MAX as u64),
        ("KEPT_HASHED_MAX", limits::KEPT_HASHED_MAX as u64),
        ("SUBTREES_MAX", limits::SUBTREES_MAX as u64),
        ("CALL_BYTES_MAX", limits::CALL_BYTES_MAX as u64),
        ("CALLS_MAX", limits::CALLS_MAX as u64),
        ("CALL_ROOM_MAX", limits::CALL_ROOM_MAX as u64),
        ("CALL_ROOM_WIDE", limits::CALL_ROOM_WIDE as u64),
        ("RECALLS_MAX", limits::RECALLS_MAX as u64),
        ("NOTICES_MAX", limits::NOTICES_MAX as u64),
        ("READ_RANGES_MAX", limits::READ_RANGES_MAX as u64),
        ("CALL_PATH_BYTES_MAX", limits::CALL_PATH_BYTES_MAX as u64),
        ("CURSOR_BYTES_MAX", limits::CURSOR_BYTES_MAX as u64),
        ("STAGE_PATH_BYTES_MAX", limits::STAGE_PATH_BYTES_MAX as u64),
        ("LINK_BYTES_MAX", limits::LINK_BYTES_MAX as u64),
        ("XATTR_NAME_BYTES_MAX", limits::XATTR_NAME_BYTES_MAX as u64),
        ("XATTR_BYTES_MAX", limits::XATTR_BYTES_MAX as u64),
    ];
    let found: Vec<_> = rows("11. Limits")[2..].iter().map(|row| (row[2].clone(), row[1].parse().unwrap())).collect();
    let expected: Vec<_> = limits.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    assert_eq!(found, expected);
    let text = document();
    for (value, words) in [
        (limits::STALL_MIN.as_millis() as u64, "200 ms to 300 s, 30 s where nobody asks"),
        (limits::GRANT_LIFE.as_secs(), "Life of a grant: 15 s."),
        (path::PATH_BYTES_MAX as u64, "Path: 32768 bytes, component 255 bytes,\n1024 components"),
    ] {
        assert!(text.contains(words) && words.contains(&value.to_string()), "{value}: {words}");
    }
    assert_eq!((limits::STALL_MAX.as_secs(), limits::STALL_DEFAULT.as_secs()), (300, 30));
    assert_eq!((path::COMPONENT_BYTES_MAX, path::DEPTH_MAX), (255, 1024));
}

#[test]
fn the_table_of_the_head_adds_up() {
    let mut at = 0;
    for row in &rows("6. Records")[2..] {
        let Some(width) = row[1].strip_prefix('u') else { continue };
        assert_eq!(row[0].parse(), Ok(at), "{row:?}");
        at += width.parse::<usize>().unwrap() / 8;
    }
    assert_eq!(at, HEAD_BYTES);
}

#[test]
fn rules_are_numbered_without_gaps() {
    let text = document();
    let numbers: Vec<u32> =
        text.lines().filter_map(|line| line.strip_prefix("- **P-")?.split_once("**")?.0.parse().ok()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u32).collect::<Vec<_>>());
}
