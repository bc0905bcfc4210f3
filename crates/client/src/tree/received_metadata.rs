//! What a server tells of a file besides its bytes: how much room that takes in a reply, and what an owner is here.

use xdfs_io::store::owners;
use xdfs_proto::limits;

/// Initial bytes of a result for an extended attribute, or for the names of all; nearly all are
/// shorter.
pub(super) const XATTR_ROOM: usize = 4 << 10;
/// The same if that was too little: the longest value, or all names that the kernel reports, each
/// with its length.
pub(super) const XATTR_ROOM_MAX: usize = limits::XATTR_BYTES_MAX + (4 << 10);

/// The local numbers of owner and group: those of their names if the names were sent and are known
/// here.
pub(super) fn known_here((user, group): (u32, u32), names: Option<(&[u8], &[u8])>) -> (u32, u32) {
    let Some((users_name, groups_name)) = names else { return (user, group) };
    let known = owners::known();
    (known.users.number(users_name).unwrap_or(user), known.groups.number(groups_name).unwrap_or(group))
}
