//! Calls that only read: attributes, pages of directories, hashes, free space.

use super::{CallContext, CallError, RunningHash};
use crate::authorise::{Authorized, Preserve, Want};
use crate::files::leases::{file_at, key_of};
use crate::files::openers::OpenerFacts;
use crate::replies::{attributes_of, failure, plain};
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};
use xdfs_engine::blocking::Slice;
use xdfs_engine::transfer::sum::RangeHash;
use xdfs_io::store::tree::{ListControl, Node, NodeKind};
use xdfs_proto::base::{Error, ErrorKind, RelPath};
use xdfs_proto::wire::path::{
    Answer, Attributes, FileSystem, Kept, ListEntry, Opener, Openers, ReplyWriter, Wanted, Watched,
};

/// How long a page is collected: the first entries of a large directory arrive soon (P-72).
const PAGE_TIME: Duration = Duration::from_millis(20);
/// Entries between two checks of the clock.
const PAGE_STEP: u32 = 64;

impl CallContext {
    /// Begins or ends a watch of names.
    pub(super) fn watch(&self, path: &[u8], watched: Watched, number: u64) -> Result<Answer<'static>, Error> {
        if watched == Watched::Nothing {
            self.watches.end(number);
            return Ok(Answer::Done);
        }
        let at = self.at(path, Want::Read)?;
        let none = || Error::new(ErrorKind::Unsupported, "a tree that is on its way cannot be watched");
        let name = self.base.name_of(&at).ok_or_else(none)?;
        self.watches.watch(&at, &name, watched, number).map(|()| Answer::Done)
    }
}

/// Whether a name has extended attributes, if that was requested and nothing changes meanwhile.
fn has_xattrs(at: &Authorized, path: &RelPath, wanted: Wanted) -> Option<bool> {
    let tree = at.store().tree().ok().filter(|_| wanted.has(Wanted::XATTRS))?;
    tree.xattrs(path).ok().map(|names| !names.is_empty())
}

/// What may be set in an export, as clients are told.
fn kept(keep: Preserve) -> Kept {
    Kept::default()
        .with(Kept::MODES, keep.modes)
        .with(Kept::OWNER, keep.owner)
        .with(Kept::ACL, keep.acl)
        .with(Kept::XATTR, keep.xattr)
        .with(Kept::SPECIAL, keep.special)
}

/// The path of a name in a directory.
fn below(at: &Authorized, name: &[u8]) -> Option<RelPath> {
    let mut path = at.path().clone();
    path.push(name).ok()?;
    Some(path)
}

impl CallContext {
    pub(super) fn stat(&mut self, path: &[u8], wanted: Wanted, writer: &mut ReplyWriter) -> Result<(), Error> {
        let told = self.at(path, Want::Read).and_then(|at| {
            let kept = wanted.has(Wanted::KEPT).then(|| kept(self.base.keep()));
            let Ok(tree) = at.store().tree() else {
                let attributes = at.store().attributes(at.path())?;
                writer.answer(&Answer::Attributes(Attributes { kept, ..plain(&attributes, wanted) }));
                return Ok(at);
            };
            let node = tree.node(at.path())?;
            let target = self.target(&at, &node, wanted);
            let xattrs = has_xattrs(&at, at.path(), wanted);
            let attributes = Attributes { xattrs, kept, ..attributes_of(&node, wanted, target.as_deref()) };
            writer.answer(&Answer::Attributes(attributes));
            Ok(at)
        });
        // Whoever asks with a durable batch takes what is there for what was made before its answer was lost.
        let told = told.map(|at| {
            if self.durable && at.store().tree().is_ok() && self.at(path, Want::Write { keep: true }).is_ok() {
                self.touched(at.path());
            }
        });
        told.inspect_err(|error| writer.fail(failure(error)))
    }

    /// The target of a symlink, if it was requested; it may have changed meanwhile, and is not
    /// reported then.
    fn target(&self, at: &Authorized, node: &Node, wanted: Wanted) -> Option<Vec<u8>> {
        if node.kind != NodeKind::Symlink || !wanted.has(Wanted::TARGET) {
            return None;
        }
        at.store().tree().and_then(|tree| tree.read_symlink(at.path())).ok()
    }

    pub(super) fn list(
        &mut self,
        path: &[u8],
        wanted: Wanted,
        cursor: &[u8],
        writer: &mut ReplyWriter,
    ) -> Result<(), CallError> {
        let at = match self.at(path, Want::Read) {
            Ok(at) => at,
            Err(error) => {
                writer.fail(failure(&error));
                return Err(error.into());
            }
        };
        let mut page = writer.listing();
        let until = Instant::now() + PAGE_TIME;
        let mut excluded = None;
        let mut take = |name: &[u8], node: &Node| {
            if page.entries() > 0 && page.entries().is_multiple_of(PAGE_STEP) && Instant::now() >= until {
                return ListControl::Stop;
            }
            if let Err(error) = self.look_at(node) {
                excluded = Some(error);
                return ListControl::Stop;
            }
            let target = match node.kind {
                NodeKind::Symlink if wanted.has(Wanted::TARGET) => {
                    below(&at, name).and_then(|path| at.store().tree().ok()?.read_symlink(&path).ok())
                }
                _ => None,
            };
            let xattrs = below(&at, name).and_then(|path| has_xattrs(&at, &path, wanted));
            let attributes = Attributes { xattrs, ..attributes_of(node, wanted, target.as_deref()) };
            if page.push(&ListEntry { name, attributes }) { ListControl::More } else { ListControl::Stop }
        };
        let listed = at.store().tree().and_then(|tree| tree.list(at.path(), cursor, &mut take));
        if let (Some(_), Ok(Some(behind))) = (&excluded, &listed) {
            self.recall_behind(&at, behind);
        }
        // What is in front of such a file is told now.
        if let Some(error) = excluded.filter(|_| page.entries() == 0) {
            page.fail(failure(&error));
            return Err(CallError::Excluded(error));
        }
        match listed {
            Ok(next) => {
                page.finish(next.is_none(), next.as_deref().unwrap_or_default());
                Ok(())
            }
            Err(error) => {
                page.fail(failure(&error));
                Err(error.into())
            }
        }
    }

    pub(super) fn xattr_names(&mut self, path: &[u8], writer: &mut ReplyWriter) -> Result<(), Error> {
        let names = self.at(path, Want::Read).and_then(|at| at.store().tree()?.xattrs(at.path()));
        match names {
            Ok(names) => {
                writer.names(names.iter().map(Vec::as_slice));
                Ok(())
            }
            Err(error) => {
                writer.fail(failure(&error));
                Err(error)
            }
        }
    }

    /// Has the leases recalled of the files that follow in a directory, so that they end together: whoever lists it waits for
    /// one of them, and not for one after the other.
    fn recall_behind(&self, at: &Authorized, cursor: &[u8]) {
        let until = Instant::now() + PAGE_TIME;
        let mut recall = |_: &[u8], node: &Node| {
            // What excludes it is told when its page is listed.
            let _ = self.look_at(node);
            if Instant::now() < until { ListControl::More } else { ListControl::Stop }
        };
        let _ = at.store().tree().and_then(|tree| tree.list(at.path(), cursor, &mut recall));
    }

    /// Who has the file open. Account names are hidden from anonymous users.
    pub(super) fn openers(&mut self, path: &[u8], writer: &mut ReplyWriter) -> Result<(), Error> {
        let told = self.at(path, Want::Read).and_then(|at| {
            let node = at.store().tree()?.node(at.path())?;
            let (facts, complete) = self.files.openers(&key_of(node.identity));
            fn told(one: &OpenerFacts, named: bool) -> Opener<'_> {
                Opener { user: if named { one.user.as_bytes() } else { b"" }, does: one.does, ranges: one.ranges }
            }
            let named = !self.base.is_visitor();
            let list = facts.iter().map(|one| told(one, named)).collect();
            writer.answer(&Answer::Openers(Openers { list, complete }));
            Ok(())
        });
        told.inspect_err(|error| writer.fail(failure(error)))
    }

    pub(super) fn space(&mut self, path: &[u8]) -> Result<Answer<'static>, Error> {
        let at = self.at(path, Want::Read)?;
        let space = at.store().tree()?.space(at.path())?;
        let (bytes, free, available) = space.bytes;
        let (files, files_free) = space.files;
        Ok(Answer::FileSystem(FileSystem { block: 0, bytes, free, available, files, files_free }))
    }

    pub(super) fn begin_hash(&self, path: &[u8], offset: u64, length: Option<u64>) -> Result<RunningHash, CallError> {
        let file = || self.at(path, Want::Read).ok().as_ref().and_then(file_at);
        let _access = self.files.look_for_long(file).map_err(CallError::Excluded)?;
        let at = self.at(path, Want::Read)?;
        let hash = RangeHash::asked_for(at.store().open(at.path())?, offset, length)?;
        Ok(RunningHash { hash, _access })
    }

    pub(super) fn advance_hash(
        &self,
        running: &mut RunningHash,
        slice: &Slice,
    ) -> Result<Poll<Answer<'static>>, CallError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "nobody waits for the hash any more").into());
        }
        let length = running.hash.length();
        Ok(running.hash.advance(slice)?.map(|digest| Answer::Hash { length, digest }))
    }
}
