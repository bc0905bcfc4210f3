//! The calls and their arguments. A new call needs a number here, a right in the server and a row
//! in the document.

use super::super::call_codes::call_codes;
use super::super::codec::{Reader, WireError, Writer};
use super::fields::{
    NewTime, Owner, Put, Watched, XattrRule, length, path as path_of, read_owners, read_times, switch, watch_number,
    write_owners, write_times, xattr_name,
};
use super::openers::OPENERS_BYTES_MAX;
use super::{FileType, Wanted, mode, number};
use crate::limits;

call_codes! {
    Code:
    /// Attributes of a name.
    Stat = 1, "stat", false;
    /// A page of a directory.
    List = 2, "list", false;
    /// Makes a directory.
    MakeDirectory = 3, "mkdir", true;
    /// Removes an empty directory.
    RemoveDirectory = 4, "rmdir", true;
    /// Removes a name that is no directory.
    Unlink = 5, "unlink", true;
    /// Renames a file or directory.
    Rename = 6, "rename", true;
    /// Creates a hard link to a file.
    Link = 7, "link", true;
    /// Makes a symbolic link.
    Symlink = 8, "symlink", true;
    /// Target of a symbolic link.
    ReadLink = 9, "readlink", false;
    /// Sets permission bits.
    SetMode = 10, "chmod", true;
    /// Sets times.
    SetTimes = 11, "utimes", true;
    /// Cuts or extends a file.
    Truncate = 12, "truncate", true;
    /// Sets owner and group.
    SetOwner = 13, "chown", true;
    /// Makes a pipe, socket or device.
    MakeNode = 14, "mknod", true;
    /// Value of an extended attribute.
    XattrValue = 15, "getxattr", false;
    /// Sets an extended attribute.
    SetXattr = 16, "setxattr", true;
    /// Names of the extended attributes.
    XattrNames = 17, "listxattr", false;
    /// Removes an extended attribute.
    RemoveXattr = 18, "removexattr", true;
    /// Space of the file system.
    FileSystem = 19, "statfs", false;
    /// Hash of a file or a range of it.
    Hash = 20, "hash", false;
    /// A small file, complete.
    Put = 21, "put", true;
    /// Content of a small file.
    Get = 22, "get", false;
    /// Tells of changes of names from now on.
    Watch = 28, "watch", false;
    /// Who has a file open.
    Opens = 29, "opens", false;
    /// Creates a staging directory for a tree that is committed atomically.
    StageTree = 31, "stagetree", true;
    /// Renames such a tree to its final name.
    PublishTree = 32, "publishtree", true;
}

/// Size reserved for the result of every call: its failure, its success if no bytes were requested,
/// or an empty page with its cursor.
pub const REPLY_CALL_BYTES: usize = 96;

/// One call. Paths are below the batch's base, and the base itself if they are empty; none is
/// followed if it is a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the variants are those of `Code`, the fields those of the document's table")]
pub enum Call<'a> {
    Stat {
        path: &'a [u8],
        wanted: Wanted,
    },
    List {
        path: &'a [u8],
        wanted: Wanted,
        cursor: &'a [u8],
    },
    MakeDirectory {
        path: &'a [u8],
        parents: bool,
        mode: u32,
    },
    RemoveDirectory {
        path: &'a [u8],
    },
    Unlink {
        path: &'a [u8],
    },
    Rename {
        path: &'a [u8],
        to: &'a [u8],
        keep_existing: bool,
    },
    Link {
        path: &'a [u8],
        to: &'a [u8],
    },
    Symlink {
        path: &'a [u8],
        target: &'a [u8],
    },
    ReadLink {
        path: &'a [u8],
    },
    SetMode {
        path: &'a [u8],
        mode: u32,
    },
    SetTimes {
        path: &'a [u8],
        modified: Option<NewTime>,
        accessed: Option<NewTime>,
    },
    Truncate {
        path: &'a [u8],
        length: u64,
    },
    SetOwner {
        path: &'a [u8],
        user: Option<Owner<'a>>,
        group: Option<Owner<'a>>,
    },
    MakeNode {
        path: &'a [u8],
        kind: FileType,
        mode: u32,
        device: (u32, u32),
    },
    XattrValue {
        path: &'a [u8],
        name: &'a [u8],
    },
    SetXattr {
        path: &'a [u8],
        name: &'a [u8],
        rule: XattrRule,
        value: &'a [u8],
    },
    XattrNames {
        path: &'a [u8],
    },
    RemoveXattr {
        path: &'a [u8],
        name: &'a [u8],
    },
    FileSystem {
        path: &'a [u8],
    },
    Hash {
        path: &'a [u8],
        offset: u64,
        length: Option<u64>,
    },
    Put(Put<'a>),
    Get {
        path: &'a [u8],
        wanted: Wanted,
        most: u32,
    },
    Watch {
        path: &'a [u8],
        watched: Watched,
        watch: u64,
    },
    Opens {
        path: &'a [u8],
    },
    StageTree {
        path: &'a [u8],
        client: [u8; 16],
    },
    PublishTree {
        path: &'a [u8],
        client: [u8; 16],
    },
    /// A call of a later version: nothing but its number is known.
    Unknown {
        code: u64,
    },
}

impl<'a> Call<'a> {
    /// Its number.
    pub const fn code(&self) -> u64 {
        let code = match self {
            Self::Stat { .. } => Code::Stat,
            Self::List { .. } => Code::List,
            Self::MakeDirectory { .. } => Code::MakeDirectory,
            Self::RemoveDirectory { .. } => Code::RemoveDirectory,
            Self::Unlink { .. } => Code::Unlink,
            Self::Rename { .. } => Code::Rename,
            Self::Link { .. } => Code::Link,
            Self::Symlink { .. } => Code::Symlink,
            Self::ReadLink { .. } => Code::ReadLink,
            Self::SetMode { .. } => Code::SetMode,
            Self::SetTimes { .. } => Code::SetTimes,
            Self::Truncate { .. } => Code::Truncate,
            Self::SetOwner { .. } => Code::SetOwner,
            Self::MakeNode { .. } => Code::MakeNode,
            Self::XattrValue { .. } => Code::XattrValue,
            Self::SetXattr { .. } => Code::SetXattr,
            Self::XattrNames { .. } => Code::XattrNames,
            Self::RemoveXattr { .. } => Code::RemoveXattr,
            Self::FileSystem { .. } => Code::FileSystem,
            Self::Hash { .. } => Code::Hash,
            Self::Put(_) => Code::Put,
            Self::Get { .. } => Code::Get,
            Self::Watch { .. } => Code::Watch,
            Self::Opens { .. } => Code::Opens,
            Self::StageTree { .. } => Code::StageTree,
            Self::PublishTree { .. } => Code::PublishTree,
            Self::Unknown { code } => return *code,
        };
        code as u64
    }

    /// Its path below the base; empty for an unknown call.
    pub const fn path(&self) -> &'a [u8] {
        match *self {
            Self::Stat { path, .. }
            | Self::List { path, .. }
            | Self::MakeDirectory { path, .. }
            | Self::RemoveDirectory { path }
            | Self::Unlink { path }
            | Self::Rename { path, .. }
            | Self::Link { path, .. }
            | Self::Symlink { path, .. }
            | Self::ReadLink { path }
            | Self::SetMode { path, .. }
            | Self::SetTimes { path, .. }
            | Self::Truncate { path, .. }
            | Self::SetOwner { path, .. }
            | Self::MakeNode { path, .. }
            | Self::XattrValue { path, .. }
            | Self::SetXattr { path, .. }
            | Self::XattrNames { path }
            | Self::RemoveXattr { path, .. }
            | Self::FileSystem { path }
            | Self::Hash { path, .. }
            | Self::Put(Put { path, .. })
            | Self::Get { path, .. }
            | Self::Watch { path, .. }
            | Self::Opens { path }
            | Self::StageTree { path, .. }
            | Self::PublishTree { path, .. } => path,
            Self::Unknown { .. } => &[],
        }
    }

    /// Whether it changes what is stored.
    pub fn changes(&self) -> bool {
        Code::from_number(self.code()).is_some_and(Code::changes)
    }

    /// Most bytes that its result takes. None where nothing but the room of the reply bounds it:
    /// such a result may take what those behind it need (P-71).
    pub const fn result_bytes_max(&self) -> Option<usize> {
        // The status, and the length of a string.
        const STATUS: usize = 8;
        const LENGTH: usize = 4;
        Some(match *self {
            Self::Stat { wanted, .. } => STATUS + wanted.bytes_max(),
            Self::Get { wanted, most, .. } => STATUS + wanted.bytes_max() + LENGTH + most as usize,
            Self::ReadLink { .. } => STATUS + LENGTH + limits::LINK_BYTES_MAX,
            Self::Opens { .. } => STATUS + OPENERS_BYTES_MAX,
            Self::List { .. } | Self::XattrNames { .. } | Self::XattrValue { .. } => return None,
            _ => REPLY_CALL_BYTES,
        })
    }

    /// What of that is more than every result has ([`REPLY_CALL_BYTES`]); 0 where it is not known.
    pub const fn room(&self) -> usize {
        match self.result_bytes_max() {
            Some(bytes) => bytes.saturating_sub(REPLY_CALL_BYTES),
            None => 0,
        }
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        if !matches!(self, Self::Unknown { .. }) {
            writer.bytes(self.path());
        }
        match *self {
            Self::Stat { wanted, .. } => drop(writer.integer(wanted.0.into())),
            Self::List { wanted, cursor, .. } => drop(writer.integer(wanted.0.into()).bytes(cursor)),
            Self::MakeDirectory { parents, mode, .. } => drop(writer.integer(parents.into()).integer(mode.into())),
            Self::Rename { to, keep_existing, .. } => drop(writer.bytes(to).integer(keep_existing.into())),
            Self::Link { to, .. } => drop(writer.bytes(to)),
            Self::Symlink { target, .. } => drop(writer.bytes(target)),
            Self::SetMode { mode, .. } => drop(writer.integer(mode.into())),
            Self::SetTimes { modified, accessed, .. } => write_times(writer, modified, accessed),
            Self::Truncate { length, .. } => drop(writer.integer(length)),
            Self::SetOwner { user, group, .. } => write_owners(writer, user, group),
            Self::MakeNode { kind, mode, device: (major, minor), .. } => {
                writer.byte(kind as u8).integer(mode.into()).integer(major.into()).integer(minor.into());
            }
            Self::XattrValue { name, .. } | Self::RemoveXattr { name, .. } => drop(writer.bytes(name)),
            Self::SetXattr { name, rule, value, .. } => drop(writer.bytes(name).integer(rule as u64).bytes(value)),
            Self::Hash { offset, length, .. } => {
                writer.integer(length.is_some().into()).integer(offset);
                if let Some(length) = length {
                    writer.integer(length);
                }
            }
            Self::Put(put) => put.write(writer),
            Self::Get { wanted, most, .. } => drop(writer.integer(wanted.0.into()).integer(most.into())),
            Self::Watch { watched, watch, .. } => drop(writer.integer(watched as u64).integer(watch)),
            Self::StageTree { client, .. } | Self::PublishTree { client, .. } => drop(writer.raw(&client)),
            Self::RemoveDirectory { .. }
            | Self::Unlink { .. }
            | Self::ReadLink { .. }
            | Self::XattrNames { .. }
            | Self::Opens { .. }
            | Self::FileSystem { .. }
            | Self::Unknown { .. } => {}
        }
    }

    pub(super) fn decode(number: u64, arguments: &'a [u8]) -> Result<Self, WireError> {
        let Some(code) = Code::from_number(number) else { return Ok(Self::Unknown { code: number }) };
        let mut reader = Reader::new(arguments);
        let path = path_of(&mut reader)?;
        let call = Self::read(code, path, &mut reader)?;
        reader.end()?;
        Ok(call)
    }

    fn read(code: Code, path: &'a [u8], reader: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(match code {
            Code::Stat => Self::Stat { path, wanted: Wanted::read(reader)? },
            Code::List => {
                let wanted = Wanted::read(reader)?;
                Self::List { path, wanted, cursor: reader.bytes(limits::CURSOR_BYTES_MAX, "cursor")? }
            }
            Code::MakeDirectory => Self::MakeDirectory { path, parents: switch(reader)?, mode: mode(reader)? },
            Code::RemoveDirectory => Self::RemoveDirectory { path },
            Code::Unlink => Self::Unlink { path },
            Code::Rename => Self::Rename { path, to: path_of(reader)?, keep_existing: switch(reader)? },
            Code::Link => Self::Link { path, to: path_of(reader)? },
            Code::Symlink => {
                let target = reader.bytes(limits::LINK_BYTES_MAX, "target of a link")?;
                if target.is_empty() || target.contains(&0) {
                    return Err(WireError::Invalid("target of a link"));
                }
                Self::Symlink { path, target }
            }
            Code::ReadLink => Self::ReadLink { path },
            Code::SetMode => Self::SetMode { path, mode: mode(reader)? },
            Code::SetTimes => {
                let (modified, accessed) = read_times(reader)?;
                Self::SetTimes { path, modified, accessed }
            }
            Code::Truncate => Self::Truncate { path, length: length(reader)? },
            Code::SetOwner => {
                let (user, group) = read_owners(reader)?;
                Self::SetOwner { path, user, group }
            }
            Code::MakeNode => Self::MakeNode {
                path,
                kind: FileType::read(reader)?,
                mode: mode(reader)?,
                device: (number(reader, "device")?, number(reader, "device")?),
            },
            Code::XattrValue => Self::XattrValue { path, name: xattr_name(reader)? },
            Code::SetXattr => {
                let name = xattr_name(reader)?;
                let rule = match reader.integer()? {
                    0 => XattrRule::Any,
                    1 => XattrRule::Create,
                    2 => XattrRule::Replace,
                    _ => return Err(WireError::Invalid("rule of an attribute")),
                };
                let value = reader.bytes(limits::XATTR_BYTES_MAX, "value of an attribute")?;
                Self::SetXattr { path, name, rule, value }
            }
            Code::XattrNames => Self::XattrNames { path },
            Code::RemoveXattr => Self::RemoveXattr { path, name: xattr_name(reader)? },
            Code::FileSystem => Self::FileSystem { path },
            Code::Hash => {
                let (known, offset) = (switch(reader)?, length(reader)?);
                Self::Hash { path, offset, length: if known { Some(length(reader)?) } else { None } }
            }
            Code::Put => Self::Put(Put::read(path, reader)?),
            Code::Get => {
                let wanted = Wanted::read(reader)?;
                Self::Get { path, wanted, most: number(reader, "size")? }
            }
            Code::Watch => Self::Watch { path, watched: Watched::read(reader)?, watch: watch_number(reader)? },
            Code::Opens => Self::Opens { path },
            Code::StageTree => Self::StageTree { path, client: reader.array()? },
            Code::PublishTree => Self::PublishTree { path, client: reader.array()? },
        })
    }
}
