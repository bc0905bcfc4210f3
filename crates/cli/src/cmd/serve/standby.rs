//! The standby process that can take over (rule 19): Landlock cannot be widened and a confined
//! process starts no program, so before a server confines itself it starts the process that will
//! serve when a reload needs more than this one may reach.
//!
//! The two share a socket pair, which is the standard input of the standby process. To hand over,
//! the server sends a byte with the listening socket; the standby process starts to serve and
//! answers with a byte. If the server ends without having handed over, the standby process reads
//! the end and ends too.
//!
//! The sessions of the server that has handed over go on in it. Whatever its successor reads anew
//! must hold for them, too: the successor sends a byte for each reload. At the successor's end
//! nobody could tell any more what was withdrawn, and the sessions are drained.

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

use crate::signal::Notifier;

/// A process opens its directories and listens within this time; otherwise it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The standby process, as seen by the server that may hand over to it.
#[derive(Debug)]
pub(super) struct Standby {
    child: Child,
    line: UnixStream,
}

impl Standby {
    /// Starts it with the command line of this process.
    pub(super) fn start() -> std::io::Result<Self> {
        let (line, theirs) = UnixStream::pair()?;
        // Of a program that was replaced meanwhile there is no path any more, and the new one may be of another version.
        let program = std::env::current_exe().ok().filter(|path| path.exists());
        let mut command = Command::new(program.unwrap_or_else(|| PathBuf::from("/proc/self/exe")));
        command.arg0(std::env::args_os().next().unwrap_or_else(|| "xdfs".into()));
        command.args(std::env::args_os().skip(1).filter(|word| word != "--standby")).arg("--standby");
        // A token in the environment is not for the standby process: whoever can inspect it would
        // see the token there, too.
        command.env_remove("XDFS_TOKEN");
        let child = command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
        Ok(Self { child, line })
    }

    /// Its process id.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Passes it the listening socket, and that of the metrics if there is one, and waits until it
    /// serves. A process that could not take over ends: at once, or when it is about to serve, since
    /// its answer leads nowhere then.
    pub(super) fn hand_over(mut self, listener: &OwnedFd, metrics: Option<&OwnedFd>) -> std::io::Result<Successor> {
        let outcome = self.ask(listener, metrics);
        if outcome.is_err() {
            // A confined process may not end another one, and one that hangs in the kernel does not
            // end: it is not waited for.
            let _ = self.child.kill();
            let _ = self.child.try_wait();
        }
        outcome.map(|()| Successor(self.line))
    }

    fn ask(&mut self, listener: &OwnedFd, metrics: Option<&OwnedFd>) -> std::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<_> = std::iter::once(listener).chain(metrics).map(AsFd::as_fd).collect();
        if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(std::io::ErrorKind::OutOfMemory.into());
        }
        rustix::net::sendmsg(&self.line, &[IoSlice::new(b"T")], &mut control, SendFlags::NOSIGNAL)?;
        self.line.set_read_timeout(Some(PATIENCE))?;
        self.line.read_exact(&mut [0]).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => std::io::Error::other("it ended before it served, and says why above"),
            ErrorKind::WouldBlock => std::io::Error::other(format!("it did not serve within {} s", PATIENCE.as_secs())),
            _ => error,
        })
    }
}

/// The process that has taken over, as seen by the server that has sessions left.
#[derive(Debug)]
pub(super) struct Successor(UnixStream);

impl Successor {
    /// Raises one notifier for each reload of the successor, and the other at its end.
    pub(super) fn follow(mut self, reloaded: Notifier, ended: Notifier) -> std::io::Result<()> {
        self.0.set_read_timeout(None)?;
        let follows = move || {
            while matches!(self.0.read(&mut [0]), Ok(1)) {
                reloaded.raise();
            }
            ended.raise();
        };
        std::thread::Builder::new().name("xdfs-successor".into()).spawn(follows).map(drop)
    }
}

/// What a server hands over.
#[derive(Debug)]
pub(super) struct Inherited {
    pub(super) predecessor: Predecessor,
    pub(super) listener: OwnedFd,
    /// The socket of the metrics, if they are answered.
    pub(super) metrics: Option<OwnedFd>,
}

/// The server that may hand over, as seen by the standby process.
#[derive(Debug)]
pub(super) struct Predecessor(UnixStream);

impl Predecessor {
    /// Waits on standard input; `None` if the server ended without handing over.
    pub(super) fn wait() -> std::io::Result<Option<Inherited>> {
        let line = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let received =
            rustix::net::recvmsg(&line, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let mut sockets = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                sockets.extend(descriptors);
            }
        }
        let mut sockets = sockets.into_iter().filter(|_| received.bytes == 1);
        let (listener, metrics) = (sockets.next(), sockets.next());
        Ok(listener.map(|listener| Inherited { predecessor: Self(line), listener, metrics }))
    }

    /// Reports that this process serves now.
    pub(super) fn tell_ready(&mut self) -> std::io::Result<()> {
        self.0.write_all(b"R")
    }

    /// Reports that the configuration was read again. One that has ended, or has a thousand reloads
    /// to follow, needs no further one.
    pub(super) fn tell_reloaded(&self) {
        let _ = rustix::net::send(&self.0, b"L", SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}
