//! What calls on names are to the leases of open files: they look at the file behind a name, or change
//! it, and wait for leases that exclude this; or they take the name away, and the leases are recalled.
//!
//! A name may lead to another file between this look at it and the call: then the lease of that one is
//! not waited for.

use super::CallContext;
use crate::authorise::Want;
use crate::files::leases::{file_at, file_of};
use xdfs_io::store::tree::Node;
use xdfs_proto::base::Error;
use xdfs_proto::lease::Access;
use xdfs_proto::wire::path::Call;

impl CallContext {
    /// Begins what a call does with the file behind its name: Busy if a lease excludes it.
    pub(super) fn begin(&mut self, call: &Call<'_>) -> Result<(), Error> {
        let access = match call {
            Call::Stat { .. }
            | Call::Get { .. }
            | Call::Hash { .. }
            | Call::XattrValue { .. }
            | Call::XattrNames { .. } => Access::Look,
            Call::SetMode { .. }
            | Call::SetTimes { .. }
            | Call::Truncate { .. }
            | Call::SetOwner { .. }
            | Call::SetXattr { .. }
            | Call::RemoveXattr { .. } => Access::Change,
            Call::Unlink { path } => {
                self.name_goes(path, Want::Change);
                return Ok(());
            }
            Call::Rename { path, to, keep_existing } => {
                self.name_goes(path, Want::Change);
                if !keep_existing {
                    self.name_goes(to, Want::Change);
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        let want = if access == Access::Look { Want::Read } else { Want::Change };
        let path = call.path();
        // Without the right to do this there is nothing to wait for: the call says so.
        let file = || self.at(path, want).ok().as_ref().and_then(file_at);
        let begun = self.files.access(file, None, access);
        self.access = Some(begun.inspect_err(|error| self.excluded = Some(error.clone()))?);
        Ok(())
    }

    /// The file that has this name is about to lose it: its leases are recalled.
    pub(super) fn name_goes(&self, path: &[u8], want: Want) {
        self.files.renamed(|| self.at(path, want).ok().as_ref().and_then(file_at));
    }

    /// Looks at a file of a directory: Busy if a lease excludes that.
    pub(super) fn look_at(&self, node: &Node) -> Result<(), Error> {
        self.files.access(|| file_of(node), None, Access::Look).map(drop)
    }
}
