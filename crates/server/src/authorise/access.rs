//! Who may use an export, and how. Plain values that the configuration fills in; nothing here knows paths.

use std::collections::BTreeSet;
use xdfs_proto::base::Level;
use xdfs_secure::policy::{Method, Principal};

/// Which of those who logged in an export is for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Users {
    /// Everybody who logged in.
    #[default]
    All,
    /// These.
    Only(BTreeSet<String>),
}

/// What an export gives those who did not log in (rule 25).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Anonymous {
    /// Nothing: they do not even learn that it is there.
    #[default]
    Nothing,
    /// Reading.
    Read,
    /// Reading, and new files: nothing that is there is ever replaced.
    Create,
    /// Reading and writing, as a user has it.
    Write,
}

/// What copies may bring along besides bytes, plain permissions (0o777) and times: nothing, where an administrator says nothing
/// (T4, T5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Keep {
    /// The bits that run a program as its owner or group, and the sticky bit.
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

impl Keep {
    /// What either of them takes.
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

/// Who may use an export, and how.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// Whether anybody may write at all.
    pub writable: bool,
    /// Who it is for.
    pub users: Users,
    /// What visitors may.
    pub anonymous: Anonymous,
    /// The lowest protection level of its transfers.
    pub floor: Level,
    /// What copies may bring along.
    pub keep: Keep,
}

/// What somebody may do with an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rights {
    /// Read files and their attributes. Without it the export is not there at all.
    pub read: bool,
    /// Make files under names that are free.
    pub create: bool,
    /// Put files in the place of others.
    pub replace: bool,
}

impl Rights {
    /// Nothing.
    pub const NONE: Self = Self { read: false, create: false, replace: false };
    /// Reading.
    pub const READ: Self = Self { read: true, create: false, replace: false };
    /// Reading and making files.
    pub const CREATE: Self = Self { read: true, create: true, replace: false };
    /// Everything.
    pub const ALL: Self = Self { read: true, create: true, replace: true };

    /// What both allow.
    pub const fn and(self, other: Self) -> Self {
        Self {
            read: self.read && other.read,
            create: self.create && other.create,
            replace: self.replace && other.replace,
        }
    }
}

/// What `who` may do with an export of this `access`, before the limits of a token.
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
