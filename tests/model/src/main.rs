//! Searches by command: `cargo run --release -p xdfs-test-model -- --large` for the long settings, or words that the
//! names of settings contain, or nothing for the usual ones.

use std::process::ExitCode;
use xdfs_test_model::hostile;
use xdfs_test_model::hostile::places::Places;
use xdfs_test_model::lease;
use xdfs_test_model::restart;
use xdfs_test_model::search::{Order, search};
use xdfs_test_model::setting::Setting;
use xdfs_test_model::settings::{LARGE, USUAL};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let large = words.iter().any(|word| word == "--large");
    let named = |setting: &&Setting| {
        let mut names = words.iter().filter(|word| *word != "--large").peekable();
        names.peek().is_none() || names.any(|word| setting.name.contains(word.as_str()))
    };
    let order = if large { Order::Depth } else { Order::Breadth };
    let settings = if large { LARGE } else { USUAL };
    let (mut states, mut wrong) = (0, false);
    for setting in settings.iter().filter(named) {
        let report = search(setting, order);
        println!("{report}");
        states += report.states;
        wrong |= !report.holds();
    }
    let chosen = |name: &str| !large && words.iter().all(|word| name.contains(word.as_str()));
    for setting in hostile::settings::USUAL.iter().filter(|setting| chosen(setting.name)) {
        let report = search(setting, order);
        println!("{report}");
        states += report.states;
        wrong |= !report.holds();
    }
    let restarts = if large { restart::setting::LARGE } else { restart::setting::USUAL };
    for setting in restarts.iter().filter(|setting| named(&&setting.session)) {
        let report = search(setting, order);
        println!("{report}");
        states += report.states;
        wrong |= !report.holds();
    }
    let leases = if large { lease::setting::LARGE } else { lease::setting::USUAL };
    for setting in leases.iter().filter(|setting| large || chosen(setting.name)) {
        let report = search(setting, order);
        println!("{report}");
        states += report.states;
        wrong |= !report.holds();
    }
    if chosen("places") {
        let report = search(&Places::USUAL, order);
        println!("{report}");
        states += report.states;
        wrong |= !report.holds();
    }
    println!("{states} states in all");
    if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
