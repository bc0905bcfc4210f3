//! The conformance suite of stores, run over every implementation of `io`.
//!
//! The rules that hold for all are a library, `bench` has the implementations under test; the other files attack one of
//! them where it is weakest. Nothing here sleeps, and every directory is the test's own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod as_user;
mod attack;
mod bench;
mod faults;
mod full;
mod holes;
mod kept;
mod namespace;
mod paths;
mod race;
mod race_open;
mod race_tree;
mod resume;
mod small;
mod staging;
mod stream;
mod tree;
mod typed;

use bench::{FaultBench, LocalBench, MemoryBench, SimBench};

xdfs_test_conformance::store_conforms! {
    local_tmpfs => LocalBench::on_tmpfs();
    local_disk => LocalBench::on_disk();
    local_named => LocalBench::without_unnamed();
    memory => MemoryBench::new();
    sim => SimBench::new();
    fault => FaultBench::on_local();
}
