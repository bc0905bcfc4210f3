//! Small files of this machine, read whole by few calls: one look, one open, one read, and one more look, which tells whether it
//! stayed what it was.
//!
//! Must not: find words. Whatever is unusual is read again in the usual way, which has them.

use super::LocalStore;
use super::source::attributes_of;
use crate::store::Attributes;
use crate::store::small::{HeldDirectory, SmallReader};
use crate::store::tree::{Node, NodeKind};
use std::sync::Arc;
use xdfs_proto::base::RelPath;

/// Reads the regular file at `path`; none where it is anything but a file with bytes, at most `bytes_max`, that stays what it is.
pub(super) fn quickly(
    store: &LocalStore,
    path: &RelPath,
    seen: Option<&Node>,
    bytes_max: u64,
    into: &mut SmallReader,
) -> Option<Attributes> {
    let name = path.name()?;
    hold(store, path, into)?;
    let parent = &into.held.as_ref()?.parent;
    // Before the open, which may wake or arm what is no file.
    let looked;
    let (size, version) = match seen {
        Some(node) => ((node.kind == NodeKind::Regular).then_some(node.size)?, &node.version),
        None => {
            looked = attributes_of(&parent.look(name).ok()??);
            (looked.size?, &looked.version)
        }
    };
    // Files of the kernel say that they are empty, and are not.
    if size == 0 || size > bytes_max {
        return None;
    }
    let file = parent.open_to_read(name).ok()?;
    let read = rustix::io::pread(&file, into.room(size), 0).ok()?;
    let after = attributes_of(&rustix::fs::fstat(&file).ok()?);
    (read as u64 == size && after.size == Some(size) && after.version == *version).then_some(after)
}

/// Holds the directory of `path`.
fn hold(store: &LocalStore, path: &RelPath, into: &mut SmallReader) -> Option<()> {
    let above = path.above();
    if into.held.as_ref().is_some_and(|held| Arc::ptr_eq(&held.root, &store.root) && held.path == above) {
        return Some(());
    }
    into.held = None;
    let parent = store.root.hold_directory(&path.parent()?).ok()?;
    into.held = Some(HeldDirectory { root: Arc::clone(&store.root), path: above.to_vec(), parent });
    Some(())
}
