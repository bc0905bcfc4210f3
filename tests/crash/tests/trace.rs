//! Kills and errors at the calls by which the real binary makes a file, on the server and on the client.

use xdfs_test_crash::scenario::{Point, Side, scenarios};
use xdfs_test_crash::trace::{ERRORS, Points, Strike, Walk, sweep};

/// Points of a slice, at least.
const POINTS_MIN: usize = 300;
/// Points of each kind of error in a slice, at least.
const KIND_MIN: usize = 3;

fn tell(what: &str, points: &Points) {
    let on = |side: Side| points.injected.iter().filter(|point| point.scenario.side == side).count();
    println!(
        "{} times at {} {what} points ({} on the server, {} on the client; {:?}), the new file was there behind {}, {} of {} rows to their end",
        points.strikes,
        points.places(),
        on(Side::Server),
        on(Side::Client),
        points.kinds(),
        points.completed,
        points.exhausted,
        points.rows
    );
}

/// The slice was walked to its end.
fn judge(points: &Points) {
    assert!(points.places() >= POINTS_MIN, "only {} points", points.places());
    assert!(std::env::var_os("XDFS_CRASH_STRIKES").is_some() || points.exhausted == points.rows, "{points:?}");
}

#[test]
fn a_kill_at_any_call_leaves_the_old_file_or_the_new_one() {
    if !xdfs_test_needs::tracing() {
        return;
    }
    let points = sweep(Strike::Kill, Walk::of_today());
    tell("kill", &points);
    judge(&points);
    assert!(points.completed > 0, "no kill came behind a commit");
}

#[test]
fn an_error_of_any_call_never_makes_half_a_file_or_a_false_success() {
    if !xdfs_test_needs::tracing() {
        return;
    }
    let points = sweep(Strike::Error, Walk::of_today());
    tell("errno", &points);
    judge(&points);
    let kinds = points.kinds();
    for injection in ERRORS {
        assert!(kinds.get(injection).is_some_and(|count| *count >= KIND_MIN), "{injection} struck too seldom");
    }
}

#[test]
fn a_sync_that_fails_once_and_would_succeed_again_fails_the_transfer() {
    if !xdfs_test_needs::tracing() {
        return;
    }
    let mut struck = 0;
    for scenario in scenarios().into_iter().filter(|scenario| scenario.durability == "durable") {
        for call in ["fsync", "fdatasync"] {
            for index in 1.. {
                let point = Point { scenario, call, injection: "error=EIO", index };
                let ending = point.run();
                if !ending.reached {
                    break;
                }
                struck += 1;
                assert!(!ending.told, "{point:?}: success was told");
                assert!(index > 1 || !ending.completed, "{point:?}: the file was not synced, and has its name");
            }
        }
    }
    println!("{struck} syncs failed once each");
    assert!(struck >= 8, "only {struck} syncs");
}
