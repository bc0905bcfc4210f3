//! Calls that change names and attributes.

use super::CallContext;
use crate::authorise::Want;
use crate::clock::timestamp_now;
use xdfs_engine::kinds;
use xdfs_io::store::Existing;
use xdfs_io::store::owners::{self, Names};
use xdfs_io::store::tree::{AttributeChange, Special};
use xdfs_proto::base::{Error, ErrorKind, RelPath, Timestamp};
use xdfs_proto::wire::path::{Call, FileType, NewTime, Owner, XattrRule};

/// Levels of parent directories of a new directory that are collected, so that each is synced once
/// per batch.
const TOUCHED_DEPTH_MAX: usize = 64;

/// Permission bits that every user may set.
const PLAIN: u32 = 0o777;

impl CallContext {
    /// Executes a call that changes something and is not a small file.
    pub(super) fn change(&mut self, call: &Call<'_>) -> Result<(), Error> {
        match *call {
            Call::MakeDirectory { path, parents, mode } => {
                let at = self.at(path, Want::Write { keep: true })?;
                at.store().tree()?.make_directory(at.path(), self.mode(mode), parents)?;
                self.made(at.path(), parents);
                Ok(())
            }
            Call::RemoveDirectory { path } => {
                let at = self.at(path, Want::Change)?;
                at.store().tree()?.remove_directory(at.path()).map_err(not_empty)?;
                self.touched(at.path());
                Ok(())
            }
            Call::Unlink { path } => {
                let at = self.at(path, Want::Change)?;
                at.store().tree()?.remove(at.path())?;
                self.unnamed(&at);
                self.touched(at.path());
                Ok(())
            }
            Call::Rename { path, to, keep_existing } => {
                let (at, new) = (self.at(path, Want::Change)?, self.at(to, Want::Change)?);
                let existing = if keep_existing { Existing::Keep } else { Existing::Replace };
                at.store().tree()?.rename(at.path(), new.path(), existing)?;
                self.renamed(&at, &new);
                self.touched(at.path());
                self.touched(new.path());
                Ok(())
            }
            Call::Link { path, to } => {
                let (at, new) = (self.at(path, Want::Change)?, self.at(to, Want::Change)?);
                at.store().tree()?.link(at.path(), new.path())?;
                self.named(&new);
                self.touched(new.path());
                Ok(())
            }
            Call::Symlink { path, target } => {
                let at = self.at(path, Want::Change)?;
                at.store().tree()?.make_symlink(at.path(), target)?;
                self.touched(at.path());
                Ok(())
            }
            Call::PublishTree { path, client } => {
                // Synced even if the tree is already published: a client that retries must find it
                // on stable storage.
                let at = self.at(path, Want::Write { keep: true })?;
                self.touched(at.path());
                self.base.publish_tree(path, &client)
            }
            Call::MakeNode { path, kind, mode, device } => self.make_node(path, kind, mode, device),
            _ => self.attribute(call),
        }
    }

    /// Executes a call that changes attributes.
    fn attribute(&mut self, call: &Call<'_>) -> Result<(), Error> {
        let at = self.at(call.path(), Want::Change)?;
        self.granted(call)?;
        let tree = at.store().tree()?;
        match *call {
            Call::SetMode { mode, .. } => {
                tree.change(at.path(), &AttributeChange { mode: Some(mode), ..AttributeChange::default() })?;
            }
            Call::SetTimes { modified, accessed, .. } => {
                let (modified, accessed) = (modified.map(moment), accessed.map(moment));
                tree.change(at.path(), &AttributeChange { modified, accessed, ..AttributeChange::default() })?;
            }
            Call::Truncate { length, .. } => {
                tree.change(at.path(), &AttributeChange { length: Some(length), ..AttributeChange::default() })?;
            }
            Call::SetOwner { user, group, .. } => {
                let owner = (number(user, &owners::known().users)?, number(group, &owners::known().groups)?);
                tree.change(at.path(), &AttributeChange { owner, ..AttributeChange::default() })?;
            }
            Call::SetXattr { name, rule, value, .. } => {
                match (rule, tree.xattr(at.path(), name)) {
                    (XattrRule::Any, _) | (XattrRule::Replace, Ok(_)) => {}
                    (XattrRule::Create, Ok(_)) => {
                        return Err(Error::new(ErrorKind::AlreadyExists, "the attribute is there"));
                    }
                    (XattrRule::Create, Err(error)) if error.kind == ErrorKind::NotFound => {}
                    (_, Err(error)) => return Err(error),
                }
                tree.set_xattr(at.path(), name, value)?;
            }
            Call::RemoveXattr { name, .. } => {
                tree.remove_xattr(at.path(), name)?;
            }
            _ => return Err(Error::new(ErrorKind::Unsupported, "no such call")),
        }
        if self.durable {
            self.changed.add(at.path());
        }
        Ok(())
    }

    /// Whether the export accepts the attributes in the call.
    fn granted(&self, call: &Call<'_>) -> Result<(), Error> {
        let keep = self.base.keep();
        match *call {
            Call::SetMode { mode, .. } if mode & !PLAIN != 0 && !keep.modes => {
                Err(refused("bits of a mode beyond 0777", "modes"))
            }
            Call::SetOwner { .. } if !keep.owner => Err(refused("owners", "owner")),
            Call::SetXattr { name, .. } | Call::RemoveXattr { name, .. } => self.xattr_may(name),
            _ => Ok(()),
        }
    }

    fn make_node(&mut self, path: &[u8], kind: FileType, mode: u32, device: (u32, u32)) -> Result<(), Error> {
        let at = self.at(path, Want::Change)?;
        let pipe = kind == FileType::Fifo && self.base.pipes();
        if !self.base.keep().special && !pipe {
            return Err(refused("pipes, sockets and devices", "special"));
        }
        let refused = || Error::new(ErrorKind::Unsupported, "it is no special file");
        let kind = kinds::special(kind).ok_or_else(refused)?;
        at.store().tree()?.make_special(at.path(), &Special { kind, mode: self.mode(mode), device })?;
        self.touched(at.path());
        Ok(())
    }

    /// The permitted mode of a new file.
    pub(super) fn mode(&self, mode: u32) -> u32 {
        if self.base.keep().modes { mode } else { mode & PLAIN }
    }

    /// A directory was created, perhaps with its parents: each is an entry of its parent.
    pub(super) fn made(&mut self, path: &RelPath, parents: bool) {
        self.touched(path);
        let mut above = path.parent().filter(|_| parents && self.durable);
        if path.depth() > TOUCHED_DEPTH_MAX {
            // The paths of all of them together are far longer than the path itself.
            self.climb = above;
            return;
        }
        while let Some(one) = above {
            self.touched(&one);
            above = one.parent();
        }
    }

    /// Whether the extended attribute may be set; to the kernel an access control list is an
    /// extended attribute, to a copy it is not.
    fn xattr_may(&self, name: &[u8]) -> Result<(), Error> {
        let keep = self.base.keep();
        match name {
            b"system.posix_acl_access" | b"system.posix_acl_default" if keep.acl => Ok(()),
            b"system.posix_acl_access" | b"system.posix_acl_default" => Err(refused("access control lists", "acl")),
            _ if name.starts_with(b"user.") && keep.xattr => Ok(()),
            // Attributes that the kernel acts on (capabilities, labels) require the same grants as
            // an owner.
            _ if keep.xattr && keep.owner && keep.modes => Ok(()),
            _ if name.starts_with(b"user.") => Err(refused("extended attributes", "xattr")),
            _ => Err(refused("extended attributes that are not 'user.'", "xattr, owner and modes")),
        }
    }
}

fn refused(what: &str, grant: &str) -> Error {
    Error::new(ErrorKind::Refused, format!("the export does not take {what} (keep = [...] without {grant})"))
}

fn not_empty(error: Error) -> Error {
    if error.kind == ErrorKind::AlreadyExists { Error { kind: ErrorKind::NotEmpty, ..error } } else { error }
}

/// The number of an owner; none keeps the current one.
fn number(owner: Option<Owner<'_>>, names: &Names) -> Result<Option<u32>, Error> {
    let Some(owner) = owner else { return Ok(None) };
    let number = match owner {
        Owner::Number(number) => Some(number),
        Owner::Name(name) => names.number(name),
        Owner::Either(name, number) => names.number(name).or(Some(number)),
    };
    number.map(Some).ok_or_else(|| Error::new(ErrorKind::Unsupported, "nobody has this name here"))
}

/// A time to set.
fn moment(time: NewTime) -> Timestamp {
    match time {
        NewTime::At(time) => time,
        NewTime::Now => timestamp_now(),
    }
}
