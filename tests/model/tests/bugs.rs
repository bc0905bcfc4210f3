//! The search can fail: each deliberate mistake is found by the property that it breaks.

use xdfs_proto::session::Bug;
use xdfs_test_model::search::{ENDS, OUTCOME, PLACE, search};
use xdfs_test_model::setting::Setting;
use xdfs_test_model::settings::for_bug;

#[test]
fn every_seeded_bug_is_caught_by_its_property() {
    println!("{:<24} {:<70} {:>9} {:>6}", "bug", "caught by", "states", "steps");
    for bug in Bug::ALL {
        let expected = match bug {
            Bug::ForgetLostBlocks | Bug::AckAcrossGap => ENDS,
            Bug::CountDuplicates | Bug::EndOfRangeIsEnd => PLACE,
            Bug::SuccessWithoutOutcome | Bug::CancelDecides => OUTCOME,
        };
        let setting: Setting = for_bug(bug);
        assert_eq!(setting.bug, Some(bug));
        let report = search(&setting);
        let Some((property, way, _)) = report.broken.first() else { panic!("{bug:?} is not caught: {report}") };
        println!("{:<24} {property:<70} {:>9} {:>6}", format!("{bug:?}"), report.states, way.len());
        assert_eq!(*property, expected, "{bug:?}: {report}");
        // The same setting holds without the mistake: tests/settings.rs searches it.
    }
}
