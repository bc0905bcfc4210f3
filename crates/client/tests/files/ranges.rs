//! Locks of ranges: among owners and clients, with programs of the server's machine, over losses, and
//! in line.

use super::support::serving::{Serving, Setup};
use super::support::{PATIENCE, within};
use super::{BOTH, remote};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use xdfs_client::file::{Extent, File, OpenOptions, RangeLock, range_to_the_end};
use xdfs_client::wire::Wanted;
use xdfs_client::{ErrorKind, Session};

fn lock(from: u64, to: u64, exclusive: bool) -> RangeLock {
    RangeLock { range: Extent::new(from, to - from).unwrap(), exclusive }
}

fn try_range(file: &File, owner: u64, lock: RangeLock) -> Result<(), ErrorKind> {
    file.try_lock_range(owner, lock).map_err(|error| error.kind)
}

/// Some of this process's threads, or other programs, may have the machine for one of the looks.
#[track_caller]
fn others_are_served(other: &Session) {
    let look = || {
        let asked = Instant::now();
        other.look("data/f", Wanted::SIZE).unwrap();
        asked.elapsed()
    };
    assert!((0..3).any(|_| look() < Duration::from_secs(1)), "others are served meanwhile");
}

fn serving_f() -> Serving {
    let serving = Serving::start();
    serving.directory.write("f", b"content");
    serving
}

fn open(serving: &Serving) -> File {
    File::open(&remote(serving), "data/f", &BOTH).unwrap()
}

/// Whether a program of the server's machine, with locks of open file descriptions (Python has them),
/// can lock these bytes exclusively.
fn local_can_lock(serving: &Serving, from: u64, length: u64) -> bool {
    const PROGRAM: &str = "import fcntl, struct, sys\n\
        file = open(sys.argv[1], 'r+b')\n\
        lock = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, int(sys.argv[2]), int(sys.argv[3]), 0)\n\
        try: fcntl.fcntl(file, 37, lock)\n\
        except BlockingIOError: sys.exit(11)\n";
    let path = serving.directory.path().join("f");
    let mut python = Command::new("python3");
    python.args(["-c", PROGRAM]).arg(path).args([from.to_string(), length.to_string()]);
    match python.status().unwrap().code() {
        Some(0) => true,
        Some(11) => false,
        code => panic!("python3 ended with {code:?}"),
    }
}

#[test]
fn ranges_exclude_other_owners_other_clients_and_programs_of_the_servers_machine() {
    let serving = serving_f();
    let (one, other) = (open(&serving), open(&serving));
    assert_eq!(try_range(&one, 1, lock(0, 100, false)), Ok(()));
    assert_eq!(try_range(&one, 2, lock(50, 150, false)), Ok(()), "shared with another owner");
    assert_eq!(try_range(&other, 1, lock(149, 160, true)), Err(ErrorKind::Locked));
    assert_eq!(try_range(&other, 1, lock(150, 160, true)), Ok(()), "behind them");
    assert_eq!(try_range(&one, 1, lock(0, 50, true)), Ok(()), "its own one becomes exclusive");
    assert_eq!(try_range(&one, 1, lock(0, 60, true)), Err(ErrorKind::Locked), "the other owner reads there");
    assert!(!local_can_lock(&serving, 149, 1), "a program reads it");
    assert!(!local_can_lock(&serving, 159, 0), "without an end");
    assert!(local_can_lock(&serving, 160, 0));
    let held = other.find_lock(7, lock(0, 10, false)).unwrap();
    assert_eq!(held, Some(lock(0, 50, true)), "the lock that is in the way");
    assert_eq!(one.find_lock(1, lock(0, 10, true)).unwrap(), None, "one's own is not");
    one.unlock_range(1, Extent::new(10, 10).unwrap()).unwrap();
    assert_eq!(try_range(&other, 1, lock(10, 20, true)), Ok(()), "from its middle");
    assert_eq!(try_range(&other, 1, lock(20, 21, false)), Err(ErrorKind::Locked));
    assert_eq!(one.try_lock(true).map_err(|error| error.kind), Ok(()), "the whole file is locked in another way");
    let all = RangeLock { range: range_to_the_end(0).unwrap(), exclusive: true };
    assert_eq!(try_range(&other, 1, all), Err(ErrorKind::Locked));
    one.close().unwrap();
    assert_eq!(try_range(&other, 1, all), Ok(()), "they end with the handle");
    assert!(!local_can_lock(&serving, 1 << 50, 1), "far behind the end of the file");
    other.unlock_range(1, all.range).unwrap();
    assert!(local_can_lock(&serving, 0, 0));
}

#[test]
fn a_range_is_locked_only_for_what_the_handle_is_open_for_and_none_is_empty() {
    let serving = serving_f();
    let reads = File::open(&remote(&serving), "data/f", &OpenOptions::new().read(true)).unwrap();
    let writes = File::open(&remote(&serving), "data/f", &OpenOptions::new().write(true)).unwrap();
    assert_eq!(try_range(&reads, 1, lock(0, 1, true)), Err(ErrorKind::Refused));
    assert_eq!(try_range(&writes, 1, lock(0, 1, false)), Err(ErrorKind::Refused));
    assert_eq!(try_range(&reads, 1, lock(0, 1, false)), Ok(()));
    assert_eq!(try_range(&writes, 1, lock(0, 1, true)), Err(ErrorKind::Locked));
    assert_eq!(try_range(&reads, 1, lock(5, 5, false)), Err(ErrorKind::TooLarge));
    let fixed = File::open(&remote(&serving), "fixed/f", &OpenOptions::new().read(true)).unwrap();
    assert_eq!(
        try_range(&fixed, 1, lock(0, 1, false)),
        Err(ErrorKind::ReadOnly),
        "who may not change it locks nobody out"
    );
}

#[test]
fn a_user_locks_a_bounded_number_of_ranges() {
    const MOST: u64 = 4096;
    let serving = serving_f();
    let (one, other) = (open(&serving), open(&serving));
    for number in 0..MOST {
        one.try_lock_range(1, lock(2 * number, 2 * number + 1, true)).unwrap();
    }
    assert_eq!(try_range(&one, 1, lock(3 * MOST, 3 * MOST + 1, true)), Err(ErrorKind::LimitExceeded));
    assert_eq!(try_range(&other, 1, lock(3 * MOST, 3 * MOST + 1, true)), Err(ErrorKind::LimitExceeded));
    assert_eq!(try_range(&one, 1, lock(1, 2, true)), Ok(()), "three become one");
    assert_eq!(try_range(&other, 1, lock(3 * MOST, 3 * MOST + 1, true)), Ok(()));
    one.unlock_range(1, Extent::new(0, 2 * MOST).unwrap()).unwrap();
    assert_eq!(try_range(&other, 2, lock(0, 2 * MOST, true)), Ok(()));
}

#[test]
fn ranges_are_locked_again_after_a_restart_of_the_server_or_the_file_fails() {
    let mut serving = Serving::with(Setup { unix: true, ..Setup::default() });
    serving.directory.write("f", b"content");
    let file = open(&serving);
    for number in 0..100 {
        file.try_lock_range(number % 3, lock(10 * number, 10 * number + 5, number % 2 == 0)).unwrap();
    }
    file.unlock_range(0, Extent::new(0, 5).unwrap()).unwrap();
    serving.restart();
    assert_eq!(file.length().unwrap(), 7);
    let other = open(&serving);
    assert_eq!(try_range(&other, 1, lock(0, 10, true)), Ok(()), "it was released before");
    assert_eq!(try_range(&other, 1, lock(990, 991, true)), Err(ErrorKind::Locked));
    assert_eq!(try_range(&other, 1, lock(10, 11, false)), Ok(()), "shared");
    assert_eq!(try_range(&other, 1, lock(20, 21, false)), Err(ErrorKind::Locked), "exclusive");
    // Somebody else is faster.
    drop(file);
    assert_eq!(try_range(&other, 1, lock(20, 21, true)), Ok(()));
    let mut local = None;
    serving.stop_and(|directory| {
        const HOLD: &str = "import fcntl, sys\nfile = open(sys.argv[1], 'r+b')\nfcntl.lockf(file, fcntl.LOCK_EX)\n\
                            print('held', flush=True)\nsys.stdin.read()\n";
        let mut python = Command::new("python3");
        python.args(["-c", HOLD]).arg(directory.join("f"));
        python.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = python.spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line).unwrap();
        assert_eq!(line, "held\n");
        local = Some(child);
    });
    assert_eq!(other.length().unwrap_err().kind, ErrorKind::TargetChanged);
    let mut local = local.unwrap();
    drop(local.stdin.take());
    assert!(local.wait().unwrap().success());
}

#[test]
fn who_waits_for_a_range_has_it_before_those_who_came_later() {
    let serving = serving_f();
    let (one, late) = (open(&serving), open(&serving));
    one.try_lock_range(1, lock(0, 10, true)).unwrap();
    let waits = open(&serving);
    let given_up = waits.lock_range(1, lock(0, 10, true), Duration::from_millis(50)).unwrap_err();
    assert_eq!(given_up.kind, ErrorKind::Locked);
    let waits = std::thread::spawn(move || waits.lock_range(1, lock(0, 10, true), PATIENCE).map(|()| waits));
    // Others share it with the first one, until somebody is in line who wants it alone.
    one.try_lock_range(1, lock(0, 10, false)).unwrap();
    let until = Instant::now() + PATIENCE;
    while try_range(&late, 1, lock(0, 10, false)) == Ok(()) {
        assert!(Instant::now() < until, "nobody is in line");
        late.unlock_range(1, Extent::new(0, 10).unwrap()).unwrap();
    }
    one.unlock_range(1, Extent::new(0, 10).unwrap()).unwrap();
    assert_eq!(try_range(&late, 1, lock(0, 10, true)), Err(ErrorKind::Locked), "it is not the turn of this one");
    let first = within(PATIENCE, "the lock", move || waits.join().unwrap().unwrap());
    first.close().unwrap();
    assert_eq!(try_range(&late, 1, lock(0, 10, true)), Ok(()));
}

#[test]
fn a_user_waits_for_a_bounded_number_of_locks_and_everybody_is_served_meanwhile() {
    const WAITERS: u64 = 1_040;
    let serving = serving_f();
    let holder = open(&serving);
    holder.try_lock_range(1, lock(0, WAITERS, true)).unwrap();
    let file = Arc::new(open(&serving));
    let (ended, refused) = sync_channel(WAITERS as usize);
    let waits: Vec<_> = (0..WAITERS)
        .map(|byte| {
            let (file, ended) = (Arc::clone(&file), ended.clone());
            let wait = move || {
                let outcome = file.lock_range(1, lock(byte, byte + 1, true), 4 * PATIENCE);
                ended.send(outcome.map_err(|error| error.kind)).unwrap();
            };
            std::thread::Builder::new().stack_size(256 << 10).spawn(wait).unwrap()
        })
        .collect();
    // Those that are too many are refused; the others wait.
    assert_eq!(refused.recv_timeout(PATIENCE).unwrap(), Err(ErrorKind::LimitExceeded));
    let other = serving.connect(1);
    others_are_served(&other);
    holder.unlock_range(1, Extent::new(0, WAITERS).unwrap()).unwrap();
    within(4 * PATIENCE, "the locks", move || waits.into_iter().for_each(|one| one.join().unwrap()));
    let outcomes: Vec<_> = refused.try_iter().collect();
    assert!(outcomes.iter().filter(|outcome| outcome.is_ok()).count() >= 1_000, "{}", outcomes.len());
}

/// A session may have 128 operations at a time; each of these would be one.
#[test]
fn two_hundred_locks_of_a_session_wait_and_keep_no_operation_and_no_thread() {
    let serving = serving_f();
    let holder = open(&serving);
    holder.try_lock_range(1, lock(0, 200, true)).unwrap();
    let file = Arc::new(open(&serving));
    let wait = |byte| {
        let file = Arc::clone(&file);
        std::thread::spawn(move || file.lock_range(1, lock(byte, byte + 1, true), 4 * PATIENCE))
    };
    let first = wait(0);
    serving.wait_for_status("no thread between two tries", |[sessions, _, threads]| (sessions, threads) == (2, 0));
    let waits: Vec<_> = [first].into_iter().chain((1..200).map(wait)).collect();
    let mut buffer = [0; 7];
    for _ in 0..300 {
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 7, "the session's other calls are answered");
    }
    let other = serving.connect(1);
    others_are_served(&other);
    other.close().unwrap();
    holder.unlock_range(1, Extent::new(0, 200).unwrap()).unwrap();
    let all = move || waits.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>();
    let results = within(4 * PATIENCE, "the locks", all);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}
