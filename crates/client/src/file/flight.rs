//! Changes whose answer may be lost: made once, or nobody can tell.

use std::time::{Duration, Instant};

use xdfs_proto::base::{Error, ErrorKind};

use super::File;
use super::core::{Core, Shared};
use super::options::OpenOptions;
use super::remote::Remote;
use crate::calls::{Batch, Reply};
use crate::retry::is_lost;
use crate::session::Session;
use std::sync::Arc;

/// When a request was on its way whose answer was lost. If a server executed it, then at that time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flight {
    /// It was sent.
    pub sent: Instant,
    /// The last session that it was sent in was lost.
    pub lost: Instant,
}

/// What became of a [`Batch::once`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Changed {
    /// The server answered.
    Answered(Reply),
    /// Its answer was lost, and the server that is there now knows nothing of it. Look before you
    /// send it again.
    Unknown(Flight),
}

/// What became of an open that makes a file, or cuts it.
#[derive(Debug)]
pub enum Opened {
    /// The file is open.
    File(File),
    /// As for [`Changed::Unknown`].
    Unknown(Flight),
}

/// What is known of a request that may be sent several times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Flown(Option<Flight>);

impl Flown {
    /// It is handed to a session.
    pub(super) fn sent(&mut self) {
        let now = Instant::now();
        self.0.get_or_insert(Flight { sent: now, lost: now });
    }

    /// The session that had it is lost.
    pub(super) fn lost(&mut self) {
        self.0.iter_mut().for_each(|flight| flight.lost = Instant::now());
    }

    /// How long ago it was sent first, if it was.
    pub(super) fn age(self) -> Option<Duration> {
        self.0.map(|flight| flight.sent.elapsed())
    }

    /// When it was on its way, if that is all that `error` leaves to tell.
    pub(super) fn unknown(self, error: &Error) -> Option<Flight> {
        self.0.filter(|_| error.kind == ErrorKind::UnknownOutcome)
    }
}

impl Remote {
    /// Makes the calls of a [`Batch::once`], in another session if this one is lost.
    pub fn change(&self, batch: &Batch) -> Result<Changed, Error> {
        let mut flown = Flown::default();
        match self.fly(batch, &mut flown) {
            Ok(reply) => Ok(Changed::Answered(reply)),
            Err(error) => flown.unknown(&error).map(Changed::Unknown).ok_or(error),
        }
    }

    /// Makes the calls of a batch, in another session if this one is lost. A batch that is not one of
    /// [`Batch::once`] may be executed twice; its age has no meaning.
    pub fn call(&self, batch: &Batch) -> Result<Reply, Error> {
        self.fly(batch, &mut Flown::default())
    }

    fn fly(&self, batch: &Batch, flown: &mut Flown) -> Result<Reply, Error> {
        self.run(|session: &Session| {
            // A session that ended already has not sent anything.
            let pending = match flown.age() {
                Some(age) => session.call(&batch.again(age))?,
                None => session.call(batch)?,
            };
            flown.sent();
            let reply = pending.wait();
            if reply.as_ref().is_err_and(is_lost) {
                flown.lost();
            }
            reply
        })
    }
}

impl File {
    /// Opens a file as [`File::open`] does, and tells when nobody knows whether it was made or cut.
    pub fn open_known(remote: &Arc<Remote>, path: impl AsRef<[u8]>, options: &OpenOptions) -> Result<Opened, Error> {
        let mut flown = Flown::default();
        match Core::open(remote, path.as_ref(), options, &Shared::default(), &mut flown) {
            Ok(core) => Ok(Opened::File(Self::of(core))),
            Err(error) => flown.unknown(&error).map(Opened::Unknown).ok_or(error),
        }
    }
}
