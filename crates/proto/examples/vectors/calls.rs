//! Golden frames of xPathM: batches and what answers them.

use super::frame::Frame;
use xdfs_proto::base::{ErrorKind, Safety, Timestamp};
use xdfs_proto::wire::path::{
    Answer, Attributes, Batch, Call, Code, Failure, FileType, Kept, ListEntry, NewTime, OpenedFor, Opener, Openers,
    Owner, Put, ReplyWriter, Wanted, Watched, XattrRule,
};

/// One call, as it is laid out: its number, and its arguments behind their length.
pub(crate) fn call(frame: Frame, index: usize, code: u64, arguments: Frame) -> Frame {
    let name = |field: &str| format!("calls[{index}].{field}");
    let bytes = arguments.content().len() as u64;
    frame.integer(&name("code"), code).integer(&name("arguments"), bytes).then(&name(""), arguments)
}

pub(crate) fn part() -> Frame {
    Frame::new("", "", "")
}

fn batch(path: &'static str, about: &'static str, batch: &Batch<'_>, calls: Vec<(Code, Frame)>) -> Frame {
    let frame = Frame::new(path, "batch", about)
        .integer(
            "flags",
            u64::from(batch.stop) | u64::from(batch.durable) << 1 | u64::from(batch.age_ms.is_some()) << 2,
        )
        .integer("room", batch.room.into())
        .raw("request", &batch.request);
    let frame = match batch.age_ms {
        Some(age_ms) => frame.integer("age_ms", age_ms),
        None => frame,
    };
    let frame = frame.bytes("base", batch.base).integer("calls.count", calls.len() as u64);
    let laid =
        calls.into_iter().enumerate().fold(frame, |frame, (index, (code, part))| call(frame, index, code as u64, part));
    laid.is(&batch.encode())
}

/// Calls that read.
fn reading() -> Frame {
    let (path, wanted) = (b"d/\xff".as_slice(), Wanted::SIZE.and(Wanted::TARGET));
    let calls = vec![
        Call::Stat { path: b"", wanted },
        Call::List { path, wanted, cursor: &[1, 2] },
        Call::ReadLink { path },
        Call::XattrValue { path, name: b"user.a" },
        Call::XattrNames { path },
        Call::FileSystem { path },
        Call::Hash { path, offset: 5, length: Some(1 << 40) },
        Call::Get { path, wanted, most: 65_536 },
        Call::Watch { path, watched: Watched::Names, watch: 300 },
        Call::Opens { path },
    ];
    let named = || part().bytes("path", path);
    let bits = u64::from(wanted.0);
    let laid = vec![
        (Code::Stat, part().bytes("path", b"").integer("wanted", bits)),
        (Code::List, named().integer("wanted", bits).bytes("cursor", &[1, 2])),
        (Code::ReadLink, named()),
        (Code::XattrValue, named().bytes("name", b"user.a")),
        (Code::XattrNames, named()),
        (Code::FileSystem, named()),
        (Code::Hash, named().integer("flags", 1).integer("offset", 5).integer("length", 1 << 40)),
        (Code::Get, named().integer("wanted", bits).integer("most", 65_536)),
        (Code::Watch, named().integer("flags", 1).integer("watch", 300)),
        (Code::Opens, named()),
    ];
    let about = Batch { room: 262_144, base: b"data/x", calls, ..Batch::default() };
    batch("calls/batch-reading.txt", "Every call that reads.", &about, laid)
}

/// Calls that change something.
fn changing() -> Frame {
    let (path, time) = (b"f".as_slice(), Timestamp::new(-5, 7));
    let put = Put {
        path,
        keep_existing: true,
        parents: true,
        mode: 0o640,
        modified: Some(time),
        holes: true,
        hash: Some([3; 32]),
        content: b"bytes",
    };
    let calls = vec![
        Call::MakeDirectory { path, parents: true, mode: 0o755 },
        Call::RemoveDirectory { path },
        Call::Unlink { path },
        Call::Rename { path, to: b"g", keep_existing: true },
        Call::Link { path, to: b"g" },
        Call::Symlink { path, target: b"../g" },
        Call::SetMode { path, mode: 0o4755 },
        Call::SetTimes { path, modified: Some(NewTime::At(time)), accessed: Some(NewTime::Now) },
        Call::Truncate { path, length: 1 << 50 },
        Call::SetOwner { path, user: Some(Owner::Number(1000)), group: Some(Owner::Name(b"users")) },
        Call::SetOwner { path, user: Some(Owner::Either(b"anna", 1000)), group: None },
        Call::MakeNode { path, kind: FileType::CharacterDevice, mode: 0o600, device: (1, 3) },
        Call::SetXattr { path, name: b"user.a", rule: XattrRule::Create, value: b"v" },
        Call::RemoveXattr { path, name: b"user.a" },
        Call::Put(put),
        Call::StageTree { path, client: [6; 16] },
        Call::PublishTree { path, client: [6; 16] },
    ];
    let named = || part().bytes("path", path);
    let laid = vec![
        (Code::MakeDirectory, named().integer("flags", 1).integer("mode", 0o755)),
        (Code::RemoveDirectory, named()),
        (Code::Unlink, named()),
        (Code::Rename, named().bytes("to", b"g").integer("flags", 1)),
        (Code::Link, named().bytes("to", b"g")),
        (Code::Symlink, named().bytes("target", b"../g")),
        (Code::SetMode, named().integer("mode", 0o4755)),
        (Code::SetTimes, named().byte("modified.kind", 2).time("modified", time).byte("accessed.kind", 1)),
        (Code::Truncate, named().integer("length", 1 << 50)),
        (
            Code::SetOwner,
            named().byte("user.kind", 1).integer("user", 1000).byte("group.kind", 2).bytes("group", b"users"),
        ),
        (
            Code::SetOwner,
            named().byte("user.kind", 3).bytes("user.name", b"anna").integer("user", 1000).byte("group.kind", 0),
        ),
        (Code::MakeNode, named().byte("kind", 7).integer("mode", 0o600).integer("major", 1).integer("minor", 3)),
        (Code::SetXattr, named().bytes("name", b"user.a").integer("rule", 1).bytes("value", b"v")),
        (Code::RemoveXattr, named().bytes("name", b"user.a")),
        (
            Code::Put,
            named()
                .integer("flags", 31)
                .integer("mode", 0o640)
                .time("modified", time)
                .bytes("hash", &[3; 32])
                .bytes("content", b"bytes"),
        ),
        (Code::StageTree, named().raw("client", &[6; 16])),
        (Code::PublishTree, named().raw("client", &[6; 16])),
    ];
    let about =
        Batch { stop: true, durable: true, room: 65_536, request: [5; 16], age_ms: Some(9000), base: b"data", calls };
    batch("calls/batch-changing.txt", "Every call that changes something.", &about, laid)
}

/// Every attribute.
fn full() -> Attributes<'static> {
    Attributes {
        mode: Some(0o640),
        size: Some(5 << 40),
        modified: Some(Timestamp::new(-5, 7)),
        accessed: Some(Timestamp::new(1_700_000_000, 0)),
        links: Some(2),
        inode: Some([7; 16]),
        owner: Some((1000, 100)),
        names: Some((b"ada", b"")),
        device: Some((8, 1)),
        allocated: Some(4096),
        change: Some(u64::MAX),
        version: Some(&[9; 16]),
        target: Some(b"../x"),
        xattrs: Some(true),
        kept: Some(Kept::OWNER.with(Kept::XATTR, true)),
        ..Attributes::of(FileType::Symlink)
    }
}

fn laid() -> Frame {
    part()
        .byte("kind", 4)
        .integer("told", 32_767)
        .integer("mode", 0o640)
        .integer("size", 5 << 40)
        .time("modified", Timestamp::new(-5, 7))
        .time("accessed", Timestamp::new(1_700_000_000, 0))
        .integer("links", 2)
        .raw("inode", &[7; 16])
        .integer("user", 1000)
        .integer("group", 100)
        .bytes("user.name", b"ada")
        .bytes("group.name", b"")
        .integer("major", 8)
        .integer("minor", 1)
        .integer("allocated", 4096)
        .fixed("change", u64::MAX, 8)
        .bytes("version", &[9; 16])
        .bytes("target", b"../x")
        .byte("xattrs", 1)
        .integer("kept", 10)
}

fn reply() -> Frame {
    let room = xdfs_proto::limits::CALL_BYTES_MAX;
    let Some(mut writer) = ReplyWriter::new(9, room) else { unreachable!("room for everything") };
    writer.answer(&Answer::Attributes(full()));
    let mut page = writer.listing();
    page.push(&ListEntry { name: b"a", attributes: full() });
    page.push(&ListEntry { name: b"\xff", attributes: Attributes::of(FileType::Directory) });
    page.finish(true, &[4, 2]);
    writer.fail(Failure { kind: ErrorKind::NotFound, errno: 2 });
    writer.answer(&Answer::Bytes(b"v"));
    writer.answer(&Answer::Hash { length: 9, digest: [1; 32] });
    writer.answer(&Answer::File { attributes: Attributes::of(FileType::Regular), content: b"bytes" });
    writer.answer(&Answer::Done);
    writer.answer(&Answer::Bytes(b".xdfs-staging/tree-0"));
    let anna = Opener { user: b"anna", does: OpenedFor::ALL, ranges: 300 };
    writer.answer(&Answer::Openers(Openers { list: vec![anna], complete: true }));
    let none = || part().byte("kind", 2).integer("told", 0);
    Frame::new(
        "calls/reply.txt",
        "reply 1 2 9 15 20 22 3 31 29",
        "Results of stat, list, readlink (failed), getxattr, hash, get, mkdir, stagetree, opens.",
    )
    .byte("safety", 3)
    .integer("results.count", 9)
    .integer("results[0].status", 0)
    .then("results[0].", laid())
    .integer("results[1].status", 0)
    .bytes("results[1].entries[0].name", b"a")
    .then("results[1].entries[0].", laid())
    .bytes("results[1].entries[1].name", b"\xff")
    .then("results[1].entries[1].", none())
    .bytes("results[1].end", b"")
    .integer("results[1].flags", 1)
    .bytes("results[1].cursor", &[4, 2])
    .integer("results[2].status", ErrorKind::NotFound as u64)
    .integer("results[2].errno", 2)
    .integer("results[3].status", 0)
    .bytes("results[3].value", b"v")
    .integer("results[4].status", 0)
    .integer("results[4].length", 9)
    .raw("results[4].digest", &[1; 32])
    .integer("results[5].status", 0)
    .then("results[5].", part().byte("kind", 1).integer("told", 0).bytes("content", b"bytes"))
    .integer("results[6].status", 0)
    .integer("results[7].status", 0)
    .bytes("results[7].place", b".xdfs-staging/tree-0")
    .integer("results[8].status", 0)
    .integer("results[8].flags", 1)
    .integer("results[8].count", 1)
    .bytes("results[8].handles[0].user", b"anna")
    .integer("results[8].handles[0].flags", 255)
    .integer("results[8].handles[0].ranges", 300)
    .is(&writer.finish(Safety::Durable))
}

/// Every frame of the folder.
pub(crate) fn frames() -> Vec<Frame> {
    vec![reading(), changing(), reply()]
}
