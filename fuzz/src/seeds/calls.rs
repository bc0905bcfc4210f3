//! Batches and replies beyond the vectors: each call, each answer, and what each field refuses.

use super::{Seed, written};
use xdfs_proto::limits;
use xdfs_proto::wire::Writer;

/// A batch with one call of this number and these arguments.
fn batch(code: u64, arguments: &[u8]) -> Vec<u8> {
    head(0, &[7; 16], |w| w.bytes(b"data/x").integer(1).integer(code).bytes(arguments))
}

/// What comes before the calls, with these flags.
fn head(flags: u64, request: &[u8; 16], rest: impl FnOnce(&mut Writer) -> &mut Writer) -> Vec<u8> {
    written(|w| rest(w.integer(flags).integer(4096).raw(request)))
}

/// A reply to one call.
fn reply(code: u8, result: impl FnOnce(&mut Writer) -> &mut Writer) -> Vec<u8> {
    [&[1, code][..], &written(|w| result(w.byte(2).integer(1)))].concat()
}

/// Behind the list come calls whose results it leaves room for: stat, readlink and get.
fn behind_a_list() -> Vec<u8> {
    let path = |rest: &[u8]| [&[1, b'p'][..], rest].concat();
    head(1, &[7; 16], |w| {
        w.bytes(b"data").integer(4).integer(2).bytes(&path(&[0, 0]));
        w.integer(1).bytes(&path(&[0x5f, 0xff])).integer(9).bytes(&path(&[]));
        w.integer(22).bytes(&path(&[0x5f, 0xff, 16]))
    })
}

pub(super) fn all() -> Vec<Seed> {
    let mut seeds = files();
    let mut add = |target, name: &str, bytes| seeds.push((target, name.to_owned(), bytes));
    let path = |rest: &[u8]| [&[1, b'p'][..], rest].concat();
    for (name, code, arguments) in [
        ("unknown", 99, b"anything".to_vec()),
        ("stat-attributes", 1, path(&[0x80, 0, 0xff, 0xff])),
        ("list-cursor", 2, path(&[&[1, 65][..], &[9; 65]].concat())),
        ("mkdir-flags", 3, path(&[2, 0])),
        ("mkdir-mode", 3, path(&[1, 0x80, 0, 0xff, 0xff])),
        ("symlink-empty", 8, path(&[0])),
        ("symlink-nul", 8, path(&[1, 0])),
        ("utimes-kind", 11, path(&[3, 0])),
        ("utimes-nanoseconds", 11, path(&[2, 0, 0xbf, 0xff, 0xff, 0xff, 0])),
        ("chown-kind", 13, path(&[3, 0])),
        ("chown-no-name", 13, path(&[2, 0, 0])),
        ("chown-number", 13, path(&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0])),
        ("mknod-kind", 14, path(&[9, 0, 0, 0])),
        ("xattr-no-name", 15, path(&[0])),
        ("xattr-nul", 15, path(&[2, b'a', 0])),
        ("setxattr-rule", 16, path(&[1, b'a', 3, 0])),
        ("setxattr-replace", 16, path(&[1, b'a', 2, 1, b'v'])),
        ("hash-flags", 20, path(&[2, 0])),
        ("put-flags", 21, path(&[16, 0, 0])),
        ("put-no-hash", 21, path(&[8, 0, 0, 0])),
        ("get-most", 22, path(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])),
        ("stagetree", 31, path(&[6; 16])),
        ("stagetree-short", 31, path(&[6; 15])),
        ("publishtree", 32, path(&[6; 16])),
        ("publishtree-more", 32, path(&[6; 17])),
        ("more-than-it-has", 4, path(&[1])),
    ] {
        add("batch", name, batch(code, &arguments));
    }
    add("batch", "room-behind-a-list", behind_a_list());
    add("batch", "no-calls", head(0, &[0; 16], |w| w.bytes(b"e").integer(0)));
    add("batch", "flags", head(8, &[0; 16], |w| w.bytes(b"e").integer(0)));
    add("batch", "age-without-id", head(4, &[0; 16], |w| w.integer(5).bytes(b"e").integer(0)));
    add("batch", "too-long", vec![0; limits::CALL_BYTES_MAX + 1]);
    add("batch", "behind-its-end", [batch(4, &[1, b'p']), vec![0]].concat());
    add("reply", "readlink", reply(9, |w| w.integer(0).bytes(b"../target")));
    add("reply", "stagetree", reply(31, |w| w.integer(0).bytes(b".xdfs-staging/tree-0")));
    add("reply", "stagetree-long", reply(31, |w| w.integer(0).bytes(&[b'a'; 65])));
    add("reply", "names", reply(17, |w| w.integer(0).bytes(b"user.a").bytes(b"user.b").bytes(b"")));
    add("reply", "statfs", reply(19, |w| (1..=6).fold(w.integer(0), Writer::integer)));
    add(
        "reply",
        "entries",
        reply(2, |w| {
            let entry = |w: &mut Writer, name: &[u8]| {
                w.bytes(name).byte(1).integer(0);
            };
            w.integer(0);
            entry(w, b"one");
            entry(w, b"two");
            w.bytes(b"").integer(1).bytes(b"")
        }),
    );
    add("reply", "entry-leads-out", reply(2, |w| w.integer(0).bytes(b"..").byte(1).integer(0)));
    add("reply", "entry-slash", reply(2, |w| w.integer(0).bytes(b"a/b").byte(1).integer(0)));
    add("reply", "kind", reply(1, |w| w.integer(0).byte(9).integer(0)));
    add("reply", "mode", reply(1, |w| w.integer(0).byte(1).integer(1).integer(0o10000)));
    add("reply", "unknown-error", reply(1, |w| w.integer(9999).integer(0)));
    add("reply", "unknown-call-succeeds", reply(99, |w| w.integer(0)));
    add("reply", "safety", vec![0, 9, 0]);
    add("reply", "count", vec![0, 2, 1]);
    add("reply", "nothing", vec![0, 3, 0]);
    seeds
}

/// Calls on open files: what each field refuses.
fn files() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut add = |target: &'static str, name: &str, bytes: Vec<u8>| seeds.push((target, name.to_owned(), bytes));
    for (name, code, arguments) in [
        ("open-flags", 1, &[1, b'e', 2 | 16, 0][..]),
        ("open-neither", 1, &[1, b'e', 4, 0]),
        ("read-none", 3, &[0]),
        ("read-many", 3, &[0x40, 65]),
        ("seek-flags", 10, &[0, 2]),
        ("unknown-call", 99, b"later"),
    ] {
        let handle = u64::from(code != 1);
        add("file-batch", name, head(0, &[0; 16], |w| w.integer(handle).integer(1).integer(code).bytes(arguments)));
    }
    add("file-batch", "no-calls", head(0, &[0; 16], |w| w.integer(7).integer(0)));
    add("file-batch", "close-of-nothing", head(0, &[0; 16], |w| w.integer(0).integer(1).integer(2).bytes(b"")));
    add("file-batch", "age-without-id", head(4, &[0; 16], |w| w.integer(5).integer(7)));
    add("file-batch", "too-long", vec![0; limits::CALL_BYTES_MAX + 1]);
    add("file-reply", "no-handle", reply(1, |w| w.integer(0).integer(0)));
    add("file-reply", "unknown-call-succeeds", reply(99, |w| w.integer(0)));
    add("file-reply", "durable", vec![0, 3, 0]);
    seeds
}
