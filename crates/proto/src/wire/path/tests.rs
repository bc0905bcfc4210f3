//! Every call and every answer comes back as it was; what has no room or no sense is refused.

use super::*;
use crate::base::{ErrorKind, Safety, Timestamp};
use crate::limits;
use crate::wire::{WireError, Writer};
use alloc::vec;
use alloc::vec::Vec;

fn full() -> Attributes<'static> {
    Attributes {
        mode: Some(0o4755),
        size: Some(5 << 40),
        modified: Some(Timestamp::new(-5, 999_999_999)),
        accessed: Some(Timestamp::new(1_700_000_000, 0)),
        links: Some(2),
        inode: Some([7; 16]),
        owner: Some((1000, u32::MAX)),
        names: Some((b"ada", b"")),
        device: Some((8, 1)),
        allocated: Some(4096),
        change: Some(u64::MAX),
        version: Some(&[9; 64]),
        target: Some(b"../x"),
        xattrs: Some(true),
        kept: Some(Kept::MODES.with(Kept::ACL, true).with(Kept::SPECIAL, false)),
        ..Attributes::of(FileType::Symlink)
    }
}

fn put(content: &[u8]) -> Put<'_> {
    let (modified, hash) = (Some(Timestamp::new(-1, 1)), Some([3; 32]));
    Put { path: b"a/b", keep_existing: true, parents: true, mode: 0o644, modified, holes: true, hash, content }
}

fn every_call() -> Vec<Call<'static>> {
    let path = b"dir/\xff file".as_slice();
    vec![
        Call::Stat { path: b"", wanted: Wanted::ALL },
        Call::List { path, wanted: Wanted::SIZE.and(Wanted::TARGET), cursor: &[1; 64] },
        Call::MakeDirectory { path, parents: true, mode: 0o755 },
        Call::RemoveDirectory { path },
        Call::Unlink { path },
        Call::Rename { path, to: b"other", keep_existing: true },
        Call::Link { path, to: b"other" },
        Call::Symlink { path, target: b"/etc/passwd" },
        Call::ReadLink { path },
        Call::SetMode { path, mode: 0o7777 },
        Call::SetTimes { path, modified: Some(NewTime::At(Timestamp::new(-7, 5))), accessed: Some(NewTime::Now) },
        Call::Truncate { path, length: 1 << 50 },
        Call::SetOwner { path, user: Some(Owner::Number(0)), group: Some(Owner::Name(b"users")) },
        Call::SetOwner { path, user: Some(Owner::Either(b"anna", 7)), group: None },
        Call::MakeNode { path, kind: FileType::BlockDevice, mode: 0o600, device: (8, 17) },
        Call::XattrValue { path, name: b"user.a" },
        Call::SetXattr { path, name: b"user.a", rule: XattrRule::Replace, value: b"\0v" },
        Call::XattrNames { path },
        Call::RemoveXattr { path, name: b"user.a" },
        Call::FileSystem { path },
        Call::Hash { path, offset: 5, length: Some(9) },
        Call::Put(put(b"content")),
        Call::Get { path, wanted: Wanted::MODE, most: 65536 },
        Call::Watch { path, watched: Watched::Names, watch: 300 },
        Call::Opens { path },
        Call::StageTree { path, client: [6; 16] },
        Call::PublishTree { path, client: [6; 16] },
        Call::Unknown { code: 99 },
    ]
}

fn batch(calls: Vec<Call<'_>>) -> Batch<'_> {
    Batch { stop: true, durable: true, room: 4096, request: [5; 16], age_ms: Some(9000), base: b"data/x", calls }
}

#[test]
fn every_call_comes_back_and_every_code_is_among_them() {
    let batch = batch(every_call());
    let bytes = batch.encode();
    assert_eq!(Batch::decode(&bytes).as_ref(), Ok(&batch));
    let codes: Vec<u64> = batch.calls.iter().map(Call::code).collect();
    assert!(Code::ALL.iter().all(|code| codes.contains(&(*code as u64))));
    for cut in 0..bytes.len() {
        assert!(Batch::decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn a_batch_without_calls_with_too_many_or_with_a_strange_flag_is_refused() {
    assert_eq!(Batch::decode(&batch(vec![]).encode()), Err(WireError::Invalid("calls")));
    let many = vec![Call::Unlink { path: b"x" }; limits::CALLS_MAX + 1];
    assert_eq!(Batch::decode(&batch(many).encode()), Err(WireError::TooLong("calls")));
    let mut bytes = batch(every_call()).encode();
    bytes[0] = 8;
    assert_eq!(Batch::decode(&bytes), Err(WireError::Invalid("flags of a batch")));
    let mut nameless = batch(every_call());
    nameless.request = [0; 16];
    assert_eq!(Batch::decode(&nameless.encode()), Err(WireError::Invalid("request id")));
    let mut roomy = batch(every_call());
    roomy.room = limits::CALL_BYTES_MAX as u32 + 1;
    assert_eq!(Batch::decode(&roomy.encode()), Err(WireError::TooLong("room")));
}

#[test]
fn what_is_behind_the_arguments_of_a_call_is_an_error_but_for_an_unknown_call() {
    let with = |code: u64, arguments: &[u8]| {
        let mut writer = Writer::new();
        writer.integer(0).integer(99).raw(&[0; 16]).bytes(b"e").integer(1).integer(code).bytes(arguments);
        Batch::decode(&writer.finish()).map(|batch| batch.calls.len())
    };
    assert_eq!(with(Code::Unlink as u64, b"\x01a"), Ok(1));
    assert_eq!(with(Code::Unlink as u64, b"\x01ab"), Err(WireError::Trailing));
    assert_eq!(with(1000, b"\x01ab"), Ok(1));
}

fn openers() -> Openers<'static> {
    let anna = Opener { user: b"anna", does: OpenedFor::ALL, ranges: 3 };
    Openers { list: vec![anna, Opener { user: b"", does: OpenedFor::READING, ranges: 0 }], complete: false }
}

#[test]
fn replies_come_back_with_every_answer() {
    let entry = |name| ListEntry { name, attributes: full() };
    let calls = every_call();
    let mut writer = ReplyWriter::new(calls.len(), limits::CALL_BYTES_MAX).unwrap();
    for call in &calls {
        match Code::from_number(call.code()) {
            None => writer.fail(Failure { kind: ErrorKind::Unsupported, errno: 38 }),
            Some(Code::Stat) => writer.answer(&Answer::Attributes(full())),
            Some(Code::List) => {
                let mut page = writer.listing();
                assert!(page.push(&entry(b"a")) && page.push(&entry(b"\xff")));
                page.finish(true, b"next");
            }
            Some(Code::ReadLink | Code::XattrValue | Code::StageTree) => writer.answer(&Answer::Bytes(b"value")),
            Some(Code::XattrNames) => {
                let names = StringList::read(&mut Reader::new(b"\x06user.a\x06user.b\0")).unwrap();
                writer.answer(&Answer::Names(names));
            }
            Some(Code::FileSystem) => {
                let room = FileSystem { block: 4096, bytes: 9, free: 8, available: 7, files: 6, files_free: 5 };
                writer.answer(&Answer::FileSystem(room));
            }
            Some(Code::Hash) => writer.answer(&Answer::Hash { length: 9, digest: [1; 32] }),
            Some(Code::Opens) => writer.answer(&Answer::Openers(openers())),
            Some(Code::Get) => writer.answer(&Answer::File { attributes: full(), content: b"bytes" }),
            Some(_) => writer.answer(&Answer::Done),
        }
    }
    let payload = writer.finish(Safety::Durable);
    let codes: Vec<u64> = calls.iter().map(Call::code).collect();
    let reply = Reply::decode(&payload, &codes).unwrap();
    assert_eq!(reply.safety, Safety::Durable);
    let failed = Err(Failure { kind: ErrorKind::Unsupported, errno: 38 });
    assert_eq!(reply.outcomes.last(), Some(&failed));
    assert_eq!(reply.outcomes[0], Ok(Answer::Attributes(full())));
    let Ok(Answer::Listing(listing)) = &reply.outcomes[1] else { panic!("{:?}", reply.outcomes[1]) };
    let entries: Vec<_> = listing.entries.clone().collect();
    assert_eq!((entries, listing.complete, listing.cursor), (vec![entry(b"a"), entry(b"\xff")], true, &b"next"[..]));
    let at = codes.iter().position(|code| *code == Code::XattrNames as u64).unwrap();
    let Ok(Answer::Names(names)) = &reply.outcomes[at] else { panic!("{:?}", reply.outcomes[at]) };
    assert_eq!(names.clone().collect::<Vec<_>>(), [b"user.a", b"user.b"]);
    let at = codes.iter().position(|code| *code == Code::Opens as u64).unwrap();
    assert_eq!(reply.outcomes[at], Ok(Answer::Openers(openers())));
    assert_eq!(reply.encode(), payload);
    for cut in 0..payload.len() {
        assert!(Reply::decode(&payload[..cut], &codes).is_err(), "cut at {cut}");
    }
    assert_eq!(Reply::decode(&payload, &codes[1..]), Err(WireError::Invalid("number of results")));
}

#[test]
fn a_reply_never_passes_its_room_and_always_has_a_result_for_every_call() {
    assert!(ReplyWriter::new(2, REPLY_BYTES + 2 * REPLY_CALL_BYTES - 1).is_none());
    let room = REPLY_BYTES + 4 * REPLY_CALL_BYTES + 20;
    let mut writer = ReplyWriter::new(4, room).unwrap();
    writer.answer(&Answer::Bytes(&[1; 200]));
    let mut page = writer.listing();
    let long = ListEntry { name: &[b'n'; 255], attributes: full() };
    assert!(!page.push(&long));
    page.finish(false, &[1; 64]);
    let mut page = writer.listing();
    let short = ListEntry { name: b"n", attributes: Attributes::of(FileType::Regular) };
    while page.push(&short) {}
    page.finish(false, &[1; 64]);
    let payload = writer.finish(Safety::Written);
    assert!(payload.len() <= room, "{} of {room}", payload.len());
    let codes = [Code::ReadLink as u64, Code::List as u64, Code::List as u64, Code::Unlink as u64];
    let reply = Reply::decode(&payload, &codes).unwrap();
    let failed = |kind| Err(Failure { kind, errno: 0 });
    assert_eq!(reply.outcomes[0], failed(ErrorKind::LimitExceeded));
    assert_eq!(reply.outcomes[1], failed(ErrorKind::LimitExceeded));
    let Ok(Answer::Listing(listing)) = &reply.outcomes[2] else { panic!("{:?}", reply.outcomes[2]) };
    assert!(listing.entries.clone().count() > 3 && !listing.complete);
    assert_eq!(reply.outcomes[3], failed(ErrorKind::NotTried));
}

#[test]
fn entries_that_would_lead_out_of_their_directory_are_refused() {
    for name in [&b"."[..], b"..", b"a/b", b"/", b"a\0"] {
        let mut writer = Writer::new();
        writer.byte(2).integer(1).integer(0).bytes(name).byte(1).integer(0).bytes(b"").integer(1).bytes(b"");
        let payload = writer.finish();
        let refused = Reply::decode(&payload, &[Code::List as u64]);
        assert_eq!(refused, Err(WireError::Invalid("name of an entry")), "{}", name.escape_ascii());
    }
}

#[test]
fn a_call_that_nobody_knows_cannot_succeed() {
    let mut writer = ReplyWriter::new(1, 4096).unwrap();
    writer.answer(&Answer::Done);
    let payload = writer.finish(Safety::Written);
    assert_eq!(Reply::decode(&payload, &[99]), Err(WireError::Invalid("status")));
}

#[test]
fn a_page_leaves_the_results_behind_it_what_they_may_need() {
    let get = Call::Get { path: b"f", wanted: Wanted::ALL, most: 50_000 };
    let list = Call::List { path: b"", wanted: Wanted::NOTHING, cursor: b"" };
    let stat = Call::Stat { path: b"s", wanted: Wanted::ALL };
    let calls = [list, get, stat, get];
    let filled = |room: usize| {
        let mut writer = ReplyWriter::new(calls.len(), room).unwrap();
        writer.leave_room(calls.iter().skip(1));
        let mut page = writer.listing();
        let entry = ListEntry { name: b"some name", attributes: Attributes::of(FileType::Regular) };
        while page.push(&entry) {}
        page.finish(false, &[9; 64]);
        let target = [b'x'; limits::LINK_BYTES_MAX];
        let names = (&[b'u'; limits::USER_BYTES_MAX][..], &[b'g'; limits::USER_BYTES_MAX][..]);
        let attributes = Attributes { target: Some(&target), names: Some(names), ..full() };
        for call in &calls[1..] {
            match call {
                Call::Get { .. } => writer.answer(&Answer::File { attributes, content: &[1; 50_000] }),
                _ => writer.answer(&Answer::Attributes(attributes)),
            }
        }
        let codes: Vec<u64> = calls.iter().map(Call::code).collect();
        let payload = writer.finish(Safety::Written);
        assert!(payload.len() <= room);
        let reply = Reply::decode(&payload, &codes).unwrap();
        reply.outcomes.iter().map(Result::is_ok).collect::<Vec<_>>()
    };
    let rooms = calls.iter().map(|call| call.room() + REPLY_CALL_BYTES).sum::<usize>();
    assert_eq!(filled(REPLY_BYTES + rooms + 8000), [true; 4]);
    // Too little for all: the page has an entry at least.
    assert_eq!(filled(REPLY_BYTES + 10_000), [true, false, false, false]);
}

#[test]
fn no_result_with_a_bound_is_longer_than_it() {
    let target = [b'x'; limits::LINK_BYTES_MAX];
    let names = (&[b'u'; limits::USER_BYTES_MAX][..], &[b'g'; limits::USER_BYTES_MAX][..]);
    let attributes = Attributes {
        size: Some(u64::MAX >> 2),
        modified: Some(Timestamp::new(-(1 << 60), 999_999_999)),
        accessed: Some(Timestamp::new(1 << 60, 999_999_999)),
        links: Some(u64::MAX >> 2),
        device: Some((u32::MAX, u32::MAX)),
        allocated: Some(u64::MAX >> 2),
        owner: Some((u32::MAX, u32::MAX)),
        target: Some(&target),
        names: Some(names),
        ..full()
    };
    let number = u64::MAX >> 2;
    let room =
        FileSystem { block: number, bytes: number, free: number, available: number, files: number, files_free: number };
    let content = vec![1; 200_000];
    for (call, answer) in [
        (Call::Stat { path: b"", wanted: Wanted::ALL }, Answer::Attributes(attributes)),
        (Call::Get { path: b"", wanted: Wanted::ALL, most: 200_000 }, Answer::File { attributes, content: &content }),
        (Call::ReadLink { path: b"" }, Answer::Bytes(&target)),
        (Call::FileSystem { path: b"" }, Answer::FileSystem(room)),
        (Call::Hash { path: b"", offset: 0, length: None }, Answer::Hash { length: number, digest: [0; 32] }),
    ] {
        let most = call.result_bytes_max().unwrap();
        let mut writer = ReplyWriter::new(1, limits::CALL_BYTES_MAX).unwrap();
        let before = writer.room();
        writer.answer(&answer);
        let payload = writer.finish(Safety::Written);
        assert!(limits::CALL_BYTES_MAX - payload.len() >= before - most, "{call:?}");
        assert!(Reply::decode(&payload, &[call.code()]).unwrap().outcomes[0].is_ok());
    }
}
