//! Room for a reply that no record of the session has.

use super::raw::{open, wishes};
use super::support::serving::Serving;
use xdfs_proto::limits;
use xdfs_proto::wire::handshake::Open;
use xdfs_proto::wire::path::{Batch, Call};

#[test]
fn a_batch_whose_reply_may_be_longer_than_a_block_is_refused_before_it_is_executed() {
    let serving = Serving::start();
    let small = limits::BLOCK_BYTES_MIN;
    let (_session, mut channel) = open(&serving, Open { block: small, ..wishes(1) }).unwrap();
    let make = |path: &'static [u8]| Call::MakeDirectory { path, parents: false, mode: 0o755 };
    let batch = |room, path| Batch { room, base: b"data", calls: vec![make(path)], ..Batch::default() };
    channel.batch(1, &batch(small + 1, b"refused"));
    assert!(!channel.answered(1), "it has an EXCEPTION");
    channel.batch(2, &batch(small, b"made"));
    assert!(channel.answered(2));
    assert!(serving.directory.file("made").is_dir() && !serving.directory.file("refused").exists());
}
