//! What paths mean in a bucket: a file is an object, a directory is a key that ends with a slash, or
//! that others go on from.

use crate::bucket::{Bucket, Condition, Metadata, Object};
use crate::source::ObjectSource;
use crate::stage::{OBJECT_BYTES_MAX, ObjectStage, too_large};
use std::sync::Arc;
use xdfs_io::store::errors::{self, Verb};
use xdfs_io::store::{
    Attributes, Capability, Existing, FileKind, Order, Result, Source, Stage, StageRequest, Store, Version,
};
use xdfs_proto::base::{Error, ErrorKind, RelPath, Timestamp};

/// The files of a bucket. Clones share it.
#[derive(Clone, Debug)]
pub struct ObjectStore {
    bucket: Bucket,
}

impl ObjectStore {
    /// The files of `bucket`.
    pub fn new(bucket: Bucket) -> Self {
        Self { bucket }
    }

    /// The bucket.
    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    fn is_directory(&self, path: &RelPath) -> bool {
        path.is_root() || self.bucket.has_prefix(&directory_key(path))
    }

    fn make_marker(&self, path: &RelPath) -> Result<()> {
        let key = directory_key(path);
        match self.bucket.put(&key, Vec::new(), Metadata { mode: 0o755, ..Metadata::default() }, Condition::Absent) {
            // Somebody else was first.
            Ok(_) | Err(crate::bucket::Refusal::Condition) => Ok(()),
            Err(refusal) => Err(refused(ErrorKind::Storage, path, &format!("the service refused: {refusal:?}"))),
        }
    }

    pub(crate) fn must_have_parent(&self, path: &RelPath) -> Result<()> {
        let Some(parent) = path.parent() else {
            return Err(refused(ErrorKind::IsDirectory, path, "is a directory"));
        };
        if self.is_directory(&parent) {
            return Ok(());
        }
        let shown = errors::shown("", &parent);
        match self.bucket.head(parent.as_bytes()) {
            Some(_) => Err(refused(ErrorKind::NotDirectory, path, &format!("'{shown}' is not a directory"))),
            None => Err(refused(ErrorKind::NotFound, path, &format!("no such directory '{shown}'"))),
        }
    }

    pub(crate) fn must_be_no_directory(&self, path: &RelPath) -> Result<()> {
        if self.is_directory(path) {
            return Err(refused(ErrorKind::IsDirectory, path, "a directory is in the way"));
        }
        Ok(())
    }

    pub(crate) fn must_have_room(&self, path: &RelPath, bytes: u64) -> Result<()> {
        let free = self.bucket.free();
        if bytes <= free {
            return Ok(());
        }
        let missing = errors::amount(bytes - free);
        Err(refused(ErrorKind::NoSpace, path, &format!("the bucket is full: {missing} missing")))
    }

    /// Refuses what the request would not replace, before any byte is sent. The service checks it
    /// again when the object takes its key.
    fn must_admit(&self, request: &StageRequest) -> Result<()> {
        let path = &request.target;
        self.must_be_no_directory(path)?;
        let found = self.bucket.head(path.as_bytes());
        if let Some(base) = &request.base {
            let version = found.as_ref().map(|object| object.version());
            let is_base = version == version_of(&base.version);
            let may_be_copy = |object: &Arc<Object>| {
                Some(object.size()) == request.size && Some(object.metadata().modified) == base.modified
            };
            if !is_base {
                let copy = found.as_ref().is_some_and(may_be_copy);
                return if copy { Ok(()) } else { Err(errors::target_changed(&errors::shown("", path))) };
            }
        }
        match found {
            Some(object) if object.metadata().archived => {
                Err(refused(ErrorKind::NotRegular, path, "an archived object is in the way"))
            }
            Some(_) if request.existing == Existing::Keep => {
                Err(refused(ErrorKind::AlreadyExists, path, "it already exists"))
            }
            _ => Ok(()),
        }
    }

    fn find(&self, path: &RelPath, verb: Verb) -> Result<Found> {
        if self.is_directory(path) {
            return Ok(Found::Directory);
        }
        let absent =
            || errors::refused(ErrorKind::NotFound, verb, &errors::shown("", path), "no such file or directory");
        self.bucket.head(path.as_bytes()).map(Found::Object).ok_or_else(absent)
    }
}

/// What a path names.
enum Found {
    Directory,
    Object(Arc<Object>),
}

impl Store for ObjectStore {
    fn capability(&self) -> Capability {
        Capability { order: Order::Ascending, descriptor: false, writable: true, persistent: false }
    }

    fn attributes(&self, path: &RelPath) -> Result<Attributes> {
        Ok(match self.find(path, Verb::Look)? {
            Found::Object(object) => attributes_of(&object),
            Found::Directory => {
                let (size, modified, version) = (None, Timestamp::default(), Version::default());
                Attributes { kind: FileKind::Directory, size, mode: 0o755, modified, version }
            }
        })
    }

    fn open(&self, path: &RelPath) -> Result<Source> {
        let refused = |kind, because: &str| Err(errors::refused(kind, Verb::Open, &errors::shown("", path), because));
        match self.find(path, Verb::Open)? {
            Found::Directory => refused(ErrorKind::IsDirectory, "is a directory"),
            Found::Object(object) if object.metadata().archived => {
                refused(ErrorKind::NotRegular, "is archived; restore it first")
            }
            Found::Object(object) => Ok(Source::new(ObjectSource::new(path, object))),
        }
    }

    fn stage(&self, request: &StageRequest) -> Result<Stage> {
        self.must_have_parent(&request.target)?;
        self.must_admit(request)?;
        let size = request.size.unwrap_or(0);
        if size > OBJECT_BYTES_MAX {
            return Err(too_large(&request.target, size));
        }
        self.must_have_room(&request.target, size)?;
        Ok(Stage::new(ObjectStage::new(self.clone(), request)))
    }

    fn make_parents(&self, path: &RelPath) -> Result<()> {
        let mut above = RelPath::default();
        for component in path.components().take(path.depth().saturating_sub(1)) {
            // Came from a path, so it is a valid component.
            let _ = above.push(component);
            if !self.is_directory(&above) {
                if self.bucket.head(above.as_bytes()).is_some() {
                    let because = format!("'{}' is not a directory", errors::shown("", &above));
                    return Err(refused(ErrorKind::NotDirectory, path, &because));
                }
                self.make_marker(&above)?;
            }
        }
        Ok(())
    }
}

/// The attributes of an object.
pub(crate) fn attributes_of(object: &Object) -> Attributes {
    let metadata = object.metadata();
    Attributes {
        kind: if metadata.archived { FileKind::Other } else { FileKind::Regular },
        size: Some(object.size()),
        mode: metadata.mode,
        modified: metadata.modified,
        version: Version(object.version().to_be_bytes().to_vec()),
    }
}

/// The version of an object in the bytes of a [`Version`]; none where there was no object.
pub(crate) fn version_of(bytes: &[u8]) -> Option<u64> {
    // Bytes of another store are a version that no object has.
    if bytes.is_empty() { None } else { Some(bytes.try_into().map_or(0, u64::from_be_bytes)) }
}

/// A new file is refused.
pub(crate) fn refused(kind: ErrorKind, path: &RelPath, because: &str) -> Error {
    errors::refused(kind, Verb::Create, &errors::shown("", path), because)
}

/// The key that marks a directory.
fn directory_key(path: &RelPath) -> Vec<u8> {
    [path.as_bytes(), b"/"].concat()
}
