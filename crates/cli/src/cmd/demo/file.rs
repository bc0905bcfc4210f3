//! The demo's files: made of bytes that cannot be compressed and do not repeat, and compared byte
//! by byte.

use std::fs::File;
use std::hint::black_box;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::exit::{Exit, Failure};
use crate::text::printable_path;

/// Bytes made or compared at a time: large enough to make the cost of calls negligible, small
/// enough for the cache.
const CHUNK_BYTES: usize = 1 << 20;
/// The kernel's unit of memory on all machines we know; touching one byte in each is enough.
const PAGE_BYTES: usize = 4096;

/// Writes `size` bytes that look random, different each time.
pub(super) fn make_random(path: &Path, size: u64, stop: &AtomicBool) -> Result<(), Failure> {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_nanos() as u64);
    write_random(path, size, seed, stop).map_err(|error| failure(path, "cannot be written", &error))
}

fn write_random(path: &Path, size: u64, mut state: u64, stop: &AtomicBool) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut left = size;
    while left > 0 && !stop.load(Ordering::Relaxed) {
        fill(&mut chunk, &mut state);
        let now = left.min(CHUNK_BYTES as u64);
        file.write_all(&chunk[..now as usize])?;
        left -= now;
    }
    Ok(())
}

/// SplitMix64: fast, and no block of it equals another.
fn fill(chunk: &mut [u8], state: &mut u64) {
    for word in chunk.chunks_exact_mut(8) {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
    }
}

/// The offset of the first byte that differs; the shorter file's end counts as a difference.
pub(super) fn first_difference(left: &Path, right: &Path, stop: &AtomicBool) -> Result<Option<u64>, Failure> {
    let open = |path: &Path| File::open(path).map_err(|error| failure(path, "cannot be read", &error));
    let (mut left_file, mut right_file) = (open(left)?, open(right)?);
    let (mut left_chunk, mut right_chunk) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let mut offset = 0;
    while !stop.load(Ordering::Relaxed) {
        let left_count =
            read_full(&mut left_file, &mut left_chunk).map_err(|error| failure(left, "cannot be read", &error))?;
        let right_count =
            read_full(&mut right_file, &mut right_chunk).map_err(|error| failure(right, "cannot be read", &error))?;
        let (left_read, right_read) = (&left_chunk[..left_count], &right_chunk[..right_count]);
        if left_read != right_read {
            let same = left_read.iter().zip(right_read).take_while(|(left, right)| left == right).count();
            return Ok(Some(offset + same as u64));
        }
        if left_count == 0 {
            break;
        }
        offset += left_count as u64;
    }
    Ok(None)
}

/// Reads until `chunk` is full or the file ends.
fn read_full(file: &mut File, chunk: &mut [u8]) -> std::io::Result<usize> {
    let mut count = 0;
    while count < chunk.len() {
        match file.read(&mut chunk[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Touches and frees as much memory as the next new file takes. In a virtual machine, memory that
/// was never used is provided slowly by the host, and the first measurement would pay for it.
pub(super) fn warm_memory(size: u64, stop: &AtomicBool) {
    let mut chunks = Vec::new();
    let mut left = size;
    while left > 0 && !stop.load(Ordering::Relaxed) {
        let mut chunk = vec![0_u8; CHUNK_BYTES];
        chunk.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
        chunks.push(black_box(chunk));
        left = left.saturating_sub(CHUNK_BYTES as u64);
    }
}

fn failure(path: &Path, what: &str, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Local, format!("{}: it {what}: {error}", printable_path(path)))
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    #[test]
    fn every_difference_between_two_files_is_found() {
        let scratch = Scratch::create(Some(&std::env::temp_dir()), 1000).unwrap();
        let stop = AtomicBool::new(false);
        let size = CHUNK_BYTES as u64 + 4099;
        let source = scratch.path("source");
        make_random(&source, size, &stop).unwrap();
        let content = std::fs::read(&source).unwrap();
        assert_eq!(content.len() as u64, size);
        let difference = |copy: &[u8]| {
            let path = scratch.path("copy");
            std::fs::write(&path, copy).unwrap();
            first_difference(&source, &path, &stop).unwrap()
        };
        assert_eq!(difference(&content), None);
        for at in [0, 4096, CHUNK_BYTES - 1, CHUNK_BYTES, content.len() - 1] {
            let mut copy = content.clone();
            copy[at] ^= 1;
            assert_eq!(difference(&copy), Some(at as u64));
        }
        assert_eq!(difference(&content[..content.len() - 1]), Some(size - 1));
        assert_eq!(difference(&[]), Some(0));
        let longer: Vec<u8> = content.iter().copied().chain([0]).collect();
        assert_eq!(difference(&longer), Some(size));
    }

    #[test]
    fn blocks_of_the_random_file_differ() {
        let (mut first, mut second) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        let mut state = 7;
        fill(&mut first, &mut state);
        fill(&mut second, &mut state);
        assert_ne!(first, second);
        let ones: u32 = first.iter().map(|byte| byte.count_ones()).sum();
        let expected = CHUNK_BYTES as u32 * 4;
        assert!(ones.abs_diff(expected) < expected / 100, "{ones} of {expected}");
    }
}
