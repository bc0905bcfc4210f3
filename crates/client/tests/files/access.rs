//! What each call does to the file, and how files are opened.

use super::support::serving::{Serving, Setup};
use super::support::{PATIENCE, Scratch, assert_same, pattern};
use super::{BOTH, refused, remote};
use std::io::{IoSlice, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;
use xdfs_client::ErrorKind;
use xdfs_client::file::{File, FileAccess, FileMode, FileShare, OpenOptions};
use xdfs_client::wire::Wanted;
use xdfs_io::store::LocalStore;
use xdfs_server::{Access, Anonymous, Export, LogEvent, Preserve};

#[test]
fn every_call_does_to_the_file_what_it_says() {
    let serving = Serving::start();
    let remote = remote(&serving);
    let on_disk = |name: &str| serving.directory.read(name);
    let file = File::open(&remote, "data/f", &BOTH.create_options()).unwrap();
    let mode = std::fs::metadata(serving.directory.file("f")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640 & !umask());
    file.write_at(b"0123456789", 5).unwrap();
    assert_eq!(on_disk("f"), b"\0\0\0\0\x000123456789");
    assert_eq!(file.append(b"end").unwrap(), 15);
    let ranges = file.read_ranges(&[(5, 3), (0, 0), (14, 100), (1000, 5)]).unwrap();
    assert_eq!(ranges, [&b"012"[..], b"", b"9end", b""]);
    file.set_len(7).unwrap();
    assert_eq!((file.length().unwrap(), on_disk("f").len()), (7, 7));
    file.allocate(0, 1 << 20, true).unwrap();
    assert_eq!(file.length().unwrap(), 7, "the length stays");
    file.allocate(0, 1 << 20, false).unwrap();
    assert_eq!(on_disk("f").len(), 1 << 20);
    file.set_len(3 << 20).unwrap();
    file.write_at(&[7; 4096], 2 << 20).unwrap();
    file.punch(0, 1 << 20).unwrap();
    assert!(on_disk("f")[..1 << 20].iter().all(|byte| *byte == 0));
    assert_eq!(file.seek_data(1 << 20, false).unwrap(), Some(2 << 20));
    assert_eq!(file.seek_data(2 << 20, true).unwrap(), Some((2 << 20) + 4096));
    assert_eq!(file.seek_data((2 << 20) + 4096, false).unwrap(), None, "nothing but a hole up to the end");
    let told = file.look(Wanted::SIZE.and(Wanted::INODE)).unwrap();
    let inode = std::fs::metadata(serving.directory.file("f")).unwrap().ino();
    assert_eq!((told.size, &told.inode.unwrap()[8..]), (Some(3 << 20), &inode.to_be_bytes()[..]));
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    file.close().unwrap();
    remote.close().unwrap();
}

trait Creating {
    fn create_options(self) -> OpenOptions;
}

impl Creating for OpenOptions {
    fn create_options(self) -> OpenOptions {
        self.create(true).mode(0o640)
    }
}

/// The umask of this process, which is that of the server.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
    u32::from_str_radix(line.trim(), 8).unwrap()
}

#[test]
fn a_stream_reads_ahead_and_writes_behind_and_is_whole() {
    let serving = Serving::start();
    let remote = remote(&serving);
    let bytes = pattern(5_000_001, 3);
    let mut file = File::open(&remote, "data/f", &BOTH.create(true)).unwrap();
    for part in bytes.chunks(100_000) {
        file.write_all(part).unwrap();
    }
    file.flush().unwrap();
    assert_same(&serving.directory.read("f"), &bytes);
    assert_eq!(file.seek(SeekFrom::End(-1)).unwrap(), 5_000_000);
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut back = Vec::new();
    file.read_to_end(&mut back).unwrap();
    assert_same(&back, &bytes);
    assert_eq!(file.read(&mut [0; 10]).unwrap(), 0);
    // What is written behind the reader's back, and by the reader itself, is seen.
    file.write_all(b"more").unwrap();
    file.seek(SeekFrom::Current(-4)).unwrap();
    let mut more = String::new();
    file.read_to_string(&mut more).unwrap();
    assert_eq!(more, "more");
    file.seek(SeekFrom::Start(1_000_000)).unwrap();
    file.write_all(b"in the middle").unwrap();
    let mut middle = [0; 15];
    assert_eq!(file.read_at(&mut middle, 999_999).unwrap(), 15);
    assert_eq!(&middle[1..14], b"in the middle");
    assert!(file.seek(SeekFrom::Current(-5_000_000)).is_err(), "before the file");
    file.close().unwrap();
}

#[test]
fn writes_to_one_place_happen_in_their_order() {
    let serving = Serving::start();
    let mut file = File::open(&remote(&serving), "data/f", &BOTH.create(true)).unwrap();
    for round in 0..200_u8 {
        file.seek(SeekFrom::Start(u64::from(round % 3))).unwrap();
        file.write_all(&[round; 8]).unwrap();
    }
    file.close().unwrap();
    let mut expected = [0; 10];
    for round in 0..200_u8 {
        expected[usize::from(round % 3)..][..8].fill(round);
    }
    assert_eq!(serving.directory.read("f"), expected);
}

#[test]
fn many_ranges_are_written_in_their_order_whatever_their_length() {
    let serving = Serving::start();
    let mut file = File::open(&remote(&serving), "data/f", &BOTH.create(true)).unwrap();
    let long = vec![7; 600_000];
    let numbers: Vec<[u8; 2]> = (0..500_u16).map(u16::to_be_bytes).collect();
    let mut ranges: Vec<(u64, &[u8])> = vec![(1_000, &long)];
    ranges.extend(numbers.iter().enumerate().map(|(at, number)| (at as u64 * 4, &number[..])));
    ranges.extend([(2, &b"early"[..]), (4, b"late"), (9, b"")]);
    file.write_ranges(&ranges).unwrap();
    let mut expected = vec![0; 601_000];
    for (offset, data) in &ranges {
        expected[*offset as usize..][..data.len()].copy_from_slice(data);
    }
    assert!(serving.directory.read("f") == expected);
    assert!(file.write_ranges(&[(0, b"never"), (u64::MAX, b"x")]).is_err());
    assert!(serving.directory.read("f") == expected, "nothing of it is written");
    file.seek(SeekFrom::Start(0)).unwrap();
    let parts = [IoSlice::new(b"one"), IoSlice::new(b""), IoSlice::new(b"two")];
    assert_eq!(file.write_vectored(&parts).unwrap(), 6);
    file.close().unwrap();
    assert_eq!(serving.directory.read("f")[..6], *b"onetwo");
}

#[test]
fn a_new_file_has_the_bits_of_its_mode_that_the_export_keeps() {
    let directory = Scratch::new();
    let keep = Preserve { modes: true, ..Preserve::default() };
    let access = Access { writable: true, anonymous: Anonymous::Write, keep, ..Access::default() };
    let kept = Export::new("kept", Arc::new(LocalStore::open_root(directory.path(), true).unwrap()), access);
    let serving = Serving::with(Setup { more: vec![kept], ..Setup::default() });
    let remote = remote(&serving);
    for (path, here, expected) in
        [("kept/f", directory.file("f"), 0o7750), ("data/f", serving.directory.file("f"), 0o750)]
    {
        File::open(&remote, path, &BOTH.create(true).mode(0o7750)).unwrap().close().unwrap();
        assert_eq!(std::fs::metadata(here).unwrap().permissions().mode() & 0o7777, expected, "{path}");
    }
}

#[test]
fn a_mode_does_with_an_existing_and_with_a_missing_file_what_the_table_says() {
    let serving = Serving::start();
    let remote = remote(&serving);
    let rows = [
        (FileMode::CreateNew, Err(ErrorKind::AlreadyExists), Ok("")),
        (FileMode::Create, Ok(""), Ok("")),
        (FileMode::Open, Ok("old"), Err(ErrorKind::NotFound)),
        (FileMode::OpenOrCreate, Ok("old"), Ok("")),
        (FileMode::Truncate, Ok(""), Err(ErrorKind::NotFound)),
        (FileMode::Append, Ok("old"), Ok("")),
    ];
    for (mode, existing, missing) in rows {
        for (name, before, expected) in [("there", Some("old"), existing), ("absent", None, missing)] {
            let _ = std::fs::remove_file(serving.directory.file(name));
            if let Some(before) = before {
                serving.directory.write(name, before.as_bytes());
            }
            let options = OpenOptions::stream(mode, FileAccess::ReadWrite, FileShare::ReadWrite);
            let opened = File::open(&remote, format!("data/{name}"), &options).map_err(|error| error.kind);
            let kinds = (opened.as_ref().map(drop).map_err(|kind| *kind), expected.map(drop));
            assert_eq!(kinds.0, kinds.1, "{mode:?} of a file that is {name}");
            let (Ok(mut file), Ok(content)) = (opened, expected) else { continue };
            assert_eq!(serving.directory.read(name), content.as_bytes(), "{mode:?}");
            file.write_all(b"NEW!").unwrap();
            file.close().unwrap();
            let written = if mode == FileMode::Append { format!("{content}NEW!") } else { "NEW!".into() };
            assert_eq!(serving.directory.read(name), written.as_bytes(), "{mode:?}");
        }
    }
    for mode in [FileMode::CreateNew, FileMode::Create, FileMode::OpenOrCreate, FileMode::Truncate] {
        let reads = OpenOptions::stream(mode, FileAccess::Read, FileShare::ReadWrite);
        assert_eq!(refused(&remote, "data/there", &reads), ErrorKind::Protocol, "{mode:?} and read alone");
        let _ = std::fs::remove_file(serving.directory.file("written"));
        if mode == FileMode::Truncate {
            serving.directory.write("written", b"old");
        }
        let writes = OpenOptions::stream(mode, FileAccess::Write, FileShare::ReadWrite);
        let file = File::open(&remote, "data/written", &writes).unwrap();
        file.write_at(b"new", 0).unwrap();
        assert!(file.read_at(&mut [0; 3], 0).is_err(), "{mode:?} and write alone");
        file.close().unwrap();
        assert_eq!(serving.directory.read("written"), b"new");
    }
}

#[test]
fn a_share_mode_excludes_others_until_its_handle_is_closed() {
    let serving = Serving::start();
    serving.directory.write("f", b"content");
    let (one, other) = (remote(&serving), remote(&serving));
    let open = |access, share| OpenOptions::stream(FileMode::Open, access, share);
    let reads = open(FileAccess::Read, FileShare::ReadWrite);
    let writes = open(FileAccess::Write, FileShare::ReadWrite);
    for (share, read, write) in [
        (FileShare::None, false, false),
        (FileShare::Read, true, false),
        (FileShare::Write, false, true),
        (FileShare::ReadWrite, true, true),
    ] {
        let file = File::open(&one, "data/f", &open(FileAccess::Read, share)).unwrap();
        for (options, allowed) in [(reads, read), (writes, write)] {
            match File::open(&other, "data/f", &options) {
                Ok(_) => assert!(allowed, "{share:?} {options:?}"),
                Err(error) => assert_eq!((allowed, error.kind), (false, ErrorKind::Locked), "{share:?} {options:?}"),
            }
        }
        file.close().unwrap();
        File::open(&other, "data/f", &writes).unwrap().close().unwrap();
    }
}

#[test]
fn appends_of_eight_clients_are_whole_and_each_keeps_its_order() {
    const EACH: usize = 200;
    let serving = Serving::start();
    serving.directory.write("log", b"");
    std::thread::scope(|scope| {
        for client in 0..8 {
            let remote = remote(&serving);
            scope.spawn(move || {
                let file = File::open(&remote, "data/log", &OpenOptions::new().append(true)).unwrap();
                for number in 0..EACH {
                    file.append(format!("{client} {number}\n").as_bytes()).unwrap();
                }
                file.close().unwrap();
            });
        }
    });
    let log = String::from_utf8(serving.directory.read("log")).unwrap();
    let mut next = [0; 8];
    for line in log.lines() {
        let (client, number) = line.split_once(' ').expect("a whole line");
        let client: usize = client.parse().unwrap();
        assert_eq!(number.parse(), Ok(next[client]), "of client {client}");
        next[client] += 1;
    }
    assert_eq!(next, [EACH; 8]);
}

#[test]
fn the_log_names_who_opened_what_changed_it_and_how_much_was_written() {
    let serving = Serving::start();
    let mut file = File::open(&remote(&serving), "data/f", &BOTH.create(true)).unwrap();
    for _ in 0..10 {
        file.write_all(b"0123456789").unwrap();
    }
    file.close().unwrap();
    let told = |serving: &Serving| -> Vec<(String, &'static str, Option<u64>)> {
        let lines = serving.events().into_iter().filter_map(|event| match event {
            LogEvent::Calls { base, calls, .. } => Some((base.to_string(), calls)),
            _ => None,
        });
        lines
            .flat_map(|(base, calls)| calls.into_iter().map(move |call| (base.clone(), call.call, call.bytes)))
            .collect()
    };
    serving.heard("the close", |event| match event {
        LogEvent::Calls { calls, .. } => calls.iter().any(|call| call.call == "close").then_some(()),
        _ => None,
    });
    let expected = [("open", None), ("write", None), ("close", Some(100))];
    assert_eq!(told(&serving), expected.map(|(call, bytes)| ("data/f".to_owned(), call, bytes)));
}

#[test]
fn what_was_read_ahead_is_read_again_after_an_own_change_and_after_a_lock() {
    let serving = Serving::start();
    let (remote, content) = (remote(&serving), vec![b'.'; 2_000_000]);
    let changes: [fn(&File); 6] = [
        |file| file.write_at(b"X", 500_000).unwrap(),
        |file| file.set_len(500_000).unwrap(),
        |file| file.punch(500_000, 100_000).unwrap(),
        |file| assert_eq!(file.append(b"X").unwrap(), 2_000_000),
        |file| file.allocate(2_000_000, 100, false).unwrap(),
        |file| file.lock(true, PATIENCE).unwrap(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let path = serving.directory.write("f", &content);
        let mut file = File::open(&remote, "data/f", &BOTH).unwrap();
        let mut read = vec![0; 1000];
        file.read_exact(&mut read).unwrap();
        if number == 5 {
            // Somebody else, before the lock is had.
            std::fs::write(&path, vec![b'!'; 2_000_000]).unwrap();
        }
        change(&file);
        file.read_to_end(&mut read).unwrap();
        assert!(read[1000..] == serving.directory.read("f")[1000..], "change {number}");
    }
}

#[test]
fn a_file_that_cannot_be_opened_for_a_moment_is_opened_then() {
    let serving = Serving::start();
    let program = serving.directory.file("program");
    // By another program: what another test starts has the descriptors of this process for a moment, and nobody
    // executes a file that is open for writing.
    let copied = std::process::Command::new("cp").arg("/bin/cat").arg(&program).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let mut running = std::process::Command::new(&program).stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::scope(|scope| {
        // A program that runs is not opened to write: "text file busy".
        let options = OpenOptions::new().write(true).truncate(true);
        let remote = remote(&serving);
        let opened = scope.spawn(move || File::open(&remote, "data/program", &options));
        serving.heard("an open that failed", |event| match event {
            LogEvent::Calls { calls, .. } => calls.iter().find(|call| call.error.is_some()).map(|_| ()),
            _ => None,
        });
        drop(running.stdin.take());
        running.wait().unwrap();
        opened.join().unwrap().unwrap().close().unwrap();
    });
    assert_eq!(serving.directory.read("program"), b"");
}

#[test]
fn what_was_taken_for_written_and_is_lost_is_told_by_each_sync_until_the_file_is_closed() {
    let serving = Serving::start();
    let remote = remote(&serving);
    let mut file = File::open(&remote, "data/f", &BOTH.create(true)).unwrap();
    // Behind the end of every file.
    file.seek(SeekFrom::Start((1 << 62) - 1)).unwrap();
    file.write_all(b"x").unwrap();
    assert!(file.write_at(b"told", 0).is_err(), "the first call that can tells it");
    file.write_at(b"kept", 0).unwrap();
    assert!(file.sync_all().is_err() && file.sync_data().is_err() && file.lost().is_some());
    file.close().unwrap_err();
    assert_eq!(serving.directory.read("f"), b"kept");
    let file = File::open(&remote, "data/f", &BOTH).unwrap();
    file.sync_all().unwrap();
    // An error that its own caller was told leaves nothing in doubt.
    assert!(file.write_at(b"x", (1 << 62) - 1).is_err());
    file.sync_all().unwrap();
    file.close().unwrap();
}

#[test]
fn a_file_whose_last_write_failed_is_closed_all_the_same() {
    let serving = Serving::start();
    let remote = remote(&serving);
    let mut file = File::open(&remote, "data/f", &BOTH.create(true).deny(true, true)).unwrap();
    // Behind the end of every file.
    file.seek(SeekFrom::Start((1 << 62) - 1)).unwrap();
    file.write_all(b"x").unwrap();
    file.close().unwrap_err();
    File::open(&remote, "data/f", &BOTH).unwrap();
}
