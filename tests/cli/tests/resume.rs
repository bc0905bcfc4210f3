//! Transfers that end early and go on: what an attempt left is not sent again, and the file is the file.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use xdfs_test_cli::{Outcome, Relay, Scene, Server, exit, pattern, until};

const SIZE: usize = 48 << 20;
/// So much has passed when an attempt is ended; less what is under way then, of which every block may be lost. Twice the rest is
/// less than all.
const PASSED: u64 = 32 << 20;
const KEPT_AT_LEAST: u64 = 4 << 20;

/// Waits until the part file in `folder` has a journal: from then on something is kept whatever happens.
#[track_caller]
fn wait_for_journal(scene: &Scene, folder: &str) {
    until(|| scene.names(folder), |names| names.iter().any(|name| name.ends_with(".journal")));
}

/// The scene's server again, where the last one was.
fn serve_at(scene: &Scene, address: &str) -> Server {
    Server::start(
        scene.command(["serve", "--json", "--listen", address]),
        &["--quiet", "--export", "data=server", "--allow-anonymous", "rw"],
    )
}

/// Waits until a part file in `folder` holds something, or the file is there.
#[track_caller]
fn wait_for_part(scene: &Scene, folder: &str) {
    let holds = |name: &String| name.ends_with(".part") || name == "up" || name == "back";
    until(|| scene.names(folder), |names| names.iter().any(holds));
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// The line of a transfer that went on: it moved what was missing and nothing else.
#[track_caller]
fn went_on(outcome: &Outcome, size: usize) -> Value {
    outcome.ends_with(0).says(&["resumes at", " %"]);
    let line = outcome.objects().remove(0);
    let resumed = number(&line["resumed_bytes"]);
    assert!(resumed >= KEPT_AT_LEAST, "{line}");
    let channels = line["channel_bytes"].as_array().expect("a list");
    let (moved, missing) = (channels.iter().map(number).sum::<u64>(), size as u64 - resumed);
    // Where there is another channel each block may go twice because its acknowledgement is late, as on a busy machine.
    let most = missing * if channels.len() == 1 { 1 } else { 2 };
    assert!((missing..=most).contains(&moved), "{line}");
    line
}

/// An upload of `source` that has sent enough and waits; the relay that holds it.
fn held_upload(scene: &Scene, server: &Server, options: &[&str]) -> (xdfs_test_cli::Running, Relay) {
    let relay = Relay::holding(server, 1, PASSED);
    let url = relay.url("file");
    let mut words = vec!["cp", "-P", "1", "source", &url];
    words.extend(options);
    let running = scene.start(words);
    relay.wait_until_held();
    (running, relay)
}

#[test]
fn an_upload_whose_client_was_killed_goes_on_with_other_channels_and_blocks() {
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(SIZE, 1);
    scene.write("source", &content);
    scene.write("server/file", b"old");
    let (running, relay) = held_upload(&scene, &server, &["-b", "256KiB"]);
    running.signal(Signal::KILL);
    running.wait();
    drop(relay);
    wait_for_journal(&scene, "server");
    assert_eq!(scene.read("server/file"), b"old", "the old file stays until the new one is whole");
    let again = scene.run(["cp", "--json", "-P", "3", "-b", "1MiB", "source", &server.url("file")]);
    went_on(&again, SIZE);
    assert!(scene.read("server/file") == content);
    // What is left of the part goes behind the answers.
    until(|| scene.names("server"), |names| *names == ["file"]);
}

#[test]
fn an_upload_whose_server_was_killed_goes_on_with_the_next_server() {
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(SIZE, 2);
    scene.write("source", &content);
    let (running, relay) = held_upload(&scene, &server, &[]);
    wait_for_journal(&scene, "server");
    server.kill();
    drop(relay);
    running.signal(Signal::KILL);
    running.wait();
    let server = scene.serve();
    went_on(&scene.run(["cp", "--json", "-P", "1", "source", &server.url("file")]), SIZE);
    assert!(scene.read("server/file") == content);
    assert_eq!(scene.names("server"), ["file"]);
}

#[test]
fn a_download_goes_on_after_a_lost_connection_and_after_a_kill() {
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(SIZE, 3);
    scene.write("server/file", &content);
    for kill in [false, true] {
        let into = scene.directory(format!("into-{kill}"));
        let target = into.join("file").to_string_lossy().into_owned();
        let relay = Relay::holding(&server, 1, PASSED);
        let running = scene.start(["cp", "-P", "1", "--retry", "0", &relay.url("file"), &target]);
        relay.wait_until_held();
        if kill {
            wait_for_journal(&scene, "into-true");
            running.signal(Signal::KILL);
        }
        drop(relay);
        assert_ne!(running.wait().code, Some(0));
        wait_for_journal(&scene, &format!("into-{kill}"));
        let channels = if kill { "1" } else { "2" };
        went_on(&scene.run(["cp", "--json", "-P", channels, "-b", "64KiB", &server.url("file"), &target]), SIZE);
        assert!(scene.read(format!("into-{kill}/file")) == content);
        assert_eq!(scene.names(format!("into-{kill}")), ["file"]);
    }
}

#[test]
fn a_source_that_changed_is_sent_from_its_beginning() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("source", &pattern(SIZE, 4));
    scene.write("server/back", &pattern(SIZE, 5));
    let (running, relay) = held_upload(&scene, &server, &[]);
    running.signal(Signal::KILL);
    running.wait();
    drop(relay);
    wait_for_journal(&scene, "server");
    // Same size, other bytes, and so another version.
    let content = pattern(SIZE, 6);
    scene.write("source", &content);
    let again = scene.run(["cp", "--json", "source", &server.url("file")]);
    again.ends_with(0);
    assert_eq!(again.objects()[0]["resumed_bytes"], 0);
    assert!(scene.read("server/file") == content);
}

#[test]
fn without_resume_nothing_is_left_and_nothing_is_gone_on_with() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("source", &pattern(SIZE, 7));
    let (running, relay) = held_upload(&scene, &server, &["--no-resume"]);
    running.signal(Signal::KILL);
    running.wait();
    drop(relay);
    until(|| scene.names("server"), Vec::is_empty);
    let (running, relay) = held_upload(&scene, &server, &[]);
    running.signal(Signal::KILL);
    running.wait();
    drop(relay);
    wait_for_journal(&scene, "server");
    let again = scene.run(["cp", "--json", "--no-resume", "source", &server.url("file")]);
    again.ends_with(0);
    assert_eq!(again.objects()[0]["resumed_bytes"], 0);
}

#[test]
fn what_a_killed_server_had_of_an_upload_without_resume_is_gone_with_the_next_one() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("source", &pattern(SIZE, 13));
    scene.write("server/file", b"old");
    let (running, relay) = held_upload(&scene, &server, &["--no-resume", "--retry", "0"]);
    server.kill();
    drop(relay);
    running.wait().ends_with(exit::CONNECTION_LOST);
    let server = scene.serve();
    until(|| scene.names("server"), |names| *names == ["file"]);
    assert_eq!(scene.read("server/file"), b"old");
    let again = scene.run(["cp", "--json", "--no-resume", "source", &server.url("file")]);
    assert_eq!(again.ends_with(0).objects()[0]["resumed_bytes"], 0);
    assert_eq!(scene.names("server"), ["file"]);
}

/// Without the key of its journals, or with that of another state, a server believes none of them: it compares. What is as it was
/// sent is kept, and what is not is sent again.
#[test]
fn what_was_written_under_another_key_is_compared_and_neither_trusted_nor_lost() {
    let scene = Scene::new();
    let content = pattern(SIZE, 14);
    scene.write("source", &content);
    let key = scene.path("home-somebody/state/xdfs/journal_key");
    for (case, altered) in [("gone", false), ("other", false), ("other", true)] {
        let server = scene.serve();
        let (running, relay) = held_upload(&scene, &server, &[]);
        wait_for_journal(&scene, "server");
        running.signal(Signal::KILL);
        running.wait();
        drop(relay);
        server.kill();
        let old = std::fs::read(&key).expect("the state folder has the key");
        match case {
            "gone" => std::fs::remove_file(&key).expect("it is there"),
            _ => std::fs::write(&key, old.iter().map(|byte| byte ^ 1).collect::<Vec<u8>>()).expect("it can be written"),
        }
        if altered {
            let staged = scene.names("server").into_iter().find(|name| name.ends_with(".part")).expect("a part");
            let part = std::fs::OpenOptions::new().write(true).open(scene.path(format!("server/{staged}")));
            part.expect("it is there").write_all_at(b"other bytes", 1 << 20).expect("it can be written");
        }
        let server = scene.serve();
        let outcome = scene.run(["cp", "--json", "source", &server.url("file")]);
        let line = outcome.ends_with(0).objects().remove(0);
        assert!(scene.read("server/file") == content, "{case}");
        assert!(number(&line["resumed_bytes"]) >= KEPT_AT_LEAST / 2, "{case}: {line}");
        std::fs::remove_file(scene.path("server/file")).expect("it is there");
    }
}

#[test]
fn a_download_without_resume_leaves_nothing_whoever_was_killed() {
    let scene = Scene::new();
    let content = pattern(SIZE, 12);
    scene.write("server/file", &content);
    scene.write("server/other", b"other");
    for same_again in [true, false] {
        for server_killed in [false, true] {
            let server = scene.serve();
            let into = format!("into-{same_again}-{server_killed}");
            scene.write(format!("{into}/file"), b"old");
            let target = format!("{into}/file");
            let relay = Relay::holding(&server, 1, PASSED);
            let words =
                ["cp", "-P", "1", "--retry", "0", "--no-resume", &relay.url("file"), &target].map(str::to_owned);
            let running = scene.start(&words);
            relay.wait_until_held();
            assert_eq!(scene.names(&into).len(), 2, "it is under way: {:?}", scene.names(&into));
            let server = if server_killed {
                server.kill();
                drop(relay);
                running.wait().ends_with(exit::CONNECTION_LOST);
                assert_eq!(scene.names(&into), ["file"], "the client that lives has removed its own");
                scene.serve()
            } else {
                running.signal(Signal::KILL);
                running.wait();
                drop(relay);
                server
            };
            assert_eq!(scene.read(&target), b"old");
            // The next command to that directory, be it the same or another one, removes what a killed one left.
            let mut kept = vec!["file"];
            let again = if same_again {
                scene.run(["cp", "--json", "--no-resume", &server.url("file"), &target])
            } else {
                kept.push("other");
                scene.run(["cp", "--json", &server.url("other"), &format!("{into}/other")])
            };
            again.ends_with(exit::DONE);
            let line = again.objects().pop().expect("a line");
            assert_eq!(line["resumed_bytes"], 0, "{line}");
            assert_eq!(scene.names(&into), kept);
            assert!(scene.read(&target) == if same_again { &content[..] } else { b"old" });
        }
    }
}

#[test]
fn one_command_survives_servers_that_are_killed_and_restarted() {
    let scene = Scene::new();
    let server = scene.serve();
    // Nobody else gets this port in between: it is asked for again at once.
    let (address, up, down) = (server.address().to_owned(), server.url("up"), server.url("down"));
    server.stop();
    let content = pattern(4 * SIZE, 9);
    scene.write("source", &content);
    scene.write("server/down", &content);
    for (from, to) in [("source".to_owned(), up), (down, "back".to_owned())] {
        let mut server = serve_at(&scene, &address);
        let running = scene.start(["cp", "--json", "-P", "2", "-b", "64KiB", &from, &to]);
        for _ in 0..3 {
            wait_for_part(&scene, if to == "back" { "" } else { "server" });
            server.kill();
            server = serve_at(&scene, &address);
        }
        let outcome = running.wait();
        outcome.ends_with(0);
        assert!(outcome.objects()[0]["ok"].as_bool().unwrap());
        assert!(scene.read(if to == "back" { "back" } else { "server/up" }) == content);
    }
}

#[test]
fn a_server_that_stays_away_is_given_up_and_it_is_said_what_to_do() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("source", &pattern(SIZE, 10));
    let relay = Relay::holding(&server, 1, PASSED);
    let running = scene.start(["cp", "-P", "1", "--retry", "1", "source", &relay.url("file")]);
    relay.wait_until_held();
    server.kill();
    drop(relay);
    running.wait().ends_with(exit::CONNECTION_LOST).says(&[
        "trying again",
        "times more",
        "xdfs serve",
        "help: run the same command to continue; what was safe on disk by then is not sent again",
    ]);
}

#[test]
fn a_server_counts_what_was_left_and_removes_what_nobody_came_for() {
    let scene = Scene::new();
    let server = scene.serve();
    assert_eq!(server.next_line()["parts"], 0);
    scene.write("source", &pattern(SIZE, 11));
    let (running, relay) = held_upload(&scene, &server, &[]);
    running.signal(Signal::KILL);
    running.wait();
    drop(relay);
    wait_for_journal(&scene, "server");
    server.stop();
    // Below another directory, left eight days ago by somebody who never came back; and what only looks alike.
    let hex = "00112233445566778899aabbccddeeff";
    let old = std::time::SystemTime::now() - Duration::from_secs(8 * 24 * 3600);
    let stem = format!("a/b/.xdfs-staging/{}-{hex}", &hex[16..]);
    for name in [format!("{stem}.part"), format!("{stem}.journal"), format!("a/.x.{hex}.part")] {
        let path = scene.write(format!("server/{name}"), b"?");
        scene.make_private("server/a/b/.xdfs-staging");
        std::fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }
    let server = scene.serve();
    let line = server.next_line();
    assert_eq!(
        (&line["event"], &line["parts"], &line["expired"]),
        (&"recovered".into(), &1.into(), &1.into()),
        "{line}"
    );
    assert!(line["bytes"].as_u64().unwrap() >= KEPT_AT_LEAST, "{line}");
    assert_eq!(scene.names("server/a/b"), Vec::<String>::new());
    assert_eq!(scene.names("server/a"), [format!(".x.{hex}.part"), "b".to_owned()], "a name like any other");
    went_on(&scene.run(["cp", "--json", "-P", "1", "source", &server.url("file")]), SIZE);
}

#[test]
fn a_download_removes_what_nobody_came_for_where_it_goes_and_only_there() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", b"content");
    let hex = "00112233445566778899aabbccddeeff";
    let old = std::time::SystemTime::now() - Duration::from_secs(8 * 24 * 3600);
    let age = |name: String, modified| {
        let path = scene.write(name, b"?");
        std::fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
    };
    let staged = |kind: &str, digit: char| format!(".xdfs-staging/{digit}{}-{hex}.{kind}", &hex[17..]);
    let beside = [format!(".x.{hex}.part"), format!(".x.{hex}.journal"), "x.part".to_owned()];
    for folder in ["into", "into/below"] {
        beside.iter().for_each(|name| age(format!("{folder}/{name}"), old));
        age(format!("{folder}/{}", staged("part", '1')), old);
        age(format!("{folder}/{}", staged("journal", '1')), old);
        age(format!("{folder}/{}", staged("part", '2')), std::time::SystemTime::now());
        scene.make_private(&format!("{folder}/.xdfs-staging"));
    }
    // Somebody writes it, however long ago that began.
    let written = staged("part", '3');
    age(format!("into/{written}"), old);
    let held = std::fs::File::open(scene.path(format!("into/{written}"))).unwrap();
    held.lock().unwrap();
    let outcome = scene.run(["cp", "--json", &server.url("file"), "into"]);
    outcome.ends_with(0).says(&["into", "removed 1 part file that", "seven days"]);
    assert_eq!((&outcome.objects()[0]["event"], &outcome.objects()[0]["expired"]), (&"recovered".into(), &1.into()));
    // What nobody can go on with is removed, however young.
    let mut kept = [written.as_str(), "below", "file", &beside[0], &beside[1], &beside[2]];
    kept.sort_unstable();
    assert_eq!(scene.names("into"), kept);
    assert_eq!(scene.names("into/below").len(), 6, "what lies below is not looked at");
    scene.run(["cp", "--json", &server.url("file"), "into/again"]).ends_with(0).is_silent();
}

#[test]
fn whoever_is_taken_over_hears_it_and_harms_nothing() {
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(SIZE, 8);
    scene.write("source", &content);
    let (older, relay) = held_upload(&scene, &server, &[]);
    went_on(&scene.run(["cp", "--json", "-P", "1", "source", &server.url("file")]), SIZE);
    relay.release();
    older.wait().ends_with(exit::CHANGED).says(&["another session took this transfer over"]);
    assert!(scene.read("server/file") == content);
    // The server answers first, and removes then.
    until(|| scene.names("server"), |names| *names == ["file"]);
}
