//! What the integration tests share: a server in this process that tells what it logs, a directory that goes away, bytes
//! that can be told apart, and a relay that can cut, hold and count connections. Nothing here sleeps: every wait is for
//! an event, with a deadline that only a failure meets.
#![allow(dead_code, reason = "each test program uses its part")]
#![allow(clippy::disallowed_methods, reason = "tests set their scenes with the standard library")]

pub mod middle;
pub mod people;
pub mod relay;
pub mod serving;

use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use xdfs_client::{Payload, Report, Target, Transfer};
use xdfs_io::store::stream::{StreamSource, StreamStage};
use xdfs_io::store::{Source, Stage};

/// No event that is waited for takes this long, unless it never comes.
pub const PATIENCE: Duration = Duration::from_secs(40);
/// The block size that tests ask for: the smallest, so that few bytes make many blocks.
pub const BLOCK: usize = 64 * 1024;

/// A directory that is removed with everything in it.
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new() -> Self {
        Self(tempfile::Builder::new().prefix("xdfs-test-").tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file, and makes what is missing above it.
    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.file(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.file(name)).unwrap()
    }

    /// Names in the directory, hidden ones included, sorted.
    pub fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.path()).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Waits until nothing but these names is there: a part file goes when its stage is dropped, on another thread.
    pub fn wait_for_names(&self, expected: &[&str]) {
        let until = Instant::now() + PATIENCE;
        while self.names() != expected {
            assert!(Instant::now() < until, "{:?} stayed, expected {expected:?}", self.names());
            std::thread::yield_now();
        }
    }
}

/// Bytes of which no two blocks are alike.
pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Fails with the place where two long arrays differ, not with both of them.
#[track_caller]
pub fn assert_same(got: &[u8], expected: &[u8]) {
    let differs = got.iter().zip(expected).position(|(one, other)| one != other);
    assert_eq!((got.len(), differs), (expected.len(), None), "length, and first difference");
}

/// Waits for the outcome of a transfer, but not for ever.
#[track_caller]
pub fn finish(transfer: &Transfer) -> Result<Report, xdfs_client::Error> {
    transfer.wait_for(PATIENCE).expect("the transfer has an outcome")
}

pub fn upload_of(path: &Path) -> Payload {
    Payload::file(path.as_os_str().as_encoded_bytes()).unwrap()
}

pub fn download_to(path: &Path) -> Target {
    Target::file(path.as_os_str().as_encoded_bytes(), xdfs_client::Existing::Replace).unwrap()
}

/// A pipe as a source, and where its bytes are written.
pub fn pipe_payload(length: Option<u64>) -> (Payload, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let source = Source::new(StreamSource::new(reader.into(), "a pipe"));
    (Payload::source(source, 0, length).unwrap(), writer)
}

/// A pipe as a target, and where its bytes are read.
pub fn pipe_target() -> (Target, std::io::PipeReader) {
    let (reader, writer) = std::io::pipe().unwrap();
    (Target::stage(move |_, _| Ok(Stage::new(StreamStage::new(writer.into(), "a pipe")))), reader)
}

/// A value that threads wait for.
#[derive(Default)]
pub struct Watched<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Watched<T> {
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Condvar::new() }
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn change<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        let result = act(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `found` says something; none when it did not in time.
    pub fn wait_for<R>(&self, time: Duration, mut found: impl FnMut(&mut T) -> Option<R>) -> Option<R> {
        let until = Instant::now() + time;
        let mut value = self.lock();
        loop {
            if let Some(result) = found(&mut value) {
                return Some(result);
            }
            let left = until.checked_duration_since(Instant::now())?;
            value = self.changed.wait_timeout(value, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Runs `act` on a thread of its own, and fails when it does not come to its end.
#[track_caller]
pub fn within<T: Send + 'static>(time: Duration, what: &str, act: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::spawn(move || drop(done.send(act())));
    match result.recv_timeout(time) {
        Ok(value) => {
            thread.join().unwrap();
            value
        }
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("{what} took longer than {time:?}"),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it sends before it ends"),
        },
    }
}
