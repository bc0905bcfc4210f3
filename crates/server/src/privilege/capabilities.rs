//! What root gives up: all capabilities but those with which root reads and writes other users' files, which is what
//! somebody who serves their files as root wants of it.

use crate::authorise::Keep;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use xdfs_proto::base::{Error, ErrorKind};

/// Keeps the capabilities that concern files of others, drops the rest for good.
pub(super) fn drop_most(keep: Keep) -> Result<(), Error> {
    let failed = |error: rustix::io::Errno| {
        Error::new(ErrorKind::Resources, format!("capabilities could not be dropped: {error}"))
    };
    let present = rustix::thread::capabilities(None).map_err(failed)?;
    let mut kept = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::FOWNER;
    // Each for what an export grants: without it they would only serve somebody who takes the process over.
    if keep.owner {
        kept |= CapabilitySet::CHOWN;
    }
    if keep.modes {
        kept |= CapabilitySet::FSETID;
    }
    if keep.special {
        kept |= CapabilitySet::MKNOD;
    }
    if keep.xattr && keep.owner && keep.modes {
        kept |= CapabilitySet::SETFCAP;
    }
    // Only what is there can be kept: a container may have taken some away.
    let kept = kept & present.permitted;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(failed)
}
