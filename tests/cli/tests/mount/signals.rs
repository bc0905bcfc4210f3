//! Programs that wait in a mount and are ended by a signal.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xdfs_test_cli::{Running, Scene, pattern};

use crate::Mount;
use crate::losses::{again, stop};

/// The signals, neither of which the programs handle.
const SIGNALS: [Signal; 2] = [Signal::INT, Signal::KILL];

/// How soon a program ends.
const SOON: Duration = Duration::from_secs(1);

/// What the programs read. Its first bytes come with its open.
const BYTES: usize = 1_000_000;

/// Starts a program of Python in `directory` and waits until it is ready. It runs `statement` when its input is closed.
fn start(scene: &Scene, directory: &Path, before: &str, statement: &str) -> Running {
    let script = format!(
        "import fcntl, mmap, os, signal, sys\n\
         signal.signal(signal.SIGINT, signal.SIG_DFL)\n\
         f = os.open('file', os.O_RDWR)\n\
         {before}\n\
         open('../ready', 'w').close()\n\
         sys.stdin.read()\n\
         {statement}\n"
    );
    let mut command = Command::new("python3");
    command.args(["-c", &script]).current_dir(directory);
    let program = Running::start(command);
    while !scene.path("ready").exists() {
        assert!(program.is_running(), "{before}");
        std::thread::yield_now();
    }
    fs::remove_file(scene.path("ready")).unwrap();
    program
}

/// Lets `program` go on until it sleeps where `place` begins, as Linux shows it (the number of a system call and its arguments,
/// or -1), and sends it `signal`.
#[track_caller]
fn ends_soon(mut program: Running, place: &str, signal: Signal) {
    program.close_input();
    let state = format!("/proc/{}/syscall", program.process().as_raw_nonzero());
    while !fs::read_to_string(&state).is_ok_and(|text| text.starts_with(place)) {
        assert!(program.is_running(), "{place}: it does not wait");
        std::thread::yield_now();
    }
    let began = Instant::now();
    program.signal(signal);
    let ended = program.wait();
    let took = began.elapsed();
    assert_eq!(ended.code, None, "{place}, {signal:?}: {}", ended.messages);
    assert!(took < SOON, "{place}, {signal:?}: {took:?}");
}

#[test]
fn a_program_that_waits_for_a_lock_is_ended_by_a_signal() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", b"content");
    let mount = Mount::new(&scene, &server, &[]);
    let flock = "fcntl.flock(f, fcntl.LOCK_EX)";
    let lockf = "fcntl.lockf(f, fcntl.LOCK_EX)";
    let wait_for_open_file = "fcntl.fcntl(f, 38, bytes([fcntl.F_WRLCK]) + bytes(31))"; // F_OFD_SETLKW
    for (held, waits, place) in
        [(flock, flock, "73 0x3 "), (lockf, lockf, "72 0x3 "), (lockf, wait_for_open_file, "72 0x3 ")]
    {
        // Once a program of the server has it, and once one of the mount.
        for directory in [scene.path("server"), mount.path("")] {
            let holds = start(&scene, &directory, held, "");
            for signal in SIGNALS {
                ends_soon(start(&scene, &mount.path(""), "", waits), place, signal);
            }
            assert_eq!(holds.wait().code, Some(0));
            // Nobody has it any more, those that waited neither.
            assert_eq!(start(&scene, &scene.path("server"), "", held).wait().code, Some(0));
        }
    }
    mount.unmount();
}

#[test]
fn a_program_that_reads_from_a_lost_server_is_ended_by_a_signal() {
    let scene = Scene::new();
    let content = pattern(BYTES, 3);
    scene.write("server/file", &content);
    for is_dead in [false, true] {
        let server = scene.serve();
        let address = server.address().to_owned();
        let mount = Mount::new(&scene, &server, &["-o", "valid=0"]);
        let before = format!("os.lseek(f, 500_000, 0); m = mmap.mmap(f, {BYTES})");
        let waits = [("os.read(f, 1000)", "0 0x3 "), ("m[700_000]", "-1 "), ("os.stat('file')", "262 ")];
        let all: Vec<_> = waits.into_iter().flat_map(|wait| SIGNALS.map(|signal| (wait, signal))).collect();
        let programs: Vec<_> =
            all.iter().map(|((statement, _), _)| start(&scene, &mount.path(""), &before, statement)).collect();
        stop(&server);
        let server = if is_dead {
            server.kill();
            None
        } else {
            Some(server)
        };
        for (program, ((_, place), signal)) in programs.into_iter().zip(all) {
            ends_soon(program, place, signal);
        }
        let _server = match server {
            None => again(&scene, &address),
            Some(server) => {
                server.signal(Signal::CONT);
                server
            }
        };
        // The mount goes on.
        assert!(fs::read(mount.path("file")).unwrap() == content);
        mount.unmount();
    }
}
