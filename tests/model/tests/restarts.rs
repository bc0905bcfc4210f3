//! S7 to S10: every state of a transfer whose receiver restarts once, and stores that break their promise.

use xdfs_test_model::restart::properties::{LOST, ONCE};
use xdfs_test_model::restart::setting::{LARGE, Restarts, UPLOAD_OTHERS, UPLOAD_RESTART, USUAL};
use xdfs_test_model::search::{all_hold, search_for};
use xdfs_test_model::settings::is_large;

#[test]
fn whatever_is_lost_with_a_restart_every_promise_holds_and_everything_possible_is_reached() {
    all_hold(if is_large() { LARGE } else { USUAL }, 200_000);
}

fn caught(what: &str, setting: &Restarts) {
    let report = search_for(setting, ONCE);
    let found = report.broken.iter().find(|(name, ..)| *name == ONCE);
    let Some((_, way, _)) = found else { panic!("{what} does not break '{ONCE}': {report}") };
    println!("{what:<24}{ONCE:<90}{:>8}{:>5}", report.states, way.len());
}

#[test]
fn a_store_that_compares_or_remembers_nothing_is_caught() {
    let forgetful = Restarts { store_remembers: false, ..UPLOAD_RESTART };
    caught("store forgets", &forgetful);
    let careless = Restarts { store_compares: false, ..UPLOAD_OTHERS };
    caught("store compares nothing", &careless);
    // What was told durable is in no danger by it.
    assert!(search_for(&forgetful, LOST).broken.iter().all(|(name, ..)| *name == ONCE));
}
