//! What a program does with a remote file: copies it in its order, and reads it at random with many reads on their way.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use xdfs_client::file::{File as RemoteFile, OpenOptions, Remote};
use xdfs_client::{Address, ConnectOptions};

use super::Login;
use super::relay::Relay;
use crate::error::{Context, Error, Result};

/// What a copying program reads and writes at a time.
const BUFFER: usize = 1 << 20;

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
            pass(&mut source, &mut target).context(there)?;
            source.close()?;
        }
        Way::Up => {
            let mut source = File::open(local).context(here)?;
            let options = OpenOptions::new().write(true).create(true).truncate(true);
            let mut target = RemoteFile::open(&server, remote, &options)?;
            pass(&mut source, &mut target).context(there)?;
            target.close()?;
        }
    }
    Ok(())
}

fn wrong(detail: &str) -> Error {
    Error::Wrong { system: "holder".to_owned(), detail: detail.to_owned() }
}

fn pass(source: &mut impl Read, target: &mut impl Write) -> std::io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = source.read(&mut buffer)?;
        if count == 0 {
            return target.flush();
        }
        target.write_all(&buffer[..count])?;
    }
}

/// Reads 4 KiB at places that change, from as many threads as reads are to be on their way, through a relay that holds every
/// byte back for `delay` in each direction. Each part is compared with the same place of `local`. Returns reads a second.
pub fn random_reads(
    login: &Login,
    remote: &str,
    local: &Path,
    threads: usize,
    reads: usize,
    delay: Duration,
) -> Result<f64> {
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
    let each = reads / threads;
    let started = Instant::now();
    thread::scope(|scope| {
        let readers = (0..threads).map(|number| {
            let (file, expected) = (&file, &expected);
            scope.spawn(move || one_reader(file, expected, parts, number as u64, each))
        });
        let readers: Vec<_> = readers.collect();
        readers.into_iter().try_for_each(|reader| reader.join().map_err(|_| wrong("a reader ended early"))?)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    file.close()?;
    Ok((each * threads) as f64 / seconds)
}

fn one_reader(file: &RemoteFile, expected: &File, parts: u64, number: u64, reads: usize) -> Result<()> {
    let (mut got, mut wanted) = ([0; PART], [0; PART]);
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..reads {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let offset = (state >> 33) % parts * PART as u64;
        file.read_at(&mut got, offset)?;
        expected.read_exact_at(&mut wanted, offset).context(|| "the file".to_owned())?;
        if got != wanted {
            return Err(wrong("other bytes were read than there are"));
        }
    }
    Ok(())
}
