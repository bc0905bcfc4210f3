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

use subjects::{LOADED, subjects};
use xdfs_xio::Registry;

#[test]
fn the_suite_has_every_driver() {
    let registry = Registry::built_in();
    let mut named: Vec<_> = subjects().iter().map(|subject| subject.name).collect();
    named.retain(|name| !LOADED.contains(name));
    named.sort_unstable();
    assert_eq!(named, registry.names().collect::<Vec<_>>());
}
