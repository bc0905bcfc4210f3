//! F12: somebody sets the clock while files move. Deadlines run by a clock that nobody sets, and who came later is still known.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xdfs_client::file::{File, LeaseKind, OpenOptions, Remote};
use xdfs_client::{ConnectOptions, ErrorKind, Pinned};
use xdfs_test_cli::{Relay, Running, Scene, Server, pattern};

const SIZE: usize = 12 << 20;
const HOUR: i64 = 3600;

/// The clock of all commands that are started with it: the real one, and what it was set to.
struct SetClock {
    preload: PathBuf,
    file: PathBuf,
}

impl SetClock {
    /// None where tests may be left out. The file lies in an export: a confined server reads nothing else.
    fn new(scene: &Scene) -> Option<Self> {
        let folders = std::fs::read_dir("/usr/lib").expect("the system's libraries").filter_map(Result::ok);
        let found = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1")).find(|file| file.exists());
        let preload = xdfs_test_needs::found(found.ok_or_else(|| "libfaketime (package faketime)".to_owned()))?;
        scene.directory("server");
        let clock = Self { preload, file: scene.path("server/clock") };
        clock.set(scene, 0);
        Some(clock)
    }

    /// So many seconds from the real time.
    fn set(&self, scene: &Scene, seconds: i64) {
        let written = scene.write("server/clock.new", format!("{seconds:+}\n").as_bytes());
        std::fs::rename(written, &self.file).expect("both are in one directory");
    }

    fn follow(&self, mut command: Command) -> Command {
        command.env("LD_PRELOAD", &self.preload).env("FAKETIME_TIMESTAMP_FILE", &self.file);
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DISABLE_SHM", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command
    }

    fn serve(&self, scene: &Scene) -> Server {
        self.serve_with(scene, &[])
    }

    fn serve_with(&self, scene: &Scene, words: &[&str]) -> Server {
        let command = self.follow(scene.command(["serve", "--json", "--listen", "127.0.0.1:0"]));
        let usual = ["--quiet", "--export", "data=server", "--allow-anonymous", "rw"];
        let server = Server::start(command, &[&usual, words].concat());
        scene.trust(server.address(), &server);
        server
    }
}

#[test]
fn a_clock_that_is_set_while_a_file_moves_ends_nothing() {
    let scene = Scene::new();
    let Some(clock) = SetClock::new(&scene) else { return };
    let server = clock.serve(&scene);
    let source = pattern(SIZE, 12);
    scene.write("source", &source);
    for (number, jump) in [HOUR, -HOUR, 400 * 24 * HOUR].into_iter().enumerate() {
        let relay = Relay::holding(&server, 1, (SIZE / 2) as u64);
        let name = format!("file{number}");
        let upload = Running::start(clock.follow(scene.command(["cp", "-P", "1", "source", &relay.url(&name)])));
        relay.wait_until_held();
        clock.set(&scene, jump);
        relay.release();
        upload.wait().ends_with(0);
        assert_eq!(scene.read(format!("server/{name}")), source);
        clock.set(&scene, 0);
    }
    assert_eq!(server.stop(), Some(0));
}

/// Which of two sessions is the later one does not depend on the clock that the server had when they began.
#[test]
fn who_comes_back_after_the_clock_was_set_back_goes_on_with_the_transfer() {
    let scene = Scene::new();
    let Some(clock) = SetClock::new(&scene) else { return };
    let server = clock.serve(&scene);
    let source = pattern(SIZE, 13);
    scene.write("source", &source);
    let relay = Relay::holding(&server, 1, (SIZE / 2) as u64);
    let first = scene.start(["cp", "-P", "1", "source", &relay.url("file")]);
    relay.wait_until_held();
    clock.set(&scene, -HOUR);
    // The server still waits for the first session, whose link is down.
    scene.run(["cp", "-P", "1", "source", &server.url("file")]).ends_with(0);
    assert_eq!(scene.read("server/file"), source);
    first.kill();
    drop(relay);
    assert_eq!(server.stop(), Some(0));
}

/// What a lease and a lock keep from others, and for how long, is not told by the clock that somebody sets.
#[test]
fn a_clock_that_is_set_while_a_lease_and_a_lock_are_held_ends_neither() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let scene = Scene::new();
    let Some(clock) = SetClock::new(&scene) else { return };
    scene.write("server.toml", b"[limits]\nlease-seconds = 4\n");
    let server = clock.serve_with(&scene, &["--config", "server.toml"]);
    let remote = || {
        let address: std::net::SocketAddr = server.address().parse().expect("an address");
        let host_check = Arc::new(Pinned(server.host_key().parse().expect("a fingerprint")));
        Remote::new(ConnectOptions { host_check, ..ConnectOptions::to(address) })
    };
    let options = OpenOptions::new().read(true).write(true).create(true);
    let (one, other) = (remote(), remote());
    let open = |remote, name: &str| File::open(remote, name, &options).expect("it is opened");
    let (locked, wants) = (open(&one, "data/locked"), open(&other, "data/locked"));
    locked.lock(true, PATIENCE).expect("nobody has it");
    for (turn, jump) in [HOUR, -HOUR, 400 * 24 * HOUR].into_iter().enumerate() {
        // Another one each time: who was just recalled gets no lease for a while.
        let name = format!("leased{turn}");
        let (leased, reads) = (open(&one, &format!("data/{name}")), open(&other, &format!("data/{name}")));
        let (began, lease) =
            (Instant::now(), || leased.lease(LeaseKind::Write).expect("it may").map(|lease| lease.kind));
        // Nor does its user for the short time that somebody waited for it.
        while lease() != Some(LeaseKind::Write) {
            assert!(began.elapsed() < PATIENCE, "turn {turn}");
        }
        leased.write_behind_at(b"kept", 0).expect("it is kept here");
        assert_eq!(scene.read(format!("server/{name}")), b"", "under a write lease it is not sent at once");
        clock.set(&scene, jump);
        let began = Instant::now();
        let mut read = [0; 4];
        // The lease is recalled, and what was kept is sent before somebody else reads.
        assert_eq!(reads.read_at(&mut read, 0), Ok(4), "turn {turn}");
        assert_eq!(&read, b"kept");
        assert!(began.elapsed() < PATIENCE / 2, "it waited {:?}", began.elapsed());
        assert_eq!(wants.try_lock(false).map_err(|error| error.kind), Err(ErrorKind::Locked), "turn {turn}");
    }
    locked.unlock().expect("it has it");
    wants.try_lock(true).expect("nobody has it");
    drop((locked, wants, one, other));
    assert_eq!(server.stop(), Some(0));
}
