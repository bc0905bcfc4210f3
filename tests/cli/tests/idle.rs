//! What sessions cost that do nothing: the server's private memory and threads, with the client in another process.
//!
//! `cargo run -p xtask -- long idle` is the long form, with `XDFS_IDLE_SESSIONS=5000`; visitors get half of what a server has descriptors for.
//! `XDFS_IDLE_WATCHES=1000` and `XDFS_OPEN_HANDLES=10000` are those of what clients watch and have open.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use xdfs_client::file::{File, OpenOptions, Remote};
use xdfs_client::watch::{Watch, Watched};
use xdfs_client::{ConnectOptions, Pinned};
use xdfs_engine::opening::{ClientOpened, ClientOpening, ClientStep, SessionRequest};
use xdfs_proto::base::Level;
use xdfs_proto::wire::handshake::Open;
use xdfs_secure::handshake::tls::{Certificates, FAREWELL_BYTES};
use xdfs_secure::login::Offered;
use xdfs_test_cli::{Scene, Server, threads_named, until};

/// Sessions in the short form.
const SHORT: usize = 500;
/// Private memory of one, at most.
const EACH_MAX: u64 = 24 << 10;

/// A session of one channel; nothing is kept here but the connection.
fn open(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the server answers as it should");
    stream.set_nodelay(true).expect("the server answers as it should");
    let open = Open {
        prefaces: [0; 16],
        features: 0,
        channels: 1,
        pipelines: 1,
        window: 0,
        block: 0,
        level: Level::Private,
        stall_ms: 0,
        label: [0; 16],
        suites: vec![1, 2],
        login: 0,
        credentials: Vec::new(),
        options: Vec::new(),
        first: None,
    };
    let wishes = SessionRequest {
        open,
        host: "localhost".into(),
        certificates: Certificates::Raw,
        user: String::new(),
        offers: vec![Offered::Anonymous],
        nonce: [7; 18],
    };
    let (mut opening, mut step) = ClientOpening::start(wishes).expect("the server answers as it should");
    let opened = loop {
        step = match step {
            ClientStep::Done { send, opened } => {
                stream.write_all(&send).expect("the server answers as it should");
                break opened;
            }
            ClientStep::Go { send, want } => {
                stream.write_all(&send).expect("the server answers as it should");
                let mut bytes = vec![0; want];
                stream.read_exact(&mut bytes).expect("the server answers as it should");
                opening.on_bytes(&bytes).expect("the server answers as it should")
            }
            ClientStep::Judge(_) => opening.on_judged().expect("the server answers as it should"),
            ClientStep::Sign { .. } => opening.on_signature(None).expect("the server answers as it should"),
            ClientStep::Stretch(_) => unreachable!("it logs in by key"),
        };
    };
    let ClientOpened { farewell, .. } = *opened;
    let mut last = [0; FAREWELL_BYTES];
    stream.read_exact(&mut last).expect("the server answers as it should");
    farewell.check(&last).expect("the server answers as it should");
    stream
}

/// Private memory of the server in bytes, and its threads.
fn cost(server: &Server) -> (u64, u64) {
    let process = server.process().as_raw_nonzero();
    let read = |name: &str| {
        std::fs::read_to_string(format!("/proc/{process}/{name}")).expect("the server answers as it should")
    };
    let number = |text: &str, name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}"));
        line.trim().trim_end_matches(" kB").parse().expect("the server answers as it should")
    };
    let memory = read("smaps_rollup");
    let private = number(&memory, "Private_Dirty:") + number(&memory, "Private_Clean:");
    (private << 10, number(&read("status"), "Threads:"))
}

#[test]
fn idle_sessions_cost_little_memory_and_no_thread() {
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum }).expect("within the maximum");
    let count = std::env::var("XDFS_IDLE_SESSIONS").map_or(SHORT, |count| count.parse().expect("a number"));
    let scene = Scene::new();
    let limits = "sessions = 20000\nsessions-per-user = 20000\nchannels-per-user = 20000\nidle-seconds = 3600\n";
    scene.write("server.toml", format!("[limits]\n{limits}").as_bytes());
    let server = scene.serve_with(&["--config", "server.toml"]);
    // A thread of its own looks for what earlier ones left.
    assert_eq!(server.next_line()["event"], "recovered");
    let mut sessions: Vec<TcpStream> = (0..20).map(|_| open(server.address())).collect();
    until(|| threads_named(server.process(), "xdfs-recovery"), |count| *count == 0);
    let (memory_before, threads_before) = cost(&server);
    sessions.extend((0..count).map(|_| open(server.address())));
    let (memory, threads) = cost(&server);
    let each = memory.saturating_sub(memory_before) / count as u64;
    println!("{count} idle sessions: {each} bytes of private memory each, {threads} threads");
    assert!(each <= EACH_MAX, "{each} bytes each, from {memory_before} to {memory}");
    assert_eq!(threads, threads_before);
    drop(sessions);
    assert_eq!(server.stop(), Some(0));
}

/// What all clients of the long forms may make the server hold, and threads that it may have.
const WATCHES_MEMORY_MAX: u64 = 64 << 20;
const HANDLES_MEMORY_MAX: u64 = 32 << 20;
const THREADS_MAX: u64 = 16;
/// Of the short forms.
const WATCHES_SHORT: u64 = 200;
const HANDLES_SHORT: u64 = 2000;

const DEADLINE: Duration = Duration::from_secs(60);

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |count| count.parse().expect("a number"))
}

fn serve(scene: &Scene) -> Server {
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum }).expect("within the maximum");
    let limits = "sessions = 20000\nsessions-per-user = 20000\nchannels-per-user = 20000\npipelines-per-user = 20000\n";
    scene.write("server.toml", format!("[limits]\n{limits}").as_bytes());
    scene.serve_with(&["--config", "server.toml"])
}

fn remote(server: &Server) -> Arc<Remote> {
    let address: SocketAddr = server.address().parse().expect("an address");
    let host_check = Arc::new(Pinned(server.host_key().parse().expect("a key")));
    Remote::new(ConnectOptions { host_check, deadline: DEADLINE, ..ConnectOptions::to(address) })
}

/// What the server costs when its threads have ended that did something.
fn cost_at_rest(server: &Server) -> (u64, u64) {
    until(|| threads_named(server.process(), "xdfs-pipeline"), |count| *count == 0);
    cost(server)
}

#[test]
fn a_thousand_clients_that_watch_cost_no_thread_and_little_memory_and_are_told() {
    let count = number("XDFS_IDLE_WATCHES", WATCHES_SHORT);
    let scene = Scene::new();
    let server = serve(&scene);
    let begin = || -> (Arc<Remote>, Watch, Receiver<()>) {
        let (client, (sender, told)) = (remote(&server), sync_channel(1));
        let watch = client
            .watch("data", Watched::Names, move |_, _| {
                let _ = sender.try_send(());
            })
            .unwrap();
        (client, watch, told)
    };
    let first = begin();
    let (before, _) = cost_at_rest(&server);
    let clients: Vec<_> = (1..count).map(|_| begin()).collect();
    let (memory, threads) = cost_at_rest(&server);
    println!("{count} clients that watch: {memory} bytes of private memory and {threads} threads; {before} with one");
    assert!(memory <= WATCHES_MEMORY_MAX, "{memory} bytes");
    assert!(threads <= THREADS_MAX, "{threads} threads");
    scene.write("server/new", b"");
    for (_, _, told) in clients.iter().chain([&first]) {
        told.recv_timeout(DEADLINE).unwrap();
    }
    let (after, threads) = cost(&server);
    println!("after all of them were told of a change: {after} bytes and {threads} threads");
    assert!(threads <= THREADS_MAX, "{threads} threads, to tell them");
    drop((clients, first));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn ten_thousand_open_files_cost_little_memory_and_few_descriptors() {
    let count = number("XDFS_OPEN_HANDLES", HANDLES_SHORT);
    let scene = Scene::new();
    scene.write("server/f", b"content");
    let server = serve(&scene);
    let client = remote(&server);
    let open = || File::open(&client, "data/f", &OpenOptions::new().read(true)).unwrap();
    let _first = open();
    let (before, _) = cost_at_rest(&server);
    let files: Vec<File> = (1..count).map(|_| open()).collect();
    let (memory, threads) = cost_at_rest(&server);
    let folder = format!("/proc/{}/fd", server.process().as_raw_nonzero());
    let descriptors = std::fs::read_dir(folder).unwrap().count();
    let grown = memory.saturating_sub(before);
    println!("{count} open files: {grown} bytes of private memory, {descriptors} descriptors, {threads} threads");
    assert!(grown <= HANDLES_MEMORY_MAX, "{grown} bytes");
    assert!(descriptors < 400, "{descriptors} descriptors: a quarter of 1,024, and what a server has anyway");
    drop(files);
}
