//! The threads of a tree copy: each takes a request, carries it out in its session and answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::sync::mpsc::SyncSender;

use xdfs_client::tree::Event;
use xdfs_client::{Error, ErrorKind};
use xdfs_gridftp::client::Session;

use super::worker::{Trouble, Worker};
use super::{Queue, Request, Shared, calls, files};

/// Carries out requests until there are no more, or the server is lost.
pub(super) fn work(session: Session, shared: &Shared, queue: &Queue, answer: &SyncSender<Event>) {
    let mut worker = Worker { session, shared };
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, request)) = next else { return worker.session.quit() };
        let is_calls = matches!(*request, Request::Calls { .. });
        // Whatever happens the request is answered: the copy waits for it.
        let event = catch_unwind(AssertUnwindSafe(|| carry_out(&mut worker, number, *request))).unwrap_or_else(|_| {
            let error = Error::new(ErrorKind::Storage, "the thread that did it failed");
            if is_calls { Event::reply(number, Err(error)) } else { Event::Report(number, Err(error)) }
        });
        if answer.try_send(event).is_err() {
            return;
        }
    }
}

fn carry_out(worker: &mut Worker<'_>, number: u64, request: Request) -> Event {
    match request {
        Request::Calls { payload, room } => {
            Event::reply(number, usable(worker, |worker| calls::execute(worker, &payload, room)))
        }
        Request::Send { source, to, options } => {
            Event::Report(number, usable(worker, |worker| files::send(worker, &source, &to, &options)))
        }
        Request::Receive { from, receive } => {
            Event::Report(number, usable(worker, |worker| files::receive(worker, &from, receive)))
        }
    }
}

/// Does something, and gets a new session where this one was broken by what was done: only a
/// server that then cannot be reached is lost.
fn usable<'s, T>(worker: &mut Worker<'s>, act: impl FnOnce(&mut Worker<'s>) -> Result<T, Trouble>) -> Result<T, Error> {
    match act(worker).map_err(|trouble| worker.mended(trouble)) {
        Ok(done) => Ok(done),
        Err(Trouble::Refused(error) | Trouble::Broken(error)) => Err(error),
    }
}
