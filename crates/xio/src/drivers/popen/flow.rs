//! A program that runs, as an element of a stack.

use crate::pool;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitStatus};
use std::time::Instant;
use xdfs_io::process::Process;
use xdfs_io::stack::{Answer, Command, Flow, Interest, ReadInfo, WriteInfo};

/// Bytes of the program's output that one call leaves aside, at most, when it is closed.
const LEFT_ASIDE_PER_CALL: usize = 1 << 20;

/// How far the program's output is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    /// More may come.
    Open,
    /// It is being closed, and more is to be left aside at once, at this time.
    LeavingAside(Instant),
    /// The program has closed it: the program's end is waited for.
    Ended,
}

/// A program and the socket to it.
pub(super) struct PopenFlow {
    socket: UnixStream,
    /// None once it was handed over to be waited for.
    child: Option<Child>,
    /// Readable when the program has ended.
    ended: Process,
    output: Output,
}

impl PopenFlow {
    pub(super) fn new(socket: UnixStream, mut child: Child) -> io::Result<Self> {
        match Process::of(&child) {
            Ok(ended) => Ok(Self { socket, child: Some(child), ended, output: Output::Open }),
            Err(error) => {
                child.kill()?;
                reap(child);
                Err(error)
            }
        }
    }

    /// Receives, and notes the end. A program that ended without reading its input resets the
    /// connection; what it had written came before.
    fn receive_output(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut control = RecvAncillaryBuffer::default();
        let bytes = match rustix::net::recvmsg(&self.socket, into, &mut control, RecvFlags::DONTWAIT) {
            Ok(received) => received.bytes,
            Err(rustix::io::Errno::CONNRESET) => 0,
            Err(error) => return Err(error.into()),
        };
        if bytes == 0 && into.iter().any(|slice| !slice.is_empty()) {
            self.output = Output::Ended;
        }
        Ok(bytes)
    }

    /// How the program has ended: `WouldBlock` while it runs.
    fn status(&mut self) -> io::Result<ExitStatus> {
        let running = || io::Error::from(io::ErrorKind::WouldBlock);
        self.child.as_mut().ok_or_else(running)?.try_wait()?.ok_or_else(running)
    }

    fn success(&mut self) -> io::Result<()> {
        let status = self.status()?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("the program has failed: {status}")))
    }
}

impl Flow for PopenFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        if self.output != Output::Ended {
            let bytes = self.receive_output(into)?;
            if self.output != Output::Ended {
                return Ok(bytes);
            }
        }
        self.success()?;
        info.end = true;
        Ok(0)
    }

    fn send(&mut self, from: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::net::sendmsg(&self.socket, from, &mut SendAncillaryBuffer::default(), flags)?)
    }

    fn wants(&self, asked: Interest) -> Interest {
        if let Output::LeavingAside(_) = self.output { Interest::NONE } else { asked }
    }

    fn deadline(&self) -> Option<Instant> {
        match self.output {
            Output::LeavingAside(at) => Some(at),
            Output::Open | Output::Ended => None,
        }
    }

    fn on_deadline(&mut self) {
        if let Output::LeavingAside(_) = self.output {
            self.output = Output::Open;
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(if self.output == Output::Ended { self.ended.as_fd() } else { self.socket.as_fd() })
    }

    fn sending_descriptor(&self) -> Option<BorrowedFd<'_>> {
        (self.output == Output::Ended).then(|| self.socket.as_fd())
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        // It fails where the program has left.
        let _ = self.socket.shutdown(Shutdown::Write);
        Ok(())
    }

    fn ready_to_close(&mut self) -> io::Result<()> {
        let mut aside = [0; 1 << 16];
        let mut left = LEFT_ASIDE_PER_CALL;
        while self.output != Output::Ended {
            if left == 0 {
                self.output = Output::LeavingAside(Instant::now());
                return Err(io::ErrorKind::WouldBlock.into());
            }
            left = left.saturating_sub(self.receive_output(&mut [IoSliceMut::new(&mut aside)])?);
        }
        self.success()
    }

    /// `finish_sending` ends the program's input; `process` is its number.
    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        match &*command.name {
            "finish_sending" => self.socket.shutdown(Shutdown::Write).map(|()| Answer::Done),
            "process" => Ok(Answer::Number(self.child.as_ref().map_or(0, |child| u64::from(child.id())))),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Drop for PopenFlow {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take()
            && matches!(child.try_wait(), Ok(None))
        {
            // It fails only where the program has ended.
            let _ = child.kill();
            reap(child);
        }
    }
}

/// Waits for a program that was killed, on a thread that may wait: else it would stay a zombie.
fn reap(mut child: Child) {
    pool::submit(Box::new(move || drop(child.wait())));
}
