//! The calls on an open file and their arguments.

use super::super::call_codes::call_codes;
use super::super::codec::{INTEGER_MAX, Reader, WireError, Writer};
use super::super::path::{REPLY_CALL_BYTES, Wanted, mode, read_path};
use super::{FileIdentity, LeaseCall, LockOwner, range_is_sayable, read_range, write_range};
use crate::base::Extent;
use crate::limits;
use crate::range_locks::RangeLock;
use alloc::vec::Vec;

call_codes! {
    FileCode:
    /// Opens a file, or creates it.
    Open = 1, "open", true;
    /// Gives the handle back.
    Close = 2, "close", false;
    /// Reads ranges.
    Read = 3, "read", false;
    /// Writes a range.
    Write = 4, "write", true;
    /// Writes at the end, in one step.
    Append = 5, "append", true;
    /// Cuts or extends the file.
    SetLength = 6, "setlength", true;
    /// Waits until what was written is on stable storage.
    Sync = 7, "sync", false;
    /// Reserves space.
    Allocate = 8, "allocate", true;
    /// Makes a hole.
    Punch = 9, "punch", true;
    /// The next byte of data, or the next hole.
    Seek = 10, "seek", false;
    /// Attributes of the open file.
    Attributes = 11, "fstat", false;
    /// Locks the whole file against other handles, and programs of the server's machine.
    Lock = 12, "lock", false;
    /// Ends that lock.
    Unlock = 13, "unlock", false;
    /// Asks for a lease, renews it or gives it back.
    Lease = 14, "lease", false;
    /// Locks a range of bytes against other owners, and programs of the server's machine.
    LockRange = 17, "lockrange", false;
    /// Ends the locks of an owner in a range.
    UnlockRange = 18, "unlockrange", false;
    /// A lock that somebody else has in a range.
    FindLock = 19, "findlock", false;
    /// Takes bytes out of a FIFO.
    ReadPipe = 20, "readpipe", false;
    /// Puts bytes into a FIFO.
    WritePipe = 21, "writepipe", true;
}

/// A range to read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReadRange {
    /// Its first byte.
    pub offset: u64,
    /// Its length.
    pub length: u32,
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct OpenFile<'a> {
    /// `EXPORT/path`.
    pub path: &'a [u8],
    /// The handle may read.
    pub read: bool,
    /// The handle may write.
    pub write: bool,
    /// A missing file is created.
    pub create: bool,
    /// The file must be missing.
    pub exclusive: bool,
    /// An existing file is cut to length 0.
    pub truncate: bool,
    /// While the handle is open, nobody else opens the file to read.
    pub deny_read: bool,
    /// While the handle is open, nobody else opens the file to write.
    pub deny_write: bool,
    /// Permission bits of a new file.
    pub mode: u32,
    /// It is opened again, in another session.
    pub again: Option<OpenedBefore>,
    /// It is a FIFO: one end of it is opened.
    pub pipe: bool,
}

/// A file that a lost session had open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OpenedBefore {
    /// It must still be this file.
    pub identity: FileIdentity,
    /// The handle of the lost session, which ends.
    pub handle: u64,
}

const READ: u64 = 1;
const WRITE: u64 = 2;
const CREATE: u64 = 4;
const EXCLUSIVE: u64 = 8;
const TRUNCATE: u64 = 16;
const DENY_READ: u64 = 32;
const DENY_WRITE: u64 = 64;
const AGAIN: u64 = 128;
const PIPE: u64 = 256;
const OPEN_FLAGS: u64 = 511;

impl<'a> OpenFile<'a> {
    fn write(&self, writer: &mut Writer) {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let flags = flag(self.read, READ)
            | flag(self.write, WRITE)
            | flag(self.create, CREATE)
            | flag(self.exclusive, EXCLUSIVE)
            | flag(self.truncate, TRUNCATE)
            | flag(self.deny_read, DENY_READ)
            | flag(self.deny_write, DENY_WRITE)
            | flag(self.again.is_some(), AGAIN)
            | flag(self.pipe, PIPE);
        writer.bytes(self.path).integer(flags).integer(self.mode.into());
        if let Some(again) = self.again {
            writer.raw(&again.identity).integer(again.handle);
        }
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let path = read_path(reader)?;
        let flags = reader.flags(OPEN_FLAGS, "flags of open")?;
        let mode = mode(reader)?;
        let has = |bit: u64| flags & bit != 0;
        let again = match has(AGAIN) {
            true => Some(OpenedBefore { identity: reader.array()?, handle: reader.integer()? }),
            false => None,
        };
        let changes = has(CREATE) || has(EXCLUSIVE) || has(TRUNCATE);
        // A file that is opened again is neither created nor cut.
        if !(has(READ) || has(WRITE)) || (changes && (!has(WRITE) || has(AGAIN))) || (has(EXCLUSIVE) && !has(CREATE)) {
            return Err(WireError::Invalid("flags of open"));
        }
        // One end of a pipe, and nothing that a file needs.
        if has(PIPE) && flags != PIPE | READ && flags != PIPE | WRITE {
            return Err(WireError::Invalid("flags of open"));
        }
        Ok(Self {
            path,
            read: has(READ),
            write: has(WRITE),
            create: has(CREATE),
            exclusive: has(EXCLUSIVE),
            truncate: has(TRUNCATE),
            deny_read: has(DENY_READ),
            deny_write: has(DENY_WRITE),
            mode,
            again,
            pipe: has(PIPE),
        })
    }
}

const LOCK_EXCLUSIVE: u64 = 1;
const LOCK_WAIT: u64 = 2;
const LOCK_FLAGS: u64 = 3;

fn lock_flags(exclusive: bool, wait: bool) -> u64 {
    (if exclusive { LOCK_EXCLUSIVE } else { 0 }) | (if wait { LOCK_WAIT } else { 0 })
}

/// One call on the file of its batch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the variants are those of `FileCode`, the fields those of the document's table")]
pub enum FileCall<'a> {
    Open(OpenFile<'a>),
    Close,
    Read {
        ranges: Vec<ReadRange>,
    },
    Write {
        offset: u64,
        data: &'a [u8],
    },
    Append {
        data: &'a [u8],
    },
    SetLength {
        length: u64,
    },
    Sync {
        data_only: bool,
    },
    Allocate {
        offset: u64,
        length: u64,
        keep_size: bool,
    },
    Punch {
        offset: u64,
        length: u64,
    },
    Seek {
        offset: u64,
        hole: bool,
    },
    Attributes {
        wanted: Wanted,
    },
    Lock {
        exclusive: bool,
        wait: bool,
    },
    Unlock,
    Lease(LeaseCall),
    LockRange {
        owner: LockOwner,
        lock: RangeLock,
        wait: bool,
    },
    UnlockRange {
        owner: LockOwner,
        range: Extent,
    },
    FindLock {
        owner: LockOwner,
        lock: RangeLock,
    },
    ReadPipe {
        length: u32,
        wait_ms: u64,
    },
    WritePipe {
        offset: u64,
        wait_ms: u64,
        data: &'a [u8],
    },
    /// A call of a later version: nothing but its number is known.
    Unknown {
        code: u64,
    },
}

impl<'a> FileCall<'a> {
    /// Its number.
    pub const fn code(&self) -> u64 {
        let code = match self {
            Self::Open(_) => FileCode::Open,
            Self::Close => FileCode::Close,
            Self::Read { .. } => FileCode::Read,
            Self::Write { .. } => FileCode::Write,
            Self::Append { .. } => FileCode::Append,
            Self::SetLength { .. } => FileCode::SetLength,
            Self::Sync { .. } => FileCode::Sync,
            Self::Allocate { .. } => FileCode::Allocate,
            Self::Punch { .. } => FileCode::Punch,
            Self::Seek { .. } => FileCode::Seek,
            Self::Attributes { .. } => FileCode::Attributes,
            Self::Lock { .. } => FileCode::Lock,
            Self::Unlock => FileCode::Unlock,
            Self::Lease(_) => FileCode::Lease,
            Self::LockRange { .. } => FileCode::LockRange,
            Self::UnlockRange { .. } => FileCode::UnlockRange,
            Self::FindLock { .. } => FileCode::FindLock,
            Self::ReadPipe { .. } => FileCode::ReadPipe,
            Self::WritePipe { .. } => FileCode::WritePipe,
            Self::Unknown { code } => return *code,
        };
        code as u64
    }

    /// Whether it changes what is stored; open does unless it only opens an existing file.
    pub fn changes(&self) -> bool {
        match self {
            Self::Open(open) => open.create || open.truncate,
            _ => FileCode::from_number(self.code()).is_some_and(FileCode::changes),
        }
    }

    /// Whether its offsets and lengths can be said: they are below 2^62.
    pub fn fits_the_wire(&self) -> bool {
        let sayable = |number: u64| number <= INTEGER_MAX;
        match self {
            Self::Read { ranges } => ranges.iter().all(|range| sayable(range.offset)),
            Self::Write { offset, .. } | Self::Seek { offset, .. } => sayable(*offset),
            Self::SetLength { length } => sayable(*length),
            Self::Allocate { offset, length, .. } | Self::Punch { offset, length } => {
                sayable(*offset) && sayable(*length)
            }
            Self::LockRange { lock, .. } | Self::FindLock { lock, .. } => range_is_sayable(lock.range),
            Self::UnlockRange { range, .. } => range_is_sayable(*range),
            Self::ReadPipe { wait_ms, .. } => sayable(*wait_ms),
            Self::WritePipe { offset, wait_ms, .. } => sayable(*offset) && sayable(*wait_ms),
            _ => true,
        }
    }

    /// Most bytes that its result takes.
    pub fn result_bytes_max(&self) -> usize {
        // The status and the number of ranges, and the length before the bytes of each.
        const STATUS: usize = 16;
        const LENGTH: usize = 4;
        match self {
            Self::Read { ranges } => {
                ranges.iter().fold(STATUS, |sum, range| sum.saturating_add(LENGTH + range.length as usize))
            }
            // Its flags and its offset are before the bytes.
            Self::ReadPipe { length, .. } => STATUS + LENGTH + *length as usize,
            Self::Attributes { wanted } => STATUS + wanted.bytes_max(),
            _ => REPLY_CALL_BYTES,
        }
        .max(REPLY_CALL_BYTES)
    }

    /// Writes its arguments, up to the bytes that they end with; those are returned.
    pub(super) fn write<'b>(&'b self, writer: &mut Writer) -> &'b [u8] {
        match self {
            Self::Open(open) => open.write(writer),
            Self::Read { ranges } => {
                writer.integer(ranges.len() as u64);
                for range in ranges {
                    writer.integer(range.offset).integer(range.length.into());
                }
            }
            Self::Write { offset, data } => {
                writer.integer(*offset).integer(data.len() as u64);
                return data;
            }
            Self::Append { data } => {
                writer.integer(data.len() as u64);
                return data;
            }
            Self::SetLength { length } => drop(writer.integer(*length)),
            Self::Sync { data_only } => drop(writer.integer((*data_only).into())),
            Self::Allocate { offset, length, keep_size } => {
                writer.integer(*offset).integer(*length).integer((*keep_size).into());
            }
            Self::Punch { offset, length } => drop(writer.integer(*offset).integer(*length)),
            Self::Seek { offset, hole } => drop(writer.integer(*offset).integer((*hole).into())),
            Self::Attributes { wanted } => drop(writer.integer(wanted.0.into())),
            Self::Lock { exclusive, wait } => drop(writer.integer(lock_flags(*exclusive, *wait))),
            Self::Lease(call) => call.write(writer),
            Self::LockRange { owner, lock, wait } => {
                writer.integer(lock_flags(lock.exclusive, *wait)).raw(owner);
                write_range(lock.range, writer);
            }
            Self::UnlockRange { owner, range } => write_range(*range, writer.raw(owner)),
            Self::FindLock { owner, lock } => {
                writer.integer(lock_flags(lock.exclusive, false)).raw(owner);
                write_range(lock.range, writer);
            }
            Self::ReadPipe { length, wait_ms } => drop(writer.integer((*length).into()).integer(*wait_ms)),
            Self::WritePipe { offset, wait_ms, data } => {
                writer.integer(*offset).integer(*wait_ms).integer(data.len() as u64);
                return data;
            }
            Self::Close | Self::Unlock | Self::Unknown { .. } => {}
        }
        &[]
    }

    pub(super) fn decode(number: u64, arguments: &'a [u8]) -> Result<Self, WireError> {
        let Some(code) = FileCode::from_number(number) else { return Ok(Self::Unknown { code: number }) };
        let mut reader = Reader::new(arguments);
        let call = Self::read(code, &mut reader)?;
        reader.end()?;
        Ok(call)
    }

    fn read(code: FileCode, reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let data = |reader: &mut Reader<'a>| reader.bytes(limits::CALL_BYTES_MAX, "data");
        let switch = |reader: &mut Reader<'a>| reader.flags(1, "flags of a call").map(|flags| flags == 1);
        Ok(match code {
            FileCode::Open => Self::Open(OpenFile::decode(reader)?),
            FileCode::Close => Self::Close,
            FileCode::Read => Self::Read { ranges: read_ranges(reader)? },
            FileCode::Write => Self::Write { offset: reader.integer()?, data: data(reader)? },
            FileCode::Append => Self::Append { data: data(reader)? },
            FileCode::SetLength => Self::SetLength { length: reader.integer()? },
            FileCode::Sync => Self::Sync { data_only: switch(reader)? },
            FileCode::Allocate => {
                Self::Allocate { offset: reader.integer()?, length: reader.integer()?, keep_size: switch(reader)? }
            }
            FileCode::Punch => Self::Punch { offset: reader.integer()?, length: reader.integer()? },
            FileCode::Seek => Self::Seek { offset: reader.integer()?, hole: switch(reader)? },
            FileCode::Attributes => Self::Attributes { wanted: Wanted::read(reader)? },
            FileCode::Lock => {
                let flags = reader.flags(LOCK_FLAGS, "flags of lock")?;
                Self::Lock { exclusive: flags & LOCK_EXCLUSIVE != 0, wait: flags & LOCK_WAIT != 0 }
            }
            FileCode::Unlock => Self::Unlock,
            FileCode::Lease => Self::Lease(LeaseCall::read(reader)?),
            FileCode::LockRange => {
                let flags = reader.flags(LOCK_FLAGS, "flags of lockrange")?;
                let (owner, range) = (reader.array()?, read_range(reader)?);
                let lock = RangeLock { range, exclusive: flags & LOCK_EXCLUSIVE != 0 };
                Self::LockRange { owner, lock, wait: flags & LOCK_WAIT != 0 }
            }
            FileCode::UnlockRange => Self::UnlockRange { owner: reader.array()?, range: read_range(reader)? },
            FileCode::FindLock => {
                let exclusive = switch(reader)?;
                let (owner, range) = (reader.array()?, read_range(reader)?);
                Self::FindLock { owner, lock: RangeLock { range, exclusive } }
            }
            FileCode::ReadPipe => {
                // At most 256 KiB: fits.
                let length = reader.integer_up_to(limits::CALL_BYTES_MAX as u64, "length of a read")? as u32;
                Self::ReadPipe { length, wait_ms: reader.integer()? }
            }
            FileCode::WritePipe => {
                Self::WritePipe { offset: reader.integer()?, wait_ms: reader.integer()?, data: data(reader)? }
            }
        })
    }
}

/// The ranges of a read: no more than [`limits::READ_RANGES_MAX`], each no longer than a reply.
fn read_ranges(reader: &mut Reader<'_>) -> Result<Vec<ReadRange>, WireError> {
    let count = reader.integer_up_to(limits::READ_RANGES_MAX as u64, "ranges")?;
    if count == 0 {
        return Err(WireError::Invalid("ranges"));
    }
    let mut ranges = Vec::new();
    for _ in 0..count {
        let offset = reader.integer()?;
        // At most 256 KiB: fits.
        let length = reader.integer_up_to(limits::CALL_BYTES_MAX as u64, "length of a range")? as u32;
        ranges.push(ReadRange { offset, length });
    }
    Ok(ranges)
}
