//! How things end: Ctrl-C, SIGTERM, servers that die, and the demonstration from start to end.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xdfs_test_cli::{Relay, Running, Scene, exit, has_open, pattern, wait_until, xdfs_binary};

/// More than all buffers between a pipe and a server's disk hold, so once it is fed, data arrived.
const ENOUGH: usize = 40_000_000;

/// An upload from a pipe that nobody closes, of which a part has surely arrived.
fn upload_in_progress(scene: &Scene, url: &str) -> Running {
    let mut upload = scene.start(["cp", "-P", "4", "-", url]);
    assert!(upload.feed(&pattern(ENOUGH, 1)), "the client reads");
    upload
}

#[test]
fn ctrl_c_cancels_on_both_sides() {
    let scene = Scene::new();
    scene.write("server/x", b"old");
    let server = scene.serve();
    let upload = upload_in_progress(&scene, &server.url("x"));
    assert_eq!(scene.read("server/x"), b"old", "nothing has the name before it is complete");
    upload.signal(Signal::INT);
    upload.wait_with_open_input().ends_with(exit::CANCELLED).says(&["cancelled"]);
    // The server goes on, and what was staged is gone once it has noticed: the next answer comes after that.
    scene.write("next", b"next");
    scene.run(["cp", "next", &server.url("next")]).ends_with(0);
    assert_eq!(scene.read("server/x"), b"old");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(scene.names("server"), ["next", "x"]);
}

#[test]
fn ctrl_c_on_a_pipeline_does_not_take_half_the_data_for_all_of_it() {
    let scene = Scene::new();
    scene.write("server/x", b"old");
    let server = scene.serve();
    // 'cat' ends by the same Ctrl-C, and its end of the pipe closes as if it had been at the end of the data.
    let script = "trap : INT; cat | \"$0\" cp - \"$1\"; exit ${PIPESTATUS[1]}";
    let mut command = Command::new("bash");
    command.args(["-c", script]).arg(xdfs_binary()).arg(server.url("x")).process_group(0);
    scene.dress("somebody", &mut command);
    let mut pipeline = Running::start(command);
    assert!(pipeline.feed(&pattern(ENOUGH, 1)), "the client reads");
    pipeline.signal_group(Signal::INT);
    pipeline.wait_with_open_input().ends_with(exit::CANCELLED);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(scene.read("server/x"), b"old");
}

/// Waits until a process has `path` open.
#[track_caller]
fn wait_until_open(running: &Running, path: &Path) {
    wait_until("it is opened", || has_open(running.process(), path));
}

#[test]
fn the_wait_for_the_writer_of_a_pipe_ends_with_the_first_signal_or_the_writer() {
    let scene = Scene::new();
    let server = scene.serve();
    let pipe = scene.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    for signal in [Signal::TERM, Signal::INT] {
        let upload = scene.start(["cp", "pipe", &server.url("x")]);
        wait_until_open(&upload, &pipe);
        upload.signal(signal);
        upload.wait().ends_with(exit::CANCELLED).says(&["pipe", "cancelled"]);
    }
    assert!(scene.names("server").is_empty());
    let content = pattern(3_000_000, 2);
    let upload = scene.start(["cp", "pipe", &server.url("x")]);
    // Waits for the reader.
    std::fs::write(&pipe, &content).unwrap();
    upload.wait().ends_with(0);
    assert!(scene.read("server/x") == content);
    // A pipe of the shell, whose writer may be gone before it is opened.
    let mut command = Command::new("bash");
    command.args(["-c", "\"$0\" cp <(printf content) \"$1\""]).arg(xdfs_binary()).arg(server.url("y"));
    scene.dress("somebody", &mut command);
    Running::start(command).wait().ends_with(0);
    assert_eq!(scene.read("server/y"), b"content");
}

#[test]
fn a_server_that_is_killed_ends_the_transfer_as_a_lost_connection() {
    let scene = Scene::new();
    scene.write("server/x", b"old");
    let server = scene.serve();
    let upload = upload_in_progress(&scene, &server.url("x"));
    server.kill();
    upload.wait_with_open_input().ends_with(exit::CONNECTION_LOST).says(&["x", "lost"]);
    assert_eq!(scene.read("server/x"), b"old");
}

#[test]
fn a_client_that_is_killed_leaves_the_server_as_it_was() {
    let scene = Scene::new();
    let server = scene.serve();
    let upload = upload_in_progress(&scene, &server.url("x"));
    upload.signal(Signal::KILL);
    assert_eq!(upload.wait_with_open_input().code, None);
    scene.write("next", b"next");
    scene.run(["cp", "next", &server.url("next")]).ends_with(0);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(scene.names("server"), ["next"]);
}

#[test]
fn a_server_that_is_told_to_stop_lets_the_running_transfer_end() {
    let scene = Scene::new();
    let server = scene.serve();
    let mut upload = upload_in_progress(&scene, &server.url("x"));
    server.signal(Signal::TERM);
    assert!(upload.feed(&pattern(1_000_000, 2)), "the transfer goes on");
    upload.wait().ends_with(0);
    assert_eq!(server.wait(), Some(0));
    assert_eq!(scene.read("server/x").len(), ENOUGH + 1_000_000);
}

#[test]
fn a_report_is_written_on_request_and_the_server_goes_on() {
    let scene = Scene::new();
    scene.directory("server");
    let server = scene.serve();
    server.signal(Signal::USR1);
    scene.write("a", b"x");
    scene.run(["cp", "a", &server.url("a")]).ends_with(0);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn the_demonstration_verifies_and_cleans_up() {
    let scene = Scene::new();
    let place = scene.directory("place");
    let words = ["demo", "--size", "16MiB", "-P", "8", "--directory"];
    let outcome = scene.run(words.iter().map(std::ffi::OsStr::new).chain([place.as_os_str()]));
    outcome.ends_with(0).says(&["up ", "down ", "of the bound", "verified"]);
    assert!(scene.names("place").is_empty());
}

#[test]
fn the_demonstration_cleans_up_when_it_is_cancelled() {
    let scene = Scene::new();
    let place = scene.directory("place");
    let words = ["demo", "--size", "256MiB", "--directory"];
    let demo = scene.start(words.iter().map(std::ffi::OsStr::new).chain([place.as_os_str()]));
    demo.signal(Signal::INT);
    let outcome = demo.wait();
    // The signal may come before the program is ready for it; then it has made nothing yet.
    assert!(matches!(outcome.code, Some(130) | None), "{outcome:?}");
    assert!(scene.names("place").is_empty());
}

#[test]
fn the_ready_line_has_the_real_port_and_the_host_key() {
    let scene = Scene::new();
    let server = scene.serve();
    let ready = server.ready();
    let shown = scene.run(["key", "show", "--host", "--json"]).objects();
    assert_eq!(ready["host_key"], shown[0]["fingerprint"]);
    assert!(!server.address().ends_with(":0"), "{ready}");
    assert_eq!(ready.as_object().map(|fields| fields.len()), Some(3), "{ready}");
}

/// A command that is done does not wait for a server that keeps the last message of the session back, or the last few.
#[test]
fn a_server_that_does_not_end_its_session_is_not_waited_for() {
    let scene = Scene::new();
    scene.write("server/f", b"content");
    let server = scene.serve();
    let through = Relay::holding(&server, 0, u64::MAX);
    scene.run(["stat", &through.url("f")]).ends_with(0);
    let all = through.passed_in_all();
    for kept in [16, 48] {
        let relay = Relay::holding(&server, 0, all - kept);
        let began = Instant::now();
        let stat = scene.start(["stat", &relay.url("f")]).wait_within(Duration::from_secs(60));
        assert!(stat.ends_with(0).text().contains("7 bytes"));
        println!(
            "{kept} bytes kept back: {:.1} s, {} of {all} passed",
            began.elapsed().as_secs_f64(),
            relay.passed_in_all()
        );
        assert!(began.elapsed() < Duration::from_secs(20), "it waits");
    }
}
