//! Changes whose answer may be lost: made once, or nobody can tell.

use super::File;
use super::core::{Core, Shared};
use super::flight::{Flight, Flown};
use super::options::OpenOptions;
use super::remote::Remote;
use crate::calls::{Batch, Reply};
use crate::retry::is_lost;
use crate::session::Session;
use std::sync::Arc;
use xdfs_proto::base::Error;

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
