//! B25 for what nobody types: the secrets of sessions, from which their keys come, and the keys themselves. One end of each
//! session is in this process, which keeps what its own end forgets; the other end is the real command.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xdfs_client::wire::Wanted;
use xdfs_client::{Address, ConnectOptions, GetOptions, Level, Payload, Pinned, PutOptions, Session, Target};
use xdfs_io::store::LocalStore;
use xdfs_secure::reveal;
use xdfs_server::{Config, DiskMode, Export, HostIdentity, KeyLimits, KeyPair, Policy, ServerLimits, VisitorsOnly};
use xdfs_test_cli::{Running, Scene, Server, until};

use super::search::Search;
use super::talkative;

/// What this process keeps is of one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    reveal::start();
    drop(reveal::taken());
    one
}

/// Secrets of one session with one channel at least: its own, a grant, and for each direction a key, and that of JOIN.
const OF_ONE_SESSION: usize = 5;

impl Search {
    /// Every secret that this process has held since the last time. The grants among them.
    fn canaries_of_sessions(&mut self, sessions: usize) -> Vec<Vec<u8>> {
        let kept = reveal::taken();
        let long = || kept.all.iter().filter(|secret| secret.len() >= 16);
        assert!(long().count() >= OF_ONE_SESSION * sessions, "{} secrets", long().count());
        assert!(kept.grants.len() >= sessions);
        long().for_each(|secret| self.canary(secret));
        kept.grants
    }
}

fn serve(scene: &Scene) -> Server {
    scene.write("server/a", &[5; 100_000]);
    scene.directory("log");
    scene.write(
        "server.toml",
        b"[exports.data]\ndirectory = \"server\"\nanonymous = \"rw\"\n[log]\naudit = \"log/audit.jsonl\"\n",
    );
    let mut command = scene.command_as("admin", ["serve", "--json", "--listen", "127.0.0.1:0"]);
    talkative(scene, &mut command);
    command.stderr(std::fs::File::create(scene.path("server-log")).expect("a file for the log"));
    Server::start(command, &["--config", "server.toml"])
}

fn connect(server: &Server, level: Level, key_limits: KeyLimits) -> Session {
    let address: std::net::SocketAddr = server.address().parse().expect("an address");
    let host_check = Arc::new(Pinned(server.host_key().parse().expect("a fingerprint")));
    let options =
        ConnectOptions { channels: 3, level, key_limits, host_check, ..ConnectOptions::to(Address::Tcp(address)) };
    Session::connect(&options).expect("a session")
}

/// Sessions that end well, fail, break off, and misbehave. How many.
fn sessions_with(server: &Server) -> usize {
    let payload = || Payload::bytes(vec![7; 300_000]).expect("bytes");
    for level in [Level::Clear, Level::Integrity, Level::Private] {
        let session = connect(server, level, KeyLimits::STANDARD);
        session.put(payload(), "data/up", &PutOptions::default()).and_then(|put| put.wait()).expect("an upload");
        let (target, _) = Target::memory();
        let get = session.get("data/a", target, &GetOptions::default());
        get.and_then(|get| get.wait()).expect("a download");
        session.look("data/missing", Wanted::ALL).expect_err("it is not there");
        session.look("elsewhere/missing", Wanted::ALL).expect_err("it is not offered");
        session.close().expect("an end in order");
    }
    // One that changes its keys sooner than the server expects, so that the server speaks of keys.
    let hasty = KeyLimits { records: 4, ..KeyLimits::STANDARD };
    let session = connect(server, Level::Private, hasty);
    let _ = session.put(payload(), "data/hasty", &PutOptions::default()).and_then(|put| put.wait());
    drop(session);
    // One that just goes.
    let session = connect(server, Level::Private, KeyLimits::STANDARD);
    drop(session.put(payload(), "data/left", &PutOptions::default()));
    drop(session);
    5
}

/// Waits until the audit log tells of the ends of so many sessions.
fn wait_for_ends(scene: &Scene, count: usize) {
    let log = || String::from_utf8_lossy(&scene.read("log/audit.jsonl")).into_owned();
    until(log, |log| log.matches("\"session_ended\"").count() >= count);
}

#[test]
fn b25_no_secret_of_a_session_is_said_logged_or_left_by_a_server() {
    let _one = alone();
    let scene = Scene::new();
    let server = serve(&scene);
    let sessions = sessions_with(&server);
    server.signal(Signal::USR1);
    wait_for_ends(&scene, sessions);
    let mut search = Search::default();
    let grants = search.canaries_of_sessions(sessions);
    assert_eq!(search.keep_processes(server.process()), 2);
    let process = server.process();
    // Grants stay where messages were; no key follows from them alone. An end is told before all of it is forgotten.
    let began = Instant::now();
    loop {
        let left = search.in_memory_of(process, &grants);
        if left.is_empty() {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "in the server's memory after its sessions: {left:#?}");
    }
    search.said.push(("the ready line".into(), server.ready().to_string().into_bytes()));
    assert_eq!(server.stop(), Some(0));
    search.keep_files(&scene.path(""), |_| false);
    search.look();
}

/// A server in this process, what it logs, and its address.
fn server_here(
    scene: &Scene,
    said: &Arc<Mutex<Vec<String>>>,
) -> (xdfs_server::ServerHandle, std::thread::JoinHandle<()>, String) {
    let store = LocalStore::open_root(&scene.directory("server"), true).expect("a directory");
    let said = Arc::clone(said);
    let server = xdfs_server::Server::bind(Config {
        listen: Address::Tcp(([127, 0, 0, 1], 0).into()),
        inherited: None,
        stack: None,
        transport: Default::default(),
        exports: vec![Export::open_to_all("data", Arc::new(store), true)],
        policy: Policy::default(),
        limits: ServerLimits::default(),
        key_limits: KeyLimits::STANDARD,
        disk: DiskMode::default(),
        identity: Arc::new(HostIdentity::new(KeyPair::generate().expect("a key"))),
        directory: Arc::new(VisitorsOnly(true)),
        log: Arc::new(move |event| {
            said.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{event:?}"));
            0
        }),
    });
    let server = server.expect("a server");
    let url = format!("xdfs://{}/data/NAME#{}", server.address(), server.host_key());
    let handle = server.handle();
    (handle, std::thread::spawn(move || server.run().expect("it serves")), url)
}

#[test]
fn b25_no_secret_of_a_session_is_said_or_left_by_a_client_or_logged_by_the_library() {
    let _one = alone();
    let scene = Scene::new();
    scene.write("server/a", &[5; 300_000]);
    let said = Arc::default();
    let (handle, serving, url) = server_here(&scene, &said);
    let url = |name: &str| url.replace("NAME", name);
    let mut search = Search::default();
    let run = |words: &[&str]| {
        let mut command = scene.command(words);
        talkative(&scene, &mut command);
        Running::start(command)
    };
    let mut sessions = 0;
    for level in ["clear", "integrity", "private"] {
        let (a, up) = (url("a"), url("up"));
        for (words, code) in [
            (["cp", "--json", "-P", "3", "--protection", level, &a, "down"], 0),
            (["cp", "--json", "-P", "3", "--protection", level, "down", &up], 0),
            (["cp", "--json", "-P", "3", "--protection", level, &url("missing"), "missing"], 4),
        ] {
            let outcome = run(&words).wait();
            // Which error it is does not matter here.
            assert_eq!(outcome.code == Some(0), code == 0, "{words:?}: {}", outcome.messages);
            search.keep(&words.join(" "), &outcome);
            sessions += 1;
        }
    }
    // One that is looked at while it runs, and is left by its server.
    let piped = url("piped");
    let mut running = run(&["cp", "--json", "-P", "2", "--retry", "0", "-", &piped]);
    assert!(running.feed(&[1; 4 << 20]));
    search.keep_processes(running.process());
    handle.stop();
    serving.join().expect("the server ends");
    search.keep("a client whose server stops", &running.wait());
    let _ = search.canaries_of_sessions(sessions + 1);
    let said = said.lock().unwrap_or_else(PoisonError::into_inner).join("\n");
    search.said.push(("the server's events".into(), said.into_bytes()));
    search.keep_files(&scene.path(""), |_| false);
    search.look();
}
