//! Who has a file open: the answer to `opens`.

use super::super::codec::{Reader, WireError, Writer};
use crate::limits;
use alloc::vec::Vec;

/// What somebody who has a file open does, and keeps others from. A set of the numbers here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct OpenedFor(pub u32);

impl OpenedFor {
    /// Reads.
    pub const READING: Self = Self(1);
    /// Writes.
    pub const WRITING: Self = Self(2);
    /// Denies others to read.
    pub const DENYING_READING: Self = Self(4);
    /// Denies others to write.
    pub const DENYING_WRITING: Self = Self(8);
    /// Has a lock of the whole file.
    pub const LOCK: Self = Self(16);
    /// That lock is exclusive.
    pub const EXCLUSIVE_LOCK: Self = Self(32);
    /// Has a lease.
    pub const LEASE: Self = Self(64);
    /// That lease is one to write.
    pub const WRITE_LEASE: Self = Self(128);
    /// Everything.
    pub const ALL: Self = Self(255);

    /// Both sets; the other one only if `also` is true.
    #[must_use]
    pub const fn and_if(self, also: bool, other: Self) -> Self {
        if also { Self(self.0 | other.0) } else { self }
    }

    /// Whether all of `other` is in it.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// One open file of a client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Opener<'a> {
    /// Whose it is. Empty for visitors, and if a visitor asks.
    pub user: &'a [u8],
    /// What it does.
    pub does: OpenedFor,
    /// Ranges that it has locked.
    pub ranges: u64,
}

/// The open files of a file's clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Openers<'a> {
    /// At most [`limits::OPENERS_MAX`].
    pub list: Vec<Opener<'a>>,
    /// These are all.
    pub complete: bool,
}

/// Most bytes of them: flags and count, and for each the name with its length, flags and ranges.
pub(super) const OPENERS_BYTES_MAX: usize = 2 + 2 + limits::OPENERS_MAX * (2 + limits::USER_BYTES_MAX + 2 + 8);

impl<'a> Openers<'a> {
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.integer(self.complete.into()).integer(self.list.len() as u64);
        for one in &self.list {
            writer.bytes(one.user).integer(one.does.0.into()).integer(one.ranges);
        }
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let complete = reader.flags(1, "flags of open files")? != 0;
        let count = reader.integer_up_to(limits::OPENERS_MAX as u64, "open files")?;
        let mut list = Vec::new();
        for _ in 0..count {
            let user = reader.bytes(limits::USER_BYTES_MAX, "user")?;
            // Known bits only: fits.
            let does = OpenedFor(reader.flags(OpenedFor::ALL.0.into(), "flags of an open file")? as u32);
            list.push(Opener { user, does, ranges: reader.integer()? });
        }
        Ok(Self { list, complete })
    }
}
