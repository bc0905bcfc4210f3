//! Files in memory: small, bounded, readable back. Used by tests and simulations; nothing survives
//! the process.
//!
//! It keeps the contract of stores exactly, so that tests on it are not weaker than tests on a
//! disk.

use super::errors::{self, Verb};
use super::{
    Attributes, Base, Capability, CommitRequest, Existing, FileKind, Order, Result, Source, SourceCapability,
    SourceFile, Stage, StageRequest, StagedFile, Store, Version,
};
use rustix::fs::FileType;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xdfs_proto::base::{Error, ErrorKind, RelPath, Timestamp};

/// A tree of files in memory. Cheap to clone: clones share the tree.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    tree: Arc<Mutex<MemoryTree>>,
}

#[derive(Debug)]
struct MemoryTree {
    nodes: BTreeMap<RelPath, MemoryNode>,
    /// Bytes of all files and stages.
    used: u64,
    /// Maximum of `used`.
    limit: u64,
    /// Counts commits; the version of a file is the number of its commit.
    commits: u64,
}

#[derive(Clone, Debug)]
enum MemoryNode {
    Directory,
    /// A file that is neither regular nor a directory.
    Special,
    File(Arc<Content>),
}

#[derive(Debug)]
struct Content {
    bytes: Vec<u8>,
    attributes: Attributes,
}

impl MemoryStore {
    /// An empty tree that holds at most `limit` bytes, including stages.
    pub fn new(limit: u64) -> Self {
        let tree = MemoryTree { nodes: BTreeMap::new(), used: 0, limit, commits: 0 };
        Self { tree: Arc::new(Mutex::new(tree)) }
    }

    /// Creates a whole file without a date. Its directory must exist.
    pub fn put(&self, path: &RelPath, bytes: &[u8]) -> Result<()> {
        self.put_dated(path, bytes, None)
    }

    /// The same with a modification time.
    pub fn put_dated(&self, path: &RelPath, bytes: &[u8], modified: Option<Timestamp>) -> Result<()> {
        let request = StageRequest {
            target: path.clone(),
            size: None,
            existing: Existing::Replace,
            transfer: Default::default(),
            resume: None,
            base: None,
            holes: false,
        };
        let stage = self.stage(&request)?;
        stage.write(bytes, 0)?;
        stage.commit(&CommitRequest { length: bytes.len() as u64, mode: 0o644, modified }).map(drop)
    }

    /// Creates the directory `path`. Its parent must exist.
    pub fn create_directory(&self, path: &RelPath) -> Result<()> {
        self.create_node(path, MemoryNode::Directory)
    }

    /// Creates a file that is neither regular nor a directory, such as a FIFO.
    pub fn create_special(&self, path: &RelPath) -> Result<()> {
        self.create_node(path, MemoryNode::Special)
    }

    fn create_node(&self, path: &RelPath, node: MemoryNode) -> Result<()> {
        let mut tree = self.tree();
        tree.must_have_parent(path)?;
        if tree.node(path).is_some() {
            return Err(refused(ErrorKind::AlreadyExists, path, "it already exists"));
        }
        tree.nodes.insert(path.clone(), node);
        Ok(())
    }

    /// The bytes of the file `path`; none when there is no such file.
    pub fn content(&self, path: &RelPath) -> Option<Vec<u8>> {
        match self.tree().nodes.get(path) {
            Some(MemoryNode::File(content)) => Some(content.bytes.clone()),
            _ => None,
        }
    }

    /// Every name in the tree, in order.
    pub fn paths(&self) -> Vec<RelPath> {
        self.tree().nodes.keys().cloned().collect()
    }

    /// Bytes held by files and stages.
    pub fn used(&self) -> u64 {
        self.tree().used
    }

    fn tree(&self) -> MutexGuard<'_, MemoryTree> {
        // A panic elsewhere leaves at worst a stage that is still counted; the tree itself is
        // intact.
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn capability(&self) -> Capability {
        Capability { order: Order::Any, descriptor: false, writable: true, persistent: false }
    }

    fn attributes(&self, path: &RelPath) -> Result<Attributes> {
        self.tree().attributes(path, Verb::Look)
    }

    fn open(&self, path: &RelPath) -> Result<Source> {
        let tree = self.tree();
        match tree.node(path) {
            Some(MemoryNode::File(content)) => {
                Ok(Source::new(MemorySource { content, shown: errors::shown("", path) }))
            }
            _ => match tree.attributes(path, Verb::Open)?.kind {
                FileKind::Directory => {
                    Err(errors::refused(ErrorKind::IsDirectory, Verb::Open, &errors::shown("", path), "is a directory"))
                }
                _ => {
                    let because = "is a special file, not a regular file";
                    Err(errors::refused(ErrorKind::NotRegular, Verb::Open, &errors::shown("", path), because))
                }
            },
        }
    }

    fn stage(&self, request: &StageRequest) -> Result<Stage> {
        let tree = self.tree();
        tree.must_have_parent(&request.target)?;
        let of_size = |content: &Content| request.size == content.attributes.size;
        if tree.copy_of(&request.target, request.base.as_ref(), of_size)?.is_none() {
            tree.must_admit(&request.target, request.existing)?;
        }
        if let Some(size) = request.size {
            tree.must_have_room(&request.target, size)?;
        }
        Ok(Stage::new(MemoryStage {
            store: self.clone(),
            shown: errors::shown("", &request.target),
            target: request.target.clone(),
            existing: request.existing,
            base: request.base.clone(),
            draft: Mutex::new(Draft::default()),
        }))
    }

    fn make_parents(&self, path: &RelPath) -> Result<()> {
        let mut tree = self.tree();
        let mut above = RelPath::default();
        for component in path.components().take(path.depth().saturating_sub(1)) {
            // Came from a path, so it is a valid component.
            let _ = above.push(component);
            if tree.node(&above).is_none() {
                tree.must_have_parent(&above)?;
                tree.nodes.insert(above.clone(), MemoryNode::Directory);
            }
        }
        Ok(())
    }
}

impl MemoryTree {
    /// The node at `path`; the root is an implicit directory.
    fn node(&self, path: &RelPath) -> Option<MemoryNode> {
        if path.is_root() { Some(MemoryNode::Directory) } else { self.nodes.get(path).cloned() }
    }

    fn attributes(&self, path: &RelPath, verb: Verb) -> Result<Attributes> {
        match self.node(path) {
            Some(MemoryNode::File(content)) => Ok(content.attributes.clone()),
            Some(MemoryNode::Directory) => Ok(Attributes::bare(FileKind::Directory)),
            Some(MemoryNode::Special) => Ok(Attributes::bare(FileKind::Other)),
            None => {
                let because = "no such file or directory";
                Err(errors::refused(ErrorKind::NotFound, verb, &errors::shown("", path), because))
            }
        }
    }

    /// Creates a file of `bytes`, which are counted already, and removes the existing one.
    fn place(&mut self, path: &RelPath, bytes: Vec<u8>, mode: u32, modified: Option<Timestamp>) -> Attributes {
        self.commits += 1;
        let attributes = Attributes {
            kind: FileKind::Regular,
            size: Some(bytes.len() as u64),
            mode: mode & 0o777,
            modified: modified.unwrap_or_default(),
            version: Version(self.commits.to_be_bytes().to_vec()),
        };
        let content = Content { bytes, attributes: attributes.clone() };
        if let Some(MemoryNode::File(old)) = self.nodes.insert(path.clone(), MemoryNode::File(Arc::new(content))) {
            self.used -= old.bytes.len() as u64;
        }
        attributes
    }

    fn must_have_parent(&self, path: &RelPath) -> Result<()> {
        let Some(parent) = path.parent() else {
            return Err(refused(ErrorKind::IsDirectory, path, "is a directory"));
        };
        let shown = errors::shown("", &parent);
        match self.node(&parent) {
            Some(MemoryNode::Directory) => Ok(()),
            Some(_) => Err(refused(ErrorKind::NotDirectory, path, &format!("'{shown}' is not a directory"))),
            None => Err(refused(ErrorKind::NotFound, path, &format!("no such directory '{shown}'"))),
        }
    }

    fn must_admit(&self, path: &RelPath, existing: Existing) -> Result<()> {
        let kind = match self.node(path) {
            None => return Ok(()),
            Some(MemoryNode::File(_)) if existing != Existing::Keep => return Ok(()),
            Some(MemoryNode::File(_)) => return Err(refused(ErrorKind::AlreadyExists, path, "it already exists")),
            Some(MemoryNode::Directory) => FileType::Directory,
            Some(MemoryNode::Special) => FileType::Unknown,
        };
        let (error, what) = errors::kind_words(kind);
        Err(refused(error, path, &format!("{what} is in the way")))
    }

    /// The existing file, where it is not what a retried copy may replace but the copy itself, as
    /// far as its date and `same` tell; none if it may be replaced. An error if it is neither.
    fn copy_of(
        &self,
        path: &RelPath,
        base: Option<&Base>,
        same: impl Fn(&Content) -> bool,
    ) -> Result<Option<Arc<Content>>> {
        let Some(base) = base else { return Ok(None) };
        let found = match self.node(path) {
            Some(MemoryNode::File(content)) => Some(content),
            _ => None,
        };
        if found.as_ref().map_or(&[][..], |content| &content.attributes.version.0) == base.version.as_slice() {
            return Ok(None);
        }
        let copy = found.filter(|content| same(content) && Some(content.attributes.modified) == base.modified);
        copy.map(Some).ok_or_else(|| errors::target_changed(&errors::shown("", path)))
    }

    fn must_have_room(&self, path: &RelPath, more: u64) -> Result<()> {
        let free = self.limit.saturating_sub(self.used);
        if more <= free {
            return Ok(());
        }
        let because = format!(
            "no space left on device: {} needed, {} free, {} missing",
            errors::amount(more),
            errors::amount(free),
            errors::amount(more - free)
        );
        Err(refused(ErrorKind::NoSpace, path, &because))
    }
}

fn refused(kind: ErrorKind, path: &RelPath, because: &str) -> Error {
    errors::refused(kind, Verb::Create, &errors::shown("", path), because)
}

/// A file in the state in which it was opened: later commits do not change it.
#[derive(Debug)]
pub struct MemorySource {
    content: Arc<Content>,
    shown: String,
}

impl SourceFile for MemorySource {
    fn capability(&self) -> SourceCapability {
        SourceCapability { local: true, ..SourceCapability::default() }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.content.bytes.get(start..).unwrap_or_default();
        let count = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }

    fn attributes(&self) -> &Attributes {
        &self.content.attributes
    }

    /// Bytes that nobody dated have the date zero.
    fn modified(&self) -> Option<Timestamp> {
        Some(self.content.attributes.modified).filter(|date| *date != Timestamp::default())
    }

    fn shown(&self) -> &str {
        &self.shown
    }
}

/// A file of a [`MemoryStore`] that is being written.
#[derive(Debug)]
pub struct MemoryStage {
    store: MemoryStore,
    target: RelPath,
    shown: String,
    existing: Existing,
    /// What a retried copy may replace.
    base: Option<Base>,
    draft: Mutex<Draft>,
}

/// What was written, and how far it has come.
#[derive(Debug, Default)]
struct Draft {
    bytes: Vec<u8>,
    state: DraftState,
}

/// The life of a [`Draft`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum DraftState {
    /// It can be written and committed.
    #[default]
    Open,
    /// A write failed: it cannot be committed.
    Failed,
    /// Its bytes are the target's.
    Named,
    /// The existing target is this same copy and was kept.
    Superfluous,
}

impl Draft {
    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl StagedFile for MemoryStage {
    fn write(&self, buf: &[u8], offset: u64) -> Result<()> {
        let mut draft = self.draft.lock().unwrap_or_else(PoisonError::into_inner);
        // The caller checked that the end is below 2^63.
        let end = offset + buf.len() as u64;
        let length = draft.length();
        if !buf.is_empty()
            && end > length
            && let Err(error) = self.resize(&mut draft, end)
        {
            draft.state = DraftState::Failed;
            return Err(error);
        }
        // Below `end`, which fits into memory since `resize` succeeded.
        let start = offset as usize;
        if let Some(part) = draft.bytes.get_mut(start..start.saturating_add(buf.len())) {
            part.copy_from_slice(buf);
        }
        Ok(())
    }

    fn finish(&self, request: &CommitRequest) -> Result<()> {
        let mut draft = self.draft.lock().unwrap_or_else(PoisonError::into_inner);
        if draft.state == DraftState::Failed {
            return Err(refused(ErrorKind::Storage, &self.target, "an earlier write failed"));
        }
        self.resize(&mut draft, request.length)
    }

    fn name(&mut self, request: &CommitRequest) -> Result<Attributes> {
        let mut draft = self.draft.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tree = self.store.tree();
        tree.must_have_parent(&self.target)?;
        let same = |content: &Content| content.bytes == draft.bytes;
        if let Some(copy) = tree.copy_of(&self.target, self.base.as_ref(), same)? {
            draft.state = DraftState::Superfluous;
            return Ok(copy.attributes.clone());
        }
        tree.must_admit(&self.target, self.existing)?;
        draft.state = DraftState::Named;
        // The bytes stay counted: they belong to the file now, and the dropped draft is empty.
        Ok(tree.place(&self.target, std::mem::take(&mut draft.bytes), request.mode, request.modified))
    }

    fn unchanged(&self) -> bool {
        let draft = self.draft.lock().unwrap_or_else(PoisonError::into_inner);
        draft.state == DraftState::Superfluous
    }

    fn shown(&self) -> &str {
        &self.shown
    }
}

impl MemoryStage {
    /// Resizes the draft to `length` bytes and counts them.
    fn resize(&self, draft: &mut Draft, length: u64) -> Result<()> {
        let mut tree = self.store.tree();
        let before = draft.length();
        if length > before {
            tree.must_have_room(&self.target, length - before)?;
        }
        tree.used = tree.used - before + length;
        // At most `limit`, which the creator of the store chose to fit into memory.
        draft.bytes.resize(length as usize, 0);
        Ok(())
    }
}

impl Drop for MemoryStage {
    fn drop(&mut self) {
        let draft = self.draft.get_mut().unwrap_or_else(PoisonError::into_inner);
        let length = draft.length();
        self.store.tree().used -= length;
    }
}
