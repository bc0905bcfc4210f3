//! The export `memory:`: three files that are no files, for runs from memory to memory. `zero` and `random` are read without end,
//! `null` swallows what is written to it.

use super::random::random_attributes;
use super::errors::{self, Verb};
use super::zero::zero_attributes;
use super::{Attributes, Capability, FileKind, Order, Result, Source, Stage, StageRequest, Store, Version};
use xdfs_proto::base::{Error, ErrorKind, RelPath};

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryExport;

/// What a name stands for.
enum Name {
    Root,
    Zero,
    Random,
    Null,
    Absent,
}

fn meaning(path: &RelPath) -> Name {
    match path.as_bytes() {
        b"" => Name::Root,
        b"zero" => Name::Zero,
        b"random" => Name::Random,
        b"null" => Name::Null,
        _ => Name::Absent,
    }
}

fn refused(kind: ErrorKind, verb: Verb, path: &RelPath, because: &str) -> Error {
    errors::refused(kind, verb, &errors::shown("", path), because)
}

fn absent(verb: Verb, path: &RelPath) -> Error {
    refused(ErrorKind::NotFound, verb, path, "this export has three files, 'zero', 'random' and 'null'")
}

impl Store for MemoryExport {
    fn capability(&self) -> Capability {
        Capability { order: Order::Any, descriptor: false, writable: true, persistent: false }
    }

    fn attributes(&self, path: &RelPath) -> Result<Attributes> {
        let bare = |kind| Attributes { kind, size: None, mode: 0o755, modified: (0, 0), version: Version::default() };
        match meaning(path) {
            Name::Root => Ok(bare(FileKind::Directory)),
            Name::Zero => Ok(zero_attributes(None)),
            Name::Random => Ok(random_attributes(None)),
            Name::Null => Ok(Attributes { size: Some(0), ..zero_attributes(None) }),
            Name::Absent => Err(absent(Verb::Look, path)),
        }
    }

    fn open(&self, path: &RelPath) -> Result<Source> {
        match meaning(path) {
            Name::Root => Err(refused(ErrorKind::IsDirectory, Verb::Open, path, "is a directory")),
            Name::Zero => Ok(Source::zero(None)),
            Name::Random => Source::random(None),
            // What was swallowed is not there to be read.
            Name::Null => Ok(Source::zero(Some(0))),
            Name::Absent => Err(absent(Verb::Open, path)),
        }
    }

    /// `null` takes anything at any time, so [`super::Existing::Keep`] has nothing to keep.
    fn stage(&self, request: &StageRequest) -> Result<Stage> {
        match meaning(&request.target) {
            Name::Root => Err(refused(ErrorKind::IsDirectory, Verb::Create, &request.target, "is a directory")),
            Name::Zero | Name::Random => {
                Err(refused(ErrorKind::ReadOnly, Verb::Create, &request.target, "it is there to be read"))
            }
            Name::Null => Ok(Stage::Null),
            Name::Absent => Err(absent(Verb::Create, &request.target)),
        }
    }
}
