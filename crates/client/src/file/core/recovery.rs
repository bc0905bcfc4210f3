//! An open file whose session was lost, or whose name changed: opened again, if it is still as it was
//! left.

use super::super::remote::{Backoff, Remote, is_lost};
use super::super::unsynced::Change;
use super::{Core, change_number, lock, open_with};
use crate::session::Session;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::file::{FileBatch, FileCall, OpenedFile};

impl Core {
    pub(super) fn reconnect(remote: &Remote, backoff: &mut Backoff) -> Result<Arc<Session>, Error> {
        loop {
            match remote.session() {
                Err(error) if remote.may_retry(&error) || error.kind == ErrorKind::ConnectionLost => {
                    backoff.wait(error)?;
                }
                outcome => return outcome,
            }
        }
    }

    /// Opens the file again in the present session, unless another thread did it meanwhile, and makes
    /// again what may be lost.
    pub(super) fn recover(&self, generation: u64, backoff: &mut Backoff) -> Result<(), Error> {
        let _turn = lock(&self.recovering);
        if lock(&self.connection).generation != generation {
            return Ok(());
        }
        let is_closed = || self.closed.load(Ordering::SeqCst);
        loop {
            if is_closed() {
                return Err(Error::new(ErrorKind::Stale, "the file is closed"));
            }
            let session = Self::reconnect(&self.remote, backoff)?;
            let error = match self.open_again(&session) {
                // It was closed meanwhile, in the session before.
                Ok(()) if is_closed() => {
                    drop(self.start_close());
                    return Ok(());
                }
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if is_lost(&error) {
                self.remote.lost(&session);
            }
            // Another client may have it open in a way that excludes this one.
            if !self.remote.may_retry(&error) && error.kind != ErrorKind::Locked {
                lock(&self.connection).broken = Some(error.clone());
                return Err(error);
            }
            backoff.wait(error)?;
        }
    }

    fn open_again(&self, session: &Arc<Session>) -> Result<(), Error> {
        let before = lock(&self.connection).opened;
        let path = self.path();
        let calls = vec![FileCall::Open(self.options.again(&path, &before))];
        let opened = open_with(session, FileBatch { calls, ..FileBatch::default() }, &path)?;
        let lost = self.to_be_made_again(&opened)?;
        self.lock_again(session, opened.handle)?;
        self.lease_again(session, before.handle, opened.handle);
        let mut last = opened.change;
        for change in &lost {
            // If this session is lost too, the change number may be that of this change.
            lock(&self.connection).in_flight += 1;
            let (handle, calls) = (opened.handle, vec![change.call()]);
            let answered = session.call_file(FileBatch { handle, calls, ..FileBatch::default() })?.wait()?;
            last = self.answer(&answered, "write again", change_number)?;
        }
        let mut connection = lock(&self.connection);
        (connection.session, connection.opened, connection.path) = (Arc::clone(session), opened, path);
        (connection.change, connection.in_flight) = (last, 0);
        connection.generation += 1;
        drop(connection);
        self.changes().add();
        Ok(())
    }

    /// The changes that the server may have lost; an error if the file is not as it was left.
    fn to_be_made_again(&self, opened: &OpenedFile) -> Result<Vec<Change>, Error> {
        let connection = lock(&self.connection);
        let restarted = connection.opened.verifier != opened.verifier;
        let unsynced = if restarted { connection.unsynced.all_made() } else { Vec::new() };
        // A server that lost its power lost times of the file, too: an earlier one is nobody's change.
        let undone = restarted && opened.change < connection.change;
        let differs = connection.change != opened.change && !undone;
        // With an own change on its way the number may be that change's; but a lock must be known to
        // have excluded the others.
        let by_others = differs && connection.in_flight == 0 && !unsynced.is_empty();
        if by_others || (differs && connection.locks.any_is_exclusive()) {
            let text = "somebody else changed the file while its server was lost, or may have done so though it was \
                        locked: what was written and not synced is not written again, and a lock is lost";
            return Err(Error::new(ErrorKind::TargetChanged, text));
        }
        Ok(unsynced)
    }
}
