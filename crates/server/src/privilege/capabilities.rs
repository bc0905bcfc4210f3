//! The capabilities that root gives up: all except those with which root reads and writes other
//! users' files, which is the purpose of serving their files as root.

use crate::authorise::Preserve;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use xdfs_proto::base::{Error, ErrorKind};

/// Keeps the capabilities that concern files of others, drops the rest permanently.
pub(super) fn drop_most(keep: Preserve) -> Result<(), Error> {
    let failed = |error: rustix::io::Errno| {
        Error::new(ErrorKind::Resources, format!("capabilities could not be dropped: {error}"))
    };
    let present = rustix::thread::capabilities(None).map_err(failed)?;
    let mut kept = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::FOWNER;
    // Each only if an export grants it: otherwise it would only serve an attacker who takes over
    // the process.
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
    // Only existing capabilities can be kept: a container may have removed some.
    let kept = kept & present.permitted;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(failed)
}
