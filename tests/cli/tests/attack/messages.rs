//! Each message and each call that a client can send, sent as fast as one is able to: what that costs the server in threads,
//! memory, log and disk, and another user in time. A message or call that is added to the protocol has to be added here, and to the
//! table of `docs/security.md`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use xdfs_proto::base::{ChannelId, Error, ErrorKind, Extent, Safety};
use xdfs_proto::lease::LeaseKind;
use xdfs_proto::range_locks::RangeLock;
use xdfs_proto::wire::control::{Ack, Control, Finish, Grant};
use xdfs_proto::wire::file::{FileBatch, FileCall, FileCode, FileReply, LeaseCall, OpenFile, ReadRange};
use xdfs_proto::wire::path::{Batch, Call, Code, FileType, NewTime, Owner, Put, Reply, Wanted, Watched, XattrRule};
use xdfs_proto::wire::request::Request;
use xdfs_proto::wire::{Event, Flags};
use xdfs_test_cli::{Scene, Server, all_but_one_below, timed};

use crate::peer::{Peer, Who, leave_the_machine_to_others};
use crate::{LOOK_MAX, MEMORY_MAX, MEMORY_PER_PIPELINE, MIB, THREADS_MAX, THREADS_PER_PIPELINE, alone, cost};

/// Who sends, by the number of his address, and who tries out beforehand what is sent.
const SENDER: u8 = 1;
const TRIES: u8 = 2;
/// It is sent at least so often, within this time. A server reads only what it can work on, and 32 calls of a batch may be 32
/// waits for a slow disk.
const LEAST: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(60);
/// Messages about one operation.
const MESSAGES: usize = 16;
/// Calls of a batch.
const CALLS: u64 = 32;
/// Bytes of log for each byte that was sent, as documented.
const LOG_GROWTH: u64 = 12;
/// Bytes of the disk for what is created, its journal or attributes included, besides its content.
const DISK_PER_NAME: u64 = 8 << 10;
/// Part files that are kept of one user.
const PARTS_MAX: u64 = 256;
/// What a call of `allocate` reserves.
const RESERVED: u64 = 1 << 20;
/// Bytes of log about a session, whatever is sent in it.
const LOG_OF_SESSION: u64 = 2 << 10;

/// How often another user looks at a directory meanwhile; that is how long it is sent.
fn looks() -> usize {
    std::env::var("XDFS_FLOOD_LOOKS").map_or(3, |text| text.parse().unwrap())
}

/// Sends once what is sent again and again, here for the so-manieth time: whether the server still listens.
type Flood<'a> = dyn Fn(&mut Peer, u64) -> bool + Sync + 'a;

/// A server whose logs are files.
struct Flooded {
    scene: Scene,
    server: Server,
    sent: RefCell<Sent>,
}

/// What was sent.
#[derive(Clone, Copy, Default, Debug)]
struct Sent {
    bytes: u64,
    rounds: u64,
    sessions: u64,
}

impl Flooded {
    fn new() -> Self {
        let scene = Scene::new();
        let config = "[exports.data]\ndirectory = \"server\"\nanonymous = \"rw\"\n\
             keep = [\"owner\", \"xattr\", \"special\"]\n[log]\naudit = \"audit.jsonl\"\n\
             [limits]\nlease-seconds = 1\n";
        scene.write("server.toml", config.as_bytes());
        scene.write("server/sum", b"what another user looks at");
        scene.write("server/flood/file", &[7; 64 << 10]);
        scene.write("server/flood/small", &[7; 1 << 10]);
        for number in 0..500 {
            scene.write(format!("server/flood/many/{number:0100}"), b"");
        }
        std::os::unix::fs::symlink("file", scene.path("server/flood/link")).unwrap();
        let pipe = scene.path("server/flood/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, pipe, rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
        let words = ["serve", "--json", "--listen", "127.0.0.1:0", "--config", "server.toml"];
        let mut command = scene.command(words);
        command.stderr(File::create(scene.path("messages")).unwrap());
        let server = Server::start(command, &[]);
        scene.trust(server.address(), &server);
        // A server that grants leases has everybody wait at first.
        scene.run(["ls", &server.url("sum")]).ends_with(0);
        Self { scene, server, sent: RefCell::default() }
    }

    /// Has this sent, and sees to it that it costs no more than it may.
    fn bears(&self, what: &str, flood: &Flood) -> Sent {
        // The most memory from now on.
        let process = self.server.process().as_raw_nonzero();
        std::fs::write(format!("/proc/{process}/clear_refs"), "5").unwrap();
        let address = self.server.address().parse().unwrap();
        let (sender, mut looks_took) = (Sender::default(), Vec::new());
        let disk = self.disk_time();
        let mut sent = std::thread::scope(|scope| {
            let sending = scope.spawn(|| sender.send(address, flood));
            let stopped = Stopped(&sender);
            let until = Instant::now() + PATIENCE;
            // On a busy machine a few looks are over before anything was sent.
            while looks_took.len() < looks() || sender.rounds.load(Ordering::SeqCst) < LEAST {
                assert!(Instant::now() < until, "{what}: nothing can be sent");
                let look = || _ = self.scene.run(["ls", &self.server.url("sum")]).ends_with(0);
                looks_took.push(timed(look));
                self.is_within_bounds(what);
            }
            drop(stopped);
            sending.join().unwrap()
        });
        sent.sessions += looks_took.len() as u64;
        let slowest = looks_took.iter().max();
        let (memory, logged) = (self.is_within_bounds(what) / MIB, self.log_is_within_bounds(what, sent) >> 10);
        println!("{what}: {sent:?}, {memory} MiB, others {slowest:?}, disk {disk:?}; {logged} KiB of log so far");
        // The slower the machine, the more looks there are.
        let is_soon = looks_took.chunks(5).all(|some| all_but_one_below(some, LOOK_MAX + disk));
        assert!(is_soon, "{what}: another user waited {looks_took:?}, and the disk took {disk:?}");
        sent
    }

    /// How long the disk itself takes for some small files before anybody is sent anything, which is not the server's to answer for.
    fn disk_time(&self) -> Duration {
        let began = Instant::now();
        for _ in 0..3 {
            let file = File::create(self.scene.path("beside")).unwrap();
            file.sync_all().unwrap();
        }
        began.elapsed()
    }

    /// The private memory that the server has had at the most.
    fn is_within_bounds(&self, what: &str) -> u64 {
        let (memory, threads) = cost(&self.server);
        // The sender's and the other user's.
        let pipelines = 2;
        assert!(threads <= THREADS_MAX + pipelines * THREADS_PER_PIPELINE, "{what}: {threads} threads");
        assert!(memory <= MEMORY_MAX + pipelines * MEMORY_PER_PIPELINE, "{what}: {} MiB", memory / MIB);
        memory
    }

    /// Bytes of log about all that was sent so far, this included.
    fn log_is_within_bounds(&self, what: &str, sent: Sent) -> u64 {
        let mut so_far = self.sent.borrow_mut();
        so_far.bytes += sent.bytes;
        so_far.sessions += sent.sessions;
        logged_within_bounds(&self.scene, &so_far, what)
    }

    /// The server ends, once it has told of all that it has left to tell of.
    fn stop(self) {
        let Self { scene, server, sent } = self;
        assert_eq!(server.stop(), Some(0));
        logged_within_bounds(&scene, &sent.into_inner(), "the end");
    }

    /// Bytes of the export's file system that what is in it takes.
    fn disk(&self) -> u64 {
        512 * blocks(&self.scene.path("server"))
    }

    /// Soon after the last session what was reserved and not written is given back.
    fn disk_gets_down_to(&self, most: u64, what: &str) {
        let until = Instant::now() + PATIENCE;
        while self.disk() > most {
            assert!(Instant::now() < until, "{what}: {} bytes of the disk, where {most} are allowed", self.disk());
            std::thread::yield_now();
        }
    }
}

/// Bytes of the server's logs.
fn logged_within_bounds(scene: &Scene, sent: &Sent, what: &str) -> u64 {
    let logs = ["audit.jsonl", "messages"].iter().map(|log| std::fs::metadata(scene.path(log)).unwrap().len());
    let (logged, most) = (logs.sum(), sent.bytes * LOG_GROWTH + sent.sessions * LOG_OF_SESSION);
    assert!(logged <= most, "{what}: {logged} bytes of log for {sent:?}");
    logged
}

/// What vanishes while it is looked at counts for nothing.
fn blocks(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap());
    let below = entries.filter_map(|entry| match entry.metadata().ok()? {
        metadata if metadata.is_dir() => Some(blocks(&entry.path())),
        metadata => Some(metadata.blocks()),
    });
    below.sum()
}

/// One who sends.
#[derive(Default)]
struct Sender {
    stop: AtomicBool,
    /// How often it was sent so far.
    rounds: AtomicU64,
    /// Ends the connection that it has.
    end: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// Stops it, also where something was not as it should be.
struct Stopped<'a>(&'a Sender);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
        if let Some(end) = self.0.end.lock().unwrap().take() {
            end();
        }
    }
}

impl Sender {
    /// Sends until it is stopped, in a new session whenever the server has ended one.
    fn send(&self, address: SocketAddr, flood: &Flood) -> Sent {
        leave_the_machine_to_others();
        let (mut sent, mut round) = (Sent::default(), 0);
        while !self.stop.load(Ordering::SeqCst) {
            let Ok(mut peer) = Peer::connect(address, Who::Visitor(SENDER)) else { continue };
            *self.end.lock().unwrap() = Some(Box::new(peer.ender()));
            let drained = peer.drain_beside();
            while !self.stop.load(Ordering::SeqCst) && flood(&mut peer, round) {
                round += 1;
                self.rounds.store(round, Ordering::SeqCst);
            }
            (sent.bytes, sent.rounds) = (sent.bytes + peer.sent(), round);
            sent.sessions += 1;
            peer.ender()();
            drained.join().unwrap();
        }
        sent
    }
}

fn request() -> Request {
    Request { name: b"data/flood/file".to_vec(), ..Request::default() }
}

/// An upload of so many bytes, to a name of its own.
fn upload(round: u64, length: Option<u64>) -> Vec<u8> {
    let name = format!("data/flood/up-{}", round % 64).into_bytes();
    Request { name, mode: 0o644, length, ..Request::default() }.encode()
}

/// Opens a transfer and says this about it.
fn about(peer: &mut Peer, opened: (Event, Vec<u8>), event: Event, payload: &[u8]) -> bool {
    peer.request(opened.0, &opened.1) && (0..MESSAGES).all(|_| peer.within(event, payload))
}

/// A channel is lost, says the peer, that never joined.
pub(crate) fn fence(peer: &mut Peer, round: u64) -> bool {
    let control = Control::Fence { channel: ChannelId(2 + (round % 4000) as u16), processed: 0 };
    peer.send(Event::Fence, 0, Flags::NONE, &control.encode())
}

/// What is sent of each message.
fn message(event: Event, peer: &mut Peer, round: u64) -> bool {
    let download = || (Event::Download, request().encode());
    let upload = |length| (Event::Upload, upload(round, length));
    let everything = || vec![Extent::new(0, 64 << 10).unwrap()];
    let session = |peer: &mut Peer, control: Control| peer.send(control.event(), 0, Flags::NONE, &control.encode());
    match event {
        Event::Upload => peer.upload(&Request { name: b"data/flood/up".to_vec(), length: Some(1 << 40), ..request() }),
        Event::Download => peer.download(&request()),
        // Their calls are tried one by one, below.
        Event::Path => peer.request(event, &path_batch(Code::Stat, SENDER, round)),
        Event::File => peer.request(event, &file_batch(FileCode::Attributes)),
        Event::Continue => about(peer, upload(None), event, &[7; 4 << 10]),
        Event::ZeroCopy => about(peer, upload(None), event, &[]),
        Event::EndOfRange => about(peer, upload(None), event, &Control::EndOfRange { blocks: 0 }.encode()),
        Event::EndOfTransfer => session(peer, Control::EndOfTransfer { records: 0 }),
        Event::Nothing => peer.send(event, 0, Flags::ASK, &[]),
        Event::Exception => {
            let error = Error::new(ErrorKind::Storage, "x".repeat(1000));
            about(peer, download(), event, &Control::Exception(error).encode())
        }
        Event::Ack => {
            let ranges = (1..100).map(|at| Extent::new(at << 9, 1 << 8).unwrap()).collect();
            let ack = Ack { safety: Safety::Durable, contiguous: 0, credit_limit: 1 << 20, ranges, round: 0 };
            about(peer, download(), event, &Control::Ack(ack).encode())
        }
        Event::Grant => about(peer, download(), event, &Control::Grant(Grant::default()).encode()),
        Event::Credit => about(peer, download(), event, &Control::Credit(1 << 20).encode()),
        Event::Channels => session(peer, Control::WantChannels(1)),
        Event::Fence => fence(peer, round),
        Event::Cancel => about(peer, upload(None), event, &[]),
        Event::Finish => about(peer, upload(None), event, &Control::Finish(Finish::default()).encode()),
        Event::Committed => {
            let committed =
                Control::Committed { length: 64 << 10, safety: Safety::Durable, version: Vec::new(), root: None };
            about(peer, download(), event, &committed.encode())
        }
        Event::Hole => about(peer, upload(None), event, &[]),
        Event::Drain => session(peer, Control::Drain { retry_after_ms: 0 }),
        Event::Rekey => session(peer, Control::Rekey),
        Event::Again => about(peer, download(), event, &Control::Again { round: 1, ranges: everything() }.encode()),
        Event::Recall => session(peer, Control::Recall { handles: (1..1000).collect() }),
        Event::Notice => session(peer, Control::Notice { notices: Vec::new() }),
    }
}

/// A batch of such calls, each on a name of its own where it makes one.
fn path_batch(code: Code, user: u8, round: u64) -> Vec<u8> {
    let names: Vec<[Vec<u8>; 2]> = (0..CALLS)
        .map(|at| format!("{}-{user}-{round}-{at}", code.name()))
        .map(|name| [format!("{name}-to").into_bytes(), name.into_bytes()])
        .collect();
    let calls = names.iter().zip(1..).flat_map(|([to, name], at)| path_calls(code, name, to, round * CALLS + at));
    Batch { room: 64 << 10, base: b"data/flood", calls: calls.collect(), ..Batch::default() }.encode()
}

/// A small file, with the directories above it.
pub(crate) const fn put(path: &[u8]) -> Call<'_> {
    let (mode, content) = (0o644, b"content");
    let (keep_existing, parents, holes) = (false, true, false);
    Call::Put(Put { path, keep_existing, parents, mode, modified: None, holes, hash: None, content })
}

/// This call, and what it takes that it can succeed.
fn path_calls<'a>(code: Code, name: &'a [u8], to: &'a [u8], number: u64) -> Vec<Call<'a>> {
    let (file, link, wanted) = (b"file".as_slice(), b"link".as_slice(), Wanted::ALL);
    let made = Call::Symlink { path: name, target: b"file" };
    let client = [number.to_be_bytes(), [0; 8]].concat().try_into().unwrap();
    let attribute = Call::SetXattr { path: file, name: b"user.flood", rule: XattrRule::Any, value: &[7; 200] };
    match code {
        Code::Stat => vec![Call::Stat { path: file, wanted }],
        Code::List => vec![Call::List { path: b"many", wanted, cursor: b"" }],
        Code::MakeDirectory => vec![Call::MakeDirectory { path: name, parents: false, mode: 0o755 }],
        Code::RemoveDirectory => {
            vec![Call::MakeDirectory { path: name, parents: false, mode: 0o755 }, Call::RemoveDirectory { path: name }]
        }
        Code::Unlink => vec![made, Call::Unlink { path: name }],
        Code::Rename => {
            vec![made, Call::Rename { path: name, to, keep_existing: false }, Call::Unlink { path: to }]
        }
        Code::Link => vec![Call::Link { path: link, to: name }, Call::Unlink { path: name }],
        Code::Symlink => vec![made],
        Code::ReadLink => vec![Call::ReadLink { path: link }],
        Code::SetMode => vec![Call::SetMode { path: file, mode: 0o600 }],
        Code::SetTimes => vec![Call::SetTimes { path: file, modified: Some(NewTime::Now), accessed: None }],
        Code::Truncate => vec![Call::Truncate { path: file, length: 64 << 10 }],
        Code::SetOwner => vec![Call::SetOwner { path: file, user: Some(Owner::Number(1)), group: None }],
        Code::MakeNode => vec![Call::MakeNode { path: name, kind: FileType::Fifo, mode: 0o644, device: (0, 0) }],
        Code::XattrValue => vec![attribute, Call::XattrValue { path: file, name: b"user.flood" }],
        Code::SetXattr => vec![attribute],
        Code::XattrNames => vec![Call::XattrNames { path: file }],
        Code::RemoveXattr => vec![attribute, Call::RemoveXattr { path: file, name: b"user.flood" }],
        Code::FileSystem => vec![Call::FileSystem { path: b"" }],
        Code::Hash => vec![Call::Hash { path: file, offset: 0, length: None }],
        Code::Put => vec![put(name)],
        Code::Get => vec![Call::Get { path: b"small", wanted, most: 1 << 10 }],
        Code::Watch => vec![Call::Watch { path: b"many", watched: Watched::Names, watch: number }],
        Code::Opens => vec![Call::Opens { path: file }],
        Code::StageTree => vec![Call::StageTree { path: name, client }],
        Code::PublishTree => vec![Call::StageTree { path: name, client }, Call::PublishTree { path: name, client }],
    }
}

/// A batch that opens a file, calls this again and again, and closes the file.
fn file_batch(code: FileCode) -> Vec<u8> {
    // Nothing is in the way of a call that the session before has left behind with another one.
    let own = format!("data/flood/own-{}", code.name());
    let is_pipe = matches!(code, FileCode::ReadPipe | FileCode::WritePipe);
    let open = match code {
        FileCode::ReadPipe => OpenFile { path: b"data/flood/pipe", read: true, pipe: true, ..OpenFile::default() },
        FileCode::WritePipe => OpenFile { path: b"data/flood/pipe", write: true, pipe: true, ..OpenFile::default() },
        _ => {
            OpenFile { path: own.as_bytes(), read: true, write: true, create: true, mode: 0o644, ..OpenFile::default() }
        }
    };
    let mut calls = vec![FileCall::Open(open)];
    if code != FileCode::Open {
        (0..if is_pipe { 1 } else { CALLS }).for_each(|at| calls.extend(file_calls(code, at)));
        calls.push(FileCall::Close);
    }
    FileBatch { room: 64 << 10, calls, ..FileBatch::default() }.encode()
}

fn file_calls(code: FileCode, at: u64) -> Vec<FileCall<'static>> {
    let (owner, range) = ([1; 8], Extent::new(at * 100, 50).unwrap());
    let lock = RangeLock { range, exclusive: true };
    match code {
        FileCode::Open | FileCode::Close => vec![],
        FileCode::Read => vec![FileCall::Read { ranges: vec![ReadRange { offset: 0, length: 1 << 10 }] }],
        FileCode::Write => vec![FileCall::Write { offset: at << 10, data: &[7; 1 << 10] }],
        FileCode::Append => vec![FileCall::Append { data: &[7; 100] }],
        FileCode::SetLength => vec![FileCall::SetLength { length: at << 10 }],
        FileCode::Sync => vec![FileCall::Sync { data_only: false }],
        FileCode::Allocate => vec![FileCall::Allocate { offset: 0, length: 1 << 20, keep_size: true }],
        FileCode::Punch => vec![FileCall::Punch { offset: 0, length: 1 << 20 }],
        FileCode::Seek => vec![FileCall::Seek { offset: 0, hole: true }],
        FileCode::Attributes => vec![FileCall::Attributes { wanted: Wanted::SIZE }],
        FileCode::Lock => vec![FileCall::Lock { exclusive: true, wait: false }],
        FileCode::Unlock => vec![FileCall::Lock { exclusive: true, wait: false }, FileCall::Unlock],
        FileCode::Lease => vec![FileCall::Lease(LeaseCall::Ask(LeaseKind::Write))],
        FileCode::LockRange => vec![FileCall::LockRange { owner, lock, wait: false }],
        FileCode::UnlockRange => {
            vec![FileCall::LockRange { owner, lock, wait: false }, FileCall::UnlockRange { owner, range }]
        }
        FileCode::FindLock => vec![FileCall::FindLock { owner, lock }],
        FileCode::ReadPipe => vec![FileCall::ReadPipe { length: 1 << 10, wait_ms: 0 }],
        FileCode::WritePipe => vec![FileCall::WritePipe { offset: 0, wait_ms: 0, data: &[7; 100] }],
    }
}

#[test]
fn each_message_costs_what_the_table_says() {
    let _one = alone();
    let flooded = Flooded::new();
    for event in Event::ALL {
        let before = flooded.disk();
        let sent = flooded.bears(event.name(), &|peer, round| message(*event, peer, round));
        flooded.disk_gets_down_to(before + sent.bytes + PARTS_MAX * DISK_PER_NAME, event.name());
    }
    flooded.stop();
}

#[test]
fn each_call_on_a_name_costs_what_the_table_says() {
    let _one = alone();
    let flooded = Flooded::new();
    // Those that change nothing first: what others were sent is still being made when the next ones are tried.
    let mut codes = Code::ALL.to_vec();
    codes.sort_by_key(|code| code.changes());
    for code in &codes {
        let mut peer = Peer::open(&flooded.server, Who::Visitor(TRIES));
        assert!(peer.request(Event::Path, &path_batch(*code, TRIES, 0)));
        let names = [b"a".to_vec(), b"b".to_vec()];
        let once: Vec<u64> = path_calls(*code, &names[0], &names[1], 1).iter().map(Call::code).collect();
        let reply = peer.reply().unwrap();
        let reply = Reply::decode(&reply, &once.repeat(CALLS as usize)).unwrap();
        // Nobody is attacked by calls that fail at once. But one listing fills the reply, and nothing was put into the staged tree.
        let expected = match code {
            Code::List => Some(ErrorKind::LimitExceeded),
            Code::PublishTree => Some(ErrorKind::NotFound),
            _ => None,
        };
        let failed = reply.outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        failed.for_each(|failure| assert_eq!(Some(failure.kind), expected, "{}", code.name()));
        drop(peer);
        let before = flooded.disk();
        let sent =
            flooded.bears(code.name(), &|peer, round| peer.request(Event::Path, &path_batch(*code, SENDER, round)));
        // The last batch may not have been counted.
        let created = (sent.rounds + 1) * CALLS * DISK_PER_NAME;
        flooded.disk_gets_down_to(before + if code.changes() { sent.bytes + created } else { 0 }, code.name());
    }
    flooded.stop();
}

#[test]
fn each_call_on_an_open_file_costs_what_the_table_says() {
    let _one = alone();
    let flooded = Flooded::new();
    for code in FileCode::ALL {
        let batch = file_batch(*code);
        let codes: Vec<u64> = FileBatch::decode(&batch).unwrap().calls.iter().map(FileCall::code).collect();
        let is_pipe = matches!(code, FileCode::ReadPipe | FileCode::WritePipe);
        let mut peer = Peer::open(&flooded.server, Who::Visitor(TRIES));
        assert!(peer.request(Event::File, &batch));
        if !is_pipe {
            // Whoever opens one end of a pipe waits for the other.
            let reply = peer.reply().unwrap();
            let reply = FileReply::decode(&reply, &codes).unwrap();
            let failed = reply.outcomes.iter().find_map(|outcome| outcome.as_ref().err());
            assert_eq!(failed, None, "{}", code.name());
        }
        drop(peer);
        let before = flooded.disk();
        let sent = flooded.bears(code.name(), &|peer, _| peer.request(Event::File, &file_batch(*code)));
        let reserved = if *code == FileCode::Allocate { RESERVED } else { 0 };
        flooded.disk_gets_down_to(before + sent.bytes + reserved + DISK_PER_NAME, code.name());
    }
    flooded.stop();
}

/// The rows of the table name every message and every call, and nothing that there is not.
#[test]
fn each_message_and_each_call_has_a_row() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md")).unwrap();
    let table = text.split("### Message by message").nth(1).expect("the table").split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let told: Vec<&str> =
        rows.flat_map(|row| row[1..].split('|').next().unwrap().split('`').skip(1).step_by(2)).collect();
    let calls = Code::ALL.iter().map(|code| code.name()).chain(FileCode::ALL.iter().map(|code| code.name()));
    let all: BTreeSet<&str> = Event::ALL.iter().map(|event| event.name()).chain(calls).collect();
    assert_eq!(told.len(), BTreeSet::from_iter(told.iter()).len(), "a name has two rows: {told:?}");
    assert_eq!(BTreeSet::from_iter(told), all);
}
