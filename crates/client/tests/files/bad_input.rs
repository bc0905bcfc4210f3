//! What a server answers to handles, ranges and names that are none, each with its row.

use super::support::PATIENCE;
use super::support::relay::{Cut, Relay};
use super::support::serving::{Serving, Setup};
use super::{BOTH, refused, remote};
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Instant;
use xdfs_client::file::{File, OpenOptions, Remote};
use xdfs_client::{ConnectOptions, ErrorKind};
use xdfs_io::store::LocalStore;
use xdfs_server::{Access, Anonymous, Export, Policy};

#[test]
fn names_that_are_no_regular_file_of_an_export_are_not_opened() {
    let serving = Serving::start();
    let at = |name: &str| serving.directory.file(name);
    serving.directory.write("f", b"content");
    serving.directory.write("folder/f", b"content");
    symlink(at("f"), at("link")).unwrap();
    symlink(at("folder"), at("way")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let remote = remote(&serving);
    for (path, expected) in [
        ("data/absent", ErrorKind::NotFound),
        ("absent/f", ErrorKind::NotFound),
        ("data/folder", ErrorKind::IsDirectory),
        ("data", ErrorKind::IsDirectory),
        ("data/link", ErrorKind::NotRegular),
        ("data/way/f", ErrorKind::NotRegular),
        ("data/fifo", ErrorKind::NotRegular),
        ("data/f/x", ErrorKind::NotDirectory),
        ("data/../f", ErrorKind::InvalidPath),
        ("", ErrorKind::InvalidPath),
        ("data/.xdfs-staging/f", ErrorKind::NotFound),
    ] {
        assert_eq!(refused(&remote, path, &OpenOptions::new().read(true)), expected, "'{path}'");
        let writing = refused(&remote, path, &BOTH);
        assert!(writing == expected || writing == ErrorKind::InvalidPath, "'{path}' to write: {writing:?}");
    }
    for (path, expected) in [
        ("data/absent/f", ErrorKind::NotFound),
        ("data/link", ErrorKind::NotRegular),
        ("data/fifo", ErrorKind::NotRegular),
        ("data/.xdfs-staging", ErrorKind::InvalidPath),
        ("fixed/new", ErrorKind::ReadOnly),
        ("memory/null", ErrorKind::Unsupported),
    ] {
        assert_eq!(refused(&remote, path, &BOTH.create(true)), expected, "'{path}' to create");
    }
    assert_eq!(serving.directory.read("f"), b"content");
}

#[test]
fn a_handle_does_only_what_it_was_opened_for() {
    let serving = Serving::start();
    serving.directory.write("f", b"content");
    let remote = remote(&serving);
    let reads = File::open(&remote, "data/f", &OpenOptions::new().read(true)).unwrap();
    assert_eq!(reads.write_at(b"x", 0).unwrap_err().kind, ErrorKind::Refused);
    assert_eq!(reads.append(b"x").unwrap_err().kind, ErrorKind::Refused);
    assert_eq!(reads.set_len(0).unwrap_err().kind, ErrorKind::Refused);
    assert_eq!(reads.punch(0, 1).unwrap_err().kind, ErrorKind::Refused);
    let writes = File::open(&remote, "data/f", &OpenOptions::new().write(true)).unwrap();
    assert_eq!(writes.read_at(&mut [0; 4], 0).unwrap_err().kind, ErrorKind::Refused);
    assert_eq!(writes.length().unwrap(), 7, "attributes and sync need no more than an open file");
    writes.sync_all().unwrap();
    assert_eq!(serving.directory.read("f"), b"content");
}

#[test]
fn ranges_that_no_file_has_are_errors_and_change_nothing() {
    let serving = Serving::start();
    serving.directory.write("f", b"content");
    let file = File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    // The largest number of the wire; the end is behind it, and still below 2^63.
    let last = (1 << 62) - 1;
    assert_eq!(file.read_at(&mut [0; 10], last).unwrap(), 0);
    let error = |result: Result<(), xdfs_client::Error>| result.unwrap_err().kind;
    assert!(matches!(error(file.write_at(b"x", last)), ErrorKind::TooLarge | ErrorKind::Storage));
    assert!(matches!(error(file.set_len(last)), ErrorKind::TooLarge | ErrorKind::Storage));
    assert_eq!(error(file.allocate(last, last, false)), ErrorKind::TooLarge);
    for beyond in [last + 1, u64::MAX] {
        assert_eq!(error(file.set_len(beyond)), ErrorKind::TooLarge);
        assert_eq!(error(file.write_at(b"x", beyond)), ErrorKind::TooLarge);
        assert_eq!(error(file.punch(beyond, 1)), ErrorKind::TooLarge);
        assert_eq!(error(file.read_at(&mut [0; 10], beyond).map(drop)), ErrorKind::TooLarge);
    }
    assert_eq!(file.seek_data(last, false).unwrap(), None);
    assert_eq!(error(file.append(&vec![0; file.append_max() + 2048]).map(drop)), ErrorKind::LimitExceeded);
    assert_eq!(serving.directory.read("f"), b"content");
}

#[test]
fn a_file_that_was_removed_works_on_while_it_is_open() {
    let serving = Serving::start();
    serving.directory.write("f", b"content");
    let file = File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    std::fs::remove_file(serving.directory.file("f")).unwrap();
    serving.directory.write("f", b"another file");
    file.write_at(b"C", 0).unwrap();
    let mut read = [0; 7];
    file.read_at(&mut read, 0).unwrap();
    assert_eq!((&read, serving.directory.read("f")), (b"Content", b"another file".to_vec()));
}

#[test]
fn rights_that_end_while_a_file_is_open_end_for_its_next_call() {
    let serving = Serving::with(Setup::default());
    serving.directory.write("f", b"content");
    let file = File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    file.write_at(b"C", 0).unwrap();
    let store = Arc::new(LocalStore::open_root(serving.directory.path(), true).unwrap());
    let reload = |exports| serving.handle.reload(exports, Setup::default().limits, Policy::default());
    reload(vec![Export::open_to_all("data", store, false)]);
    serving.wait_for_status("the reload", |_| true);
    assert_eq!(file.write_at(b"X", 0).unwrap_err().kind, ErrorKind::ReadOnly);
    let mut read = [0; 7];
    assert_eq!(file.read_at(&mut read, 0).unwrap(), 7, "reading is still allowed");
    reload(Vec::new());
    serving.wait_for_status("the reload", |_| true);
    assert_eq!(file.read_at(&mut read, 0).unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(serving.directory.read("f"), b"Content");
}

#[test]
fn a_reload_that_gives_an_export_another_directory_closes_what_is_open_on_the_old_one() {
    let serving = Serving::with(Setup::default());
    serving.directory.write("f", b"content");
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("f"), b"another").unwrap();
    let reload = |path| {
        let store = Arc::new(LocalStore::open_root(path, true).unwrap());
        let exports = vec![Export::open_to_all("data", store, true)];
        serving.handle.reload(exports, Setup::default().limits, Policy::default());
    };
    let open = || File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    let content = |file: &File| {
        let mut read = [0; 7];
        file.read_at(&mut read, 0).map(|_| read)
    };
    let (file, locked) = (open(), open());
    locked.try_lock(true).unwrap();
    reload(serving.directory.path());
    assert_eq!(content(&file).unwrap(), *b"content", "it is the same directory");
    reload(other.path());
    // The server is in this process.
    let kept = serving.directory.path().join("f");
    let is_kept = |path: std::path::PathBuf| std::fs::read_link(path).is_ok_and(|name| name == kept);
    let is_open = || std::fs::read_dir("/proc/self/fd").unwrap().flatten().any(|one| is_kept(one.path()));
    let until = Instant::now() + PATIENCE;
    while is_open() {
        assert!(Instant::now() < until, "the server closes them");
        std::thread::yield_now();
    }
    assert_eq!(content(&file).unwrap_err().kind, ErrorKind::Stale);
    locked.close().unwrap();
    assert_eq!(content(&open()).unwrap(), *b"another");
}

/// An export where visitors may read and create, and nothing else.
fn inbox() -> (tempfile::TempDir, Export) {
    let scratch = tempfile::tempdir().unwrap();
    let store = Arc::new(LocalStore::open_root(scratch.path(), true).unwrap());
    let access = Access { writable: true, anonymous: Anonymous::Create, ..Access::default() };
    (scratch, Export::new("inbox", store, access))
}

#[test]
fn whoever_may_not_change_a_file_shuts_nobody_out_of_it() {
    let (scratch, export) = inbox();
    let serving = Serving::with(Setup { more: vec![export], ..Setup::default() });
    serving.directory.write("f", b"content");
    std::fs::write(scratch.path().join("old"), b"content").unwrap();
    let remote = remote(&serving);
    let reads = OpenOptions::new().read(true);
    for (path, expected) in [("fixed/f", ErrorKind::ReadOnly), ("inbox/old", ErrorKind::Refused)] {
        assert_eq!(refused(&remote, path, &reads.deny(true, false)), expected, "{path}");
        assert_eq!(refused(&remote, path, &reads.deny(false, true)), expected, "{path}");
        let file = File::open(&remote, path, &reads).unwrap();
        for exclusive in [true, false] {
            assert_eq!(file.try_lock(exclusive).map_err(|error| error.kind), Err(expected), "{path}");
        }
    }
    let own = File::open(&remote, "inbox/new", &BOTH.create_new(true).deny(true, true)).unwrap();
    own.try_lock(true).unwrap();
}

#[test]
fn a_file_that_only_its_creator_may_write_is_his_in_the_next_session_too() {
    let (scratch, export) = inbox();
    let serving = Serving::with(Setup { more: vec![export], ..Setup::default() });
    let relay = Relay::to(&serving.address);
    let options = ConnectOptions { address: relay.address.clone(), ..serving.options(1) };
    let remote = Remote::with_patience(options, PATIENCE);
    let file = File::open(&remote, "inbox/new", &BOTH.create_new(true)).unwrap();
    file.write_at(b"before", 0).unwrap();
    relay.cut(relay.connections() - 1, Cut::Rst);
    file.write_at(b", and after", 6).unwrap();
    assert_eq!(std::fs::read(scratch.path().join("new")).unwrap(), b"before, and after");
    assert_eq!(refused(&remote, "inbox/new", &BOTH), ErrorKind::Refused, "nobody else's");
}
