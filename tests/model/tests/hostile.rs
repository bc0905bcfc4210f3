//! Joining, revocation and a hostile participant: every state of every setting.

use xdfs_test_model::hostile::places::Places;
use xdfs_test_model::hostile::settings::{USUAL, levels};
use xdfs_test_model::search::{Order, all_hold, search};

#[test]
fn whatever_a_hostile_participant_does_every_property_holds_and_everything_possible_is_reached() {
    all_hold(USUAL, 700_000);
}

#[test]
fn in_every_cell_of_the_floors_no_block_is_below_the_highest() {
    let (mut cells, mut states) = (0, 0);
    for setting in levels() {
        let report = search(&setting, Order::Breadth);
        assert!(report.holds(), "{:?}: {report}", setting.floors);
        cells += 1;
        states += report.states;
    }
    println!("{cells} cells, {states} states in all");
    assert_eq!(cells, 2 * 27);
}

#[test]
fn whatever_strangers_do_their_places_are_bounded_and_their_time_ends() {
    let report = search(&Places::USUAL, Order::Breadth);
    println!("{report}");
    assert!(report.holds(), "{report}");
    assert!(report.states >= 100_000, "the house became too small to say much: {} states", report.states);
}
