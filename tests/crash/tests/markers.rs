//! Markers: a journal never tells of what is not there, and nothing else is believed.

use std::sync::{Mutex, PoisonError};
use xdfs_test_cli::Scene;
use xdfs_test_crash::loopback::Disk;
use xdfs_test_crash::markers::{MARKED, kept_behind_a_kill, series};

const CUTS: u64 = 200;

/// A program that is started has the part files that are open in this process until it has become another one: nobody else can
/// take them over so long.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_power_cut_beside_a_marker_never_leaves_a_journal_that_lies() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut disk) = Disk::new() else { return };
    let cuts = series(&mut disk, CUTS);
    println!("{} power cuts beside markers, a journal was there behind {}", cuts.all, cuts.noted);
    assert_eq!(cuts.broken, None);
    assert!(cuts.noted > 0 && cuts.noted < cuts.all, "all cuts came too early or too late: {cuts:?}");
}

#[test]
fn an_attempt_goes_on_with_what_was_noted_and_not_with_a_length() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let scene = Scene::new();
    assert_eq!(kept_behind_a_kill(&scene.directory("store")), MARKED, "it goes on with what was noted");
}
