//! Connections that are cut while a file moves from or to a server, or from one GridFTP server to another: the copy goes
//! on with what its target had stored.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use xdfs_test_cli::{Scene, pattern};

use super::peers::all;
use super::servers::{FtpServer, log_with};
use super::{PATIENCE, run};

/// So many bytes pass on a data connection before it waits for the cut.
const BEFORE_BYTES: usize = 6 << 20;

/// What is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    Data,
    Control,
}

/// What the relays of a test share.
#[derive(Default)]
struct State {
    /// The target has stored something.
    is_stored: bool,
    is_cut: bool,
    /// Bytes of file that have passed since the cut.
    after: usize,
    /// Data connections so far, and those of them that wait for the cut.
    connections: usize,
    waiting: usize,
}

/// What relays of one test share, and what they have seen.
type Shared = Arc<(Mutex<State>, Condvar)>;

/// Waits until the state is so.
fn wait(shared: &Shared, is_so: impl Fn(&State) -> bool) {
    let (until, mut state) = (Instant::now() + PATIENCE, shared.0.lock().expect("no panic"));
    while !is_so(&state) {
        let left = until.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "nothing happens");
        state = shared.1.wait_timeout(state, left).expect("no panic").0;
    }
}

fn change(shared: &Shared, change: impl FnOnce(&mut State)) {
    change(&mut shared.0.lock().expect("no panic"));
    shared.1.notify_all();
}

/// Passes control channels on to a server. Where the server says that it listens for data connections, its clients find a
/// relay, too.
fn relay(server: &FtpServer, cut: Option<Cut>, shared: &Shared) -> String {
    relay_of(server, cut, shared, false)
}

/// The same; and the server finds one where its client listens.
fn relay_both(server: &FtpServer, cut: Option<Cut>, shared: &Shared) -> String {
    relay_of(server, cut, shared, true)
}

fn relay_of(server: &FtpServer, cut: Option<Cut>, shared: &Shared, both: bool) -> String {
    let to = server.url.split(['/', '@']).find(|part| part.contains("127.0.0.1:")).expect("a host").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let own = listener.local_addr().expect("its address").to_string();
    let (shared, target) = (Arc::clone(shared), to.clone());
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(&target).expect("the server listens");
            let (shared, one, other) = (Arc::clone(&shared), client.try_clone(), server.try_clone());
            let listening = Arc::clone(&shared);
            std::thread::spawn(move || replies(server, client, cut, &shared));
            let (Ok(client), Ok(server)) = (one, other) else { return };
            std::thread::spawn(move || commands(client, server, (cut, both), &listening));
        }
    });
    server.url.replace(&to, &own)
}

fn replies(server: TcpStream, mut client: TcpStream, cut: Option<Cut>, shared: &Shared) {
    let is_first = !shared.0.lock().expect("no panic").is_cut;
    let cuts = is_first && cut == Some(Cut::Control);
    if cuts {
        let (shared, ends) = (Arc::clone(shared), [server.try_clone(), client.try_clone()]);
        std::thread::spawn(move || {
            wait(&shared, |state| state.is_stored);
            // The client may come back at once, and is not cut again.
            change(&shared, |state| {
                state.is_cut = true;
                ends.into_iter().flatten().for_each(|end| drop(end.shutdown(Shutdown::Both)));
            });
        });
    }
    for line in BufReader::new(server).split(b'\n') {
        let Ok(line) = line else { break };
        let mut text = String::from_utf8_lossy(&line).into_owned();
        if let Some(port) = passive_port(&text) {
            let port = data(port, cut == Some(Cut::Data), shared);
            text = match text.starts_with("227") {
                true => format!("227 Entering Passive Mode (127,0,0,1,{},{})\r", port >> 8, port & 255),
                false => format!("229 Entering Extended Passive Mode (|||{port}|)\r"),
            };
        }
        if client.write_all(format!("{text}\n").as_bytes()).is_err() {
            break;
        }
        if text.starts_with("111 Range Marker") && !text.trim_end().ends_with("0-0") {
            change(shared, |state| state.is_stored = true);
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}

fn commands(client: TcpStream, mut server: TcpStream, (cut, both): (Option<Cut>, bool), shared: &Shared) {
    for line in BufReader::new(client).split(b'\n') {
        let Ok(mut line) = line else { break };
        let text = String::from_utf8_lossy(&line);
        if let Some(numbers) = text.strip_prefix("PORT 127,0,0,1,").filter(|_| both) {
            let numbers: Vec<u16> = numbers.trim_end().split(',').map(|text| text.parse().expect("a number")).collect();
            let port = data(numbers[0] << 8 | numbers[1], cut == Some(Cut::Data), shared);
            line = format!("PORT 127,0,0,1,{},{}\r", port >> 8, port & 255).into_bytes();
        }
        line.push(b'\n');
        if server.write_all(&line).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

/// The port in an answer to PASV or EPSV.
fn passive_port(text: &str) -> Option<u16> {
    let is_passive = text.starts_with("227 ") || text.starts_with("229 ");
    let inner = text.split(['(', ')']).nth(1).filter(|_| is_passive)?;
    let numbers = inner.split([',', '|']).filter(|number| !number.is_empty());
    let numbers: Vec<u16> = numbers.map(|number| number.parse().expect("a number")).collect();
    match numbers[..] {
        [_, _, _, _, high, low] => Some(high << 8 | low),
        [port] => Some(port),
        _ => None,
    }
}

/// Passes data connections on to a port.
fn data(to: u16, cuts: bool, shared: &Shared) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        for from in listener.incoming().flatten() {
            // One end may have gone, with what was cut.
            let Ok(to) = TcpStream::connect(("127.0.0.1", to)) else { continue };
            change(&shared, |state| state.connections += 1);
            let ends = (from.try_clone().expect("a descriptor"), to.try_clone().expect("a descriptor"));
            for (from, to) in [(from, to), (ends.1, ends.0)] {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || pass(from, to, cuts, &shared));
            }
        }
    });
    port
}

fn pass(mut from: TcpStream, mut to: TcpStream, cuts: bool, shared: &Shared) {
    let (mut bytes, mut passed) = (vec![0; 64 << 10], 0);
    let is_first = !shared.0.lock().expect("no panic").is_cut;
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
        passed += read;
        if is_first && passed >= BEFORE_BYTES {
            change(shared, |state| state.waiting += usize::from(passed - read < BEFORE_BYTES));
            wait(shared, |state| state.is_stored);
            // One of several is cut.
            if cuts && !std::mem::replace(&mut shared.0.lock().expect("no panic").is_cut, true) {
                shared.1.notify_all();
                break;
            }
            wait(shared, |state| state.is_cut);
        }
        if !is_first {
            change(shared, |state| state.after += read);
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Copies a file, of which these channels of source and target are cut in the middle. Returns how much did not move again.
#[track_caller]
fn goes_on(source: Option<Cut>, target: Option<Cut>) -> u64 {
    let (scene, one, other) = (Scene::new(), FtpServer::globus(), FtpServer::globus());
    let content = pattern(32 << 20, 7);
    one.put("f", &content);
    let shared = Shared::default();
    let (from, to) = (relay(&one, source, &shared), relay(&other, target, &shared));
    let done = run(&scene, &["cp", "--json", "-P", "2", &format!("{from}/f"), &format!("{to}/g")]);
    done.ends_with(0).says(&["trying again"]);
    let told = done.objects().remove(0);
    assert_eq!(told["verify"], "hash", "{told}");
    assert!(other.read("g") == content);
    assert_eq!(other.names(), ["g"], "no temporary name is left");
    let resumed = told["resumed_bytes"].as_u64().expect("a number");
    let after = shared.0.lock().expect("no panic").after as u64;
    let left = content.len() as u64 - resumed;
    assert!((left..left + (1 << 20)).contains(&after), "{after} bytes moved after the cut, of {left}");
    resumed
}

#[test]
fn a_copy_between_servers_goes_on_after_its_data_connection_was_cut() {
    assert!(goes_on(None, Some(Cut::Data)) > 1 << 20);
}

#[test]
fn a_copy_between_servers_goes_on_after_the_sources_control_connection_was_cut() {
    assert!(goes_on(Some(Cut::Control), None) > 1 << 20);
}

/// The process that the target had for it may still write: globus-gridftp-server writes what it had not received over the
/// first block of the file. So nothing that it has is continued.
#[test]
fn a_copy_between_servers_begins_again_after_the_targets_control_connection_was_cut() {
    assert_eq!(goes_on(None, Some(Cut::Control)), 0);
}

/// Which way a file goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Down,
    Up,
}

/// Downloads or uploads a file, of which this channel is cut in the middle. Returns how much did not move again.
#[track_caller]
fn resumes(server: &FtpServer, way: Way, cut: Cut, streams: &str) -> u64 {
    // Of several connections each has brought as much before one is cut, whichever the server prefers, so that what is whole
    // from the beginning is no little. What waits in buffers meanwhile is less than the rest of the file.
    let (length, some, waiting) = match (way, streams) {
        (Way::Down, "4") => (96 << 20, 20 << 20, 4),
        _ => (32 << 20, 3 << 20, 0),
    };
    let (scene, content, shared) = (Scene::new(), pattern(length, 7), Shared::default());
    let url = format!("{}/f", relay_both(server, Some(cut), &shared));
    let words = match way {
        Way::Down => {
            server.put("f", &content);
            [&url, "f"]
        }
        Way::Up => {
            scene.write("f", &content);
            ["f", &url]
        }
    };
    let copy = scene.start([&["cp", "--json", "-P", streams], &words[..]].concat());
    let written = || match way {
        Way::Down => {
            let counts = std::fs::read_to_string(format!("/proc/{}/io", copy.process().as_raw_nonzero())).ok()?;
            counts.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok())
        }
        Way::Up => std::fs::read_dir(&server.here).ok()?.flatten().find_map(|file| Some(file.metadata().ok()?.len())),
    };
    let until = Instant::now() + PATIENCE;
    let waits = || shared.0.lock().expect("no panic").waiting >= waiting;
    while !waits() || written().is_none_or(|bytes| bytes < some) {
        assert!(Instant::now() < until, "{url}: nothing arrives");
        std::thread::yield_now();
    }
    change(&shared, |state| state.is_stored = true);
    let done = copy.wait();
    done.ends_with(0);
    let there = if way == Way::Down { scene.read("f") } else { server.read("f") };
    assert!(there == content, "{url}: {}", done.messages);
    assert_eq!(server.names(), ["f"], "{url}: no temporary name is left");
    let resumed = done.objects()[0]["resumed_bytes"].as_u64().expect("a number");
    done.says(&["trying again"]);
    assert!(!done.messages.contains("takes no temporary names"), "{url}: {}", done.messages);
    if streams == "1" {
        let after = shared.0.lock().expect("no panic").after as u64;
        assert_eq!(after, content.len() as u64 - resumed, "{url}: {}", done.messages);
    }
    resumed
}

/// pure-ftpd says nothing of a download that it could not send, and is waited for, ten seconds.
#[test]
fn a_download_goes_on_after_its_data_connection_was_cut() {
    for server in all() {
        assert!(resumes(&server, Way::Down, Cut::Data, "1") > 1 << 20, "{}", server.url);
    }
}

#[test]
fn a_download_goes_on_after_its_control_connection_was_cut() {
    for server in all() {
        assert!(resumes(&server, Way::Down, Cut::Control, "1") > 1 << 20, "{}", server.url);
    }
}

#[test]
fn an_upload_goes_on_after_its_data_connection_was_cut() {
    for server in all() {
        assert!(resumes(&server, Way::Up, Cut::Data, "1") > 1 << 20, "{}", server.url);
    }
}

#[test]
fn an_upload_goes_on_after_its_control_connection_was_cut() {
    for server in all() {
        assert!(resumes(&server, Way::Up, Cut::Control, "1") > 1 << 20, "{}", server.url);
    }
}

/// What has arrived may have holes: what is behind the first moves again.
#[test]
fn a_download_on_several_connections_goes_on_after_one_was_cut() {
    for cut in [Cut::Data, Cut::Control] {
        assert!(resumes(&FtpServer::globus(), Way::Down, cut, "4") > 4 << 20, "{cut:?}");
    }
}

/// The server's log has what it was asked for, and the relays have how many connections there were.
#[test]
fn as_many_connections_carry_a_file_as_were_asked_for() {
    let scene = Scene::new();
    let log = scene.path("log");
    let server = FtpServer::globus_with(&["-d", "ALL", "-l", log.to_str().expect("text")]);
    // Fewer bytes than a relay lets pass, on whichever connection they come.
    let content = pattern(BEFORE_BYTES - 1, 2);
    scene.write("f", &content);
    for streams in [4, 16] {
        let text = streams.to_string();
        for is_up in [true, false] {
            let shared = Shared::default();
            let url = format!("{}/f", relay_both(&server, None, &shared));
            let words = if is_up { ["f", &url] } else { [&url, "back"] };
            run(&scene, &[&["cp", "-P", &text], &words[..]].concat()).ends_with(0);
            let seen = shared.0.lock().expect("no panic").connections;
            assert_eq!(seen, streams, "up: {is_up}");
        }
        assert!(server.read("f") == content && scene.read("back") == content);
        let asked = format!("[CLIENT]: OPTS RETR Parallelism={streams},");
        let log = log_with(&log, |log| log.matches("[CLIENT]: MODE E").count() >= 2 && log.contains(&asked));
        assert_eq!(log.matches(&asked).count(), 1, "{asked}");
        std::fs::remove_file(scene.path("back")).expect("it is there");
    }
}

/// A part of several connections may have holes.
#[test]
fn an_upload_on_several_connections_begins_again_after_one_was_cut() {
    for cut in [Cut::Data, Cut::Control] {
        assert_eq!(resumes(&FtpServer::globus(), Way::Up, cut, "4"), 0, "{cut:?}");
    }
}
