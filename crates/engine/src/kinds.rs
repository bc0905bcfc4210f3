//! Kinds of things, as a store has them and as the wire does: the store knows nothing of the wire, and both ends need both.

use xdfs_proto::wire::path::FileType;
use xdfs_xio::store::tree::NodeKind;

/// The kind that is told of something.
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

/// The kind of special file that a told one means; none for files, directories, links and what has no number.
pub const fn special(kind: FileType) -> Option<NodeKind> {
    match kind {
        FileType::Fifo => Some(NodeKind::Fifo),
        FileType::Socket => Some(NodeKind::Socket),
        FileType::CharacterDevice => Some(NodeKind::CharacterDevice),
        FileType::BlockDevice => Some(NodeKind::BlockDevice),
        FileType::Regular | FileType::Directory | FileType::Symlink | FileType::Other => None,
    }
}
