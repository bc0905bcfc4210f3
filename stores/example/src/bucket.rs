//! The object service. A store for a real one has its client here, with the same calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xdfs_proto::base::Timestamp;

/// Least size of each part but the last.
pub(crate) const PART_BYTES_MIN: usize = 5 << 20;
/// Most parts of an object.
pub(crate) const PARTS_MAX: usize = 10_000;

/// An object, as it was written. It never changes: another object takes its key.
#[derive(Debug)]
pub struct Object {
    parts: Vec<Vec<u8>>,
    metadata: Metadata,
    /// Differs between any two objects of a bucket.
    version: u64,
}

/// What a service keeps beside the bytes, given when the object is completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Metadata {
    /// Permission bits.
    pub mode: u32,
    /// Modification time: seconds and nanoseconds since 1970.
    pub modified: Timestamp,
    /// It was moved to slower storage and cannot be read.
    pub archived: bool,
}

/// When an object may take its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    /// Whatever has it.
    Always,
    /// If nothing has it (`If-None-Match: *`).
    Absent,
    /// If this version has it (`If-Match`).
    Version(u64),
}

/// Why the service refuses a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The condition does not hold.
    Condition,
    /// A part that is not the last one is too small.
    PartTooSmall,
    /// The object has too many parts.
    TooManyParts,
    /// The bucket is full: bytes that are missing.
    Full(u64),
    /// The upload was ended.
    NoSuchUpload,
}

/// A bucket of a service, in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct Bucket(Arc<Mutex<Objects>>);

#[derive(Debug)]
struct Objects {
    by_key: BTreeMap<Vec<u8>, Arc<Object>>,
    uploads: BTreeMap<u64, Vec<Vec<u8>>>,
    /// Counts objects and uploads.
    last: u64,
    /// Bytes of objects and uploads.
    used: u64,
    limit: u64,
}

impl Object {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    /// What is kept beside the bytes.
    pub fn metadata(&self) -> Metadata {
        self.metadata
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Reads a range (`Range: bytes=`); the count is short only at the end.
    pub fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let (mut done, mut start) = (0, 0);
        for part in &self.parts {
            let end = start + part.len() as u64;
            let at = offset + done as u64;
            if done < buf.len() && (start..end).contains(&at) {
                // Less than the length of the part.
                let rest = part.get((at - start) as usize..).unwrap_or_default();
                let count = rest.len().min(buf.len() - done);
                if let (Some(to), Some(from)) = (buf.get_mut(done..done + count), rest.get(..count)) {
                    to.copy_from_slice(from);
                }
                done += count;
            }
            start = end;
        }
        done
    }
}

impl Bucket {
    /// An empty bucket for `limit` bytes, unfinished uploads included.
    pub fn new(limit: u64) -> Self {
        let (by_key, uploads) = (BTreeMap::new(), BTreeMap::new());
        Self(Arc::new(Mutex::new(Objects { by_key, uploads, last: 0, used: 0, limit })))
    }

    /// Every key, in order.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.objects().by_key.keys().cloned().collect()
    }

    /// Bytes of all objects and unfinished uploads.
    pub fn used(&self) -> u64 {
        self.objects().used
    }

    /// The object that has `key`.
    pub fn head(&self, key: &[u8]) -> Option<Arc<Object>> {
        self.objects().by_key.get(key).cloned()
    }

    /// Whether any key begins with `prefix`.
    pub(crate) fn has_prefix(&self, prefix: &[u8]) -> bool {
        let objects = self.objects();
        let mut following = objects.by_key.range(prefix.to_vec()..);
        following.next().is_some_and(|(key, _)| key.starts_with(prefix))
    }

    /// Bytes for which there is room.
    pub(crate) fn free(&self) -> u64 {
        let objects = self.objects();
        objects.limit.saturating_sub(objects.used)
    }

    /// Writes an object whole, under any condition; for tests that set a scene.
    ///
    /// # Panics
    ///
    /// Where there is no room.
    pub fn put_whole(&self, key: &[u8], bytes: &[u8], metadata: Metadata) {
        let placed = self.put(key, bytes.to_vec(), metadata, Condition::Always);
        assert!(placed.is_ok(), "{placed:?}");
    }

    /// Writes an object whole.
    pub(crate) fn put(
        &self,
        key: &[u8],
        bytes: Vec<u8>,
        metadata: Metadata,
        condition: Condition,
    ) -> Result<Arc<Object>, Refusal> {
        let mut objects = self.objects();
        objects.must_hold(key, condition)?;
        objects.take(bytes.len() as u64)?;
        Ok(objects.place(key, vec![bytes], metadata))
    }

    /// Begins an object that is written in parts.
    pub(crate) fn begin(&self) -> u64 {
        let mut objects = self.objects();
        objects.last += 1;
        let upload = objects.last;
        objects.uploads.insert(upload, Vec::new());
        upload
    }

    /// Writes the next part.
    pub(crate) fn put_part(&self, upload: u64, bytes: Vec<u8>) -> Result<(), Refusal> {
        let mut objects = self.objects();
        let parts = objects.uploads.get(&upload).ok_or(Refusal::NoSuchUpload)?;
        if parts.last().is_some_and(|last| last.len() < PART_BYTES_MIN) {
            return Err(Refusal::PartTooSmall);
        }
        if parts.len() >= PARTS_MAX {
            return Err(Refusal::TooManyParts);
        }
        objects.take(bytes.len() as u64)?;
        objects.uploads.entry(upload).or_default().push(bytes);
        Ok(())
    }

    /// Makes an object of the parts, in one step. On refusal the parts stay.
    pub(crate) fn complete(
        &self,
        upload: u64,
        key: &[u8],
        metadata: Metadata,
        condition: Condition,
    ) -> Result<Arc<Object>, Refusal> {
        let mut objects = self.objects();
        objects.must_hold(key, condition)?;
        let parts = objects.uploads.remove(&upload).ok_or(Refusal::NoSuchUpload)?;
        Ok(objects.place(key, parts, metadata))
    }

    /// Removes the parts of an object that is not completed; one that ended already is none.
    pub(crate) fn abort(&self, upload: u64) {
        let mut objects = self.objects();
        let parts = objects.uploads.remove(&upload).unwrap_or_default();
        objects.used -= parts.iter().map(|part| part.len() as u64).sum::<u64>();
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        // Each change is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Objects {
    fn must_hold(&self, key: &[u8], condition: Condition) -> Result<(), Refusal> {
        let version = self.by_key.get(key).map(|object| object.version);
        let holds = match condition {
            Condition::Always => true,
            Condition::Absent => version.is_none(),
            Condition::Version(wanted) => version == Some(wanted),
        };
        if holds { Ok(()) } else { Err(Refusal::Condition) }
    }

    /// Counts bytes that are written.
    fn take(&mut self, bytes: u64) -> Result<(), Refusal> {
        let free = self.limit.saturating_sub(self.used);
        if bytes > free {
            return Err(Refusal::Full(bytes - free));
        }
        self.used += bytes;
        Ok(())
    }

    /// Gives bytes that are counted their key.
    fn place(&mut self, key: &[u8], parts: Vec<Vec<u8>>, metadata: Metadata) -> Arc<Object> {
        self.last += 1;
        let object = Arc::new(Object { parts, metadata, version: self.last });
        if let Some(old) = self.by_key.insert(key.to_vec(), Arc::clone(&object)) {
            self.used -= old.size();
        }
        object
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]
mod tests {
    use super::*;

    #[test]
    fn parts_but_the_last_have_a_least_size_and_an_object_appears_whole() {
        let bucket = Bucket::new(64 << 20);
        let upload = bucket.begin();
        bucket.put_part(upload, vec![1; PART_BYTES_MIN]).unwrap();
        bucket.put_part(upload, vec![2; 3]).unwrap();
        assert_eq!(bucket.put_part(upload, vec![3; 3]), Err(Refusal::PartTooSmall));
        assert!(bucket.head(b"x").is_none());
        let object = bucket.complete(upload, b"x", Metadata::default(), Condition::Absent).unwrap();
        let mut buf = [0; 8];
        assert_eq!(object.read(&mut buf, PART_BYTES_MIN as u64 - 2), 5);
        assert_eq!(buf, [1, 1, 2, 2, 2, 0, 0, 0]);
        assert_eq!(bucket.put_part(upload, Vec::new()), Err(Refusal::NoSuchUpload));
        let again = bucket.put(b"x", Vec::new(), Metadata::default(), Condition::Absent);
        assert_eq!(again.unwrap_err(), Refusal::Condition);
        bucket.put(b"x", vec![4; 7], Metadata::default(), Condition::Version(object.version())).unwrap();
        assert_eq!(bucket.used(), 7);
    }

    #[test]
    fn what_is_aborted_leaves_its_room() {
        let bucket = Bucket::new(8 << 20);
        let upload = bucket.begin();
        bucket.put_part(upload, vec![1; PART_BYTES_MIN]).unwrap();
        assert_eq!(bucket.put_part(upload, vec![1; PART_BYTES_MIN]), Err(Refusal::Full(2 << 20)));
        bucket.abort(upload);
        bucket.abort(upload);
        assert_eq!((bucket.used(), bucket.free()), (0, 8 << 20));
    }
}
