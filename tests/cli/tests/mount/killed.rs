//! Mounts whose process is killed.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::process::Command;
use std::time::{Duration, Instant};

use xdfs_test_cli::{LISTEN, Running, Scene, Server, pass, until};

use crate::Mount;
use crate::torture::seconds;

/// How long the servers of these tests grant leases, and keep what a client has left.
const LEASE: Duration = Duration::from_secs(2);

/// How long something may take that takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that grants leases.
fn serve(scene: &Scene, address: &str) -> Server {
    scene.write("server.toml", format!("[limits]\nlease-seconds = {}\n", LEASE.as_secs()).as_bytes());
    scene.serve_with(&["--config", "server.toml", "--listen", address])
}

/// Starts a program of Python in the mount. It says when it is ready by making the file `ready` beside it.
fn start(scene: &Scene, mount: &Mount, script: &str) -> Running {
    let mut command = Command::new("python3");
    command.args(["-c", script]).current_dir(&mount.point);
    let program = Running::start(command);
    let began = Instant::now();
    while !scene.path("ready").exists() {
        assert!(program.is_running() && began.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    program
}

/// Names of files that were removed while they were open.
fn hidden(scene: &Scene) -> Vec<String> {
    let mut names = scene.names("server");
    names.retain(|name| name.starts_with(".xdfs-removed-"));
    names
}

#[test]
fn a_mount_that_is_killed_leaves_no_lock_and_no_hidden_file() {
    let scene = Scene::new();
    let server = serve(&scene, LISTEN);
    let mut mount = Mount::new(&scene, &server, &[]);
    let script = "import fcntl, os, sys\n\
        open('locked', 'w').write('locked'); open('removed', 'w').write('removed'); open('replaced', 'w').write('old')\n\
        held = open('locked', 'r+'); fcntl.flock(held, fcntl.LOCK_EX)\n\
        ranges = open('locked', 'r+'); fcntl.lockf(ranges, fcntl.LOCK_EX, 3, 0)\n\
        removed = open('removed'); os.unlink('removed')\n\
        replaced = open('replaced'); open('new', 'w').write('new'); os.rename('new', 'replaced')\n\
        open('../ready', 'w')\n\
        sys.stdin.read()\n";
    let program = start(&scene, &mount, script);
    let locked = File::options().read(true).write(true).open(scene.path("server/locked")).unwrap();
    assert!(locked.try_lock().is_err(), "the program has it");
    assert_eq!(hidden(&scene).len(), 2);
    // Before the kill: the server may know of it first.
    let began = Instant::now();
    let _ = mount.running.take().unwrap().kill();
    until(|| locked.try_lock(), Result::is_ok).expect("it is free");
    let ranges = "import fcntl\nfcntl.lockf(open('locked', 'r+'), fcntl.LOCK_EX, 3, 0)";
    crate::python(&scene.path("server"), ranges);
    until(|| hidden(&scene), Vec::is_empty);
    assert!(began.elapsed() >= LEASE, "its client might have come back");
    assert_eq!(scene.names("server"), ["locked", "replaced"], "no staging directory, and nothing else");
    assert_eq!(scene.read("server/replaced"), b"new");
    let _ = program.kill();
}

#[test]
fn a_removed_file_that_nobody_uses_outlives_a_restart_of_the_server() {
    let scene = Scene::new();
    let server = serve(&scene, LISTEN);
    let address = server.address().to_owned();
    let mount = Mount::new(&scene, &server, &[]);
    let script = "import os, sys\n\
        open('one', 'w').write('one'); open('two', 'w').write('two')\n\
        one, two = open('one'), open('two'); os.unlink('one'); os.unlink('two')\n\
        open('../ready', 'w')\n\
        sys.stdin.read()\n\
        assert one.read() + two.read() == 'onetwo'\n";
    let mut program = start(&scene, &mount, script);
    server.kill();
    let server = serve(&scene, &address);
    // Longer than what belongs to nobody is kept.
    pass(LEASE * 3);
    assert_eq!(hidden(&scene).len(), 2);
    program.close_input();
    let ended = program.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.messages);
    until(|| hidden(&scene), Vec::is_empty);
    mount.unmount();
    assert_eq!(server.stop(), Some(0));
}

/// Writes numbered blocks in a directory of its own, to one file that is synced, to one through a mapping, and to others that are
/// closed, and says which of them were answered.
const WRITES: &str = "import mmap, os, sys\n\
    top = sys.argv[1]\n\
    os.mkdir(top)\n\
    block = lambda number: (b'%015d\\n' % number) * 512\n\
    synced = os.open(top + '/synced', os.O_WRONLY | os.O_CREAT)\n\
    mapped = os.open(top + '/mapped', os.O_RDWR | os.O_CREAT)\n\
    os.ftruncate(mapped, 8 * 8192); os.fsync(mapped)\n\
    mapping = mmap.mmap(mapped, 8 * 8192)\n\
    for number in range(1000000):\n\
    \x20   for part in range(4): os.pwrite(synced, block(number * 4 + part), (number * 4 + part) * 8192)\n\
    \x20   os.fsync(synced); print('synced', number, flush=True)\n\
    \x20   with open(top + '/closed-%d' % number, 'wb') as file: file.write(block(number) * 3)\n\
    \x20   print('closed', number, flush=True)\n\
    \x20   at = number % 8 * 8192\n\
    \x20   mapping[at:at + 8192] = block(number); mapping.flush(at, 8192)\n\
    \x20   print('mapped', number, flush=True)\n\
    \x20   if number == 8: open(sys.argv[2], 'w')\n";

/// Programs that write at once.
const WRITERS: usize = 3;

fn block(number: usize) -> Vec<u8> {
    format!("{number:015}\n").repeat(512).into_bytes()
}

/// The mapped file has the last block of each place that was answered, or, page by page, the one that was not answered any more.
fn has_mapped(content: &[u8], answered: usize) {
    for place in 0..8 {
        let last =
            (0..answered).rev().find(|number| number % 8 == place).unwrap_or_else(|| panic!("{answered} answered"));
        for page in 0..2 {
            let of = |number: usize| block(number)[page * 4096..][..4096].to_vec();
            let found = &content[place * 8192 + page * 4096..][..4096];
            let is_next = answered % 8 == place && found == of(answered);
            assert!(found == of(last) || is_next, "page {page} of place {place} after {answered} blocks");
        }
    }
}

/// What one of the programs was answered is there; how much that was.
fn has_all(scene: &Scene, top: &str, said: &str) -> usize {
    let count = |kind: &str| said.lines().filter(|line| line.starts_with(kind)).count();
    let (synced, closed, mapped) = (count("synced"), count("closed"), count("mapped"));
    assert!(synced >= 8 && closed >= 8 && mapped >= 8, "{said}");
    let content = scene.read(format!("server/{top}/synced"));
    for number in 0..synced * 4 {
        assert_eq!(content[number * 8192..][..8192], block(number), "{top}: block {number} of {}", synced * 4);
    }
    for number in 0..closed {
        let closed = fs::read(scene.path(format!("server/{top}/closed-{number}"))).unwrap();
        assert_eq!(closed, block(number).repeat(3), "{top}: {number}");
    }
    has_mapped(&scene.read(format!("server/{top}/mapped")), mapped);
    synced + closed + mapped
}

/// Up to half a second, another one each time.
fn some_time() -> Duration {
    let random = RandomState::new().build_hasher().finish();
    Duration::from_millis(random % 500)
}

#[test]
fn what_fsync_and_close_have_answered_is_complete_when_the_mount_is_killed() {
    let scene = Scene::new();
    let server = serve(&scene, LISTEN);
    let rounds = if seconds() < 10 { 3 } else { 20 };
    let (mut answered, mut after) = (0, Vec::new());
    for round in 0..rounds {
        let mut mount = Mount::new(&scene, &server, &[]);
        let programs: Vec<(String, Running)> = (0..WRITERS)
            .map(|writer| {
                let top = format!("{round}-{writer}");
                let mut command = Command::new("python3");
                command.args(["-c", WRITES, &top]).arg(scene.path(format!("ready-{top}"))).current_dir(&mount.point);
                (top, Running::start(command))
            })
            .collect();
        let began = Instant::now();
        while programs.iter().any(|(top, _)| !scene.path(format!("ready-{top}")).exists()) {
            assert!(began.elapsed() < PATIENCE && programs.iter().all(|(_, program)| program.is_running()));
            std::thread::yield_now();
        }
        after.push(some_time());
        pass(after[round]);
        let _ = mount.running.take().unwrap().kill();
        for (top, program) in programs {
            // It ends when a write fails, or at once by SIGBUS in its mapping.
            answered += has_all(&scene, &top, program.wait().text());
        }
        drop(mount);
    }
    println!("{rounds} kills, {after:?} after the start: {answered} answers of fsync, close and msync");
}
