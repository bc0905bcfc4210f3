//! Trees that are ended on the way by a signal to either side: the literal same command goes on at the same place, and leaves nothing
//! of its own beside the copy.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xdfs_test_cli::{LISTEN, Relay, Running, Scene, Server, pattern, until};

use super::judge::{differences, same};

const FILES: usize = 60;
const ROUNDS: u32 = 6;

/// Files of 100 to 900 KiB: transfers of their own that nobody goes on with.
pub(super) fn plant_large(scene: &Scene, top: &str) {
    for number in 0..FILES {
        let size = 100_000 + number * 7919 * 13 % 800_000;
        scene.write(format!("{top}/d{}/f{number}", number % 5), &pattern(size, number as u64));
    }
}

pub(super) fn serve(scene: &Scene, address: &str) -> Server {
    scene.directory("server");
    let words = ["--export", "data=server", "--allow-anonymous", "rw", "--quiet"];
    let server = Server::start(scene.command(["serve", "--json", "--listen", address]), &words);
    scene.trust(server.address(), &server);
    server
}

/// Names that are xdfs's own, at any depth.
pub(super) fn leftovers(top: &Path) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![top.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(".xdfs") || name.contains(".part") || name.contains(".journal") {
                found.push(entry.path().display().to_string());
            }
            if entry.path().is_dir() {
                open.push(entry.path());
            }
        }
    }
    found
}

/// Waits until nothing of xdfs is below `top`: a server removes what a client left behind the end of its session.
#[track_caller]
pub(super) fn is_clean(top: &Path) {
    until(|| leftovers(top), Vec::is_empty);
}

pub(super) fn signal_after(time: Duration, running: Running, signal: Signal, server: Option<&Server>) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::thread::yield_now();
    }
    match server {
        Some(server) => server.signal(signal),
        None if running.is_running() => running.signal(signal),
        None => {}
    }
    running.wait();
}

/// What ends a copy: a signal to the client, or to the server.
const ENDS: [(&str, Signal); 3] = [("client", Signal::KILL), ("client", Signal::TERM), ("server", Signal::KILL)];

/// Two trees, a server, and how long a whole copy takes.
fn begin(copy: &[&str]) -> (Scene, Server, Duration) {
    let scene = Scene::new();
    plant_large(&scene, "tree");
    plant_large(&scene, "server/source");
    let server = serve(&scene, LISTEN);
    let since = Instant::now();
    scene.run([copy, &["tree", &server.url("whole")]].concat()).ends_with(0);
    (scene, server, since.elapsed())
}

/// Runs `words`, ended at this moment in this way; the server that is there afterwards.
fn ended(scene: &Scene, server: Server, words: &[&str], moment: Duration, (way, signal): (&str, Signal)) -> Server {
    let of_server = (way == "server").then_some(&server);
    signal_after(moment, scene.start(words), signal, of_server);
    if way == "client" {
        return server;
    }
    let address = server.address().to_owned();
    drop(server);
    serve(scene, &address)
}

/// Both directions, each ended in every way at moments spread over a whole copy.
#[test]
fn the_same_command_goes_on_where_a_copy_was_ended_and_leaves_nothing() {
    let (scene, mut server, whole) = begin(&["cp", "-r"]);
    for round in 0..ROUNDS {
        let moment = whole * (round + 1) / (ROUNDS + 1);
        for end in ENDS {
            let name = format!("{}{}-{round}", end.0, end.1.as_raw());
            let (up, source, down) = (server.url(&name), server.url("source"), format!("down-{name}"));
            for words in [["cp", "-r", "--retry", "0", "tree", &up], ["cp", "-r", "--retry", "0", &source, &down]] {
                server = ended(&scene, server, &words, moment, end);
                // A copy that was whole, times included, before the signal came is done: once more it would go into
                // what is there.
                let copies = [("tree", format!("server/{name}")), ("server/source", down.clone())];
                let (from, to) = if words[4] == "tree" { &copies[0] } else { &copies[1] };
                if !differences(&scene.path(from), &scene.path(to), false).is_empty() {
                    scene.run(words).ends_with(0).is_silent();
                }
            }
            same(&scene, "tree", &format!("server/{name}"), false);
            same(&scene, "server/source", &down, false);
            is_clean(&scene.path(&down));
            is_clean(&scene.path("server"));
        }
    }
}

/// `sync --delete` removes what is not at the source, and what a killed one left is not.
#[test]
fn what_a_killed_sync_left_the_same_command_removes() {
    let (scene, mut server, whole) = begin(&["sync", "--delete"]);
    for round in 1..4 {
        for end in ENDS {
            let name = format!("{}{}-{round}", end.0, end.1.as_raw());
            let (up, source, down) = (server.url(&name), server.url("source"), format!("down-{name}"));
            let to = format!("server/{name}");
            for (source, target, original, copy) in
                [("tree", &up, "tree", &to), (&source, &down, "server/source", &down)]
            {
                scene.write(format!("{copy}/gone"), b"not at the source");
                let words = ["sync", "--delete", "--retry", "0", source, target];
                server = ended(&scene, server, &words, whole * round / 4, end);
                scene.run(words).ends_with(0).is_silent();
                same(&scene, original, copy, false);
            }
            is_clean(&scene.path(&down));
            is_clean(&scene.path("server"));
        }
    }
}

#[test]
fn where_it_cannot_be_recorded_that_a_copy_is_incomplete_that_is_said() {
    let scene = Scene::new();
    plant_large(&scene, "tree");
    let server = scene.serve();
    scene.directory("state/unfinished/in-the-way");
    scene.make_private("state");
    let relay = Relay::holding(&server, 1, 4 << 20);
    let url = relay.url("new");
    let copying = scene.start(["cp", "-r", "--state", "state", "tree", &url]);
    relay.wait_until_held();
    copying.signal(Signal::TERM);
    let outcome = copying.wait();
    assert_ne!(outcome.code, Some(0));
    outcome.says(&["continue with 'xdfs sync'", "not recorded", "unfinished"]);
    drop(relay);
    scene.run(["sync", "tree", &server.url("new")]).ends_with(0);
    same(&scene, "tree", "server/new", false);
}

/// Behind a copy that was whole cp's rule holds, and with a slash at the end it holds in any case.
#[test]
fn cp_s_rule_holds_behind_a_whole_copy_and_for_a_slash() {
    let scene = Scene::new();
    plant_large(&scene, "tree");
    let server = scene.serve();
    let relay = Relay::holding(&server, 1, 4 << 20);
    let copying = scene.start(["cp", "-r", "tree", &relay.url("new")]);
    relay.wait_until_held();
    copying.kill();
    relay.release();
    let noted = std::fs::read(scene.path("home-somebody/state/xdfs/unfinished"));
    assert!(noted.is_ok_and(|lines| !lines.is_empty()), "without the slash it would go on in 'new'");
    assert!(scene.path("server/new").is_dir());
    scene.run(["cp", "-r", "tree", &relay.url("new/")]).ends_with(0);
    same(&scene, "tree", "server/new/tree", false);
    let fresh = server.url("fresh");
    scene.run(["cp", "-r", "tree", &fresh]).ends_with(0);
    same(&scene, "tree", "server/fresh", false);
    scene.run(["cp", "-r", "tree", &fresh]).ends_with(0);
    same(&scene, "tree", "server/fresh/tree", false);
    scene.run(["cp", "-r", &fresh, "back"]).ends_with(0);
    scene.run(["cp", "-r", &fresh, "back"]).ends_with(0);
    same(&scene, "server/fresh", "back/fresh", false);
}
