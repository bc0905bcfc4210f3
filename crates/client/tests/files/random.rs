//! Random operations on a remote file and on a buffer in memory: after each the two are the same, though
//! the server restarts again and again.

use super::support::PATIENCE;
use super::support::serving::{Serving, Setup};
use super::{BOTH, remote};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use xdfs_client::ErrorKind;
use xdfs_client::file::File;

/// Operations of a test, unless `XDFS_OPERATIONS` says otherwise, and after how many the server
/// restarts.
const OPERATIONS: u64 = 4000;
const RESTART_EVERY: u64 = 250;

/// How long a server lives that is ended in the middle of calls, unless `XDFS_SERVER_MS` says otherwise.
const LIFE_MS: u64 = 60;

/// A number that the environment sets.
fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().expect(name))
}

/// Longest file.
const LENGTH_MAX: u64 = 600_000;

/// Numbers that the seed decides.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

struct Pair {
    file: File,
    buffer: Vec<u8>,
    random: Random,
}

impl Pair {
    fn range(&mut self) -> (u64, usize) {
        let offset = self.random.below(LENGTH_MAX);
        // Mostly short, sometimes longer than one call.
        let most = if self.random.below(8) == 0 { LENGTH_MAX - offset } else { 5000.min(LENGTH_MAX - offset) };
        (offset, self.random.below(most + 1) as usize)
    }

    fn data(&mut self, length: usize) -> Vec<u8> {
        let byte = self.random.below(255) as u8 + 1;
        (0..length).map(|at| byte.wrapping_add(at as u8)).collect()
    }

    fn put(&mut self, offset: u64, data: &[u8]) {
        let end = offset as usize + data.len();
        if !data.is_empty() && self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        self.buffer[offset as usize..end].copy_from_slice(data);
    }

    fn expected(&self, offset: u64, length: usize) -> &[u8] {
        let from = (offset as usize).min(self.buffer.len());
        &self.buffer[from..(from + length).min(self.buffer.len())]
    }

    /// One operation; returns its name.
    fn step(&mut self) -> &'static str {
        let (offset, length) = self.range();
        match self.random.below(10) {
            0 | 1 => {
                let data = self.data(length);
                self.file.write_at(&data, offset).unwrap();
                if !data.is_empty() {
                    self.put(offset, &data);
                }
                "write_at"
            }
            2 | 3 => {
                let data = self.data(length);
                self.file.seek(SeekFrom::Start(offset)).unwrap();
                self.file.write_all(&data).unwrap();
                if !data.is_empty() {
                    self.put(offset, &data);
                }
                "write"
            }
            4 => {
                let data = self.data(length.clamp(1, 5000));
                if self.buffer.len() as u64 + data.len() as u64 <= LENGTH_MAX {
                    let end = self.buffer.len() as u64;
                    assert_eq!(self.file.append(&data).unwrap(), end);
                    self.put(end, &data);
                }
                "append"
            }
            5 => {
                self.file.set_len(offset).unwrap();
                self.buffer.resize(offset as usize, 0);
                "set_len"
            }
            6 => {
                self.file.punch(offset, length as u64 + 1).unwrap();
                let from = (offset as usize).min(self.buffer.len());
                let to = (offset as usize + length + 1).min(self.buffer.len());
                self.buffer[from..to].fill(0);
                "punch"
            }
            7 => {
                self.file.sync_data().unwrap();
                "sync"
            }
            8 => {
                self.file.seek(SeekFrom::Start(offset)).unwrap();
                let mut read = vec![0; length];
                let mut done = 0;
                while done < length {
                    match self.file.read(&mut read[done..]).unwrap() {
                        0 => break,
                        count => done += count,
                    }
                }
                assert!(read[..done] == *self.expected(offset, length), "{length} bytes at {offset}");
                "read"
            }
            _ => {
                let mut read = vec![0; length];
                let done = self.file.read_at(&mut read, offset).unwrap();
                assert!(read[..done] == *self.expected(offset, length), "{length} bytes at {offset}");
                "read_at"
            }
        }
    }
}

/// Waits until no call of a server that has ended works on the file: the threads of one in this process end with their last call
/// and not, as those of a process that is killed, before it.
fn ended_with_its_calls(directory: &Path) {
    let file = directory.join("f");
    let is_open = || {
        let mut open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.any(|descriptor| std::fs::read_link(descriptor.path()).is_ok_and(|path| path == file))
    };
    let until = Instant::now() + PATIENCE;
    while is_open() {
        assert!(Instant::now() < until, "a server that has ended has the file open");
        std::thread::yield_now();
    }
}

/// A server that ends in the middle of calls again and again, and is there again at once.
struct Restarts {
    over: SyncSender<()>,
    steps: Arc<AtomicU64>,
    thread: JoinHandle<(Serving, u32)>,
}

impl Restarts {
    fn of(mut serving: Serving) -> Self {
        let life = Duration::from_millis(setting("XDFS_SERVER_MS", LIFE_MS));
        let (over, is_over) = sync_channel::<()>(0);
        let steps = Arc::new(AtomicU64::new(0));
        let made = Arc::clone(&steps);
        let thread = std::thread::spawn(move || {
            let (mut count, mut before) = (0, 0);
            while is_over.recv_timeout(life) == Err(RecvTimeoutError::Timeout) {
                // On a machine that is slower than its servers' lives nothing would ever be done.
                let made = made.load(Ordering::Relaxed);
                if made > before {
                    serving.stop_and(ended_with_its_calls);
                    (count, before) = (count + 1, made);
                }
            }
            (serving, count)
        });
        Self { over, steps, thread }
    }

    /// Something was done.
    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// The server stays; how often it was another one.
    fn end(self) -> (Serving, u32) {
        drop(self.over);
        self.thread.join().unwrap()
    }
}

#[test]
fn a_file_is_what_a_buffer_is_after_random_operations_and_restarts() {
    let (seed, operations) = (setting("XDFS_SEED", 20), setting("XDFS_OPERATIONS", OPERATIONS));
    println!("XDFS_SEED={seed}");
    let mut serving = Serving::with(Setup { unix: true, ..Setup::default() });
    let file = File::open(&remote(&serving), "data/f", &BOTH.create(true)).unwrap();
    let mut pair = Pair { file, buffer: Vec::new(), random: Random(seed) };
    for number in 0..operations {
        if number % RESTART_EVERY == RESTART_EVERY - 1 {
            serving.restart();
        }
        let step = pair.step();
        if number % 100 == 0 {
            let length = pair.file.length().unwrap();
            assert_eq!(length, pair.buffer.len() as u64, "after {step}, operation {number} of XDFS_SEED={seed}");
        }
    }
    pair.file.sync_all().unwrap();
    pair.file.close().unwrap();
    assert!(serving.directory.read("f") == pair.buffer, "XDFS_SEED={seed}");
}

#[test]
fn a_file_is_what_a_buffer_is_though_its_server_ends_in_the_middle_of_calls() {
    let (seed, operations) = (setting("XDFS_SEED", 21), setting("XDFS_OPERATIONS", OPERATIONS));
    println!("XDFS_SEED={seed}");
    let serving = Serving::with(Setup { unix: true, ..Setup::default() });
    // What is found of a lost append is its own only where nobody else writes.
    let options = BOTH.create(true).deny(false, true);
    let file = File::open(&remote(&serving), "data/f", &options).unwrap();
    let restarts = Restarts::of(serving);
    let mut pair = Pair { file, buffer: Vec::new(), random: Random(seed) };
    for number in 0..operations {
        let step = pair.step();
        let length = pair.file.length().unwrap();
        assert_eq!(length, pair.buffer.len() as u64, "after {step}, operation {number} of XDFS_SEED={seed}");
        restarts.step();
    }
    let (serving, count) = restarts.end();
    pair.file.close().unwrap();
    assert!(serving.directory.read("f") == pair.buffer, "XDFS_SEED={seed}");
    assert!(count > 3, "{count} restarts");
}

/// A hole that reached behind the end is made again by the next server, and an append whose answer was lost may stand there.
#[test]
fn an_append_behind_a_hole_is_made_once_though_its_server_ends_in_the_middle_of_calls() {
    let serving = Serving::with(Setup { unix: true, ..Setup::default() });
    let options = BOTH.create(true).deny(false, true);
    let remote = remote(&serving);
    let file = File::open(&remote, "data/f", &options).unwrap();
    let restarts = Restarts::of(serving);
    let mut expected = Vec::new();
    for number in 0..setting("XDFS_OPERATIONS", OPERATIONS) / 4 {
        let end = expected.len() as u64;
        file.punch(end.saturating_sub(3), 10_000).unwrap();
        let from = expected.len().saturating_sub(3);
        expected[from..].fill(0);
        let line = [number as u8 | 1; 100];
        assert_eq!(file.append(&line).unwrap(), end);
        expected.extend_from_slice(&line);
        restarts.step();
    }
    file.punch(1 << 40, 10).unwrap();
    let (serving, count) = restarts.end();
    file.close().unwrap();
    assert_eq!(remote.unsynced_bytes(), 0);
    assert!(serving.directory.read("f") == expected);
    assert!(count > 3, "{count} restarts");
}

/// The same line every time: what the other one appended must not be taken for the own one.
#[test]
fn appends_of_two_clients_who_lock_are_made_once_though_their_server_ends_in_the_middle_of_calls() {
    let serving = Serving::with(Setup { unix: true, ..Setup::default() });
    let remotes = [remote(&serving), remote(&serving)];
    let open = |at: usize| File::open(&remotes[at], "data/f", &BOTH.create(true)).unwrap();
    let mut files = [open(0), open(1)];
    let restarts = Restarts::of(serving);
    let append = |file: &File| {
        file.lock(true, PATIENCE)?;
        let offset = file.append(b"tick\n")?;
        file.sync_all()?;
        file.unlock().map(|()| offset)
    };
    let turns = setting("XDFS_OPERATIONS", OPERATIONS) / 8;
    for number in 0..turns * 2 {
        let (at, expected) = ((number % 2) as usize, number * 5);
        loop {
            match append(&files[at]) {
                Ok(offset) => break assert_eq!(offset, expected),
                // A locked file fails that may have been changed while its server was lost: the program looks.
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::TargetChanged, "{error}");
                    files[at] = open(at);
                    if files[at].length().unwrap() > expected {
                        break;
                    }
                }
            }
        }
        restarts.step();
    }
    let (serving, count) = restarts.end();
    files.into_iter().for_each(|file| file.close().unwrap());
    assert!(serving.directory.read("f") == b"tick\n".repeat(turns as usize * 2));
    assert!(count > 3, "{count} restarts");
}

#[test]
fn appends_of_threads_are_made_once_though_their_server_ends_in_the_middle_of_calls() {
    const THREADS: u64 = 4;
    let each = setting("XDFS_OPERATIONS", OPERATIONS) / 10;
    let serving = Serving::with(Setup { unix: true, ..Setup::default() });
    let options = BOTH.create(true).deny(false, true);
    let file = File::open(&remote(&serving), "data/f", &options).unwrap();
    let restarts = Restarts::of(serving);
    let append_all = |thread: u64| {
        let append = |number: u64| {
            // The same bytes come again and again: an append that is lost is not told by them alone.
            let line = format!("{} of {thread}\n", number % 3).into_bytes();
            let offset = file.append(&line).unwrap();
            restarts.step();
            (offset, line)
        };
        (0..each).map(append).collect::<Vec<_>>()
    };
    let told: Vec<(u64, Vec<u8>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || append_all(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let (serving, count) = restarts.end();
    file.close().unwrap();
    let content = serving.directory.read("f");
    let mut expected = vec![0; content.len()];
    for (offset, line) in &told {
        let at = *offset as usize;
        assert!(expected[at..at + line.len()].iter().all(|byte| *byte == 0), "two were told the place {at}");
        expected[at..at + line.len()].copy_from_slice(line);
    }
    assert!(content == expected, "each is there, and nothing else");
    assert!(count > 0, "it did not restart");
}
