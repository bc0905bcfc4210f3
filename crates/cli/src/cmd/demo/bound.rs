//! The upper bound of this machine: one file over one loopback connection without any protocol. The
//! sender splices through one pipe of 1 MiB, the receiver receives until a buffer of 1 MiB is full
//! and writes it once.
//!
//! It serves only for comparison; nothing of xdfs uses it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_tcp_congestion;
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, pipe, splice};

/// Bytes in the pipe and in the receiver's buffer.
const BLOCK_BYTES: usize = 1 << 20;
/// A congestion control that does not pace: pacing is useless within one machine.
const CONGESTION: &str = "cubic";

/// Copies `size` bytes of `source` to the new file `target`; returns the time from connecting to
/// the last byte written.
pub(super) fn copy(source: &Path, target: &Path, size: u64, stop: &AtomicBool) -> io::Result<Duration> {
    let source = File::open(source)?;
    let target = File::create_new(target)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let started = Instant::now();
    // The listener's queue accepts the connection, so the receiver always has one to accept.
    let mut socket = TcpStream::connect(address)?;
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&listener, &target));
        let sent = send(&source, &mut socket, size, stop);
        drop(socket);
        let received = receiver.join().unwrap_or_else(|_| Err(io::Error::other("the receiver panicked")))?;
        sent?;
        if received != size && !stop.load(Ordering::Relaxed) {
            return Err(io::Error::other(format!("{received} of {size} bytes arrived")));
        }
        Ok(started.elapsed())
    })
}

fn send(source: &File, socket: &mut TcpStream, size: u64, stop: &AtomicBool) -> io::Result<()> {
    prefer_unpaced(socket);
    let (read_end, write_end) = pipe()?;
    // A smaller pipe only means more calls.
    let _ = fcntl_setpipe_size(&write_end, BLOCK_BYTES);
    let flags = SpliceFlags::MOVE | SpliceFlags::MORE;
    let mut offset = 0;
    while offset < size && !stop.load(Ordering::Relaxed) {
        let wanted = (size - offset).min(BLOCK_BYTES as u64) as usize;
        let mut filled = splice(source, Some(&mut offset), &write_end, None, wanted, flags)?;
        if filled == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while filled > 0 {
            filled -= splice(&read_end, None, &*socket, None, filled, flags)?;
        }
    }
    socket.flush()?;
    socket.shutdown(std::net::Shutdown::Write)?;
    // The receiver closes when it has written everything.
    let mut end = [0];
    socket.read(&mut end).map(|_| ())
}

fn receive(listener: &TcpListener, target: &File) -> io::Result<u64> {
    let (mut socket, _) = listener.accept()?;
    prefer_unpaced(&socket);
    let mut buffer = vec![0; BLOCK_BYTES];
    let mut offset = 0;
    loop {
        let mut filled = 0;
        while filled < buffer.len() {
            match socket.read(&mut buffer[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        if filled == 0 {
            return Ok(offset);
        }
        target.write_all_at(&buffer[..filled], offset)?;
        offset += filled as u64;
    }
}

fn prefer_unpaced(socket: &TcpStream) {
    // A kernel without it uses its default, which is measured instead.
    let _ = set_tcp_congestion(socket, CONGESTION);
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::super::scratch::Scratch;
    use super::*;

    #[test]
    fn the_bound_copies_every_byte() {
        let scratch = Scratch::create(Some(&std::env::temp_dir()), 1000).unwrap();
        let stop = AtomicBool::new(false);
        let (source, target) = (scratch.path("source"), scratch.path("target"));
        let size = 3 * BLOCK_BYTES as u64 + 17;
        file::make_random(&source, size, &stop).unwrap();
        copy(&source, &target, size, &stop).unwrap();
        assert_eq!(file::first_difference(&source, &target, &stop).unwrap(), None);
    }

    #[test]
    fn a_source_that_is_too_short_is_an_error_and_nothing_hangs() {
        let scratch = Scratch::create(Some(&std::env::temp_dir()), 1000).unwrap();
        let stop = AtomicBool::new(false);
        let source = scratch.path("source");
        file::make_random(&source, 10, &stop).unwrap();
        assert!(copy(&source, &scratch.path("target"), 11, &stop).is_err());
    }
}
