//! Golden frames of xDFSM: a batch on an open file, and what answers it.

use super::calls::{call, part};
use super::frame::Frame;
use xdfs_proto::base::{Duration, ErrorKind, Extent};
use xdfs_proto::lease::{LeaseAnswer, LeaseKind};
use xdfs_proto::range_locks::RangeLock;
use xdfs_proto::wire::file::{
    FileAnswer, FileBatch, FileCall, FileCode, FileReply, LeaseCall, LeaseTold, OpenFile, OpenedBefore, OpenedFile,
    ReadRange,
};
use xdfs_proto::wire::path::{Attributes, Failure, FileType, Wanted};

/// A batch that opens its file and calls everything.
fn opening() -> Frame {
    let open = OpenFile {
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
    let ranges = vec![ReadRange { offset: 0, length: 65_536 }, ReadRange { offset: 1 << 40, length: 100 }];
    let calls = vec![
        FileCall::Open(open),
        FileCall::Read { ranges },
        FileCall::Write { offset: 1 << 32, data: b"bytes" },
        FileCall::Append { data: b"line\n" },
        FileCall::SetLength { length: 1 << 50 },
        FileCall::Sync { data_only: true },
        FileCall::Allocate { offset: 5, length: 1 << 20, keep_size: true },
        FileCall::Punch { offset: 5, length: 4096 },
        FileCall::Seek { offset: 5, hole: true },
        FileCall::Attributes { wanted: Wanted::SIZE },
        FileCall::Lock { exclusive: true, wait: false },
        FileCall::Unlock,
        FileCall::Close,
    ];
    let laid = vec![
        (FileCode::Open, part().bytes("path", b"data/x").integer("flags", 127).integer("mode", 0o640)),
        (
            FileCode::Read,
            part()
                .integer("ranges.count", 2)
                .integer("ranges[0].offset", 0)
                .integer("ranges[0].length", 65_536)
                .integer("ranges[1].offset", 1 << 40)
                .integer("ranges[1].length", 100),
        ),
        (FileCode::Write, part().integer("offset", 1 << 32).bytes("data", b"bytes")),
        (FileCode::Append, part().bytes("data", b"line\n")),
        (FileCode::SetLength, part().integer("length", 1 << 50)),
        (FileCode::Sync, part().integer("flags", 1)),
        (FileCode::Allocate, part().integer("offset", 5).integer("length", 1 << 20).integer("flags", 1)),
        (FileCode::Punch, part().integer("offset", 5).integer("length", 4096)),
        (FileCode::Seek, part().integer("offset", 5).integer("flags", 1)),
        (FileCode::Attributes, part().integer("wanted", Wanted::SIZE.0.into())),
        (FileCode::Lock, part().integer("flags", 1)),
        (FileCode::Unlock, part()),
        (FileCode::Close, part()),
    ];
    let about =
        FileBatch { stop: true, room: 131_072, request: [5; 16], age_ms: Some(9000), calls, ..FileBatch::default() };
    batch("calls/file-opening.txt", "A file is opened, and every call is made on it.", &about, laid)
}

/// A batch that opens a file again, and one about an open file, which needs no order.
fn reopening() -> [Frame; 2] {
    let open = OpenFile {
        path: b"data/x",
        read: true,
        again: Some(OpenedBefore { identity: [7; 24], handle: 300 }),
        ..OpenFile::default()
    };
    let again = FileBatch { room: 4096, calls: vec![FileCall::Open(open)], ..FileBatch::default() };
    let laid = part()
        .bytes("path", b"data/x")
        .integer("flags", 129)
        .integer("mode", 0)
        .raw("identity", &[7; 24])
        .integer("handle", 300);
    let again = batch("calls/file-again.txt", "A file is opened again.", &again, vec![(FileCode::Open, laid)]);
    let calls = vec![FileCall::Sync { data_only: false }];
    let known = FileBatch { unordered: true, room: 4096, handle: 300, calls, ..FileBatch::default() };
    let laid = vec![(FileCode::Sync, part().integer("flags", 0))];
    [again, batch("calls/file-open.txt", "A call on an open file that needs no order.", &known, laid)]
}

/// Locks that are waited for, of the whole file and of ranges, and what findlock answers.
fn locks() -> [Frame; 2] {
    let owner = *b"process1";
    let lock =
        |offset, length, exclusive| RangeLock { range: Extent::new(offset, length).expect("it fits"), exclusive };
    let rest = Extent::new(4096, i64::MAX as u64 - 4096).expect("it fits");
    let calls = vec![
        FileCall::Lock { exclusive: false, wait: true },
        FileCall::LockRange { owner, lock: lock(1 << 30, 100, true), wait: true },
        FileCall::UnlockRange { owner, range: rest },
        FileCall::FindLock { owner, lock: lock(0, 1, false) },
    ];
    let range =
        |frame: Frame, offset, length| frame.raw("owner", &owner).integer("offset", offset).integer("length", length);
    let laid = vec![
        (FileCode::Lock, part().integer("flags", 2)),
        (FileCode::LockRange, range(part().integer("flags", 3), 1 << 30, 100)),
        (FileCode::UnlockRange, range(part(), 4096, 0)),
        (FileCode::FindLock, range(part().integer("flags", 0), 0, 1)),
    ];
    let about = FileBatch { room: 4096, handle: 300, calls, ..FileBatch::default() };
    let asked = batch("calls/file-locks.txt", "Locks of the whole file and of ranges.", &about, laid);
    let outcomes = vec![
        Err(Failure { kind: ErrorKind::Locked, errno: 0 }),
        Ok(FileAnswer::FoundLock { lock: Some(lock(5, 10, true)) }),
        Ok(FileAnswer::FoundLock { lock: None }),
    ];
    let told = Frame::new(
        "calls/file-locks-reply.txt",
        "file.reply 17 19 19",
        "Results of lockrange (in line for it), findlock (a lock, and none).",
    )
    .byte("safety", 2)
    .integer("results.count", 3)
    .integer("results[0].status", ErrorKind::Locked as u64)
    .integer("results[0].errno", 0)
    .integer("results[1].status", 0)
    .integer("results[1].flags", 3)
    .integer("results[1].offset", 5)
    .integer("results[1].length", 10)
    .integer("results[2].status", 0)
    .integer("results[2].flags", 0)
    .is(&FileReply { outcomes }.encode());
    [asked, told]
}

/// Leases: asked for, renewed, had again, given back, and one under which a batch is executed.
fn leases() -> [Frame; 2] {
    let calls = vec![
        FileCall::Lease(LeaseCall::Under),
        FileCall::Lease(LeaseCall::Ask(LeaseKind::Read)),
        FileCall::Lease(LeaseCall::Ask(LeaseKind::Write)),
        FileCall::Lease(LeaseCall::Renew),
        FileCall::Lease(LeaseCall::Reclaim { kind: LeaseKind::Write, before: 299 }),
        FileCall::Lease(LeaseCall::GiveBack),
    ];
    let flags = |flags| (FileCode::Lease, part().integer("flags", flags));
    let reclaim = (FileCode::Lease, part().integer("flags", 5).integer("handle", 299));
    let laid = vec![flags(16), flags(0), flags(1), flags(2), reclaim, flags(8)];
    let about = FileBatch { room: 4096, handle: 300, calls, ..FileBatch::default() };
    let asked = batch("calls/file-leases.txt", "Every call about a lease.", &about, laid);
    let time = Duration::from_secs(20);
    let told = |answer, local| Ok(FileAnswer::Lease(LeaseTold { answer, local }));
    let outcomes = vec![
        told(LeaseAnswer::Granted { kind: LeaseKind::Read, time }, false),
        told(LeaseAnswer::Granted { kind: LeaseKind::Write, time }, true),
        told(LeaseAnswer::Recalled { kind: LeaseKind::Write, left: time / 4 }, true),
        told(LeaseAnswer::Refused, false),
    ];
    let told = Frame::new(
        "calls/file-leases-reply.txt",
        "file.reply 14 14 14 14",
        "Results of lease (a read lease, a write lease for which local programs wait, one that is recalled, none).",
    )
    .byte("safety", 2)
    .integer("results.count", 4)
    .integer("results[0].status", 0)
    .integer("results[0].flags", 1)
    .integer("results[0].time_ms", 20_000)
    .integer("results[1].status", 0)
    .integer("results[1].flags", 11)
    .integer("results[1].time_ms", 20_000)
    .integer("results[2].status", 0)
    .integer("results[2].flags", 15)
    .integer("results[2].time_ms", 5000)
    .integer("results[3].status", 0)
    .integer("results[3].flags", 0)
    .integer("results[3].time_ms", 0)
    .is(&FileReply { outcomes }.encode());
    [asked, told]
}

/// The two ends of a FIFO.
fn pipes() -> [Frame; 3] {
    let open = OpenFile { path: b"data/fifo", write: true, pipe: true, ..OpenFile::default() };
    let opening = FileBatch { room: 4096, calls: vec![FileCall::Open(open)], ..FileBatch::default() };
    let laid = part().bytes("path", b"data/fifo").integer("flags", 258).integer("mode", 0);
    let opening =
        batch("calls/file-pipe.txt", "One end of a FIFO is opened, to write.", &opening, vec![(FileCode::Open, laid)]);
    let calls = vec![
        FileCall::WritePipe { offset: 1 << 32, wait_ms: 10_000, data: b"through" },
        FileCall::ReadPipe { length: 65_536, wait_ms: 10_000 },
    ];
    let laid = vec![
        (FileCode::WritePipe, part().integer("offset", 1 << 32).integer("wait_ms", 10_000).bytes("data", b"through")),
        (FileCode::ReadPipe, part().integer("length", 65_536).integer("wait_ms", 10_000)),
    ];
    let about = FileBatch { room: 131_072, handle: 300, calls, ..FileBatch::default() };
    let asked = batch("calls/file-pipe-data.txt", "Bytes are put into a FIFO, and taken out of it.", &about, laid);
    let outcomes = vec![
        Ok(FileAnswer::WrotePipe { open: true, taken: (1 << 32) + 3 }),
        Ok(FileAnswer::ReadPipe { offset: 9, data: b"thr", end: false }),
        Ok(FileAnswer::ReadPipe { offset: 12, data: b"", end: true }),
    ];
    let told = Frame::new(
        "calls/file-pipe-reply.txt",
        "file.reply 21 20 20",
        "Results of writepipe (three bytes of seven), and readpipe (bytes, and the end).",
    )
    .byte("safety", 2)
    .integer("results.count", 3)
    .integer("results[0].status", 0)
    .integer("results[0].flags", 1)
    .integer("results[0].taken", (1 << 32) + 3)
    .integer("results[1].status", 0)
    .integer("results[1].flags", 0)
    .integer("results[1].offset", 9)
    .bytes("results[1].data", b"thr")
    .integer("results[2].status", 0)
    .integer("results[2].flags", 1)
    .integer("results[2].offset", 12)
    .bytes("results[2].data", b"")
    .is(&FileReply { outcomes }.encode());
    [opening, asked, told]
}

fn batch(path: &'static str, about: &'static str, batch: &FileBatch<'_>, calls: Vec<(FileCode, Frame)>) -> Frame {
    let flags = u64::from(batch.stop) | u64::from(batch.unordered) << 1 | u64::from(batch.age_ms.is_some()) << 2;
    let frame = Frame::new(path, "file.batch", about)
        .integer("flags", flags)
        .integer("room", batch.room.into())
        .raw("request", &batch.request);
    let frame = match batch.age_ms {
        Some(age_ms) => frame.integer("age_ms", age_ms),
        None => frame,
    };
    let frame = frame.integer("handle", batch.handle).integer("calls.count", calls.len() as u64);
    let laid =
        calls.into_iter().enumerate().fold(frame, |frame, (index, (code, part))| call(frame, index, code as u64, part));
    laid.is(&batch.encode())
}

fn reply() -> Frame {
    let opened = OpenedFile { handle: 300, identity: [7; 24], verifier: [8; 16], size: 1 << 40, change: u64::MAX };
    let outcomes = vec![
        Ok(FileAnswer::Opened(opened)),
        Ok(FileAnswer::Read(vec![b"bytes", b""])),
        Ok(FileAnswer::Changed { change: 9 }),
        Ok(FileAnswer::Appended { offset: 1 << 40, change: 10 }),
        Err(Failure { kind: ErrorKind::NoSpace, errno: 28 }),
        Ok(FileAnswer::Synced { verifier: [8; 16] }),
        Ok(FileAnswer::Found { offset: Some(4096) }),
        Ok(FileAnswer::Found { offset: None }),
        Ok(FileAnswer::Attributes(Attributes::of(FileType::Regular))),
        Ok(FileAnswer::Done),
    ];
    Frame::new(
        "calls/file-reply.txt",
        "file.reply 1 3 4 5 6 7 10 10 11 2",
        "Results of open, read, write, append, setlength (failed), sync, seek (twice), fstat, close.",
    )
    .byte("safety", 2)
    .integer("results.count", 10)
    .integer("results[0].status", 0)
    .integer("results[0].handle", 300)
    .raw("results[0].identity", &[7; 24])
    .raw("results[0].verifier", &[8; 16])
    .integer("results[0].size", 1 << 40)
    .fixed("results[0].change", u64::MAX, 8)
    .integer("results[1].status", 0)
    .integer("results[1].ranges.count", 2)
    .bytes("results[1].ranges[0]", b"bytes")
    .bytes("results[1].ranges[1]", b"")
    .integer("results[2].status", 0)
    .fixed("results[2].change", 9, 8)
    .integer("results[3].status", 0)
    .integer("results[3].offset", 1 << 40)
    .fixed("results[3].change", 10, 8)
    .integer("results[4].status", ErrorKind::NoSpace as u64)
    .integer("results[4].errno", 28)
    .integer("results[5].status", 0)
    .raw("results[5].verifier", &[8; 16])
    .integer("results[6].status", 0)
    .integer("results[6].flags", 1)
    .integer("results[6].offset", 4096)
    .integer("results[7].status", 0)
    .integer("results[7].flags", 0)
    .integer("results[8].status", 0)
    .then("results[8].", part().byte("kind", 1).integer("told", 0))
    .integer("results[9].status", 0)
    .is(&FileReply { outcomes }.encode())
}

/// Every frame of xDFSM.
pub(crate) fn frames() -> Vec<Frame> {
    let [again, open] = reopening();
    let [locks, locked] = locks();
    let [pipe, passing, passed] = pipes();
    let [leases, leased] = leases();
    vec![opening(), again, open, reply(), locks, locked, leases, leased, pipe, passing, passed]
}
