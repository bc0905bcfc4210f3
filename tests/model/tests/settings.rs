//! Every state and every run of every usual setting; `XDFS_MODEL=large` asks for the large ones.

use xdfs_test_model::search::all_hold;
use xdfs_test_model::settings::{LARGE, USUAL, is_large};

#[test]
fn every_property_holds_in_every_state_and_everything_possible_is_reached() {
    all_hold(if is_large() { LARGE } else { USUAL }, 1_000_000);
}
