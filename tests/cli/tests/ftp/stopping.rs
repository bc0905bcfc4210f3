//! Ctrl-C while a server says nothing: the command ends at once, and no name is taken.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xdfs_test_cli::Scene;

use super::PATIENCE;
use super::scripted::{Answer, Say, Scripted};

/// The limit of a wait for a server is a minute; a stop is noticed in tenths of a second, but the
/// machine and its disk may be busy.
const AT_ONCE: Duration = Duration::from_secs(20);

/// Starts a copy, presses Ctrl-C when `is_waiting`, and checks how it ended.
#[track_caller]
fn stops(scene: &Scene, words: &[&str], is_waiting: impl Fn() -> bool) {
    let copy = scene.start(words);
    let until = Instant::now() + PATIENCE;
    while !is_waiting() {
        assert!(Instant::now() < until, "{words:?}: it never waits");
        std::thread::yield_now();
    }
    let began = Instant::now();
    copy.signal(Signal::INT);
    copy.wait().ends_with(130).says(&["cancelled"]);
    assert!(began.elapsed() < AT_ONCE, "{words:?}: {:?}", began.elapsed());
}

#[test]
fn a_server_that_does_not_greet_is_left_at_once() {
    let scene = Scene::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ftp://{}//f", listener.local_addr().unwrap());
    for words in [["cp", &url, "f"], ["sync", &url, "f"]] {
        let accepted = std::sync::OnceLock::new();
        stops(&scene, &words, || accepted.set(listener.accept().unwrap()).is_ok());
    }
    assert!(!scene.path("f").exists());
}

#[test]
fn a_server_that_falls_silent_is_left_at_once() {
    fn facts(line: &str) -> Option<Say> {
        match line {
            "MLST /f" => Some(Say::Reply("250-x\r\n type=file;size=3000000;modify=20200102030405; /f\r\n250 end")),
            "MLST /d" | "MLST /" => Some(Say::Reply("250-x\r\n type=dir; /d\r\n250 end")),
            "MLST /d/g" => Some(Say::Reply("250-x\r\n type=file;size=3000000; /d/g\r\n250 end")),
            _ if line.starts_with("MLST ") => Some(Say::Reply("550 no")),
            _ => None,
        }
    }
    let at_facts: Answer = |line| line.starts_with("MLST").then_some(Say::Nothing);
    let at_data: Answer = |line| match line {
        "RETR /f" | "RETR /d/g" => Some(Say::Half(b"some of it".to_vec())),
        "MLSD /d" => Some(Say::Send(b"type=file;size=3000000; g\r\n".to_vec())),
        _ => facts(line),
    };
    let at_listing: Answer = |line| match line {
        "MLSD /d" => Some(Say::Half(b"type=file;size=5; a\r\ntype=fi".to_vec())),
        _ => facts(line),
    };
    let at_upload: Answer = |line| match line {
        _ if line.starts_with("STOR ") => Some(Say::Half(Vec::new())),
        _ => facts(line),
    };
    let scene = Scene::new();
    scene.write("mine", &[7; 20_000_000]);
    scene.write("tree/mine", &[7; 20_000_000]);
    for (answer, last, words) in [
        (at_facts, "MLST", ["cp", "//f", "f"]),
        (at_data, "RETR /f", ["cp", "//f", "f"]),
        (at_upload, "STOR ", ["cp", "mine", "//f"]),
        (at_listing, "MLSD", ["sync", "//d", "d"]),
        (at_data, "RETR /d/g", ["sync", "//d", "d"]),
        (at_upload, "STOR ", ["sync", "tree", "//new"]),
    ] {
        let server = Scripted::start(answer);
        let words = words.map(|word| if word.starts_with("//") { server.url(word) } else { word.to_owned() });
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        stops(&scene, &words, || !server.heard(last).is_empty());
        assert!(!scene.path("f").exists() && !scene.path("d/g").exists(), "{words:?}");
        assert!(server.heard("STOR ").iter().all(|line| line.contains(".xdfs-")), "{words:?}");
        assert!(server.heard("RNTO").is_empty());
    }
}

/// Two servers: one has an empty directory, the other ten files in one, of which it removes none as a test wants.
fn surplus(answer: Answer) -> [Scripted; 2] {
    let empty: Answer = |line| match line {
        "MLST /d" => Some(Say::Reply("250-x\r\n type=dir; /d\r\n250 end")),
        "MLSD /d" => Some(Say::Send(Vec::new())),
        _ => None,
    };
    [Scripted::start(empty), Scripted::start(answer)]
}

fn ten_files(line: &str) -> Option<Say> {
    match line {
        "MLST /d" => Some(Say::Reply("250-x\r\n type=dir; /d\r\n250 end")),
        "MKD /d" => Some(Say::Reply("550 it is there")),
        "MLSD /d" => {
            Some(Say::Send((0..10).map(|name| format!("type=file;size=5; {name}\r\n")).collect::<String>().into()))
        }
        _ => None,
    }
}

#[test]
fn removals_between_servers_end_with_the_command() {
    let silent: Answer = |line| if line.starts_with("DELE /d/7") { Some(Say::Nothing) } else { ten_files(line) };
    let [one, other] = surplus(silent);
    let scene = Scene::new();
    let words = ["sync", "--json", "--delete", "--retry", "0", &one.url("//d"), &other.url("//d")];
    let copy = scene.start(words);
    let until = Instant::now() + PATIENCE;
    while other.heard("DELE /d/7").is_empty() {
        assert!(Instant::now() < until, "it never waits");
        std::thread::yield_now();
    }
    copy.signal(Signal::INT);
    let stopped = copy.wait();
    let told = stopped.ends_with(130).objects().pop().expect("a tree");
    assert_eq!([&told["deleted"], &told["failed"], &told["surplus_kept"]], [2, 1, 7], "{told}");
    assert_eq!(other.heard("DELE").len(), 3);
}
