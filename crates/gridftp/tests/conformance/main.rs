//! The suite of all drivers over `mode_e`, and over `ftp` and `gridftp` with files of Debian's servers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes files in the directories of servers")]

#[path = "../../../xio/tests/conformance/subject.rs"]
mod subject;
mod subjects;
#[path = "../../../xio/tests/conformance/suite.rs"]
mod suite;
#[path = "../support/mod.rs"]
mod support;

use xdfs_gridftp::driver;
use xdfs_xio::Registry;

#[test]
fn the_suite_has_every_driver_of_this_crate() {
    if subjects::servers().is_none() {
        return;
    }
    let mut registry = Registry::built_in();
    let built_in: Vec<_> = registry.names().map(str::to_owned).collect();
    driver::add_to(&mut registry).unwrap();
    let ours: Vec<_> = registry.names().filter(|name| !built_in.iter().any(|other| other == name)).collect();
    let mut named: Vec<_> = subjects::subjects().iter().map(|subject| subject.name).collect();
    named.sort_unstable();
    assert_eq!(named, ours);
}
