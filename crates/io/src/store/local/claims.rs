//! The part files that are being written here, and those that are just being opened.
//!
//! Opening one reads, syncs and waits for its writer, for as long as a slow disk takes. So the
//! table is locked only for lookups, and the name of the part file is claimed while it is being
//! opened: only two sessions with one transfer wait for each other there.

use super::progress::Progress;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// Device and inode.
pub(super) type Identity = (u64, u64);

/// The part files that are being opened or written in this process.
#[derive(Debug, Default)]
pub(super) struct Claims {
    table: Mutex<ClaimTable>,
    given_back: Condvar,
}

#[derive(Debug, Default)]
struct ClaimTable {
    live: BTreeMap<Identity, Weak<Progress>>,
    claimed: BTreeSet<Vec<u8>>,
}

/// The right to open, take over or remove the part file of one name; released on drop.
#[derive(Debug)]
pub(super) struct Claim<'c> {
    claims: &'c Claims,
    name: Vec<u8>,
}

impl Claims {
    /// Waits until no other session is opening the part file `name`. A thread that has a claim must
    /// not wait.
    pub(super) fn claim(&self, name: &[u8]) -> Claim<'_> {
        let mut table = self.lock();
        while !table.claimed.insert(name.to_vec()) {
            table = self.given_back.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        Claim { claims: self, name: name.to_vec() }
    }

    /// The same without waiting; none if another session is opening it.
    pub(super) fn try_claim(&self, name: &[u8]) -> Option<Claim<'_>> {
        let mine = self.lock().claimed.insert(name.to_vec());
        mine.then(|| Claim { claims: self, name: name.to_vec() })
    }

    /// The progress of the part file with this identity, if it is being written here.
    pub(super) fn live(&self, part: &Identity) -> Option<Arc<Progress>> {
        self.lock().live.get(part).and_then(Weak::upgrade)
    }

    /// Registers it as being written here.
    pub(super) fn add(&self, part: Identity, progress: &Arc<Progress>) {
        let mut table = self.lock();
        table.live.retain(|_, progress| progress.strong_count() > 0);
        table.live.insert(part, Arc::downgrade(progress));
    }

    fn lock(&self) -> MutexGuard<'_, ClaimTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.claims.lock().claimed.remove(&self.name);
        self.claims.given_back.notify_all();
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "sets the scene with a directory of its own")]
mod tests {
    use super::super::LocalStore;
    use super::super::parts::{OpenPart, read};
    use super::super::staging::PartNames;
    use super::*;
    use crate::store::stored_range::{Hashes, StoredRange};
    use crate::store::{Existing, Result, Resume, StageRequest, Store};
    use std::os::fd::OwnedFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::time::{Duration, Instant};
    use tempfile::TempDir;
    use xdfs_proto::base::{RelPath, Timestamp, TransferId};

    /// A store in a directory of the test's own.
    struct Scene {
        _folder: TempDir,
        store: LocalStore,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = LocalStore::open_root(folder.path(), true).unwrap();
            Self { _folder: folder, store }
        }

        fn open(&self, request: &StageRequest) -> Result<OpenPart> {
            self.store.parts.open(&self.store.place(request)?, request)
        }

        /// The progress of the part file of `request`.
        fn live(&self, request: &StageRequest) -> Arc<Progress> {
            let (file, _) = self.part(request);
            let stat = rustix::fs::fstat(&file).unwrap();
            self.store.parts.claims.live(&(stat.st_dev, stat.st_ino)).unwrap()
        }

        /// Part file and journal.
        fn part(&self, request: &StageRequest) -> (OwnedFd, Option<OwnedFd>) {
            let names = PartNames::new(&request.target, request.transfer);
            let directory = self.store.root.top().existing_staging().remove(0).directory;
            let journal = directory.open_own(&names.journal).unwrap().map(|(file, _)| file);
            (directory.open_own(&names.part).unwrap().unwrap().0, journal)
        }
    }

    fn request(target: &str, source: &[u8]) -> StageRequest {
        let (source, owner) = (source.to_vec(), b"anna".to_vec());
        StageRequest {
            target: RelPath::parse(target.as_bytes()).unwrap(),
            size: Some(2 << 20),
            existing: Existing::Replace,
            transfer: TransferId([7; 16]),
            resume: Some(Resume { source, owner, hashed: true, since: Timestamp::new(0, 0), synced: true }),
            base: None,
            holes: false,
        }
    }

    fn until(mut done: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not happen");
            std::thread::yield_now();
        }
    }

    #[test]
    fn who_waits_for_the_disk_of_one_part_keeps_nobody_from_another() {
        let scene = Scene::new();
        let slow = request("slow", b"1");
        let first = scene.open(&slow).unwrap();
        // A write that does not finish.
        let write = first.progress.writer();
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| scene.open(&slow).unwrap().generation);
            until(|| first.progress.is_waited_for());
            let (tells, told) = sync_channel(1);
            let scene = &scene;
            scope.spawn(move || tells.send(scene.open(&request("other", b"1")).is_ok()).unwrap());
            let other = told.recv_timeout(Duration::from_secs(5));
            drop(write);
            assert_eq!(other, Ok(true), "another one is opened meanwhile");
            assert_eq!((first.generation, taking.join().unwrap()), (0, 1));
        });
    }

    #[test]
    fn of_many_that_take_one_part_over_at_once_each_has_a_generation_of_its_own() {
        let scene = Scene::new();
        let asked = request("x", b"1");
        let first = scene.open(&asked).unwrap();
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let taking: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..50).map(|_| scene.open(&asked).unwrap().generation).collect::<Vec<_>>()))
                .collect();
            taking.into_iter().flat_map(|one| one.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert_eq!(all, (1..=200).collect::<Vec<_>>());
        assert_eq!(first.progress.writer().generation, 200);
    }

    /// Does not answer at once when queried for the written ranges.
    #[derive(Debug)]
    struct Asked {
        first: AtomicBool,
        tells: SyncSender<()>,
        goes_on: Mutex<Receiver<()>>,
    }

    impl Hashes for Asked {
        fn noted(&self) -> Vec<StoredRange> {
            if self.first.swap(false, Ordering::Relaxed) {
                self.tells.send(()).unwrap();
                self.goes_on.lock().unwrap().recv().unwrap();
            }
            Vec::new()
        }
    }

    #[test]
    fn a_marker_that_was_begun_gives_no_journal_to_the_part_of_who_took_over() {
        let scene = Scene::new();
        let (old, new) = (request("x", b"old"), request("x", b"new"));
        let stage = scene.store.stage(&old).unwrap();
        stage.write(&[1; 1 << 20], 0).unwrap();
        let (tells, asked) = sync_channel(1);
        let (go, goes_on) = sync_channel(1);
        stage.hashed_by(Arc::new(Asked { first: AtomicBool::new(true), tells, goes_on: Mutex::new(goes_on) }));
        let progress = scene.live(&old);
        let _taken = std::thread::scope(|scope| {
            let marker = scope.spawn(|| stage.checkpoint());
            asked.recv().unwrap();
            let taking = scope.spawn(|| scene.open(&new).unwrap());
            until(|| taking.is_finished() || progress.is_waited_for());
            go.send(()).unwrap();
            let _ = marker.join().unwrap();
            taking.join().unwrap()
        });
        let journal = read(&scene.part(&new).1.unwrap()).unwrap().unwrap();
        assert_eq!(journal.about.source, b"new");
    }
}
