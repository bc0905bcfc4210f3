//! FIFOs on a server: commands on two machines, and programs of the server's, pass bytes through them.
//! `XDFS_PIPE_BYTES=10000000000` passes that many between two commands.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xdfs_test_cli::{Running, Scene, Server, exit, has_open, pattern, until};

/// Bytes that pass between two commands, and those of a part, each of which is another one.
const BYTES: u64 = 50_000_000;
const PART: u64 = 1_000_000;

/// The parts of `length` bytes.
fn parts(length: u64) -> impl Iterator<Item = Vec<u8>> {
    (0..length.div_ceil(PART)).map(move |number| pattern(PART.min(length - number * PART) as usize, number))
}

/// Gives `length` bytes to `producer` while `consumer` is read, and compares them.
fn pass(mut producer: Command, mut consumer: Command, length: u64) {
    let mut reads = consumer.stdout(Stdio::piped()).spawn().expect("the command starts");
    let mut writes = producer.stdin(Stdio::piped()).spawn().expect("the command starts");
    let (mut output, mut input) = (reads.stdout.take().expect("piped"), writes.stdin.take().expect("piped"));
    let compares = std::thread::spawn(move || {
        for (number, part) in parts(length).enumerate() {
            let mut got = vec![0; part.len()];
            output.read_exact(&mut got).unwrap_or_else(|error| panic!("part {number}: {error}"));
            assert!(got == part, "part {number} is another one");
        }
        assert_eq!(output.read(&mut [0]).expect("its end"), 0, "more than was written");
    });
    parts(length).for_each(|part| input.write_all(&part).expect("the client reads"));
    drop(input);
    compares.join().expect("what was read is what was written");
    assert!(writes.wait().expect("it ends").success() && reads.wait().expect("it ends").success());
}

/// A server whose export grants pipes, with the FIFO `p`.
fn serve(scene: &Scene) -> Server {
    let server = scene.serve_with(&["--pipes"]);
    scene.run(["mkfifo", "-m", "600", &server.url("p")]).ends_with(0).is_silent();
    server
}

/// Waits until the server has `path` open; a client of it has then opened its end.
#[track_caller]
fn wait_until_open(server: &Server, path: &Path) {
    until(|| has_open(server.process(), path), |open| *open);
}

#[test]
fn what_one_command_writes_into_a_pipe_another_one_reads() {
    let length = std::env::var("XDFS_PIPE_BYTES").map_or(BYTES, |text| text.parse().expect("a number"));
    let scene = Scene::new();
    let server = serve(&scene);
    for reader in [scene.command(["cat", &server.url("p")]), scene.command(["cp", &server.url("p"), "-"])] {
        let began = Instant::now();
        pass(scene.command(["cp", "-", &server.url("p")]), reader, length);
        println!("{:.0} MB/s", length as f64 / began.elapsed().as_secs_f64() / 1e6);
    }
    let made = std::fs::symlink_metadata(scene.path("server/p")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&made), 0o010_600);
    assert_eq!(scene.names("server"), ["p"], "nothing is staged");
}

#[test]
fn programs_of_the_servers_machine_have_either_end() {
    let (scene, bytes) = (Scene::new(), pattern(BYTES as usize, 8));
    let server = serve(&scene);
    let path = scene.path("server/p");
    let local = Command::new("cat").arg(&path).stdout(Stdio::piped()).spawn().unwrap();
    let mut producer = scene.start(["cp", "-", &server.url("p")]);
    let reads = std::thread::spawn(move || local.wait_with_output().unwrap().stdout);
    assert!(producer.feed(&bytes), "the client reads");
    producer.close_input();
    producer.wait_within(Duration::from_secs(300)).ends_with(0);
    assert!(reads.join().unwrap() == bytes, "what a program here read");
    let consumer = scene.start(["cat", &server.url("p")]);
    std::fs::write(&path, &bytes).unwrap();
    assert!(consumer.wait_within(Duration::from_secs(300)).ends_with(0).output == bytes, "what it wrote");
}

#[test]
fn an_end_that_is_killed_or_stopped_is_an_error_at_the_other_one() {
    let scene = Scene::new();
    let server = serve(&scene);
    let path = scene.path("server/p");
    let pair = || -> (Running, Running) {
        // The server closes the ends of the pair before behind its answers.
        until(|| has_open(server.process(), &path), |open| !*open);
        let consumer = scene.start(["cat", &server.url("p")]);
        wait_until_open(&server, &path);
        let mut producer = scene.start(["cp", "-", &server.url("p")]);
        // More than the pipe holds: the end is open when this has gone.
        assert!(producer.feed(&pattern(6_000_000, 1)), "the client reads");
        (consumer, producer)
    };
    for signal in [Signal::KILL, Signal::INT] {
        let (consumer, producer) = pair();
        producer.signal(signal);
        let ended = producer.wait_with_open_input();
        assert_eq!(ended.code, (signal == Signal::INT).then_some(exit::CANCELLED), "{ended:?}");
        let told = consumer.wait();
        assert!(told.code != Some(0), "{told:?}");
        told.says(&["data/p", "lost before it closed it", "bytes are missing"]);
    }
    let (consumer, mut producer) = pair();
    consumer.signal(Signal::KILL);
    consumer.wait();
    while producer.feed(&pattern(1_000_000, 2)) {}
    let told = producer.wait();
    assert!(told.code != Some(0), "{told:?}");
    told.says(&["data/p", "nobody reads it any more"]);
}

#[test]
fn a_server_that_is_killed_ends_both() {
    let scene = Scene::new();
    let server = serve(&scene);
    let consumer = scene.start(["cat", &server.url("p")]);
    wait_until_open(&server, &scene.path("server/p"));
    let mut producer = scene.start(["cp", "-", &server.url("p")]);
    assert!(producer.feed(&pattern(6_000_000, 1)), "the client reads");
    server.kill();
    producer.wait_with_open_input().ends_with(exit::CONNECTION_LOST).says(&["lost"]);
    consumer.wait().ends_with(exit::CONNECTION_LOST).says(&["lost"]);
}

#[test]
fn without_the_right_no_pipe_is_opened_or_made() {
    let scene = Scene::new();
    let server = scene.serve();
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.path("server/p"), 0o600.into()).unwrap();
    scene.run(["mkfifo", &server.url("q")]).ends_with(exit::PERMISSION_DENIED).says(&["data/q", "rights"]);
    scene.run(["cat", &server.url("p")]).ends_with(exit::PERMISSION_DENIED).says(&["data/p", "rights"]);
    let upload = scene.start(["cp", "-", &server.url("p")]);
    upload.wait().ends_with(exit::PERMISSION_DENIED).says(&["data/p", "rights"]);
    assert_eq!(scene.names("server"), ["p"]);
}

#[test]
fn what_is_no_pipe_is_not_refused_for_want_of_a_right_to_pipes() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/new", b"content");
    scene.run(["ln", "-s", "new", &server.url("link")]).ends_with(0).is_silent();
    for words in [&["cat", &server.url("link")][..], &["cp", &server.url("link"), "-"]] {
        let refused = scene.run(words);
        refused.fails().says(&["data/link", "is a symbolic link, which is not followed here"]);
        assert!(!refused.messages.contains("rights"), "{}", refused.messages);
    }
}

#[test]
fn copies_of_trees_and_files_pass_pipes_over_as_before() {
    let scene = Scene::new();
    let server = serve(&scene);
    scene.write("tree/file", b"content");
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.path("tree/pipe"), 0o600.into()).unwrap();
    scene.run(["cp", "-r", "tree", &server.url("tree")]).ends_with(0).says(&["1 special file"]);
    assert_eq!(scene.names("server/tree"), ["file"]);
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.path("server/tree/pipe"), 0o600.into()).unwrap();
    scene.run(["cp", "-r", &server.url("tree"), "back"]).ends_with(0).says(&["1 special file"]);
    assert_eq!(scene.names("back"), ["file"]);
    scene.run(["cp", &server.url("p"), "x"]).ends_with(exit::REFUSED).says(&["p", "regular file"]);
    scene.run(["cp", "tree/file", &server.url("p")]).ends_with(exit::REFUSED).says(&["p"]);
}
