//! A reload for which another process has to take over: whoever is served is served on, and held to what the file says.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use xdfs_test_cli::{Scene, Server, pattern, wait_until, xdfs_binary};

use super::{AUDIT, PATIENCE, event, events, export, held_copy, reload, reloads, scene, serve};

/// Small files, far more than may be on their way at a time: most of them are asked for after the reload.
const MANY: usize = 3000;

/// The process that waits to take over from this one.
fn child_of(process: Pid) -> Option<Pid> {
    let path = format!("/proc/{0}/task/{0}/children", process.as_raw_nonzero());
    let children = std::fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().next().and_then(|child| Pid::from_raw(child.parse().ok()?))
}

#[test]
fn a_new_export_is_served_by_a_new_process_and_a_running_transfer_goes_on() {
    let scene = scene();
    let one = format!("{AUDIT}{}", export("files", "a", ""));
    let server = serve(&scene, &one);
    let successor = child_of(server.process()).expect("a process waits to take over");

    // A transfer that lasts until its input ends.
    let mut sending = scene.command(["cp", "--quiet", "-", &server.url_in("files", "slow")]);
    let mut sending = sending.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = sending.stdin.take().unwrap();
    let bytes = pattern(3 << 20, 2);
    input.write_all(&bytes[..2 << 20]).unwrap();
    event(&scene, "the session", |event| event["event"] == "session_opened");

    reload(&scene, &server, &format!("{one}{}", export("more", "b", "")), "ok");
    event(&scene, "the hand-over", |event| event["event"] == "handed_over");
    scene.write("file", b"content");
    scene.run(["cp", "file", &server.url_in("more", "new")]).ends_with(0);
    assert_eq!(scene.read("b/new"), b"content");

    input.write_all(&bytes[2 << 20..]).unwrap();
    drop(input);
    assert!(sending.wait().unwrap().success(), "the transfer that was running");
    assert!(scene.read("a/slow") == bytes);
    let (address, host_key) = (server.address().to_owned(), server.host_key().to_owned());
    assert_eq!(server.wait(), Some(0), "the old process ends with its last session");
    scene.run(["cp", "file", &format!("xdfs://{address}/files/again#{host_key}")]).ends_with(0);
    kill_process(successor, Signal::TERM).unwrap();
    event(&scene, "the end", |event| event["event"] == "draining");
}

#[test]
fn what_a_hand_over_takes_away_is_taken_from_the_sessions_of_the_old_process_too() {
    let scene = scene();
    let one = format!("{AUDIT}{}", export("files", "a", ""));
    let server = serve(&scene, &one);
    let successor = child_of(server.process()).expect("a process waits to take over");
    let (sending, relay) = held_copy(&scene, &server, (MANY, 10 << 10), &[]);
    let fixed = one.replace("anonymous = \"rw\"", "anonymous = \"ro\"");
    reload(&scene, &server, &format!("{fixed}{}", export("more", "b", "")), "ok");
    event(&scene, "the hand-over", |event| event["event"] == "handed_over");
    relay.release();
    let outcome = sending.wait();
    assert_ne!(outcome.code, Some(0), "what began before went on, and no more");
    assert!(scene.names("a/tree").len() < MANY);
    assert_eq!(server.wait(), Some(0));
    kill_process(successor, Signal::TERM).unwrap();
    event(&scene, "the end", |event| event["event"] == "draining");
}

/// The process that has taken over reads the configuration again, and the sessions of the one before are held to it.
#[test]
fn what_is_withdrawn_after_a_hand_over_is_withdrawn_from_the_sessions_that_stayed() {
    let scene = scene();
    let one = format!("{AUDIT}{}", export("files", "a", ""));
    let server = serve(&scene, &one);
    let successor = child_of(server.process()).expect("a process waits to take over");
    let (sending, relay) = held_copy(&scene, &server, (MANY, 10 << 10), &[]);
    let more = export("more", "b", "");
    reload(&scene, &server, &format!("{one}{more}"), "ok");
    event(&scene, "the hand-over", |event| event["event"] == "handed_over");
    // Once for each of the two processes.
    reload_at(&scene, successor, &format!("{}{more}", one.replace("\"rw\"", "\"none\"")), 2);
    relay.release();
    sending.wait().fails();
    assert!(scene.names("a/tree").len() < MANY, "what began before went on, and no more");
    assert_eq!(server.wait(), Some(0));
    kill_process(successor, Signal::TERM).unwrap();
    event(&scene, "the end", |event| event["event"] == "draining");
}

/// Whether a process has ended, be it that nobody has asked how.
fn has_ended(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}

/// A transfer to the export `files` that lasts until its input ends, and has begun.
fn endless_copy(scene: &Scene, server: &Server, name: &str) -> Child {
    let begun = || scene.names("a").iter().filter(|name| name.starts_with(".xdfs-staging/")).count();
    let before = begun();
    let mut copy = scene.command(["cp", "--quiet", "--retry", "0", "-", &server.url_in("files", name)]);
    let mut copy = copy.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    copy.stdin.as_mut().expect("a pipe").write_all(b"begun, ").expect("it reads");
    wait_until("it has a part", || begun() > before);
    copy
}

/// Its input ends, and it is whole.
#[track_caller]
fn ends_whole(scene: &Scene, mut copy: Child, name: &str) {
    copy.stdin.take().expect("a pipe").write_all(b"ended").expect("it reads");
    assert!(copy.wait().expect("it ends").success(), "it began before");
    assert_eq!(scene.read(format!("a/{name}")), b"begun, ended");
}

/// Has the process that serves read the file again; so many processes say that they have.
#[track_caller]
fn reload_at(scene: &Scene, process: Pid, config: &str, processes: usize) {
    let before = reloads(scene, "ok");
    scene.write("server.toml", config.as_bytes());
    kill_process(process, Signal::HUP).expect("it serves");
    wait_until("all read it again", || reloads(scene, "ok") == before + processes);
}

/// How many processes end their sessions.
fn draining(scene: &Scene) -> usize {
    events(scene).iter().filter(|event| event["event"] == "draining").count()
}

/// The process in between has no sessions and ends at once: whoever handed over to it follows the one behind it.
#[test]
fn a_transfer_goes_on_over_two_hand_overs_and_is_held_to_the_last_reload() {
    let scene = scene();
    scene.directory("c");
    let one = format!("{AUDIT}{}", export("files", "a", ""));
    let server = serve(&scene, &one);
    let second = child_of(server.process()).expect("a process waits to take over");
    let slow = endless_copy(&scene, &server, "slow");
    let (sending, relay) = held_copy(&scene, &server, (MANY, 10 << 10), &[]);
    let two = format!("{one}{}", export("more", "b", ""));
    reload_at(&scene, server.process(), &two, 1);
    event(&scene, "the hand-over", |event| event["event"] == "handed_over");
    let third = child_of(second).expect("a process waits to take over from that");
    // Once for the one that hands over, and once for the first.
    let three = format!("{two}{}", export("most", "c", ""));
    reload_at(&scene, second, &three, 2);
    wait_until("it has no sessions", || has_ended(second));
    reload_at(&scene, third, &three.replace("\"rw\"", "\"none\""), 2);
    assert_eq!(draining(&scene), 0, "they know what is withdrawn");
    relay.release();
    sending.wait().fails();
    assert!(scene.names("a/tree").len() < MANY, "what began before went on, and no more");
    ends_whole(&scene, slow, "slow");
    assert_eq!(server.wait(), Some(0));
    kill_process(third, Signal::TERM).unwrap();
    event(&scene, "the end", |event| event["event"] == "draining");
}

/// Whoever has handed over to a process that has handed over itself does not depend on that any more.
#[test]
fn sessions_that_stayed_over_two_hand_overs_are_ended_behind_the_last_process() {
    let scene = scene();
    scene.directory("c");
    let one = format!("{AUDIT}{}", export("files", "a", ""));
    let server = serve(&scene, &one);
    let second = child_of(server.process()).expect("a process waits to take over");
    let first_copy = endless_copy(&scene, &server, "first");
    let two = format!("{one}{}", export("more", "b", ""));
    reload_at(&scene, server.process(), &two, 1);
    event(&scene, "the hand-over", |event| event["event"] == "handed_over");
    let third = child_of(second).expect("a process waits to take over from that");
    let second_copy = endless_copy(&scene, &server, "second");
    reload_at(&scene, second, &format!("{two}{}", export("most", "c", "")), 2);
    kill_process(third, Signal::KILL).unwrap();
    wait_until("both end their sessions", || draining(&scene) == 2);
    ends_whole(&scene, second_copy, "second");
    ends_whole(&scene, first_copy, "first");
    assert_eq!(server.wait(), Some(0));
}

/// Nobody would tell a process that has handed over what is withdrawn, once the one that took over is gone.
#[test]
fn sessions_that_stayed_are_ended_behind_the_process_that_took_over() {
    let scene = scene();
    let one = format!("[limits]\ndrain-seconds = 1\n{AUDIT}{}", export("files", "a", ""));
    let server = serve(&scene, &one);
    let successor = child_of(server.process()).expect("a process waits to take over");
    let mut sending = endless_copy(&scene, &server, "slow");
    reload(&scene, &server, &format!("{one}{}", export("more", "b", "")), "ok");
    event(&scene, "the hand-over", |event| event["event"] == "handed_over");
    kill_process(successor, Signal::KILL).unwrap();
    assert_eq!(server.wait(), Some(0));
    assert!(!sending.wait().unwrap().success(), "its server is gone");
}

/// Another program copies it: nobody executes a file that is open for writing, and what another test starts has the
/// descriptors of this process for a moment.
fn copy_of_program(to: &Path) {
    assert!(Command::new("cp").arg(xdfs_binary()).arg(to).status().expect("cp is there").success());
}

#[test]
fn a_server_whose_program_was_replaced_hands_over_as_before() {
    let scene = scene();
    let (one, two, three) = (export("one", "a", ""), export("two", "b", ""), export("three", "c", ""));
    scene.directory("c");
    scene.write("server.toml", format!("{AUDIT}{one}").as_bytes());
    let program = scene.path("program");
    copy_of_program(&program);
    let mut command = Command::new(&program);
    command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--config", "server.toml"]);
    command.current_dir(scene.path("."));
    scene.dress("somebody", &mut command);
    let server = Server::start(command, &[]);
    // As a package manager does it.
    copy_of_program(&scene.path("new"));
    std::fs::rename(scene.path("new"), &program).expect("our own file");
    // The process that takes over starts another one, which the next reload needs.
    let first = child_of(server.process()).expect("a process waits to take over");
    reload(&scene, &server, &format!("{AUDIT}{one}{two}"), "ok");
    let second = child_of(first).expect("another process waits to take over");
    scene.write("server.toml", format!("{AUDIT}{one}{two}{three}").as_bytes());
    kill_process(first, Signal::HUP).expect("it serves");
    let until = Instant::now() + PATIENCE;
    while reloads(&scene, "ok") < 2 {
        assert!(Instant::now() < until && reloads(&scene, "failed") == 0, "{:#?}", events(&scene));
        std::thread::yield_now();
    }
    let url = server.url_in("three", "");
    assert_eq!(server.wait(), Some(0));
    scene.run(["ls", &url]).ends_with(0);
    kill_process(second, Signal::TERM).expect("it serves");
    event(&scene, "the end", |event| event["event"] == "draining");
}

#[test]
fn where_no_process_waits_to_take_over_any_more_the_server_goes_on_and_says_what_to_do() {
    let scene = scene();
    let one = format!("{AUDIT}{}", export("files", "a", ""));
    let server = serve(&scene, &one);
    let waiting = child_of(server.process()).expect("a process waits to take over");
    kill_process(waiting, Signal::KILL).expect("it is there");
    for _ in 0..2 {
        reload(&scene, &server, &format!("{one}{}", export("more", "b", "")), "failed");
        let told = events(&scene).into_iter().rfind(|event| event["event"] == "reloaded").expect("it was judged");
        assert!(told["error"].as_str().is_some_and(|error| error.contains("restart the server")), "{told}");
    }
    scene.run(["ls", &server.url_in("files", "")]).ends_with(0);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn no_process_takes_over_with_another_host_key_and_other_users() {
    let scene = scene();
    let one = format!("{AUDIT}{}", export("files", "a", ""));
    let server = serve(&scene, &one);
    reload(&scene, &server, &format!("state = \"other\"\n{one}{}", export("more", "b", "")), "failed");
    let told = events(&scene).into_iter().rfind(|event| event["event"] == "reloaded").expect("it was judged");
    assert!(told["error"].as_str().is_some_and(|error| error.contains("the state folder is another one")), "{told}");
    scene.run(["ls", &server.url_in("files", "")]).ends_with(0);
    assert_eq!(server.stop(), Some(0));
}
