//! Sessions that are cut and servers that restart while files are open.

use super::support::relay::{Cut, Relay};
use super::support::serving::{Serving, Setup};
use super::support::{PATIENCE, assert_same, pattern};
use super::{BOTH, remote};
use std::io::{Read, Write};
use std::sync::Arc;
use xdfs_client::file::{File, OpenOptions, Remote};
use xdfs_client::{ConnectOptions, ErrorKind};
use xdfs_server::LogEvent;

fn through(serving: &Serving, relay: &Relay) -> Arc<Remote> {
    let options = ConnectOptions { address: relay.address.clone(), ..serving.options(1) };
    Remote::with_patience(options, PATIENCE)
}

fn at_a_socket() -> Serving {
    Serving::with(Setup { unix: true, ..Setup::default() })
}

#[test]
fn a_file_goes_on_in_another_session_when_its_own_is_cut() {
    let serving = Serving::start();
    let relay = Relay::to(&serving.address);
    let remote = through(&serving, &relay);
    let bytes = pattern(12_000_000, 5);
    let mut file = File::open(&remote, "data/f", &BOTH.create_new(true).deny(true, true)).unwrap();
    for (turn, part) in bytes.chunks(50_000).enumerate() {
        file.write_all(part).unwrap();
        // More between two cuts than may be on its way without an answer.
        if turn % 80 == 40 {
            relay.cut(relay.connections() - 1, Cut::Rst);
        }
    }
    file.flush().unwrap();
    assert_same(&serving.directory.read("f"), &bytes);
    relay.cut(relay.connections() - 1, Cut::Fin);
    file.sync_all().unwrap();
    let mut read = vec![0; bytes.len()];
    assert_eq!(file.read_at(&mut read, 0).unwrap(), bytes.len());
    assert_same(&read, &bytes);
    assert!(relay.connections() >= 4, "{} connections", relay.connections());
    file.close().unwrap();
}

#[test]
fn a_file_goes_on_when_its_server_restarts_and_what_was_not_synced_is_written_again() {
    let mut serving = at_a_socket();
    let remote = remote(&serving);
    let mut file = File::open(&remote, "data/f", &BOTH.create(true)).unwrap();
    file.write_all(b"synced").unwrap();
    file.sync_all().unwrap();
    file.write_all(b" and not synced").unwrap();
    file.flush().unwrap();
    let writes = |serving: &Serving| {
        let write = |event: &LogEvent| match event {
            LogEvent::Calls { calls, .. } => calls.iter().filter(|call| call.call == "write").count(),
            _ => 0,
        };
        serving.events().iter().map(write).sum::<usize>()
    };
    serving.restart();
    serving.forget();
    assert_eq!(file.length().unwrap(), 21);
    assert_eq!(writes(&serving), 1, "what was not synced is written again");
    file.sync_all().unwrap();
    serving.restart();
    serving.forget();
    assert_eq!(file.length().unwrap(), 21);
    assert_eq!(writes(&serving), 0, "everything was synced");
    assert_eq!(file.append(b", appended").unwrap(), 21);
    file.close().unwrap();
    assert_eq!(serving.directory.read("f"), b"synced and not synced, appended");
}

/// Changes the file `f` as a program of the server's machine does.
fn change_f(directory: &std::path::Path) {
    use std::os::unix::fs::MetadataExt;
    let changed = || std::fs::metadata(directory.join("f")).unwrap();
    let before = (changed().ctime(), changed().ctime_nsec());
    // Until the file system's clock has gone on.
    while (changed().ctime(), changed().ctime_nsec()) == before {
        std::fs::write(directory.join("f"), b"somebody else's").unwrap();
    }
}

#[test]
fn a_write_that_begins_after_a_restart_does_not_care_what_somebody_else_changed() {
    let mut serving = at_a_socket();
    let remote = remote(&serving);
    let mut file = File::open(&remote, "data/f", &BOTH.create(true)).unwrap();
    file.write_all(b"synced").unwrap();
    file.sync_all().unwrap();
    serving.stop_and(change_f);
    file.write_at(b"S", 0).unwrap();
    file.sync_all().unwrap();
    assert_eq!(serving.directory.read("f"), b"Somebody else's");
}

#[test]
fn what_somebody_else_changed_during_a_restart_is_not_overwritten() {
    let mut serving = at_a_socket();
    let remote = remote(&serving);
    let mut file = File::open(&remote, "data/f", &BOTH.create(true)).unwrap();
    file.write_all(b"not synced").unwrap();
    file.flush().unwrap();
    serving.stop_and(change_f);
    assert_eq!(file.sync_all().unwrap_err().kind, ErrorKind::TargetChanged);
    assert_eq!(file.write_at(b"x", 0).unwrap_err().kind, ErrorKind::TargetChanged, "and stays so");
    assert_eq!(serving.directory.read("f"), b"somebody else's");
}

#[test]
fn a_file_that_was_replaced_or_removed_during_a_restart_is_stale() {
    let mut serving = at_a_socket();
    let remote = remote(&serving);
    for name in ["f", "g"] {
        serving.directory.write(name, b"content");
    }
    let options = OpenOptions::new().read(true);
    let mut replaced = File::open(&remote, "data/f", &options).unwrap();
    let removed = File::open(&remote, "data/g", &options).unwrap();
    let mut two = [0; 2];
    replaced.read_exact(&mut two).unwrap();
    serving.stop_and(|directory| {
        std::fs::write(directory.join("new"), b"another file").unwrap();
        std::fs::rename(directory.join("new"), directory.join("f")).unwrap();
        std::fs::remove_file(directory.join("g")).unwrap();
    });
    assert_eq!(replaced.read_at(&mut two, 0).unwrap_err().kind, ErrorKind::Stale);
    assert_eq!(removed.read_at(&mut two, 0).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn a_server_that_stays_away_is_an_error_when_patience_ends() {
    let mut serving = at_a_socket();
    serving.directory.write("f", b"content");
    let remote = Remote::with_patience(serving.options(1), std::time::Duration::from_millis(300));
    let file = File::open(&remote, "data/f", &OpenOptions::new().read(true)).unwrap();
    serving.stop();
    let began = std::time::Instant::now();
    assert_eq!(file.read_at(&mut [0; 2], 0).unwrap_err().kind, ErrorKind::ConnectionLost);
    assert!(began.elapsed() < std::time::Duration::from_secs(5));
    serving.restart_stopped();
}

#[test]
fn a_write_that_finds_the_server_restarted_does_not_overwrite_what_somebody_else_changed() {
    let mut serving = at_a_socket();
    let remote = remote(&serving);
    let mut file = File::open(&remote, "data/f", &BOTH.create(true)).unwrap();
    let beside = File::open(&remote, "data/g", &BOTH.create(true)).unwrap();
    file.write_all(b"not synced").unwrap();
    file.flush().unwrap();
    serving.stop_and(change_f);
    // Their session is known to be lost: the write below is sent in the next one only.
    beside.length().unwrap();
    assert_eq!(file.write_at(b"x", 0).unwrap_err().kind, ErrorKind::TargetChanged);
    assert_eq!(serving.directory.read("f"), b"somebody else's");
}

#[test]
fn a_file_that_was_written_again_is_not_taken_for_changed_by_somebody_else() {
    let mut serving = at_a_socket();
    let file = File::open(&remote(&serving), "data/f", &BOTH.create(true)).unwrap();
    file.write_at(b"not synced", 0).unwrap();
    for _ in 0..3 {
        serving.restart();
        assert_eq!(file.length().unwrap(), 10);
    }
    file.sync_all().unwrap();
}

#[test]
fn a_file_that_is_dropped_with_writes_on_their_way_has_them_all() {
    let serving = Serving::start();
    let (remote, part) = (remote(&serving), vec![7; 100_000]);
    for round in 0..30 {
        let name = format!("f{round}");
        let mut file = File::open(&remote, format!("data/{name}"), &BOTH.create(true)).unwrap();
        for _ in 0..20 {
            file.write_all(&part).unwrap();
        }
        drop(file);
        let written = serving.directory.read(&name);
        assert!(
            written.len() == 2_000_000 && written.iter().all(|byte| *byte == 7),
            "round {round}: {}",
            written.len()
        );
    }
}

#[test]
fn many_writes_to_a_server_that_stays_away_fail_together_when_patience_ends() {
    let mut serving = at_a_socket();
    let patience = std::time::Duration::from_millis(500);
    let remote = Remote::with_patience(serving.options(1), patience);
    let mut file = File::open(&remote, "data/f", &BOTH.create(true)).unwrap();
    serving.stop();
    let began = std::time::Instant::now();
    for _ in 0..20 {
        file.write_all(b"lost").unwrap();
    }
    assert_eq!(file.close().unwrap_err().kind, ErrorKind::ConnectionLost);
    assert!(began.elapsed() < 10 * patience, "{:?}", began.elapsed());
    serving.restart_stopped();
}

#[test]
fn a_file_that_its_own_client_renamed_is_found_again_after_a_restart() {
    let mut serving = at_a_socket();
    let remote = remote(&serving);
    let file = File::open(&remote, "data/f", &BOTH.create(true)).unwrap();
    file.write_at(b"not synced", 0).unwrap();
    remote.run(|session| session.rename("data", "f", "moved", false)).unwrap();
    file.moved("data/moved");
    // The rename changed its change time: that was nobody else.
    file.changed_by_name().unwrap();
    serving.restart();
    assert_eq!(file.length().unwrap(), 10);
    file.write_at(b"!", 10).unwrap();
    assert_same(&serving.directory.read("moved"), b"not synced!");
}

#[test]
fn a_file_that_its_own_client_renamed_is_found_again_though_the_server_had_closed_it() {
    let serving = Serving::start();
    let remote = remote(&serving);
    let open = |name: &str| File::open(&remote, format!("data/{name}"), &BOTH.create(true)).unwrap();
    // More files than one user has open at a time behind his handles.
    let others: Vec<File> = (0..300).map(|number| open(&format!("other{number}"))).collect();
    let rename = |file: &File, from: &str, to: &str| {
        remote.run(|session| session.rename("data", from, to, false)).unwrap();
        file.moved(format!("data/{to}"));
        others.iter().for_each(|other| assert_eq!(other.length(), Ok(0)));
    };
    let file = open("f");
    file.write_at(b"one ", 0).unwrap();
    rename(&file, "f", "g");
    file.write_at(b"two ", 4).unwrap();
    rename(&file, "g", "h");
    assert_eq!(file.append(b"three"), Ok(8));
    rename(&file, "h", "i");
    let mut read = [0; 13];
    assert_eq!(file.read_at(&mut read, 0), Ok(13));
    assert_eq!(&read, b"one two three");
    rename(&file, "i", "j");
    file.try_lock(true).unwrap();
    // Renamed by somebody else: nobody knows where to.
    let lost = open("lost");
    remote.run(|session| session.rename("data", "lost", "found", false)).unwrap();
    others.iter().for_each(|other| assert_eq!(other.length(), Ok(0)));
    assert_eq!(lost.length().unwrap_err().kind, ErrorKind::Stale);
}
