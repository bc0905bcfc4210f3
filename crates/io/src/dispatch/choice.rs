//! The member used by the program, chosen once by an environment variable. One match per call; no
//! function pointer.

use super::DescriptorWaker;
use super::{Completion, Detached, Dispatch, Epoll, FileId, Instant, Op, Pace, Poll, Progress, Side, SocketId};
use crate::buf::Buffer;
use crate::transport::Link;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The variable that selects a member.
pub const DISPATCH_VARIABLE: &str = "XDFS_DISPATCH";

/// Any member over the kernel's sockets.
pub enum Dispatcher {
    /// `epoll(7)`, the default.
    Epoll(Epoll),
    /// `poll(2)`.
    Poll(Poll),
}

impl Dispatcher {
    /// The names that [`Dispatcher::named`] accepts.
    pub const NAMES: &[&str] = &["epoll", "poll"];

    /// The member named by `XDFS_DISPATCH`, or the default if it is not set.
    pub fn new() -> io::Result<Self> {
        match std::env::var_os(DISPATCH_VARIABLE) {
            None => Self::named("epoll"),
            Some(name) => Self::named(&name.to_string_lossy()),
        }
    }

    /// The member of that name.
    pub fn named(name: &str) -> io::Result<Self> {
        match name {
            "epoll" => Epoll::new().map(Self::Epoll),
            "poll" => Poll::new().map(Self::Poll),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "{DISPATCH_VARIABLE} names no dispatcher: '{}'; there are: {}",
                    name.escape_debug(),
                    Self::NAMES.join(", ")
                ),
            )),
        }
    }

    /// The name of the member.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Epoll(_) => "epoll",
            Self::Poll(_) => "poll",
        }
    }
}

/// Calls the method of the member.
macro_rules! member {
    ($self:expr, $member:ident => $call:expr) => {
        match $self {
            Dispatcher::Epoll($member) => $call,
            Dispatcher::Poll($member) => $call,
        }
    };
}

impl Dispatch for Dispatcher {
    type Link = Link;
    type Waker = DescriptorWaker;

    fn attach(&mut self, link: Link, unread: &[u8]) -> io::Result<SocketId> {
        member!(self, member => member.attach(link, unread))
    }

    fn detach(&mut self, socket: SocketId, returned: &mut Vec<Buffer>) -> Detached<Link> {
        member!(self, member => member.detach(socket, returned))
    }

    fn open_file(&mut self, file: OwnedFd) -> FileId {
        member!(self, member => member.open_file(file))
    }

    fn close_file(&mut self, file: FileId) {
        member!(self, member => member.close_file(file))
    }

    #[inline]
    fn submit(&mut self, op: Op) {
        member!(self, member => member.submit(op))
    }

    #[inline]
    fn next(&mut self, deadline: Option<Instant>) -> io::Result<Completion<Link>> {
        member!(self, member => member.next(deadline))
    }

    fn scratch(&mut self) -> &mut [u8] {
        member!(self, member => member.scratch())
    }

    fn progress(&self, socket: SocketId) -> Progress {
        member!(self, member => member.progress(socket))
    }

    fn pace(&mut self, socket: SocketId, side: Side, pace: Option<Arc<dyn Pace>>) {
        member!(self, member => member.pace(socket, side, pace))
    }

    fn finish_sending(&mut self, socket: SocketId) -> std::io::Result<()> {
        member!(self, member => member.finish_sending(socket))
    }

    fn failure(&self, socket: SocketId) -> Option<String> {
        member!(self, member => member.failure(socket))
    }

    fn link(&self, socket: SocketId) -> &Link {
        member!(self, member => member.link(socket))
    }

    fn now(&self) -> Instant {
        member!(self, member => member.now())
    }

    fn waker(&self) -> DescriptorWaker {
        member!(self, member => member.waker())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_makes_the_member_it_names_and_another_lists_them() {
        for name in Dispatcher::NAMES {
            assert_eq!(Dispatcher::named(name).unwrap().name(), *name);
        }
        let Err(error) = Dispatcher::named("select") else { panic!("no such member") };
        assert_eq!(error.to_string(), "XDFS_DISPATCH names no dispatcher: 'select'; there are: epoll, poll");
    }
}
