//! Golden frames of records: heads, requests and every control message.

use super::frame::Frame;
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Extent, Level, OperationId, Subtree, Timestamp, TransferId};
use xdfs_proto::wire::control::{Ack, ChannelGrant, Control, Finish, Grant, Safety};
use xdfs_proto::wire::notice::{Changes, Notice};
use xdfs_proto::wire::request::{Request, Resume};
use xdfs_proto::wire::{Event, Flags, Head, Writer};

fn head(path: &'static str, about: &'static str, head: Head) -> Frame {
    Frame::new(path, "head", about)
        .byte("event", head.event)
        .byte("level", head.level as u8)
        .fixed("epoch", head.epoch.into(), 2)
        .fixed("operation", head.operation.0.into(), 4)
        .fixed("sequence", head.sequence, 8)
        .fixed("offset", head.offset, 8)
        .fixed("length", head.length.into(), 4)
        .fixed("flags", head.flags.0.into(), 2)
        .fixed("zero", 0, 2)
        .is(&head.encode())
}

fn heads() -> Vec<Frame> {
    let first = Head {
        event: Event::Upload as u8,
        level: Level::Clear,
        epoch: 0,
        operation: OperationId(1),
        sequence: 1,
        offset: 0,
        length: 1 << 20,
        flags: Flags::NONE,
    };
    let request = Head { sequence: 0, length: 64, level: Level::Integrity, flags: Flags::REQUEST, ..first };
    let next = Head { event: Event::Continue as u8, sequence: 2, offset: 5 << 40, length: 1, ..first };
    let ping = Head { event: Event::Nothing as u8, operation: OperationId(0), flags: Flags::ASK, length: 0, ..request };
    let far = Head {
        event: Event::Download as u8,
        level: Level::Private,
        epoch: 7,
        operation: OperationId(u32::MAX),
        sequence: u64::MAX,
        offset: (1 << 63) - 1,
        length: u32::MAX,
        flags: Flags::NONE,
    };
    vec![
        head("wire/head-request.txt", "Head of a request for an upload.", request),
        head("wire/head-block.txt", "Head of the first block of an upload, at offset 0 (WIRE-54).", first),
        head("wire/head-continue.txt", "Head of a later block on the same channel, far beyond 4 GiB (FTSM-23).", next),
        head("wire/head-ask.txt", "Head of a NOOP that wants an answer.", ping),
        head("wire/head-widest.txt", "Every field at its largest.", far),
    ]
}

/// A download of bytes 777 to 777 + 3 GiB of a file.
pub(crate) fn download_request() -> Request {
    Request {
        name: b"data/run 1/caf\xc3\xa9".to_vec(),
        label: b"/home/u/copy".to_vec(),
        transfer: TransferId([0xab; 16]),
        offset: 777,
        length: Some(3 << 30),
        level: Level::Integrity,
        block: 1 << 18,
        credit: 4 << 20,
        ..Request::default()
    }
}

fn request(path: &'static str, about: &'static str, event: Event, request: Request) -> Frame {
    let flags = u64::from(request.keep_existing)
        | u64::from(request.length.is_some()) << 1
        | u64::from(request.modified.is_some()) << 3
        | u64::from(request.durable) << 4
        | u64::from(request.resume.is_some()) << 5
        | u64::from(request.hash) << 6
        | u64::from(request.reread) << 7
        | u64::from(request.sum) << 8
        | u64::from(request.unverified) << 9
        | u64::from(request.base.is_some()) << 10
        | u64::from(request.holes) << 11;
    let mut frame = Frame::new(path, format!("request {}", event as u8), about)
        .integer("flags", flags)
        .bytes("name", &request.name)
        .bytes("label", &request.label)
        .raw("transfer", &request.transfer.0)
        .integer("offset", request.offset);
    if let Some(length) = request.length {
        frame = frame.integer("length", length);
    }
    frame = frame
        .byte("level", request.level as u8)
        .integer("block", request.block.into())
        .integer("credit", request.credit)
        .integer("mode", request.mode.into());
    if let Some(modified) = request.modified {
        frame = frame.time("modified", modified);
    }
    if let Some(resume) = &request.resume {
        let kept: Vec<_> = resume.kept.iter().map(|range| (range.offset(), range.length())).collect();
        frame = frame.bytes("source", &resume.source).ranges("kept", &kept);
    }
    if let Some(base) = &request.base {
        frame = frame.bytes("base", base);
    }
    frame.is(&request.encode())
}

fn requests() -> Vec<Frame> {
    let plain = Request { name: b"data/f".to_vec(), transfer: TransferId([0xab; 16]), ..Request::default() };
    let upload = Request {
        keep_existing: true,
        length: Some(5 << 30),
        mode: 0o644,
        modified: Some(Timestamp::new(-5, 999_999_999)),
        ..plain.clone()
    };
    let durable = Request {
        durable: true,
        length: Some(5 << 30),
        resume: Some(Resume { source: vec![9; 48], kept: vec![] }),
        ..plain.clone()
    };
    let kept = vec![extent(0, 256 << 20), extent(300 << 20, 5)];
    let going_on = Request { resume: Some(Resume { source: vec![1, 2, 3], kept }), ..plain.clone() };
    let hashed = Request { hash: true, reread: true, length: Some(5 << 30), ..plain.clone() };
    let sparse = Request { holes: true, ..upload.clone() };
    let again = Request { base: Some(vec![9; 48]), ..upload.clone() };
    let doubted = Request { hash: true, unverified: true, ..going_on.clone() };
    let sum = Request { sum: true, offset: 1000, length: Some(24), ..plain.clone() };
    vec![
        request("wire/request-download-range.txt", "A range of a file.", Event::Download, download_request()),
        request("wire/request-download.txt", "A whole file, with every default.", Event::Download, plain.clone()),
        request("wire/request-upload.txt", "A new file with mode, and a time before 1970.", Event::Upload, upload),
        request("wire/request-upload-hash.txt", "An upload that is hashed, and read back.", Event::Upload, hashed),
        request("wire/request-download-doubt.txt", "What the client has is in doubt.", Event::Download, doubted),
        request("wire/request-upload-holes.txt", "An upload of a file that has holes.", Event::Upload, sparse),
        request("wire/request-upload-base.txt", "An upload is tried again.", Event::Upload, again),
        request("wire/request-sum.txt", "The hash of a range and no byte of it.", Event::Download, sum),
        request("wire/request-upload-durable.txt", "A durable upload that may be resumed.", Event::Upload, durable),
        request("wire/request-download-resume.txt", "A download that goes on.", Event::Download, going_on),
        request("wire/request-upload-unknown.txt", "An upload whose length comes with FINISH.", Event::Upload, plain),
    ]
}

fn control(path: &'static str, about: &'static str, control: &Control, build: impl FnOnce(Frame) -> Frame) -> Frame {
    let kind = format!("control {}", control.event() as u8);
    build(Frame::new(path, kind, about)).is(&control.encode())
}

fn extent(offset: u64, length: u64) -> Extent {
    Extent::new(offset, length).expect("within 2^63")
}

fn grant(path: &'static str, about: &'static str, grant: Grant) -> Frame {
    let flags = u64::from(grant.length.is_some())
        | u64::from(grant.size.is_some()) << 1
        | u64::from(grant.modified.is_some()) << 2
        | u64::from(!grant.kept.is_empty()) << 3
        | u64::from(grant.hash) << 4
        | u64::from(grant.reread) << 5
        | u64::from(grant.unverified) << 6
        | u64::from(grant.sum.is_some()) << 7
        | u64::from(grant.blinded) << 8;
    let kept: Vec<_> = grant.kept.iter().map(|range| (range.offset(), range.length())).collect();
    let ranges: Vec<_> = grant.ranges.iter().map(|range| (range.offset(), range.length())).collect();
    control(path, about, &Control::Grant(grant.clone()), |mut frame| {
        frame = frame
            .integer("flags", flags)
            .byte("level", grant.level as u8)
            .integer("block", grant.block.into())
            .integer("edge", grant.credit_limit);
        for (name, value) in [("length", grant.length), ("size", grant.size)] {
            if let Some(value) = value {
                frame = frame.integer(name, value);
            }
        }
        frame = frame.ranges("ranges", &ranges).integer("mode", grant.mode.into());
        if let Some(modified) = grant.modified {
            frame = frame.time("modified", modified);
        }
        frame = frame.bytes("version", &grant.version);
        if !kept.is_empty() {
            frame = frame.ranges("kept", &kept);
        }
        match &grant.sum {
            Some(sum) => frame.raw("sum", sum),
            None => frame,
        }
    })
}

fn grants() -> Vec<Frame> {
    let download = Grant {
        level: Level::Integrity,
        block: 1 << 20,
        credit_limit: 0,
        length: Some(3 << 20),
        ranges: vec![extent(0, 2 << 20), extent(2 << 20, 1 << 20)],
        size: Some(8 << 40),
        mode: 0o640,
        modified: Some(Timestamp::new(1_700_000_000, 5)),
        version: vec![1, 2, 3],
        ..Grant::default()
    };
    let resumed = Grant {
        credit_limit: 257 << 20,
        ranges: vec![extent(0, 3 << 20)],
        size: None,
        mode: 0,
        modified: None,
        version: vec![],
        kept: vec![extent(0, 1 << 20), extent(2 << 20, 1 << 20)],
        ..download.clone()
    };
    let upload = Grant {
        credit_limit: 256 << 20,
        length: None,
        ranges: vec![],
        size: None,
        mode: 0,
        modified: None,
        version: vec![],
        ..download.clone()
    };
    let blinded = Grant { hash: true, unverified: true, blinded: true, ..resumed.clone() };
    let hashed = Grant { hash: true, reread: true, unverified: true, ..resumed.clone() };
    let sum = Grant { length: Some(0), ranges: vec![extent(0, 0)], sum: Some([6; 32]), ..download.clone() };
    vec![
        grant("wire/grant-download.txt", "GRANT of a download, cut for two pipelines.", download),
        grant("wire/grant-upload-resumed.txt", "GRANT of an upload of which two ranges are there.", resumed),
        grant("wire/grant-hash.txt", "GRANT of an upload that is hashed, read back, and in doubt.", hashed),
        grant("wire/grant-blinded.txt", "GRANT of an upload in doubt, of which hashes are told blinded.", blinded),
        grant("wire/grant-sum.txt", "GRANT with the hash that was asked for.", sum),
        grant("wire/grant-upload.txt", "GRANT of an upload of unknown length.", upload),
    ]
}

fn states() -> Vec<Frame> {
    let ack = Control::Ack(Ack {
        safety: Safety::Written,
        contiguous: 3 << 20,
        credit_limit: 259 << 20,
        ranges: vec![extent(4 << 20, 2 << 20), extent(9 << 20, 100)],
        round: 1,
    });
    let part = |offset, length, value| Subtree { extent: extent(offset, length), value: [value; 32] };
    let subtrees = vec![part(0, 1 << 20, 8), part(1 << 20, 5, 9)];
    let finish = Control::Finish(Finish { length: (1 << 20) + 5, round: 1, root: Some([7; 32]), subtrees });
    let again = Control::Again { round: 1, ranges: vec![extent(0, 1 << 20), extent(2 << 20, 5)] };
    let error = Control::Exception(Error::new(ErrorKind::NoSpace, "disk full: \u{e9}").with_errno(28));
    vec![
        control("wire/exception.txt", "EXCEPTION: the disk is full.", &error, |frame| {
            let message = "disk full: \u{e9}".as_bytes();
            frame
                .integer("code", ErrorKind::NoSpace as u64)
                .byte("retry", 0)
                .integer("errno", 28)
                .bytes("message", message)
        }),
        control("wire/ack.txt", "ACK with two ranges above the first gap.", &ack, |frame| {
            let ranges = [(4 << 20, 2 << 20), (9 << 20, 100)];
            frame
                .byte("safety", 2)
                .integer("low", 3 << 20)
                .integer("edge", 259 << 20)
                .ranges("ranges", &ranges)
                .integer("round", 1)
        }),
        control("wire/credit.txt", "CREDIT.", &Control::Credit(1 << 50), |frame| frame.integer("edge", 1 << 50)),
        control(
            "wire/finish.txt",
            "FINISH without a hash.",
            &Control::Finish(Finish { length: 3 << 20, ..Finish::default() }),
            |frame| {
                frame.integer("length", 3 << 20).integer("round", 0).bytes("root", &[]).integer("subtrees.count", 0)
            },
        ),
        control("wire/finish-hash.txt", "FINISH with root and subtrees, behind one AGAIN.", &finish, |frame| {
            frame
                .integer("length", (1 << 20) + 5)
                .integer("round", 1)
                .bytes("root", &[7; 32])
                .integer("subtrees.count", 2)
                .integer("subtrees[0].offset", 0)
                .integer("subtrees[0].length", 1 << 20)
                .raw("subtrees[0].value", &[8; 32])
                .integer("subtrees[1].offset", 1 << 20)
                .integer("subtrees[1].length", 5)
                .raw("subtrees[1].value", &[9; 32])
        }),
        control("wire/again.txt", "AGAIN: the first and the last block differ.", &again, |frame| {
            frame.integer("round", 1).ranges("ranges", &[(0, 1 << 20), (2 << 20, 5)])
        }),
        control(
            "wire/committed.txt",
            "COMMITTED.",
            &Control::Committed { length: 3 << 20, safety: Safety::Durable, version: vec![9; 16], root: Some([7; 32]) },
            |frame| {
                frame.integer("length", 3 << 20).byte("safety", 3).bytes("version", &[9; 16]).bytes("root", &[7; 32])
            },
        ),
        control("wire/cancel.txt", "CANCEL: no payload.", &Control::Cancel, |frame| frame),
        control("wire/eofr.txt", "EOFR behind twelve blocks.", &Control::EndOfRange { blocks: 12 }, |frame| {
            frame.integer("blocks", 12)
        }),
    ]
}

fn session() -> Vec<Frame> {
    let fence = Control::Fence { channel: ChannelId(65_535), processed: 1 << 33 };
    let recall = Control::Recall { handles: vec![300, (1 << 62) - 1] };
    let content = Changes::CONTENT.and(Changes::ATTRIBUTES);
    let notices = vec![
        Notice { watch: 300, changes: content, name: b"\xff".to_vec() },
        Notice { watch: 1, changes: Changes::NAME, name: Vec::new() },
        Notice { watch: 1, changes: Changes::OVER, name: Vec::new() },
        Notice::of_all(),
    ];
    let channels = ChannelGrant { first: 5, count: 9, secret: [3; 32], life_ms: 15_000 };
    vec![
        control(
            "wire/channels-wanted.txt",
            "CHANNELS from the client: nine more.",
            &Control::WantChannels(9),
            |frame| frame.byte("kind", 0).integer("count", 9),
        ),
        control("wire/channels-granted.txt", "CHANNELS from the server.", &Control::Channels(channels), |frame| {
            frame
                .byte("kind", 1)
                .integer("grant.first", 5)
                .integer("grant.count", 9)
                .raw("grant.secret", &[3; 32])
                .integer("grant.life_ms", 15_000)
        }),
        control("wire/fence.txt", "FENCE: channel 65535 is lost.", &fence, |frame| {
            frame.integer("channel", 65_535).integer("processed", 1 << 33)
        }),
        control("wire/eoft.txt", "EOFT as the record number 70.", &Control::EndOfTransfer { records: 70 }, |frame| {
            frame.integer("records", 70)
        }),
        control("wire/noop.txt", "NOOP: no payload.", &Control::Nothing, |frame| frame),
        control("wire/rekey.txt", "REKEY: no payload; its head stands in the old epoch.", &Control::Rekey, |frame| {
            frame
        }),
        control("wire/drain.txt", "DRAIN: come back in 5 s.", &Control::Drain { retry_after_ms: 5000 }, |frame| {
            frame.integer("retry_after_ms", 5000)
        }),
        control("wire/recall.txt", "RECALL of the leases of two handles.", &recall, |frame| {
            frame.integer("handles.count", 2).integer("handles[0]", 300).integer("handles[1]", (1 << 62) - 1)
        }),
        control(
            "wire/notice.txt",
            "NOTICE of two watches, and that there was more than is said.",
            &Control::Notice { notices },
            |frame| {
                let of = |frame: Frame, at: usize, watch, changes, name: &[u8]| {
                    frame
                        .integer(&format!("notices[{at}].watch"), watch)
                        .integer(&format!("notices[{at}].changes"), changes)
                        .bytes(&format!("notices[{at}].name"), name)
                };
                let frame = of(frame.integer("notices.count", 4), 0, 300, 3, b"\xff");
                of(of(of(frame, 1, 1, 4, b""), 2, 1, 16, b""), 3, 0, 8, b"")
            },
        ),
    ]
}

fn integers() -> Frame {
    let values = [0, 37, 63, 64, 15_293, 16_383, 16_384, 494_878_333, (1 << 30) - 1, 1 << 30, (1 << 62) - 1];
    let mut writer = Writer::new();
    let mut frame = Frame::new("wire/integers.txt", "integers", "Integers of every width, in their shortest form.");
    for value in values {
        writer.integer(value);
        frame = frame.integer("value", value);
    }
    frame.is(&writer.finish())
}

/// Every frame of the folder.
pub(crate) fn frames() -> Vec<Frame> {
    [vec![integers()], heads(), requests(), grants(), states(), session()].into_iter().flatten().collect()
}
