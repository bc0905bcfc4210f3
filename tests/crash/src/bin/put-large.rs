//! Puts a file of 8 MiB over one that is there, in two attempts, as a server would: `put-large DIRECTORY`. Whoever traces this
//! program sees where each checkpoint is done. The last line says what was told of the file.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use xdfs_io::store::{CommitRequest, Existing, LocalStore, Resume, Stage, StageRequest, Store};
use xdfs_proto::base::{RelPath, Safety, Timestamp, TransferId};
use xdfs_test_cli::pattern;
use xdfs_test_crash::recorded::{CHECKPOINT, LARGE, LARGE_BYTES};

const PIECE_BYTES: usize = 1 << 20;

/// Writes these pieces, in this order.
fn write(stage: &Stage, content: &[u8], pieces: &[usize]) {
    for piece in pieces {
        let start = piece * PIECE_BYTES;
        stage.write(&content[start..start + PIECE_BYTES], start as u64).expect("there is room");
    }
}

fn checkpoint(stage: &Stage) {
    stage.checkpoint().expect("the disk is sound");
    let _ = rustix::process::test_kill_process(rustix::process::Pid::from_raw(CHECKPOINT).expect("a number"));
}

fn main() {
    let folder = PathBuf::from(std::env::args_os().nth(1).expect("a directory"));
    let store = LocalStore::open_root(&folder, true).expect("the directory is there");
    let content = pattern(LARGE_BYTES as usize, 7);
    let request = |since| StageRequest {
        target: RelPath::parse(LARGE.as_bytes()).expect("a name"),
        size: Some(LARGE_BYTES),
        existing: Existing::Replace,
        transfer: TransferId([7; 16]),
        resume: Some(Resume {
            source: b"v1".to_vec(),
            owner: b"anna".to_vec(),
            hashed: true,
            since: Timestamp::new(since, 0),
            synced: true,
        }),
        base: None,
        holes: false,
    };
    let first = store.stage(&request(1)).expect("it can be staged");
    write(&first, &content, &[0, 1, 5]);
    checkpoint(&first);
    write(&first, &content, &[2]);
    checkpoint(&first);
    assert!(first.keep(), "the next attempt goes on with it");
    drop(first);
    let mut second = store.stage(&request(2)).expect("it can be staged again");
    assert_eq!(second.kept().iter().map(|kept| kept.extent.length()).sum::<u64>(), 4 * PIECE_BYTES as u64);
    write(&second, &content, &[3, 4]);
    checkpoint(&second);
    write(&second, &content, &[6, 7]);
    let commit = CommitRequest { length: LARGE_BYTES, mode: 0o644, modified: None };
    second.finish(&commit).expect("it can be finished");
    second.sync().expect("the disk is sound");
    second.name(&commit).expect("it gets its name");
    second.sync_directory().expect("the disk is sound");
    println!("{}", Safety::Durable.name());
}
