//! The search can fail: each deliberate mistake breaks its property. Without it the same settings hold (tests/settings.rs).

use xdfs_proto::session::Bug;
use xdfs_test_model::endless::longest_run;
use xdfs_test_model::search::{CONTENT, ENDS, FENCE, OUTCOME, PLACE, search_for};
use xdfs_test_model::settings::for_bug;

#[test]
fn every_seeded_bug_is_caught_by_its_property() {
    println!("{:<24}{:<74}{:>8}{:>7}", "mistake", "caught by", "states", "steps");
    for bug in Bug::ALL.into_iter().chain(Bug::OF_CALLS) {
        let property = match bug {
            Bug::ForgetLostBlocks | Bug::AckAcrossGap | Bug::EndWithoutMark => ENDS,
            Bug::CountDuplicates | Bug::EndOfRangeIsEnd | Bug::CallTwice => PLACE,
            Bug::SuccessWithoutOutcome | Bug::CancelDecides => OUTCOME,
            Bug::FenceOfOneEpoch => FENCE,
            Bug::RootNotCompared => CONTENT,
            other => panic!("{other:?} is no mistake of the session"),
        };
        let report = search_for(&for_bug(bug), property);
        let found = report.broken.iter().find(|(name, ..)| *name == property);
        let Some((_, way, _)) = found else { panic!("{bug:?} is not caught by '{property}': {report}") };
        println!("{:<24}{property:<74}{:>8}{:>7}", format!("{bug:?}"), report.states, way.len());
    }
}

#[test]
fn every_seeded_bug_that_never_ends_is_caught_by_the_length_of_its_run() {
    for bug in Bug::OF_PROGRESS {
        let endless = longest_run(&for_bug(bug)).expect_err("a run that does not end");
        println!("{:<24}{:<74}{:>15}", format!("{bug:?}"), endless.why, endless.way.len());
    }
}
