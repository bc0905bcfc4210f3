//! Who has a file open, as others are told.

use super::support::serving::{Serving, Setup};
use super::{BOTH, remote};
use std::time::Duration;
use xdfs_client::ErrorKind;
use xdfs_client::file::{Extent, File, LeaseKind, OpenOptions, RangeLock};
use xdfs_client::wire::OpenedFor;
use xdfs_server::ServerLimits;

fn serving() -> Serving {
    let usual = Setup::default();
    // Longer than the test: a lease that ends was recalled.
    let limits = ServerLimits { lease: Duration::from_secs(600), leased_before: false, ..usual.limits };
    let serving = Serving::with(Setup { limits, ..usual });
    serving.directory.write("f", b"content");
    serving.directory.write("other", b"");
    serving
}

#[test]
fn each_open_file_is_told_with_its_locks_and_its_lease_which_is_not_recalled() {
    let serving = serving();
    let session = serving.connect(1);
    let told = |path: &str| session.openers(path).unwrap();
    assert!(told("data/f").list.is_empty() && told("data/f").complete);
    let (server, other) = (remote(&serving), remote(&serving));
    let _unrelated = File::open(&other, "data/other", &BOTH).unwrap();
    let file = File::open(&server, "data/f", &BOTH).unwrap();
    assert!(file.lease(LeaseKind::Write).unwrap().is_some());
    let one = &told("data/f").list[..];
    let both = OpenedFor::READING.and_if(true, OpenedFor::WRITING);
    let leased = both.and_if(true, OpenedFor::LEASE).and_if(true, OpenedFor::WRITE_LEASE);
    assert_eq!(
        (one.len(), one[0].does, one[0].ranges, &one[0].user[..]),
        (1, leased, 0, &b""[..]),
        "visitors have no name"
    );
    assert!(file.leased().is_some(), "to ask who has it open is no look at it");
    file.give_back_lease().unwrap();
    let lock = |start, length| RangeLock { range: Extent::new(start, length).unwrap(), exclusive: true };
    file.try_lock_range(1, lock(0, 2)).unwrap();
    file.try_lock_range(2, lock(4, 1)).unwrap();
    file.try_lock(true).unwrap();
    let locked = both.and_if(true, OpenedFor::LOCK).and_if(true, OpenedFor::EXCLUSIVE_LOCK);
    let one = &told("data/f").list[0];
    assert_eq!((one.does, one.ranges), (locked, 2));
    file.try_lock(false).unwrap();
    assert_eq!(told("data/f").list[0].does, both.and_if(true, OpenedFor::LOCK), "shared");
    file.unlock().unwrap();
    let alone = OpenOptions::new().read(true).deny(false, false);
    let second = File::open(&other, "data/f", &alone).unwrap();
    let mut does: Vec<u32> = told("data/f").list.iter().map(|one| one.does.0).collect();
    does.sort_unstable();
    assert_eq!(does, [OpenedFor::READING.0, both.0]);
    second.close().unwrap();
    file.close().unwrap();
    assert!(told("data/f").list.is_empty());
    assert_eq!(session.openers("data/missing").unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn of_many_open_files_some_are_told_and_that_there_are_more() {
    let serving = serving();
    let server = remote(&serving);
    let open = || File::open(&server, "data/f", &OpenOptions::new().read(true)).unwrap();
    let session = serving.connect(1);
    let files: Vec<File> = (0..64).map(|_| open()).collect();
    assert!(session.openers("data/f").unwrap().complete);
    let _more = open();
    let told = session.openers("data/f").unwrap();
    assert_eq!((told.list.len(), told.complete), (64, false));
    drop(files);
}
