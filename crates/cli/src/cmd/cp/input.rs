//! Standard input as a source. One trap is avoided: Ctrl-C goes to every program of a shell's
//! pipeline. It ends the program before this one and closes its pipe, which looks like the end of
//! the data; half a file would then be stored under its name as if it were complete. So a pipe's
//! end counts only if no signal came with it.
//!
//! Also named pipes, whose writer may come late or never: Ctrl-C ends the wait.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags, fstat, open as open_file, stat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use xdfs_client::{Error, ErrorKind};
use xdfs_io::store::Source;
use xdfs_io::store::stream::StreamSource;

use super::monitor::LOOK_EVERY;
use crate::cmd::pause::wait_to_read;
use crate::signal;
use crate::text::printable_path;

/// Bytes that the intermediate pipe holds: a block at the usual size, so it never delays the
/// transfer.
const PIPE_BYTES: usize = 1 << 20;
/// A signal that ended the program before this one reaches this one at the same moment; on a busy
/// machine it may take this long.
const SIGNAL_GRACE: Duration = Duration::from_millis(10);

/// The data of standard input.
pub(super) fn open() -> Result<Source, Error> {
    if !is_pipe() {
        // A file or a terminal is not ended by another program.
        return Source::standard_input();
    }
    let failed =
        |error: std::io::Error| Error::new(ErrorKind::Resources, format!("cannot read standard input: {error}"));
    Ok(Source::new(StreamSource::new(relayed().map_err(failed)?, "standard input")))
}

/// The same for a reader who takes what there is and does not wait for more.
pub(super) fn as_it_comes() -> std::io::Result<File> {
    if is_pipe() {
        return relayed().map(File::from);
    }
    Ok(File::from(rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 0)?))
}

fn is_pipe() -> bool {
    fstat(std::io::stdin()).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

fn relayed() -> std::io::Result<OwnedFd> {
    let input = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 0)?;
    let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC)?;
    // A smaller pipe only means more calls.
    let _ = fcntl_setpipe_size(&write_end, PIPE_BYTES);
    let signalled = signal::wake_on_stop()?;
    let relay = move || relay(input.as_fd(), write_end, &signalled);
    std::thread::Builder::new().name("xdfs-input".to_owned()).spawn(relay)?;
    Ok(read_end)
}

/// The pipe at `path`, once a writer opens it or has done so; `None` if there is no pipe that can
/// be opened. Opening it as a file would wait in the kernel, and a signal that only sets a flag
/// does not end that.
pub(super) fn open_pipe(path: &Path, stopped: &dyn Fn() -> bool) -> Result<Option<Source>, Error> {
    let is_pipe = stat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Some(pipe) = is_pipe.then(|| open_file(path, flags, Mode::empty()).ok()).flatten() else { return Ok(None) };
    while !wait_to_read(pipe.as_fd(), Some(LOOK_EVERY)) {
        if stopped() {
            return Err(Error::new(ErrorKind::Cancelled, format!("{}: cancelled", printable_path(path))));
        }
    }
    Ok(Some(Source::new(StreamSource::new(pipe, printable_path(path)))))
}

/// Relays the data, and the end if it is a real one.
fn relay(input: BorrowedFd<'_>, output: OwnedFd, signalled: &UnixStream) {
    loop {
        match splice(input, None, &output, None, PIPE_BYTES, SpliceFlags::MOVE) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            // Non-blocking standard input, as some programs leave it behind.
            Err(Errno::AGAIN) => drop(wait_to_read(input, None)),
            // The reader has closed the pipe: the transfer has ended.
            Err(_) => return,
        }
    }
    if wait_to_read(signalled.as_fd(), Some(SIGNAL_GRACE)) {
        // Never closed, so the reader waits until the transfer is cancelled and the program ends.
        std::mem::forget(output);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// Runs a relay over `bytes`; returns its output until the end, or `None` if it has no end.
    fn relayed(bytes: &[u8], signal: bool) -> Option<Vec<u8>> {
        let (input, mut feed) = std::io::pipe().unwrap();
        let (mut result, output) = std::io::pipe().unwrap();
        let (signalled, mut raise) = UnixStream::pair().unwrap();
        feed.write_all(bytes).unwrap();
        if signal {
            raise.write_all(&[0]).unwrap();
        }
        drop(feed);
        relay(input.as_fd(), output.into(), &signalled);
        let mut passed = vec![0; bytes.len()];
        result.read_exact(&mut passed).unwrap();
        assert_eq!(passed, bytes);
        let ended = wait_to_read(result.as_fd(), Some(Duration::ZERO));
        ended.then_some(passed)
    }

    #[test]
    fn an_end_without_a_signal_is_the_end() {
        assert_eq!(relayed(b"all of it", false).as_deref(), Some(&b"all of it"[..]));
        assert_eq!(relayed(b"", false).as_deref(), Some(&b""[..]));
    }

    #[test]
    fn an_end_that_came_with_a_signal_is_not_passed_on() {
        assert_eq!(relayed(b"half of", true), None);
    }
}
