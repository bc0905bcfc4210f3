//! The implementation used by the program, chosen once by an environment variable. One match per call; no
//! function pointer.

use super::DescriptorWaker;
use super::{Completion, Detached, Dispatch, Epoll, FileId, Instant, Op, Pace, Poll, Progress, Side, SocketId};
use crate::buf::Buffer;
use crate::transport::Link;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The variable that selects a dispatcher.
pub const DISPATCH_VARIABLE: &str = "XDFS_DISPATCH";

/// Any dispatcher over the kernel's sockets.
pub enum Dispatcher {
    /// `epoll(7)`, the default.
    Epoll(Epoll),
    /// `poll(2)`.
    Poll(Poll),
}

impl Dispatcher {
    /// The names that [`Dispatcher::named`] accepts.
    pub const NAMES: &[&str] = &["epoll", "poll"];

    /// The dispatcher named by `XDFS_DISPATCH`, or the default if it is not set.
    pub fn new() -> io::Result<Self> {
        match std::env::var_os(DISPATCH_VARIABLE) {
            None => Self::named("epoll"),
            Some(name) => Self::named(&name.to_string_lossy()),
        }
    }

    /// The dispatcher of that name.
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

    /// The name of the dispatcher.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Epoll(_) => "epoll",
            Self::Poll(_) => "poll",
        }
    }
}

/// Calls the method of the dispatcher.
macro_rules! dispatcher {
    ($self:expr, $dispatcher:ident => $call:expr) => {
        match $self {
            Dispatcher::Epoll($dispatcher) => $call,
            Dispatcher::Poll($dispatcher) => $call,
        }
    };
}

impl Dispatch for Dispatcher {
    type Link = Link;
    type Waker = DescriptorWaker;

    fn attach(&mut self, link: Link, unread: &[u8]) -> io::Result<SocketId> {
        dispatcher!(self, dispatcher => dispatcher.attach(link, unread))
    }

    fn detach(&mut self, socket: SocketId, returned: &mut Vec<Buffer>) -> Detached<Link> {
        dispatcher!(self, dispatcher => dispatcher.detach(socket, returned))
    }

    fn open_file(&mut self, file: OwnedFd) -> FileId {
        dispatcher!(self, dispatcher => dispatcher.open_file(file))
    }

    fn close_file(&mut self, file: FileId) {
        dispatcher!(self, dispatcher => dispatcher.close_file(file))
    }

    #[inline]
    fn submit(&mut self, op: Op) {
        dispatcher!(self, dispatcher => dispatcher.submit(op))
    }

    #[inline]
    fn next(&mut self, deadline: Option<Instant>) -> io::Result<Completion<Link>> {
        dispatcher!(self, dispatcher => dispatcher.next(deadline))
    }

    fn scratch(&mut self) -> &mut [u8] {
        dispatcher!(self, dispatcher => dispatcher.scratch())
    }

    fn progress(&self, socket: SocketId) -> Progress {
        dispatcher!(self, dispatcher => dispatcher.progress(socket))
    }

    fn pace(&mut self, socket: SocketId, side: Side, pace: Option<Arc<dyn Pace>>) {
        dispatcher!(self, dispatcher => dispatcher.pace(socket, side, pace))
    }

    fn finish_sending(&mut self, socket: SocketId) -> std::io::Result<()> {
        dispatcher!(self, dispatcher => dispatcher.finish_sending(socket))
    }

    fn failure(&self, socket: SocketId) -> Option<String> {
        dispatcher!(self, dispatcher => dispatcher.failure(socket))
    }

    fn link(&self, socket: SocketId) -> &Link {
        dispatcher!(self, dispatcher => dispatcher.link(socket))
    }

    fn now(&self) -> Instant {
        dispatcher!(self, dispatcher => dispatcher.now())
    }

    fn waker(&self) -> DescriptorWaker {
        dispatcher!(self, dispatcher => dispatcher.waker())
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
        let Err(error) = Dispatcher::named("select") else { panic!("no such dispatcher") };
        assert_eq!(error.to_string(), "XDFS_DISPATCH names no dispatcher: 'select'; there are: epoll, poll");
    }
}
