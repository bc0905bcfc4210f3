//! File types of a store and of the wire, converted into each other: the store knows nothing of the
//! wire, and both ends need both.

use xdfs_io::store::tree::NodeKind;
use xdfs_proto::wire::path::FileType;

/// The type that is reported for a node.
pub const fn told(kind: NodeKind) -> FileType {
    match kind {
        NodeKind::Regular => FileType::Regular,
        NodeKind::Directory => FileType::Directory,
        NodeKind::Symlink => FileType::Symlink,
        NodeKind::Fifo => FileType::Fifo,
        NodeKind::Socket => FileType::Socket,
        NodeKind::CharacterDevice => FileType::CharacterDevice,
        NodeKind::BlockDevice => FileType::BlockDevice,
    }
}

/// The kind of special file for a reported type; none for files, directories, links and types
/// without a number.
pub const fn special(kind: FileType) -> Option<NodeKind> {
    match kind {
        FileType::Fifo => Some(NodeKind::Fifo),
        FileType::Socket => Some(NodeKind::Socket),
        FileType::CharacterDevice => Some(NodeKind::CharacterDevice),
        FileType::BlockDevice => Some(NodeKind::BlockDevice),
        FileType::Regular | FileType::Directory | FileType::Symlink | FileType::Other => None,
    }
}
