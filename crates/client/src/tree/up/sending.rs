//! Sends entries as calls of a batch.

use super::Upload;
use super::task::{UploadEntry, UploadTask};
use crate::tree::endpoints::{Local, Remote};
use crate::tree::events::Observer;
use crate::tree::in_flight::BatchBuilder;
use crate::tree::replies::wait_for_descriptors;
use crate::tree::scheduler::{EXTRAS_BYTES_MAX, Run, TRIES_MAX, TreeCopy, Turn};
use crate::tree::{NotPreserved, Preserve, SET_ID, parse};
use xdfs_engine::kinds;
use xdfs_io::store::descriptors::are_scarce;
use xdfs_io::store::owners;
use xdfs_io::store::tree::{Node, NodeKind};
use xdfs_proto::base::{ErrorKind, RelPath};
use xdfs_proto::wire::path::{Attributes, Call, NewTime, Owner, Put, XattrRule};

impl Upload {
    pub(super) fn file(
        &mut self,
        remote: &mut dyn Remote,
        observer: &mut dyn Observer,
        mut entry: UploadEntry,
    ) -> Run<Turn<UploadTask>> {
        let Some((calls, bytes)) = self.above(remote, entry.directory) else {
            return Ok(Turn::Later(UploadTask::Entry(entry)));
        };
        if entry.detail.node.size > self.scheduler.content_max(remote, entry.path.len(), bytes) {
            return Ok(self.large(entry));
        }
        let extras = self.few(&mut entry);
        let size = entry.path.len() + entry.detail.node.size as usize + bytes + extras.bytes(entry.path.len());
        if !self.scheduler.make_room(remote, calls + 1 + extras.count(), size, 0) {
            return Ok(Turn::Later(UploadTask::Entry(entry)));
        }
        let read =
            parse(&entry.path).and_then(|path| self.store.read_small(&path, &entry.detail.node, &mut self.reading));
        let read = match read {
            Ok(read) => read,
            // It grew since it was listed.
            Err(error) if error.kind == ErrorKind::TooLarge => return Ok(self.large(entry)),
            // Requests in flight hold the descriptors; the file is read when one of them has ended.
            Err(error) if are_scarce(&error) => {
                wait_for_descriptors(self, error)?;
                return Ok(Turn::Later(UploadTask::Entry(entry)));
            }
            Err(error) if error.kind == ErrorKind::SourceChanged && entry.tries < TRIES_MAX => {
                return Ok(Turn::Later(UploadTask::Entry(self.anew(entry))));
            }
            Err(error) => {
                self.failed(observer, &entry, &error);
                return Ok(Turn::Taken);
            }
        };
        self.make_above(entry.directory);
        let hash =
            (self.options.verify >= crate::Verify::Hash).then(|| xdfs_secure::content::hash(self.reading.content()));
        let path = entry.path.clone();
        let put = Put {
            path: &path,
            keep_existing: self.options.keep_existing,
            parents: false,
            mode: entry.detail.node.mode & 0o777,
            modified: Some(read),
            holes: self.has_holes(&entry.detail.node),
            hash,
            content: self.reading.content(),
        };
        self.scheduler.batch.push(&Call::Put(put), UploadTask::Entry(entry));
        extras.push(&mut self.scheduler.batch, &path, UploadTask::Extra);
        Ok(Turn::Taken)
    }

    /// Whether the copy of a file is to have holes. Zeros in a file without holes are not searched
    /// for, and keep their space.
    pub(super) fn has_holes(&self, node: &Node) -> bool {
        self.options.keep.holes && node.allocated < node.size
    }

    /// Makes a file a transfer of its own.
    fn large(&mut self, entry: UploadEntry) -> Turn<UploadTask> {
        if !self.scheduler.takes_large() {
            return Turn::Later(UploadTask::Entry(entry));
        }
        if self.state.directories.get(entry.directory).is_some_and(|directory| !directory.presence.is_ready()) {
            self.scheduler.tasks.push(UploadTask::Make(entry.directory));
        }
        self.scheduler.large.push_back(entry);
        Turn::Taken
    }

    /// A file that changed while it was read, in its present state.
    fn anew(&self, entry: UploadEntry) -> UploadEntry {
        let node = RelPath::parse(&entry.path).ok().and_then(|at| self.store.node(&at).ok());
        let node = node.map_or_else(|| entry.detail.node.clone(), Box::new);
        let mut tried = entry.tried();
        tried.detail.node = node;
        tried
    }

    pub(super) fn symlink(
        &mut self,
        remote: &mut dyn Remote,
        observer: &mut dyn Observer,
        mut entry: UploadEntry,
    ) -> Run<Turn<UploadTask>> {
        let text = parse(&entry.path).and_then(|path| self.store.read_symlink(&path));
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                self.failed(observer, &entry, &error);
                return Ok(Turn::Taken);
            }
        };
        let Some((calls, bytes)) = self.above(remote, entry.directory) else {
            return Ok(Turn::Later(UploadTask::Entry(entry)));
        };
        let extras = self.few(&mut entry);
        let size = 2 * entry.path.len() + text.len() + bytes + extras.bytes(entry.path.len());
        if !self.scheduler.make_room(remote, calls + 2 + extras.count(), size, 0) {
            return Ok(Turn::Later(UploadTask::Entry(entry)));
        }
        self.make_above(entry.directory);
        let (path, modified) = (entry.path.clone(), Some(NewTime::At(entry.detail.node.modified)));
        self.scheduler.batch.push(&Call::Symlink { path: &path, target: &text }, UploadTask::Entry(entry));
        extras.push(&mut self.scheduler.batch, &path, UploadTask::Extra);
        self.scheduler
            .batch
            .push(&Call::SetTimes { path: &path, modified, accessed: None }, UploadTask::Extra(NotPreserved::TIME));
        Ok(Turn::Taken)
    }

    pub(super) fn special(&mut self, remote: &mut dyn Remote, mut entry: UploadEntry) -> Run<Turn<UploadTask>> {
        let Some((calls, bytes)) = self.above(remote, entry.directory) else {
            return Ok(Turn::Later(UploadTask::Entry(entry)));
        };
        let extras = self.few(&mut entry);
        let size = 2 * entry.path.len() + bytes + extras.bytes(entry.path.len());
        if !self.scheduler.make_room(remote, calls + 2 + extras.count(), size, 0) {
            return Ok(Turn::Later(UploadTask::Entry(entry)));
        }
        self.make_above(entry.directory);
        let (path, node) = (entry.path.clone(), entry.detail.node.clone());
        let (kind, device) = (kinds::told(node.kind), node.device);
        let call = Call::MakeNode { path: &path, kind, mode: node.mode & 0o777, device };
        self.scheduler.batch.push(&call, UploadTask::Entry(entry));
        extras.push(&mut self.scheduler.batch, &path, UploadTask::Extra);
        let modified = Some(NewTime::At(node.modified));
        self.scheduler
            .batch
            .push(&Call::SetTimes { path: &path, modified, accessed: None }, UploadTask::Extra(NotPreserved::TIME));
        Ok(Turn::Taken)
    }
}

impl Upload {
    /// The extras in the batch of the entry: none if they are too long, or if something else may
    /// have its name; then they follow it.
    fn few(&self, entry: &mut UploadEntry) -> Extras {
        let extras = self.extras(&entry.path, &entry.detail.node);
        let unknown = self.state.directories.get(entry.directory).is_none_or(|directory| directory.unknown);
        let long = extras.bytes(entry.path.len()) > EXTRAS_BYTES_MAX;
        let steps = long || extras.special_mode(true).is_some();
        entry.detail.follows = steps || extras.count() > 0 && (unknown || entry.detail.exists);
        if entry.detail.follows { Extras::default() } else { extras }
    }

    /// Sets the extras of an existing entry.
    pub(super) fn extras_alone(&mut self, remote: &mut dyn Remote, entry: UploadEntry) -> Run<Turn<UploadTask>> {
        let Extras { owner, mode, xattrs } = self.extras(&entry.path, &entry.detail.node);
        let first = Extras { owner, mode, xattrs: Vec::new() };
        let each = xattrs.into_iter().map(|xattr| Extras { xattrs: vec![xattr], ..Extras::default() });
        for extras in std::iter::once(first).chain(each) {
            let bytes = extras.bytes(entry.path.len());
            // A value may be as long as a whole record.
            if bytes + self.scheduler.base.len() + 1024 > remote.batch_bytes_max() {
                self.state.summary.reduce(NotPreserved::XATTR);
                continue;
            }
            // Starts from the beginning again: setting twice does no harm.
            if !self.scheduler.make_room(remote, extras.count(), bytes, 0) {
                return Ok(Turn::Later(UploadTask::Extras(entry)));
            }
            // If a session is lost it is unknown which of them were done: each is a reason to
            // repeat all.
            extras.push(&mut self.scheduler.batch, &entry.path, |kind| UploadTask::ExtraOf(entry.clone(), kind));
        }
        Ok(Turn::Taken)
    }
}

/// Owner and group.
#[derive(Debug)]
pub(super) struct Owned {
    numbers: (u32, u32),
    /// Empty if a number has no name, or if only numbers count.
    names: (&'static [u8], &'static [u8]),
}

impl Owned {
    pub(super) fn of(numbers: (u32, u32), numeric: bool) -> Self {
        let names = || (owners::known().users.name(numbers.0), owners::known().groups.name(numbers.1));
        Self { numbers, names: if numeric { Default::default() } else { names() } }
    }

    /// Whether the owner that a server reports is this one: by name if both sides have one.
    pub(super) fn is_told(&self, told: &Attributes<'_>) -> bool {
        let Some((user, group)) = told.owner else { return true };
        let (users_name, groups_name) = told.names.unwrap_or_default();
        let one = |name: &[u8], number: u32, their_name: &[u8], their_number: u32| match (name, their_name) {
            ([], _) | (_, []) => number == their_number,
            (name, their_name) => name == their_name,
        };
        one(self.names.0, self.numbers.0, users_name, user) && one(self.names.1, self.numbers.1, groups_name, group)
    }

    fn told(&self) -> (Option<Owner<'static>>, Option<Owner<'static>>) {
        let one = |name: &'static [u8], number| match name {
            [] => Owner::Number(number),
            name => Owner::Either(name, number),
        };
        (Some(one(self.names.0, self.numbers.0)), Some(one(self.names.1, self.numbers.1)))
    }
}

/// Metadata set besides the content of one name, in the required order: a new owner clears bits of
/// the mode.
#[derive(Debug, Default)]
pub(in crate::tree) struct Extras {
    pub(super) owner: Option<Owned>,
    pub(super) mode: Option<u32>,
    pub(super) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Extras {
    /// Those that `keep` asks for.
    pub(in crate::tree) fn of(store: &dyn Local, path: &[u8], node: &Node, keep: Preserve) -> Self {
        let owner = keep.owners.then(|| Owned::of(node.owner, keep.numeric));
        let mode = (keep.modes && node.kind != NodeKind::Symlink).then_some(node.mode);
        let mut extras = Self { owner, mode, ..Self::default() };
        if keep.xattrs
            && let Ok(at) = parse(path)
        {
            for name in store.xattrs(&at).unwrap_or_default() {
                // Removed meanwhile, or not readable.
                if let Ok(value) = store.xattr(&at, &name) {
                    extras.xattrs.push((name, value));
                }
            }
        }
        extras
    }

    /// Their calls about a path, each with what is not kept if it fails.
    pub(in crate::tree) fn calls<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = (Call<'a>, NotPreserved)> {
        let owner = self.owner.as_ref().map(|owned| {
            let (user, group) = owned.told();
            (Call::SetOwner { path, user, group }, NotPreserved::OWNER)
        });
        let bits = if self.special_mode(true).is_some() { 0o777 } else { 0o7777 };
        let mode = self.mode.map(|mode| (Call::SetMode { path, mode: mode & bits }, NotPreserved::MODE));
        let xattrs = self.xattrs.iter().map(move |(name, value)| {
            (Call::SetXattr { path, name, rule: XattrRule::Any, value }, NotPreserved::of_xattr(name))
        });
        owner.into_iter().chain(mode).chain(xattrs)
    }

    pub(super) fn mode(&mut self, mode: u32) {
        self.mode = Some(mode);
    }

    /// The mode with its bits beyond 0777, if there are any, to set once it is known whether the owner is the one that was asked
    /// for: if not, a program is not to run as another one.
    pub(in crate::tree) fn special_mode(&self, owned: bool) -> Option<u32> {
        let mode = self.mode.filter(|_| self.owner.is_some())?;
        let mode = if owned { mode } else { mode & !SET_ID };
        Some(mode).filter(|mode| mode & !0o777 != 0)
    }

    pub(super) fn count(&self) -> usize {
        usize::from(self.owner.is_some()) + usize::from(self.mode.is_some()) + self.xattrs.len()
    }

    /// Bytes of their calls about a path of this length.
    pub(super) fn bytes(&self, path: usize) -> usize {
        let owner = self.owner.as_ref().map_or(0, |owned| owned.names.0.len() + owned.names.1.len());
        self.count() * path + owner + self.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
    }

    /// Appends their calls, each with the task that its answer belongs to.
    pub(super) fn push(
        &self,
        filling: &mut BatchBuilder<UploadTask>,
        path: &[u8],
        task: impl Fn(NotPreserved) -> UploadTask,
    ) {
        for (call, kind) in self.calls(path) {
            filling.push(&call, task(kind));
        }
    }
}
