//! Locks of whole files: among clients, with programs of the server's machine, and over losses.

use super::support::relay::{Cut, Relay};
use super::support::serving::{Serving, Setup};
use super::support::{PATIENCE, within};
use super::{BOTH, remote};
use std::time::Duration;
use xdfs_client::file::{Extent, File, OpenOptions, RangeLock, Remote};
use xdfs_client::wire::Wanted;
use xdfs_client::{ConnectOptions, ErrorKind, Session};
use xdfs_server::ServerLimits;

fn try_lock(file: &File, exclusive: bool) -> Result<(), ErrorKind> {
    file.try_lock(exclusive).map_err(|error| error.kind)
}

#[test]
fn locks_exclude_other_clients_and_programs_of_the_servers_machine() {
    let serving = Serving::start();
    let path = serving.directory.write("f", b"content");
    let open = || File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    let (one, other) = (open(), open());
    one.try_lock(false).unwrap();
    other.try_lock(false).unwrap();
    assert_eq!(try_lock(&one, true), Err(ErrorKind::Locked), "the other one reads");
    other.unlock().unwrap();
    one.try_lock(true).unwrap();
    assert_eq!(try_lock(&other, false), Err(ErrorKind::Locked));
    let local = std::fs::File::open(&path).unwrap();
    assert!(local.try_lock().is_err(), "a local program");
    one.unlock().unwrap();
    local.try_lock().unwrap();
    assert_eq!(try_lock(&other, true), Err(ErrorKind::Locked));
    local.unlock().unwrap();
    other.try_lock(true).unwrap();
    other.close().unwrap();
    one.try_lock(true).unwrap();
}

#[test]
fn a_lock_that_is_waited_for_is_had_when_it_is_released_or_not_in_time() {
    let serving = Serving::start();
    serving.directory.write("f", b"content");
    let open = || File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    let (one, other) = (open(), open());
    one.try_lock(true).unwrap();
    let late = other.lock(true, Duration::from_millis(100)).unwrap_err();
    assert_eq!(late.kind, ErrorKind::Locked);
    let waits = std::thread::spawn(move || other.lock(true, PATIENCE).map(|()| other));
    one.unlock().unwrap();
    let other = within(PATIENCE, "the lock", move || waits.join().unwrap().unwrap());
    assert_eq!(try_lock(&one, false), Err(ErrorKind::Locked));
    drop(other);
}

#[test]
fn a_session_that_shuts_others_out_is_not_idle() {
    // Whoever is about to open or to lock has that long.
    let limits = ServerLimits { idle: Duration::from_secs(3), ..ServerLimits::roomy() };
    let serving = Serving::with(Setup { limits, ..Setup::default() });
    let open = |name: &str, options: &OpenOptions| {
        serving.directory.write(name, b"content");
        let session = Session::connect(&serving.options(2)).unwrap();
        File::open(&Remote::over(session), format!("data/{name}"), options).unwrap()
    };
    let whole = open("whole", &BOTH);
    whole.try_lock(true).unwrap();
    let range = open("range", &BOTH);
    range.try_lock_range(1, RangeLock { range: Extent::new(0, 1).unwrap(), exclusive: true }).unwrap();
    let alone = open("alone", &BOTH.deny(false, true));
    // Sessions that only have a file open come and are ended, one after the other, meanwhile.
    for _ in 0..3 {
        let _idle = open("idle", &BOTH);
        let ended = serving.session_ended().expect("it was not the client who ended it");
        assert!(ended.contains("no operation"), "{ended}");
        serving.forget();
    }
    for file in [whole, range, alone] {
        file.close().unwrap();
    }
}

#[test]
fn a_lock_is_had_again_after_a_restart_of_the_server_or_the_file_fails() {
    let mut serving = Serving::with(Setup { unix: true, ..Setup::default() });
    let path = serving.directory.write("f", b"content");
    let file = File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    file.try_lock(true).unwrap();
    serving.restart();
    file.write_at(b"C", 0).unwrap();
    assert!(std::fs::File::open(&path).unwrap().try_lock().is_err(), "locked again");
    // Somebody else is faster. The server's last thread may still have its descriptor for a moment.
    let mut held = None;
    serving.stop_and(|_| {
        let local = std::fs::File::open(&path).unwrap();
        local.lock().unwrap();
        held = Some(local);
    });
    assert_eq!(file.write_at(b"X", 0).unwrap_err().kind, ErrorKind::TargetChanged);
    drop(held);
    assert_eq!(serving.directory.read("f"), b"Content");
}

/// What others wrote before it was locked is nobody's change under the lock.
#[test]
fn a_lock_is_had_again_also_where_others_changed_the_file_before_it_was_locked() {
    let mut serving = Serving::with(Setup { unix: true, ..Setup::default() });
    serving.directory.write("f", b"content");
    let whole = File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    let range = File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    let other = File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    other.write_at(b"C", 0).unwrap();
    other.close().unwrap();
    whole.try_lock(true).unwrap();
    serving.restart();
    assert_eq!(whole.length().unwrap(), 7);
    whole.close().unwrap();
    range.try_lock_range(1, RangeLock { range: Extent::new(0, 4).unwrap(), exclusive: true }).unwrap();
    serving.restart();
    range.write_at(b"T", 3).unwrap();
    range.close().unwrap();
    assert_eq!(serving.directory.read("f"), b"ConTent");
}

/// Its own change would have to be made again, and would go over theirs: it is synced before.
#[test]
fn a_lock_over_what_others_changed_is_had_again_though_an_own_change_was_not_synced() {
    let mut serving = Serving::with(Setup { unix: true, ..Setup::default() });
    serving.directory.write("f", b"content");
    let file = File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    file.write_at(b"X", 0).unwrap();
    let other = File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    let change = || other.look(Wanted::CHANGE).unwrap().change;
    let before = change();
    // The clock of the file system has to tick in between.
    while change() == before {
        other.write_at(b"C", 0).unwrap();
    }
    other.close().unwrap();
    file.try_lock(true).unwrap();
    serving.restart();
    assert_eq!(file.length(), Ok(7));
    file.write_at(b"T", 3).unwrap();
    file.close().unwrap();
    assert_eq!(serving.directory.read("f"), b"ConTent");
}

#[test]
fn a_session_that_is_cut_locks_again_though_the_server_still_has_the_old_one() {
    let serving = Serving::start();
    serving.directory.write("f", b"content");
    let relay = Relay::to(&serving.address);
    let options = ConnectOptions { address: relay.address.clone(), ..serving.options(1) };
    let file = File::open(&Remote::with_patience(options, PATIENCE), "data/f", &BOTH).unwrap();
    file.try_lock(true).unwrap();
    relay.cut(relay.connections() - 1, Cut::Rst);
    file.write_at(b"C", 0).unwrap();
    let other = File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    assert_eq!(try_lock(&other, false), Err(ErrorKind::Locked));
    file.close().unwrap();
    other.lock(true, PATIENCE).unwrap();
}
