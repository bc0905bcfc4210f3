//! Which directory receives the sources of a copy. A slash at the end of a target says that it is a
//! directory: one that is missing is made.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use xdfs_client::wire::FileType;
use xdfs_client::{Error, Facts};
use xdfs_io::store::{FileKind, LocalPlace, expired_before};

use super::Copy;
use super::failure::{Failed, of_local_target};
use super::local_directory::{Above, made};
use crate::calendar;
use crate::cmd::ftp::error_of;
use crate::cmd::remote::wire_name;
use crate::exit::Failure;
use crate::plan::{LocalTarget, TreePlan};
use crate::text::printable_path;
use crate::url::Url;

impl Copy<'_> {
    /// The attributes of the directory that receives a tree, which is made if it is missing.
    pub(super) fn receiver(&mut self, target: &Url, tree: &TreePlan) -> Result<Option<Facts>, Failed> {
        let found = self.look(target)?;
        if found.is_some() || !target.directory || tree.dry_run {
            return Ok(found);
        }
        let shown = target.to_string();
        if target.is_ftp() {
            let server = self.ftp.with(target).map_err(|failed| Failed::of_session(&shown, failed))?;
            let path = server.path(target);
            let made = server.session.client().make_directory(&path);
            made.map_err(|error| Failed::of_peer(&shown, error_of(error)))?;
        } else {
            let made = self.session_of(target)?.make_directory(wire_name(target), 0o777, true);
            made.map_err(|error| Failed::of_peer(&shown, error))?;
        }
        self.look(target)
    }
}

impl Copy<'_> {
    /// Several sources need a directory: a missing one is told once, and not with every source.
    pub(super) fn must_receive_several(&mut self, target: &Url, tree: Option<&TreePlan>) -> Result<(), Failed> {
        let is_made = tree.is_some() && target.directory;
        if target.path.is_root() || is_made {
            return Ok(());
        }
        match self.look(target)?.map(|found| found.kind) {
            // A link may lead to one.
            Some(FileType::Directory | FileType::Symlink) => Ok(()),
            other => Err(Failed::not_for_several(target, other.is_some())),
        }
    }

    /// Finds what earlier downloads left at these targets, and removes what has expired. Errors are
    /// reported when a target is written.
    pub(super) fn clean_up(&mut self, target: &LocalTarget, into_directory: bool) -> Result<(), Failure> {
        let LocalTarget::Path(path) = target else { return Ok(()) };
        let Ok(place) = LocalPlace::of(path.as_os_str().as_bytes()) else { return Ok(()) };
        if place.existing == Some(FileKind::Other) {
            return Ok(());
        }
        let found = place.store.recover_here(expired_before(Duration::from_secs(calendar::now())));
        let directory = if into_directory { Some(path.as_path()) } else { path.parent() };
        let shown = directory.filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
        self.monitor.tell_expired(&printable_path(shown), found)
    }
}

/// What is above a tree in the local directory `receiver`.
pub(super) fn above_in(receiver: &Path, tree: &TreePlan) -> Above {
    if tree.dry_run && !receiver.exists() { Above::WouldBeMade } else { Above::Needed }
}

/// Whether the target is a local directory that receives the sources.
pub(super) fn receives(target: &LocalTarget, tree: Option<&TreePlan>) -> Result<bool, Failure> {
    let LocalTarget::Path(path) = target else { return Ok(false) };
    match tree {
        Some(tree) if ends_in_slash(path) => {
            if !tree.dry_run {
                made(path).map_err(|error| of_local_target(path, &error))?;
            }
            Ok(true)
        }
        _ => is_directory(path).map_err(|error| of_local_target(path, &error)),
    }
}

pub(super) fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

/// Whether `path` is a directory that receives a download. A directory that is missing, or not
/// accessible, is reported before any request to a server.
fn is_directory(path: &Path) -> Result<bool, Error> {
    Ok(LocalPlace::of(path.as_os_str().as_bytes())?.existing == Some(FileKind::Directory))
}
