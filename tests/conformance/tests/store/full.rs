//! Disks that are full: a small tmpfs in a mount namespace of the test's own, and the fault store.

use crate::bench::{FaultBench, LocalBench};
use crate::namespace::in_a_mount_namespace;
use std::os::unix::fs::MetadataExt;
use xdfs_io::store::fault::Plan;
use xdfs_io::store::{Existing, LocalStore, MemoryStore, StageRequest, Store};
use xdfs_proto::base::ErrorKind;
use xdfs_test_conformance::store::bench::{Bench, commit, path, request, stage};

#[test]
fn a_small_disk_fills_up_cleanly() {
    let mount = "mount -t tmpfs -o size=8m none \"$0\"";
    in_a_mount_namespace("full::a_small_disk_fills_up_cleanly", mount, inside_a_small_disk);
}

fn inside_a_small_disk(top: &std::path::Path) {
    let store = LocalStore::open_root(top, true).unwrap();
    std::fs::write(top.join("x"), b"old").unwrap();

    let asked = StageRequest { size: Some(9 << 20), ..request("x", Existing::Replace) };
    let error = store.stage(&asked).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoSpace);
    assert!(error.message.starts_with("cannot create 'x': no space left on device: 9.4 MB needed, "), "{error}");

    let asked = StageRequest { size: None, ..request("x", Existing::Replace) };
    let stage = store.stage(&asked).unwrap();
    let block = vec![7; 1 << 20];
    let error = (0..9).find_map(|index| stage.write(&block, index << 20).err()).unwrap();
    assert_eq!((error.kind, error.errno), (ErrorKind::NoSpace, 28));
    assert_eq!(error.message, "cannot write 'x': no space left on device");
    // A write that failed is never made good by a commit.
    assert_eq!(stage.commit(&commit(1 << 20)).unwrap_err().kind, ErrorKind::Storage);
    assert_eq!(std::fs::read(top.join("x")).unwrap(), b"old");
    assert_eq!(crate::bench::names_under(top), [b"x".to_vec()]);

    // The room is free again.
    let asked = StageRequest { size: Some(6 << 20), ..request("y", Existing::Keep) };
    let stage = store.stage(&asked).unwrap();
    for index in 0..6 {
        stage.write(&block, index << 20).unwrap();
    }
    stage.commit(&commit(6 << 20)).unwrap();
}

#[test]
fn more_than_the_disk_holds_is_refused_before_data_flows() {
    for bench in [LocalBench::on_tmpfs(), LocalBench::on_disk()] {
        let asked = StageRequest { size: Some(1 << 50), ..request("x", Existing::Replace) };
        let error = bench.store.stage(&asked).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
        assert!(error.message.contains("1.1 PB needed, ") && error.message.ends_with(" missing"), "{error}");
        assert!(bench.names().is_empty());
    }
}

#[test]
fn room_is_taken_at_stage_where_that_helps_and_given_back() {
    const SIZE: u64 = 4 << 20;
    let blocks = |bench: &LocalBench| {
        let name = bench.names().pop().unwrap();
        std::fs::metadata(bench.scratch.path().join(std::str::from_utf8(&name).unwrap())).unwrap().blocks() * 512
    };
    // On tmpfs a reservation costs time and nothing is won.
    for (bench, on_disk) in [(LocalBench::on_tmpfs(), false), (LocalBench::on_disk(), true)] {
        let asked = StageRequest { size: Some(SIZE), ..request("x", Existing::Replace) };
        let stage = bench.store.stage(&asked).unwrap();
        let reserved = blocks(&bench);
        if on_disk && can_reserve(&bench) {
            assert!(reserved >= SIZE, "{reserved} bytes");
        } else {
            assert_eq!(reserved, 0);
        }
        // The source turned out shorter: what it did not need is free again, and the length is exact.
        stage.write(&[1; 5000], 0).unwrap();
        assert_eq!(stage.commit(&commit(5000)).unwrap().size, Some(5000));
        assert!(blocks(&bench) < SIZE / 2, "{} bytes", blocks(&bench));
    }
}

/// Whether the build's own disk knows reservations at all.
fn can_reserve(bench: &LocalBench) -> bool {
    let probe = bench.scratch.path().join("probe");
    let file = std::fs::File::create(&probe).unwrap();
    let result = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 4096);
    std::fs::remove_file(&probe).unwrap();
    result.is_ok()
}

#[test]
fn a_disk_that_is_full_in_the_middle_of_a_write_fails_the_transfer() {
    let bench = FaultBench::local(Plan::none().room(10_000));
    bench.put("x", b"old");
    let stage = stage(&bench, "x");
    stage.write(&[1; 8000], 0).unwrap();
    let error = stage.write(&[2; 8000], 8000).unwrap_err();
    assert_eq!((error.kind, error.errno), (ErrorKind::NoSpace, 28));
    assert_eq!(error.message, "cannot write 'x': no space left on device");
    assert!(stage.commit(&commit(8000)).is_err());
    assert_eq!(bench.content("x").unwrap(), b"old");
    assert_eq!(bench.names(), [b"x".to_vec()]);
}

#[test]
fn memory_is_bounded_and_what_is_dropped_is_free_again() {
    let store = MemoryStore::new(1000);
    let first = store.stage(&request("x", Existing::Replace)).unwrap();
    first.write(&[1; 600], 0).unwrap();
    let second = store.stage(&request("y", Existing::Replace)).unwrap();
    assert_eq!(second.write(&[1; 600], 0).unwrap_err().kind, ErrorKind::NoSpace);
    assert!(second.commit(&commit(0)).is_err());
    drop(first);
    assert_eq!(store.used(), 0);
    store.put(&path("z"), &[1; 1000]).unwrap();
    // A replacement needs room for both, as on a disk.
    assert_eq!(store.put(&path("z"), &[1; 1]).unwrap_err().kind, ErrorKind::NoSpace);
    assert_eq!(store.used(), 1000);
}
