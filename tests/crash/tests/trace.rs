//! Kills and errors at the calls by which the real binary makes a file, on the server and on the client.

use xdfs_test_crash::scenario::Side;
use xdfs_test_crash::trace::{ERRORS, Points, sweep};

const KILL_POINTS_MIN: usize = 300;
const ERROR_POINTS_MIN: usize = 400;

fn tell(what: &str, points: &Points) {
    let on = |side: Side| points.injected.iter().filter(|point| point.scenario.side == side).count();
    println!(
        "{} {what} points ({} on the server, {} on the client; {} distinct calls and indexes), the new file was there behind {}, \
         {} rows exhausted",
        points.injected.len(),
        on(Side::Server),
        on(Side::Client),
        points.places(),
        points.completed,
        points.exhausted
    );
}

#[test]
fn a_kill_at_any_call_leaves_the_old_file_or_the_new_one() {
    let points = sweep(&["signal=SIGKILL"], KILL_POINTS_MIN + 10);
    tell("kill", &points);
    assert!(points.places() >= KILL_POINTS_MIN, "too few kill points");
    assert!(points.completed > 0, "no kill came behind a commit");
}

#[test]
fn an_error_of_any_call_never_makes_half_a_file_or_a_false_success() {
    let points = sweep(ERRORS, ERROR_POINTS_MIN + 10);
    tell("errno", &points);
    assert!(points.injected.len() >= ERROR_POINTS_MIN, "too few errno points");
    for injection in ERRORS {
        assert!(points.injected.iter().any(|point| point.injection == *injection), "{injection} never struck");
    }
}
