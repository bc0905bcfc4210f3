//! Debian's globus-url-copy with data channels of our driver `mode_e`: the test speaks the control channel of the server.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "the tests look at the client's files themselves")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use support::{WAIT, content};
use xdfs_gridftp::driver;
use xdfs_xio::{Handle, Options, Registry, Server, Stack, Timeouts};

/// No multiple of a block.
const LENGTH: usize = 12_000_001;

/// How large the blocks are that our driver sends: none of the client's buffers is.
const BLOCK: &str = "100000";

fn stack(text: &str) -> Stack {
    let mut registry = Registry::built_in();
    driver::add_to(&mut registry).unwrap();
    Stack::of(Arc::new(registry)).push_all(text).unwrap()
}

fn options() -> Options {
    let limit = Some(WAIT);
    Options { timeouts: Timeouts { open: limit, read: limit, write: limit, close: limit } }
}

/// What a session of the client came to.
#[derive(Default)]
struct Session {
    commands: Vec<String>,
    /// What it has stored.
    stored: Vec<u8>,
    /// The data connections that it has made.
    connections: usize,
}

/// Serves one session, in which `file` can be had.
fn serve(file: Vec<u8>) -> (SocketAddr, JoinHandle<Session>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (address, std::thread::spawn(move || speak(listener.accept().unwrap().0, &file)))
}

fn speak(mut control: TcpStream, file: &[u8]) -> Session {
    let (mut session, mut streams) = (Session::default(), 1);
    let (mut passive, mut active) = (None, String::new());
    let lines = BufReader::new(control.try_clone().unwrap()).lines();
    let mut say = |text: &str| control.write_all(format!("{text}\r\n").as_bytes()).unwrap();
    say("220 hello");
    for line in lines.map_while(Result::ok) {
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match verb {
            "USER" => say("331 password"),
            "PASS" => say("230 in"),
            "FEAT" => say("211-Features:\r\n PARALLEL\r\n SIZE\r\n211 End"),
            "SIZE" => say(&format!("213 {}", file.len())),
            "OPTS" => {
                let told = rest.split("Parallelism=").nth(1).and_then(|rest| rest.split(',').next());
                streams = told.map_or(streams, |told| told.parse().unwrap());
                say("200 ok");
            }
            "TYPE" | "MODE" | "ALLO" => say("200 ok"),
            "PASV" | "SPAS" => {
                let server = Server::listen(&stack("tcp,mode_e,ordering"), "127.0.0.1:0").unwrap();
                let (port, made) = counted(server.contact().unwrap());
                let numbers = format!("127,0,0,1,{},{}", port >> 8, port & 255);
                say(&match verb {
                    "PASV" => format!("227 Entering Passive Mode ({numbers})"),
                    _ => format!("229-Entering Striped Passive Mode\r\n {numbers}\r\n229 End"),
                });
                passive = Some((server, made));
            }
            "PORT" => {
                let numbers: Vec<u16> = rest.split(',').map(|number| number.parse().unwrap()).collect();
                active = format!("127.0.0.1:{}", numbers[4] << 8 | numbers[5]);
                say("200 ok");
            }
            "STOR" => {
                let (server, made) = passive.take().expect("PASV was before");
                say("150 opening");
                session.stored = received(&server);
                session.connections = made.load(Ordering::Acquire);
                say("226 done");
            }
            "RETR" => {
                say("150 opening");
                let stack = stack(&format!("tcp,mode_e:streams={streams};block={BLOCK}"));
                let sender = Handle::open(&stack, &active, &options()).unwrap();
                for (piece, number) in file.chunks(77_777).zip(0_u32..) {
                    // Of this name connections are added and ended meanwhile.
                    if rest == "/changing" && number % 8 == 0 {
                        let now = ["1", "4", "2", "6"][number as usize / 8 % 4];
                        if number < 64 {
                            sender.control(Some("mode_e"), "streams", Some(now)).unwrap();
                        }
                    }
                    assert_eq!(sender.write(piece).unwrap(), piece.len());
                }
                sender.close().unwrap();
                say("226 done");
            }
            "QUIT" => say("221 bye"),
            _ => say("500 what"),
        }
        session.commands.push(line);
    }
    session
}

fn received(server: &Server) -> Vec<u8> {
    let receiver = server.accept(Some(WAIT)).unwrap().open(&options()).unwrap();
    let (mut all, mut buffer) = (Vec::new(), vec![0; 100_000]);
    loop {
        let read = receiver.read(&mut buffer, 1).unwrap();
        all.extend_from_slice(&buffer[..read.bytes]);
        if read.info.end {
            return all;
        }
    }
}

/// A port whose connections go on to an address, and how many they are.
fn counted(to: String) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    std::thread::spawn(move || {
        for mut from in listener.incoming().flatten() {
            let mut to = TcpStream::connect(&to).unwrap();
            count.fetch_add(1, Ordering::AcqRel);
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        }
    });
    (port, made)
}

/// Runs the client to its end.
#[track_caller]
fn copy(words: &[&str]) {
    // It waits without an end for a connection that does not come.
    let mut command = Command::new("timeout");
    let output = command
        .args([&WAIT.as_secs().to_string(), "globus-url-copy", "-dbg"])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&said));
}

fn is_there() -> bool {
    xdfs_test_needs::program("globus-url-copy", "globus-gass-copy-progs")
}

#[test]
fn what_globus_url_copy_sends_in_mode_e_arrives_whole_at_our_driver() {
    if !is_there() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let here = scratch.path().join("file");
    for length in [0, 1, LENGTH] {
        let sent = content(length);
        std::fs::write(&here, &sent).unwrap();
        for streams in [1, 4, 16] {
            let (address, session) = serve(Vec::new());
            let words = ["-p", &streams.to_string(), &format!("file://{}", here.display())];
            copy(&[&words[..], &[&format!("ftp://anonymous:x@{address}/file")]].concat());
            let session = session.join().unwrap();
            assert!(session.stored == sent, "{length} {streams}: {} bytes", session.stored.len());
            assert!(session.commands.iter().any(|line| line == "MODE E"), "{:?}", session.commands);
            assert_eq!(session.connections, streams, "{length}");
        }
    }
}

#[test]
fn what_our_driver_sends_arrives_whole_at_globus_url_copy() {
    if !is_there() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let here = scratch.path().join("file");
    for length in [0, 1, LENGTH] {
        for streams in ["1", "4", "16"] {
            let (address, session) = serve(content(length));
            let target = format!("file://{}", here.display());
            copy(&["-p", streams, &format!("ftp://anonymous:x@{address}/file"), &target]);
            let session = session.join().unwrap();
            assert!(std::fs::read(&here).unwrap() == content(length), "{length} {streams}");
            let told = format!("OPTS RETR Parallelism={streams},{streams},{streams};");
            assert!(session.commands.contains(&told), "{:?}", session.commands);
            std::fs::remove_file(&here).unwrap();
        }
    }
}

#[test]
fn what_our_driver_sends_over_connections_that_come_and_go_arrives_whole_at_globus_url_copy() {
    if !is_there() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let here = scratch.path().join("file");
    for streams in ["1", "8"] {
        let (address, session) = serve(content(LENGTH));
        let target = format!("file://{}", here.display());
        copy(&["-p", streams, &format!("ftp://anonymous:x@{address}/changing"), &target]);
        assert!(session.join().unwrap().commands.iter().any(|line| line == "RETR /changing"));
        assert!(std::fs::read(&here).unwrap() == content(LENGTH), "{streams}");
        std::fs::remove_file(&here).unwrap();
    }
}

/// With stripes the client asks for the addresses of several machines: one is an answer.
#[test]
fn one_stripe_of_globus_url_copy_is_understood_both_ways() {
    if !is_there() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let (here, back) = (scratch.path().join("file"), scratch.path().join("back"));
    let sent = content(LENGTH);
    std::fs::write(&here, &sent).unwrap();
    let (address, session) = serve(Vec::new());
    copy(&["-stripe", "-p", "4", &format!("file://{}", here.display()), &format!("ftp://anonymous:x@{address}/file")]);
    let session = session.join().unwrap();
    assert!(session.commands.iter().any(|line| line == "SPAS"), "{:?}", session.commands);
    assert!(session.stored == sent, "{} bytes", session.stored.len());
    let (address, session) = serve(sent.clone());
    copy(&["-stripe", "-p", "4", &format!("ftp://anonymous:x@{address}/file"), &format!("file://{}", back.display())]);
    // It listens itself, at one address, and does not ask for stripes.
    let commands = session.join().unwrap().commands;
    assert!(commands.iter().any(|line| line.starts_with("PORT ")), "{commands:?}");
    assert!(std::fs::read(&back).unwrap() == sent);
}
