//! Markers: a journal never tells of what is not there, and nothing else is believed.

use xdfs_proto::base::{Bug, Bugs};
use xdfs_test_cli::Scene;
use xdfs_test_crash::loopback::Disk;
use xdfs_test_crash::markers::{MARKED, kept_behind_a_kill, series};

/// Cuts of a sound store, and the most of one that lies until it is found.
const CUTS: u64 = 200;
const CUTS_MAX: u64 = 2_000;

#[test]
fn a_power_cut_beside_a_marker_never_leaves_a_journal_that_lies() {
    let Some(mut disk) = Disk::new() else { return };
    let cuts = series(&mut disk, Bugs::default(), CUTS);
    println!("{} power cuts beside markers, a journal was there behind {}", cuts.all, cuts.noted);
    assert_eq!(cuts.broken, None);
    assert!(cuts.noted > 0 && cuts.noted < cuts.all, "all cuts came too early or too late: {cuts:?}");
}

#[test]
fn a_marker_before_the_sync_of_its_data_is_caught() {
    let Some(mut disk) = Disk::new() else { return };
    let cuts = series(&mut disk, Bugs::seeded(Bug::MarkerBeforeSync), CUTS_MAX);
    println!("{:?} after {} cuts", cuts.broken, cuts.all);
    assert!(cuts.broken.is_some(), "{cuts:?}");
}

#[test]
fn an_attempt_goes_on_with_what_was_noted_and_not_with_a_length() {
    let scene = Scene::new();
    assert_eq!(kept_behind_a_kill(&scene.directory("sound"), Bugs::default()), MARKED);
    assert_ne!(kept_behind_a_kill(&scene.directory("by-size"), Bugs::seeded(Bug::ResumeBySize)), MARKED);
}
