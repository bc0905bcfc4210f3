//! One open file, and many of them, used by several threads.

use crate::{BOTH, remote};
use std::sync::atomic::{AtomicBool, Ordering};
use xdfs_client::ErrorKind;
use xdfs_client::file::File;
use xdfs_client::wire::Wanted;

use crate::support::serving::Serving;

#[test]
fn a_write_that_fails_is_an_error_of_who_wrote_whatever_others_do_meanwhile() {
    let serving = Serving::start();
    serving.directory.write("f", b"content");
    let file = File::open(&remote(&serving), "data/f", &BOTH).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (file, over) = (&file, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    match reader {
                        0 => assert_eq!(file.read_at(&mut [0; 7], 0), Ok(7)),
                        1 => assert_eq!(file.look(Wanted::SIZE).map(|facts| facts.size), Ok(Some(7))),
                        _ => assert_eq!(file.sync_data(), Ok(())),
                    }
                }
            });
        }
        for round in 0..300 {
            // No file system has so long a file.
            let kind = file.write_at(b"x", (1 << 62) - 1).map_err(|error| error.kind);
            assert!(matches!(kind, Err(ErrorKind::TooLarge | ErrorKind::Storage)), "{round}: {kind:?}");
            assert_eq!(file.write_at(b"c", 0), Ok(()));
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(serving.directory.read("f"), b"content");
}

#[test]
fn what_many_files_keep_of_what_is_not_synced_has_a_bound_together() {
    const FILES: usize = 20;
    const BYTES: usize = 16 << 20;
    const SUM_MAX: usize = 256 << 20;
    let serving = Serving::start();
    let remote = remote(&serving);
    let data = vec![7; BYTES];
    let files: Vec<File> = (0..FILES)
        .map(|number| {
            let file = File::open(&remote, format!("data/f{number}"), &BOTH.create(true)).unwrap();
            file.write_at(&data, 0).unwrap();
            assert!(remote.unsynced_bytes() <= SUM_MAX, "{} after {number} files", remote.unsynced_bytes());
            file
        })
        .collect();
    assert!(remote.unsynced_bytes() > SUM_MAX / 2);
    for file in files {
        file.close().unwrap();
    }
    assert_eq!(remote.unsynced_bytes(), 0);
}

#[test]
fn a_program_says_how_much_of_its_files_is_kept() {
    const FILES: usize = 8;
    const BYTES: usize = 8 << 20;
    const MEMORY: usize = 4 << 20;
    const WRITE: usize = 1 << 20;
    let serving = Serving::start();
    let remote = remote(&serving);
    remote.bound_memory(MEMORY);
    let data = vec![7; BYTES];
    let mut most = (0, 0);
    let files: Vec<File> =
        (0..FILES).map(|number| File::open(&remote, format!("data/f{number}"), &BOTH.create(true)).unwrap()).collect();
    // All of them in turn, as programs do that run at a time.
    for at in (0..BYTES).step_by(WRITE) {
        for file in &files {
            file.write_behind_at(&data[at..at + WRITE], at as u64).unwrap();
            most.0 = most.0.max(remote.unsynced_bytes());
        }
    }
    for file in &files {
        file.sync_data().unwrap();
    }
    assert_eq!(remote.unsynced_bytes(), 0);
    let mut part = vec![0; 64 << 10];
    for at in (0..BYTES).step_by(part.len()) {
        for file in &files {
            assert_eq!(file.read_ahead_at(&mut part, at as u64), Ok(part.len()));
            most.1 = most.1.max(remote.ahead_bytes());
            assert!(part.iter().all(|byte| *byte == 7));
        }
    }
    assert!(most.0 <= MEMORY && most.1 <= MEMORY, "{most:?}");
    assert!(most.0 > MEMORY / 2 && most.1 > MEMORY / 2, "both use what there is: {most:?}");
    drop(files);
    assert_eq!(remote.ahead_bytes(), 0);
}

/// Clients that append to one file, and what each appends: a byte that says who and which one, again and again, and lines.
const CLIENTS: u8 = 8;
const BYTES_EACH: usize = 400;
const LINES_EACH: usize = 50;

/// Appends to the file as client number `client`; every answer says where it is.
fn append_all(file: &File, client: u8) -> Vec<(u64, Vec<u8>)> {
    let bytes = (0..BYTES_EACH).map(|number| vec![client << 5 | (number % 32) as u8]);
    let lines = (0..LINES_EACH).map(|number| vec![client << 5 | (number % 32) as u8; 100 + number]);
    bytes.chain(lines).map(|data| (file.append(&data).unwrap(), data)).collect()
}

#[test]
fn appends_of_eight_clients_are_all_there_whole_and_in_the_order_of_each() {
    let serving = Serving::start();
    serving.directory.write("f", b"");
    let files: Vec<File> = (0..CLIENTS).map(|_| File::open(&remote(&serving), "data/f", &BOTH).unwrap()).collect();
    let told: Vec<Vec<(u64, Vec<u8>)>> = std::thread::scope(|scope| {
        let append = |(client, file)| scope.spawn(move || append_all(file, client));
        let clients: Vec<_> = (0..).zip(&files).map(append).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let content = serving.directory.read("f");
    let mut covered = vec![0_u8; content.len()];
    for (client, appended) in told.iter().enumerate() {
        assert!(appended.is_sorted_by(|one, next| one.0 < next.0), "client {client} finds them in its order");
        for (offset, data) in appended {
            let range = *offset as usize..*offset as usize + data.len();
            assert!(content[range.clone()] == data[..], "client {client} at {offset}");
            covered[range].iter_mut().for_each(|count| *count += 1);
        }
    }
    assert!(covered.iter().all(|count| *count == 1), "each byte is one client's");
}
