//! The encoding of lists of extents in messages.

use super::codec::{Reader, WireError, Writer};
use crate::base::Extent;
use alloc::vec::Vec;

/// The number of the extents, then offset and length of each.
pub(super) fn write_extents(writer: &mut Writer, extents: &[Extent]) {
    writer.integer(extents.len() as u64);
    for extent in extents {
        writer.integer(extent.offset()).integer(extent.length());
    }
}

/// The inverse of [`write_extents`], for extents that are ascending and disjoint.
pub(super) fn read_extents(
    reader: &mut Reader<'_>,
    limit: usize,
    field: &'static str,
) -> Result<Vec<Extent>, WireError> {
    let count = reader.integer_up_to(limit as u64, field)? as usize;
    let mut extents = Vec::new();
    let mut above = 0;
    for _ in 0..count {
        let (offset, length) = (reader.integer()?, reader.integer()?);
        let extent = Extent::new(offset, length).map_err(|_| WireError::Invalid(field))?;
        if offset < above {
            return Err(WireError::Invalid(field));
        }
        above = extent.end();
        extents.push(extent);
    }
    Ok(extents)
}
