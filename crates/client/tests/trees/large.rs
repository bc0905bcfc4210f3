//! B16: a directory of a million names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use xdfs_client::wire::Wanted;
use xdfs_io::store::tree::NodeKind;
use xdfs_server::Export;

use super::evil::{EvilStore, Numbered, Script};
use super::support::serving::{Serving, Setup};

const NAMES: u64 = 1_000_000;

/// Names that are between the directory and whoever asked for it: a page that is read, one that is on its way.
const AHEAD_MAX: u64 = 20_000;

#[test]
fn b16_a_million_names_come_in_pages_that_nobody_gathers_and_that_anybody_may_leave() {
    let asked = Arc::new(AtomicU64::new(0));
    let name = |number| format!("name-{number:07}");
    let numbered = Numbered { count: NAMES, kind: NodeKind::Regular, name, asked: Arc::clone(&asked) };
    let script = Script { numbered: Some(numbered), ..Script::default() };
    let export = Export::open_to_all("evil", Arc::new(EvilStore::new(script)), false);
    let serving = Serving::with(Setup { more: vec![export], ..Setup::default() });
    let session = serving.connect(2);
    let mut seen = 0;
    for page in session.list("evil", Wanted::SIZE).unwrap() {
        for entry in page.unwrap().entries().unwrap() {
            assert_eq!(entry.name, format!("name-{seen:07}").as_bytes());
            seen += 1;
        }
        // The one that ends each page is looked at twice.
        let ahead = asked.load(Ordering::Relaxed) - seen;
        assert!(ahead < AHEAD_MAX + seen / 100, "{ahead} names are gathered behind {seen}");
    }
    assert_eq!(seen, NAMES);
    asked.store(0, Ordering::Relaxed);
    let mut pages = session.list("evil", Wanted::SIZE).unwrap();
    assert!(pages.next().unwrap().is_ok());
    drop(pages);
    session.look("evil", Wanted::NOTHING).unwrap();
    session.close().unwrap();
    assert!(asked.load(Ordering::Relaxed) < AHEAD_MAX);
}
