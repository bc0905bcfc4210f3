//! What a program does with a remote file: copies it in its order, and reads it at random with many reads on their way.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use xdfs_client::file::{AsyncFile, AsyncRemote, File as RemoteFile, OpenOptions, Remote};
use xdfs_client::{Address, ConnectOptions};

use super::Login;
use super::relay::{Relay, round_trip};
use crate::error::{Context as _, Error, Result};

/// What a reader at random asks for.
const PART: usize = 4096;

/// Which way a file is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// To this machine.
    Down,
    /// To the server.
    Up,
}

/// Copies `remote` to `local`, or the other way, in their order; the file at the server is closed at the end, which says that
/// every write arrived.
pub fn copy(login: &Login, channels: u16, way: Way, remote: &str, local: &Path) -> Result<()> {
    let server = Remote::new(login.options(channels)?);
    let here = || local.display().to_string();
    let there = || remote.to_owned();
    match way {
        Way::Down => {
            let mut source = RemoteFile::open(&server, remote, &OpenOptions::new().read(true))?;
            let mut target = File::create(local).context(here)?;
            let part = source.append_max();
            pass(&mut source, &mut target, part).context(there)?;
            source.close()?;
        }
        Way::Up => {
            let mut source = File::open(local).context(here)?;
            let options = OpenOptions::new().write(true).create(true).truncate(true);
            let mut target = RemoteFile::open(&server, remote, &options)?;
            let part = target.append_max();
            pass(&mut source, &mut target, part).context(there)?;
            target.close()?;
        }
    }
    Ok(())
}

fn wrong(detail: &str) -> Error {
    Error::Wrong { system: "holder".to_owned(), detail: detail.to_owned() }
}

/// Copies with a buffer of what one call carries.
fn pass(source: &mut impl Read, target: &mut impl Write, part: usize) -> std::io::Result<()> {
    let mut buffer = vec![0; part];
    loop {
        let count = source.read(&mut buffer)?;
        if count == 0 {
            return target.flush();
        }
        target.write_all(&buffer[..count])?;
    }
}

/// How fast they were read.
#[derive(Debug, Clone, Copy)]
pub struct RandomRate {
    /// Reads a second.
    pub per_second: f64,
    /// What a message and its echo take through the same relay, with bare sockets.
    pub round_trip: Duration,
}

/// Who reads at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Readers {
    /// Tasks of one thread: reads that wait together are one call.
    Tasks,
    /// A thread for each read that is on its way.
    Threads,
}

/// Reads 4 KiB at places that change, with so many reads on their way, through a relay that holds every byte back for `delay` in
/// each direction. Each part is compared with the same place of `local`.
pub fn random_reads(
    login: &Login,
    remote: &str,
    local: &Path,
    (readers, in_flight): (Readers, usize),
    reads: usize,
    delay: Duration,
) -> Result<RandomRate> {
    let round_trip = round_trip(delay)?;
    let relay = Relay::listen(login.connect, delay)?;
    relay.carry_next()?;
    // The server is known by its own name, not by the relay's.
    let options = ConnectOptions { address: Address::Tcp(relay.address()?), ..login.options(1)? };
    let server = Remote::new(options);
    let file = RemoteFile::open(&server, remote, &OpenOptions::new().read(true))?;
    let expected = File::open(local).context(|| local.display().to_string())?;
    let parts = file.length()? / PART as u64;
    if parts == 0 {
        return Err(wrong("the file is shorter than one part"));
    }
    // The first read finds out what the connection is; the others are timed.
    file.read_at(&mut [0; PART], 0)?;
    let each = reads / in_flight;
    let places = || (0..in_flight as u64).map(|number| Places::new(number, parts).take(each));
    let started = match readers {
        Readers::Tasks => {
            let own = AsyncRemote::new(Arc::clone(&server));
            let file = wait_for_all(vec![own.open(remote, &OpenOptions::new().read(true))])?.remove(0);
            let started = Instant::now();
            wait_for_all(places().map(|places| Box::pin(one_task(&file, &expected, places))).collect())?;
            started
        }
        Readers::Threads => {
            let started = Instant::now();
            thread::scope(|scope| {
                let readers = places().map(|places| scope.spawn(|| one_thread(&file, &expected, places)));
                let readers: Vec<_> = readers.collect();
                readers.into_iter().try_for_each(|reader| reader.join().map_err(|_| wrong("a reader ended early"))?)
            })?;
            started
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    file.close()?;
    Ok(RandomRate { per_second: (each * in_flight) as f64 / seconds, round_trip })
}

/// Offsets in a file of so many parts, for ever.
struct Places {
    state: u64,
    parts: u64,
}

impl Places {
    fn new(number: u64, parts: u64) -> Self {
        Self { state: number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, parts }
    }
}

impl Iterator for Places {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some((self.state >> 33) % self.parts * PART as u64)
    }
}

fn compare(got: &[u8], expected: &File, offset: u64) -> Result<()> {
    let mut wanted = [0; PART];
    expected.read_exact_at(&mut wanted, offset).context(|| "the file".to_owned())?;
    if got == wanted { Ok(()) } else { Err(wrong("other bytes were read than there are")) }
}

fn one_thread(file: &RemoteFile, expected: &File, places: impl Iterator<Item = u64>) -> Result<()> {
    let mut got = [0; PART];
    for offset in places {
        file.read_at(&mut got, offset)?;
        compare(&got, expected, offset)?;
    }
    Ok(())
}

async fn one_task(file: &AsyncFile, expected: &File, places: impl Iterator<Item = u64>) -> Result<()> {
    for offset in places {
        compare(&file.read_at(offset, PART).await?, expected, offset)?;
    }
    Ok(())
}

/// Wakes the thread that polls.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs tasks in this thread until all have ended, or one failed.
fn wait_for_all<T, E, F>(tasks: Vec<F>) -> Result<Vec<T>>
where
    F: Future<Output = std::result::Result<T, E>> + Unpin,
    Error: From<E>,
{
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut outcomes = Vec::new();
    let mut pending = tasks;
    while !pending.is_empty() {
        let mut waiting = Vec::new();
        for mut task in pending {
            match Pin::new(&mut task).poll(&mut context) {
                Poll::Ready(outcome) => outcomes.push(outcome?),
                Poll::Pending => waiting.push(task),
            }
        }
        pending = waiting;
        if !pending.is_empty() {
            thread::park();
        }
    }
    Ok(outcomes)
}
