//! Reading ahead and writing behind at offsets.

use super::support::serving::Serving;
use super::support::{assert_same, pattern};
use super::{BOTH, remote};
use std::os::unix::fs::FileExt;
use xdfs_client::ErrorKind;
use xdfs_client::file::{Changes, File, OpenOptions};
use xdfs_server::LogEvent;

const PART: usize = 64 << 10;
const PARTS: usize = 16;

/// Reads the first mebibyte in order, then has a program at the server change what is behind it.
fn read_in_order(serving: &Serving, file: &File, bytes: &[u8]) {
    let mut part = vec![0; PART];
    for at in 0..PARTS {
        assert_eq!(file.read_ahead_at(&mut part, (at * PART) as u64).unwrap(), PART);
        assert_same(&part, &bytes[at * PART..][..PART]);
    }
    let changed = std::fs::OpenOptions::new().write(true).open(serving.directory.path().join("f")).unwrap();
    changed.write_all_at(&[0; PART], (PARTS * PART) as u64).unwrap();
}

#[test]
fn what_is_read_in_order_is_had_before_it_is_read_until_the_file_is_locked_or_changed() {
    let serving = Serving::start();
    let bytes = pattern(4 << 20, 3);
    serving.directory.write("f", &bytes);
    let remote = remote(&serving);
    let changes = Changes::default();
    let open = || File::open(&remote, "data/f", &BOTH).unwrap().sharing(&changes);
    let mut part = vec![0; 1000];
    let behind = (PARTS * PART) as u64;

    let file = open();
    read_in_order(&serving, &file, &bytes);
    file.read_ahead_at(&mut part, behind).unwrap();
    assert_same(&part, &bytes[PARTS * PART..][..1000]);
    file.try_lock(true).unwrap();
    file.read_ahead_at(&mut part, behind).unwrap();
    assert_same(&part, &[0; 1000]);
    file.unlock().unwrap();

    // A change by another open file of the same one.
    serving.directory.write("f", &bytes);
    let (file, other) = (open(), open());
    read_in_order(&serving, &file, &bytes);
    other.write_at(b"x", 0).unwrap();
    file.read_ahead_at(&mut part, behind).unwrap();
    assert_same(&part, &[0; 1000]);
}

#[test]
fn the_end_of_a_file_is_the_end_until_it_grows() {
    let serving = Serving::start();
    let bytes = pattern(700_000, 9);
    serving.directory.write("f", &bytes);
    let remote = remote(&serving);
    let file = File::open(&remote, "data/f", &OpenOptions::new().read(true)).unwrap();
    let mut read = vec![0; 1 << 20];
    for at in (0..700_000).step_by(100_000) {
        assert_eq!(file.read_ahead_at(&mut read[at..at + 100_000], at as u64).unwrap(), 100_000);
    }
    assert_same(&read[..700_000], &bytes);
    assert_eq!(file.read_ahead_at(&mut read, 700_000).unwrap(), 0);
    let more = std::fs::OpenOptions::new().write(true).open(serving.directory.path().join("f")).unwrap();
    more.write_all_at(b"more", 700_000).unwrap();
    assert_eq!(file.read_ahead_at(&mut read, 699_999).unwrap(), 5);
    assert_eq!(&read[1..5], b"more");
}

#[test]
fn small_writes_that_follow_each_other_are_sent_as_few() {
    let serving = Serving::start();
    let remote = remote(&serving);
    let bytes = pattern(100_000, 4);
    let file = File::open(&remote, "data/f", &BOTH.create(true)).unwrap();
    for (at, part) in bytes.chunks(10).enumerate() {
        file.write_behind_at(part, at as u64 * 10).unwrap();
    }
    // In any order, over what was written before.
    file.write_behind_at(b"later", 5).unwrap();
    file.write_behind_at(b"last", 3).unwrap();
    let mut read = vec![0; 8];
    assert_eq!(file.read_ahead_at(&mut read, 2).unwrap(), 8);
    assert_eq!(&read[1..], b"lastter");
    file.close().unwrap();
    assert_same(&serving.directory.read("f")[10..], &bytes[10..]);
    let calls = |event: &LogEvent| match event {
        LogEvent::Calls { calls, .. } => calls.iter().filter(|call| call.call == "write").count(),
        _ => 0,
    };
    let writes: usize = serving.events().iter().map(calls).sum();
    assert!(writes < 5_000, "{writes} calls for 10,002 writes");
}

#[test]
fn what_was_gathered_is_sent_when_nobody_writes_any_more() {
    let serving = Serving::start();
    let remote = remote(&serving);
    let file = File::open(&remote, "data/f", &BOTH.create(true)).unwrap();
    file.write_behind_at(b"one", 0).unwrap();
    file.write_behind_at(b"two", 3).unwrap();
    while !file.push() {
        std::thread::yield_now();
    }
    assert_eq!(serving.directory.read("f"), b"onetwo");
}

#[test]
fn an_error_of_a_write_behind_is_told_by_the_next_write_and_every_sync_and_by_no_read() {
    let serving = Serving::start();
    serving.directory.write("f", b"content");
    let remote = remote(&serving);
    let file = File::open(&remote, "data/f", &OpenOptions::new().read(true)).unwrap();
    file.write_behind_at(b"x", 0).unwrap();
    let mut read = [0; 7];
    assert_eq!(file.read_ahead_at(&mut read, 0).unwrap(), 7);
    assert_eq!(&read, b"content");
    let kind = file.write_error().unwrap().kind;
    assert_ne!(kind, ErrorKind::ConnectionLost);
    assert_eq!(file.sync_all().unwrap_err().kind, kind);
    file.write_behind_at(b"x", 0).unwrap();
    file.settle_quietly();
    assert_eq!(file.write_behind_at(b"y", 0).unwrap_err().kind, kind);
    // The first "x" is not there, whoever was told.
    assert_eq!(file.sync_all().unwrap_err().kind, kind);
    assert_eq!(file.write_error().map(|error| error.kind), Some(kind));
    assert_eq!(file.close().unwrap_err().kind, kind);
}

#[test]
fn the_first_bytes_come_with_the_open_and_are_not_used_after_a_change() {
    let serving = Serving::start();
    let bytes = pattern(20_000, 5);
    serving.directory.write("f", &bytes);
    let (remote, changes) = (remote(&serving), Changes::default());
    let open = |first| File::open_sharing(&remote, "data/f", &BOTH, &changes, first).unwrap();
    let file = open(64 << 10);
    let there = std::fs::OpenOptions::new().write(true).open(serving.directory.path().join("f")).unwrap();
    there.write_all_at(b"later", 0).unwrap();
    let mut read = vec![0; 32 << 10];
    // As a kernel reads: the parts overtake each other, and the last one ends behind the file.
    assert_eq!(file.read_ahead_at(&mut read[16_384..20_480], 16_384).unwrap(), 20_000 - 16_384);
    assert_eq!(file.read_ahead_at(&mut read[..16_384], 0).unwrap(), 16_384);
    assert_same(&read[..20_000], &bytes);
    // At the end there may be more by now.
    there.write_all_at(b"more", 20_000).unwrap();
    assert_eq!(file.read_ahead_at(&mut read, 20_000).unwrap(), 4);
    assert_eq!(&read[..4], b"more");
    // Another open file of the same one changes it.
    let (file, other) = (open(1000), open(0));
    other.write_at(b"x", 0).unwrap();
    assert_eq!(file.read_ahead_at(&mut read[..5], 0).unwrap(), 5);
    assert_eq!(&read[..5], b"xater");
}
