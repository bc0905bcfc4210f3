//! Kills and errors at the calls by which the real binary makes a file.

use xdfs_test_crash::trace::{ERRORS, sweep};

#[test]
fn a_kill_at_any_call_leaves_the_old_file_or_the_new_one() {
    let points = sweep(&["signal=SIGKILL"]);
    println!(
        "{} kill points, {} of them behind the commit, {} kinds exhausted",
        points.injected, points.completed, points.exhausted
    );
    assert!(points.injected >= 20, "{points:?}");
}

#[test]
fn an_error_of_any_call_never_makes_half_a_file_or_a_false_success() {
    let injections: Vec<String> = ERRORS.iter().map(|error| format!("error={error}")).collect();
    let injections: Vec<&str> = injections.iter().map(String::as_str).collect();
    let points = sweep(&injections);
    println!(
        "{} errno points, {} of them harmless, {} kinds exhausted",
        points.injected, points.completed, points.exhausted
    );
    assert!(points.injected >= 40, "{points:?}");
}
