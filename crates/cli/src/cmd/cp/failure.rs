//! Why a file was not copied: on which side it failed, the message, and what can be done.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use xdfs_client::retry::FailureClass;
use xdfs_client::{Error, ErrorKind};

use super::Copy;
use crate::cmd::meant::meant;
use crate::cmd::remote::{remedy_for_read_only, remedy_without_export};
use crate::exit::{Exit, Failure, HELP, Side, is_of_peer};
use crate::output::CopyItem;
use crate::text::{printable_path, shell_word};
use crate::url::{FROM_ROOT, Url, Via};

/// What to do after a connection that was lost and could not be made again.
pub(super) const CONTINUE: &str = "run the same command to continue; what was safe on disk by then is not sent again";

/// One file that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Failed {
    /// The subject of the error.
    pub(super) path: String,
    /// Its kind; `None` if the command line itself is at fault.
    pub(super) kind: Option<ErrorKind>,
    /// The exit code and the message.
    pub(super) failure: Failure,
    /// There was a session when it failed.
    pub(super) connected: bool,
}

impl Failed {
    /// Detected on this machine before any request to a server.
    pub(super) fn of_local(path: &str, error: Error) -> Self {
        Self::new(path, error, Side::Here)
    }

    /// Detected when sources were paired with targets.
    pub(super) fn local(path: String, failure: Failure) -> Self {
        Self { path, kind: None, failure, connected: false }
    }

    /// The session could not be opened.
    pub(super) fn of_session(path: &str, (failure, kind): (Failure, ErrorKind)) -> Self {
        Self { path: path.to_owned(), kind: Some(kind), failure, connected: false }
    }

    /// Detected by the server.
    pub(super) fn of_peer(path: &str, error: Error) -> Self {
        Self::new(path, error, Side::Peer)
    }

    /// During an upload the server detects everything except a source that changed while it was
    /// read.
    pub(super) fn of_upload(item: &CopyItem, error: Error) -> Self {
        match error.kind {
            ErrorKind::SourceChanged => Self::new(item.source.shown(), error, Side::Here),
            _ => Self::of_target(item.target.shown(), error),
        }
    }

    /// Detected by the server about a target: what is missing is the directory that it would be in.
    pub(super) fn of_target(path: &str, error: Error) -> Self {
        let is_directory_missing = error.kind == ErrorKind::NotFound;
        let failed = Self::new(path, error, Side::Peer);
        match Url::parse(OsStr::new(path)).ok().and_then(|url| url.parent()) {
            Some(above) if is_directory_missing => failed.make_first(&above),
            _ => failed,
        }
    }

    /// The directory `url` is missing: where nothing else helps, it is to be made.
    pub(super) fn make_first(mut self, url: &Url) -> Self {
        if !self.failure.message.contains(HELP) {
            self.failure = self.failure.help(format!("make it first: xdfs mkdir -p {}", shell_word(&url.to_string())));
        }
        self
    }

    /// A directory is needed for several sources, and is none.
    pub(super) fn not_for_several(url: &Url, is_there: bool) -> Self {
        let shown = url.to_string();
        if is_there {
            let failure = Failure::new(Exit::Usage, several(&shown)).help(NOT_A_DIRECTORY);
            return Self::local(shown, failure);
        }
        Self::of_peer(&shown, Error::new(ErrorKind::NotFound, "no such directory")).make_first(url)
    }

    /// During a download errors are the server's until the local target is prepared (`began`); from
    /// then on they are of local storage, except for a source that changes or cannot be read to its
    /// end.
    pub(super) fn of_download(item: &CopyItem, error: Error, began: bool) -> Self {
        let source_kinds = [ErrorKind::SourceChanged, ErrorKind::OutOfRange];
        if began && !source_kinds.contains(&error.kind) {
            return Self::new(item.target.shown(), error, Side::Here);
        }
        Self::new(item.source.shown(), error, Side::Peer)
    }

    /// What it says of another attempt.
    pub(super) fn classify(&self) -> FailureClass {
        self.kind.map_or(FailureClass::Permanent, |kind| FailureClass::of_copy(kind, self.connected))
    }

    /// A stop was requested while it failed, or before it was tried again: that is why the file is
    /// missing.
    pub(super) fn cancelled(self) -> Self {
        if self.kind == Some(ErrorKind::Cancelled) {
            return self;
        }
        let error = Error::new(ErrorKind::Cancelled, ErrorKind::Cancelled.text());
        Self { connected: self.connected, ..Self::new(&self.path, error, Side::Here) }
    }

    fn new(path: &str, error: Error, side: Side) -> Self {
        let exit = Exit::of_error(&error, side);
        let local = side == Side::Here && !is_of_peer(error.kind);
        let url = Url::parse(OsStr::new(path)).ok().filter(|_| side == Side::Peer);
        let what = match &url {
            // The server names files below the export, and here that is the root.
            Some(url) if url.via == Via::Ssh && url.export == FROM_ROOT => from_root(&error.to_string(), url),
            _ => error.to_string(),
        };
        // Messages about local files name them as they were typed; a server knows only its part of
        // a URL.
        let subject = if local { String::new() } else { format!("{path}: ") };
        let failure = Failure::new(exit, format!("{subject}{what}"));
        let of_export = url.filter(|url| url.via == Via::Port).and_then(|url| match error.kind {
            ErrorKind::ReadOnly => Some(remedy_for_read_only(&url, &error)),
            _ => remedy_without_export(&url, &error),
        });
        let failure = match (of_export, advice(error.kind, side)) {
            (Some(remedy), _) => failure.help(remedy),
            (None, "") => failure,
            (None, advice) => failure.help(advice),
        };
        let connected = side == Side::Peer || error.kind == ErrorKind::ConnectionLost;
        Self { path: path.to_owned(), kind: Some(error.kind), failure, connected }
    }
}

impl Copy<'_> {
    /// The failure of a source that does not exist, with what was probably meant.
    pub(super) fn with_meant(&mut self, mut failed: Failed, source: &Url) -> Failed {
        let is_missing = failed.kind == Some(ErrorKind::NotFound) && failed.path == source.to_string();
        if is_missing && !failed.failure.message.contains(HELP) && !source.is_ftp() {
            let meant = meant(source, &mut self.sessions);
            failed.failure = meant.into_iter().fold(failed.failure, Failure::help);
        }
        failed
    }
}

/// A message with the path of a URL, or one above it, as it is from the root.
fn from_root(message: &str, url: &Url) -> String {
    let path = url.path.as_bytes().escape_ascii().to_string();
    let first = path.split('/').next().unwrap_or_default();
    match first.is_empty() {
        true => message.to_owned(),
        false => message.replace(&format!("'{first}"), &format!("'/{first}")),
    }
}

/// The failure of a local target that cannot be written: a missing directory is to be made.
pub(super) fn of_local_target(path: &Path, error: &Error) -> Failure {
    let failure = Failure::local(error);
    // A slash at the end says that the target itself is a directory.
    let is_directory = path.as_os_str().as_bytes().ends_with(b"/");
    let wanted = if is_directory { Some(path) } else { path.parent() };
    match wanted.filter(|above| error.kind == ErrorKind::NotFound && !above.as_os_str().is_empty()) {
        Some(above) => failure.help(format!("make it first: mkdir -p {}", shell_word(&printable_path(above)))),
        None => failure,
    }
}

/// Several sources need a directory, and the local target is none.
pub(super) fn not_for_several_here(path: &Path) -> Failure {
    let shown = printable_path(path);
    match path.exists() {
        true => Failure::new(Exit::Usage, several(&shown)).help(NOT_A_DIRECTORY),
        false => Failure::new(Exit::NotFound, format!("{shown}: no such directory"))
            .help(format!("make it first: mkdir -p {}", shell_word(&shown))),
    }
}

/// What to do where several sources have a file as their target.
const NOT_A_DIRECTORY: &str = "name a directory, or copy one file at a time";

/// Why several sources have no place at a target.
fn several(target: &str) -> String {
    format!("{target}: several sources need a directory as their target, and this is not one")
}

/// What to do, if that is not obvious from the error.
fn advice(kind: ErrorKind, side: Side) -> &'static str {
    match (kind, side) {
        (ErrorKind::ConnectionLost | ErrorKind::TimedOut, _) => CONTINUE,
        (ErrorKind::NoSpace | ErrorKind::QuotaExceeded, Side::Here) => {
            "make room, or choose another place: 'df -h' shows where there is some"
        }
        (ErrorKind::NoSpace | ErrorKind::QuotaExceeded, Side::Peer) => {
            "the server needs more room: 'xdfs df -h URL' shows how much it has"
        }
        (ErrorKind::SourceChanged, _) => "run the same command again when nobody writes to the file",
        (ErrorKind::Refused, Side::Peer) => "ask the administrator of the server for the right",
        (ErrorKind::IsDirectory, _) => "copy it with -r, or name a file",
        (ErrorKind::Busy | ErrorKind::Draining, _) => "try again later",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Endpoint;

    fn item() -> CopyItem {
        CopyItem { source: Endpoint::of(b"xdfs://h/e/a"), target: Endpoint::of(b"b"), number: 1, count: 1 }
    }

    #[test]
    fn the_side_of_a_download_that_failed_is_that_of_its_cause() {
        for (kind, began, exit, path) in [
            (ErrorKind::NotFound, false, Exit::NotFound, "xdfs://h/e/a"),
            (ErrorKind::PermissionDenied, false, Exit::PermissionDenied, "xdfs://h/e/a"),
            (ErrorKind::PermissionDenied, true, Exit::PermissionDenied, "b"),
            (ErrorKind::NoSpace, true, Exit::NoSpace, "b"),
            (ErrorKind::SourceChanged, true, Exit::Changed, "xdfs://h/e/a"),
            (ErrorKind::ConnectionLost, true, Exit::ConnectionLost, "b"),
            (ErrorKind::Cancelled, true, Exit::Cancelled, "b"),
        ] {
            let failed = Failed::of_download(&item(), Error::new(kind, "why"), began);
            assert_eq!((failed.failure.exit, failed.path.as_str()), (exit, path), "{kind:?} {began}");
            assert!(failed.failure.message.contains("why"), "{kind:?}");
        }
    }

    #[test]
    fn a_source_that_changed_during_an_upload_is_ours() {
        let failed = Failed::of_upload(&item(), Error::new(ErrorKind::SourceChanged, "it shrank"));
        assert_eq!(failed.failure.exit, Exit::Changed);
        assert_eq!(
            failed.failure.message,
            "it shrank\nhelp: run the same command again when nobody writes to the file"
        );
        let failed = Failed::of_upload(&item(), Error::new(ErrorKind::NoSpace, "full"));
        assert_eq!(failed.failure.exit, Exit::NoSpace);
        assert!(failed.failure.message.starts_with("b: full\nhelp: the server needs more room"));
    }
}
