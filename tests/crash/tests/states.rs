//! Every crash state of the commit plan: what was told durable is there, and no name ever holds half a file.

use std::collections::BTreeSet;
use xdfs_test_crash::states::{Setting, search, settings};

/// Runs every setting of this kind.
fn no_cut_breaks_a_promise(cuts_min: usize, is_of_kind: impl Fn(&Setting) -> bool) {
    let (mut running, mut cut) = (0, 0);
    let mut seen = BTreeSet::new();
    for setting in settings().into_iter().filter(is_of_kind) {
        let report = search(&setting);
        assert_eq!(report.broken, None, "{setting:?}");
        running += report.running;
        cut += report.cut;
        seen.extend(report.seen);
    }
    println!("{running} states of running programs, {cut} crash states");
    assert!(cut >= cuts_min, "only {cut} crash states");
    assert_eq!(seen.len(), 4, "not every kind of outcome was seen: {seen:?}");
}

/// Whether each file has a commit of its own.
fn are_single(setting: &Setting) -> bool {
    setting.groups.len() == setting.directories.len()
}

#[test]
fn no_order_of_single_commits_and_no_cut_breaks_a_promise() {
    no_cut_breaks_a_promise(10_000, are_single);
}

#[test]
fn no_order_of_groups_that_sync_each_file_and_no_cut_breaks_a_promise() {
    no_cut_breaks_a_promise(10_000, |setting| !are_single(setting) && !setting.at_once);
}

#[test]
fn no_order_of_groups_that_sync_the_file_system_and_no_cut_breaks_a_promise() {
    no_cut_breaks_a_promise(10_000, |setting| !are_single(setting) && setting.at_once);
}
