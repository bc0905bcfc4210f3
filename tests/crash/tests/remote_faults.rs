//! Remote files whose storage fails for a moment: the call that failed says so, what may be lost is never taken for synced, and
//! everything else goes on.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the finding")]

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use xdfs_client::file::{File, OpenOptions, Remote};
use xdfs_client::{ConnectOptions, Error, ErrorKind, Pinned};
use xdfs_test_cli::{LISTEN, Relay, Scene, Server};
use xdfs_test_crash::scenario::Tracer;

const OPTIONS: OpenOptions = OpenOptions::new().read(true).write(true).create(true);
/// How long a client tries again what may succeed later: a full table of descriptors.
const PATIENCE: Duration = Duration::from_secs(2);
const EIO: u16 = 5;
const EMFILE: u16 = 24;

/// A server of the folder `server`; its clients are told no other address than this one.
fn serve(scene: &Scene, address: &str) -> Server {
    scene.directory("server");
    let words = ["--quiet", "--export", "data=server", "--allow-anonymous", "rw"];
    Server::start(scene.command(["serve", "--json", "--listen", address]), &words)
}

fn remote_at(address: &str, server: &Server) -> Arc<Remote> {
    let address: SocketAddr = address.parse().unwrap();
    let host_check = Arc::new(Pinned(server.host_key().parse().unwrap()));
    Remote::with_patience(ConnectOptions { host_check, ..ConnectOptions::to(address) }, PATIENCE)
}

fn remote(server: &Server) -> Arc<Remote> {
    remote_at(server.address(), server)
}

/// Does something while calls of the server's kernel fail.
fn failing<T>(scene: &Scene, server: &Server, calls: &str, error: &str, act: impl FnOnce() -> T) -> T {
    let log = scene.path("strace.log");
    let mut command = Command::new("strace");
    command
        .args(["-f", "-e", &format!("trace={calls}"), "-e", &format!("inject={calls}:error={error}"), "-o"])
        .arg(&log);
    let tracer = Tracer::attach(command, server.process());
    let done = act();
    tracer.detach(false);
    assert!(std::fs::read_to_string(log).unwrap().contains("(INJECTED)"), "nothing failed");
    done
}

/// The error is this one of the kernel, and names the file.
#[track_caller]
fn is(error: &Error, errno: u16, name: &str) {
    assert_eq!(error.errno, errno, "{error}");
    assert!(error.message.contains(&format!("'data/{name}'")), "{error}");
}

fn open(remote: &Arc<Remote>, name: &str) -> File {
    File::open(remote, format!("data/{name}"), &OPTIONS).unwrap()
}

/// The kernel tells a failed sync once, and takes what it lost for written.
#[test]
fn a_sync_that_failed_once_fails_for_all_who_had_the_file_open_until_they_close_it() {
    if !xdfs_test_needs::tracing() {
        return;
    }
    let scene = Scene::new();
    let server = serve(&scene, LISTEN);
    let relay = Relay::paced(&server, 1 << 30);
    let (first, second) = (remote_at(&relay.address(), &server), remote(&server));
    let (file, other) = (open(&first, "f"), open(&second, "f"));
    let (beside, idle) = (open(&first, "g"), open(&second, "g"));
    for file in [&file, &beside] {
        file.write_at(b"written", 0).unwrap();
        file.sync_all().unwrap();
        file.write_at(b"maybe", 0).unwrap();
    }
    other.write_at(b"lost", 100).unwrap();
    let error = failing(&scene, &server, "fsync,fdatasync", "EIO", || file.sync_all().unwrap_err());
    is(&error, EIO, "f");
    for file in [&file, &other] {
        is(&file.sync_all().unwrap_err(), EIO, "f");
        is(&file.sync_data().unwrap_err(), EIO, "f");
    }
    // In another session it is the same file.
    relay.cut(0);
    assert_eq!(file.length().unwrap(), 104);
    is(&file.sync_all().unwrap_err(), EIO, "f");
    // Nothing else of it is in the way, and other files have lost nothing.
    file.write_at(b"M", 0).unwrap();
    let mut read = [0; 5];
    assert_eq!(other.read_at(&mut read, 0).unwrap(), 5);
    assert_eq!(&read, b"Maybe");
    beside.sync_all().unwrap();
    idle.sync_all().unwrap();
    // Whoever opens it now, and writes all of it, has what he writes.
    let new = open(&second, "f");
    new.write_at(b"written again", 0).unwrap();
    new.sync_all().unwrap();
    file.close().unwrap();
    other.close().unwrap();
    assert_eq!(server.stop(), Some(0));
}

/// What a client keeps because it was never synced is written again where the server has lost it: then it is there.
#[test]
fn what_a_failed_sync_lost_is_written_again_after_a_restart_and_then_synced() {
    if !xdfs_test_needs::tracing() {
        return;
    }
    let scene = Scene::new();
    let server = serve(&scene, LISTEN);
    let address = server.address().to_owned();
    let remote = remote(&server);
    let file = open(&remote, "f");
    file.write_at(b"written", 0).unwrap();
    let error = failing(&scene, &server, "fsync,fdatasync", "EIO", || file.sync_all().unwrap_err());
    is(&error, EIO, "f");
    is(&file.sync_all().unwrap_err(), EIO, "f");
    assert_ne!(remote.unsynced_bytes(), 0, "it is kept");
    server.kill();
    let _server = serve(&scene, &address);
    file.sync_all().unwrap();
    assert_eq!(remote.unsynced_bytes(), 0);
    assert_eq!(scene.read("server/f"), b"written");
}

#[test]
fn a_write_that_failed_says_so_and_the_next_one_and_other_files_go_on() {
    if !xdfs_test_needs::tracing() {
        return;
    }
    let scene = Scene::new();
    let server = serve(&scene, LISTEN);
    let remote = remote(&server);
    let (file, beside) = (open(&remote, "f"), open(&remote, "g"));
    file.write_at(b"written", 0).unwrap();
    beside.write_at(b"written", 0).unwrap();
    failing(&scene, &server, "pwrite64", "EIO", || {
        is(&file.write_at(b"X", 0).unwrap_err(), EIO, "f");
        let mut read = [0; 7];
        for file in [&file, &beside] {
            assert_eq!(file.read_at(&mut read, 0).unwrap(), 7);
            assert_eq!(&read, b"written");
            file.sync_all().unwrap();
        }
    });
    file.write_at(b"W", 0).unwrap();
    beside.write_at(b"W", 0).unwrap();
    file.sync_all().unwrap();
    assert_eq!(scene.read("server/f"), b"Written");
    assert_eq!(scene.read("server/g"), b"Written");
}

#[test]
fn an_open_that_finds_no_descriptor_says_so_and_open_files_go_on() {
    if !xdfs_test_needs::tracing() {
        return;
    }
    let scene = Scene::new();
    let server = serve(&scene, LISTEN);
    let remote = remote(&server);
    let file = open(&remote, "f");
    failing(&scene, &server, "openat,openat2", "EMFILE", || {
        let error = File::open(&remote, "data/g", &OPTIONS).unwrap_err();
        is(&error, EMFILE, "g");
        assert_eq!(error.kind, ErrorKind::Resources, "{error}");
        file.write_at(b"written", 0).unwrap();
        let mut read = [0; 7];
        assert_eq!(file.read_at(&mut read, 0).unwrap(), 7);
        assert_eq!(&read, b"written");
    });
    open(&remote, "g").write_at(b"written", 0).unwrap();
    assert_eq!(scene.read("server/g"), b"written");
}
