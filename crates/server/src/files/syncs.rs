//! Stable storage. The kernel tells once that it could not write, and takes what it lost for written: a second sync
//! succeeds and proves nothing. So everybody who had the file open then is told at each sync until he closes it.

use super::call::{FileCalls, OpenedHandle};
use super::{Handle, NameSync, Object, OpenFiles, SessionFiles, lock};
use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use xdfs_io::store::boot;
use xdfs_proto::base::{Error, ErrorKind, TransferId};
use xdfs_proto::wire::file::{FileAnswer, FileIdentity, Verifier};
use xdfs_secure::{naming, random};

/// Files whose sync failed: most that are remembered for handles that are opened again in another session, and for how
/// long, as for a file's creator.
const FAILED_MAX: usize = 1024;
const FAILED_KEPT: Duration = super::CREATED_KEPT;

/// Another value for each start of the server, in which [`machine_start`] finds that of the machine.
///
/// [`machine_start`]: xdfs_proto::wire::file::machine_start
pub(super) fn verifier() -> Result<Verifier, Error> {
    let (mut verifier, boot): (Verifier, _) = (random::array()?, boot::id());
    if boot != [0; 16] {
        // Nobody needs to know the id itself.
        let TransferId(start) = naming::transfer_id(&[b"start of the machine", &boot]);
        verifier[..8].copy_from_slice(&start[..8]);
    }
    Ok(verifier)
}

/// What of a handle's file is on stable storage.
pub(super) struct SyncState {
    /// Its name. Held while it is synced: of two at the same time the kernel tells one.
    name: Mutex<NameSync>,
    /// Why not all that was written is on stable storage, and never will be.
    failed: OnceLock<Error>,
}

impl SyncState {
    pub(super) fn new(name: NameSync) -> Self {
        Self { name: Mutex::new(name), failed: OnceLock::new() }
    }

    /// The first error stays.
    fn fail(&self, error: Error) {
        let _ = self.failed.set(error);
    }

    fn must_have_lost_nothing(&self) -> Result<(), Error> {
        self.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// The files whose sync failed; the oldest first.
#[derive(Default)]
pub(super) struct FailedSyncs(Mutex<VecDeque<FailedSync>>);

struct FailedSync {
    identity: FileIdentity,
    error: Error,
    since: Instant,
}

impl FailedSyncs {
    fn add(&self, identity: FileIdentity, error: Error) {
        let mut all = lock(&self.0);
        all.retain(|one| one.identity != identity && one.since.elapsed() < FAILED_KEPT);
        while all.len() >= FAILED_MAX {
            all.pop_front();
        }
        all.push_back(FailedSync { identity, error, since: Instant::now() });
    }

    fn of(&self, identity: &FileIdentity) -> Option<Error> {
        let all = lock(&self.0);
        let found = all.iter().find(|one| one.identity == *identity && one.since.elapsed() < FAILED_KEPT);
        found.map(|one| one.error.clone())
    }
}

impl OpenFiles {
    /// The kernel did not write all of this file.
    fn sync_failed(&self, identity: FileIdentity, error: &Error) {
        self.failed_syncs.add(identity, error.clone());
        for handle in self.handles_of(&identity) {
            if let Object::File(file) = &handle.object {
                file.sync.fail(error.clone());
            }
        }
    }
}

impl SessionFiles {
    /// The handle takes the place of one that another session had, which may have written what was lost. It is known
    /// already: what fails from now on is told to it.
    pub(super) fn inherit_failed_sync(&self, handle: &Handle) {
        if let Object::File(file) = &handle.object
            && let Some(error) = self.server.failed_syncs.of(&handle.opened.identity)
        {
            file.sync.fail(error);
        }
    }
}

/// Whether a directory cannot be synced because of what it is, or whose.
fn is_denied(error: &Error) -> bool {
    use ErrorKind::{NotDirectory, NotRegular, PermissionDenied, Refused, Unsupported};
    matches!(error.kind, PermissionDenied | Refused | NotDirectory | NotRegular | Unsupported)
}

impl FileCalls {
    pub(super) fn sync(&self, data_only: bool) -> Result<FileAnswer<'static>, Error> {
        let OpenedHandle { handle, file, at } = self.opened_anyhow()?;
        let state = &handle.file()?.sync;
        let mut name = lock(&state.name);
        state.must_have_lost_nothing()?;
        let lost = |error: &Error| self.caller.files.server.sync_failed(handle.opened.identity, error);
        file.sync(data_only).inspect_err(lost)?;
        if *name != NameSync::Synced
            && let Some(parent) = at.path().parent()
        {
            match at.store().tree().and_then(|tree| tree.sync(&parent)) {
                Err(error) if error.kind == ErrorKind::Storage => {
                    lost(&error);
                    return Err(error);
                }
                // A directory that is not found has lost nothing.
                Err(error) if error.kind == ErrorKind::NotFound => {}
                // A file that was opened again may lie where its user may do no more than that.
                Err(error) if *name == NameSync::Unknown && is_denied(&error) => {}
                Err(error) => return Err(error),
                Ok(()) => {}
            }
            *name = NameSync::Synced;
        }
        // Another handle of the file may have been told instead.
        state.must_have_lost_nothing()?;
        Ok(FileAnswer::Synced { verifier: self.caller.files.server.verifier })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failed_syncs_are_remembered_by_file() {
        let failed = FailedSyncs::default();
        let identity = |number: usize| {
            let mut identity = [0; 24];
            identity[..8].copy_from_slice(&number.to_be_bytes());
            identity
        };
        for number in 0..=FAILED_MAX {
            failed.add(identity(number), Error::new(ErrorKind::Storage, number.to_string()));
        }
        failed.add(identity(7), Error::new(ErrorKind::Storage, "again"));
        let told = |number| failed.of(&identity(number)).map(|error| error.message.clone());
        assert_eq!((told(0), told(1)), (None, Some("1".to_owned())));
        assert_eq!(told(7).as_deref(), Some("again"));
        assert_eq!(lock(&failed.0).len(), FAILED_MAX);
    }
}
