//! What others change while an own change is not on stable storage: it is not gone over when that is made again.

use super::support::PATIENCE;
use super::support::relay::{Cut, Relay};
use super::support::serving::{Serving, Setup};
use super::{BOTH, remote};
use std::path::Path;
use xdfs_client::file::{File, OpenOptions, Remote};
use xdfs_client::wire::Wanted;
use xdfs_client::{ConnectOptions, ErrorKind};
use xdfs_server::LogEvent;

fn at_a_socket() -> Serving {
    Serving::with(Setup { unix: true, ..Setup::default() })
}

fn change_of(file: &File) -> Option<u64> {
    file.look(Wanted::CHANGE).unwrap().change
}

/// Writes until that shows: the clock of the file system has to go on.
fn write_as_other(file: &File, data: &[u8]) {
    let before = change_of(file);
    while change_of(file) == before {
        file.write_at(data, 0).unwrap();
    }
}

#[test]
fn what_others_wrote_under_their_lock_stays_behind_a_restart_whatever_is_written_later() {
    let mut serving = at_a_socket();
    serving.directory.write("f", b"....................");
    let one = File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    let other = File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    one.try_lock(true).unwrap();
    one.write_at(b"old", 0).unwrap();
    one.unlock().unwrap();
    other.try_lock(true).unwrap();
    write_as_other(&other, b"NEW");
    other.sync_all().unwrap();
    other.close().unwrap();
    one.try_lock(true).unwrap();
    one.write_at(b"zzz", 10).unwrap();
    one.unlock().unwrap();
    serving.restart();
    one.sync_all().unwrap();
    one.close().unwrap();
    assert_eq!(serving.directory.read("f"), b"NEW.......zzz.......");
}

#[test]
fn what_was_not_synced_is_when_a_session_was_cut_and_somebody_else_wrote_meanwhile() {
    let serving = Serving::start();
    serving.directory.write("f", b"....");
    let relay = Relay::to(&serving.address);
    let options = ConnectOptions { address: relay.address.clone(), ..serving.options(1) };
    let remote_of_one = Remote::with_patience(options, PATIENCE);
    let one = File::open(&remote_of_one, "data/f", &BOTH).unwrap();
    one.write_at(b"old", 0).unwrap();
    let other = File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    write_as_other(&other, b"NEW");
    assert!(remote_of_one.unsynced_bytes() > 0);
    relay.cut(relay.connections() - 1, Cut::Rst);
    let mut read = [0; 4];
    assert_eq!(one.read_at(&mut read, 0), Ok(4));
    assert_eq!(&read, b"NEW.");
    assert_eq!(remote_of_one.unsynced_bytes(), 0, "it would be written over theirs");
}

#[test]
fn a_change_that_failed_hides_nothing_that_others_change() {
    let mut serving = at_a_socket();
    let file = File::open(&remote(&serving), "data/f", &BOTH.create(true)).unwrap();
    file.write_at(b"not synced", 0).unwrap();
    assert_eq!(file.set_len(1 << 60).unwrap_err().kind, ErrorKind::TooLarge);
    serving.stop_and(|directory: &Path| {
        use std::os::unix::fs::MetadataExt;
        let time = || std::fs::metadata(directory.join("f")).map(|facts| (facts.ctime(), facts.ctime_nsec())).unwrap();
        let before = time();
        while time() == before {
            std::fs::write(directory.join("f"), b"somebody else's").unwrap();
        }
    });
    assert_eq!(file.sync_all().unwrap_err().kind, ErrorKind::TargetChanged);
    assert_eq!(serving.directory.read("f"), b"somebody else's");
}

#[test]
fn that_a_file_was_cut_when_it_was_opened_is_made_again_until_it_is_synced() {
    let mut serving = at_a_socket();
    serving.directory.write("f", b"a long text");
    let file = File::open(&remote(&serving), "data/f", &OpenOptions::new().write(true).truncate(true)).unwrap();
    file.write_at(b"new", 0).unwrap();
    let cuts = |serving: &Serving| {
        let cuts = |event: &LogEvent| match event {
            LogEvent::Calls { calls, .. } => calls.iter().filter(|call| call.call == "setlength").count(),
            _ => 0,
        };
        serving.events().iter().map(cuts).sum::<usize>()
    };
    for expected in [1, 0] {
        serving.restart();
        serving.forget();
        file.sync_all().unwrap();
        assert_eq!(cuts(&serving), expected);
        assert_eq!(serving.directory.read("f"), b"new");
    }
}
