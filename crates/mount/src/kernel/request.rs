//! Requests of the kernel, decoded. It is not hostile, but may be newer: what is not known, or not as
//! long as it should be, is answered as not offered.

use super::abi;
use std::time::Duration;
use xdfs_client::Timestamp;

/// Who makes the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Caller {
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// The thread, as this process knows it; 0 if it does not.
    pub(crate) thread: u32,
}

/// A request: its number, the inode that it is about, and what is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) unique: u64,
    pub(crate) inode: u64,
    pub(crate) caller: Caller,
    pub(crate) operation: Operation<'a>,
}

/// A time to set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SetTime {
    Now,
    At(Timestamp),
}

/// The mode of what is made, as a program asked for it, and the program's umask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NewMode {
    pub(crate) mode: u32,
    pub(crate) umask: u32,
}

/// Attributes to set; none stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct NewAttributes {
    pub(crate) handle: Option<u64>,
    pub(crate) mode: Option<u32>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) accessed: Option<SetTime>,
    pub(crate) modified: Option<SetTime>,
}

/// A lock that is wanted, or ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LockRequest {
    pub(crate) handle: u64,
    /// A process, or an open file.
    pub(crate) owner: u64,
    /// The first byte, and the last one.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// As in fcntl(2).
    pub(crate) kind: u32,
    /// As flock does.
    pub(crate) whole_file: bool,
    /// Until it can be had.
    pub(crate) wait: bool,
}

impl LockRequest {
    /// Whether a lock is ended: `F_UNLCK` of fcntl(2).
    pub(crate) fn is_unlock(&self) -> bool {
        self.kind == 2
    }
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are those of the system calls")]
pub(crate) enum Operation<'a> {
    Init {
        major: u32,
        minor: u32,
        readahead: u32,
        flags: u64,
    },
    Destroy,
    Interrupt {
        unique: u64,
    },
    Forget {
        lookups: u64,
    },
    /// Pairs of an inode and a count, 16 bytes each.
    ForgetMany {
        pairs: &'a [u8],
    },
    LookUp {
        name: &'a [u8],
    },
    Attributes {
        handle: Option<u64>,
    },
    SetAttributes(NewAttributes),
    ReadLink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MakeNode {
        name: &'a [u8],
        mode: NewMode,
        device: u32,
    },
    MakeDirectory {
        name: &'a [u8],
        mode: NewMode,
    },
    Unlink {
        name: &'a [u8],
    },
    RemoveDirectory {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        parent: u64,
        to: &'a [u8],
        flags: u32,
    },
    Link {
        inode: u64,
        name: &'a [u8],
    },
    Open {
        flags: u32,
    },
    Create {
        name: &'a [u8],
        mode: NewMode,
        flags: u32,
    },
    Read {
        handle: u64,
        offset: u64,
        size: u32,
    },
    Write {
        handle: u64,
        offset: u64,
        flags: u32,
        cause: u32,
        data: &'a [u8],
    },
    Flush {
        handle: u64,
        owner: u64,
    },
    Release {
        handle: u64,
    },
    Sync {
        handle: u64,
        data_only: bool,
    },
    OpenDirectory,
    ReadDirectory {
        handle: u64,
        offset: u64,
        size: u32,
        plus: bool,
    },
    ReleaseDirectory {
        handle: u64,
    },
    SyncDirectory,
    FileSystem,
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    Xattr {
        name: &'a [u8],
        size: u32,
    },
    XattrNames {
        size: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    Lock(LockRequest),
    FindLock(LockRequest),
    Allocate {
        handle: u64,
        offset: u64,
        length: u64,
        mode: u32,
    },
    Seek {
        handle: u64,
        offset: u64,
        whence: u32,
    },
    /// Something that is not offered.
    Other,
}

/// Fields in the order of the structures.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// A name that ends with a zero byte.
    fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let name = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(name)
    }
}

/// The length of the whole request, which its first field tells.
pub(super) fn decode(bytes: &[u8]) -> Option<Call<'_>> {
    let mut fields = Fields(bytes);
    let length = fields.u32()? as usize;
    let code = fields.u32()?;
    let (unique, inode) = (fields.u64()?, fields.u64()?);
    let caller = Caller { user: fields.u32()?, group: fields.u32()?, thread: fields.u32()? };
    let arguments = bytes.get(abi::REQUEST_HEAD..length)?;
    let operation = operation(code, inode, &mut Fields(arguments)).unwrap_or(Operation::Other);
    Some(Call { unique, inode, caller, operation })
}

fn operation<'a>(code: u32, inode: u64, fields: &mut Fields<'a>) -> Option<Operation<'a>> {
    Some(match code {
        1 => Operation::LookUp { name: fields.name()? },
        2 => Operation::Forget { lookups: fields.u64()? },
        3 => {
            let (has_handle, _) = (fields.u32()? & 1 != 0, fields.u32()?);
            let handle = fields.u64()?;
            Operation::Attributes { handle: has_handle.then_some(handle) }
        }
        4 => Operation::SetAttributes(new_attributes(fields)?),
        5 => Operation::ReadLink,
        6 => Operation::Symlink { name: fields.name()?, target: fields.name()? },
        8 => {
            let (mode, device, umask, _) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
            Operation::MakeNode { mode: NewMode { mode, umask }, device, name: fields.name()? }
        }
        9 => {
            let (mode, umask) = (fields.u32()?, fields.u32()?);
            Operation::MakeDirectory { mode: NewMode { mode, umask }, name: fields.name()? }
        }
        10 => Operation::Unlink { name: fields.name()? },
        11 => Operation::RemoveDirectory { name: fields.name()? },
        12 => {
            let parent = fields.u64()?;
            Operation::Rename { name: fields.name()?, parent, to: fields.name()?, flags: 0 }
        }
        45 => {
            let (parent, flags, _) = (fields.u64()?, fields.u32()?, fields.u32()?);
            Operation::Rename { name: fields.name()?, parent, to: fields.name()?, flags }
        }
        13 => {
            let inode = fields.u64()?;
            Operation::Link { inode, name: fields.name()? }
        }
        14 => Operation::Open { flags: fields.u32()? },
        35 => {
            let (flags, mode, umask, _) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
            Operation::Create { mode: NewMode { mode, umask }, flags, name: fields.name()? }
        }
        26 => Operation::Init {
            major: fields.u32()?,
            minor: fields.u32()?,
            readahead: fields.u32()?,
            flags: u64::from(fields.u32()?) | u64::from(fields.u32().unwrap_or(0)) << 32,
        },
        36 => Operation::Interrupt { unique: fields.u64()? },
        38 => Operation::Destroy,
        42 => {
            let (count, _) = (fields.u32()? as usize, fields.u32()?);
            Operation::ForgetMany { pairs: fields.0.get(..count.checked_mul(16)?)? }
        }
        27 => Operation::OpenDirectory,
        29 => Operation::ReleaseDirectory { handle: fields.u64()? },
        30 => Operation::SyncDirectory,
        28 | 44 => {
            let (handle, offset, size) = (fields.u64()?, fields.u64()?, fields.u32()?);
            Operation::ReadDirectory { handle, offset, size, plus: code == 44 }
        }
        17 => Operation::FileSystem,
        21..=24 => return xattr(code, fields),
        _ => return file(code, inode, fields),
    })
}

/// Calls on an open file.
fn file<'a>(code: u32, _inode: u64, fields: &mut Fields<'a>) -> Option<Operation<'a>> {
    Some(match code {
        15 => Operation::Read { handle: fields.u64()?, offset: fields.u64()?, size: fields.u32()? },
        16 => {
            let (handle, offset, size, cause) = (fields.u64()?, fields.u64()?, fields.u32()?, fields.u32()?);
            let (_owner, flags, _) = (fields.u64()?, fields.u32()?, fields.u32()?);
            Operation::Write { handle, offset, flags, cause, data: fields.0.get(..size as usize)? }
        }
        18 => Operation::Release { handle: fields.u64()? },
        20 => Operation::Sync { handle: fields.u64()?, data_only: fields.u32()? & 1 != 0 },
        25 => {
            let (handle, _) = (fields.u64()?, fields.u64()?);
            Operation::Flush { handle, owner: fields.u64()? }
        }
        31..=33 => {
            let (handle, owner, start, end) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?);
            let (kind, _process, flags) = (fields.u32()?, fields.u32()?, fields.u32()?);
            let lock = LockRequest { handle, owner, start, end, kind, whole_file: flags & 1 != 0, wait: code == 33 };
            if code == 31 { Operation::FindLock(lock) } else { Operation::Lock(lock) }
        }
        43 => Operation::Allocate {
            handle: fields.u64()?,
            offset: fields.u64()?,
            length: fields.u64()?,
            mode: fields.u32()?,
        },
        46 => Operation::Seek { handle: fields.u64()?, offset: fields.u64()?, whence: fields.u32()? },
        _ => Operation::Other,
    })
}

fn xattr<'a>(code: u32, fields: &mut Fields<'a>) -> Option<Operation<'a>> {
    Some(match code {
        21 => {
            let (size, flags) = (fields.u32()? as usize, fields.u32()?);
            Operation::SetXattr { name: fields.name()?, value: fields.0.get(..size)?, flags }
        }
        22 => {
            let (size, _) = (fields.u32()?, fields.u32()?);
            Operation::Xattr { name: fields.name()?, size }
        }
        23 => Operation::XattrNames { size: fields.u32()? },
        _ => Operation::RemoveXattr { name: fields.name()? },
    })
}

fn new_attributes(fields: &mut Fields<'_>) -> Option<NewAttributes> {
    let (valid, _) = (fields.u32()?, fields.u32()?);
    let (handle, size, _owner) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (accessed, modified, _changed) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (accessed_ns, modified_ns, _changed_ns) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let (mode, _, user, group) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let is = |bit: u32| valid & bit != 0;
    let time = |set: bool, now: bool, seconds: u64, nanoseconds: u32| match (set, now) {
        (_, true) => Some(SetTime::Now),
        // The kernel writes times before 1970 as two's complement.
        (true, false) => Some(SetTime::At(Timestamp::new(seconds.cast_signed(), nanoseconds))),
        (false, false) => None,
    };
    Some(NewAttributes {
        handle: is(64).then_some(handle),
        mode: is(1).then_some(mode),
        user: is(2).then_some(user),
        group: is(4).then_some(group),
        size: is(8).then_some(size),
        accessed: time(is(16), is(128), accessed, accessed_ns),
        modified: time(is(32), is(256), modified, modified_ns),
    })
}

/// The inodes and counts of [`Operation::ForgetMany`].
pub(crate) fn forgotten(pairs: &[u8]) -> impl Iterator<Item = (u64, u64)> + '_ {
    pairs.chunks_exact(16).filter_map(|pair| {
        let mut fields = Fields(pair);
        Some((fields.u64()?, fields.u64()?))
    })
}

/// How long the kernel may use what it was told.
pub(crate) const fn lifetime(time: Duration) -> (u64, u32) {
    (time.as_secs(), time.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(code: u32, arguments: &[u8]) -> Vec<u8> {
        let mut bytes = ((abi::REQUEST_HEAD + arguments.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(code.to_ne_bytes());
        for field in [7_u64, 3] {
            bytes.extend(field.to_ne_bytes());
        }
        for field in [1000_u32, 1001, 9, 0] {
            bytes.extend(field.to_ne_bytes());
        }
        bytes.extend(arguments);
        bytes
    }

    #[test]
    fn requests_are_read_as_the_kernel_writes_them() {
        let lookup = request(1, b"name\0");
        let call = decode(&lookup).unwrap();
        assert_eq!((call.unique, call.inode), (7, 3));
        assert_eq!(call.caller, Caller { user: 1000, group: 1001, thread: 9 });
        assert_eq!(call.operation, Operation::LookUp { name: b"name" });
        let mut arguments = Vec::new();
        for field in [5_u64, 100, 3 | 1 << 32, 0] {
            arguments.extend(field.to_ne_bytes());
        }
        arguments.extend(1024_u64.to_ne_bytes());
        arguments.extend(b"abc");
        let write = request(16, &arguments);
        let written = Operation::Write { handle: 5, offset: 100, flags: 1024, cause: 1, data: b"abc" };
        assert_eq!(decode(&write).unwrap().operation, written);
    }

    #[test]
    fn what_is_too_short_is_not_offered_or_no_request() {
        let whole = request(45, &[0; 16]);
        assert_eq!(decode(&whole).unwrap().operation, Operation::Other, "its names are missing");
        assert_eq!(decode(&request(16, &[0; 12])).unwrap().operation, Operation::Other);
        assert_eq!(decode(&whole[..whole.len() - 1]), None);
        assert_eq!(decode(&whole[..20]), None);
        assert_eq!(decode(&request(9999, b"")).unwrap().operation, Operation::Other);
    }
}
