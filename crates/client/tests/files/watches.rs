//! Watches of names: what a client is told of changes, what it is not, and what a client costs that does
//! not listen.

use super::remote;
use super::support::relay::{Cut, Relay};
use super::support::serving::Serving;
use super::support::{PATIENCE, Watched as Seen, within};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xdfs_client::file::Remote;
use xdfs_client::watch::{Changes, Watch, Watched};
use xdfs_client::wire::{Call, Wanted};
use xdfs_client::{Batch, ConnectOptions, ErrorKind, Payload, PutOptions};
use xdfs_io::store::{LocalStore, Store};
use xdfs_server::{Access, Anonymous, Export, LogEvent, Policy, ServerLimits};

/// What a watch told: each name with everything that changed of it.
#[derive(Clone)]
struct Told(Arc<Seen<BTreeMap<Vec<u8>, Changes>>>);

impl Told {
    fn watching(server: &Remote, path: &str, watched: Watched) -> (Self, Watch) {
        let told = Self(Arc::new(Seen::new(BTreeMap::new())));
        let of_watch = told.clone();
        let watch = server.watch(path, watched, move |changes, name| of_watch.add(changes, name)).unwrap();
        (told, watch)
    }

    fn add(&self, changes: Changes, name: &[u8]) {
        self.0.change(|all| {
            let known = all.entry(name.to_vec()).or_default();
            *known = known.and(changes);
        });
    }

    /// Waits until this was told of the name.
    #[track_caller]
    fn hears(&self, name: &str, wanted: Changes) {
        let heard = |all: &mut BTreeMap<Vec<u8>, Changes>| {
            all.get(name.as_bytes()).copied().filter(|changes| changes.has(wanted))
        };
        assert!(self.0.wait_for(PATIENCE, heard).is_some(), "'{name}' {wanted:?}: {:?}", self.0.lock());
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    fn forget(&self) {
        self.0.lock().clear();
    }
}

fn kind(server: &Remote, path: &str, watched: Watched) -> Option<ErrorKind> {
    server.watch(path, watched, |_, _| {}).err().map(|error| error.kind)
}

#[test]
fn names_in_a_directory_are_told_whoever_changes_them() {
    let serving = Serving::start();
    serving.directory.write("d/old", b"content");
    serving.directory.write("d/deeper/f", b"content");
    let (watcher, other) = (remote(&serving), serving.connect(1));
    let (told, watch) = Told::watching(&watcher, "data/d", Watched::Names);
    serving.directory.write("d/local", b"content");
    told.hears("local", Changes::NAME.and(Changes::CONTENT));
    let payload = Payload::bytes(b"uploaded".to_vec()).unwrap();
    other.put(payload, "data/d/uploaded", &PutOptions::default()).unwrap().wait().unwrap();
    told.hears("uploaded", Changes::NAME);
    other.set_mode("data/d/old", 0o600).unwrap();
    told.hears("old", Changes::ATTRIBUTES);
    other.rename("data/d", "old", "new", false).unwrap();
    told.hears("new", Changes::NAME);
    told.hears("old", Changes::NAME);
    other.remove("data/d/new").unwrap();
    serving.directory.write("d/deeper/f", b"more");
    serving.directory.write("beside", b"more");
    serving.directory.write("d/end", b"");
    told.hears("end", Changes::NAME);
    let names = told.names();
    assert!(!names.iter().any(|name| ["f", "beside"].contains(&name.as_str())), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with(".xdfs")), "staging is nobody's business: {names:?}");
    assert!(!watch.is_over());
}

#[test]
fn a_name_is_told_whatever_it_belongs_to() {
    let serving = Serving::start();
    let server = remote(&serving);
    let (told, _watch) = Told::watching(&server, "data/log", Watched::Name);
    serving.directory.write("other", b"x");
    serving.directory.write("log", b"");
    told.hears("", Changes::NAME);
    told.forget();
    serving.directory.write("log", b"line");
    told.hears("", Changes::CONTENT);
    told.forget();
    std::fs::rename(serving.directory.write("log.new", b"x"), serving.directory.file("log")).unwrap();
    told.hears("", Changes::NAME);
    assert_eq!(told.names(), [""], "it has no name but its own");
}

#[test]
fn a_watch_is_over_when_its_directory_or_one_above_it_is_moved_or_removed() {
    let serving = Serving::start();
    for name in ["a/b/c/f", "gone/f"] {
        serving.directory.write(name, b"");
    }
    let server = remote(&serving);
    let (moved, one) = Told::watching(&server, "data/a/b/c", Watched::Names);
    let (removed, other) = Told::watching(&server, "data/gone/f", Watched::Name);
    std::fs::rename(serving.directory.file("a"), serving.directory.file("z")).unwrap();
    moved.hears("", Changes::OVER);
    std::fs::remove_dir_all(serving.directory.file("gone")).unwrap();
    removed.hears("", Changes::OVER);
    assert!(one.is_over() && other.is_over());
    moved.forget();
    serving.directory.write("z/b/c/g", b"");
    let (again, _watch) = Told::watching(&server, "data/z/b/c", Watched::Names);
    serving.directory.write("z/b/c/h", b"");
    again.hears("h", Changes::NAME);
    assert_eq!(moved.names(), Vec::<String>::new(), "nothing is told of where it is now");
}

#[test]
fn a_reload_that_gives_an_export_another_directory_ends_its_watches() {
    let serving = Serving::start();
    serving.directory.write("d/f", b"content");
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir(other.path().join("d")).unwrap();
    let reload = |path| {
        let exports = vec![Export::open_to_all("data", Arc::new(LocalStore::open_root(path, true).unwrap()), true)];
        serving.handle.reload(exports, ServerLimits::default(), Policy::default());
    };
    let server = remote(&serving);
    let (told, watch) = Told::watching(&server, "data/d", Watched::Names);
    let (one, named) = Told::watching(&server, "data/d/f", Watched::Name);
    reload(serving.directory.path());
    serving.directory.write("d/first", b"");
    told.hears("first", Changes::NAME);
    assert!(!watch.is_over() && !named.is_over(), "it is the same directory");
    reload(other.path());
    told.hears("", Changes::OVER);
    one.hears("", Changes::OVER);
    serving.directory.write("d/secret", b"");
    // What is told of the new directory is told behind what might have been told of the old one.
    let (again, _watch) = Told::watching(&server, "data/d", Watched::Names);
    std::fs::write(other.path().join("d/new"), b"").unwrap();
    again.hears("new", Changes::NAME);
    assert!(!told.names().contains(&"secret".to_owned()) && watch.is_over() && named.is_over());
}

#[test]
fn a_lost_session_is_the_end_of_its_watches_and_they_are_set_again_in_the_next_one() {
    let serving = Serving::start();
    let relay = Relay::to(&serving.address);
    let options = ConnectOptions { address: relay.address.clone(), ..serving.options(1) };
    let server = Remote::with_patience(options, PATIENCE);
    let (told, watch) = Told::watching(&server, "data", Watched::Names);
    relay.cut(0, Cut::Fin);
    told.hears("", Changes::OVER);
    assert!(watch.is_over());
    let (again, _watch) = Told::watching(&server, "data", Watched::Names);
    serving.directory.write("f", b"");
    again.hears("f", Changes::NAME);
}

#[test]
fn rights_are_judged_when_a_watch_is_set_and_again_when_something_is_told() {
    let serving = Serving::start();
    let root = serving.directory.write("inside/f", b"").parent().unwrap().to_path_buf();
    let export = |open: bool| {
        let store: Arc<dyn Store> = Arc::new(LocalStore::open_root(&root, true).unwrap());
        let access = |anonymous| Access { anonymous, ..Access::default() };
        let changing = if open { Anonymous::Read } else { Anonymous::Nothing };
        vec![
            Export::new("changing", Arc::clone(&store), access(changing)),
            Export::new("always", store, access(Anonymous::Read)),
        ]
    };
    let reload = |open| serving.handle.reload(export(open), ServerLimits::roomy(), Policy::default());
    let server = remote(&serving);
    assert_eq!(kind(&server, "changing", Watched::Names), Some(ErrorKind::NotFound));
    reload(true);
    let (told, _first) = Told::watching(&server, "changing", Watched::Names);
    let (name, _second) = Told::watching(&server, "changing/secret", Watched::Name);
    let (always, _third) = Told::watching(&server, "always", Watched::Names);
    reload(false);
    serving.directory.write("inside/secret", b"");
    assert_eq!(kind(&server, "changing", Watched::Names), Some(ErrorKind::NotFound));
    // Both are about one directory: what is told of one was judged for the other.
    always.hears("secret", Changes::NAME);
    reload(true);
    serving.directory.write("inside/open", b"");
    told.hears("open", Changes::NAME);
    assert_eq!((told.names(), name.names()), (vec!["open".to_owned()], vec![]));
}

#[test]
fn what_cannot_be_watched_is_refused_and_says_why() {
    let serving = Serving::start();
    serving.directory.write("f", b"");
    std::os::unix::fs::symlink("/", serving.directory.file("link")).unwrap();
    let server = remote(&serving);
    let deep = format!("data/{}", vec!["d"; 70].join("/"));
    let rows = [
        ("data/f", Watched::Names, ErrorKind::NotDirectory),
        ("data/none", Watched::Names, ErrorKind::NotFound),
        ("data/none/f", Watched::Name, ErrorKind::NotFound),
        ("data/link", Watched::Names, ErrorKind::NotRegular),
        ("data/link/etc", Watched::Name, ErrorKind::NotRegular),
        ("data", Watched::Name, ErrorKind::InvalidPath),
        ("data/../x", Watched::Name, ErrorKind::InvalidPath),
        ("data/.xdfs-staging", Watched::Names, ErrorKind::NotFound),
        (&deep, Watched::Names, ErrorKind::LimitExceeded),
        ("memory/zero", Watched::Name, ErrorKind::Unsupported),
        ("nothing/f", Watched::Name, ErrorKind::NotFound),
    ];
    for (path, watched, expected) in rows {
        assert_eq!(kind(&server, path, watched), Some(expected), "{path} {watched:?}");
    }
}

#[test]
fn watches_of_a_session_are_bounded_and_whoever_ends_one_may_begin_another() {
    let serving = Serving::start();
    let session = serving.connect(1);
    let set = |numbers: std::ops::Range<u64>, watched| {
        let mut kinds = Vec::new();
        for number in numbers {
            let mut batch = Batch::new("data");
            batch.push(&Call::Watch { path: b"", watched, watch: number });
            let reply = session.call(&batch).unwrap().wait().unwrap();
            kinds.push(reply.read().unwrap().outcomes[0].as_ref().err().map(|failure| failure.kind));
        }
        kinds
    };
    assert!(set(1..4097, Watched::Names).iter().all(Option::is_none));
    assert_eq!(set(4097..4099, Watched::Names), [Some(ErrorKind::LimitExceeded); 2]);
    assert_eq!(set(1..2, Watched::Names), [Some(ErrorKind::AlreadyExists)]);
    assert_eq!(set(7..8, Watched::Nothing), [None]);
    assert_eq!(set(7..8, Watched::Nothing), [None], "it is over already");
    assert_eq!(set(5000..5002, Watched::Names), [None, Some(ErrorKind::LimitExceeded)]);
    session.look("data", Wanted::MODE).unwrap();
    let other = remote(&serving);
    assert_eq!(kind(&other, "data", Watched::Names), None, "another session has room");
}

#[test]
fn a_watch_keeps_no_thread_and_no_operation_and_an_idle_session_is_told_without_one() {
    let serving = Serving::start();
    let server = remote(&serving);
    let watches: Vec<_> = (0..200).map(|_| Told::watching(&server, "data", Watched::Names)).collect();
    serving.wait_for_status("the session is idle", |[sessions, _, threads]| (sessions, threads) == (1, 0));
    let file = serving.directory.write("f", b"");
    for (told, _) in &watches {
        told.hears("f", Changes::NAME);
    }
    assert_eq!(serving.status(), [1, 0, 0], "nothing was started to tell it");
    drop(watches);
    std::fs::remove_file(file).unwrap();
    let (last, _watch) = Told::watching(&server, "data", Watched::Names);
    serving.directory.write("g", b"");
    last.hears("g", Changes::NAME);
}

#[test]
fn an_idle_session_that_lost_a_channel_is_told_on_the_others() {
    let serving = Serving::start();
    let relay = Relay::to(&serving.address);
    let options = ConnectOptions { address: relay.address.clone(), ..serving.options(3) };
    let server = Remote::with_patience(options, PATIENCE);
    let (told, watch) = Told::watching(&server, "data", Watched::Names);
    relay.wait_for("all channels", |lines| (lines.len() >= 3).then_some(()));
    serving.wait_for_status("the session is idle", |[sessions, _, threads]| (sessions, threads) == (1, 0));
    for round in 0..3 {
        let name = format!("{round}");
        serving.directory.write(&name, b"");
        told.hears(&name, Changes::NAME);
        if round == 0 {
            relay.cut(1, Cut::Fin);
        }
    }
    assert!(!watch.is_over());
}

/// A file gets one name after another, faster than a watch tells them apart, until somebody has seen enough. Nothing of that waits
/// for the disk.
fn busy(serving: &Serving, enough: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    let name = |number: u64| serving.directory.file(&format!("{number:0>250}"));
    serving.directory.write(&format!("{:0>250}", 0), b"");
    for number in 0.. {
        std::fs::rename(name(number), name(number + 1)).unwrap();
        if number % 2000 == 0 && enough() {
            return;
        }
        assert!(Instant::now() < until, "{:?}", serving.events());
    }
}

/// New names again and again, until somebody has seen enough: no more at once than a watch tells apart, and the next when they
/// were told to somebody who reads, since a server that lags behind says less.
fn busy_beside(serving: &Serving, reads: &Told, enough: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    for round in 0.. {
        let names: Vec<_> = (0..200).map(|number| format!("{:0>250}", round * 200 + number)).collect();
        for name in &names {
            serving.directory.write(name, b"");
        }
        reads.hears(&names[199], Changes::NAME);
        if enough() {
            return;
        }
        assert!(Instant::now() < until, "{:?}", serving.events());
    }
}

#[test]
fn who_does_not_read_costs_a_bounded_amount_and_its_session_ends() {
    let serving = Serving::start();
    let relay = Relay::to(&serving.address);
    let stall = Some(Duration::from_secs(1));
    let options =
        ConnectOptions { address: relay.address.clone(), stall, window: Some(64 << 10), ..serving.options(1) };
    let (deaf, hears) = (Remote::with_patience(options, PATIENCE), remote(&serving));
    let (told, _watch) = Told::watching(&deaf, "data", Watched::Names);
    let (others, _other) = Told::watching(&hears, "data", Watched::Names);
    serving.wait_for_status("both are idle", |[sessions, _, threads]| (sessions, threads) == (2, 0));
    relay.hold_after(0);
    let ended = |event: &LogEvent| matches!(event, LogEvent::SessionEnded { error: Some(why), .. } if why.contains("does not take"));
    busy_beside(&serving, &others, || serving.count(ended) > 0);
    serving.directory.write("after", b"");
    others.0.wait_for(PATIENCE, |all| all.values().any(|changes| changes.has(Changes::NAME)).then_some(())).unwrap();
    let looked = within(PATIENCE, "another client's stat", move || hears.call(&look()).map(drop));
    assert!(looked.is_ok());
    relay.release();
    told.hears("", Changes::OVER);
}

fn look() -> Batch {
    let mut batch = Batch::new("data");
    batch.push(&Call::Stat { path: b"after", wanted: Wanted::MODE });
    batch
}

#[test]
fn more_than_can_be_told_becomes_look_again() {
    let serving = Serving::start();
    let server = remote(&serving);
    let (told, _watch) = Told::watching(&server, "data", Watched::Names);
    busy(&serving, || told.0.lock().values().any(|changes| changes.has(Changes::LOOK_AGAIN)));
    told.hears("", Changes::LOOK_AGAIN);
    // Something of that may still be on its way.
    let until = Instant::now() + PATIENCE;
    for number in 0.. {
        told.forget();
        let name = format!("after{number}");
        serving.directory.write(&name, b"");
        told.0.wait_for(PATIENCE, |all| (!all.is_empty()).then_some(())).unwrap();
        if told.names().contains(&name) {
            return;
        }
        assert!(Instant::now() < until, "{:?}", told.0.lock());
    }
}
