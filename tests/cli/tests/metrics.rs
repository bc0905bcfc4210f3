//! `xdfs serve --metrics`: what Prometheus reads, who may read it, and that it goes on in the process that takes over.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use xdfs_test_cli::{Scene, Server, TcpState, exit, pattern, tcp_sockets, until};

fn export(name: &str) -> String {
    format!("[exports.{name}]\ndirectory = \"{name}\"\nanonymous = \"rw\"\nbandwidth = \"1G\"\n")
}

fn serve(scene: &Scene, config: &str) -> Server {
    serve_with(scene, config, &[])
}

fn serve_with(scene: &Scene, config: &str, options: &[&str]) -> Server {
    for name in ["one", "two"] {
        scene.directory(name);
    }
    scene.write("server.toml", config.as_bytes());
    let command = scene.command(["serve", "--json", "--listen", "127.0.0.1:0"]);
    Server::start(command, &[&["--config", "server.toml"], options].concat())
}

/// What is answered to who calls this machine `host`.
fn answer(mut stream: impl Read + Write, host: &str) -> String {
    stream.write_all(format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The metrics at this socket, once they have this line.
#[track_caller]
fn metrics_with(socket: &Path, line: &str) -> String {
    until_told(|| answer(UnixStream::connect(socket).unwrap(), "localhost"), line)
}

/// What `read` gets, once it has this line: figures are gathered a few times a second.
#[track_caller]
fn until_told(read: impl Fn() -> String, line: &str) -> String {
    let has_line = |text: &String| {
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        text.lines().any(|one| one == line)
    };
    until(read, has_line)
}

/// The process that takes over from the server; it is nobody's child then, and ends with the test.
struct Successor(Pid);

impl Successor {
    fn of(server: &Server) -> Self {
        let path = format!("/proc/{0}/task/{0}/children", server.process().as_raw_nonzero());
        let children = std::fs::read_to_string(path).unwrap();
        let child = children.split_whitespace().next().and_then(|child| Pid::from_raw(child.parse().ok()?));
        Self(child.expect("a process waits to take over"))
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = kill_process(self.0, Signal::TERM);
    }
}

#[test]
fn figures_are_on_a_socket_of_the_server_s_group_and_outlive_a_hand_over() {
    let scene = Scene::new();
    let metrics = "metrics = \"unix:metrics.sock\"\n".to_owned();
    let server = serve(&scene, &(metrics.clone() + &export("one")));
    let _successor = Successor::of(&server);
    let socket = scene.path("metrics.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660);
    scene.write("file", &pattern(300_000, 1));
    scene.run(["cp", "file", &server.url_in("one", "file")]).ends_with(0);
    let text = metrics_with(&socket, "xdfs_operations_total{export=\"one\",kind=\"upload\",outcome=\"ok\"} 1");
    for line in [
        "xdfs_payload_bytes_total{export=\"one\",direction=\"received\"} 300000",
        "xdfs_bandwidth_limit_bytes{export=\"one\"} 1073741824",
        "xdfs_sessions_total 1",
    ] {
        assert!(text.lines().any(|one| one == line), "{line} in {text}");
    }
    assert!(!text.contains("127.0.0.1") && !text.contains("anonymous"), "no peer is named: {text}");
    // The new export is out of the reach of this process, so another one takes over.
    scene.write("server.toml", (metrics + &export("one") + &export("two")).as_bytes());
    server.signal(Signal::HUP);
    let text = metrics_with(&socket, "xdfs_bandwidth_limit_bytes{export=\"two\"} 1073741824");
    assert!(text.lines().any(|one| one == "xdfs_sessions_total 0"), "it counts anew: {text}");
}

#[test]
fn a_confined_server_answers_at_a_loopback_port_and_so_does_the_process_that_takes_over() {
    let scene = Scene::new();
    let options = ["--metrics", "127.0.0.1:0", "--confinement", "required"];
    let server = serve_with(&scene, &export("one"), &options);
    let successor = Successor::of(&server);
    let confined = |process: Pid| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero())).unwrap();
        status.lines().any(|line| line == "Seccomp:\t2")
    };
    assert!(confined(server.process()));
    let mut listening = tcp_sockets(server.process(), TcpState::Listening);
    listening.retain(|address| address.to_string() != server.address());
    let [place] = listening[..] else { panic!("one place besides its own: {listening:?}") };
    assert!(place.ip().is_loopback(), "{place}");
    let read = || answer(TcpStream::connect(place).unwrap(), &place.to_string());
    scene.write("file", &pattern(300_000, 1));
    scene.run(["cp", "file", &server.url_in("one", "file")]).ends_with(0);
    until_told(read, "xdfs_payload_bytes_total{export=\"one\",direction=\"received\"} 300000");
    let other = answer(TcpStream::connect(place).unwrap(), "evil.example");
    assert!(other.starts_with("HTTP/1.1 403 "), "a page of a browser's reads nothing: {other}");
    // The new export is out of the reach of this process, so another one takes over.
    scene.write("server.toml", (export("one") + &export("two")).as_bytes());
    server.signal(Signal::HUP);
    let text = until_told(read, "xdfs_bandwidth_limit_bytes{export=\"two\"} 1073741824");
    assert!(text.lines().any(|one| one == "xdfs_sessions_total 0"), "it counts anew: {text}");
    assert!(confined(successor.0), "it is confined as well");
    assert_eq!(server.wait(), Some(0), "the old process is not needed for it");
    until_told(read, "xdfs_sessions 0");
}

#[test]
fn an_upload_to_a_read_only_export_counts_as_failed() {
    let scene = Scene::new();
    let fixed = export("one").replace("\"rw\"", "\"ro\"") + "access = \"ro\"\n";
    let server = serve(&scene, &("metrics = \"unix:metrics.sock\"\n".to_owned() + &fixed));
    scene.write("file", &pattern(300_000, 1));
    scene.run(["cp", "file", &server.url_in("one", "file")]).ends_with(exit::PERMISSION_DENIED);
    let text = metrics_with(
        &scene.path("metrics.sock"),
        "xdfs_operations_total{export=\"one\",kind=\"upload\",outcome=\"failed\"} 1",
    );
    assert!(
        text.lines().any(|one| one == "xdfs_payload_bytes_total{export=\"one\",direction=\"received\"} 0"),
        "{text}"
    );
}

#[test]
fn a_socket_that_was_left_is_replaced_and_one_in_use_is_not() {
    let scene = Scene::new();
    scene.directory("server");
    let words = ["serve", "--export", "data=server", "--listen", "127.0.0.1:0", "--metrics", "unix:socket"];
    // It stays when the listener is gone.
    drop(std::os::unix::net::UnixListener::bind(scene.path("socket")).unwrap());
    let server = scene.serve_with(&["--metrics", "unix:socket"]);
    let text = metrics_with(&scene.path("socket"), "xdfs_sessions 0");
    assert!(text.contains("xdfs_build_info{version=\""), "{text}");
    // Some C libraries say "already in use".
    let other = scene.run_as("other", words);
    other.ends_with(exit::LOCAL).says(&["--metrics unix:socket: address ", "in use"]);
    drop(server);
    for (place, words) in [("0.0.0.0:0", "can be reached from other machines"), ("9280", "is no place for metrics")] {
        scene.run(["serve", "--export", "data=server", "--metrics", place]).ends_with(exit::USAGE).says(&[words]);
    }
}
