//! Arguments that several calls share, or that have a form of their own.

use super::super::codec::{Reader, WireError, Writer};
use super::super::finish::{read_digest, write_digest};
use super::super::times::{read_time, write_time};
use super::{mode, number};
use crate::base::{Digest, Timestamp};
use crate::limits;

/// A time to set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NewTime {
    /// The server's current time.
    Now,
    /// This one.
    At(Timestamp),
}

/// The owner to set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Owner<'a> {
    /// By number.
    Number(u32),
    /// By the name that the server knows.
    Name(&'a [u8]),
    /// By the name where the server knows it, else by the number.
    Either(&'a [u8], u32),
}

/// The condition on the existing value when an extended attribute is set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum XattrRule {
    /// Anything.
    #[default]
    Any = 0,
    /// It must not be there.
    Create = 1,
    /// It must be there.
    Replace = 2,
}

/// What a watch is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Watched {
    /// The name, whatever it belongs to.
    Name = 0,
    /// The names in the directory of this name.
    Names = 1,
    /// Nothing more: the watch ends.
    Nothing = 2,
}

impl Watched {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match reader.integer()? {
            0 => Ok(Self::Name),
            1 => Ok(Self::Names),
            2 => Ok(Self::Nothing),
            _ => Err(WireError::Invalid("flags of watch")),
        }
    }
}

/// A client's number of a watch; 0 means all of them.
pub(super) fn watch_number(reader: &mut Reader<'_>) -> Result<u64, WireError> {
    match reader.integer()? {
        0 => Err(WireError::Invalid("number of a watch")),
        watch => Ok(watch),
    }
}

/// A small file to be created.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Put<'a> {
    /// Its path.
    pub path: &'a [u8],
    /// Fail if the name exists.
    pub keep_existing: bool,
    /// Create its parent directories.
    pub parents: bool,
    /// Permission bits.
    pub mode: u32,
    /// Modification time.
    pub modified: Option<Timestamp>,
    /// Runs of zeros may be stored as holes.
    pub holes: bool,
    /// BLAKE3 of the content, compared before the rename.
    pub hash: Option<Digest>,
    /// The bytes.
    pub content: &'a [u8],
}

const KEEP_EXISTING: u64 = 1;
const PARENTS: u64 = 2;
const MODIFIED: u64 = 4;
const HASHED: u64 = 8;
const HOLES: u64 = 16;
const PUT_FLAGS: u64 = 31;

impl<'a> Put<'a> {
    pub(super) fn write(&self, writer: &mut Writer) {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let flags = flag(self.keep_existing, KEEP_EXISTING)
            | flag(self.parents, PARENTS)
            | flag(self.modified.is_some(), MODIFIED)
            | flag(self.hash.is_some(), HASHED)
            | flag(self.holes, HOLES);
        writer.integer(flags).integer(self.mode.into());
        if let Some(time) = self.modified {
            write_time(writer, time);
        }
        if self.hash.is_some() {
            write_digest(writer, self.hash.as_ref());
        }
        writer.bytes(self.content);
    }

    pub(super) fn read(path: &'a [u8], reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let flags = reader.flags(PUT_FLAGS, "flags of put")?;
        let mode = mode(reader)?;
        let modified = if flags & MODIFIED != 0 { Some(read_time(reader)?) } else { None };
        let hash = if flags & HASHED != 0 { read_digest(reader)? } else { None };
        if flags & HASHED != 0 && hash.is_none() {
            return Err(WireError::Invalid("hash"));
        }
        let content = reader.bytes(limits::CALL_BYTES_MAX, "content")?;
        let (keep_existing, parents) = (flags & KEEP_EXISTING != 0, flags & PARENTS != 0);
        Ok(Self { path, keep_existing, parents, mode, modified, holes: flags & HOLES != 0, hash, content })
    }
}

pub(in super::super) fn path<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], WireError> {
    reader.bytes(limits::CALL_PATH_BYTES_MAX, "path")
}

/// An offset or a length: files end below 2^63, and no integer of this form is above 2^62.
pub(super) fn length(reader: &mut Reader<'_>) -> Result<u64, WireError> {
    reader.integer()
}

/// A flag field with one flag.
pub(super) fn switch(reader: &mut Reader<'_>) -> Result<bool, WireError> {
    reader.flags(1, "flags of a call").map(|flags| flags == 1)
}

pub(super) fn xattr_name<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], WireError> {
    match reader.bytes(limits::XATTR_NAME_BYTES_MAX, "name of an attribute")? {
        [] => Err(WireError::Invalid("name of an attribute")),
        name if name.contains(&0) => Err(WireError::Invalid("name of an attribute")),
        name => Ok(name),
    }
}

/// Per time: 0 as it is, 1 now, 2 the time that follows.
pub(super) fn write_times(writer: &mut Writer, modified: Option<NewTime>, accessed: Option<NewTime>) {
    for time in [modified, accessed] {
        match time {
            None => drop(writer.byte(0)),
            Some(NewTime::Now) => drop(writer.byte(1)),
            Some(NewTime::At(time)) => write_time(writer.byte(2), time),
        }
    }
}

pub(super) fn read_times(reader: &mut Reader<'_>) -> Result<(Option<NewTime>, Option<NewTime>), WireError> {
    let mut one = || match reader.byte()? {
        0 => Ok(None),
        1 => Ok(Some(NewTime::Now)),
        2 => read_time(reader).map(|time| Some(NewTime::At(time))),
        _ => Err(WireError::Invalid("time")),
    };
    Ok((one()?, one()?))
}

/// Per owner: 0 as it is, 1 the number that follows, 2 the name that follows, 3 the name and the
/// number that follow.
pub(super) fn write_owners(writer: &mut Writer, user: Option<Owner<'_>>, group: Option<Owner<'_>>) {
    for owner in [user, group] {
        match owner {
            None => drop(writer.byte(0)),
            Some(Owner::Number(number)) => drop(writer.byte(1).integer(number.into())),
            Some(Owner::Name(name)) => drop(writer.byte(2).bytes(name)),
            Some(Owner::Either(name, number)) => drop(writer.byte(3).bytes(name).integer(number.into())),
        }
    }
}

fn owner_name<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], WireError> {
    match reader.bytes(limits::USER_BYTES_MAX, "name of an owner")? {
        [] => Err(WireError::Invalid("name of an owner")),
        name => Ok(name),
    }
}

pub(super) type Owners<'a> = (Option<Owner<'a>>, Option<Owner<'a>>);

pub(super) fn read_owners<'a>(reader: &mut Reader<'a>) -> Result<Owners<'a>, WireError> {
    let mut one = || match reader.byte()? {
        0 => Ok(None),
        1 => number(reader, "owner").map(|number| Some(Owner::Number(number))),
        2 => owner_name(reader).map(|name| Some(Owner::Name(name))),
        3 => Ok(Some(Owner::Either(owner_name(reader)?, number(reader, "owner")?))),
        _ => Err(WireError::Invalid("owner")),
    };
    Ok((one()?, one()?))
}
