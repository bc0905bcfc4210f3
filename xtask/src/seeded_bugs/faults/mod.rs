//! The faults, by what they break, and the programs of tests that find them.

mod leases;
mod protection;
mod session;
mod storage;
mod trees;

use super::fault::{Fault, Program};

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Fault> {
    [session::FAULTS, protection::FAULTS, leases::FAULTS, storage::FAULTS, trees::FAULTS].into_iter().flatten()
}

/// A search of the model: `XDFS_MODEL` chooses a setting, `XDFS_PROPERTY` what is looked for in it, since another
/// property may break sooner.
const fn model(test: &'static str, filter: &'static str) -> Program {
    Program {
        package: "xdfs-test-model",
        test: Some(test),
        filter,
        amount: Some("XDFS_MODEL"),
        property: Some("XDFS_PROPERTY"),
    }
}

/// Runs of the simulation.
const fn simulation(test: &'static str, filter: &'static str) -> Program {
    let amount = Some("XDFS_SIM_SESSIONS");
    Program { package: "xdfs-test-sim", test: Some(test), filter, amount, property: None }
}

/// A test that has no variables.
const fn plain(package: &'static str, test: Option<&'static str>, filter: &'static str) -> Program {
    Program { package, test, filter, amount: None, property: None }
}
