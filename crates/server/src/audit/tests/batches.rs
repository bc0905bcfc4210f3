//! Batches made to flood the log: their lines stay short, no change is left out, and the log grows
//! by a bounded multiple of what was sent.

use crate::audit::{LINE_BYTES_MAX, lines};
use crate::log::{CallLine, LogEvent};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;
use xdfs_proto::base::{Error, ErrorKind, Safety, SessionId};
use xdfs_proto::limits::{CALL_BYTES_MAX, CALLS_MAX};
use xdfs_proto::wire::path::{Batch, Call};
use xdfs_secure::content;

/// Bytes of the head and tag of the record that carries a batch.
const RECORD_BYTES: usize = 48;

/// The most bytes of the log per byte sent; docs/security.md guarantees it.
const GROWTH_MAX: usize = 12;

/// The log lines of a batch with this base, and how many bytes the client sends for it.
fn told(base: &[u8], calls: &[(Call<'_>, Option<Error>)]) -> (Vec<String>, usize) {
    let batch = Batch {
        base,
        request: [0; 16],
        age_ms: None,
        stop: false,
        durable: true,
        room: 65_536,
        calls: calls.iter().map(|(call, _)| *call).collect(),
    };
    let sent = batch.encode();
    assert!(sent.len() <= CALL_BYTES_MAX && calls.len() <= CALLS_MAX, "{} bytes", sent.len());
    let outcome = |error: &Option<Error>| error.clone().map_or(Ok(false), Err);
    let calls = calls.iter().map(|(call, error)| CallLine::of(call, outcome(error).as_ref())).collect();
    let event = LogEvent::Calls {
        session: SessionId([7; 16]),
        user: "alice".into(),
        operation: 3,
        base: base.into(),
        calls,
        safety: Some(Safety::Durable),
        error: None,
    };
    let lines = lines(&event, UNIX_EPOCH);
    assert!(lines.iter().all(|line| line.len() < LINE_BYTES_MAX && line.is_ascii()), "a long line");
    (lines, sent.len() + RECORD_BYTES)
}

fn parsed(lines: &[String]) -> Vec<Value> {
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The calls of all lines.
fn calls_of(lines: &[String]) -> Vec<Value> {
    parsed(lines).iter().flat_map(|line| line["calls"].as_array().unwrap().clone()).collect()
}

#[test]
fn a_long_batch_takes_several_lines_and_every_change_is_told() {
    let noise: Vec<Vec<u8>> = (0..CALLS_MAX as u64 - 1).map(|n| format!("{n:0>900}").into_bytes()).collect();
    let mut calls: Vec<_> =
        noise.iter().map(|path| (Call::MakeDirectory { path, parents: false, mode: 0o755 }, None)).collect();
    calls.insert(200, (Call::Unlink { path: b"precious" }, None));
    let (lines, _) = told(b"data", &calls);
    assert!(lines.len() > 1);
    let told = calls_of(&lines);
    assert_eq!(told.len(), CALLS_MAX, "every call");
    assert_eq!((&told[200]["call"], &told[200]["path"]), (&"unlink".into(), &"precious".into()));
    assert_eq!(told[0]["path_bytes"], 900);
    let hash: String = content::hash(&noise[0]).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(told[0]["path_hash"], hash.as_str());
    for (number, line) in (1..).zip(parsed(&lines)) {
        assert_eq!((line["part"].as_u64(), line["parts"].as_u64()), (Some(number), Some(lines.len() as u64)));
        assert_eq!((&line["base"], &line["user"]), (&"data".into(), &"alice".into()));
    }
}

#[test]
fn calls_that_fail_are_counted_where_they_are_many_and_the_others_are_told() {
    let refused = || Some(Error::new(ErrorKind::NotFound, "no such file or directory"));
    let mut calls = vec![(Call::Unlink { path: b"a" }, refused()); CALLS_MAX];
    calls[100].1 = None;
    calls[101].1 = Some(Error::new(ErrorKind::PermissionDenied, "permission denied"));
    let (lines, _) = told(b"data", &calls);
    let told = calls_of(&lines);
    assert_eq!(told.iter().filter(|call| call["error"].is_null()).count(), 1, "what was done");
    let more: u64 = parsed(&lines)[0]["failed_more"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(told.len() as u64 + more, CALLS_MAX as u64);
}

#[test]
fn the_log_grows_by_a_bounded_multiple_of_what_was_sent() {
    let long = |byte: u8, length: usize| vec![byte; length];
    let failed = || Some(Error::new(ErrorKind::NotFound, "x".repeat(500)));
    let (quarter, binary, big) = (long(b'\\', 768), long(0xff, 150), long(0x01, 27_000));
    let rename = || (Call::Rename { path: b"a", to: b"b", keep_existing: false }, None);
    let shapes: BTreeMap<&str, Vec<(Call<'_>, Option<Error>)>> = [
        ("one", vec![(Call::Unlink { path: b"a" }, None)]),
        ("one that fails", vec![(Call::Unlink { path: b"a" }, failed())]),
        ("many", vec![(Call::Unlink { path: b"a" }, None); CALLS_MAX]),
        ("many that fail", vec![(Call::Unlink { path: b"a" }, failed()); CALLS_MAX]),
        ("some that fail", vec![(Call::RemoveDirectory { path: b"a" }, failed()); 8]),
        ("renames", vec![rename(); 2]),
        ("many renames", vec![rename(); CALLS_MAX]),
        ("names to escape", vec![(Call::Unlink { path: &binary }, None); CALLS_MAX]),
        ("long names", vec![(Call::Link { path: &quarter, to: &quarter }, None); 140]),
        ("very long names", vec![(Call::Unlink { path: &big }, failed()); 8]),
    ]
    .into();
    for (shape, calls) in &shapes {
        for base in [b"data".to_vec(), long(0xfe, 140), long(b'x', 32_000)] {
            let (lines, sent) = told(&base, calls);
            let written: usize = lines.iter().map(|line| line.len() + 1).sum();
            let growth = written as f64 / sent as f64;
            println!("{shape}, base of {}: {written} for {sent} = {growth:.1}", base.len());
            assert!(written <= GROWTH_MAX * sent, "{shape}: {written} bytes for {sent}");
        }
    }
}
