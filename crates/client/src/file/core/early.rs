//! Files that are opened before a program asks for them: many in one round trip, each with a read lease and its first bytes.
//!
//! As long as its lease stands nobody else has changed such a file, so whoever opens it then finds in it what is there.

use super::super::ahead::Ahead;
use super::super::batches::PendingFileReply;
use super::super::changes::Changes;
use super::super::options::OpenOptions;
use super::super::remote::Remote;
use super::lease::{Leasing, told};
use super::{Core, FRAME_BYTES, Shared, lock, opened_of};
use crate::session::Session;
use std::sync::Arc;
use xdfs_proto::base::Error;
use xdfs_proto::lease::LeaseKind;
use xdfs_proto::wire::file::{FileAnswer, FileBatch, FileCall, LeaseCall, ReadRange};

const READ: OpenOptions = OpenOptions::new().read(true);

/// An open that is on its way, and the lease that it asks for.
struct PendingOpen<'a> {
    path: &'a [u8],
    leasing: Leasing,
    reply: PendingFileReply,
}

impl<'a> PendingOpen<'a> {
    fn send(session: &Session, path: &'a [u8], first: u32) -> Option<Self> {
        let mut leasing = Leasing::default();
        // It runs from before its call is sent.
        leasing.ask()?;
        let calls = vec![
            FileCall::Open(READ.call(path)),
            FileCall::Lease(LeaseCall::Ask(LeaseKind::Read)),
            FileCall::Read { ranges: vec![ReadRange { offset: 0, length: first }] },
        ];
        let reply = session.call_file(FileBatch { calls, ..FileBatch::default() }).ok()?;
        Some(Self { path, leasing, reply })
    }
}

impl Core {
    /// Opens files to read in the present session, with their first bytes; none of each that cannot be opened so.
    pub(in crate::file) fn open_early(remote: &Arc<Remote>, paths: &[Vec<u8>], first: u32) -> Vec<Option<Arc<Self>>> {
        let Some(session) = remote.present() else { return paths.iter().map(|_| None).collect() };
        // At most 256 KiB: fits.
        let first = first.min((session.batch_bytes_max() - FRAME_BYTES) as u32);
        let pending: Vec<_> = paths.iter().map(|path| PendingOpen::send(&session, path, first)).collect();
        pending.into_iter().map(|pending| Self::opened_early(remote, &session, pending?, first).ok()).collect()
    }

    fn opened_early(
        remote: &Arc<Remote>,
        session: &Arc<Session>,
        pending: PendingOpen<'_>,
        first: u32,
    ) -> Result<Arc<Self>, Error> {
        let PendingOpen { path, mut leasing, reply } = pending;
        let answered = reply.wait()?;
        let (opened, _) = opened_of(&answered, path)?;
        let mut answers = answered.read()?.into_iter().skip(1);
        let (lease, bytes) = (answers.next(), answers.next());
        match lease.as_ref().and_then(|answer| told(answer.as_ref().ok()?)) {
            Some(told) => leasing.on_answer(told),
            None => leasing.on_lost(),
        }
        let shared = Shared::default();
        let ahead = match bytes {
            Some(Ok(FileAnswer::Read(parts))) => {
                let bytes = parts.first().map(|part| answered.slice(part));
                bytes.map(|bytes| Ahead::of_first(remote, bytes, first, shared.changes.count()))
            }
            _ => None,
        };
        let handle = opened.handle;
        let core = Self::opened(remote, path, &READ, &shared, (Arc::clone(session), opened), ahead.unwrap_or_default());
        *core.leasing() = leasing;
        let core = Arc::new(core);
        remote.keeper().keep(handle, Arc::<Self>::downgrade(&core));
        Ok(core)
    }

    /// A program opens the file. True if the lease stands: what was read is what is there now. The lease is given back, and
    /// nobody waits for that; changes are counted with those of other open files from now on.
    pub(in crate::file) fn take_early(&self, changes: &Changes) -> bool {
        let own = self.changes();
        let count = own.count();
        lock(&self.ahead).count_from(count, changes.count());
        self.share(changes);
        let is_leased = self.lease().is_some_and(|lease| !lease.recalled) && own.count() == count;
        if is_leased && self.end_lease() {
            drop(self.send_lease(LeaseCall::GiveBack));
            return true;
        }
        false
    }
}
