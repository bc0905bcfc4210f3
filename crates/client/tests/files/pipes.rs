//! FIFOs: between clients, with programs of the server's machine, over losses, and while nobody has the
//! other end.

use super::support::serving::{Serving, Setup};
use super::support::{PATIENCE, Scratch, assert_same, pattern, within};
use super::{refused, remote};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use xdfs_client::file::{File, OpenOptions, Pipe, PipeSide, Remote};
use xdfs_client::{Error, ErrorKind};
use xdfs_io::store::LocalStore;
use xdfs_server::{Access, Anonymous, Export, LogEvent, Policy, ServerLimits};

/// Pipes that wait at a time: few enough that there are moments in which none of them asks, also on a slow machine.
const PIPES: usize = 10;

/// A server with an export `pipes` that grants them, in which there is the FIFO `p`.
struct Scene {
    serving: Serving,
    directory: Scratch,
}

impl Scene {
    fn new() -> Self {
        let directory = Scratch::new();
        make_fifo(&directory, "p");
        let export = |name: &str, writable| {
            let store = Arc::new(LocalStore::open_root(directory.path(), writable).unwrap());
            let access = Access { writable, pipes: true, anonymous: Anonymous::Write, ..Access::default() };
            Export::new(name, store, access)
        };
        let more = vec![export("pipes", true), export("reads", false)];
        let serving = Serving::with(Setup { unix: true, more, ..Setup::default() });
        Self { serving, directory }
    }

    fn remote(&self) -> Arc<Remote> {
        remote(&self.serving)
    }

    fn open(&self, side: PipeSide) -> Pipe {
        Pipe::open(&self.remote(), "pipes/p", side).unwrap()
    }

    fn local(&self) -> std::path::PathBuf {
        self.directory.file("p")
    }
}

fn make_fifo(directory: &Scratch, name: &str) {
    mknodat(CWD, directory.file(name), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

fn open_error(remote: &Arc<Remote>, path: &str, side: PipeSide) -> ErrorKind {
    Pipe::open(remote, path, side).err().map(|error| error.kind).unwrap()
}

/// Everything up to the end.
fn read_all(mut pipe: Pipe) -> Vec<u8> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    pipe.close().unwrap();
    bytes
}

fn write_all(mut pipe: Pipe, bytes: &[u8]) {
    pipe.write_all(bytes).unwrap();
    pipe.close().unwrap();
}

#[test]
fn bytes_pass_between_two_clients_in_order_and_end_when_the_pipe_is_closed() {
    let scene = Scene::new();
    let bytes = pattern(9_000_001, 3);
    for (ahead, side_first) in [(false, PipeSide::Read), (true, PipeSide::Write)] {
        let (reads, writes) = match side_first {
            PipeSide::Read => {
                let reads = scene.open(PipeSide::Read);
                (reads, scene.open(PipeSide::Write))
            }
            PipeSide::Write => {
                let writes = scene.open(PipeSide::Write);
                (scene.open(PipeSide::Read), writes)
            }
        };
        let sent = bytes.clone();
        let writer = std::thread::spawn(move || write_all(writes, &sent));
        let mut reads = reads;
        if ahead {
            reads.read_ahead();
        }
        let got = within(PATIENCE, "the bytes", move || read_all(reads));
        writer.join().unwrap();
        assert_same(&got, &bytes);
    }
    let passed = |wanted: &str| {
        scene.serving.count(|event| match event {
            LogEvent::Calls { calls, .. } => {
                calls.iter().any(|call| call.call == wanted && (wanted != "close" || call.bytes == Some(9_000_001)))
            }
            _ => false,
        })
    };
    assert_eq!((passed("open"), passed("writepipe"), passed("close")), (4, 2, 4), "{:?}", scene.serving.events());
}

#[test]
fn programs_of_the_servers_machine_have_the_other_end() {
    let scene = Scene::new();
    let bytes = pattern(3_000_000, 5);
    let (path, sent) = (scene.local(), bytes.clone());
    let program = std::thread::spawn(move || std::fs::write(path, sent).unwrap());
    let reads = scene.open(PipeSide::Read);
    assert_same(&within(PATIENCE, "what a program wrote", move || read_all(reads)), &bytes);
    program.join().unwrap();
    let path = scene.local();
    let program = std::thread::spawn(move || std::fs::read(path).unwrap());
    let (writes, sent) = (scene.open(PipeSide::Write), bytes.clone());
    within(PATIENCE, "what a program reads", move || write_all(writes, &sent));
    assert_same(&program.join().unwrap(), &bytes);
    let reads = Pipe::open(&scene.remote(), "reads/p", PipeSide::Read).unwrap();
    let path = scene.local();
    let program = std::thread::spawn(move || std::fs::write(path, b"to a read-only export").unwrap());
    assert_eq!(within(PATIENCE, "a line", move || read_all(reads)), b"to a read-only export");
    program.join().unwrap();
}

#[test]
fn who_opens_the_first_end_waits_for_the_other_one() {
    let scene = Scene::new();
    let mut reads = scene.open(PipeSide::Read);
    let mut buffer = [0; 100];
    let short = Duration::from_millis(50);
    assert_eq!(reads.read_within(&mut buffer, short), Ok(None), "no end before anybody has written");
    let mut writes = scene.open(PipeSide::Write);
    assert_eq!(reads.read_within(&mut buffer, short), Ok(None), "a pipe that nobody has written to yet");
    assert_eq!(writes.write(b"first").unwrap(), 5);
    assert_eq!(writes.settle_within(PATIENCE), Ok(true));
    assert_eq!(reads.read_within(&mut buffer, PATIENCE), Ok(Some(5)));
    assert_eq!(reads.read_within(&mut buffer, short), Ok(None), "it is still open");
    writes.close().unwrap();
    assert_eq!(reads.read_within(&mut buffer, PATIENCE), Ok(Some(0)));
    reads.close().unwrap();
    // The other way round: a program that only opens and closes its end ends the other one's waiting.
    let mut writes = scene.open(PipeSide::Write);
    assert_eq!(writes.settle_within(short), Ok(false), "nobody reads");
    let path = scene.local();
    let program = std::thread::spawn(move || std::fs::read(path).unwrap());
    within(PATIENCE, "somebody who reads", move || writes.close().unwrap());
    assert_eq!(program.join().unwrap(), b"");
}

#[test]
fn up_to_4096_bytes_of_each_writer_stay_together() {
    const LINES: usize = 300;
    let scene = Scene::new();
    let reads = scene.open(PipeSide::Read);
    let writers: Vec<_> = (0..4)
        .map(|number| {
            let mut pipe = scene.open(PipeSide::Write);
            std::thread::spawn(move || {
                let line = [vec![b'a' + number; 4095], vec![b'\n']].concat();
                (0..LINES).for_each(|_| assert_eq!(pipe.write(&line).unwrap(), 4096));
                pipe
            })
        })
        .collect();
    let reader = std::thread::spawn(move || read_all(reads));
    // Closed together: none of them is the last one while another still opens.
    let pipes: Vec<Pipe> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    pipes.into_iter().for_each(|pipe| pipe.close().unwrap());
    let bytes = within(PATIENCE, "the lines", move || reader.join().unwrap());
    let lines: Vec<&[u8]> = bytes.chunks(4096).collect();
    assert_eq!(lines.len(), 4 * LINES);
    assert!(lines.iter().all(|line| line[..4095].iter().all(|byte| *byte == line[0]) && line[4095] == b'\n'));
}

#[test]
fn a_lost_client_is_an_error_at_the_other_end_and_nothing_is_sent_again() {
    let scene = Scene::new();
    let mut reads = scene.open(PipeSide::Read);
    let mut writes = scene.open(PipeSide::Write);
    writes.write_all(b"half of").unwrap();
    assert_eq!(writes.settle_within(PATIENCE), Ok(true));
    // Its session ends, and it did not say that this was all.
    writes.abandon();
    let mut bytes = Vec::new();
    let (error, bytes) = within(PATIENCE, "the loss", move || {
        let error = reads.read_to_end(&mut bytes).unwrap_err();
        (error, bytes)
    });
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    assert!(error.to_string().contains("bytes are missing"), "{error}");
    assert_eq!(bytes, b"half of");
    // A reader that is lost.
    let reads = scene.open(PipeSide::Read);
    let mut writes = scene.open(PipeSide::Write);
    writes.write_all(b"x").unwrap();
    assert_eq!(writes.settle_within(PATIENCE), Ok(true));
    reads.abandon();
    let error = within(PATIENCE, "the loss", move || {
        loop {
            match writes.write(b"y").and_then(|_| writes.flush()) {
                Err(error) => return error,
                Ok(()) => std::thread::yield_now(),
            }
        }
    });
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe, "{error}");
    assert!(error.to_string().contains("nobody reads it any more"), "{error}");
}

#[test]
fn a_pipe_does_not_survive_its_server() {
    let mut scene = Scene::new();
    let (mut reads, mut writes) = (scene.open(PipeSide::Read), scene.open(PipeSide::Write));
    writes.write_all(b"gone").unwrap();
    assert_eq!(writes.settle_within(PATIENCE), Ok(true));
    scene.serving.restart();
    let mut buffer = [0; 100];
    for _ in 0..2 {
        let kind = |error: Error| error.kind;
        assert_eq!(reads.read_within(&mut buffer, PATIENCE).map_err(kind), Err(ErrorKind::ConnectionLost));
        let written = writes.write_within(b"more", PATIENCE).and_then(|_| writes.settle_within(PATIENCE));
        assert_eq!(written.map_err(kind), Err(ErrorKind::ConnectionLost));
    }
    assert_eq!(reads.close().unwrap_err().kind, ErrorKind::ConnectionLost);
    assert_eq!(writes.close().unwrap_err().kind, ErrorKind::ConnectionLost);
}

/// A server keeps an eighth of its descriptors for files, and a user an eighth of these for pipes.
fn raise_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// The server keeps a thread for as long as a session has an operation.
#[test]
fn pipes_without_the_other_end_keep_no_thread_and_no_operation_of_others() {
    raise_limit();
    let scene = Scene::new();
    let (server, other) = (scene.remote(), scene.remote());
    let waiting: Vec<_> = (0..PIPES)
        .map(|number| {
            make_fifo(&scene.directory, &format!("p{number}"));
            let side = if number % 2 == 0 { PipeSide::Read } else { PipeSide::Write };
            let mut pipe = Pipe::open(&server, format!("pipes/p{number}"), side).unwrap();
            std::thread::spawn(move || match side {
                PipeSide::Read => {
                    let mut bytes = Vec::new();
                    pipe.read_to_end(&mut bytes).map(|_| bytes)
                }
                PipeSide::Write => pipe
                    .write_all(b"out")
                    .and_then(|()| pipe.close().map_err(std::io::Error::other))
                    .map(|()| Vec::new()),
            })
        })
        .collect();
    scene.serving.wait_for_status("no thread while nothing comes", |[_, _, threads]| threads == 0);
    scene.directory.write("f", b"content");
    for remote in [&server, &other] {
        let began = Instant::now();
        let file = File::open(remote, "pipes/f", &OpenOptions::new().read(true)).unwrap();
        assert_eq!(file.length().unwrap(), 7);
        file.close().unwrap();
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
    for number in 0..PIPES {
        let path = scene.directory.file(&format!("p{number}"));
        match number % 2 {
            0 => std::fs::write(path, b"in").unwrap(),
            _ => assert_eq!(std::fs::read(path).unwrap(), b"out"),
        }
    }
    let all = move || waiting.into_iter().map(|one| one.join().unwrap().unwrap()).collect::<Vec<_>>();
    let results = within(PATIENCE, "the other ends", all);
    assert!(results.iter().enumerate().all(|(number, got)| got == if number % 2 == 0 { &b"in"[..] } else { b"" }));
}

#[test]
fn a_user_has_a_bounded_number_of_pipes_open() {
    const MOST: usize = 128;
    let scene = Scene::new();
    let (remote, mut open) = (scene.remote(), Vec::new());
    let refused = loop {
        match Pipe::open(&remote, "pipes/p", PipeSide::Read) {
            Ok(pipe) if open.len() < MOST => open.push(pipe),
            Ok(_) => panic!("{} were opened", MOST + 1),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind, ErrorKind::LimitExceeded, "{refused}");
    scene.directory.write("f", b"content");
    let file = File::open(&remote, "pipes/f", &OpenOptions::new().read(true)).unwrap();
    assert_eq!(file.length().unwrap(), 7, "files are opened as before");
    open.pop().unwrap().close().unwrap();
    open.push(Pipe::open(&remote, "pipes/p", PipeSide::Read).unwrap());
}

#[test]
fn a_pipe_that_is_open_passes_nothing_once_the_right_is_gone() {
    let scene = Scene::new();
    let (mut reads, mut writes) = (scene.open(PipeSide::Read), scene.open(PipeSide::Write));
    writes.write_all(b"before").unwrap();
    assert_eq!(writes.settle_within(PATIENCE), Ok(true));
    let export = |pipes| {
        let store = Arc::new(LocalStore::open_root(scene.directory.path(), true).unwrap());
        let access = Access { writable: true, pipes, anonymous: Anonymous::Write, ..Access::default() };
        vec![Export::new("pipes", store, access)]
    };
    scene.serving.handle.reload(export(false), ServerLimits::roomy(), Policy::default());
    let mut buffer = [0; 100];
    assert_eq!(reads.read_within(&mut buffer, PATIENCE).unwrap_err().kind, ErrorKind::Refused);
    let written = writes.write_within(b"after", PATIENCE).and_then(|_| writes.settle_within(PATIENCE));
    assert_eq!(written.unwrap_err().kind, ErrorKind::Refused);
}

#[path = "../../examples/parallel_pi/work.rs"]
mod parallel_pi;

#[test]
fn the_example_computes_pi_with_three_workers() {
    const STEPS: u64 = 300_000;
    let scene = Scene::new();
    for name in ["tasks", "results"] {
        make_fifo(&scene.directory, name);
    }
    let workers: Vec<_> = (0..3).map(|_| parallel_pi::join(&scene.remote(), "pipes").unwrap()).collect();
    let workers: Vec<_> = workers
        .into_iter()
        .map(|worker| std::thread::spawn(move || parallel_pi::work(worker, STEPS).unwrap()))
        .collect();
    let server = scene.remote();
    let pi = within(PATIENCE, "pi", move || parallel_pi::coordinate(&server, "pipes", 60, STEPS).unwrap());
    assert!((pi - std::f64::consts::PI).abs() < 1e-9, "{pi}");
    let done = move || workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u64>();
    assert_eq!(within(PATIENCE, "the workers' end", done), 60);
}

#[test]
fn a_pipe_is_opened_where_it_is_granted_and_is_nothing_else() {
    let scene = Scene::new();
    make_fifo(&scene.serving.directory, "p");
    scene.directory.write("f", b"content");
    std::fs::create_dir(scene.directory.file("d")).unwrap();
    std::os::unix::fs::symlink("p", scene.directory.file("link")).unwrap();
    let remote = scene.remote();
    let rows = [
        ("data/p", ErrorKind::Refused, ErrorKind::Refused),
        ("fixed/p", ErrorKind::Refused, ErrorKind::Refused),
        ("pipes/none", ErrorKind::NotFound, ErrorKind::NotFound),
        ("pipes/f", ErrorKind::NotRegular, ErrorKind::NotRegular),
        ("pipes/d", ErrorKind::NotRegular, ErrorKind::NotRegular),
        ("pipes/link", ErrorKind::NotRegular, ErrorKind::NotRegular),
        ("pipes/../p", ErrorKind::InvalidPath, ErrorKind::InvalidPath),
        ("memory/zero", ErrorKind::Refused, ErrorKind::Refused),
    ];
    for (path, reading, writing) in rows {
        assert_eq!(open_error(&remote, path, PipeSide::Read), reading, "{path}");
        assert_eq!(open_error(&remote, path, PipeSide::Write), writing, "{path}");
    }
    assert_eq!(open_error(&remote, "reads/p", PipeSide::Write), ErrorKind::ReadOnly);
    assert_eq!(refused(&remote, "pipes/p", &OpenOptions::new().read(true)), ErrorKind::NotRegular, "as a file");
    let mut reads = scene.open(PipeSide::Read);
    assert_eq!(reads.write_within(b"x", PATIENCE).unwrap_err().kind, ErrorKind::Refused);
    assert_eq!(scene.open(PipeSide::Write).read_within(&mut [0; 9], PATIENCE).unwrap_err().kind, ErrorKind::Refused);
}
