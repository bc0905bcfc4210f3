//! `--atomic` for trees that are downloaded: the tree is made in a directory beside its target that
//! nobody else may enter, and gets its name when it is complete.
//!
//! The name of that directory can be guessed, so what is there already is used only if an earlier
//! attempt is known to have made it, or nothing is in it, and nobody else can put anything into it: a
//! directory of this user's may also have come with a tree of some other server. Must not: replace or
//! remove anything of somebody else.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use xdfs_client::{Error, ErrorKind, Existing};
use xdfs_io::store::tree::{AttributeChange, Node, NodeKind};
use xdfs_io::store::{LocalPlace, LocalStore, Tree as _};
use xdfs_proto::base::RelPath;

use super::super::local_directory::trimmed;
use super::super::unfinished::UnfinishedMark;
use crate::plan::LoginPlan;
use crate::text::printable_path;
use crate::url::Url;

/// Permissions of anybody but the owner.
const OTHERS: u32 = 0o077;

/// The name of the directory that holds a tree until it is complete; the same each time, so that
/// the next attempt finds it.
fn holder_name(name: &[u8]) -> Vec<u8> {
    [b".", name, b".xdfs-tree"].concat()
}

/// The path of a copy of `source` until it is complete, in a directory that is there and nobody else's, and what is recorded of
/// that.
pub(super) fn begin(source: &Url, target: &Path, login: &LoginPlan) -> Result<(PathBuf, UnfinishedMark), Error> {
    let target = trimmed(target);
    let there = LocalPlace::of(target.as_os_str().as_bytes())?.existing.is_some();
    let name = target.file_name().filter(|_| !there).ok_or_else(|| {
        let text = format!("'{}' is there already\nhelp: --atomic is for what is new", printable_path(&target));
        Error::new(ErrorKind::AlreadyExists, text)
    })?;
    let holder = target.with_file_name(OsStr::from_bytes(&holder_name(name.as_bytes())));
    let (store, holder_name) = (parent_of(&target)?, name_of(&holder)?);
    let made = || store.make_directory(&holder_name, 0o700, false);
    let found = || {
        let node = store.node(&holder_name)?;
        let mark = UnfinishedMark::beside(login, source, &target, (node.identity.1, born(&holder)));
        Ok::<_, Error>((node, mark))
    };
    // Where a file system has no owners and modes, nothing is anybody's, and what is made here neither.
    if let Err(error) = made() {
        if error.kind != ErrorKind::AlreadyExists {
            return Err(error);
        }
        let (node, mark) = found()?;
        // An attempt that was killed before that was recorded has put nothing into it.
        let is_known = || mark.stands() || (store.remove_directory(&holder_name).is_ok() && made().is_ok());
        must_be_ours(&node, is_known, &holder)?;
    }
    let (_, mark) = found()?;
    // Where it cannot be recorded, the next attempt says what to remove.
    let _ = mark.set();
    Ok((holder.join(name), mark))
}

/// When `directory` was made, in nanoseconds since 1970: another one may get its number. 0 where its file system does not know.
fn born(directory: &Path) -> u128 {
    let born = directory.symlink_metadata().and_then(|found| found.created()).ok();
    born.and_then(|born| born.duration_since(UNIX_EPOCH).ok()).map_or(0, |since| since.as_nanos())
}

/// Gives a complete tree its name.
pub(super) fn publish(way: &Path, target: &Path, mark: &UnfinishedMark) -> Result<(), Error> {
    let target = trimmed(target);
    let (store, name) = (parent_of(&target)?, name_of(&target)?);
    let holder = name_of(way.parent().unwrap_or(way))?;
    let mut from = holder.clone();
    from.push(name.as_bytes()).map_err(unnameable)?;
    // A directory can be moved into another one only by those who may change it; its mode, which may
    // forbid that, is given back when it has its name.
    let mode = store.node(&from)?.mode;
    let unlocked = store.unlock(&from);
    let renamed = store.rename(&from, &name, Existing::Keep);
    if unlocked {
        let change = AttributeChange { mode: Some(mode), ..AttributeChange::default() };
        store.change(if renamed.is_ok() { &name } else { &from }, &change)?;
    }
    renamed?;
    mark.clear();
    // Where that fails, something was put into it since, which is not ours to remove.
    let _ = store.remove_directory(&holder);
    store.sync(&RelPath::default())
}

/// Whether nobody else can have put anything into the directory `there`, or below it, or will: an earlier attempt made it,
/// which is known.
fn must_be_ours(there: &Node, is_known: impl Fn() -> bool, shown: &Path) -> Result<(), Error> {
    let wrong = match there {
        Node { kind: NodeKind::Symlink, .. } => "it is a link",
        Node { kind, .. } if *kind != NodeKind::Directory => "it is no directory",
        Node { owner: (user, _), .. } if *user != rustix::process::geteuid().as_raw() => "it belongs to another user",
        Node { mode, .. } if mode & OTHERS != 0 => "others may enter it",
        _ if !is_known() => "no unfinished copy of this source to here is known that left it",
        _ => return Ok(()),
    };
    let text = format!(
        "'{}' has the name for what is not complete yet, and {wrong}\nhelp: remove it, copy to another name, or copy without \
         --atomic",
        printable_path(shown)
    );
    Err(Error::new(ErrorKind::PermissionDenied, text))
}

/// The directory that receives `path`.
fn parent_of(path: &Path) -> Result<LocalStore, Error> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    LocalPlace::of(parent.as_os_str().as_bytes()).map(|place| place.store)
}

/// The last component of `path`.
fn name_of(path: &Path) -> Result<RelPath, Error> {
    RelPath::parse(path.file_name().map(OsStrExt::as_bytes).unwrap_or_default()).map_err(unnameable)
}

fn unnameable(error: xdfs_proto::base::PathError) -> Error {
    Error::new(ErrorKind::InvalidPath, error.to_string())
}
