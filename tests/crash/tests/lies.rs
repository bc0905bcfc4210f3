//! The real binary on storage that takes less than it is given, says so or not: short writes are completed, and what storage only
//! says it took never gets the final name with `--verify reread`.

use std::process::Command;
use xdfs_test_cli::{Outcome, Running, Scene, Server, pattern, xdfs_binary};
use xdfs_test_crash::scenario::Side;
use xdfs_test_crash::tamper::{Lie, Tamper};

const SIZE: usize = 3 << 20;
/// Writes of a transfer in blocks of 64 KiB, without repetitions.
const WRITES: u64 = 48;
const SIDES: [Side; 2] = [Side::Server, Side::Client];

/// What a transfer over such storage left.
struct Ended {
    outcome: Outcome,
    struck: usize,
    /// What the name stands for, and what was sent.
    left: Vec<u8>,
    content: Vec<u8>,
}

impl Ended {
    fn is_whole(&self) -> bool {
        self.left == self.content
    }
}

/// A transfer whose receiver, on this side, meets `lie` at the writes from `first` to `last`; none where tests may be left out
/// and programs cannot be traced.
fn transfer(side: Side, lie: Lie, (first, last): (u64, u64), verify: &str) -> Option<Ended> {
    let scene = Scene::new();
    xdfs_test_needs::found(Tamper::works(scene.path("scratch")))?;
    let tamper = Tamper::new(lie, first, last, scene.path("lies"));
    let content = pattern(SIZE, 77);
    let (source, target) = match side {
        Side::Server => ("client/file", "server/file"),
        Side::Client => ("server/file", "client/file"),
    };
    scene.write(source, &content);
    scene.write(target, b"old");
    let program = |tampered: bool, words: &[&str]| {
        let mut command = if tampered { tamper.command(xdfs_binary()) } else { Command::new(xdfs_binary()) };
        command.args(words).current_dir(scene.path(""));
        scene.dress("somebody", &mut command);
        command
    };
    let words = ["--quiet", "--export", "data=server", "--allow-anonymous", "rw"];
    let serve = program(side == Side::Server, &["serve", "--json", "--listen", "127.0.0.1:0"]);
    let server = Server::start(serve, &words);
    let mut copy =
        program(side == Side::Client, &["cp", "-q", "-b", "64KiB", "-P", "2", "--retry", "0", "--verify", verify]);
    match side {
        Side::Server => copy.args(["client/file", &server.url("file")]),
        Side::Client => copy.args([&server.url("file"), "client/file"]),
    };
    let outcome = Running::start(copy).wait();
    let ended = Ended { outcome, struck: tamper.struck(), left: scene.read(target), content };
    assert!(ended.struck > 0, "no write was large enough: {}", ended.outcome.messages);
    Some(ended)
}

#[test]
fn writes_that_take_a_part_are_completed() {
    for side in SIDES {
        for verify in ["none", "hash"] {
            let ended = transfer(side, Lie::Short, (1, u64::MAX), verify);
            let Some(ended) = ended else { return };
            ended.outcome.ends_with(0);
            assert!(ended.is_whole(), "{side:?}, {verify}");
            assert!(ended.struck as u64 > 2 * WRITES, "{} short writes", ended.struck);
        }
    }
}

#[test]
fn what_storage_only_says_it_took_is_sent_again_and_never_named_before_it_is_there() {
    for side in SIDES {
        for (lie, write) in [(Lie::Nothing, 1), (Lie::Half, WRITES / 2), (Lie::Nothing, WRITES)] {
            let ended = transfer(side, lie, (write, write), "reread");
            let Some(ended) = ended else { return };
            ended.outcome.ends_with(0);
            assert!(ended.is_whole(), "{side:?}, {lie:?} at write {write}");
        }
    }
}

#[test]
fn storage_that_lies_about_every_write_leaves_the_old_file() {
    for side in SIDES {
        for lie in [Lie::Half, Lie::Nothing] {
            let ended = transfer(side, lie, (1, u64::MAX), "reread");
            let Some(ended) = ended else { return };
            assert_ne!(ended.outcome.code, Some(0), "{side:?}, {lie:?}");
            ended.outcome.says(&["storage gives back is not what was written"]);
            assert_eq!(ended.left, b"old", "{side:?}, {lie:?}");
        }
    }
}

#[test]
fn without_reread_such_a_write_shows_nowhere_which_is_what_these_tests_see() {
    let ended = transfer(Side::Server, Lie::Nothing, (WRITES / 2, WRITES / 2), "hash");
    let Some(ended) = ended else { return };
    ended.outcome.ends_with(0);
    assert!(!ended.is_whole(), "the lie did not reach the file, so the tests above prove nothing");
}
