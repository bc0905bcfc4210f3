//! Tests of lines that parsers read and terminals display safely, and of files that are moved away;
//! batches and broken logs are tested in `tests/`.
#![allow(clippy::disallowed_methods, reason = "the files of a test")]

mod batches;
mod broken;

use super::*;
use proptest::prelude::*;
use serde_json::Value;
use std::time::{Duration, UNIX_EPOCH};
use xdfs_proto::base::{Safety, SessionId};

fn transfer(name: &str, error: Option<&str>) -> LogEvent {
    LogEvent::Transfer {
        session: SessionId([7; 16]),
        user: "alice".into(),
        operation: 3,
        upload: true,
        name: name.as_bytes().into(),
        bytes: 1 << 40,
        level: "private",
        safety: Some(Safety::Durable),
        unchanged: false,
        error: error.map(str::to_owned),
    }
}

/// The one line of an event.
fn line(event: &LogEvent, at: SystemTime) -> String {
    let lines = lines(event, at);
    let [line] = &lines[..] else { panic!("{lines:?}") };
    line.clone()
}

fn parsed(event: &LogEvent) -> Value {
    serde_json::from_str(&line(event, UNIX_EPOCH + Duration::from_secs(1))).unwrap()
}

#[test]
fn a_transfer_tells_what_moved_and_how_it_ended() {
    let done = parsed(&transfer("data/x", None));
    assert_eq!(done["time"], "1970-01-01T00:00:01.000Z");
    assert_eq!((&done["event"], &done["path"]), (&"transfer".into(), &"data/x".into()));
    assert_eq!((done["bytes"].as_u64(), &done["protection"]), (Some(1 << 40), &"private".into()));
    assert_eq!((&done["durability"], &done["unchanged"]), (&"durable".into(), &false.into()));
    assert_eq!((&done["outcome"], &done["error"]), (&"ok".into(), &Value::Null));
    assert_eq!(parsed(&transfer("data/x", Some("no")))["outcome"], "failed");
}

#[test]
fn no_byte_of_a_line_moves_a_terminal_or_ends_the_line() {
    // Control characters of ASCII and Latin-1, a bidirectional override, a line separator, an
    // emoji, quotes.
    let nasty: String =
        (0..0xa0).filter_map(char::from_u32).chain("\u{202e}\u{2028}\u{1f4a5}\u{feff}".chars()).collect();
    let event = transfer(&nasty, Some(&nasty));
    let line = line(&event, UNIX_EPOCH);
    assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{line}");
    assert_eq!(parsed(&event)["path"], nasty.as_bytes().escape_ascii().to_string());
    assert!(
        parsed(&event)["error"].as_str().is_some_and(|error| error.starts_with(&nasty[..20]) && error.ends_with("..."))
    );
}

#[test]
fn a_file_that_was_moved_away_is_made_again() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let path = folder.join("audit.jsonl");
    let log = AuditLog::file(&path).unwrap();
    assert_eq!(log.folder(), Some(folder.to_owned()));
    log.write(&transfer("data/1", None));
    std::fs::rename(&path, folder.join("old")).unwrap();
    log.write(&transfer("data/2", None));
    log.reopen().unwrap();
    log.write(&transfer("data/3", None));
    log.write(&LogEvent::Status { lines: vec!["not an event".into()] });
    let lines = |name| std::fs::read_to_string(folder.join(name)).unwrap().lines().count();
    assert_eq!((lines("old"), lines("audit.jsonl")), (2, 1));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(AuditLog::file(folder).is_err(), "a folder is no file");
}

#[test]
fn of_a_start_by_hand_the_service_has_its_log_afterwards() {
    use std::os::unix::fs::{MetadataExt, chown};
    if !xdfs_test_needs::root("nobody else gives files away") {
        return;
    }
    const SERVICE: u32 = 471;
    const PERSON: u32 = 4711;
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.jsonl");
    chown(scratch.path(), Some(SERVICE), Some(SERVICE)).unwrap();
    drop(AuditLog::file(&path).unwrap());
    assert_eq!((path.metadata().unwrap().uid(), path.metadata().unwrap().gid()), (SERVICE, SERVICE));
    std::fs::remove_file(&path).unwrap();
    chown(scratch.path(), Some(PERSON), None).unwrap();
    drop(AuditLog::file(&path).unwrap());
    assert_eq!(path.metadata().unwrap().uid(), 0, "nothing for a person to read");
    // What is there is left to whom it belongs to.
    chown(&path, Some(0), Some(0)).unwrap();
    drop(AuditLog::file(&path).unwrap());
    assert_eq!(path.metadata().unwrap().uid(), 0);
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("elsewhere", &path).unwrap();
    drop(AuditLog::file(&path).unwrap());
    assert!(scratch.path().join("elsewhere").is_file(), "a link to a file that is not there yet");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_named_reads_back(name in any::<String>(), error in any::<Option<String>>()) {
        let event = transfer(&name, error.as_deref());
        let line = line(&event, UNIX_EPOCH);
        prop_assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        let back = parsed(&event);
        prop_assert!(line.len() < LINE_BYTES_MAX);
        let shown = name.as_bytes().escape_ascii().to_string();
        match back["path_bytes"].as_u64() {
            None => prop_assert_eq!(back["path"].as_str(), Some(shown.as_str())),
            Some(bytes) => {
                prop_assert_eq!(bytes, name.len() as u64);
                prop_assert!(shown.starts_with(back["path"].as_str().unwrap()));
            }
        }
    }
}
