//! The local ends of copies: what is read, what is written, and what they are called.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use xdfs_client::{Error, Payload};
use xdfs_io::store::{LocalPlace, Source};

use super::input;
use crate::output::Endpoint;
use crate::plan::{Local, LocalTarget, Options};

/// The local data to send; of a named pipe, once it has a writer.
pub(super) fn payload(source: &Local, options: &Options, stopped: &dyn Fn() -> bool) -> Result<Payload, Error> {
    Payload::source(open_source(source, stopped)?, options.offset, options.length)
}

pub(super) fn open_source(source: &Local, stopped: &dyn Fn() -> bool) -> Result<Source, Error> {
    match source {
        Local::File(path) => match input::open_pipe(path, stopped)? {
            Some(pipe) => Ok(pipe),
            None => LocalPlace::of(path.as_os_str().as_bytes())?.open(),
        },
        Local::Stdin => input::open(),
        Local::Zero(size) => Ok(Source::zero(Some(*size))),
        Local::Random(size) => Source::random(Some(*size)),
    }
}

/// The local target of a download, with the key for its journal.
pub(super) fn written_place(path: &Path) -> Result<LocalPlace, Error> {
    let mut place = LocalPlace::of(path.as_os_str().as_bytes())?;
    place.store = xdfs_client::authenticated(place.store);
    Ok(place)
}

pub(super) fn source_of(source: &Local) -> Endpoint {
    match source {
        Local::File(path) => path.as_path().into(),
        Local::Stdin => Endpoint::of(b"-"),
        Local::Zero(size) => Endpoint::of(format!("zero:{size}").as_bytes()),
        Local::Random(size) => Endpoint::of(format!("random:{size}").as_bytes()),
    }
}

pub(super) fn target_of(target: &LocalTarget) -> Endpoint {
    match target {
        LocalTarget::Path(path) => path.as_path().into(),
        LocalTarget::Stdout => Endpoint::of(b"-"),
        LocalTarget::Null => Endpoint::of(b"null:"),
    }
}
