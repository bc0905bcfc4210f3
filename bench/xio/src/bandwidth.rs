//! Bandwidth: one direction between two threads, by blocking calls, in blocks of the usual sizes.

use crate::{System, Table, ping_pong, rounds};
use std::io::{self, Read, Write};
use std::thread;
use std::time::Instant;

const BLOCKS: [usize; 2] = [64 << 10, 1 << 20];
const BYTES: usize = 2 << 30;
const BYTES_OF_SHORT: usize = 64 << 20;
const ROUNDS_OF_SHORT: usize = 7;

/// Prints the time of a byte over a stack of one driver, over that of a plain socket. The goal is 0.99 of
/// its bandwidth.
pub(crate) fn run(count: usize, table: &mut Table) -> io::Result<()> {
    let bytes = table.work(BYTES, BYTES_OF_SHORT);
    for block in BLOCKS {
        let mut systems: [System<'_>; 2] =
            [("socket", Box::new(move || socket(block, bytes))), ("stack", Box::new(move || stack(block, bytes)))];
        let taken = rounds(count.max(table.work(1, ROUNDS_OF_SHORT)), &mut systems)?;
        let what = format!("time of a byte in blocks of {} KiB ({:.2} GB/s)", block >> 10, 1e-9 / taken[0].best);
        table.goal(&what, taken[1].best / taken[0].best, taken[1].median / taken[0].median, 1.0 / 0.99, "");
    }
    Ok(())
}

fn socket(block: usize, count: usize) -> io::Result<f64> {
    let (mut one, mut other) = ping_pong::pair()?;
    move_all(block, count, move |bytes| one.write_all(bytes), move |bytes| other.read(bytes))
}

fn stack(block: usize, count: usize) -> io::Result<f64> {
    let (one, other) = ping_pong::handles()?;
    let send = move |bytes: &[u8]| Ok(one.write(bytes).map(drop)?);
    move_all(block, count, send, move |bytes| Ok(other.read(bytes, 1)?.bytes))
}

fn move_all(
    block: usize,
    count: usize,
    mut send: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>,
) -> io::Result<f64> {
    let started = Instant::now();
    let sender = thread::spawn(move || {
        let bytes = vec![1; block];
        (0..count / block).try_for_each(|_| send(&bytes))
    });
    let mut buffer = vec![0; block];
    let mut left = count;
    while left > 0 {
        let bytes = receive(&mut buffer)?;
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= bytes;
    }
    let taken = started.elapsed().as_secs_f64() / count as f64;
    sender.join().map_err(|_| io::Error::other("the sender panicked"))??;
    Ok(taken)
}
