//! Peers who are let in and want the server for themselves: what it costs others, in time, and the server, in threads and memory.
//! The bounds are those of `docs/security.md`, "What one peer can cost".

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod ended;
mod messages;
mod peer;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};

use peer::{PASSWORD, Peer, Who, user_name};
use xdfs_proto::base::{Extent, Timestamp, TransferId};
use xdfs_proto::wire::Event;
use xdfs_proto::wire::path::{Batch, Call, Reply, Wanted};
use xdfs_proto::wire::request::{Request, Resume};
use xdfs_test_cli::{Scene, Server, all_but_one_below, threads_named, timed, until};

const MIB: u64 = 1 << 20;
/// Threads of a server, besides those of its pipelines.
const THREADS_MAX: u64 = 32;
/// A pipeline has one thread, and a writer where it needs one.
const THREADS_PER_PIPELINE: u64 = 2;
/// Private memory of a server, besides that of its pipelines.
const MEMORY_MAX: u64 = 64 * MIB;
/// A pipeline's buffers, requests and replies.
const MEMORY_PER_PIPELINE: u64 = 32 * MIB;
/// Longest time in which another user sees a directory.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// What is short takes some turns of the kernel's among its threads, whatever the server does.
const TURNS: Duration = Duration::from_millis(200);
/// The file that attackers have the server read. It has no content, so that it is there at once.
const LARGE: u64 = 4 << 40;
/// The file that they have the server compare with what they do not send, and how many of them do so in one session: the server
/// reserves room for each.
const AGAIN: u64 = 64 * MIB;
const UPLOADS: usize = 16;
/// When both were changed, in seconds since 1970.
const MODIFIED: i64 = 1_600_000_000;
/// Operations that one session may have open.
const OPERATIONS: usize = 128;

/// One test at a time: they measure.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a peer does.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// Downloads of which it says that it has everything, and is not sure of it.
    DoubtedDownloads,
    /// Uploads of what is there already, and may be their own earlier attempt.
    RepeatedUploads,
    /// Hashes instead of downloads.
    Sums,
    /// Batches of calls that hash.
    Hashes,
    /// Batches of calls that make directories, each many levels deep.
    DeepDirectories,
    /// Durable small files, each below directories of its own that are many levels deep.
    DeepFiles,
    /// News of channels that never were.
    Fences,
    /// More batches than a session may have, all of which hash.
    RefusedBatches,
    /// Calls that fail, on names that fill the audit log.
    Noise,
    /// Uploads that reserve space and are given up.
    Reservations,
}

const ATTACKS: [Attack; 10] = [
    Attack::DoubtedDownloads,
    Attack::RepeatedUploads,
    Attack::Sums,
    Attack::Hashes,
    Attack::DeepDirectories,
    Attack::DeepFiles,
    Attack::Fences,
    Attack::RefusedBatches,
    Attack::Noise,
    Attack::Reservations,
];
/// Levels of a path, as deep and as long as one may be.
const LEVELS: usize = 1000;
const LEVEL: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123/";

/// A peer that attacks until this value goes.
struct Attacker {
    stop: Arc<AtomicBool>,
    end: Option<Box<dyn FnOnce() + Send>>,
    thread: Option<JoinHandle<()>>,
}

impl Attacker {
    fn start(mut peer: Peer, attack: Attack, number: u8) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (end, stopped) = (Box::new(peer.ender()), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            peer::leave_the_machine_to_others();
            run(&mut peer, attack, number, &stopped);
            peer.drain();
        });
        Self { stop, end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(end) = self.end.take() {
            end();
        }
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok());
        }
    }
}

fn run(peer: &mut Peer, attack: Attack, number: u8, stop: &AtomicBool) {
    let base = Request { name: b"data/large".to_vec(), ..Request::default() };
    match attack {
        Attack::DoubtedDownloads => {
            // Of another file with this length and time, so that it may be a copy.
            let mut source = [[0; 16], [0; 16], [0; 16]].concat();
            source[16..24].copy_from_slice(&LARGE.to_be_bytes());
            source[24..32].copy_from_slice(&MODIFIED.to_be_bytes());
            let resume = Some(Resume { source, kept: vec![Extent::new(0, LARGE).unwrap()] });
            let request = Request { hash: true, unverified: true, resume, ..base };
            (0..OPERATIONS).all(|_| peer.download(&request));
        }
        Attack::RepeatedUploads => {
            let (length, modified, version) = (Some(AGAIN), Some(Timestamp::new(MODIFIED, 0)), Some(Vec::new()));
            let base = Request { name: b"data/again".to_vec(), ..base };
            let request = Request { length, modified, base: version, hash: true, reread: true, mode: 0o644, ..base };
            // Each is a transfer of its own: one at a time writes what another has begun.
            let transfer = |at: usize| TransferId([at.to_be_bytes(), [number; 8]].concat().try_into().unwrap());
            (0..UPLOADS).all(|at| peer.upload(&Request { transfer: transfer(at), ..request.clone() }));
        }
        Attack::Sums => {
            let request = Request { sum: true, ..base };
            (0..OPERATIONS).all(|_| peer.download(&request));
        }
        Attack::Hashes => {
            let calls = vec![Call::Hash { path: b"large", offset: 0, length: None }; 100];
            let batch = Batch { room: 64 << 10, base: b"data", calls, ..Batch::default() }.encode();
            (0..OPERATIONS).all(|_| peer.request(Event::Path, &batch));
        }
        Attack::DeepDirectories | Attack::DeepFiles => deep(peer, attack, number, stop),
        Attack::Fences | Attack::RefusedBatches | Attack::Noise | Attack::Reservations => {
            let drained = peer.drain_beside();
            let mut rounds = 0..;
            while !stop.load(Ordering::Relaxed) && rounds.next().is_some_and(|round| flood(peer, attack, number, round))
            {
            }
            peer.ender()();
            drained.join().unwrap();
        }
    }
}

/// Sends one of what is sent without waiting for anything: whether the server still listens.
fn flood(peer: &mut Peer, attack: Attack, number: u8, round: u64) -> bool {
    let batch = |calls| Batch { room: 64 << 10, base: b"data", calls, ..Batch::default() }.encode();
    match attack {
        Attack::Fences => messages::fence(peer, round),
        Attack::RefusedBatches => {
            let calls = vec![Call::Hash { path: b"large", offset: 0, length: None }; 100];
            peer.request(Event::Path, &batch(calls))
        }
        Attack::Noise => {
            let names: Vec<Vec<u8>> = (0..100).map(|at| [&[at, 0xff, b'"'][..], &[0x1b; 200]].concat()).collect();
            peer.request(Event::Path, &batch(names.iter().map(|path| Call::Unlink { path }).collect()))
        }
        _ => {
            let name = format!("data/reserved-{number}-{}", round % 100).into_bytes();
            let transfer = TransferId([round.to_be_bytes(), [number; 8]].concat().try_into().unwrap());
            peer.upload(&Request { name, transfer, length: Some(MIB), mode: 0o644, ..Request::default() })
                && peer.within(Event::Cancel, &[])
        }
    }
}

fn deep(peer: &mut Peer, attack: Attack, number: u8, stop: &AtomicBool) {
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        let path = |at| [format!("{number}-{round}-{at}/").as_bytes(), &LEVEL.repeat(LEVELS), b"a"].concat();
        let paths: Vec<Vec<u8>> = (0..7).map(path).collect();
        let call = |path| match attack {
            Attack::DeepFiles => messages::put(path),
            _ => Call::MakeDirectory { path, parents: true, mode: 0o755 },
        };
        let calls: Vec<_> = paths.iter().map(|path| call(path)).collect();
        let codes: Vec<u64> = calls.iter().map(Call::code).collect();
        let batch = Batch { room: 8 << 10, base: b"data", durable: true, calls, ..Batch::default() }.encode();
        if !peer.request(Event::Path, &batch) {
            return;
        }
        let Some(reply) = peer.reply() else { return };
        // Nobody is attacked by calls that fail at once.
        let reply = Reply::decode(&reply, &codes).unwrap();
        assert!(reply.outcomes.iter().all(Result::is_ok), "{attack:?}: {:?}", reply.outcomes);
    }
}

/// A server with a file that takes hours to read, and what is moved in between.
struct Field {
    scene: Scene,
    server: Server,
}

/// How long another user waited.
#[derive(Debug, Default)]
struct Waited {
    look: Vec<Duration>,
    upload: Vec<Duration>,
    reread: Vec<Duration>,
    sum: Vec<Duration>,
}

/// An upload that the server reads back before it is done.
const REREAD: [&str; 3] = ["cp", "--verify", "reread"];

impl Field {
    fn new() -> Self {
        Self::with(|scene, words| scene.command(words))
    }

    /// The same, where `command` starts the server.
    fn with(command: impl FnOnce(&Scene, [&'static str; 7]) -> Command) -> Self {
        let scene = Scene::new();
        scene.directory("server");
        for (name, length) in [("server/large", LARGE), ("server/again", AGAIN)] {
            let file = File::create(scene.path(name)).unwrap();
            file.set_len(length).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(MODIFIED as u64)).unwrap();
        }
        let content: Vec<u8> = (0..10 * MIB).map(|at| (at / 7 % 251) as u8).collect();
        scene.write("upload", &content);
        scene.write("server/sum", &content);
        let config = "[exports.data]\ndirectory = \"server\"\nanonymous = \"rw\"\n[log]\naudit = \"audit.jsonl\"\n";
        scene.write("server.toml", config.as_bytes());
        let words = ["serve", "--json", "--quiet", "--listen", "127.0.0.1:0", "--config", "server.toml"];
        let server = Server::start(command(&scene, words), &[]);
        scene.trust(server.address(), &server);
        Self { scene, server }
    }

    fn attacker(&self, attack: Attack, who: Who, number: u8) -> Attacker {
        Attacker::start(Peer::open(&self.server, who), attack, number)
    }

    /// An attacker of each kind, who are so many users of the server.
    fn attackers(&self, users: u8) -> Vec<Attacker> {
        self.scene.write("password", PASSWORD.as_bytes());
        self.scene.make_private("password");
        for number in 0..users {
            let name = user_name(1 + number);
            self.scene.run(["user", "add", &name, "--password-file", "password"]).ends_with(0);
        }
        let numbered = (0..).zip(ATTACKS);
        numbered.map(|(number, attack)| self.attacker(attack, Who::User(1 + number % users), number)).collect()
    }

    fn timed(&self, words: &[&str]) -> Duration {
        timed(|| _ = self.scene.run(words).ends_with(0))
    }

    /// Does what another user does, some times, and watches what the server needs meanwhile.
    fn waits(&self, pipelines: u64) -> Waited {
        self.waits_for(pipelines, false)
    }

    /// The same, with an upload that is read back where that is wanted: it takes as long as the rest.
    fn waits_for(&self, pipelines: u64, reread: bool) -> Waited {
        let mut waited = Waited::default();
        let url = |path: &str| self.server.url(path);
        for _ in 0..5 {
            waited.look.push(self.timed(&["ls", &url("sum")]));
            waited.upload.push(self.timed(&["cp", "upload", &url("uploaded")]));
            if reread {
                waited.reread.push(self.timed(&[&REREAD[..], &["upload", &url("reread")]].concat()));
            }
            waited.sum.push(self.timed(&["sum", &url("sum")]));
            let (memory, threads) = cost(&self.server);
            assert!(
                threads <= THREADS_MAX + pipelines * THREADS_PER_PIPELINE,
                "{threads} threads with {pipelines} pipelines"
            );
            assert!(
                memory <= MEMORY_MAX + pipelines * MEMORY_PER_PIPELINE,
                "{} MiB with {pipelines} pipelines",
                memory / MIB
            );
        }
        for name in ["server/uploaded", "server/reread"].iter().take(1 + usize::from(reread)) {
            assert!(self.scene.read(name) == self.scene.read("upload"), "{name}");
        }
        waited
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// The most private memory that the server has had, in bytes, and its threads.
fn cost(server: &Server) -> (u64, u64) {
    let process = server.process().as_raw_nonzero();
    let number = |file: &str, name: &str| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}"));
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let memory = number("status", "VmHWM:").saturating_sub(number("status", "RssFile:"));
    (memory << 10, number("status", "Threads:"))
}

/// Three of a kind at once.
#[track_caller]
fn leave_another_user_his_turn(attack: Attack) {
    let _one = alone();
    let field = Field::new();
    let attackers: Vec<_> = (0..3).map(|visitor| field.attacker(attack, Who::Visitor(1 + visitor), visitor)).collect();
    let waited = field.waits(4);
    println!("{attack:?}: {waited:?}, {:?}", cost(&field.server));
    assert!(all_but_one_below(&waited.look, LOOK_MAX), "{waited:?}");
    drop(attackers);
    assert_eq!(field.server.stop(), Some(0));
}

#[test]
fn downloads_in_doubt_leave_another_user_his_turn() {
    leave_another_user_his_turn(Attack::DoubtedDownloads);
}

#[test]
fn uploads_that_may_be_there_leave_another_user_his_turn() {
    leave_another_user_his_turn(Attack::RepeatedUploads);
}

#[test]
fn sums_leave_another_user_his_turn() {
    leave_another_user_his_turn(Attack::Sums);
}

#[test]
fn calls_that_hash_leave_another_user_his_turn() {
    leave_another_user_his_turn(Attack::Hashes);
}

#[test]
fn deep_directories_leave_another_user_his_turn() {
    leave_another_user_his_turn(Attack::DeepDirectories);
}

#[test]
fn deep_files_leave_another_user_his_turn() {
    leave_another_user_his_turn(Attack::DeepFiles);
}

#[test]
fn channels_that_never_were_leave_another_user_his_turn() {
    leave_another_user_his_turn(Attack::Fences);
}

#[test]
fn batches_that_are_refused_leave_another_user_his_turn() {
    leave_another_user_his_turn(Attack::RefusedBatches);
}

#[test]
fn calls_that_fill_the_log_leave_another_user_his_turn() {
    leave_another_user_his_turn(Attack::Noise);
}

#[test]
fn uploads_that_reserve_space_leave_another_user_his_turn() {
    leave_another_user_his_turn(Attack::Reservations);
}

/// A server's open files of which its transfers may have what is left of an eighth, three for each, or sixteen for each user.
const OPEN_FILES: u32 = 640;
const TRANSFERS_OF_A_USER: usize = 16;

#[test]
fn transfers_that_nobody_reads_take_no_more_descriptors_than_one_user_may_have() {
    let _one = alone();
    let field = Field::with(|scene, words| scene.limited(OPEN_FILES, &words));
    let folder = format!("/proc/{}/fd", field.server.process().as_raw_nonzero());
    let open = || std::fs::read_dir(&folder).unwrap().count();
    field.scene.run(["ls", &field.server.url("sum")]).ends_with(0);
    // A server ends a session behind its answers.
    until(|| threads_named(field.server.process(), "xdfs-pipeline"), |threads| *threads == 0);
    let before = open();
    // Without credit no block comes: each stays as it is for as long as its peer likes.
    let request = Request { name: b"data/large".to_vec(), ..Request::default() };
    let stat = Call::Stat { path: b"large", wanted: Wanted::NOTHING };
    let mut peers: Vec<_> = (1..=3).map(|number| Peer::open(&field.server, Who::Visitor(number))).collect();
    for peer in &mut peers {
        assert!((0..OPERATIONS).all(|_| peer.download(&request)));
        let batch = Batch { room: 8 << 10, base: b"data", calls: vec![stat], ..Batch::default() };
        assert!(peer.request(Event::Path, &batch.encode()));
        peer.reply().expect("a server that goes on");
    }
    for _ in 0..5 {
        field.scene.run(["cp", "upload", &field.server.url("uploaded")]).ends_with(0);
        // A file and two ends of a pipe for each, and a session's own.
        let most = before + peers.len() * (8 + 3 * TRANSFERS_OF_A_USER);
        until(open, |open| *open <= most);
    }
    assert!(field.scene.read("server/uploaded") == field.scene.read("upload"));
    drop(peers);
    assert_eq!(field.server.stop(), Some(0));
}

#[test]
fn ten_attackers_at_once_slow_another_user_down_by_their_share_alone() {
    let _one = alone();
    for users in [1, 10] {
        let field = Field::new();
        let before = field.waits_for(1, true);
        let attackers = field.attackers(users);
        let most = 2 * (1 + u32::from(users));
        let are_slowed_by_their_share = || {
            let during = field.waits_for(11, true);
            println!("{users} users: {before:?}, then {during:?}, {:?}", cost(&field.server));
            assert!(all_but_one_below(&during.look, LOOK_MAX), "{users} users: {during:?}");
            let pairs = [(&before.upload, during.upload), (&before.reread, during.reread), (&before.sum, during.sum)];
            pairs.iter().all(|(before, during)| median(during) <= median(before) * most + TURNS)
        };
        // Other work of the machine may begin meanwhile; the attackers go on all the time.
        assert!((0..3).any(|_| are_slowed_by_their_share()), "{users} users slow another one by more than their share");
        drop(attackers);
        // The log is long: it is read until all of them were seen.
        let mut missing: BTreeSet<String> = (1..=users).map(|number| format!("\"{}\"", user_name(number))).collect();
        let mut lines = BufReader::new(File::open(field.scene.path("audit.jsonl")).unwrap()).lines();
        while let Some(line) = lines.next().filter(|_| !missing.is_empty()) {
            let line = line.unwrap();
            missing.retain(|name| !line.contains(name));
        }
        assert!(missing.is_empty(), "{missing:?} are in no line of the log");
        assert_eq!(field.server.stop(), Some(0));
    }
}
