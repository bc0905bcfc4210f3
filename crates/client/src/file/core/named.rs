//! What the program does to an open file by its name.

use super::{Core, lock};
use xdfs_proto::base::Error;
use xdfs_proto::wire::file::{FileAnswer, FileCall, FileIdentity};
use xdfs_proto::wire::path::Wanted;

impl Core {
    pub(in crate::file) fn accept_changes(&self) -> Result<(), Error> {
        {
            let connection = lock(&self.connection);
            if connection.unsynced.bytes() == 0 && !connection.locks.any_is_exclusive() {
                return Ok(());
            }
        }
        let wanted = FileCall::Attributes { wanted: Wanted::CHANGE };
        let told = self.call(wanted, "look at", |answer| match answer {
            FileAnswer::Attributes(told) => told.change,
            _ => None,
        })?;
        self.accept_change(told);
        Ok(())
    }

    pub(in crate::file) fn version(&self) -> (u64, u64) {
        let opened = lock(&self.connection).opened;
        (opened.size, opened.change)
    }

    /// The change number after the last answer.
    pub(in crate::file) fn change_number(&self) -> u64 {
        lock(&self.connection).change
    }

    pub(in crate::file) fn accept_change(&self, told: u64) {
        let mut connection = lock(&self.connection);
        connection.change = connection.change.max(told);
    }

    pub(in crate::file) fn identity(&self) -> FileIdentity {
        lock(&self.connection).opened.identity
    }

    pub(in crate::file) fn inode(&self) -> [u8; 16] {
        let [inode @ .., _, _, _, _, _, _, _, _] = self.identity();
        inode
    }

    pub(in crate::file) fn moved(&self, path: Vec<u8>) {
        *lock(&self.path) = path;
    }
}
