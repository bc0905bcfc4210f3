//! Every state of every usual setting.

use xdfs_test_model::search::search;
use xdfs_test_model::settings::USUAL;

#[test]
fn every_property_holds_in_every_state_and_everything_possible_is_reached() {
    let mut states = 0;
    let mut wrong = Vec::new();
    for setting in USUAL {
        let report = search(setting);
        println!("{report}");
        states += report.states;
        if !report.holds() {
            wrong.push(report.name);
        }
    }
    println!("{states} states in all");
    assert!(wrong.is_empty(), "see the ways there above: {wrong:?}");
    assert!(states >= 1_000_000, "the settings became too small to say much: {states} states");
}
