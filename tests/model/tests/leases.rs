//! L1 to L3: every state of a file that two clients keep under leases, and a program that breaks their rule.

use xdfs_test_model::lease::properties::STALE;
use xdfs_test_model::lease::setting::{LARGE, LOCAL, Leases, USUAL};
use xdfs_test_model::search::{all_hold, search_for};
use xdfs_test_model::settings::is_large;

#[test]
fn whatever_happens_to_sessions_and_server_leases_keep_their_promises() {
    all_hold(if is_large() { LARGE } else { USUAL }, 100_000);
}

fn caught(what: &str, setting: &Leases, property: &'static str) {
    let report = search_for(setting, property);
    let found = report.broken.iter().find(|(name, ..)| *name == property);
    let Some((_, way, _)) = found else { panic!("{what} does not break '{property}': {report}") };
    println!("{what:<24}{property:<90}{:>8}{:>5}", report.states, way.len());
}

#[test]
fn a_local_program_that_does_not_wait_is_caught() {
    caught("local program", &Leases { local_waits: false, ..LOCAL }, STALE);
}
