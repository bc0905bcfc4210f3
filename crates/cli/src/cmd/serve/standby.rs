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
//! must hold for them, too: the successor sends a byte for each reload. One that hands over itself
//! passes on its end of the line, so that a server follows whichever process serves. When no process
//! has that end any more nobody could tell what was withdrawn, and the sessions are drained.

use std::fs::File;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

use crate::signal::Notifier;

/// A process opens its directories and listens within this time; otherwise it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Processes with sessions of before that follow the one that serves; what is beyond that drains.
const FOLLOWERS_MAX: usize = 14;

/// What is passed on: two sockets and the lines.
const DESCRIPTORS_MAX: usize = 2 + FOLLOWERS_MAX;

/// Said with the sockets to listen on and for the metrics, or the former alone.
const TAKE_BOTH: &[u8] = b"M";
const TAKE_ONE: &[u8] = b"T";

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

    /// Passes it the listening socket, that of the metrics if there is one, and the lines to those that
    /// follow this process, and waits until it serves. A process that could not take over ends: at
    /// once, or when it is about to serve, since its answer leads nowhere then.
    pub(super) fn hand_over(
        mut self,
        listener: &OwnedFd,
        metrics: Option<&OwnedFd>,
        followers: &Followers,
    ) -> std::io::Result<Successor> {
        let outcome = self.ask(listener, metrics, followers);
        if outcome.is_err() {
            // A confined process may not end another one, and one that hangs in the kernel does not
            // end: it is not waited for.
            let _ = self.child.kill();
            let _ = self.child.try_wait();
        }
        outcome.map(|()| Successor(self.line))
    }

    fn ask(&mut self, listener: &OwnedFd, metrics: Option<&OwnedFd>, followers: &Followers) -> std::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let sockets = std::iter::once(listener).chain(metrics).map(AsFd::as_fd);
        let lines = followers.0.iter().take(FOLLOWERS_MAX).map(AsFd::as_fd);
        let descriptors: Vec<_> = sockets.chain(lines).collect();
        if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(std::io::ErrorKind::OutOfMemory.into());
        }
        let said = if metrics.is_some() { TAKE_BOTH } else { TAKE_ONE };
        rustix::net::sendmsg(&self.line, &[IoSlice::new(said)], &mut control, SendFlags::NOSIGNAL)?;
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
    pub(super) followers: Followers,
    pub(super) listener: OwnedFd,
    /// The socket of the metrics, if they are answered.
    pub(super) metrics: Option<OwnedFd>,
}

/// The lines to the servers that have handed over and may have sessions left, as seen by the process
/// that serves: its predecessor's first, and the older ones behind it.
#[derive(Debug, Default)]
pub(super) struct Followers(Vec<UnixStream>);

impl Followers {
    /// Waits on standard input; `None` if the server ended without handing over.
    pub(super) fn wait() -> std::io::Result<Option<Inherited>> {
        let line = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
        // The line ends for the predecessor when this process passes it on.
        rustix::stdio::dup2_stdin(&File::open("/dev/null")?)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
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
        let Some(listener) = sockets.next() else { return Ok(None) };
        let metrics = if byte == TAKE_BOTH { sockets.next() } else { None };
        let followers = Self(std::iter::once(line).chain(sockets.map(UnixStream::from)).collect());
        Ok(Some(Inherited { followers, listener, metrics }))
    }

    /// Reports to the predecessor that this process serves now.
    pub(super) fn tell_ready(&mut self) -> std::io::Result<()> {
        self.0.first_mut().map_or(Ok(()), |line| line.write_all(b"R"))
    }

    /// Forgets those that have ended.
    pub(super) fn forget_ended(&mut self) {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        self.0
            .retain(|line| !matches!(rustix::net::recv(line, &mut [0; 1], flags), Ok((0, _)) | Err(Errno::CONNRESET)));
    }

    /// Reports that the configuration was read again. Whoever has ended follows no more; one that has a
    /// thousand reloads to follow needs no further one.
    pub(super) fn tell_reloaded(&mut self) {
        self.0.retain(|line| {
            let told = rustix::net::send(line, b"L", SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            !matches!(told, Err(Errno::PIPE | Errno::CONNRESET))
        });
    }
}
