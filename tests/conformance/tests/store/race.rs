//! B04 in short: a thread exchanges a directory and a link that leads out, as fast as it can, while files are opened,
//! staged and committed below that name. Whatever wins, nothing outside is read or written.
//!
//! `XDFS_RACE_ROUNDS=20000` runs the long form.

use crate::bench::{Scratch, names_under};
use rustix::fs::{CWD, RenameFlags};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use xdfs_io::store::{Existing, FileKind, LocalStore, Store};
use xdfs_test_conformance::store::bench::{commit, path, request};

pub(crate) fn rounds() -> u32 {
    std::env::var("XDFS_RACE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3000)
}

/// Exchanges two names until `stop`, then leaves them as they were.
pub(crate) fn flip(one: &Path, other: &Path, stop: &AtomicBool) {
    let mut turns = 0u64;
    while !stop.load(Ordering::Relaxed) || turns % 2 == 1 {
        rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
        turns += 1;
    }
}

/// Runs `attempt` many times while `one` and `other` are exchanged; it tells whether it got through. Both outcomes must
/// come up, or nothing was raced.
pub(crate) fn race(one: &Path, other: &Path, mut attempt: impl FnMut(u32) -> bool) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| flip(one, other, &stop));
        let _stop = StopOnDrop(&stop);
        let mut outcomes = [0u32; 2];
        let mut round = 0;
        // Until both were seen, within a bound: on one busy core the other thread may not run for a while.
        while round < rounds() || (outcomes.contains(&0) && round < 1_000_000) {
            outcomes[usize::from(attempt(round))] += 1;
            round += 1;
        }
        assert!(!outcomes.contains(&0), "refused and passed: {outcomes:?}");
    });
}

/// Ends the other thread when an assertion fails too; the scope would wait for it for ever.
pub(crate) struct StopOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(crate) struct World {
    pub(crate) scratch: Scratch,
    pub(crate) store: LocalStore,
}

impl World {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::on_tmpfs();
        let top = scratch.path();
        // One level below the exchanged name: the last component of a directory is not followed in any case.
        for directory in ["export/d/e", "outside/e"] {
            std::fs::create_dir_all(top.join(directory)).unwrap();
        }
        std::fs::write(top.join("export/d/e/x"), b"inside").unwrap();
        std::fs::write(top.join("outside/e/x"), b"CANARY").unwrap();
        symlink(top.join("outside"), top.join("export/link")).unwrap();
        symlink(top.join("outside/e/x"), top.join("export/d/e/xlink")).unwrap();
        let store = LocalStore::open_root(&top.join("export"), true).unwrap();
        Self { scratch, store }
    }

    pub(crate) fn at(&self, name: &str) -> std::path::PathBuf {
        self.scratch.path().join("export").join(name)
    }

    pub(crate) fn outside_is_untouched(&self) {
        let outside = self.scratch.path().join("outside");
        assert_eq!(names_under(&outside), [b"e".to_vec(), b"e/x".to_vec()]);
        assert_eq!(std::fs::read(outside.join("e/x")).unwrap(), b"CANARY");
    }
}

#[test]
fn an_exchanged_directory_never_lets_a_read_out() {
    let world = World::new();
    race(&world.at("d"), &world.at("link"), |_| match world.store.open(&path("d/e/x")) {
        Ok(source) => {
            let mut buf = [0; 6];
            source.read_exact_at(&mut buf, 0).unwrap();
            assert_eq!(&buf, b"inside");
            true
        }
        Err(_) => false,
    });
    world.outside_is_untouched();
}

#[test]
fn an_exchanged_directory_never_lets_attributes_out() {
    let world = World::new();
    let inside = world.store.attributes(&path("d/e/x")).unwrap();
    race(&world.at("d"), &world.at("link"), |_| match world.store.attributes(&path("d/e/x")) {
        Ok(seen) => {
            assert_eq!(seen.version, inside.version);
            true
        }
        Err(_) => false,
    });
}

#[test]
fn an_exchanged_directory_never_lets_a_new_file_out() {
    let world = World::new();
    race(&world.at("d"), &world.at("link"), |round| {
        let existing = if round % 2 == 0 { Existing::Replace } else { Existing::Keep };
        let target = if round % 2 == 0 { "d/e/x" } else { "d/e/new" };
        match world.store.stage(&request(target, existing)) {
            Ok(stage) => {
                stage.write(b"inside", 0).unwrap();
                // Keep finds the file of an earlier round from the second one on.
                let _ = stage.commit(&commit(6));
                true
            }
            Err(_) => false,
        }
    });
    world.outside_is_untouched();
    assert_eq!(names_under(&world.at("d/e")), [b"new".to_vec(), b"x".to_vec(), b"xlink".to_vec()]);
}

#[test]
fn an_exchanged_file_never_lets_a_read_or_commit_through_its_link() {
    let world = World::new();
    race(&world.at("d/e/x"), &world.at("d/e/xlink"), |_| match world.store.open(&path("d/e/x")) {
        Ok(source) => {
            assert_eq!(source.attributes().kind, FileKind::Regular);
            let mut buf = [0; 6];
            source.read_exact_at(&mut buf, 0).unwrap();
            assert_eq!(&buf, b"inside");
            true
        }
        Err(_) => false,
    });
    race(&world.at("d/e/x"), &world.at("d/e/xlink"), |_| {
        let Ok(stage) = world.store.stage(&request("d/e/x", Existing::Replace)) else { return false };
        stage.write(b"inside", 0).unwrap();
        // The name may become the link between the last look and the rename: then the link is replaced, which the
        // flipping thread itself could do, and what it points to stays. It is put back for the next round.
        let committed = stage.commit(&commit(6)).is_ok();
        if committed {
            world.restore_link();
        }
        committed
    });
    world.outside_is_untouched();
}

impl World {
    /// Puts the link back where a rename replaced it: whichever of the two names is not the link any more.
    fn restore_link(&self) {
        let is_link = |name: &str| self.at(name).symlink_metadata().is_ok_and(|found| found.is_symlink());
        // Looked at several times, since the names are being exchanged meanwhile.
        if (0..100).any(|_| is_link("d/e/x") || is_link("d/e/xlink")) {
            return;
        }
        let spare = self.at("d/e/spare");
        symlink(self.scratch.path().join("outside/e/x"), &spare).unwrap();
        std::fs::rename(spare, self.at("d/e/xlink")).unwrap();
    }
}
