//! The users of an export and their rights. Plain values that the configuration fills in; nothing
//! here knows paths.

use std::collections::BTreeSet;
use xdfs_proto::base::Level;
use xdfs_secure::policy::{Method, Principal};

/// The authenticated users that an export is for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Users {
    /// Every authenticated user.
    #[default]
    All,
    /// Only these.
    Only(BTreeSet<String>),
}

/// The rights of anonymous users on an export.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Anonymous {
    /// None: the export is hidden from them.
    #[default]
    Nothing,
    /// Reading.
    Read,
    /// Reading, and new files: no existing file is ever replaced.
    Create,
    /// Reading and writing, as for a user.
    Write,
}

/// What copies may preserve beyond bytes, plain permissions (0o777) and times: nothing, unless an
/// administrator configures it: a set-user-ID file, or a device, is a right on this machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Preserve {
    /// The set-user-ID and set-group-ID bits, and the sticky bit.
    pub modes: bool,
    /// Owner and group.
    pub owner: bool,
    /// Access control lists.
    pub acl: bool,
    /// Extended attributes.
    pub xattr: bool,
    /// Pipes, sockets and devices.
    pub special: bool,
}

impl Preserve {
    /// The union of both.
    pub const fn or(self, other: Self) -> Self {
        Self {
            modes: self.modes || other.modes,
            owner: self.owner || other.owner,
            acl: self.acl || other.acl,
            xattr: self.xattr || other.xattr,
            special: self.special || other.special,
        }
    }
}

/// The users of an export and their rights.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// Whether any user may write at all.
    pub writable: bool,
    /// The users that it is for.
    pub users: Users,
    /// The rights of anonymous users.
    pub anonymous: Anonymous,
    /// The lowest protection level of its transfers.
    pub floor: Level,
    /// What copies may preserve.
    pub keep: Preserve,
    /// Whether named pipes may be opened, to read with the right to read, and to write with the one to
    /// change existing files; and created.
    pub pipes: bool,
}

/// The rights of a user on an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rights {
    /// Read files and their attributes. Without it the export is hidden.
    pub read: bool,
    /// Create files under unused names.
    pub create: bool,
    /// Replace existing files.
    pub replace: bool,
}

impl Rights {
    /// Nothing.
    pub const NONE: Self = Self { read: false, create: false, replace: false };
    /// Reading.
    pub const READ: Self = Self { read: true, create: false, replace: false };
    /// Reading and creating files.
    pub const CREATE: Self = Self { read: true, create: true, replace: false };
    /// Everything.
    pub const ALL: Self = Self { read: true, create: true, replace: true };

    /// As the mode of the export's directory, for everybody who looks: whoever may create and replace
    /// nothing is told so as in a directory with the sticky bit.
    pub const fn as_mode(self) -> u32 {
        match self {
            Self { read: false, .. } => 0,
            Self { create: false, .. } => 0o555,
            Self { replace: false, .. } => 0o1777,
            _ => 0o777,
        }
    }

    /// The intersection of both.
    pub const fn and(self, other: Self) -> Self {
        Self {
            read: self.read && other.read,
            create: self.create && other.create,
            replace: self.replace && other.replace,
        }
    }
}

/// The rights of `who` on an export with this `access`, before the limits of a token.
pub(crate) fn rights_of(access: &Access, who: &Principal) -> Rights {
    let given = match (who.method, &access.users) {
        (Method::Anonymous, _) => match access.anonymous {
            Anonymous::Nothing => Rights::NONE,
            Anonymous::Read => Rights::READ,
            Anonymous::Create => Rights::CREATE,
            Anonymous::Write => Rights::ALL,
        },
        (Method::Key | Method::Password | Method::Token, Users::All) => Rights::ALL,
        (Method::Key | Method::Password | Method::Token, Users::Only(users)) if users.contains(&who.user) => {
            Rights::ALL
        }
        (Method::Key | Method::Password | Method::Token, Users::Only(_)) => Rights::NONE,
    };
    if access.writable { given } else { given.and(Rights::READ) }
}
