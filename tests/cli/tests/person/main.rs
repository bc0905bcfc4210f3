//! What a person at a terminal meets: readers that go away, full outputs, signals, narrow windows, names that want to fool him, and
//! servers that list without end.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod endless;
#[allow(dead_code, reason = "each suite uses a part of it")]
#[path = "../../../../crates/client/tests/trees/evil.rs"]
mod evil;
mod foreign;
mod progress;

use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xdfs_test_cli::{Outcome, Relay, Running, STAGING, Scene, exit, pattern, xdfs_binary};

/// Runs a line of the shell, in which `$0` is xdfs.
fn shell(scene: &Scene, line: &str, words: &[&str]) -> Outcome {
    let mut command = Command::new("sh");
    command.args(["-c", line]).arg(xdfs_binary()).args(words).current_dir(scene.path(""));
    scene.dress("somebody", &mut command);
    Running::start(command).wait()
}

#[test]
fn a_reader_who_has_enough_ends_cat_quietly() {
    let scene = Scene::new();
    scene.write("server/file", &pattern(8 << 20, 1));
    let server = scene.serve();
    for command in ["cat \"$1\" \"$1\"", "cp -q \"$1\" -"] {
        let line = format!("{{ \"$0\" {command}; echo $? >&2; }} | head -c 10");
        let outcome = shell(&scene, &line, &[&server.url("file")]);
        assert_eq!((outcome.messages.as_str(), outcome.output.len()), ("0\n", 10), "{command}");
    }
}

#[test]
fn an_output_that_is_full_is_a_full_disk() {
    let scene = Scene::new();
    scene.write("server/file", &pattern(8 << 20, 1));
    let server = scene.serve();
    let url = server.url("file");
    for command in
        ["cat \"$1\"", "cp -q \"$1\" -", "ls \"$1\"", "stat --json \"$1\"", "sum \"$1\"", "du \"$1\"", "df \"$1\""]
    {
        let outcome = shell(&scene, &format!("\"$0\" {command} > /dev/full"), &[&url]);
        outcome.ends_with(exit::NO_SPACE).says(&["standard output", "o space left on device"]);
    }
}

/// A tree of which a part has arrived and the rest is held, on its way up.
fn tree_in_progress(scene: &Scene, relay: &Relay) -> Running {
    for number in 0..200 {
        scene.write(format!("tree/{number}"), &pattern(100_000, number));
    }
    let running = scene.start(["cp", "-r", "-P", "1", "tree", &relay.url("")]);
    relay.wait_until_held();
    running
}

#[test]
fn a_tree_that_is_cancelled_says_so_in_one_line() {
    for (signal, words) in [(Signal::INT, "Ctrl-C"), (Signal::HUP, "a terminal that is gone")] {
        let scene = Scene::new();
        let server = scene.serve();
        let relay = Relay::holding(&server, 1, 4 << 20);
        let running = tree_in_progress(&scene, &relay);
        running.signal(signal);
        relay.release();
        let outcome = running.wait();
        outcome.ends_with(exit::CANCELLED).says(&["cancelled: copied ", "; run the same command to continue"]);
        assert_eq!(outcome.messages.lines().count(), 1, "{words}: {}", outcome.messages);
    }
}

/// What is there right after Ctrl-C is what the same command continues, and nothing that nobody would look for.
#[test]
fn a_tree_whose_download_is_cancelled_leaves_only_what_can_be_continued() {
    let scene = Scene::new();
    for number in 0..40 {
        scene.write(format!("server/tree/{number}"), &pattern(300_000 + number * 5000, number as u64));
    }
    let server = scene.serve();
    for channels in ["1", "4"] {
        let new = format!("new{channels}");
        let relay = Relay::holding(&server, 1, 4 << 20);
        let running = scene.start(["cp", "-r", "-P", channels, &relay.url("tree"), &new]);
        relay.wait_until_held();
        running.signal(Signal::INT);
        relay.release();
        running.wait().ends_with(exit::CANCELLED);
        let names = scene.names(&new);
        let staged: Vec<_> = names.iter().filter(|name| name.starts_with(STAGING)).collect();
        for part in staged.iter().filter(|name| name.ends_with(".part")) {
            let journal = part.replace(".part", ".journal");
            assert!(names.contains(&journal), "{part} can be continued: {names:?}");
        }
        assert!(staged.iter().all(|name| name.ends_with(".part") || name.ends_with(".journal")), "{names:?}");
        scene.run(["cp", "-r", "-P", channels, &relay.url("tree"), &new]).ends_with(0);
        assert_eq!(scene.names(&new), scene.names("server/tree"), "nothing else is left");
        for name in scene.names(&new) {
            assert!(scene.read(format!("{new}/{name}")) == scene.read(format!("server/tree/{name}")), "{name}");
        }
    }
}

#[test]
fn a_file_that_is_cancelled_counts_the_bytes_that_are_kept() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("source", &pattern(40 << 20, 1));
    let words = ["cp", "--bwlimit", "2M", "source", &server.url("copy")];
    let mut terminal = scene.terminal_as("somebody", words);
    terminal.expect(" MB");
    terminal.type_key(0x03);
    let (code, screen) = terminal.wait();
    assert_eq!(code, Some(exit::CANCELLED), "{screen}");
    let (_, summary) = screen.split_once("cancelled: copied 0 files, ").unwrap_or_else(|| panic!("{screen}"));
    assert!(!summary.starts_with("0 B"), "{screen}");
}

/// The address of a relay that kills the first connection when something has come, and passes the others on.
fn killing_the_first(server: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (address, server) = (listener.local_addr().expect("its address"), server.to_owned());
    std::thread::spawn(move || {
        let (mut first, _) = listener.accept().expect("a client");
        first.read_exact(&mut [0]).expect("it says something");
        drop(first);
        for client in listener.incoming() {
            let (client, server) = (client.expect("a client"), TcpStream::connect(&server).expect("the server"));
            for (mut from, mut to) in [(&client, &server), (&server, &client)]
                .map(|(from, to)| (from.try_clone().expect("a socket"), to.try_clone().expect("a socket")))
            {
                std::thread::spawn(move || {
                    // Either side may go first.
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    address
}

#[test]
fn a_connection_that_is_killed_before_there_is_a_session_is_made_again() {
    let scene = Scene::new();
    scene.write("file", b"content");
    scene.write("tree/file", b"content");
    let server = scene.serve();
    for (number, words) in [["cp", "file"], ["sync", "tree"]].iter().enumerate() {
        let url = format!("xdfs://{}/data/copy{number}#{}", killing_the_first(server.address()), server.host_key());
        scene.run(words.iter().copied().chain([url.as_str()])).ends_with(0).says(&["trying again"]);
    }
    assert_eq!(scene.read("server/copy0"), b"content");
    assert_eq!(scene.read("server/copy1/file"), b"content");
    // Nobody is tried for long who was never there.
    let url = server.url("never");
    assert_eq!(server.stop(), Some(0));
    let started = Instant::now();
    scene.run(["cp", "file", &url]).ends_with(exit::CONNECTION_LOST);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_download_that_is_cancelled_says_where_the_rest_is_and_what_cannot_go_on_does_not_say_it_could() {
    let scene = Scene::new();
    scene.write("server/file", &pattern(40 << 20, 1));
    scene.write("server/tree/file", &pattern(40 << 20, 1));
    let server = scene.serve();
    let cancelled = |words: &[&str], staging: Option<&str>| {
        let relay = Relay::holding(&server, 1, 8 << 20);
        let url = relay.url(if words.contains(&"-r") { "tree" } else { "file" });
        let words: Vec<&str> = words.iter().map(|word| if *word == "URL" { url.as_str() } else { word }).collect();
        // So slow that it does not end before it is stopped.
        let running = scene.start(["cp", "-P", "1", "--bwlimit", "10M"].into_iter().chain(words));
        relay.wait_until_held();
        // What has passed may still be in the kernel.
        let until = Instant::now() + Duration::from_secs(60);
        while staging.is_some_and(|staging| !scene.path(staging).exists()) {
            assert!(Instant::now() < until && running.is_running(), "it stages nothing");
            std::thread::yield_now();
        }
        running.signal(Signal::INT);
        relay.release();
        let outcome = running.wait();
        outcome.ends_with(exit::CANCELLED);
        outcome.messages
    };
    let kept = "what has arrived is kept there for seven days";
    scene.directory("into");
    for (words, place) in [
        (&["URL", "here"][..], ".xdfs-staging"),
        (&["URL", "into"], "into/.xdfs-staging"),
        (&["-r", "URL", "new"], "new/.xdfs-staging"),
    ] {
        let said = cancelled(words, Some(place));
        assert!(said.contains(&format!("xdfs: {place}: {kept}")) && said.contains("to continue"), "{words:?}: {said}");
    }
    let said = cancelled(&["URL", "-"], None);
    assert!(said.contains("; the same command starts over") && !said.contains("to continue"), "{said}");
    assert!(!said.contains(kept), "{said}");
}
