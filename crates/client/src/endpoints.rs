//! The local ends of a transfer: the source of an upload and the target of a download.

use crate::journal::authenticated;
use crate::options::made_with;
use std::sync::Arc;
use xdfs_engine::host::{Staged, StorageJob};
use xdfs_engine::transfer::{SourceSide, sum};
use xdfs_io::store::{Existing, Kept, LocalPlace, MemoryStore, Resume, Source, Stage, StageRequest, Store};
use xdfs_proto::base::{Digest, Error, ErrorKind, RelPath, Timestamp, TransferId};
use xdfs_proto::wire::control::Grant;

/// Largest download that [`Target::memory`] accepts.
const MEMORY_TARGET_BYTES: u64 = 1 << 30;

/// The source of an upload.
#[derive(Debug)]
pub struct Payload {
    pub(crate) source: Source,
    pub(crate) offset: u64,
    pub(crate) length: Option<u64>,
}

impl Payload {
    /// Bytes of memory, without a date: a copy gets that of its end.
    pub fn bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        Self::of_memory(&bytes, None)
    }

    /// The same with a modification time, in seconds and nanoseconds since 1970: by it a server knows an
    /// upload again whose answer was lost.
    pub fn dated(bytes: &[u8], modified: Timestamp) -> Result<Self, Error> {
        Self::of_memory(bytes, Some(modified))
    }

    fn of_memory(bytes: &[u8], modified: Option<Timestamp>) -> Result<Self, Error> {
        let store = MemoryStore::new(bytes.len() as u64);
        let path = RelPath::parse(b"bytes").map_err(|error| Error::new(ErrorKind::InvalidPath, error.to_string()))?;
        store.put_dated(&path, bytes, modified)?;
        Self::source(store.open(&path)?, 0, None)
    }

    /// A local file as the user typed it, or anything else under this name that can be read in
    /// order.
    pub fn file(path: &[u8]) -> Result<Self, Error> {
        Self::source(LocalPlace::of(path)?.open()?, 0, None)
    }

    /// A range of a source: `length` bytes from `offset`, or up to its end. A source that is read
    /// in order (a pipe) has to start at 0; its length may be unknown.
    pub fn source(source: Source, offset: u64, length: Option<u64>) -> Result<Self, Error> {
        if source.is_sequential() {
            if offset > 0 {
                return Err(Error::new(ErrorKind::OutOfRange, format!("{} cannot start at an offset", source.shown())));
            }
            return Ok(Self { source, offset, length });
        }
        let length = match (source.attributes().size, length) {
            (None, None) => {
                let text = format!("{} has no end: name a length", source.shown());
                return Err(Error::new(ErrorKind::OutOfRange, text));
            }
            (None, Some(length)) => length,
            (Some(size), wanted) => {
                let rest = size.checked_sub(offset);
                let fits = rest.filter(|rest| wanted.is_none_or(|wanted| wanted <= *rest));
                let Some(rest) = fits else {
                    let end = offset.saturating_add(wanted.unwrap_or(0));
                    let text = format!("bytes {offset}..{end} asked of '{}', which has {size}", source.shown());
                    return Err(Error::new(ErrorKind::OutOfRange, text));
                };
                wanted.unwrap_or(rest)
            }
        };
        Ok(Self { source, offset, length: Some(length) })
    }

    /// The hash of these bytes, as [`crate::Session::sum`] reports it for a server's file. Reads
    /// them all.
    pub fn sum(self) -> Result<Digest, Error> {
        match self.length {
            Some(length) if !self.source.is_sequential() => sum::of_range(self.source, self.offset, length),
            limit => sum::of_stream(self.source, limit),
        }
    }

    /// Bytes of the transfer, if known.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    pub(crate) fn into_side(self) -> SourceSide {
        if self.source.is_sequential() {
            return SourceSide::Stream { source: self.source, limit: self.length };
        }
        SourceSide::Ranges { source: self.source, offset: self.offset }
    }
}

/// What a request moves at this end.
pub(crate) enum LocalEnd {
    /// The source of an upload.
    Source(Payload),
    /// The target of a download.
    Target(RequestedTarget),
    /// Nothing: the hash of a file is requested.
    Nothing,
}

/// What a target receives when the server has described the file.
#[derive(Clone, Debug)]
pub struct TargetInfo {
    /// Bytes, if known.
    pub size: Option<u64>,
    /// Identifies the transfer.
    pub transfer: TransferId,
    /// It may resume an earlier attempt.
    pub resume: Option<Resume>,
}

/// Makes the stage.
type Prepare = Box<dyn FnOnce(TargetInfo) -> StorageJob<Stage> + Send>;
/// Finds what an earlier attempt with this id left.
pub(crate) type Look = Box<dyn FnOnce(TransferId) -> Option<Kept> + Send>;

/// Shorter transfers are not resumed: sending them again is faster than finding a part file.
pub(crate) const RESUME_BYTES_MIN: u64 = 1 << 20;

/// The target of a download.
pub struct Target {
    /// Makes the stage, once the server has described the file.
    prepare: Prepare,
    /// Finds what an earlier attempt left; `None` if nothing ever is left.
    look: Option<Look>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Target")
    }
}

/// The content that a [`Target::memory`] received.
#[derive(Clone, Debug)]
pub struct Content(Arc<MemoryStore>);

impl Content {
    /// The bytes, once the transfer has succeeded.
    pub fn take(&self) -> Option<Vec<u8>> {
        RelPath::parse(b"content").ok().and_then(|path| self.0.content(&path))
    }
}

impl Target {
    /// The stage that `stage` returns when the server has reported the length of the file.
    pub fn stage(stage: impl FnOnce(Option<u64>, TransferId) -> Result<Stage, Error> + Send + 'static) -> Self {
        Self { prepare: Box::new(move |asked| Box::new(move || stage(asked.size, asked.transfer))), look: None }
    }

    /// The same for a target where an earlier attempt may have left something: `look` finds it by
    /// its id, before the server is asked.
    pub fn resumable(
        look: impl FnOnce(TransferId) -> Option<Kept> + Send + 'static,
        stage: impl FnOnce(TargetInfo) -> Result<Stage, Error> + Send + 'static,
    ) -> Self {
        Self { prepare: Box::new(move |asked| Box::new(move || stage(asked))), look: Some(Box::new(look)) }
    }

    /// A local file as the user typed it.
    pub fn file(path: &[u8], existing: Existing) -> Result<Self, Error> {
        Ok(Self::place(LocalPlace::of(path)?, existing))
    }

    /// A local file that was already looked up.
    pub fn place(mut place: LocalPlace, existing: Existing) -> Self {
        place.store = authenticated(place.store);
        let looked = place.clone();
        Self::resumable(
            move |transfer| looked.kept(transfer),
            move |staging| place.stage(staging.size, existing, staging.transfer, staging.resume, None, false),
        )
    }

    /// Discards the bytes.
    pub fn null() -> Self {
        Self::stage(|_, _| Ok(Stage::null()))
    }

    /// Standard output, in order.
    pub fn standard_output() -> Self {
        Self::stage(|_, _| Stage::standard_output())
    }

    /// Memory of this process.
    pub fn memory() -> (Self, Content) {
        let store = Arc::new(MemoryStore::new(MEMORY_TARGET_BYTES));
        let content = Content(Arc::clone(&store));
        let stage = Self::stage(move |size, transfer| {
            let invalid = |error| Error::new(ErrorKind::InvalidPath, format!("{error}"));
            let target = RelPath::parse(b"content").map_err(invalid)?;
            let existing = Existing::Replace;
            store.stage(&StageRequest { target, size, existing, transfer, resume: None, base: None, holes: false })
        });
        (stage, content)
    }

    /// For a request. Where an earlier attempt may have left something that is to be `resume`d, with what finds it.
    pub(crate) fn requested(self, resume: bool, owner_follows: bool) -> (RequestedTarget, Option<Look>) {
        let look = self.look.filter(|_| resume);
        (RequestedTarget { prepare: self.prepare, resume: look.is_some(), owner_follows }, look)
    }
}

/// The target of a download that is requested.
pub(crate) struct RequestedTarget {
    prepare: Prepare,
    /// What arrives may be kept for another attempt.
    resume: bool,
    /// Owner and mode are set afterwards.
    owner_follows: bool,
}

impl RequestedTarget {
    /// The stage for what the server has described in its grant.
    pub(crate) fn prepare(self, grant: &Grant, transfer: TransferId, synced: bool) -> StorageJob<Staged> {
        let (mode, modified) = (made_with(grant.mode, self.owner_follows), grant.modified);
        let long = grant.length.is_some_and(|length| length >= RESUME_BYTES_MIN);
        // Unverified ranges count if the server has reported that they are compared.
        let hashed = grant.hash && grant.unverified && !grant.kept.is_empty();
        let resume = (self.resume && long && !grant.version.is_empty()).then(|| Resume {
            source: grant.version.clone(),
            owner: Vec::new(),
            hashed,
            since: Timestamp::default(),
            synced,
        });
        let stage = (self.prepare)(TargetInfo { size: grant.length, transfer, resume });
        Box::new(move || Ok(Staged { stage: stage()?, mode, modified }))
    }
}
