//! The suite of all drivers over those of this crate, and over those that are loaded.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes the files of a certificate")]

#[path = "../support/certificate.rs"]
mod certificate;
#[path = "../support/compiled.rs"]
mod compiled;
#[path = "../support/grid.rs"]
mod grid;
mod subject;
mod subjects;
mod suite;

use compiled::loaded;
use subjects::{LOADED, subjects};
use xdfs_xio::Registry;

#[test]
fn the_suite_has_every_driver() {
    let registry = Registry::built_in();
    let mut named: Vec<_> = subjects().iter().map(|subject| subject.name).collect();
    // A library that one of them needs may be missing, which was told.
    let there = |name: &str| name != "udt_ref" || loaded().1;
    for name in LOADED.iter().filter(|name| there(name)) {
        assert!(named.contains(name), "{name} has no row");
    }
    named.retain(|name| !LOADED.contains(name));
    named.sort_unstable();
    assert_eq!(named, registry.names().collect::<Vec<_>>());
}
