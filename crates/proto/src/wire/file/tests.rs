//! Every call and every answer comes back as it was; what makes no sense is refused.

use super::*;
use crate::base::Duration;
use crate::base::ErrorKind;
use crate::lease::{LeaseAnswer, LeaseKind};
use crate::limits;
use crate::range_locks::RangeLock;
use crate::wire::path::{Attributes, Failure, FileType, REPLY_BYTES, ReplyWriter, Wanted};
use crate::wire::{Reader, WireError, Writer};
use alloc::vec;
use alloc::vec::Vec;

const OPEN: OpenFile<'static> = OpenFile {
    path: b"data/x",
    read: true,
    write: true,
    create: true,
    exclusive: true,
    truncate: true,
    deny_read: true,
    deny_write: true,
    mode: 0o640,
    again: None,
    pipe: false,
};

fn every_call() -> Vec<FileCall<'static>> {
    let ranges = vec![ReadRange { offset: 0, length: 4096 }, ReadRange { offset: 1 << 60, length: 0 }];
    vec![
        FileCall::Open(OPEN),
        FileCall::Read { ranges },
        FileCall::Write { offset: 5, data: b"data" },
        FileCall::Append { data: b"line\n" },
        FileCall::SetLength { length: 1 << 50 },
        FileCall::Sync { data_only: true },
        FileCall::Allocate { offset: 1, length: 2, keep_size: true },
        FileCall::Punch { offset: 1, length: 2 },
        FileCall::Seek { offset: 9, hole: true },
        FileCall::Attributes { wanted: Wanted::ALL },
        FileCall::Lock { exclusive: true, wait: true },
        FileCall::Unlock,
        FileCall::LockRange { owner: [9; 8], lock: lock(1 << 40), wait: true },
        FileCall::Lease(LeaseCall::Reclaim { kind: LeaseKind::Write, before: 300 }),
        FileCall::UnlockRange { owner: [9; 8], range: range_to_the_end(5).unwrap() },
        FileCall::FindLock { owner: [9; 8], lock: lock(0) },
        FileCall::ReadPipe { length: 4096, wait_ms: 1000 },
        FileCall::WritePipe { offset: 1 << 40, wait_ms: 0, data: b"through" },
        FileCall::Close,
        FileCall::Unknown { code: 99 },
    ]
}

fn lock(offset: u64) -> RangeLock {
    RangeLock { range: Extent::new(offset, 100).unwrap(), exclusive: true }
}

fn batch(handle: u64, calls: Vec<FileCall<'_>>) -> FileBatch<'_> {
    FileBatch { stop: true, unordered: true, room: 4096, request: [5; 16], age_ms: Some(9000), handle, calls }
}

fn every_answer() -> Vec<FileOutcome<'static>> {
    let opened = OpenedFile { handle: 7, identity: [1; 24], verifier: [2; 16], size: 1 << 40, change: u64::MAX };
    let answer = LeaseAnswer::Recalled { kind: LeaseKind::Write, left: Duration::from_millis(5000) };
    let told = LeaseTold { answer, local: true };
    vec![
        Ok(FileAnswer::Opened(opened)),
        Ok(FileAnswer::Read(vec![b"bytes", b""])),
        Ok(FileAnswer::Changed { change: 3 }),
        Ok(FileAnswer::Appended { offset: 100, change: 4 }),
        Ok(FileAnswer::Changed { change: 5 }),
        Ok(FileAnswer::Synced { verifier: [2; 16] }),
        Err(Failure { kind: ErrorKind::NoSpace, errno: 28 }),
        Ok(FileAnswer::Changed { change: 6 }),
        Ok(FileAnswer::Found { offset: Some(4096) }),
        Ok(FileAnswer::Attributes(Attributes { size: Some(9), ..Attributes::of(FileType::Regular) })),
        Err(Failure { kind: ErrorKind::Locked, errno: 11 }),
        Ok(FileAnswer::Done),
        Ok(FileAnswer::Done),
        Ok(FileAnswer::Lease(told)),
        Ok(FileAnswer::Done),
        Ok(FileAnswer::FoundLock { lock: Some(lock(7)) }),
        Ok(FileAnswer::ReadPipe { offset: 1 << 61, data: &[7; 4096], end: false }),
        Ok(FileAnswer::WrotePipe { open: true, taken: (1 << 40) + 7 }),
        Ok(FileAnswer::Done),
        Err(Failure { kind: ErrorKind::Unsupported, errno: 0 }),
    ]
}

#[test]
fn every_call_comes_back_and_every_code_is_among_them() {
    let batch = batch(0, every_call());
    let bytes = batch.encode();
    assert_eq!(FileBatch::decode(&bytes).as_ref(), Ok(&batch));
    assert!(FileCode::ALL.iter().all(|code| batch.codes().contains(&(*code as u64))));
    for cut in 0..bytes.len() {
        assert!(FileBatch::decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let head = FileBatch::head_of(&bytes).unwrap();
    assert_eq!((head.handle, head.room, head.unordered), (0, 4096, true));
}

#[test]
fn every_answer_comes_back_within_the_bytes_that_its_call_names() {
    let reply = FileReply { outcomes: every_answer() };
    let (bytes, codes) = (reply.encode(), batch(0, every_call()).codes());
    assert_eq!(FileReply::decode(&bytes, &codes), Ok(reply.clone()));
    for cut in 0..bytes.len() {
        assert!(FileReply::decode(&bytes[..cut], &codes).is_err(), "cut at {cut}");
    }
    assert!(FileReply::decode(&bytes, &codes[1..]).is_err());
    for (call, outcome) in every_call().iter().zip(&reply.outcomes) {
        let bytes = FileReply { outcomes: vec![outcome.clone()] }.encode().len();
        assert!(bytes <= REPLY_BYTES + call.result_bytes_max(), "{call:?}");
    }
}

#[test]
fn open_begins_a_batch_without_a_handle_and_no_other() {
    let refused = Err(WireError::Invalid("handle"));
    assert_eq!(FileBatch::decode(&batch(7, vec![FileCall::Open(OPEN)]).encode()), refused);
    assert_eq!(FileBatch::decode(&batch(0, vec![FileCall::Close]).encode()), refused);
    assert_eq!(FileBatch::decode(&batch(0, vec![FileCall::Open(OPEN); 2]).encode()), refused);
    assert_eq!(FileBatch::decode(&batch(7, vec![]).encode()), Err(WireError::Invalid("calls")));
    assert!(FileBatch::decode(&batch(7, vec![FileCall::Close]).encode()).is_ok());
}

#[test]
fn flags_of_open_that_contradict_each_other_are_refused() {
    let decode = |open| FileBatch::decode(&batch(0, vec![FileCall::Open(open)]).encode()).map(drop);
    let refused = Err(WireError::Invalid("flags of open"));
    let reads = OpenFile { path: b"e/f", read: true, ..OpenFile::default() };
    assert_eq!(decode(reads), Ok(()));
    assert_eq!(decode(OpenFile { read: false, ..reads }), refused, "neither reads nor writes");
    assert_eq!(decode(OpenFile { truncate: true, ..reads }), refused, "cuts without writing");
    assert_eq!(decode(OpenFile { create: true, ..reads }), refused, "creates without writing");
    assert_eq!(decode(OpenFile { exclusive: true, write: true, ..reads }), refused, "exclusive creates nothing");
    let again = OpenFile { again: Some(OpenedBefore { identity: [1; 24], handle: 7 }), write: true, ..reads };
    assert_eq!(decode(again), Ok(()));
    assert_eq!(decode(OpenFile { truncate: true, ..again }), refused, "opened again and cut");
}

#[test]
fn a_pipe_is_opened_at_one_end_and_as_nothing_else() {
    let decode = |open| FileBatch::decode(&batch(0, vec![FileCall::Open(open)]).encode()).map(drop);
    let refused = Err(WireError::Invalid("flags of open"));
    let reads = OpenFile { path: b"e/f", read: true, pipe: true, ..OpenFile::default() };
    assert_eq!(decode(reads), Ok(()));
    let writes = OpenFile { read: false, write: true, ..reads };
    assert_eq!(decode(writes), Ok(()));
    assert_eq!(decode(OpenFile { write: true, ..reads }), refused, "both ends");
    assert_eq!(decode(OpenFile { create: true, ..writes }), refused, "created");
    assert_eq!(decode(OpenFile { deny_write: true, ..reads }), refused, "denies");
    let again = Some(OpenedBefore { identity: [1; 24], handle: 7 });
    assert_eq!(decode(OpenFile { again, ..reads }), refused, "opened again");
    let both = FileReply { outcomes: vec![Ok(FileAnswer::ReadPipe { offset: 0, data: b"x", end: true })] };
    let refused = Err(WireError::Invalid("flags of readpipe"));
    assert_eq!(FileReply::decode(&both.encode(), &[FileCode::ReadPipe as u64]), refused, "bytes behind the end");
}

#[test]
fn ranges_are_counted_and_bounded_before_they_are_used() {
    let with = |count: u64, length: u64| {
        let mut arguments = Writer::new();
        arguments.integer(count);
        for _ in 0..count.min(100) {
            arguments.integer(0).integer(length);
        }
        let mut writer = Writer::new();
        writer.integer(0).integer(99).raw(&[0; 16]).integer(7).integer(1);
        writer.integer(FileCode::Read as u64).bytes(arguments.as_bytes());
        FileBatch::decode(&writer.finish()).map(drop)
    };
    assert_eq!(with(limits::READ_RANGES_MAX as u64, limits::CALL_BYTES_MAX as u64), Ok(()));
    assert_eq!(with(0, 1), Err(WireError::Invalid("ranges")));
    assert_eq!(with(limits::READ_RANGES_MAX as u64 + 1, 1), Err(WireError::TooLong("ranges")));
    assert_eq!(with(1 << 40, 1), Err(WireError::TooLong("ranges")));
    assert_eq!(with(1, limits::CALL_BYTES_MAX as u64 + 1), Err(WireError::TooLong("length of a range")));
}

#[test]
fn a_reply_to_no_handle_or_to_a_strange_call_is_refused() {
    let mut writer = ReplyWriter::new(1, 4096).unwrap();
    FileAnswer::Opened(OpenedFile { handle: 0, identity: [0; 24], verifier: [0; 16], size: 0, change: 0 })
        .tell(&mut writer);
    let payload = writer.finish(crate::base::Safety::Written);
    let codes = [FileCode::Open as u64];
    assert_eq!(FileReply::decode(&payload, &codes), Err(WireError::Invalid("handle")));
    let yes = FileReply { outcomes: vec![Ok(FileAnswer::Done)] }.encode();
    assert_eq!(FileReply::decode(&yes, &[99]), Err(WireError::Invalid("status")));
}

#[test]
fn places_that_cannot_be_said_are_known_before_they_are_sent() {
    let last = (1 << 62) - 1;
    for (place, fits) in [(0, true), (last, true), (last + 1, false), (u64::MAX, false)] {
        let calls = [
            FileCall::Read { ranges: vec![ReadRange { offset: 0, length: 1 }, ReadRange { offset: place, length: 1 }] },
            FileCall::Write { offset: place, data: b"" },
            FileCall::SetLength { length: place },
            FileCall::Allocate { offset: place, length: 1, keep_size: false },
            FileCall::Allocate { offset: 1, length: place, keep_size: false },
            FileCall::Punch { offset: place, length: 1 },
            FileCall::Punch { offset: 1, length: place },
            FileCall::Seek { offset: place, hole: false },
            FileCall::ReadPipe { length: 1, wait_ms: place },
            FileCall::WritePipe { offset: place, wait_ms: 0, data: b"" },
        ];
        for call in calls {
            assert_eq!(call.fits_the_wire(), fits, "{call:?}");
        }
    }
}

#[test]
fn a_size_that_cannot_be_said_is_the_largest_that_can() {
    let mut writer = Writer::new();
    Attributes { size: Some(1 << 63), ..Attributes::of(FileType::Regular) }.write(&mut writer);
    let bytes = writer.finish();
    let read = Attributes::read(&mut Reader::new(&bytes)).unwrap();
    assert_eq!(read.size, Some((1 << 62) - 1));
}

#[test]
fn ranges_of_locks_end_where_files_do() {
    let call = |range| FileCall::UnlockRange { owner: [1; 8], range };
    let back =
        |range| FileBatch::decode(&batch(7, vec![call(range)]).encode()).map(|batch| batch.calls == [call(range)]);
    for offset in [0, 1, (1 << 62) - 1] {
        assert_eq!(back(range_to_the_end(offset).unwrap()), Ok(true), "{offset}");
        assert_eq!(back(Extent::new(offset, (1 << 62) - 1).unwrap()), Ok(true), "{offset}");
    }
    assert!(!call(range_to_the_end(1 << 62).unwrap()).fits_the_wire(), "cannot be said");
    assert!(!call(Extent::new(0, 1 << 62).unwrap()).fits_the_wire());
    assert!(!call(Extent::new(5, 0).unwrap()).fits_the_wire(), "an empty one");
    assert_eq!(range_to_the_end(u64::MAX), None);
    let none = FileReply { outcomes: vec![Ok(FileAnswer::FoundLock { lock: None })] };
    assert_eq!(FileReply::decode(&none.encode(), &[FileCode::FindLock as u64]), Ok(none));
}
