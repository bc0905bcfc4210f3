//! The bytes of FIFOs on servers: to standard output, and from standard input.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use super::remote::{Sessions, wire_name};
use super::ssh::Tunnel;
use crate::exit::Failure;
use crate::output::reader_is_gone;
use crate::url::Url;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use xdfs_client::file::{Pipe, PipeSide, Remote};
use xdfs_client::{Error, ErrorKind};

/// How often a wait looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Bytes that are passed on at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Why a pipe did not pass everything on.
pub(super) enum Cut {
    /// No session could be had.
    Session(Failure, ErrorKind),
    /// The server's error, or that of the session.
    Peer(Error),
    /// Standard input or output failed.
    Here(io::Error),
    /// The program was asked to stop.
    Stopped,
}

impl From<Error> for Cut {
    fn from(error: Error) -> Self {
        // The message says what the errno means here.
        Self::Peer(error.with_errno(0))
    }
}

/// An end of a pipe, with a session of its own: if this program is stopped the session ends, and nobody
/// takes what has passed for everything.
pub(super) struct Connected {
    pipe: Pipe,
    remote: Arc<Remote>,
    _tunnel: Option<Tunnel>,
}

impl Connected {
    pub(super) fn open(sessions: &Sessions, url: &Url, side: PipeSide) -> Result<Self, Cut> {
        let (session, _tunnel) = sessions.own_narrow(url).map_err(|(failure, kind)| Cut::Session(failure, kind))?;
        let remote = Remote::over(session);
        let pipe = Pipe::open(&remote, wire_name(url), side)?;
        Ok(Self { pipe, remote, _tunnel })
    }

    /// Writes what comes out of it to standard output, up to its end, or until nobody wants more; how
    /// many bytes.
    pub(super) fn drain(mut self, stopped: &dyn Fn() -> bool) -> Result<u64, Cut> {
        self.pipe.read_ahead();
        let (mut buffer, mut passed) = (vec![0; PIECE_BYTES], 0);
        let mut output = io::stdout().lock();
        loop {
            match self.pipe.read_within(&mut buffer, LOOK_EVERY)? {
                Some(0) => break,
                Some(bytes) => {
                    let written = output.write_all(&buffer[..bytes]).and_then(|()| output.flush());
                    if let Err(error) = written {
                        if !reader_is_gone() {
                            return Err(Cut::Here(error));
                        }
                        break;
                    }
                    passed += bytes as u64;
                }
                None if stopped() => return Err(Cut::Stopped),
                None if reader_is_gone() => break,
                None => {}
            }
        }
        self.close()?;
        Ok(passed)
    }

    /// Writes what `input` has into it, up to its end; how many bytes. What is there is sent before
    /// more is waited for.
    pub(super) fn feed(mut self, mut input: File, stopped: &dyn Fn() -> bool) -> Result<u64, Cut> {
        let (mut buffer, mut passed) = (vec![0; PIECE_BYTES], 0);
        loop {
            if stopped() {
                self.pipe.abandon();
                return Err(Cut::Stopped);
            }
            let ready = is_ready(&input, Duration::ZERO)
                || (self.pipe.settle_within(LOOK_EVERY)? && is_ready(&input, LOOK_EVERY));
            if !ready {
                continue;
            }
            let read = match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                    continue;
                }
                Err(error) => {
                    self.pipe.abandon();
                    return Err(Cut::Here(error));
                }
            };
            let mut rest = &buffer[..read];
            while !rest.is_empty() && !stopped() {
                let written = self.pipe.write_within(rest, LOOK_EVERY)?;
                rest = &rest[written..];
            }
            passed += read as u64;
        }
        while !self.pipe.settle_within(LOOK_EVERY)? {
            if stopped() {
                self.pipe.abandon();
                return Err(Cut::Stopped);
            }
        }
        self.close()?;
        Ok(passed)
    }

    fn close(self) -> Result<(), Error> {
        self.pipe.close()?;
        // Everything has passed: how the session ends makes no difference.
        let _ = self.remote.close();
        Ok(())
    }
}

/// Whether something, or the end, can be read within this time.
fn is_ready(file: &impl AsFd, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).unwrap_or_default();
    let mut files = [PollFd::new(file, PollFlags::IN)];
    match poll(&mut files, Some(&patience)) {
        Ok(ready) => ready > 0,
        Err(Errno::INTR) => false,
        Err(_) => true,
    }
}
