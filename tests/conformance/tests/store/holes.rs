//! Files whose zeros take no room: on a disk and in memory, in one go, over what an earlier attempt left, and in groups.

use crate::bench::{Scratch, Tags};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use xdfs_io::store::{Existing, LocalStore, Resume, SmallFile, Stage, StageRequest, Store};
use xdfs_proto::base::{Timestamp, TransferId};
use xdfs_test_conformance::store::bench::{commit, path, request};

const SIZE: usize = 8 << 20;
const BLOCK: usize = 512 << 10;
/// Bytes that are no zeros, in the middle; no block of the file begins or ends with them.
const DATA: std::ops::Range<usize> = (3 << 20) + 5000..(4 << 20) + 5000;
/// What the file system may need besides.
const SLACK: u64 = 64 << 10;

fn content() -> Vec<u8> {
    let mut content = vec![0; SIZE];
    content[DATA].fill(0xd5);
    content
}

fn asked(holes: bool) -> StageRequest {
    let resume =
        Resume { source: b"v1".to_vec(), owner: Vec::new(), hashed: false, since: Timestamp::new(0, 0), synced: false };
    let transfer = TransferId([0x77; 16]);
    StageRequest { size: Some(SIZE as u64), transfer, resume: Some(resume), holes, ..request("x", Existing::Replace) }
}

fn write(stage: &Stage, content: &[u8], blocks: impl IntoIterator<Item = usize>) {
    for block in blocks {
        let from = block * BLOCK;
        stage.write(&content[from..from + BLOCK], from as u64).unwrap();
    }
}

fn allocated(file: &Path) -> u64 {
    file.metadata().unwrap().blocks() * 512
}

/// What stands at the name is `content`, and takes `most` bytes at most.
#[track_caller]
fn is(file: &Path, content: &[u8], most: u64) {
    assert!(std::fs::read(file).unwrap() == content, "other bytes");
    assert!(allocated(file) <= most, "{} bytes are taken, {most} at most expected", allocated(file));
}

#[test]
fn zeros_take_no_room_where_that_is_asked_for_and_else_they_do() {
    for scratch in [Scratch::on_disk(), Scratch::on_tmpfs()] {
        let (store, file) = (LocalStore::open_root(scratch.path(), true).unwrap(), scratch.path().join("x"));
        let last_first = || (0..SIZE / BLOCK).rev();
        for resume in [false, true] {
            let wish = StageRequest { resume: asked(true).resume.filter(|_| resume), ..asked(true) };
            let stage = store.stage(&wish).unwrap();
            assert!(stage.descriptor().is_none(), "nothing looks at what the kernel moves");
            write(&stage, &content(), last_first());
            stage.commit(&commit(SIZE as u64)).unwrap();
            is(&file, &content(), DATA.len() as u64 + SLACK);
        }
        // All zeros, and as many bytes as nobody has told.
        let stage = store.stage(&StageRequest { size: None, resume: None, ..asked(true) }).unwrap();
        write(&stage, &vec![0; SIZE], 0..2);
        stage.commit(&commit(2 * BLOCK as u64)).unwrap();
        is(&file, &vec![0; 2 * BLOCK], 0);
        let stage = store.stage(&asked(false)).unwrap();
        write(&stage, &content(), last_first());
        stage.commit(&commit(SIZE as u64)).unwrap();
        assert!(allocated(&file) >= SIZE as u64);
    }
}

#[test]
fn a_file_may_be_longer_than_the_disk_where_only_zeros_are() {
    let scratch = Scratch::on_disk();
    let store = LocalStore::open_root(scratch.path(), true).unwrap();
    // More than any disk here has, and less than a file of ext4 may have.
    let size = 8_u64 << 40;
    let stage = store.stage(&StageRequest { size: Some(size), ..asked(true) }).unwrap();
    stage.write(b"end", size - 3).unwrap();
    stage.commit(&commit(size)).unwrap();
    let file = scratch.path().join("x");
    assert!(file.metadata().unwrap().len() == size && allocated(&file) <= SLACK);
}

#[test]
fn what_an_earlier_attempt_left_is_no_longer_there_where_zeros_come() {
    for scratch in [Scratch::on_disk(), Scratch::on_tmpfs()] {
        let store = || LocalStore::open_root(scratch.path(), true).unwrap().with_journal_tags(Arc::new(Tags(1)));
        // Room for all of it was taken, and some of it has other bytes than it is to have.
        let stage = store().stage(&asked(false)).unwrap();
        write(&stage, &vec![0xee; SIZE], [0, 1, 9]);
        stage.checkpoint().unwrap();
        write(&stage, &vec![0xee; SIZE], [12]);
        stage.leave();
        let stage = store().stage(&asked(true)).unwrap();
        let kept: u64 = stage.kept().iter().map(|one| one.extent.length()).sum();
        assert_eq!(kept, 3 * BLOCK as u64);
        // What was noted turns out to be wrong, and comes again; nobody writes where the rest was.
        write(&stage, &content(), [0, 1, 9, 6, 7, 8]);
        stage.commit(&commit(SIZE as u64)).unwrap();
        is(&scratch.path().join("x"), &content(), DATA.len() as u64 + SLACK);
    }
}

#[test]
fn what_has_holes_can_be_gone_on_with_like_any_other() {
    for scratch in [Scratch::on_disk(), Scratch::on_tmpfs()] {
        let store = || LocalStore::open_root(scratch.path(), true).unwrap().with_journal_tags(Arc::new(Tags(1)));
        let stage = store().stage(&asked(true)).unwrap();
        write(&stage, &content(), [2, 6, 7, 15]);
        assert!(stage.keep());
        drop(stage);
        let stage = store().stage(&asked(true)).unwrap();
        let kept: Vec<_> = stage.kept().iter().map(|one| (one.extent.offset(), one.extent.end())).collect();
        let block = BLOCK as u64;
        assert_eq!(kept, [(2 * block, 3 * block), (6 * block, 8 * block), (15 * block, 16 * block)]);
        write(&stage, &content(), [0, 1, 3, 4, 5].into_iter().chain(8..15));
        stage.commit(&commit(SIZE as u64)).unwrap();
        is(&scratch.path().join("x"), &content(), DATA.len() as u64 + SLACK);
    }
}

#[test]
fn small_files_have_holes_too_with_a_name_of_their_own_or_none() {
    for unnamed in [true, false] {
        let scratch = Scratch::on_disk();
        let store = LocalStore::open_root(scratch.path(), true).unwrap();
        let store = if unnamed { store } else { store.without_unnamed() };
        let (zeros, mut mixed) = (vec![0; 50_001], vec![0; 50_001]);
        mixed[20_000] = 7;
        let file = |target, content, holes| {
            let (target, existing, base, modified) = (path(target), Existing::Replace, None, None);
            SmallFile { target, content, mode: 0o644, modified, existing, base, parents: false, holes }
        };
        let files = [file("zeros", &zeros, true), file("mixed", &mixed, true), file("full", &zeros, false)];
        assert!(store.put_small(&files, true).iter().all(Result::is_ok));
        is(&scratch.path().join("zeros"), &zeros, 0);
        is(&scratch.path().join("mixed"), &mixed, 4096);
        assert!(std::fs::read(scratch.path().join("full")).unwrap() == zeros);
        assert!(allocated(&scratch.path().join("full")) >= 50_001);
    }
}
