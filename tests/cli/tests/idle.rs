//! What sessions cost that do nothing: the server's private memory and threads, with the client in another process.
//!
//! `XDFS_IDLE_SESSIONS=10000` is the long form (cargo xtask does not run it); it needs 10,100 open files here and there.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use xdfs_engine::opening::{ClientOpened, ClientOpening, ClientStep, SessionRequest};
use xdfs_proto::base::Level;
use xdfs_proto::wire::handshake::Open;
use xdfs_secure::handshake::tls::{Certificates, FAREWELL_BYTES};
use xdfs_secure::login::Offered;
use xdfs_test_cli::{Scene, Server};

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
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum }).unwrap();
    let count = std::env::var("XDFS_IDLE_SESSIONS").map_or(SHORT, |count| count.parse().unwrap());
    let scene = Scene::new();
    let limits = "sessions = 20000\nsessions-per-user = 20000\nchannels-per-user = 20000\nidle-seconds = 3600\n";
    scene.write("server.toml", format!("[limits]\n{limits}").as_bytes());
    let server = scene.serve_with(&["--config", "server.toml"]);
    let mut sessions: Vec<TcpStream> = (0..20).map(|_| open(server.address())).collect();
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
