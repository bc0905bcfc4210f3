//! xPathM (PATHM-01..07, WIRE-40): calls on names, many to a record. A *batch* goes from the client
//! to the server, a *reply* comes back with one result per call, in the same order.
//!
//! Everything borrows from the payload: a batch of small files is decoded without copying their
//! bytes. Names are bytes; [`crate::base::path`] defines valid paths, and the server decides
//! whether this user may access them.

mod attributes;
mod batch;
mod call;
mod fields;
mod listing;
mod openers;
mod reply;
#[cfg(test)]
mod tests;

pub use attributes::{Attributes, FileType, Kept, Wanted};
pub use batch::{Batch, BatchWriter};
pub use call::{Call, Code, REPLY_CALL_BYTES};
pub(super) use fields::path as read_path;
pub use fields::{NewTime, Owner, Put, Watched, XattrRule};
pub use listing::{Entries, ListEntry, Listing, StringList};
pub use openers::{OpenedFor, Opener, Openers};
pub use reply::{Answer, CallOutcome, Failure, FileSystem, ListingWriter, REPLY_BYTES, Reply, ReplyWriter};
pub(super) use reply::{read_failure, read_reply_head};

use super::codec::{Reader, WireError};

/// A number of 32 bits.
fn number(reader: &mut Reader<'_>, field: &'static str) -> Result<u32, WireError> {
    // At most 2^32 - 1: fits.
    reader.integer_up_to(u32::MAX.into(), field).map(|value| value as u32)
}

/// Permission bits.
pub(super) fn mode(reader: &mut Reader<'_>) -> Result<u32, WireError> {
    // At most 0o7777: fits.
    reader.integer_up_to(0o7777, "mode").map(|value| value as u32)
}
