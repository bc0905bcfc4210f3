//! What the replies to calls on names and on files have in common.

use xdfs_engine::kinds;
use xdfs_io::store::tree::{Node, NodeKind};
use xdfs_io::store::{self, FileKind, owners};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::WireError;
use xdfs_proto::wire::path::{Attributes, Failure, FileType, ReplyWriter, Wanted};

/// A malformed batch fails as an operation, and nothing of it is executed.
pub(crate) fn malformed(error: &WireError) -> Error {
    Error::new(ErrorKind::Protocol, format!("malformed batch: {error}"))
}

/// The failure of a call as the reply reports it.
pub(crate) fn failure(error: &Error) -> Failure {
    Failure { kind: error.kind, errno: error.errno }
}

/// The reply's writer, if the room suffices for any outcome.
pub(crate) fn reply_writer(memory: Vec<u8>, calls: usize, room: u32) -> Result<ReplyWriter, Error> {
    ReplyWriter::within(memory, calls, room as usize).ok_or_else(|| {
        let text = format!("{room} bytes are too little room for the reply to {calls} calls");
        Error::new(ErrorKind::LimitExceeded, text)
    })
}

/// The attributes that are reported for a name.
pub(crate) fn attributes_of<'a>(node: &'a Node, wanted: Wanted, target: Option<&'a [u8]>) -> Attributes<'a> {
    fn told<T>(wanted: bool, value: T) -> Option<T> {
        wanted.then_some(value)
    }
    let kind = kinds::told(node.kind);
    let device = matches!(node.kind, NodeKind::CharacterDevice | NodeKind::BlockDevice);
    let mut inode = [0; 16];
    inode[..8].copy_from_slice(&node.identity.0.to_be_bytes());
    inode[8..].copy_from_slice(&node.identity.1.to_be_bytes());
    // Every change advances the change time; changes within one tick of the file system's clock
    // cannot be told apart.
    let change =
        (node.changed.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(node.changed.nanoseconds.into());
    Attributes {
        mode: told(wanted.has(Wanted::MODE), node.mode & 0o7777),
        size: told(wanted.has(Wanted::SIZE), node.size),
        modified: told(wanted.has(Wanted::MODIFIED), node.modified),
        accessed: told(wanted.has(Wanted::ACCESSED), node.accessed),
        links: told(wanted.has(Wanted::LINKS), node.links),
        inode: told(wanted.has(Wanted::INODE), inode),
        owner: told(wanted.has(Wanted::OWNER), node.owner),
        names: wanted.has(Wanted::NAMES).then(|| names_of(node.owner)),
        device: told(device && wanted.has(Wanted::DEVICE), node.device),
        allocated: told(wanted.has(Wanted::ALLOCATED), node.allocated),
        change: told(wanted.has(Wanted::CHANGE), change),
        version: told(wanted.has(Wanted::VERSION), node.version.0.as_slice()),
        target: target.filter(|_| wanted.has(Wanted::TARGET)),
        ..Attributes::of(kind)
    }
}

fn names_of((user, group): (u32, u32)) -> (&'static [u8], &'static [u8]) {
    (owners::known().users.name(user), owners::known().groups.name(group))
}

/// The same for a store that has no tree.
pub(crate) fn plain(attributes: &store::Attributes, wanted: Wanted) -> Attributes<'_> {
    let kind = match attributes.kind {
        FileKind::Regular => FileType::Regular,
        FileKind::Directory => FileType::Directory,
        FileKind::Other => FileType::Other,
    };
    Attributes {
        mode: wanted.has(Wanted::MODE).then_some(attributes.mode & 0o7777),
        size: attributes.size.filter(|_| wanted.has(Wanted::SIZE)),
        modified: wanted.has(Wanted::MODIFIED).then_some(attributes.modified),
        version: wanted.has(Wanted::VERSION).then_some(attributes.version.0.as_slice()),
        ..Attributes::of(kind)
    }
}
