//! S7 to S10: every state of a transfer whose receiver restarts once, and the mistakes that have to show there.

use xdfs_proto::session::Bug;
use xdfs_test_model::restart::properties::{COMMITTED, LOST, MARKER, OLD, ONCE};
use xdfs_test_model::restart::setting::{LARGE, Restarts, UPLOAD_OTHERS, UPLOAD_RESTART, UPLOAD_SYNCS, USUAL};
use xdfs_test_model::search::{Report, all_hold, search_for};
use xdfs_test_model::settings::is_large;

#[test]
fn whatever_is_lost_with_a_restart_every_promise_holds_and_everything_possible_is_reached() {
    all_hold(if is_large() { LARGE } else { USUAL }, 200_000);
}

fn caught<A: std::fmt::Debug>(what: &str, properties: &[&'static str], reports: impl Iterator<Item = Report<A>>) {
    for report in reports {
        if let Some((name, way, _)) = report.broken.iter().find(|(name, ..)| properties.contains(name)) {
            return println!("{what:<24}{name:<90}{:>8}{:>5}", report.states, way.len());
        }
    }
    panic!("{what} breaks none of {properties:?}");
}

#[test]
fn every_seeded_mistake_of_storage_is_caught_by_a_property() {
    for bug in Bug::OF_COMMIT.into_iter().chain(Bug::OF_MARKERS) {
        let (setting, properties): (&Restarts, &[&'static str]) = match bug {
            Bug::NameBeforeSync | Bug::NoDirectorySync | Bug::ResumeBySize => (&UPLOAD_RESTART, &[COMMITTED, OLD]),
            Bug::SyncAgain | Bug::ErrorIgnored => (&UPLOAD_SYNCS, &[COMMITTED]),
            Bug::MarkerBeforeSync => (&UPLOAD_RESTART, &[MARKER]),
            other => panic!("{other:?} is no mistake of storage"),
        };
        let found = properties.iter().map(|property| search_for(&setting.with_bug(bug), property));
        caught(&format!("{bug:?}"), properties, found);
    }
}

#[test]
fn a_store_that_compares_or_remembers_nothing_is_caught() {
    let forgetful = Restarts { store_remembers: false, ..UPLOAD_RESTART };
    caught("store forgets", &[ONCE], [search_for(&forgetful, ONCE)].into_iter());
    let careless = Restarts { store_compares: false, ..UPLOAD_OTHERS };
    caught("store compares nothing", &[ONCE], [search_for(&careless, ONCE)].into_iter());
    // What was told durable is in no danger by it.
    assert!(search_for(&forgetful, LOST).broken.iter().all(|(name, ..)| *name == ONCE));
}
