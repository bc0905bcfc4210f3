//! Bounds of what is watched, and who is told.
#![allow(clippy::disallowed_methods, reason = "sets the scene with a directory of its own")]

use super::table::{ALL_MAX, SESSION_MAX, USER_BYTES_MAX, USER_MAX};
use super::*;
use crate::authorise::{Authority, Root};
use std::sync::atomic::AtomicUsize;
use xdfs_io::store::LocalStore;
use xdfs_io::store::watch::Happened;
use xdfs_proto::base::Level;
use xdfs_proto::notices::NAMES_MAX;
use xdfs_secure::policy::Method;

fn user(name: &str) -> Arc<Principal> {
    Arc::new(Principal { user: name.into(), method: Method::Key, key: None, scope: None })
}

fn shared() -> Arc<Shared> {
    let authority = CurrentAuthority::new(Authority::new(Vec::new(), Level::Clear));
    let none = Watches::new(authority, Box::new(|_| true));
    Arc::clone(&none.0)
}

fn queue(number: u8, principal: &Arc<Principal>) -> Arc<Queue> {
    Arc::new(Queue {
        session: SessionId([number; 16]),
        principal: Arc::clone(principal),
        pending: Mutex::default(),
        told: AtomicBool::new(false),
        watches: AtomicBool::new(false),
    })
}

fn entry(queue: &Arc<Queue>, number: u64, scope: Scope, budget: &str) -> Arc<Entry> {
    Arc::new(Entry { queue: Arc::clone(queue), number, scope, root: Root::NONE, depth: 0, budget: budget.into() })
}

fn names(directory: &[u8]) -> Scope {
    Scope::Names { directory: directory.to_vec() }
}

fn name(component: &[u8]) -> Scope {
    Scope::Name { component: component.to_vec(), name: [b"e/d/", component].concat() }
}

/// More directories than any test watches.
const PLENTY: usize = 1 << 30;

/// A directory, and its mark.
struct Scene {
    watcher: Watcher,
    store: LocalStore,
    scratch: tempfile::TempDir,
    table: Mutex<Table>,
}

impl Scene {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(scratch.path().join("d/deeper")).unwrap();
        let store = LocalStore::open_root(scratch.path(), true).unwrap();
        Self { watcher: Watcher::new().unwrap(), store, scratch, table: Mutex::new(Table::new(PLENTY)) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    fn marks(&self, path: &str) -> Vec<Mark> {
        let mut marks = Vec::new();
        self.store.watch(&RelPath::parse(path.as_bytes()).unwrap(), &self.watcher, &mut marks).unwrap();
        marks
    }

    fn add(&self, path: &str, entry: &Arc<Entry>) -> Mark {
        let marks = self.marks(path);
        self.table().reserve(entry).unwrap();
        self.table().insert(entry, &marks).unwrap();
        *marks.last().unwrap()
    }

    fn tell(&self, happened: &[(Mark, &[u8], Happened)], judge: impl Fn(&Queue, &[u8]) -> bool) -> usize {
        let mut round = Round::default();
        happened.iter().for_each(|(mark, name, happened)| round.happened(*mark, name, *happened));
        round.tell(&self.table, Some(&self.watcher), judge).len()
    }
}

fn told(queue: &Queue) -> Vec<Notice> {
    lock(&queue.pending).take(usize::MAX)
}

fn notice(watch: u64, changes: Changes, name: &[u8]) -> Notice {
    Notice { watch, changes, name: name.to_vec() }
}

#[test]
fn watches_are_bounded_by_session_by_user_by_their_names_and_in_all() {
    let mut table = Table::new(PLENTY);
    let refused = |table: &mut Table, session: u8, number, scope, budget: &str| {
        let entry = entry(&queue(session, &user(budget)), number, scope, budget);
        table.reserve(&entry).err().map(|error| error.kind)
    };
    let none = || names(b"e");
    for session in 0..4 {
        for number in 0..SESSION_MAX as u64 {
            assert_eq!(refused(&mut table, session, number, none(), "ada"), None);
        }
        assert_eq!(refused(&mut table, session, 1 << 40, none(), "ada"), Some(ErrorKind::LimitExceeded));
    }
    assert_eq!(4 * SESSION_MAX, USER_MAX);
    assert_eq!(refused(&mut table, 9, 1, none(), "ada"), Some(ErrorKind::LimitExceeded), "another session of hers");
    let mut long = 0;
    while refused(&mut table, 10, long, names(&[b'n'; 32_000]), "bob").is_none() {
        long += 1;
    }
    assert!((long as usize) < SESSION_MAX && (long as usize + 1) * 32_512 > USER_BYTES_MAX);
    assert_eq!(refused(&mut table, 10, long + 1, none(), "carl"), None);
    let mut all = USER_MAX + long as usize + 1;
    for session in 20..40 {
        for number in 0..SESSION_MAX as u64 {
            all += usize::from(refused(&mut table, session, number, none(), &format!("user {session}")).is_none());
        }
    }
    assert_eq!(all, ALL_MAX);
}

#[test]
fn what_a_deep_watch_keeps_of_the_directories_above_it_counts() {
    let (mut table, ada) = (Table::new(PLENTY), user("ada"));
    let deep = |number: u64| Entry {
        queue: queue((number / SESSION_MAX as u64) as u8, &ada),
        number,
        scope: names(b"e"),
        root: Root::NONE,
        depth: DEPTH_MAX,
        budget: "ada".into(),
    };
    let count = (0..).take_while(|number| table.reserve(&Arc::new(deep(*number))).is_ok()).count();
    assert!(count < USER_MAX / 6, "{count}");
}

#[test]
fn no_user_takes_all_directories_that_the_kernel_watches() {
    let (mut table, directories) = (Table::new(8_192), DEPTH_MAX + 1);
    let mut deep = |user_number: u8, number: u64| {
        let (name, session) = (format!("user {user_number}"), user_number);
        let queue = queue(session, &user(&name));
        let (scope, budget) = (names(b"e"), name.as_str().into());
        let entry = Entry { queue, number, scope, root: Root::NONE, depth: DEPTH_MAX, budget };
        table.reserve(&Arc::new(entry)).map_err(|error| error.kind)
    };
    let of_one = (0..).take_while(|number| deep(1, *number).is_ok()).count();
    assert_eq!(of_one, 2_048 / directories);
    let of_all =
        of_one + (2..10).map(|user| (0..).take_while(|number| deep(user, *number).is_ok()).count()).sum::<usize>();
    assert!(of_all * directories <= 6_144 && (of_all + 1) * directories > 6_144, "{of_all}");
    assert_eq!(deep(10, 0), Err(ErrorKind::LimitExceeded));
}

#[test]
fn all_visitors_together_leave_a_quarter_to_those_who_logged_in() {
    let mut table = Table::new(8_192);
    let mut watch = |session: u8, method, number| {
        let name = format!("user {session}");
        let principal = Principal { method, ..Principal::clone(&user(&name)) };
        let entry = entry(&queue(session, &Arc::new(principal)), number, names(b"e"), &name);
        table.reserve(&entry).map(|()| entry).map_err(|error| error.kind)
    };
    let visitors: Vec<_> = (1..5)
        .flat_map(|session| (0..4096).map(move |number| (session, number)))
        .filter_map(|(session, number)| watch(session, Method::Anonymous, number).ok())
        .collect();
    assert_eq!(visitors.len(), 4_096);
    assert_eq!((0..4096).filter(|number| watch(9, Method::Key, *number).is_ok()).count(), 2_048);
    visitors.iter().for_each(|entry| table.give_back(entry));
    assert!(table.reserve(&visitors[0]).is_ok());
}

/// So many directories, in each of which so many names changed; somebody has so many watches of each.
fn many_names_in(scene: &Scene, directories: usize, watches: usize, names_changed: usize) -> (Arc<Queue>, usize) {
    let ada = queue(1, &user("ada"));
    let changed: Vec<Vec<u8>> = (0..names_changed).map(|number| format!("f{number}").into_bytes()).collect();
    let mut happened: Vec<(Mark, &[u8], Happened)> = Vec::new();
    for number in 0..directories {
        let path = format!("d/{number}");
        std::fs::create_dir(scene.scratch.path().join(&path)).unwrap();
        let wire = format!("e/{path}").into_bytes();
        for watch in 0..watches {
            let number = (number * watches + watch) as u64 + 1;
            let mark = scene.add(&path, &entry(&ada, number, names(&wire), "ada"));
            if watch == 0 {
                happened.extend(changed.iter().map(|name| (mark, name.as_slice(), Happened::Content)));
            }
        }
    }
    let judged = AtomicUsize::new(0);
    let judge = |may: bool| {
        judged.store(0, Ordering::Relaxed);
        scene.tell(&happened, |_, _| judged.fetch_add(1, Ordering::Relaxed) < usize::MAX && may);
        judged.load(Ordering::Relaxed)
    };
    let without_rights = judge(false);
    assert_eq!(told(&ada), vec![]);
    (ada, without_rights.max(judge(true)))
}

#[test]
fn a_user_is_judged_for_a_bounded_number_of_names_in_a_round_with_and_without_rights() {
    for (directories, watches) in [(64, 1), (1, 1000)] {
        let scene = Scene::new();
        let (ada, judged) = many_names_in(&scene, directories, watches, 250);
        assert!(judged <= NAMES_MAX + directories * watches, "{judged} names and directories");
        let all = told(&ada);
        let again = all.iter().filter(|notice| notice.changes == Changes::LOOK_AGAIN).count();
        assert_eq!((all.len() - again, again), (250, directories * watches - 1), "each watch tells");
    }
}

#[test]
fn nobody_waits_for_the_table_while_it_is_judged_who_may_learn_of_a_name() {
    let scene = Scene::new();
    let ada = queue(1, &user("ada"));
    let mark = scene.add("d", &entry(&ada, 1, names(b"e/d"), "ada"));
    let is_free = AtomicBool::new(true);
    let happened: [(Mark, &[u8], Happened); 2] = [(mark, b"f", Happened::Name), (mark, b"", Happened::Attributes)];
    scene.tell(&happened, |_, _| {
        is_free.fetch_and(scene.table.try_lock().is_ok(), Ordering::Relaxed);
        true
    });
    assert!(is_free.load(Ordering::Relaxed) && told(&ada).len() == 2);
}

#[test]
fn a_watch_that_ends_while_its_user_is_judged_tells_nothing_nor_does_the_next_one_of_its_number() {
    let scene = Scene::new();
    let ada = queue(1, &user("ada"));
    let mark = scene.add("d", &entry(&ada, 1, names(b"e/d"), "ada"));
    let judge = |_: &Queue, _: &[u8]| {
        scene.table().end(&scene.watcher, ada.session, 1);
        scene.add("d/deeper", &entry(&ada, 1, names(b"e/d/deeper"), "ada"));
        true
    };
    assert_eq!(scene.tell(&[(mark, b"f", Happened::Name)], judge), 0);
    assert_eq!(told(&ada), vec![]);
}

#[test]
fn the_listener_does_not_wait_for_the_table() {
    let watches = Watches(shared());
    let session = Arc::new(watches.of_session(SessionId([1; 16]), &user("ada")));
    let of_session = entry(&session.queue, 1, names(b"e"), "ada");
    lock(&watches.0.table).reserve(&of_session).unwrap();
    let table = lock(&watches.0.table);
    let (done, is_done) = std::sync::mpsc::sync_channel(1);
    let listener = Arc::clone(&session);
    let thread = std::thread::spawn(move || {
        let any = listener.any();
        listener.put_back(listener.take());
        done.send(any).unwrap();
    });
    let any = is_done.recv_timeout(Duration::from_secs(10));
    drop(table);
    thread.join().unwrap();
    assert_eq!(any, Ok(true));
    lock(&watches.0.table).give_back(&of_session);
    assert!(!session.any(), "its watches are over");
}

#[test]
fn what_ends_leaves_nothing_behind_here_and_nothing_in_the_kernel() {
    let scene = Scene::new();
    let (one, other) = (queue(1, &user("ada")), queue(2, &user("bob")));
    let of = |queue: &Arc<Queue>, number| entry(queue, number, names(b"e/d/deeper"), "budget");
    let mark = scene.add("d/deeper", &of(&one, 1));
    assert_eq!(scene.add("d/deeper", &of(&one, 2)), mark);
    assert_eq!(scene.add("d/deeper", &of(&other, 1)), mark);
    let duplicate = scene.table().reserve(&of(&one, 2)).err().map(|error| error.kind);
    assert_eq!(duplicate, Some(ErrorKind::AlreadyExists));
    scene.table().end(&scene.watcher, one.session, 1);
    scene.table().end(&scene.watcher, one.session, 1);
    scene.table().end_session(&scene.watcher, other.session);
    let happens = |scene: &Scene| {
        std::fs::write(scene.scratch.path().join("d/deeper/f"), b"").unwrap();
        let mut count = 0;
        scene.watcher.read(|_, _, happened| count += usize::from(happened == Happened::Name));
        std::fs::remove_file(scene.scratch.path().join("d/deeper/f")).unwrap();
        scene.watcher.read(|_, _, _| {});
        count
    };
    assert_eq!((happens(&scene), scene.table().released()), (1, 0), "somebody still watches");
    scene.table().end_session(&scene.watcher, one.session);
    assert!(scene.table().is_empty());
    assert_eq!((happens(&scene), scene.table().released()), (0, 2), "the directory, and the one above it");
}

#[test]
fn a_change_is_told_to_those_who_may_learn_of_it_and_of_no_name_that_is_reserved() {
    let scene = Scene::new();
    let (ada, bob) = (queue(1, &user("ada")), queue(2, &user("bob")));
    let mark = scene.add("d", &entry(&ada, 1, names(b"e/d"), "ada"));
    scene.add("d", &entry(&ada, 2, name(b"f"), "ada"));
    scene.add("d", &entry(&bob, 1, names(b"e/d"), "bob"));
    let happened: [(Mark, &[u8], Happened); 5] = [
        (mark, b"f", Happened::Content),
        (mark, b"g", Happened::Name),
        (mark, b".xdfs-staging", Happened::Name),
        (mark, b"f", Happened::Content),
        (mark, b"", Happened::Attributes),
    ];
    // Ada may read everything here but one name, and Bob nothing any more.
    let may = |queue: &Queue, name: &[u8]| queue.principal.user == "ada" && name != b"e/d/g";
    assert_eq!(scene.tell(&happened, may), 1);
    let expected =
        vec![notice(1, Changes::CONTENT, b"f"), notice(1, Changes::ATTRIBUTES, b""), notice(2, Changes::CONTENT, b"")];
    assert_eq!((told(&ada), told(&bob)), (expected, vec![]));
}

#[test]
fn a_directory_with_too_many_changes_is_looked_at_again_and_the_user_is_judged_once() {
    let scene = Scene::new();
    let (ada, judged) = (queue(1, &user("ada")), AtomicUsize::new(0));
    let mark = scene.add("d", &entry(&ada, 1, names(b"e/d"), "ada"));
    scene.add("d", &entry(&ada, 2, name(b"f"), "ada"));
    let many: Vec<Vec<u8>> = (0..100_000).map(|number| format!("{number}").into_bytes()).collect();
    let happened: Vec<_> = many.iter().map(|name| (mark, name.as_slice(), Happened::Name)).collect();
    let may = |_: &Queue, _: &[u8]| judged.fetch_add(1, Ordering::Relaxed) < usize::MAX;
    assert_eq!(scene.tell(&happened, may), 1);
    assert_eq!(told(&ada), vec![notice(1, Changes::LOOK_AGAIN, b""), notice(2, Changes::LOOK_AGAIN, b"")]);
    assert_eq!(judged.load(Ordering::Relaxed), 2, "once for each watch, whatever happened");
}

#[test]
fn what_the_kernel_lost_is_told_to_everybody_and_a_directory_that_goes_ends_the_watches_below_it() {
    let scene = Scene::new();
    let (ada, bob) = (queue(1, &user("ada")), queue(2, &user("bob")));
    let deeper = scene.add("d/deeper", &entry(&ada, 1, names(b"e/d/deeper"), "ada"));
    let mark = scene.add("d", &entry(&bob, 7, names(b"e/d"), "bob"));
    let lost: [(Mark, &[u8], Happened); 1] = [(Mark::ENDS.0, b"", Happened::Lost)];
    assert_eq!(scene.tell(&lost, |_, _| true), 2);
    assert_eq!((told(&ada), told(&bob)), (vec![Notice::of_all()], vec![Notice::of_all()]));
    let before = scene.table().released();
    assert_eq!(scene.tell(&[(mark, b"", Happened::Gone)], |_, _| true), 2);
    let over = |watch| vec![notice(watch, Changes::OVER, b"")];
    assert_eq!((told(&ada), told(&bob)), (over(1), over(7)));
    assert!(scene.table().is_empty() && !scene.table().has(deeper) && scene.table().released() > before);
}

/// The calls of two channels overtake each other.
#[test]
fn a_watch_that_is_ended_before_it_began_takes_nothing_from_the_next_one_of_its_number() {
    let scene = Scene::new();
    let ada = queue(1, &user("ada"));
    let [slow, next] = [b"a/much/longer/name".as_slice(), b"e/d"].map(|name| entry(&ada, 5, names(name), "ada"));
    let marks = scene.marks("d");
    scene.table().reserve(&slow).unwrap();
    scene.table().end(&scene.watcher, ada.session, 5);
    scene.table().reserve(&next).unwrap();
    let late = scene.table().insert(&slow, &marks);
    assert_eq!(late.err().map(|error| error.kind), Some(ErrorKind::Cancelled));
    scene.table().give_back(&slow);
    scene.table().insert(&next, &marks).unwrap();
    // Its export has moved.
    scene.table().end_entry(&scene.watcher, &slow);
    assert!(!scene.table().is_empty());
    scene.table().end_entry(&scene.watcher, &next);
    assert!(scene.table().is_empty());
}

#[test]
fn what_cannot_be_sent_is_told_later_and_the_listener_has_one_message_about_a_session() {
    let shared = shared();
    let watches = Watches(Arc::clone(&shared));
    let session = watches.of_session(SessionId([1; 16]), &user("ada"));
    lock(&session.queue.pending).add(notice(1, Changes::NAME, b"f"));
    session.queue.told.store(true, Ordering::SeqCst);
    let taken = session.take();
    assert_eq!(taken, vec![notice(1, Changes::NAME, b"f")]);
    assert!(!session.queue.told.load(Ordering::SeqCst));
    session.put_back(taken);
    session.put_back(Vec::new());
    assert_eq!(lock(&shared.owed).len(), 1);
    assert_eq!(session.take().len(), 1);
}

#[test]
fn no_watch_begins_after_the_server_has_ended() {
    let authority = CurrentAuthority::new(Authority::new(Vec::new(), Level::Clear));
    let watches = Watches::new(authority, Box::new(|_| true));
    let shared = Arc::clone(&watches.0);
    assert!(shared.running().is_none(), "nobody has a watch yet");
    assert!(shared.watcher().is_ok() && shared.running().is_some());
    drop(watches);
    assert_eq!(shared.watcher().err().map(|error| error.kind), Some(ErrorKind::Draining));
    assert!(shared.running().is_none());
}
