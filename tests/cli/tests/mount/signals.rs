//! Programs that wait in a mount and are ended by a signal.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xdfs_test_cli::{Running, Scene, Server, all_but_one_below, pass, pattern};

use crate::Mount;
use crate::losses::{again, stop};

/// The signals, neither of which the programs handle.
const SIGNALS: [Signal; 2] = [Signal::INT, Signal::KILL];

/// How soon a program ends.
const SOON: Duration = Duration::from_secs(1);

/// Who is at the same place for so long waits there.
const STAYS: Duration = Duration::from_millis(50);

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
/// or -1), and sends it `signal`; says how long it is there then.
#[track_caller]
fn ended(mut program: Running, place: &str, signal: Signal) -> Duration {
    waits_at(&mut program, place);
    ended_by(program, place, signal)
}

/// Lets `program` go on until it sleeps at that place.
#[track_caller]
fn waits_at(program: &mut Running, place: &str) {
    program.close_input();
    let state = format!("/proc/{}/syscall", program.process().as_raw_nonzero());
    let look = || fs::read_to_string(&state).ok().filter(|text| text.starts_with(place));
    loop {
        assert!(program.is_running(), "{place}: it does not wait");
        let now = look();
        // One of many writes may sleep for a moment.
        if now.is_some() {
            pass(STAYS);
            if look() == now {
                return;
            }
        }
        std::thread::yield_now();
    }
}

/// Ends a program that sleeps by the signal; says how long it is there then.
#[track_caller]
fn ended_by(program: Running, place: &str, signal: Signal) -> Duration {
    let began = Instant::now();
    program.signal(signal);
    while !program.has_ended() {
        assert!(began.elapsed() < 3 * SOON, "{place}, {signal:?}: it is there");
        std::thread::yield_now();
    }
    let took = began.elapsed();
    let ended = program.wait();
    assert_eq!(ended.code, None, "{place}, {signal:?}: {}", ended.messages);
    took
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
    let mut took = Vec::new();
    for (held, waits, place) in
        [(flock, flock, "73 0x3 "), (lockf, lockf, "72 0x3 "), (lockf, wait_for_open_file, "72 0x3 ")]
    {
        // Once a program of the server has it, and once one of the mount.
        for directory in [scene.path("server"), mount.path("")] {
            let holds = start(&scene, &directory, held, "");
            for signal in SIGNALS {
                took.push(ended(start(&scene, &mount.path(""), "", waits), place, signal));
            }
            assert_eq!(holds.wait().code, Some(0));
            // Nobody has it any more, those that waited neither.
            assert_eq!(start(&scene, &scene.path("server"), "", held).wait().code, Some(0));
        }
    }
    assert!(all_but_one_below(&took, SOON), "{took:?}");
    mount.unmount();
}

#[test]
fn a_program_that_reads_from_a_lost_server_is_ended_by_a_signal() {
    let scene = Scene::new();
    let content = pattern(BYTES, 3);
    scene.write("server/file", &content);
    let mut took = Vec::new();
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
            took.push(ended(program, place, signal));
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
    assert!(all_but_one_below(&took, SOON), "{took:?}");
}

/// What a program does that changes something, or that needs an answer as it ends: what it does while the server is there, what it
/// does when that is gone, and where it sleeps then. Each has a directory `#` and a file `g` in it of its own: who changes a directory
/// holds others up who do.
const CHANGES: [(&str, &str, &str); 11] = [
    ("", "os.pwrite(g, b'x', 0); os.fsync(g)", "74 0x4 "),
    ("", "os.pwrite(g, b'x', 0); os.close(g)", "3 0x4 "),
    ("", "os.mkdir('#/made')", "83 "),
    ("", "os.rename('#/own', '#/moved')", "82 "),
    ("", "os.open('#/other', os.O_RDONLY)", "257 "),
    ("", "os.open('#/new', os.O_RDWR | os.O_CREAT)", "257 "),
    ("os.stat('#')", "os.listdir('#')", "217 "),
    ("", "os.unlink('#/own')", "87 "),
    ("", "os.ftruncate(g, 5)", "77 0x4 "),
    // These wait for nobody, and are ended while they have something to write, and while they have a lock.
    (MAPS, "m[0] = 1; signal.pause()", "34 "),
    ("fcntl.flock(g, fcntl.LOCK_EX); fcntl.lockf(g, fcntl.LOCK_EX)", "signal.pause()", "34 "),
];

/// A write that waits for room. It leaves none to others.
const FILLS: [(&str, &str, &str); 1] =
    [("", "for part in range(100): os.pwrite(g, bytes(1 << 20), part << 20)", "18 0x4 ")];

/// A mapping whose first page is there.
const MAPS: &str = "os.ftruncate(g, 10000); m = mmap.mmap(g, 10000); m[0]";

/// Programs that wait, each once for each signal, with their numbers.
fn changing(
    scene: &Scene,
    mount: &Mount,
    changes: &[(&str, &str, &'static str)],
) -> Vec<(usize, Running, &'static str, Signal)> {
    let all = changes.iter().flat_map(|change| SIGNALS.map(|signal| (*change, signal)));
    let started = all.enumerate().map(|(number, ((before, statement, place), signal))| {
        let own = |text: &str| text.replace('#', &number.to_string());
        let before = own(&format!("os.mkdir('#'); g = os.open('#/own', os.O_RDWR | os.O_CREAT); {before}"));
        (number, start(scene, &mount.path(""), &before, &own(statement)), place, signal)
    });
    started.collect()
}

/// They end soon when the server is stopped, and when it is dead; then the mount goes on.
fn all_end_soon(changes: &[(&str, &str, &'static str)], options: &[&str]) {
    let mut took = Vec::new();
    for is_dead in [false, true] {
        let scene = Scene::new();
        scene.write("server/file", b"content");
        let server = scene.serve();
        let address = server.address().to_owned();
        let mount = Mount::new(&scene, &server, options);
        let mut programs = changing(&scene, &mount, changes);
        stop(&server);
        let server: Option<Server> = match is_dead {
            true => {
                server.kill();
                None
            }
            false => Some(server),
        };
        for (_, program, place, _) in &mut programs {
            waits_at(program, place);
        }
        // A second is promised for each.
        took.extend(programs.into_iter().map(|(_, program, place, signal)| ended_by(program, place, signal)));
        let _server = server.inspect(|server| server.signal(Signal::CONT)).unwrap_or_else(|| again(&scene, &address));
        assert_eq!(fs::read(mount.path("file")).unwrap(), b"content");
        mount.unmount();
        // Nothing is lost that a program had in its memory.
        let numbers = (0..changes.len()).filter(|at| changes[*at].0 == MAPS).flat_map(|at| [2 * at, 2 * at + 1]);
        for number in numbers {
            assert_eq!(scene.read(format!("server/{number}/own"))[0], 1, "{number}");
        }
    }
    assert!(all_but_one_below(&took, SOON), "{took:?}");
}

#[test]
fn a_program_that_changes_something_at_a_lost_server_or_ends_is_ended_by_a_signal() {
    // What is known is not asked for, and the calls themselves are what waits.
    all_end_soon(&CHANGES, &["-o", "valid=600"]);
}

#[test]
fn a_program_whose_write_waits_for_room_is_ended_by_a_signal() {
    all_end_soon(&FILLS, &["--cache", "4MB"]);
}
