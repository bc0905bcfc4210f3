//! Extended attributes, where the export has them.

use super::lost_answers::Fate;
use super::xattr_names::are_none;
use super::xattr_names::{is_of_security, shown};
use super::{Outcomes, Tree, last, unexpected};
use crate::kernel::Answer;
use bytes::Bytes;
use rustix::io::Errno;
use xdfs_client::Batch;
use xdfs_client::wire::{Answer as Told, Call, XattrRule};

/// Room of an answer: the longest value of Linux, and of a list.
const VALUE_BYTES: usize = 66 << 10;

/// Whether a file that has this attribute lists it. Some file systems have others of their own that they do not list.
fn is_listed_if_there(name: &[u8]) -> bool {
    name.starts_with(b"user.") || name.starts_with(b"system.posix_acl_")
}

impl Tree {
    /// A call whose answer has a length of its own.
    fn ask(&self, call: &Call<'_>) -> Result<Vec<u8>, Errno> {
        let mut batch = Batch::new(self.base.as_slice());
        batch.push_with_room(call, VALUE_BYTES);
        let reply = self.remote.call(&batch).map_err(|error| super::refused(&error))?;
        match last(&reply) {
            Ok(Told::Bytes(value)) => Ok(value.to_vec()),
            Ok(Told::Names(names)) => Ok(shown(names)),
            Ok(_) => Err(unexpected()),
            Err(errno) if are_none(errno) => Err(Errno::OPNOTSUPP),
            Err(errno) => Err(errno),
        }
    }

    fn sized(value: Vec<u8>, size: u32) -> Outcomes {
        match size as usize {
            // At most 66 KiB: fits.
            0 => Ok(Answer::Size(value.len() as u32)),
            most if value.len() > most => Err(Errno::RANGE),
            _ => Ok(Answer::Data(Bytes::from(value))),
        }
    }

    pub(super) fn xattr(&self, inode: u64, name: &[u8], size: u32) -> Outcomes {
        if is_of_security(name) {
            return Err(Errno::NODATA);
        }
        let path = self.path(inode)?;
        if is_listed_if_there(name)
            && let Some(names) = self.known_xattr_names(inode)?
            && !names.split(|byte| *byte == 0).any(|one| one == name)
        {
            return Err(Errno::NODATA);
        }
        Self::sized(self.ask(&Call::XattrValue { path: &path, name })?, size)
    }

    /// That a file has no such attribute, if that is known.
    pub(super) fn xattr_at_once(&self, inode: u64, name: &[u8]) -> Option<Outcomes> {
        if !self.known.xattr_names.are_kept() {
            // The kernel never asks again: `ls -l` would ask twice for each file.
            return Some(Err(Errno::NOSYS));
        }
        let is_none = is_of_security(name)
            || (is_listed_if_there(name)
                && self.present_xattr_names(inode)?.split(|byte| *byte == 0).all(|one| one != name));
        is_none.then_some(Err(Errno::NODATA))
    }

    pub(super) fn xattr_names(&self, inode: u64, size: u32) -> Outcomes {
        if !self.known.xattr_names.are_kept() {
            return Self::sized(Vec::new(), size);
        }
        let path = self.path(inode)?;
        if let Some(names) = self.known_xattr_names(inode)? {
            return Self::sized(names.to_vec(), size);
        }
        match self.ask(&Call::XattrNames { path: &path }) {
            // A file without attributes, as far as a program can see: cp -a would complain otherwise.
            Err(Errno::OPNOTSUPP) => Self::sized(Vec::new(), size),
            names => Self::sized(names?, size),
        }
    }

    /// The value of one, whether its name is known or not.
    pub(super) fn xattr_value(&self, inode: u64, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.ask(&Call::XattrValue { path: &self.path(inode)?, name })
    }

    pub(super) fn set_xattr(&self, inode: u64, name: &[u8], value: &[u8], flags: u32) -> Outcomes {
        let path = self.path_to_change(inode)?;
        let rule = match flags {
            0 => XattrRule::Any,
            1 => XattrRule::Create,
            2 => XattrRule::Replace,
            _ => return Err(Errno::INVAL),
        };
        let is_set = || match self.ask(&Call::XattrValue { path: &path, name }) {
            Ok(found) if found == value => Ok(Fate::Done),
            Ok(_) | Err(Errno::NODATA) => Ok(Fate::NotDone),
            Err(errno) => Err(errno),
        };
        self.changing_xattr(inode, Call::SetXattr { path: &path, name, rule, value }, is_set)
    }

    pub(super) fn remove_xattr(&self, inode: u64, name: &[u8]) -> Outcomes {
        let path = self.path_to_change(inode)?;
        let is_removed = || match self.ask(&Call::XattrValue { path: &path, name }) {
            Ok(_) => Ok(Fate::NotDone),
            Err(Errno::NODATA) => Ok(Fate::Done),
            Err(errno) => Err(errno),
        };
        self.changing_xattr(inode, Call::RemoveXattr { path: &path, name }, is_removed)
    }

    fn changing_xattr(&self, inode: u64, call: Call<'_>, fate: impl Fn() -> Result<Fate, Errno>) -> Outcomes {
        let change = || self.change_name_once(call, |_| fate());
        let changed = self.known.xattr_names.changing(inode, self.settings.valid, change);
        self.known.default_lists.forget(inode);
        match changed {
            Ok(()) => Ok(Answer::Done),
            // The export keeps no such attributes.
            Err(Errno::PERM) => Err(Errno::OPNOTSUPP),
            Err(errno) => Err(errno),
        }
    }
}
