//! Bounds of what one user can have open.
#![allow(clippy::disallowed_methods, reason = "sets the scene with a directory of its own")]

use super::call::Caller;
use super::execution::Execution;
use super::*;
use crate::authorise::{Authority, Export};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::task::Poll;
use xdfs_engine::blocking::Slice;
use xdfs_io::store::{LocalStore, Store};
use xdfs_proto::base::{Extent, Level, RelPath};
use xdfs_proto::lease::{Access, LeaseAnswer, LeaseKind};
use xdfs_proto::range_locks::RangeLock;
use xdfs_proto::wire::file::{FileBatch, FileCall, FileReply, LeaseCall};

fn principal(user: &str, method: Method) -> Principal {
    Principal { user: user.to_owned(), method, key: None, scope: None }
}

struct Scene {
    server: Arc<OpenFiles>,
    store: LocalStore,
    scratch: tempfile::TempDir,
}

impl Scene {
    fn new(descriptors: usize) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let store = LocalStore::open_root(scratch.path(), true).unwrap();
        Self { server: Arc::new(OpenFiles::new(descriptors).unwrap()), store, scratch }
    }

    fn file(&self) -> Arc<OpenFile> {
        let request = OpenRequest { write: true, create: true, mode: 0o600, ..OpenRequest::default() };
        Arc::new(self.store.open_file(&RelPath::parse(b"f").unwrap(), &request).unwrap().0)
    }

    /// Descriptors of the file such as a child has when it was just forked: they share this process's locks.
    fn descriptors_of_child(&self) -> Vec<OwnedFd> {
        let process = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let entries = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
        let file = self.scratch.path().canonicalize().unwrap().join("f");
        let own = entries.filter(|entry| std::fs::read_link(entry).is_ok_and(|to| to == file));
        let number = |entry: PathBuf| entry.file_name().unwrap().to_str().unwrap().parse().unwrap();
        own.map(|entry| pidfd_getfd(&process, number(entry), PidfdGetfdFlags::empty()).unwrap()).collect()
    }

    fn handle(&self, id: u64, user: &Arc<str>) -> Arc<Handle> {
        self.handle_shown(id, user, user)
    }

    fn handle_shown(&self, id: u64, user: &Arc<str>, shown: &str) -> Arc<Handle> {
        self.handle_in(Root::NONE, id, user, shown)
    }

    fn handle_in(&self, root: Root, id: u64, user: &Arc<str>, shown: &str) -> Arc<Handle> {
        let sharing = Sharing { write: true, ..Sharing::default() };
        assert!(lock(&self.server.shares).open(&[7; 24], sharing));
        let reserved = self.server.reserve(user, 6).unwrap();
        let session = self.session(1, shown);
        let opened = OpenState::new(b"data/f", root, [7; 24], sharing, false);
        let handle = Arc::new(Handle::new(&session, id, opened, Object::file(NameSync::Synced), reserved));
        handle.keep(self.file());
        handle
    }

    /// A session of this user, who did not log in if the name is empty.
    fn session(&self, number: u8, user: &str) -> SessionFiles {
        let method = if user.is_empty() { Method::Anonymous } else { Method::Key };
        SessionFiles::new(&self.server, SessionId([number; 16]), &Arc::new(principal(user, method)))
    }

    fn is_open(&self, handle: &Handle) -> bool {
        lock(&self.server.descriptors).is_open(handle.id)
    }

    fn open(&self) -> usize {
        lock(&self.server.descriptors).len()
    }
}

#[test]
fn a_user_keeps_a_quarter_of_the_descriptors_open_those_used_last() {
    let scene = Scene::new(16);
    let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob".into());
    let first = scene.handle(1, &bob);
    let handles: Vec<_> = (2..10).map(|id| scene.handle(id, &ada)).collect();
    assert!(first.descriptor().is_some(), "another user closes nothing of his");
    let open = |handles: &[Arc<Handle>]| handles.iter().filter(|one| scene.is_open(one)).count();
    assert_eq!((open(&handles), open(&handles[4..]), scene.open()), (4, 4, 5));
    assert!(handles[4].descriptor().is_some());
    handles[0].keep(scene.file());
    assert!(scene.is_open(&handles[4]), "it was used, and the next one is closed");
    assert!(!scene.is_open(&handles[5]));
    drop((first, handles));
    assert_eq!(scene.open(), 0);
    assert!(lock(&scene.server.usage).is_empty() && *lock(&scene.server.shares) == Shares::default());
}

#[test]
fn all_users_together_have_no_more_descriptors_than_the_server() {
    let scene = Scene::new(8);
    let handles: Vec<_> = (0..20).map(|id| scene.handle(id, &format!("user {id}").into())).collect();
    assert_eq!(scene.open(), 8);
    assert_eq!(handles.iter().filter(|one| scene.is_open(one)).count(), 8);
}

#[test]
fn handles_and_the_memory_of_their_paths_are_bounded_for_each_user() {
    let scene = Scene::new(4);
    let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob".into());
    let many: Vec<_> = (0..HANDLES_MAX).map(|_| scene.server.reserve(&ada, 10).unwrap()).collect();
    let refused = |user, bytes| scene.server.reserve(user, bytes).err().map(|error| error.kind);
    assert_eq!(refused(&ada, 10), Some(ErrorKind::LimitExceeded));
    assert_eq!(refused(&bob, 10), None);
    drop(many);
    let long: Vec<_> = std::iter::from_fn(|| scene.server.reserve(&ada, 32_768).ok()).take(HANDLES_MAX).collect();
    assert!(long.len() < 520, "{} paths of 32 KiB", long.len());
}

#[test]
fn a_handle_is_taken_over_by_its_own_user_and_nobody_else() {
    let scene = Scene::new(4);
    let ada: Arc<str> = "ada".into();
    let (handle, session) = (scene.handle(1, &ada), scene.session(1, "ada"));
    session.adopt(&handle);
    let retired = || *handle.retired.read().unwrap();
    scene.server.take_over(1, "bob").unwrap();
    scene.server.take_over(2, "ada").unwrap();
    assert!(!retired());
    scene.server.take_over(1, "ada").unwrap();
    assert!(retired() && !scene.is_open(&handle));
    assert_eq!(*lock(&scene.server.shares), Shares::default(), "it denies nothing any more");
    drop((session, handle));
    assert!(lock(&scene.server.handles).is_empty());
}

/// The export of the scene's files.
fn export(directory: &std::path::Path) -> Export {
    Export::open_to_all("data", Arc::new(LocalStore::open_root(directory, true).unwrap()), true)
}

#[test]
fn closing_what_a_call_still_uses_keeps_nobody_from_other_files() {
    let scene = Scene::new(4);
    let ada: Arc<str> = "ada".into();
    let (handle, session) =
        (scene.handle_in(export(scene.scratch.path()).root(), 1, &ada, "ada"), scene.session(1, "ada"));
    session.adopt(&handle);
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = Authority::new(vec![export(elsewhere.path())], Level::Clear);
    let used = handle.retired.read().unwrap();
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| scene.server.close_unfounded(&moved));
        let until = Instant::now() + Duration::from_secs(30);
        // Whoever waits to close it lets no other call begin.
        while handle.retired.try_read().is_ok() {
            assert!(Instant::now() < until && !closing.is_finished(), "the call is waited for");
            std::thread::yield_now();
        }
        assert!(scene.server.handles.try_lock().is_ok(), "others open and close files");
        drop(used);
    });
    assert!(*handle.retired.read().unwrap());
}

#[test]
fn a_call_that_hangs_keeps_no_other_file_open_that_must_be_closed() {
    let scene = Scene::new(32);
    let (ada, root): (Arc<str>, _) = ("ada".into(), export(scene.scratch.path()).root());
    let session = scene.session(1, "ada");
    let handles: Vec<_> = (1..6).map(|id| scene.handle_in(root, id, &ada, "ada")).collect();
    handles.iter().for_each(|handle| session.adopt(handle));
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = Authority::new(vec![export(elsewhere.path())], Level::Clear);
    let mut used: Vec<_> = handles.iter().map(|handle| handle.retired.read().unwrap()).collect();
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| scene.server.close_unfounded(&moved));
        // Whichever of them is waited for first, another one hangs before it or behind.
        let hangs = [used.remove(0), used.pop().unwrap()];
        drop(used);
        let until = Instant::now() + Duration::from_secs(30);
        while scene.open() > hangs.len() {
            assert!(Instant::now() < until, "{} are open", scene.open());
            std::thread::yield_now();
        }
        // It waits for both.
        let waits = || [&handles[0], &handles[4]].iter().all(|handle| handle.is_awaited());
        while !waits() {
            assert!(Instant::now() < until, "nobody waits");
            std::thread::yield_now();
        }
        assert!(!closing.is_finished());
        // Another reload has nothing more to wait for.
        let again = scope.spawn(|| scene.server.close_unfounded(&moved));
        while !again.is_finished() {
            assert!(Instant::now() < until, "it waits for the same once more");
            std::thread::yield_now();
        }
        drop(hangs);
    });
    assert_eq!(scene.open(), 0);
}

#[test]
fn handles_of_other_sessions_closed_ones_and_made_up_ones_are_stale() {
    let scene = Scene::new(4);
    let ada: Arc<str> = "ada".into();
    let (own, other) = (scene.session(1, "ada"), scene.session(2, "ada"));
    own.adopt(&scene.handle(1, &ada));
    let kind = |session: &SessionFiles, id| session.handle(id).err().map(|error| error.kind);
    assert_eq!(kind(&own, 1), None);
    assert_eq!(kind(&other, 1), Some(ErrorKind::Stale), "of the same user, in another session");
    assert_eq!(other.close(1).err().map(|error| error.kind), Some(ErrorKind::Stale));
    for made_up in [0, 2, u64::MAX, 1 << 61] {
        assert_eq!(kind(&own, made_up), Some(ErrorKind::Stale), "{made_up}");
    }
    own.close(1).unwrap();
    assert_eq!(kind(&own, 1), Some(ErrorKind::Stale), "closed");
}

#[test]
fn numbers_of_handles_are_never_zero_and_differ() {
    let scene = Scene::new(4);
    let session = scene.session(1, "ada");
    let ids: std::collections::BTreeSet<u64> = (0..1000).map(|_| session.next_id().unwrap()).collect();
    assert!(ids.len() == 1000 && !ids.contains(&0) && ids.iter().all(|id| *id < 1 << 62));
    assert_eq!(session.handle(*ids.first().unwrap()).err().map(|error| error.kind), Some(ErrorKind::Stale));
}

#[test]
fn a_locked_file_stays_open_and_a_user_locks_a_bounded_number() {
    let scene = Scene::new(16);
    let ada: Arc<str> = "ada".into();
    let handles: Vec<_> = (1..4).map(|id| scene.handle(id, &ada)).collect();
    let lock_it = |at: usize| handles[at].lock(&handles[at].descriptor().unwrap(), false, false);
    assert_eq!((lock_it(0), lock_it(1)), (Ok(()), Ok(())));
    assert_eq!(lock_it(2).map_err(|error| error.kind), Err(ErrorKind::LimitExceeded));
    let more: Vec<_> = (10..30).map(|id| scene.handle(id, &ada)).collect();
    let is_open = |at: usize| scene.is_open(&handles[at]);
    assert_eq!((is_open(0), is_open(1), is_open(2)), (true, true, false));
    handles[0].unlock().unwrap();
    assert!(more[19].lock(&more[19].descriptor().unwrap(), false, false).is_ok(), "there is room for another lock");
    let others: Vec<_> = (40..50).map(|id| scene.handle(id, &ada)).collect();
    assert!(!is_open(0), "it is closed again as others are");
    drop((more, others, handles));
    assert_eq!(scene.open(), 0);
    assert!(scene.server.slots.take(&ada, false).is_ok(), "no lock is left");
}

#[test]
fn all_visitors_together_leave_a_quarter_of_the_locks_and_pipes_to_those_who_logged_in() {
    let scene = Scene::new(16);
    let visitors: Vec<_> =
        (0..5).map(|one| principal(&format!("anonymous@192.0.2.{one}"), Method::Anonymous)).collect();
    let of_visitors: Vec<_> = visitors.iter().filter_map(|one| scene.server.slots.take_for(one).ok()).collect();
    let refused = |result: Result<(), Error>| result.err().map(|error| error.kind);
    let locked = |id, user: &str, shown| {
        let handle = scene.handle_shown(id, &user.into(), shown);
        let locked = handle.lock(&handle.descriptor().unwrap(), false, false);
        (handle, refused(locked))
    };
    let (sixth, seventh) = (locked(1, "anonymous@192.0.2.6", ""), locked(2, "anonymous@192.0.2.7", ""));
    assert_eq!((of_visitors.len(), sixth.1, seventh.1), (5, None, Some(ErrorKind::LimitExceeded)));
    let own = locked(3, "ada", "ada");
    assert_eq!((own.1, scene.server.slots.take_for(&principal("bob", Method::Key)).err()), (None, None));
    drop((of_visitors, sixth, own));
    let again: Vec<_> = visitors.iter().filter_map(|one| scene.server.slots.take_for(one).ok()).collect();
    assert_eq!(again.len(), 5, "each that was given back can be had again");
}

#[test]
fn a_lock_stays_whatever_is_opened_and_closed_beside_it() {
    let scene = Scene::new(4);
    let ada: Arc<str> = "ada".into();
    let (handle, local) = (scene.handle(1, &ada), scene.file());
    // Its descriptor was closed; two calls opened the file again, and one of them locks it.
    let _other = scene.handle(2, &ada);
    assert!(!scene.is_open(&handle));
    let (reads, locks) = (scene.file(), scene.file());
    handle.lock(&locks, true, false).unwrap();
    drop(locks);
    handle.keep(reads);
    assert_eq!(local.lock(true), Ok(false), "the descriptor of the lock is still open");
    assert_eq!(handle.lock(&scene.file(), false, false), Ok(()), "its own lock excludes nobody but others");
    assert_eq!((local.lock(true), local.lock(false)), (Ok(false), Ok(true)), "it is shared now");
    assert_eq!(handle.lock(&scene.file(), true, false).map_err(|error| error.kind), Err(ErrorKind::Locked));
    assert_eq!(local.lock(true), Ok(true), "nothing is left of a lock that was not changed");
    local.unlock().unwrap();
    handle.lock(&scene.file(), true, false).unwrap();
    handle.unlock().unwrap();
    assert_eq!(local.lock(true), Ok(true));
    drop(handle);
}

#[test]
fn locks_end_with_their_handle_whoever_else_has_the_descriptors() {
    let scene = Scene::new(16);
    let ada: Arc<str> = "ada".into();
    let (handle, local) = (scene.handle(1, &ada), scene.file());
    let range = Extent::new(0, 10).unwrap();
    let wanted = RangeLock { range, exclusive: true };
    let beside = || Ok(Arc::into_inner(scene.file()).unwrap());
    handle.lock_range([1; 8], wanted, false, beside).unwrap();
    handle.lock(&scene.file(), true, false).unwrap();
    // As a child has them that was just forked.
    let of_child = scene.descriptors_of_child();
    assert_eq!(of_child.len(), 3, "of the lock, of the range, and the local one");
    assert_eq!((local.lock(true), local.lock_range(range, true)), (Ok(false), Ok(false)));
    drop(handle);
    assert_eq!((local.lock(true), local.lock_range(range, true)), (Ok(true), Ok(true)));
}

#[test]
fn a_file_stays_its_creators_until_he_closes_it_and_nobody_elses() {
    let scene = Scene::new(4);
    let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob".into());
    let session = scene.session(1, "ada");
    let create = |id| {
        let handle = scene.handle(id, &ada);
        handle.opened.own.store(true, Ordering::Relaxed);
        session.adopt(&handle);
    };
    let before = |handle| OpenedBefore { handle, identity: [7; 24] };
    [1, 2].into_iter().for_each(create);
    let own = |id, user: &Arc<str>| scene.server.is_own(before(id), user);
    assert!(own(1, &ada) && !own(1, &bob) && !own(9, &ada));
    drop(session.close(1));
    assert!(!own(1, &ada), "it was closed");
    drop(session);
    assert!(own(2, &ada) && !own(2, &bob), "its session was lost");
    assert!(!scene.server.is_own(OpenedBefore { handle: 2, identity: [8; 24] }, &ada), "another file has its name");
    for id in 0..2 * CREATED_MAX as u64 {
        let created = Created { handle: id, identity: [7; 24], since: Instant::now() };
        scene.server.remember_created(&bob, created);
    }
    assert_eq!(lock(&scene.server.created)[&bob].len(), CREATED_MAX);
    assert!(own(2, &ada), "what one user creates takes nobody else's place");
    for number in 0..2 * CREATORS_MAX {
        let created = Created { handle: 1, identity: [7; 24], since: Instant::now() };
        scene.server.remember_created(&number.to_string().into(), created);
    }
    assert_eq!(lock(&scene.server.created).len(), CREATORS_MAX);
}

/// A slice in which one call is executed.
fn no_time() -> Slice {
    let slice = Slice::start();
    while !slice.is_over() {
        std::thread::yield_now();
    }
    slice
}

/// A file with a write lease of this time, whose session executes three writes under it: the statuses, with what is done
/// behind the first two slices.
fn written_under_a_lease(
    time: Duration,
    mut behind: impl FnMut(usize, &Arc<OpenFiles>, &Handle),
) -> (Vec<Option<ErrorKind>>, Vec<u8>) {
    let mut scene = Scene::new(16);
    let leases = Leases::new(time, false, false, Box::new(|_, _| {}));
    scene.server = Arc::new(OpenFiles::new(16).unwrap().with_leases(leases));
    let (handle, files) = (scene.handle(1, &"ada".into()), Arc::new(scene.session(1, "ada")));
    files.adopt(&handle);
    let caller = Caller {
        files,
        authority: Arc::new(Authority::new(vec![export(scene.scratch.path())], Level::Clear)),
        principal: Arc::new(principal("ada", Method::Anonymous)),
        budget: "ada".into(),
        now: 0,
    };
    let write = |offset, data| FileCall::Write { offset, data };
    let calls = vec![FileCall::Lease(LeaseCall::Under), write(0, b"one"), write(3, b"two"), write(6, b"six")];
    let batch = FileBatch { handle: 1, calls, room: 1 << 16, unordered: true, ..FileBatch::default() };
    let (stop, wanted) = (AtomicBool::new(false), LeaseCall::Ask(LeaseKind::Write));
    assert!(matches!(scene.server.lease(&handle, wanted), LeaseAnswer::Granted { .. }));
    let mut execution = Execution::new(&batch, caller, Vec::new()).unwrap();
    for number in 0..2 {
        assert_eq!(execution.advance(&batch, &stop, &no_time()), Ok(Poll::Pending));
        behind(number, &scene.server, &handle);
    }
    while execution.advance(&batch, &stop, &no_time()) == Ok(Poll::Pending) {}
    let reply = execution.finish(&batch).reply;
    let answered = FileReply::decode(&reply, &batch.calls.iter().map(FileCall::code).collect::<Vec<_>>()).unwrap();
    let statuses = answered.outcomes.iter().map(|one| one.as_ref().err().map(|failure| failure.kind)).collect();
    (statuses, std::fs::read(scene.scratch.path().join("f")).unwrap())
}

#[test]
fn a_batch_that_waits_for_its_turns_keeps_nobody_waiting_for_longer_than_its_lease() {
    let (statuses, content) = written_under_a_lease(Duration::from_secs(1), |number, server, handle| {
        if number == 0 {
            return;
        }
        let (key, until) = (handle.key(), Instant::now() + Duration::from_secs(30));
        while server.access(|| Some(key), None, Access::Look).is_err() {
            assert!(Instant::now() < until, "the lease lasts as long as the batch");
            std::thread::yield_now();
        }
    });
    assert_eq!(
        statuses,
        [None, None, Some(ErrorKind::TargetChanged), Some(ErrorKind::NotTried)],
        "nothing is changed behind it"
    );
    assert_eq!(content, b"one");
}

#[test]
fn a_batch_for_whose_lease_nobody_waits_is_executed_however_long_that_takes() {
    // Each slice is late, and none by the time of a lease, which is over before the third.
    let time = Duration::from_secs(6);
    let (statuses, content) = written_under_a_lease(time, |_, server, handle| {
        let until = Instant::now() + time * 8 / 15;
        while Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(server.lease_kind(handle), Some(LeaseKind::Write));
    });
    assert_eq!((statuses, content.as_slice()), (vec![None; 4], &b"onetwosix"[..]));
}

#[test]
fn when_the_leases_of_before_a_start_are_over_no_name_is_looked_up_for_them() {
    let leases = Leases::new(Duration::from_millis(1), true, false, Box::new(|_, _| {}));
    let server = Arc::new(OpenFiles::new(16).unwrap().with_leases(leases));
    // A new name, as small files of an upload have: there is no file whose leases could exclude it.
    let is_looked_up = || {
        let mut looked = false;
        let look = || {
            looked = true;
            None
        };
        drop(server.access(look, None, Access::Change).unwrap());
        looked
    };
    assert!(is_looked_up(), "a client of the process before may have one");
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while is_looked_up() {
        assert!(std::time::Instant::now() < until, "every new name is looked up for ever");
        std::thread::yield_now();
    }
}
