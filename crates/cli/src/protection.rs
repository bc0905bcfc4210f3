//! Protection of the data on the way, as the command line and the configuration file name it.

use clap::ValueEnum;

/// Protection of the data on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Protection {
    /// Encrypted and authenticated
    Private,
    /// Authenticated
    Integrity,
    /// Only the heads of blocks are authenticated
    Clear,
}
