//! What root gives up: all capabilities but those with which root reads and writes other users' files, which is what
//! somebody who serves their files as root wants of it.

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use xdfs_proto::base::{Error, ErrorKind};

/// Keeps the capabilities that concern files of others, drops the rest for good.
pub(super) fn drop_most() -> Result<(), Error> {
    let failed = |error: rustix::io::Errno| {
        Error::new(ErrorKind::Resources, format!("capabilities could not be dropped: {error}"))
    };
    let present = rustix::thread::capabilities(None).map_err(failed)?;
    let kept = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::FOWNER;
    // Only what is there can be kept: a container may have taken some away.
    let kept = kept & present.permitted;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(failed)
}
