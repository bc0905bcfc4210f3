//! Leases: what a client keeps of a file under one, and what becomes of it when others use the file, its
//! session is lost, or its server.

use super::support::relay::{Cut, Relay};
use super::support::serving::{Serving, Setup};
use super::support::{PATIENCE, pipe_payload, pipe_target, within};
use super::{BOTH, remote};
use std::io::Read as _;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use xdfs_client::file::{File, LeaseKind, OpenOptions, Remote};
use xdfs_client::wire::{Call, NewTime, Put, Wanted};
use xdfs_client::{Batch, ConnectOptions, Error, ErrorKind, GetOptions, Payload, PutOptions, Session, Target};
use xdfs_io::store::LocalStore;
use xdfs_proto::base::Timestamp;
use xdfs_server::{Access, Anonymous, Export, Policy, ServerLimits};

/// Longer than any test: what ends, ends because it was given back.
const LONG: Duration = Duration::from_secs(600);
/// Nothing is done in this time but waiting for its end.
const SHORT: Duration = Duration::from_secs(2);

fn setup(lease: Duration, leased_before: bool) -> Setup {
    let usual = Setup::default();
    let limits = ServerLimits { lease, leased_before, ..usual.limits };
    Setup { limits, unix: true, ..usual }
}

fn serving(lease: Duration) -> Serving {
    let serving = Serving::with(setup(lease, false));
    serving.directory.write("f", b"content");
    serving
}

fn open(serving: &Serving) -> File {
    File::open(&remote(serving), "data/f", &BOTH).unwrap()
}

fn kind(file: &File) -> Option<LeaseKind> {
    file.leased().map(|lease| lease.kind)
}

/// A file with this lease.
fn leased(serving: &Serving, wanted: LeaseKind) -> File {
    let file = open(serving);
    assert_eq!(file.lease(wanted).unwrap().map(|lease| lease.kind), Some(wanted));
    file
}

/// The keeper of the file's leases does nothing from its first recall on, until the sender is dropped.
fn never_answers(file: &File) -> std::sync::mpsc::SyncSender<()> {
    let (sender, receiver) = sync_channel::<()>(0);
    let receiver = std::sync::Mutex::new(receiver);
    file.on_recall(move || {
        let _ = receiver.lock().unwrap().recv();
    });
    sender
}

/// Hears when the file is recalled.
fn hears(file: &File) -> Receiver<()> {
    let (sender, receiver) = sync_channel(8);
    file.on_recall(move || {
        let _ = sender.try_send(());
    });
    receiver
}

#[track_caller]
fn becomes(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn attributes_are_kept_under_a_read_lease_until_somebody_else_changes_the_file() {
    let serving = serving(LONG);
    let (one, other) = (leased(&serving, LeaseKind::Read), open(&serving));
    assert_eq!((one.length().unwrap(), other.length().unwrap()), (7, 7), "both may look");
    std::fs::write(serving.directory.file("f"), b"longer than that").unwrap();
    assert_eq!((one.length().unwrap(), other.length().unwrap()), (7, 16), "the server is not asked");
    assert_eq!(kind(&one), Some(LeaseKind::Read));
    other.set_len(3).unwrap();
    assert_eq!((kind(&one), one.length().unwrap()), (None, 3));
    assert_eq!(one.lease(LeaseKind::Read).unwrap(), None, "somebody waited for it a short time ago");
}

#[test]
fn readers_have_leases_beside_each_other_and_a_writer_has_none() {
    let serving = serving(LONG);
    let (one, other) = (leased(&serving, LeaseKind::Read), leased(&serving, LeaseKind::Read));
    assert_eq!(open(&serving).lease(LeaseKind::Write).unwrap(), None);
    other.give_back_lease().unwrap();
    assert_eq!(one.lease(LeaseKind::Write).unwrap().map(|lease| lease.kind), Some(LeaseKind::Write));
    assert_eq!(other.lease(LeaseKind::Read).unwrap(), None);
    one.write_at(b"CON", 0).unwrap();
    assert_eq!(kind(&one), Some(LeaseKind::Write), "its own changes recall nothing");
    one.close().unwrap();
    assert_eq!(other.lease(LeaseKind::Read).unwrap().map(|lease| lease.kind), Some(LeaseKind::Read));
}

#[test]
fn changes_are_kept_under_a_write_lease_until_somebody_else_looks() {
    let serving = serving(LONG);
    let one = leased(&serving, LeaseKind::Write);
    let recalled = hears(&one);
    for (at, byte) in (0..).zip(b"CONTENT") {
        one.write_behind_at(&[*byte], at).unwrap();
        assert!(!one.push(), "it waits to be sent");
    }
    assert_eq!(serving.directory.read("f"), b"content");
    let mut bytes = [0; 7];
    // Opening it is a look.
    assert_eq!(open(&serving).read_at(&mut bytes, 0).unwrap(), 7);
    assert_eq!(&bytes, b"CONTENT");
    recalled.recv_timeout(PATIENCE).unwrap();
    assert_eq!(kind(&one), None);
    one.write_behind_at(b"?", 0).unwrap();
    one.settle().unwrap();
    assert_eq!(serving.directory.read("f"), b"?ONTENT", "without a lease as before");
}

/// Something that is done to a file by its name.
type Act = fn(&Session, &[u8]) -> Result<(), Error>;

const LOOKS: [(&str, Act); 4] = [
    ("look", |session, name| session.look(name, Wanted::SIZE).map(drop)),
    ("hash", |session, name| session.hash(name, 0, None).map(drop)),
    ("list", |session, _| session.list("data", Wanted::SIZE)?.try_for_each(|page| page.map(drop))),
    ("get", |session, name| session.get(name, Target::memory().0, &GetOptions::default())?.wait().map(drop)),
];

const CHANGES: [(&str, Act); 6] = [
    ("truncate", |session, name| session.truncate(name, 5)),
    ("chmod", |session, name| session.set_mode(name, 0o600)),
    ("times", |session, name| session.set_times(name, Some(NewTime::At(Timestamp::new(9, 0))), None)),
    ("rename", |session, name| session.rename("data", &name[5..], [&name[5..], b"x"].concat(), false)),
    ("remove", |session, name| session.remove(name)),
    ("put", |session, name| {
        session.put(Payload::bytes(b"new".to_vec())?, name, &PutOptions::default())?.wait().map(drop)
    }),
];

#[test]
fn whatever_looks_at_a_file_by_its_name_or_changes_it_recalls_the_leases_that_exclude_it() {
    let serving = serving(LONG);
    let (own, others, mut inodes) = (remote(&serving), remote(&serving), Vec::new());
    for (number, (what, act)) in LOOKS.iter().chain(&CHANGES).enumerate() {
        for wanted in [LeaseKind::Read, LeaseKind::Write] {
            let name = format!("{number}-{wanted:?}");
            // Open, so that none of the files has the inode of one before it, which gets no lease for a while.
            inodes.push(std::fs::File::open(serving.directory.write(&name, b"content")).unwrap());
            let path = format!("data/{name}");
            let file = File::open(&own, &path, &BOTH).unwrap();
            let recalled = hears(&file);
            // Not while the one before it is recalled, and for as short a time as that took.
            becomes(what, || file.lease(wanted).unwrap().map(|lease| lease.kind) == Some(wanted));
            if wanted == LeaseKind::Write {
                file.write_behind_at(b"kept", 0).unwrap();
            }
            others.run(|session| act(session, path.as_bytes())).unwrap_or_else(|error| panic!("{what}: {error}"));
            if number < LOOKS.len() && wanted == LeaseKind::Read {
                assert_eq!(kind(&file), Some(wanted), "{what} is not excluded");
            } else {
                recalled.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} recalls a lease to {wanted:?}"));
            }
            drop(file);
        }
    }
}

#[test]
fn a_client_that_never_answers_delays_others_by_the_time_of_its_lease_and_nobody_else() {
    let serving = serving(SHORT);
    serving.directory.write("g", b"other");
    let one = leased(&serving, LeaseKind::Write);
    let until = one.leased().unwrap().until;
    let silent = never_answers(&one);
    one.write_behind_at(b"lost", 0).unwrap();
    let other = remote(&serving);
    let waiting = std::thread::spawn({
        let other = Arc::clone(&other);
        move || File::open(&other, "data/f", &BOTH).unwrap().write_at(b"CON", 0).unwrap()
    });
    // Meanwhile everything else is answered at once, and between two tries nobody keeps a thread.
    let third = serving.connect(1);
    let began = Instant::now();
    assert_eq!(third.look("data/g", Wanted::SIZE).unwrap().size, Some(5));
    assert!(began.elapsed() < Duration::from_secs(1));
    serving.wait_for_status("no thread is kept", |[_, _, threads]| threads == 0);
    within(PATIENCE, "the end of the lease", move || waiting.join().unwrap());
    assert!(Instant::now() >= until, "the lease was over");
    assert_eq!(kind(&one), None, "by its own clock, too");
    drop(silent);
    let lost = one.settle().unwrap_err();
    assert_eq!(lost.kind, ErrorKind::TargetChanged, "what was kept comes too late: {lost}");
    assert_eq!(serving.directory.read("f"), b"CONtent");
    assert_eq!(one.lease(LeaseKind::Read).unwrap(), None, "the file gets no lease for a while");
}

/// What each of them writes waits for the other one's lease.
#[test]
fn readers_who_write_at_once_give_back_what_they_have_before_they_wait() {
    let serving = serving(LONG);
    let both_wait = Arc::new(Barrier::new(2));
    let written = [0, 1].map(|at| {
        let (file, both_wait) = (leased(&serving, LeaseKind::Read), Arc::clone(&both_wait));
        file.on_recall(move || {
            both_wait.wait();
        });
        move || file.write_behind_at(b"!", at).and_then(|()| file.settle())
    });
    let threads = written.map(std::thread::spawn);
    within(PATIENCE, "what both write", || threads.map(|thread| thread.join().unwrap().unwrap()));
    assert_eq!(serving.directory.read("f"), b"!!ntent");
}

#[test]
fn a_file_that_waits_for_others_keeps_no_other_file_s_lease_from_being_given_back() {
    let time = SHORT * 3;
    let serving = serving(time);
    serving.directory.write("g", b"content");
    let silent_one = leased(&serving, LeaseKind::Read);
    let silent = never_answers(&silent_one);
    let remote_of_both = remote(&serving);
    let [f, g] = ["data/f", "data/g"].map(|name| {
        let file = File::open(&remote_of_both, name, &BOTH).unwrap();
        assert!(file.lease(LeaseKind::Read).unwrap().is_some());
        file
    });
    let due = f.leased().unwrap().until - time / 2;
    let waits = std::thread::spawn(move || f.write_behind_at(b"!", 0).and_then(|()| f.settle()));
    becomes("its lease is to be renewed, but for what waits", || Instant::now() > due);
    File::open(&remote(&serving), "data/g", &BOTH).unwrap().set_len(3).unwrap();
    assert!(!waits.is_finished(), "the lease was not given back before");
    assert_eq!(kind(&g), None);
    drop(silent);
    within(PATIENCE, "the end of the lease", || waits.join().unwrap()).unwrap();
}

#[test]
fn a_lease_is_renewed_as_long_as_nobody_waits_and_what_local_programs_change_ends_it() {
    let serving = serving(SHORT);
    let one = leased(&serving, LeaseKind::Write);
    let first = one.leased().unwrap().until;
    one.write_at(b"CON", 0).unwrap();
    becomes("it is renewed", || one.leased().is_some_and(|lease| lease.until > first + SHORT / 2));
    assert_eq!(one.length().unwrap(), 7);
    std::fs::write(serving.directory.file("f"), b"longer than that").unwrap();
    becomes("the next renewal tells of it", || one.leased().is_none());
    assert_eq!(one.length().unwrap(), 16);
    assert!(one.lease(LeaseKind::Read).unwrap().is_some(), "nobody waited: it can be had again");
}

#[test]
fn what_is_kept_under_a_write_lease_is_sent_at_its_renewal() {
    let serving = serving(SHORT);
    let one = leased(&serving, LeaseKind::Write);
    one.write_behind_at(b"CON", 0).unwrap();
    becomes("it is sent", || serving.directory.read("f") == b"CONtent");
    assert_eq!(kind(&one), Some(LeaseKind::Write));
}

#[test]
fn a_lost_session_has_its_lease_again_and_others_wait_for_it() {
    let serving = Serving::with(Setup { unix: false, ..setup(LONG, false) });
    serving.directory.write("f", b"content");
    let relay = Relay::to(&serving.address);
    let lost = Remote::with_patience(ConnectOptions { address: relay.address.clone(), ..serving.options(1) }, PATIENCE);
    let one = File::open(&lost, "data/f", &BOTH).unwrap();
    assert!(one.lease(LeaseKind::Write).unwrap().is_some());
    one.write_behind_at(b"KEPT", 0).unwrap();
    relay.cut(relay.connections() - 1, Cut::Rst);
    // Anything that asks the server finds out.
    one.seek_data(0, false).unwrap();
    assert_eq!(kind(&one), Some(LeaseKind::Write));
    assert_eq!(serving.directory.read("f"), b"KEPTent", "and what was kept was sent under it");
    let recalled = hears(&one);
    open(&serving).write_at(b"x", 6).unwrap();
    recalled.recv_timeout(PATIENCE).unwrap();
    assert_eq!(serving.directory.read("f"), b"KEPTenx");
}

#[test]
fn a_restarted_server_gives_leases_back_and_lets_everybody_else_wait() {
    let mut serving = Serving::with(setup(SHORT * 2, true));
    serving.directory.write("f", b"content");
    let one = open(&serving);
    becomes("the server has started before", || one.lease(LeaseKind::Write).unwrap().is_some());
    one.write_behind_at(b"KEPT", 0).unwrap();
    serving.restart();
    let other = remote(&serving);
    let waiting = std::thread::spawn({
        let other = Arc::clone(&other);
        move || {
            let file = File::open(&other, "data/f", &BOTH).unwrap();
            let mut bytes = [0; 7];
            assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 7);
            bytes
        }
    });
    one.settle().unwrap();
    let seen = within(PATIENCE, "the end of the grace", move || waiting.join().unwrap());
    assert_eq!(&seen, b"KEPTent", "whoever comes first sees what was kept");
}

#[test]
fn a_server_that_hands_its_files_over_recalls_leases_and_its_sessions_end() {
    let serving = serving(LONG);
    let one = leased(&serving, LeaseKind::Read);
    serving.handle.retire();
    serving.session_ended();
    drop(one);
}

#[test]
fn a_lease_needs_the_right_to_keep_others_from_changing_the_file() {
    let serving = serving(LONG);
    let fixed = File::open(&remote(&serving), "fixed/f", &OpenOptions::new().read(true)).unwrap();
    assert_eq!(fixed.lease(LeaseKind::Read).unwrap_err().kind, ErrorKind::ReadOnly);
    let reads = File::open(&remote(&serving), "data/f", &OpenOptions::new().read(true)).unwrap();
    assert_eq!(reads.lease(LeaseKind::Write).unwrap_err().kind, ErrorKind::Refused);
    assert!(reads.lease(LeaseKind::Read).unwrap().is_some());
    let without = Serving::start();
    without.directory.write("f", b"content");
    assert_eq!(open(&without).lease(LeaseKind::Read).unwrap(), None, "a server without leases");
}

#[test]
fn a_user_whose_rights_end_has_no_lease_renewed() {
    let serving = serving(SHORT);
    let one = leased(&serving, LeaseKind::Write);
    let store = Arc::new(LocalStore::open_root(serving.directory.path(), true).unwrap());
    let exports = vec![Export::open_to_all("data", store, false)];
    serving.handle.reload(exports, Setup::default().limits, Policy::default());
    serving.wait_for_status("the reload", |_| true);
    becomes("it ends with its time", || one.leased().is_none());
    assert_eq!(one.lease(LeaseKind::Read).unwrap_err().kind, ErrorKind::ReadOnly);
    let began = Instant::now();
    assert_eq!(open_to_read(&serving).length().unwrap(), 7);
    assert!(began.elapsed() < PATIENCE, "nobody waits for it any more");
}

fn open_to_read(serving: &Serving) -> File {
    File::open(&remote(serving), "data/f", &OpenOptions::new().read(true)).unwrap()
}

#[test]
fn who_lists_a_directory_has_all_its_leases_recalled_and_not_one_after_the_other() {
    let serving = serving(LONG);
    serving.directory.write("g", b"content");
    let file = |name: &str| {
        let file = File::open(&remote(&serving), name, &BOTH).unwrap();
        assert!(file.lease(LeaseKind::Write).unwrap().is_some());
        file
    };
    let (one, two) = (file("data/f"), file("data/g"));
    let (silent, heard) = (never_answers(&one), hears(&two));
    let session = serving.connect(1);
    let lists = std::thread::spawn(move || session.list("data", Wanted::SIZE)?.try_for_each(|page| page.map(drop)));
    heard.recv_timeout(PATIENCE).expect("the other one is still recalled while the first one holds");
    drop(silent);
    lists.join().unwrap().unwrap();
}

#[test]
fn a_download_that_does_not_end_keeps_nobody_from_a_lease_on_another_file() {
    let serving = serving(LONG);
    serving.directory.write("read", &vec![7; 64 << 20]);
    let session = serving.connect(1);
    let (target, mut reader) = pipe_target();
    let download = session.get("data/read", target, &GetOptions::default()).unwrap();
    // It has begun, and goes on when somebody reads.
    reader.read_exact(&mut [0]).unwrap();
    let _file = leased(&serving, LeaseKind::Write);
    let read = File::open(&remote(&serving), "data/read", &BOTH).unwrap();
    assert_eq!(read.lease(LeaseKind::Write).unwrap(), None, "somebody reads it");
    drop((reader, download));
}

#[test]
fn a_hash_that_does_not_end_keeps_nobody_from_a_lease_on_another_file() {
    let serving = serving(LONG);
    std::fs::File::create(serving.directory.file("large")).unwrap().set_len(1 << 40).unwrap();
    let session = serving.connect(1);
    serving.wait_for_status("nothing is done", |[_, _, threads]| threads == 0);
    let mut batch = Batch::new("data");
    batch.push(&Call::Hash { path: b"large", offset: 0, length: None });
    let hash = session.call(&batch).unwrap();
    serving.wait_for_status("it has begun", |[_, _, threads]| threads > 0);
    let _file = leased(&serving, LeaseKind::Write);
    hash.cancel();
}

#[test]
fn an_upload_recalls_the_leases_that_were_granted_while_its_bytes_arrived() {
    let serving = serving(LONG);
    let session = serving.connect(1);
    let (payload, writer) = pipe_payload(None);
    let upload = session.put(payload, "data/f", &PutOptions::default()).unwrap();
    becomes("the server has begun", || upload.replaces().is_some());
    let file = leased(&serving, LeaseKind::Read);
    let recalled = hears(&file);
    drop(writer);
    upload.wait().unwrap();
    recalled.recv_timeout(PATIENCE).expect("the file has lost its name");
}

#[test]
fn whoever_may_replace_nothing_recalls_no_lease() {
    let serving = serving(LONG);
    let store = || Arc::new(LocalStore::open_root(serving.directory.path(), true).unwrap());
    let adds = Access { writable: true, anonymous: Anonymous::Create, ..Access::default() };
    let exports = vec![Export::open_to_all("data", store(), true), Export::new("adds", store(), adds)];
    serving.handle.reload(exports, setup(LONG, false).limits, Policy::default());
    serving.wait_for_status("the reload", |_| true);
    let one = leased(&serving, LeaseKind::Read);
    let session = serving.connect(1);
    for (export, keep_existing) in [("data", true), ("adds", true), ("adds", false)] {
        let options = PutOptions { keep_existing, ..PutOptions::default() };
        let upload = session.put(Payload::bytes(b"new".to_vec()).unwrap(), format!("{export}/f"), &options).unwrap();
        assert_eq!(upload.wait().unwrap_err().kind, ErrorKind::AlreadyExists, "{export}");
        let (path, content, parents) = (&b"f"[..], &b"new"[..], false);
        let put = Put { path, keep_existing, parents, mode: 0o644, modified: None, holes: false, hash: None, content };
        let mut batch = Batch::new(export);
        batch.push(&Call::Put(put));
        let reply = session.call(&batch).unwrap().wait().unwrap();
        let failure = reply.read().unwrap().outcomes[0].as_ref().unwrap_err().kind;
        assert_eq!(failure, ErrorKind::AlreadyExists, "{export}");
    }
    let reads = File::open(&remote(&serving), "adds/f", &OpenOptions::new().read(true)).unwrap();
    assert_eq!(reads.write_at(b"x", 0).unwrap_err().kind, ErrorKind::Refused);
    assert_eq!(one.lease(LeaseKind::Write).unwrap().map(|lease| lease.kind), Some(LeaseKind::Write), "nobody waits");
}

#[test]
fn a_sum_and_a_hash_wait_for_the_end_of_a_lease() {
    let serving = serving(LONG);
    let _file = leased(&serving, LeaseKind::Write);
    let hash = xdfs_secure::content::hash(b"content");
    assert_eq!(serving.connect(1).sum("data/f", 0, None).unwrap(), hash);
    serving.directory.write("g", b"content");
    let other = File::open(&remote(&serving), "data/g", &BOTH).unwrap();
    becomes("it was asked for the other one a short time ago", || other.lease(LeaseKind::Write).unwrap().is_some());
    assert_eq!(serving.connect(1).hash("data/g", 0, None).unwrap(), (7, hash));
}
