//! What is believed of what an earlier attempt left, and how much of it is kept.

use crate::bench::{LocalBench, names_under};
use crate::resume::{Folder, SIZE, TRANSFER, comparing, extent, left, request, write};
use xdfs_io::store::{KeptLimits, LocalStore, StageRequest, Store, stored_range};
use xdfs_proto::base::{ErrorKind, TransferId};
use xdfs_test_conformance::store::bench::{commit, path};

#[test]
fn what_was_noted_under_another_key_is_compared_and_neither_trusted_nor_lost() {
    let other = |folder: &Folder| folder.store_with_key(2);
    let without = |folder: &Folder| LocalStore::open_root(folder.path(), true).unwrap();
    for store in [other, without] as [fn(&Folder) -> LocalStore; 2] {
        let folder = Folder::new();
        left(&folder, b"v1");
        let kept = store(&folder).kept(&path("target"), TRANSFER, b"anna").unwrap();
        assert!(kept.noted.iter().all(|one| !one.proved && one.value.is_none()), "{kept:?}");
        let stage = store(&folder).stage(&comparing(b"v1")).unwrap();
        let there = [extent(0, 2 << 20), extent(4 << 20, 5 << 20), extent(6 << 20, 7 << 20)];
        assert_eq!(stored_range::ranges(stage.kept()), there);
        assert!(stage.kept().iter().all(|one| !one.proved && one.value.is_none()));
        drop(stage);
        // Who compares nothing begins anew.
        left(&folder, b"v1");
        assert_eq!(store(&folder).stage(&request(b"v1")).unwrap().kept(), []);
    }
}

#[test]
fn a_journal_of_another_target_is_not_trusted() {
    let folder = Folder::new();
    left(&folder, b"v1");
    // Whoever could name files in the staging directory gives part and journal of one target to another.
    let mut moved = comparing(b"v1");
    moved.target = path("other");
    drop(folder.store().stage(&moved).map(|stage| stage.leave()));
    let names = folder.names();
    let own = names.iter().find(|name| name.ends_with(".journal")).unwrap();
    let stem = own.strip_suffix(".journal").unwrap();
    let other = names.iter().find(|name| name.ends_with(".part") && !name.starts_with(stem)).unwrap();
    let other_stem = other.strip_suffix(".part").unwrap();
    for end in [".part", ".journal"] {
        std::fs::rename(folder.path().join(format!("{stem}{end}")), folder.path().join(format!("{other_stem}{end}")))
            .unwrap();
    }
    let stage = folder.store().stage(&moved).unwrap();
    assert!(!stage.kept().is_empty() && stage.kept().iter().all(|one| !one.proved), "{:?}", stage.kept());
}

#[test]
fn room_that_was_reserved_for_what_has_not_come_is_given_back() {
    let bench = LocalBench::on_disk();
    let used = || {
        let names = names_under(bench.scratch.path()).into_iter().map(|name| String::from_utf8(name).unwrap());
        let part = names.into_iter().find(|name| name.ends_with(".part")).unwrap();
        std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(bench.scratch.path().join(part)).unwrap()) * 512
    };
    let stage = bench.store.stage(&comparing(b"v1")).unwrap();
    assert!(used() >= SIZE, "the disk of the build reserves room");
    write(&stage, [0, 3]);
    assert!(stage.keep());
    drop(stage);
    assert!(used() <= (2 << 20) + 65_536, "{} bytes", used());
    // Whoever goes on reserves it again, and the file is whole.
    let stage = bench.store.stage(&comparing(b"v1")).unwrap();
    assert_eq!(stored_range::ranges(stage.kept()), [extent(0, 1 << 20), extent(3 << 20, 4 << 20)]);
    assert!(used() >= SIZE);
    write(&stage, [1, 2, 4, 5, 6, 7]);
    stage.commit(&commit(SIZE)).unwrap();
    let content = std::fs::read(bench.scratch.path().join("target")).unwrap();
    assert!(
        content.chunks(1 << 20).enumerate().all(|(piece, bytes)| bytes.iter().all(|byte| *byte == piece as u8 + 1))
    );
}

#[test]
fn of_one_owner_so_much_is_kept_and_the_oldest_goes_first() {
    let of = |name: &str, owner: &[u8], transfer: u8| {
        let mut asked = StageRequest { target: path(name), transfer: TransferId([transfer; 16]), ..request(b"v1") };
        asked.resume.iter_mut().for_each(|resume| resume.owner = owner.to_vec());
        asked
    };
    for limits in [KeptLimits { parts: 3, bytes: u64::MAX }, KeptLimits { parts: usize::MAX, bytes: 7 << 20 }] {
        let folder = Folder::new();
        let store = folder.store().with_kept_limits(limits);
        let leave = |asked: &StageRequest| {
            let stage = store.stage(asked).unwrap();
            write(&stage, [0, 1]);
            assert!(stage.keep());
        };
        leave(&of("other", b"bert", 9));
        let written = store.stage(&of("written", b"anna", 8)).unwrap();
        write(&written, [0, 1]);
        written.checkpoint().unwrap();
        (1..=5).for_each(|number| leave(&of(&format!("{number}"), b"anna", number)));
        let names = folder.names();
        let there = |transfer: u8| names.iter().any(|name| name.ends_with(&format!("-{}.part", hex(transfer))));
        assert_eq!([1, 2, 3, 4, 5].map(there), [false, false, true, true, true], "{limits:?}: {names:?}");
        assert!(there(8) && there(9), "others' and what is written stay");
        assert_eq!(names.iter().filter(|name| name.ends_with(".journal")).count(), 5, "{names:?}");
        drop(written);
    }
}

fn hex(transfer: u8) -> String {
    format!("{transfer:02x}").repeat(16)
}

#[test]
fn a_part_stays_locked_when_who_began_it_has_gone_and_another_source_goes_on_with_it() {
    let folder = Folder::new();
    let hashed = |source| {
        let mut asked = request(source);
        asked.resume.as_mut().unwrap().hashed = true;
        asked
    };
    let store = folder.store();
    let older = store.stage(&hashed(b"v1")).unwrap();
    write(&older, [0, 1]);
    let newer = store.stage(&hashed(b"v2")).unwrap();
    drop(older);
    let refused = folder.store().stage(&hashed(b"v2")).err().map(|error| error.kind);
    assert_eq!(refused, Some(ErrorKind::Busy));
    drop(newer);
}
