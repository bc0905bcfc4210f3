//! Stable storage: waits for it, and bounds what is kept because it is not there yet.

use super::writes::{Behind, PendingSync};
use super::{Core, Reply, is_lost, lock};
use std::sync::atomic::Ordering;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::file::{FileAnswer, FileCall, Verifier, machine_start};

/// What is kept to be written again; from there on a write waits for a sync. All files of a server have a bound
/// together, too: a mount may have thousands of them open.
const UNSYNCED_BYTES_MAX: usize = 64 << 20;

/// For less a sync that nobody waits for is not started: many small files would have the server sync all the time.
const SYNC_BESIDE_BYTES_MIN: usize = 4 << 20;

pub(super) fn verifier_of(answer: &FileAnswer<'_>) -> Option<Verifier> {
    match answer {
        FileAnswer::Synced { verifier } => Some(*verifier),
        _ => None,
    }
}

impl Core {
    /// Waits until everything changed so far is on stable storage.
    pub(in crate::file) fn sync(&self, data_only: bool) -> Result<(), Error> {
        self.finish_sync(&mut lock(&self.behind));
        self.settle()?;
        self.must_have_lost_nothing()?;
        self.sync_settled(data_only)
    }

    fn sync_settled(&self, data_only: bool) -> Result<(), Error> {
        let mut backoff = self.remote.backoff();
        loop {
            let last = lock(&self.connection).unsynced.last_made();
            let reply = self.exchange([0; 16], vec![FileCall::Sync { data_only }])?;
            if self.synced(last, &reply)? {
                return Ok(());
            }
            // The server restarted, and what it may have lost was written again after that.
            let text = format!("the server of '{}' restarts again and again", self.path().escape_ascii());
            backoff.wait(Error::new(ErrorKind::ConnectionLost, text))?;
        }
    }

    /// The answer to a sync of the changes up to `last`; false if its server is gone, or one restarted meanwhile.
    fn synced(&self, last: u64, reply: &Reply) -> Result<bool, Error> {
        let told = self.answer(&reply.answered, "sync", verifier_of)?;
        Ok(self.counted(|connection| {
            let same = connection.opened.verifier == told && reply.generation >= connection.server_since;
            if same {
                connection.unsynced.synced(last);
            }
            same
        }))
    }

    /// Whether more is kept of this file than so many bytes, or of all files of the server than their bound over
    /// `divisor`; of a file that keeps less than `least` it does not matter.
    fn keeps_more(&self, own_max: usize, divisor: usize, least: usize) -> bool {
        let own = lock(&self.connection).unsynced.bytes();
        let all = self.remote.unsynced.load(Ordering::Relaxed);
        own > own_max || (own >= least && all > self.remote.memory() / divisor)
    }

    /// Whether something that was changed is not known to be on stable storage.
    pub(in crate::file) fn keeps_unsynced(&self) -> bool {
        !lock(&self.connection).unsynced.is_empty()
    }

    pub(in crate::file) fn machine_start(&self) -> [u8; 8] {
        machine_start(lock(&self.connection).opened.verifier)
    }

    fn keeps_too_much(&self) -> bool {
        self.keeps_more(UNSYNCED_BYTES_MAX, 1, 1)
    }

    /// Starts a sync long before the bound is reached, so that who writes seldom waits for one.
    pub(super) fn sync_beside(&self, behind: &mut Behind) {
        let has_come = |pending: &mut PendingSync| pending.sent.pending.has_come();
        if behind.syncing.as_mut().is_some_and(has_come) {
            self.finish_sync(behind);
        }
        if behind.syncing.is_none() && self.keeps_more(UNSYNCED_BYTES_MAX / 4, 4, SYNC_BESIDE_BYTES_MIN) {
            let last = lock(&self.connection).unsynced.last_made();
            let sent = self.start(vec![FileCall::Sync { data_only: true }]);
            behind.syncing = sent.map(|sent| PendingSync { last, sent });
        }
    }

    /// Waits for the sync that is on its way. Without an answer it is as if there was none; an error of the disk is
    /// reported by the next call, since a second sync may succeed and prove nothing.
    fn finish_sync(&self, behind: &mut Behind) {
        let Some(PendingSync { last, sent }) = behind.syncing.take() else { return };
        let Ok(reply) = self.wait(sent) else { return };
        if let Err(error) = self.synced(last, &reply) {
            self.fail_sync(behind, error);
        }
    }

    /// The next call reports it, and every sync.
    fn fail_sync(&self, behind: &mut Behind, error: Error) {
        if error.kind != ErrorKind::Stale {
            self.lose(&error);
            behind.fail(error);
        }
    }

    /// Syncs what has been answered, for a call that is about something else; false if that failed.
    pub(super) fn sync_quietly(&self) -> bool {
        let synced = self.sync_settled(true);
        match synced {
            Ok(()) => true,
            Err(error) => {
                // Without an answer it is as if nobody had asked.
                if !is_lost(&error) {
                    self.fail_sync(&mut lock(&self.behind), error);
                }
                false
            }
        }
    }

    /// Waits for a sync if too much is kept.
    pub(super) fn hold_to_bounds(&self) -> Result<(), Error> {
        if !self.keeps_too_much() {
            return Ok(());
        }
        self.finish_sync(&mut lock(&self.behind));
        if !self.keeps_too_much() {
            return Ok(());
        }
        // What was lost before is told by syncs; here room is made.
        self.settle()?;
        self.sync_settled(true)
    }
}
