//! What the server keeps of operations that are over, as long as their client does not say that it knows.

use super::raw::{open, wishes};
use super::support::pattern;
use super::support::serving::Serving;
use super::{MIB, alone, in_its_own_process};
use xdfs_io::host::resident_bytes;
use xdfs_proto::wire::control::Control;
use xdfs_proto::wire::path::{Batch, Call, Put};
use xdfs_proto::wire::request::Request;

#[test]
fn batches_that_were_refused_leave_nothing() {
    let _one = alone();
    if !in_its_own_process("lingering::batches_that_were_refused_leave_nothing") {
        return;
    }
    let serving = Serving::start();
    const LONG: usize = 200 << 10;
    serving.directory.write("file", &pattern(LONG, 1));
    let (_session, mut channel) =
        open(&serving, xdfs_proto::wire::handshake::Open { block: 1 << 20, ..wishes(1) }).unwrap();
    // Replies are kept until there are too many; then every batch is refused.
    let mut operation = 1;
    while channel.fetch(operation, "file", LONG as u32) {
        operation += 1;
        assert!(operation < 500, "nothing is refused");
    }
    let content = pattern(LONG, 2);
    let call = Call::Put(Put {
        path: b"new",
        keep_existing: false,
        parents: false,
        mode: 0o644,
        modified: None,
        holes: false,
        hash: None,
        content: &content,
    });
    let batch = Batch { room: 1000, base: b"data", calls: vec![call], ..Batch::default() };
    let before = resident_bytes().unwrap();
    for number in operation + 1..operation + 401 {
        channel.batch(number, &batch);
        assert!(!channel.answered(number), "operation {number} is refused");
    }
    let grown = resident_bytes().unwrap().saturating_sub(before);
    assert!(grown < 20 * MIB, "{} MiB for 400 refused batches of 200 KiB", grown / MIB);
}

#[test]
fn operations_that_are_over_leave_their_outcome_alone() {
    let _one = alone();
    if !in_its_own_process("lingering::operations_that_are_over_leave_their_outcome_alone") {
        return;
    }
    let serving = Serving::start();
    let (_session, mut channel) = open(&serving, wishes(1)).unwrap();
    let name = ["data"].into_iter().chain(vec![LONGEST; 120]).collect::<Vec<_>>().join("/").into_bytes();
    let label = vec![b'l'; 4096];
    let before = resident_bytes().unwrap();
    for operation in 1..=1000 {
        let request = Request { name: name.clone(), label: label.clone(), ..Request::default() };
        channel.request(operation % 2 == 0, operation, &request);
        channel.until("EXCEPTION", |head, control| {
            (head.operation.0 == operation && matches!(control, Control::Exception(_))).then_some(())
        });
        // What this program hears of it is not the server's memory.
        serving.forget();
    }
    let grown = resident_bytes().unwrap().saturating_sub(before);
    assert!(grown < 12 * MIB, "{} MiB for 1,000 operations that are over, with 34 KiB of names each", grown / MIB);
}

/// A component as long as any.
const LONGEST: &str = concat!(
    "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz",
    "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz",
    "abcdefghijklmnopqrstuvwxyz",
);
