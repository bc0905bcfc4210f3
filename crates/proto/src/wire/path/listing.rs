//! A page of a directory. Entries are decoded one by one from the payload, so a page of short names
//! does not grow in memory.

use super::super::codec::{Reader, WireError};
use super::attributes::Attributes;
use crate::base::path;
use crate::limits;

/// A name in a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListEntry<'a> {
    /// One component.
    pub name: &'a [u8],
    /// What it is.
    pub attributes: Attributes<'a>,
}

impl<'a> ListEntry<'a> {
    /// None at the end of the entries.
    fn read(reader: &mut Reader<'a>) -> Result<Option<Self>, WireError> {
        let name = reader.bytes(path::COMPONENT_BYTES_MAX, "name of an entry")?;
        if name.is_empty() {
            return Ok(None);
        }
        if matches!(name, b"." | b"..") || name.contains(&b'/') || name.contains(&0) {
            // A client that joins it to a path would leave the directory.
            return Err(WireError::Invalid("name of an entry"));
        }
        Ok(Some(Self { name, attributes: Attributes::read(reader)? }))
    }
}

/// One page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing<'a> {
    /// The entries, in the directory's order.
    pub entries: Entries<'a>,
    /// Nothing follows: with the pages before it this is the whole directory.
    pub complete: bool,
    /// Where the next page begins, for the next call.
    pub cursor: &'a [u8],
}

impl<'a> Listing<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let entries = Entries { rest: reader.clone() };
        while ListEntry::read(reader)?.is_some() {}
        let complete = reader.flags(1, "flags of a listing")? == 1;
        Ok(Self { entries, complete, cursor: reader.bytes(limits::CURSOR_BYTES_MAX, "cursor")? })
    }
}

/// Entries that were checked when the page was read.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: Reader<'a>,
}

impl<'a> Iterator for Entries<'a> {
    type Item = ListEntry<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let before = self.rest.clone();
        let next = ListEntry::read(&mut self.rest).ok().flatten();
        if next.is_none() {
            // Behind the end is what is no entry.
            self.rest = before;
        }
        next
    }
}

impl PartialEq for Entries<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.clone().eq(other.clone())
    }
}

impl Eq for Entries<'_> {}

/// Byte strings behind each other, ended by an empty one.
#[derive(Clone, Debug)]
pub struct StringList<'a> {
    rest: Reader<'a>,
}

impl<'a> StringList<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let words = Self { rest: reader.clone() };
        while !word(reader)?.is_empty() {}
        Ok(words)
    }
}

impl<'a> Iterator for StringList<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        let before = self.rest.clone();
        let next = word(&mut self.rest).ok().filter(|word| !word.is_empty());
        if next.is_none() {
            self.rest = before;
        }
        next
    }
}

impl PartialEq for StringList<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.clone().eq(other.clone())
    }
}

impl Eq for StringList<'_> {}

fn word<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], WireError> {
    reader.bytes(limits::XATTR_NAME_BYTES_MAX, "name of an attribute")
}
