//! Small files of this machine, read whole by few calls: one look, one open, one read, and one more look, which tells whether it
//! stayed what it was.
//!
//! Must not: find words. Whatever is unusual is read again in the usual way, which has them.

use super::LocalStore;
use super::source::attributes_of;
use crate::store::small::{Held, Reading};
use crate::store::tree::{Node, NodeKind};
use crate::store::{Attributes, FileKind};
use rustix::fs::Stat;
use std::sync::Arc;
use xdfs_proto::base::RelPath;

/// What tells one state of a file from another.
#[derive(PartialEq, Eq)]
struct State {
    identity: (u64, u64),
    size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
}

impl State {
    fn seen(node: &Node) -> Option<Self> {
        let Node { identity, size, modified, changed, .. } = *node;
        (node.kind == NodeKind::Regular).then_some(Self { identity, size, modified, changed })
    }

    fn of(stat: &Stat) -> Option<Self> {
        // Below a second, as the kernel has it.
        let part = |nanoseconds: u64| u32::try_from(nanoseconds).ok();
        (attributes_of(stat).kind == FileKind::Regular).then_some(Self {
            identity: (stat.st_dev, stat.st_ino),
            size: u64::try_from(stat.st_size).ok()?,
            modified: (stat.st_mtime, part(stat.st_mtime_nsec)?),
            changed: (stat.st_ctime, part(stat.st_ctime_nsec)?),
        })
    }
}

/// Reads the regular file at `path`; none where it is anything but a file with bytes, at most `bytes_max`, that stays what it is.
pub(super) fn quickly(
    store: &LocalStore,
    path: &RelPath,
    seen: Option<&Node>,
    bytes_max: u64,
    into: &mut Reading,
) -> Option<Attributes> {
    let name = path.name()?;
    hold(store, path, into)?;
    let parent = &into.held.as_ref()?.parent;
    // Before the open, which may wake or arm what is no file.
    let before = match seen {
        Some(node) => State::seen(node)?,
        None => State::of(&parent.look(name).ok()??)?,
    };
    // Files of the kernel say that they are empty, and are not.
    if before.size == 0 || before.size > bytes_max {
        return None;
    }
    let file = parent.open_to_read(name).ok()?;
    let read = rustix::io::pread(&file, into.room(before.size), 0).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    (read as u64 == before.size && State::of(&stat)? == before).then(|| attributes_of(&stat))
}

/// Holds the directory of `path`.
fn hold(store: &LocalStore, path: &RelPath, into: &mut Reading) -> Option<()> {
    let above = path.above();
    if into.held.as_ref().is_some_and(|held| Arc::ptr_eq(&held.root, &store.root) && held.path == above) {
        return Some(());
    }
    into.held = None;
    let parent = store.root.hold_directory(&path.parent()?).ok()?;
    into.held = Some(Held { root: Arc::clone(&store.root), path: above.to_vec(), parent });
    Some(())
}
