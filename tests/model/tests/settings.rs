//! Every state of every usual setting.

use xdfs_test_model::search::all_hold;
use xdfs_test_model::settings::USUAL;

#[test]
fn every_property_holds_in_every_state_and_everything_possible_is_reached() {
    all_hold(USUAL, 1_000_000);
}
