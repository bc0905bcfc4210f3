//! Searches the settings that are named, or all small ones.

use xdfs_test_model::search::search;
use xdfs_test_model::settings::USUAL;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for setting in USUAL.iter().filter(|s| wanted.is_empty() || wanted.iter().any(|w| s.name.contains(w.as_str()))) {
        println!("{}", search(setting));
    }
}
