//! An object that is being written.
//!
//! What fits into one part is kept here and written whole. What does not is sent part by part, and
//! completed when it gets its name. So nothing is renamed, and nothing appears before it is whole.

use crate::bucket::{Condition, Metadata, PARTS_MAX, Refusal};
use crate::store::{ObjectStore, attributes_of, refused, version_of};
use std::sync::{Mutex, MutexGuard, PoisonError};
use xdfs_io::store::errors::{self, Verb};
use xdfs_io::store::{
    Attributes, Base, CommitRequest, Existing, Order, Result, StageCapability, StageRequest, StagedFile,
};
use xdfs_proto::base::{Error, ErrorKind, RelPath};

/// Bytes of each part but the last.
const PART_BYTES: usize = 8 << 20;
/// A larger object has too many parts.
pub(crate) const OBJECT_BYTES_MAX: u64 = PART_BYTES as u64 * PARTS_MAX as u64;

/// An object without a key.
#[derive(Debug)]
pub(crate) struct ObjectStage {
    store: ObjectStore,
    target: RelPath,
    shown: String,
    existing: Existing,
    /// What a retried copy may replace.
    base: Option<Base>,
    draft: Mutex<Draft>,
}

#[derive(Debug, Default)]
struct Draft {
    /// The upload with the parts that were sent; none while all bytes are here.
    upload: Option<Upload>,
    /// The part that is being filled.
    part: Vec<u8>,
    state: DraftState,
}

/// An upload in parts that has begun.
#[derive(Clone, Copy, Debug)]
struct Upload {
    /// What the service calls it.
    id: u64,
    /// Bytes of the parts that were sent.
    sent: u64,
}

/// The life of a [`Draft`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum DraftState {
    /// It can be written and named.
    #[default]
    Open,
    /// A write failed: it cannot be named.
    Failed,
    /// It has become the object.
    Named,
    /// The existing object is this same copy and was kept.
    Superfluous,
}

impl Draft {
    /// Bytes of the parts that were sent.
    fn sent(&self) -> u64 {
        self.upload.map_or(0, |upload| upload.sent)
    }

    /// Where the next range starts.
    fn end(&self) -> u64 {
        self.sent() + self.part.len() as u64
    }
}

impl ObjectStage {
    pub(crate) fn new(store: ObjectStore, request: &StageRequest) -> Self {
        Self {
            store,
            shown: errors::shown("", &request.target),
            target: request.target.clone(),
            existing: request.existing,
            base: request.base.clone(),
            draft: Mutex::default(),
        }
    }

    fn draft(&self) -> MutexGuard<'_, Draft> {
        // A panic elsewhere leaves it as the service has it.
        self.draft.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends bytes of `count` that `fill` adds to a part; a part that is full is sent.
    fn append(&self, draft: &mut Draft, mut count: u64, mut fill: impl FnMut(&mut Vec<u8>, usize)) -> Result<()> {
        while count > 0 {
            let room = PART_BYTES - draft.part.len();
            // At most a part.
            let taken = count.min(room as u64) as usize;
            fill(&mut draft.part, taken);
            count -= taken as u64;
            if draft.part.len() == PART_BYTES {
                self.send_part(draft, Vec::with_capacity(PART_BYTES))?;
            }
        }
        Ok(())
    }

    /// Sends the part, after which `next` is filled.
    fn send_part(&self, draft: &mut Draft, next: Vec<u8>) -> Result<()> {
        let upload = draft.upload.get_or_insert_with(|| Upload { id: self.store.bucket().begin(), sent: 0 });
        let part = std::mem::replace(&mut draft.part, next);
        let bytes = part.len() as u64;
        self.store.bucket().put_part(upload.id, part).map_err(|refusal| {
            draft.state = DraftState::Failed;
            self.error_of(Verb::Write, refusal)
        })?;
        upload.sent += bytes;
        Ok(())
    }

    fn must_be_sound(&self, draft: &Draft) -> Result<()> {
        if draft.state == DraftState::Failed {
            let because = "an earlier write failed";
            return Err(errors::refused(ErrorKind::Storage, Verb::Create, &self.shown, because));
        }
        Ok(())
    }

    /// When the object may take its key.
    fn condition(&self) -> Condition {
        match (&self.base, self.existing) {
            (Some(base), _) => version_of(&base.version).map_or(Condition::Absent, Condition::Version),
            (None, Existing::Keep) => Condition::Absent,
            // The service cannot compare before it replaces.
            (None, Existing::Replace | Existing::ReplaceOther { .. }) => Condition::Always,
        }
    }

    /// The existing object, where it has these bytes: the copy was made, and its outcome was lost.
    fn existing_copy(&self, draft: &Draft) -> Option<Attributes> {
        let base = self.base.as_ref()?;
        let found = self.store.bucket().head(self.target.as_bytes())?;
        let dated = Some(found.metadata().modified) == base.modified && found.size() == draft.part.len() as u64;
        // Parts that were sent cannot be compared any more.
        if !dated || draft.upload.is_some() {
            return None;
        }
        let mut bytes = vec![0; draft.part.len()];
        let count = found.read(&mut bytes, 0);
        (count == bytes.len() && bytes == draft.part).then(|| attributes_of(&found))
    }

    fn error_of(&self, verb: Verb, refusal: Refusal) -> Error {
        let (kind, because) = match refusal {
            Refusal::Condition if self.base.is_some() => return errors::target_changed(&self.shown),
            Refusal::Condition => (ErrorKind::AlreadyExists, "it already exists".to_owned()),
            Refusal::TooManyParts => (ErrorKind::TooLarge, format!("an object has at most {PARTS_MAX} parts")),
            Refusal::Full(missing) => {
                (ErrorKind::NoSpace, format!("the bucket is full: {} missing", errors::amount(missing)))
            }
            Refusal::PartTooSmall => (ErrorKind::Storage, "the service refused a part as too small".to_owned()),
            Refusal::NoSuchUpload => (ErrorKind::Storage, "the service ended the upload".to_owned()),
        };
        errors::refused(kind, verb, &self.shown, &because)
    }
}

impl StagedFile for ObjectStage {
    /// Parts are sent in order. A bucket in memory promises nothing; a real service, whose answer
    /// means that the object is safe, declares `Safety::Durable`.
    fn capability(&self) -> StageCapability {
        StageCapability { order: Order::Ascending, ..StageCapability::default() }
    }

    fn shown(&self) -> &str {
        &self.shown
    }

    fn write(&self, buf: &[u8], offset: u64) -> Result<()> {
        let mut draft = self.draft();
        if draft.state == DraftState::Failed {
            return Err(errors::refused(ErrorKind::Storage, Verb::Write, &self.shown, "an earlier write failed"));
        }
        if offset != draft.end() {
            let because = format!("an object is written in order: byte {} is next, not {offset}", draft.end());
            return Err(errors::refused(ErrorKind::OutOfRange, Verb::Write, &self.shown, &because));
        }
        let mut rest = buf;
        self.append(&mut draft, buf.len() as u64, |part, count| {
            let (now, later) = rest.split_at(count);
            part.extend_from_slice(now);
            rest = later;
        })
    }

    fn finish(&self, request: &CommitRequest) -> Result<()> {
        let mut draft = self.draft();
        self.must_be_sound(&draft)?;
        if let Some(more) = request.length.checked_sub(draft.end()) {
            self.store.must_have_room(&self.target, more)?;
            return self.append(&mut draft, more, |part, count| part.resize(part.len() + count, 0));
        }
        let Some(left) = request.length.checked_sub(draft.sent()) else {
            let because = "it cannot be cut: parts of it were sent";
            return Err(errors::refused(ErrorKind::Unsupported, Verb::Create, &self.shown, because));
        };
        // Less than a part.
        draft.part.truncate(left as usize);
        Ok(())
    }

    fn name(&mut self, request: &CommitRequest) -> Result<Attributes> {
        let mut draft = self.draft();
        self.must_be_sound(&draft)?;
        self.store.must_have_parent(&self.target)?;
        self.store.must_be_no_directory(&self.target)?;
        if let Some(attributes) = self.existing_copy(&draft) {
            draft.state = DraftState::Superfluous;
            return Ok(attributes);
        }
        let modified = request.modified.unwrap_or_default();
        let metadata = Metadata { mode: request.mode & 0o777, modified, archived: false };
        let (bucket, key, condition) = (self.store.bucket(), self.target.as_bytes(), self.condition());
        if draft.upload.is_some() && !draft.part.is_empty() {
            self.send_part(&mut draft, Vec::new())?;
        }
        let placed = match draft.upload {
            Some(upload) => bucket.complete(upload.id, key, metadata, condition),
            None => bucket.put(key, std::mem::take(&mut draft.part), metadata, condition),
        };
        let object = placed.map_err(|refusal| self.error_of(Verb::Create, refusal))?;
        // The upload has become the object.
        draft.upload = None;
        draft.state = DraftState::Named;
        Ok(attributes_of(&object))
    }

    fn unchanged(&self) -> bool {
        self.draft().state == DraftState::Superfluous
    }
}

impl Drop for ObjectStage {
    fn drop(&mut self) {
        let draft = self.draft.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(upload) = draft.upload {
            self.store.bucket().abort(upload.id);
        }
    }
}

/// The error for an object that no service takes.
pub(crate) fn too_large(path: &RelPath, size: u64) -> Error {
    let (size, max) = (errors::amount(size), errors::amount(OBJECT_BYTES_MAX));
    refused(ErrorKind::TooLarge, path, &format!("it has {size}, an object at most {max}"))
}
