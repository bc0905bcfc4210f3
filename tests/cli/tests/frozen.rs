//! An export whose file system answers no longer: whoever waits for it keeps a place in the limits, and no more than that.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use xdfs_client::file::{File, OpenOptions, Remote};
use xdfs_client::watch::{Watch, Watched};
use xdfs_client::wire::Wanted;
use xdfs_client::{Address, ConnectOptions, Offer, Payload, Pinned, PutOptions, Session};
use xdfs_secure::identity::KeyPair;
use xdfs_secure::identity::openssh::write_public;
use xdfs_test_cli::{Mounted, Relay, Scene, Server, all_but_one_below, pattern, timed, wait_until, with_file_systems};

const PATIENCE: Duration = Duration::from_secs(30);
const DISK_BYTES: u64 = 64 << 20;
const SESSIONS: usize = 2;

/// A file system that holds every write until this value goes.
struct Frozen(PathBuf);

impl Frozen {
    fn new(mounted_at: &Path) -> Self {
        fsfreeze("--freeze", mounted_at);
        Self(mounted_at.to_owned())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        fsfreeze("--unfreeze", &self.0);
    }
}

fn fsfreeze(what: &str, mounted_at: &Path) {
    let done = Command::new("fsfreeze").arg(what).arg(mounted_at).status().expect("util-linux is installed");
    assert!(done.success(), "fsfreeze {what} fails");
}

/// Threads of the server that wait for the disk.
fn waiting_threads(server: &Server) -> usize {
    let tasks = format!("/proc/{}/task", server.process().as_raw_nonzero());
    let tasks = std::fs::read_dir(tasks).expect("it runs").filter_map(Result::ok);
    // A thread may end meanwhile.
    let states = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    states.filter(|status| status.contains("State:\tD")).count()
}

fn connect(relay: &Relay, server: &Server) -> Session {
    let address: SocketAddr = relay.address().parse().expect("an address");
    let host_check = Arc::new(Pinned(server.host_key().parse().expect("a fingerprint")));
    let to = ConnectOptions::to(Address::Tcp(address));
    let session = Session::connect(&ConnectOptions { channels: 2, pipelines: 2, host_check, ..to }).expect("a session");
    wait_until("both channels have joined", || session.joined() == 2);
    session
}

fn ended_sessions(scene: &Scene) -> usize {
    scene.json_lines("audit.jsonl").iter().filter(|event| event["event"] == "session_ended").count()
}

/// A server with the export `frozen`, whose disk can be frozen, and `other`.
fn serve(scene: &Scene, mounted: &Mounted, sessions: usize) -> Server {
    let config = format!(
        "[limits]\nsessions-per-user = {sessions}\n[log]\naudit = \"audit.jsonl\"\nquiet = true\n\
         [exports.frozen]\ndirectory = \"{}\"\nanonymous = \"rw\"\n[exports.other]\ndirectory = \"other\"\nanonymous = \"rw\"\n",
        mounted.ext4.display()
    );
    scene.directory("other");
    let written = scene.write("server.toml", config.as_bytes());
    std::fs::set_permissions(written, Permissions::from_mode(0o600)).expect("it is ours");
    let command = scene.command(["serve", "--json", "--listen", "127.0.0.1:0"]);
    let server = Server::start(command, &["--config", "server.toml"]);
    scene.trust(server.address(), &server);
    server
}

fn options(server: &Server) -> ConnectOptions {
    let address: SocketAddr = server.address().parse().expect("an address");
    let host_check = Arc::new(Pinned(server.host_key().parse().expect("a fingerprint")));
    ConnectOptions { host_check, ..ConnectOptions::to(Address::Tcp(address)) }
}

fn remote(server: &Server) -> Arc<Remote> {
    Remote::new(options(server))
}

/// Open files that wait for the frozen disk at a time.
const HANGING: usize = 40;
/// The time that anything on another export takes meanwhile, at most.
const SOON: Duration = Duration::from_secs(1);

/// How long this takes, a few times.
fn times(mut act: impl FnMut()) -> Vec<Duration> {
    (0..5).map(|_| timed(&mut act)).collect()
}

#[test]
fn open_files_on_a_frozen_disk_delay_nobody_who_uses_another_export() {
    let test = "open_files_on_a_frozen_disk_delay_nobody_who_uses_another_export";
    with_file_systems(test, DISK_BYTES, |mounted: &Mounted| {
        let scene = Scene::below(&mounted.tmpfs);
        scene.write("other/f", b"content");
        let server = serve(&scene, mounted, 100);
        let both = OpenOptions::new().read(true).write(true).create(true);
        let remotes: Vec<_> = (0..4).map(|_| remote(&server)).collect();
        let open = |number: usize| File::open(&remotes[number % 4], format!("frozen/{number}"), &both).expect("a file");
        let files: Vec<File> = (0..HANGING).map(open).collect();
        let user = remote(&server);
        let other = File::open(&user, "other/f", &both).expect("a file");
        let (sender, told) = sync_channel(1);
        let _watch: Watch = user
            .watch("other", Watched::Names, move |_, _| {
                let _ = sender.try_send(());
            })
            .expect("a watch");
        let frozen = Frozen::new(&mounted.ext4);
        let write = |file: File| std::thread::spawn(move || file.write_at(b"late", 0).and_then(|()| file.close()));
        let writers: Vec<_> = files.into_iter().map(write).collect();
        wait_until("the files wait for the disk", || waiting_threads(&server) >= 3);
        let stat = Session::connect(&options(&server)).expect("a session, though the disk is frozen");
        let looked = times(|| drop(stat.look("other/f", Wanted::SIZE).expect("attributes")));
        let wrote = times(|| other.write_at(b"C", 0).expect("it is on another disk"));
        let read = times(|| assert_eq!(other.read_at(&mut [0; 7], 0).expect("it is on another disk"), 7));
        while told.try_recv().is_ok() {}
        let noticed = times(|| {
            scene.write("other/new", b"");
            told.recv_timeout(PATIENCE).expect("a notice");
        });
        for (what, took) in [("stat", looked), ("write", wrote), ("read", read), ("notice", noticed)] {
            assert!(all_but_one_below(&took, SOON), "{what} took {took:?}");
        }
        assert!(writers.iter().all(|writer| !writer.is_finished()), "they still wait");
        drop(frozen);
        for writer in writers {
            writer.join().expect("no panic").expect("the disk is there again");
        }
        assert_eq!(server.stop(), Some(0));
    });
}

const USERS: [&str; 3] = ["ada", "bob", "cyd"];
/// Uploads of each of them into the frozen export.
const UPLOADS: usize = 20;
/// Threads that the uploads of these users get for one export, or one more: that depends on whose come first.
const THREADS_OF_EXPORT: usize = 4;
/// The time of a whole command on another export meanwhile, at most.
const PROMPT: Duration = Duration::from_secs(2);

fn key_of(number: usize) -> KeyPair {
    KeyPair::from_seed(&[number as u8 + 1; 32]).expect("a key")
}

fn session_of(number: usize, server: &Server) -> Session {
    let offers = vec![Offer::Key(Arc::new(key_of(number)))];
    let to = ConnectOptions { user: USERS[number].into(), offers, ..options(server) };
    Session::connect(&to).expect("a session")
}

#[test]
fn new_uploads_to_a_frozen_disk_delay_nobody_who_uses_another_export() {
    let test = "new_uploads_to_a_frozen_disk_delay_nobody_who_uses_another_export";
    with_file_systems(test, DISK_BYTES, |mounted: &Mounted| {
        let scene = Scene::below(&mounted.tmpfs);
        let (small, large) = (pattern(10_000, 1), pattern(4 << 20, 2));
        scene.write("large", &large);
        scene.write("other/f", &large);
        for (number, user) in USERS.iter().enumerate() {
            let line = write_public(&key_of(number).public(), user).expect("a line");
            scene.write("key.pub", line.as_bytes());
            scene.run(["user", "add", user, "--key", "key.pub"]).ends_with(0);
        }
        let server = serve(&scene, mounted, 100);
        let frozen = Frozen::new(&mounted.ext4);
        let sessions: Vec<_> = (0..USERS.len()).map(|number| session_of(number, &server)).collect();
        let put = |(number, session): (usize, &Session)| -> Vec<_> {
            let begin = |file: usize| {
                let payload = Payload::bytes(small.clone()).expect("bytes");
                session.put(payload, format!("frozen/{number}-{file}"), &PutOptions::default()).expect("it is begun")
            };
            (0..UPLOADS).map(begin).collect()
        };
        let uploads: Vec<_> = sessions.iter().enumerate().map(put).collect();
        wait_until("the uploads have all threads that they may have", || waiting_threads(&server) >= THREADS_OF_EXPORT);
        let other = |name: &str| server.url_in("other", name);
        let mut took = Vec::new();
        for round in 0..3 {
            let (up, down, new) = (format!("up{round}"), format!("down{round}"), format!("new{round}"));
            let commands: [&[&str]; 4] = [
                &["cp", "large", &other(&up)],
                &["cp", &other("f"), &down],
                &["sum", &other("f")],
                &["mkdir", &other(&new)],
            ];
            for words in commands {
                took.push(timed(|| _ = scene.run(words).ends_with(0)));
            }
            assert!(scene.read(format!("other/{up}")) == large && scene.read(&down) == large, "both are whole");
            // Somebody whose own uploads hang gets on with the other export as well.
            let upload = || {
                let mine = session_of(0, &server);
                let payload = Payload::bytes(large.clone()).expect("bytes");
                let upload =
                    mine.put(payload, format!("other/mine{round}"), &PutOptions::default()).expect("it is begun");
                upload.wait().expect("it is on another disk");
            };
            took.push(timed(upload));
        }
        assert!(all_but_one_below(&took, PROMPT), "what others do took {took:?}");
        let ended = uploads.iter().flatten().filter(|upload| upload.wait_for(Duration::ZERO).is_some());
        assert_eq!(ended.count(), 0, "they still wait");
        drop(frozen);
        for upload in uploads.into_iter().flatten() {
            upload.wait().expect("the disk is there again");
        }
        drop(sessions);
        assert_eq!(server.stop(), Some(0));
    });
}

#[test]
fn a_session_that_waits_for_a_frozen_disk_counts_until_its_threads_have_ended() {
    let test = "a_session_that_waits_for_a_frozen_disk_counts_until_its_threads_have_ended";
    with_file_systems(test, DISK_BYTES, |mounted: &Mounted| {
        let scene = Scene::below(&mounted.tmpfs);
        let server = serve(&scene, mounted, SESSIONS);
        let other = server.url_in("other", "");
        scene.run(["ls", &other]).ends_with(0);
        wait_until("the look is over", || ended_sessions(&scene) == 1);
        let frozen = Frozen::new(&mounted.ext4);
        let before = ended_sessions(&scene);
        for number in 1..=SESSIONS {
            let relay = Relay::paced(&server, 1 << 30);
            let session = connect(&relay, &server);
            let payload = Payload::bytes(vec![7; 4 << 20]).expect("bytes");
            let _put = session.put(payload, "frozen/file", &PutOptions::default()).expect("it is begun");
            wait_until("the upload waits for the disk", || waiting_threads(&server) >= number);
            // Its second pipeline has nothing to wait for, and ends with its connection.
            drop(relay);
            wait_until("the session is over", || ended_sessions(&scene) == before + number);
        }
        scene.run(["ls", &other]).says(&["as many sessions as one user may have"]);
        drop(frozen);
        wait_until("there is room again", || scene.run(["ls", &other]).code == Some(0));
        assert_eq!(server.stop(), Some(0));
    });
}
