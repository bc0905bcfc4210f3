//! A copy happens once: what was committed is not sent again when its outcome was lost, what somebody else put there meanwhile is
//! not replaced, and of two copies of one file to one place one ends.

use std::path::{Path, PathBuf};

use serde_json::Value;
use xdfs_test_cli::{Relay, Scene, exit, pattern, until};

const SIZE: usize = 24 << 20;
/// So much has passed when an attempt is held.
const PASSED: u64 = 12 << 20;
/// The head of the record in which a server says COMMITTED about a session's first operation: event, level, epoch, operation.
const COMMITTED: [u8; 8] = [23, 2, 0, 0, 0, 0, 0, 1];

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn moved(line: &Value) -> u64 {
    line["channel_bytes"].as_array().expect("a list").iter().map(number).sum()
}

/// Puts other content under `path` as another program does: a new file that takes the name.
fn replace(path: &Path, content: &[u8]) {
    let fresh = path.with_extension("fresh");
    std::fs::write(&fresh, content).expect("it can be written");
    std::fs::rename(fresh, path).expect("it can be renamed");
}

#[test]
fn a_copy_whose_outcome_was_lost_is_compared_and_not_sent_again() {
    // Also where it is short, or nothing at all, and where the name had to be a new one.
    for (size, new) in [(SIZE, false), (300_000, false), (300_000, true), (1, true), (0, false)] {
        let scene = Scene::new();
        let server = scene.serve();
        let content = pattern(size, 1);
        scene.write("source", &content);
        scene.directory("server");
        if !new {
            scene.write("server/file", b"old");
        }
        let relay = Relay::losing(&server, &COMMITTED, || ());
        let url = relay.url("file");
        let words = ["cp", "--json", "-P", "1", "source", &url, "-n"];
        let outcome = scene.run(if new { &words[..] } else { &words[..6] });
        outcome.ends_with(0).says(&["trying again"]);
        let line = &outcome.objects()[0];
        assert_eq!((number(&line["retries"]), number(&line["resumed_bytes"])), (1, size as u64), "{line}");
        assert_eq!(moved(line), 0, "it is sent again: {line}");
        assert_eq!(line["hash"], blake3::hash(&content).to_hex().to_string());
        assert_eq!(line["durability"], scene_promise(&scene));
        assert!(scene.read("server/file") == content);
        assert_eq!(scene.names("server"), ["file"]);
    }
}

/// What the scene's file system can promise.
fn scene_promise(scene: &Scene) -> &'static str {
    let status = std::process::Command::new("stat").args(["-f", "-c", "%T"]).arg(scene.path("")).output();
    let memory = status.is_ok_and(|output| output.stdout.starts_with(b"tmpfs"));
    if memory { "written" } else { "durable" }
}

#[test]
fn what_somebody_put_there_since_is_not_replaced_although_the_outcome_was_lost() {
    // Also where it looks like the copy: the same length and time, other bytes.
    for alike in [false, true] {
        let scene = Scene::new();
        let server = scene.serve();
        scene.write("source", &pattern(SIZE, 2));
        let (target, other) = (scene.path("server/file"), if alike { pattern(SIZE, 3) } else { b"newer".to_vec() });
        let (there, newer): (PathBuf, _) = (target.clone(), other.clone());
        let relay = Relay::losing(&server, &COMMITTED, move || {
            let modified = std::fs::metadata(&there).and_then(|metadata| metadata.modified()).expect("it is there");
            replace(&there, &newer);
            if alike {
                let file = std::fs::File::options().write(true).open(&there).expect("it is ours");
                file.set_modified(modified).expect("it is ours");
            }
        });
        let outcome = scene.run(["cp", "-P", "1", "source", &relay.url("file")]);
        outcome.ends_with(exit::CHANGED).says(&["somebody else replaced", "copy it again"]);
        assert!(scene.read("server/file") == other, "alike {alike}");
        assert_eq!(scene.names("server"), ["file"]);
    }
}

#[test]
fn a_copy_that_goes_on_replaces_what_it_found_and_nothing_newer() {
    for upload in [true, false] {
        for newer in [false, true] {
            let scene = Scene::new();
            let server = scene.serve();
            let content = pattern(SIZE, 4);
            let target = if upload { "server/file" } else { "into/file" };
            scene.write(if upload { "source" } else { "server/file" }, &content);
            scene.write(target, b"old");
            let relay = Relay::holding(&server, 1, PASSED);
            let url = relay.url("file");
            let words = if upload { ["source", &url] } else { [&url, "into/file"] };
            let running = scene.start([&["cp", "-P", "1"], &words[..]].concat());
            relay.wait_until_held();
            if newer {
                replace(&scene.path(target), b"newer");
            }
            relay.cut(0);
            relay.release();
            let outcome = running.wait();
            if newer {
                outcome.ends_with(exit::CHANGED).says(&["somebody else replaced"]);
                assert_eq!(scene.read(target), b"newer");
                // Who asks for it anew means it, and what has arrived is not sent again.
                let url = server.url("file");
                let words = if upload { ["source", &url] } else { [&url, "into/file"] };
                let again = scene.run([&["cp", "--json"], &words[..]].concat());
                again.ends_with(0);
                assert!(number(&again.objects()[0]["resumed_bytes"]) > 0, "upload {upload}");
            } else {
                outcome.ends_with(0);
            }
            assert!(scene.read(target) == content, "upload {upload}, newer {newer}");
        }
    }
}

#[test]
fn of_two_copies_of_one_file_to_one_place_the_later_goes_on_and_the_earlier_ends() {
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(SIZE, 5);
    scene.write("source", &content);
    for round in 0..4 {
        let url = server.url("file");
        let both = [0, 1].map(|_| scene.start(["cp", "--json", "source", &url]));
        let both = both.map(xdfs_test_cli::Running::wait);
        for outcome in &both {
            if outcome.code != Some(0) {
                outcome.ends_with(exit::CHANGED).says(&["another session took this transfer over"]);
                assert!(!outcome.messages.contains("trying again"), "{}", outcome.messages);
            }
        }
        assert!(both.iter().any(|outcome| outcome.code == Some(0)), "round {round}: {both:?}");
        assert!(scene.read("server/file") == content);
        // The server answers first, and removes then.
        until(|| scene.names("server"), |names| *names == ["file"]);
    }
}

#[test]
fn two_downloads_to_one_place_do_not_meet_and_the_later_is_told_at_once() {
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(SIZE, 6);
    scene.write("server/file", &content);
    scene.directory("into");
    let relay = Relay::holding(&server, 1, PASSED);
    let earlier = scene.start(["cp", "-P", "1", &relay.url("file"), "into/file"]);
    relay.wait_until_held();
    scene
        .run(["cp", &server.url("file"), "into/file"])
        .ends_with(exit::BUSY)
        .says(&["another transfer", "try again later"]);
    relay.release();
    earlier.wait().ends_with(0);
    assert!(scene.read("into/file") == content);
}
