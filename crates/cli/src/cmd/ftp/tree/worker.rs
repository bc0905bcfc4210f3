//! The threads of a tree copy: each takes a request, carries it out in its session and answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::sync::mpsc::SyncSender;

use xdfs_client::tree::Event;
use xdfs_client::{Error, ErrorKind};
use xdfs_gridftp::client::{self, Session};

use super::super::error_of;
use super::{Queue, Request, Shared, calls, files};

/// Why something of a request was not done.
pub(super) enum Trouble {
    /// This one thing; the session goes on.
    Refused(Error),
    /// The session is of no more use. Whether a new one would do better is the kind's.
    Broken(Error),
}

impl From<client::Error> for Trouble {
    fn from(error: client::Error) -> Self {
        match error {
            client::Error::Refused { .. } | client::Error::ListingTruncated(_) => Self::Refused(error_of(error)),
            // Refused before it was sent.
            client::Error::Control(xdfs_gridftp::control::ControlError::Name(_)) => Self::Refused(error_of(error)),
            error => Self::Broken(error_of(error)),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// A session of a thread, and what the threads share.
pub(super) struct Worker<'s> {
    pub(super) session: Session,
    pub(super) shared: &'s Shared,
}

/// Carries out requests until there are no more, or the server is lost.
pub(super) fn work(session: Session, shared: &Shared, queue: &Queue, answer: &SyncSender<Event>) {
    let mut worker = Worker { session, shared };
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, request)) = next else { return worker.session.quit() };
        let is_calls = matches!(*request, Request::Calls { .. });
        // Whatever happens the request is answered: the copy waits for it.
        let event = catch_unwind(AssertUnwindSafe(|| worker.carry_out(number, *request))).unwrap_or_else(|_| {
            let error = Error::new(ErrorKind::Storage, "the thread that did it failed");
            if is_calls { Event::reply(number, Err(error)) } else { Event::Report(number, Err(error)) }
        });
        if answer.try_send(event).is_err() {
            return;
        }
    }
}

impl Worker<'_> {
    fn carry_out(&mut self, number: u64, request: Request) -> Event {
        match request {
            Request::Calls { payload, room } => {
                Event::reply(number, self.usable(|worker| calls::execute(worker, &payload, room)))
            }
            Request::Send { source, to, options } => {
                Event::Report(number, self.usable(|worker| files::send(worker, &source, &to, &options)))
            }
            Request::Receive { from, receive } => {
                Event::Report(number, self.usable(|worker| files::receive(worker, &from, receive)))
            }
        }
    }

    /// Does something, and gets a new session where this one was broken by what was done: only a
    /// server that then cannot be reached is lost.
    fn usable<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, Trouble>) -> Result<T, Error> {
        match act(self).map_err(|trouble| self.mended(trouble)) {
            Ok(done) => Ok(done),
            Err(Trouble::Refused(error) | Trouble::Broken(error)) => Err(error),
        }
    }

    /// Trouble with one file breaks a session in the middle of a transfer, and says nothing of the
    /// others: with a new session it is a refusal. What is wrong with the server itself stays.
    pub(super) fn mended(&mut self, trouble: Trouble) -> Trouble {
        let Trouble::Broken(error) = trouble else { return trouble };
        let is_of_one_file = matches!(
            error.kind,
            ErrorKind::SourceChanged | ErrorKind::Cancelled | ErrorKind::NoSpace | ErrorKind::Storage
        );
        match self.shared.opener.open() {
            Ok(session) => {
                self.session = session;
                if is_of_one_file { Trouble::Refused(error) } else { Trouble::Broken(error) }
            }
            Err((failure, kind)) if is_of_one_file => Trouble::Broken(Error::new(kind, failure.message)),
            Err(_) => Trouble::Broken(error),
        }
    }

    /// The server's path of a name of the copy: `root/...` or `home/...`.
    pub(super) fn path(&self, name: &[u8]) -> Vec<u8> {
        let (export, below) = match name.iter().position(|&byte| byte == b'/') {
            Some(slash) => (&name[..slash], &name[slash + 1..]),
            None => (name, &b""[..]),
        };
        match export == crate::url::FROM_ROOT.as_bytes() {
            true => [b"/", below].concat(),
            false => self.session.below_home(below),
        }
    }
}
