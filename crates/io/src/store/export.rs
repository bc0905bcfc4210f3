//! The export `memory:`: three virtual files for transfers from memory to memory. `zero` and
//! `random` are endless sources, `null` discards what is written to it.

use super::errors::{self, Verb};
use super::random::random_attributes;
use super::zero::zero_attributes;
use super::{Attributes, Capability, FileKind, Order, Registration, Result, Source, Stage, StageRequest, Store};
use std::sync::Arc;
use xdfs_proto::base::{Error, ErrorKind, RelPath};

/// The export `memory:` with the files `zero`, `random` and `null`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryExport;

impl MemoryExport {
    /// How an export names it: `memory:`.
    pub const REGISTRATION: Registration =
        Registration { word: "memory", addressed: false, open: |_| Ok(Arc::new(Self)) };
}

/// The file that a name refers to.
enum ExportName {
    Root,
    Zero,
    Random,
    Null,
    Absent,
}

fn meaning(path: &RelPath) -> ExportName {
    match path.as_bytes() {
        b"" => ExportName::Root,
        b"zero" => ExportName::Zero,
        b"random" => ExportName::Random,
        b"null" => ExportName::Null,
        _ => ExportName::Absent,
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
        match meaning(path) {
            ExportName::Root => Ok(Attributes::bare(FileKind::Directory)),
            ExportName::Zero => Ok(zero_attributes(None)),
            ExportName::Random => Ok(random_attributes(None)),
            ExportName::Null => Ok(Attributes { size: Some(0), ..zero_attributes(None) }),
            ExportName::Absent => Err(absent(Verb::Look, path)),
        }
    }

    fn open(&self, path: &RelPath) -> Result<Source> {
        match meaning(path) {
            ExportName::Root => Err(refused(ErrorKind::IsDirectory, Verb::Open, path, "is a directory")),
            ExportName::Zero => Ok(Source::zero(None)),
            ExportName::Random => Source::random(None),
            // Discarded data cannot be read.
            ExportName::Null => Ok(Source::zero(Some(0))),
            ExportName::Absent => Err(absent(Verb::Open, path)),
        }
    }

    /// `null` always accepts data, so [`super::Existing::Keep`] has nothing to keep.
    fn stage(&self, request: &StageRequest) -> Result<Stage> {
        match meaning(&request.target) {
            ExportName::Root => Err(refused(ErrorKind::IsDirectory, Verb::Create, &request.target, "is a directory")),
            ExportName::Zero | ExportName::Random => {
                Err(refused(ErrorKind::ReadOnly, Verb::Create, &request.target, "it is there to be read"))
            }
            ExportName::Null => Ok(Stage::null()),
            ExportName::Absent => Err(absent(Verb::Create, &request.target)),
        }
    }
}
