//! What calls on names are to the leases of open files: they look at the file behind a name, or change
//! it, and wait for leases that exclude this; or they take the name away, and the leases are recalled.
//!
//! A name may lead to another file between this look at it and the call: then the lease of that one is
//! not waited for.

use super::CallContext;
use crate::authorise::Want;
use crate::files::leases::{AccessGuard, file_at, file_of};
use xdfs_io::store::tree::Node;
use xdfs_proto::base::Error;
use xdfs_proto::lease::Access;
use xdfs_proto::wire::path::Call;

impl CallContext {
    /// Begins what a call of one slice does with the file behind its name: Busy if a lease excludes it. None if it
    /// neither looks at a file nor changes one.
    pub(super) fn begin(&self, call: &Call<'_>) -> Result<Option<AccessGuard>, Error> {
        let access = match call {
            Call::Stat { .. } | Call::Get { .. } | Call::XattrValue { .. } | Call::XattrNames { .. } => Access::Look,
            Call::SetMode { .. }
            | Call::SetTimes { .. }
            | Call::Truncate { .. }
            | Call::SetOwner { .. }
            | Call::SetXattr { .. }
            | Call::RemoveXattr { .. } => Access::Change,
            Call::Unlink { path } => {
                self.name_goes(path);
                return Ok(None);
            }
            Call::Rename { path, to, keep_existing } => {
                self.name_goes(path);
                if !keep_existing {
                    self.name_goes(to);
                }
                return Ok(None);
            }
            _ => return Ok(None),
        };
        self.access(call.path(), access).map(Some)
    }

    /// Begins to look at the file of a name, or to change it: Busy if a lease excludes that.
    fn access(&self, path: &[u8], access: Access) -> Result<AccessGuard, Error> {
        let want = if access == Access::Look { Want::Read } else { Want::Change };
        // Without the right to do this there is nothing to wait for: the call says so.
        let file = || self.at(path, want).ok().as_ref().and_then(file_at);
        self.files.access(file, None, access)
    }

    /// The file that has this name is about to lose it: its leases are recalled, unless the user may not do that.
    fn name_goes(&self, path: &[u8]) {
        self.files.renamed(|| self.at(path, Want::Change).ok().as_ref().and_then(file_at));
    }

    /// Looks at a file of a directory: Busy if a lease excludes that.
    pub(super) fn look_at(&self, node: &Node) -> Result<(), Error> {
        self.files.access(|| file_of(node), None, Access::Look).map(drop)
    }
}
