//! xDFSM (DFSM-01..12, WIRE-56..59): calls on one open file, many to a record. A *batch* goes from
//! the client to the server, a *reply* comes back with one result per call, in the same order.
//!
//! A batch names its file by a handle; a batch without one begins with [`FileCall::Open`]. So a
//! small file is opened, read and closed in one round trip. Data borrows from the payload.

mod batch;
mod call;
mod lease;
mod reply;
#[cfg(test)]
mod tests;

pub use batch::FileBatch;
pub use call::{FileCall, FileCode, OpenFile, OpenedBefore, ReadRange};
pub use lease::{LeaseCall, LeaseTold};
pub use reply::{FileAnswer, FileOutcome, FileReply, OpenedFile};

use super::codec::{INTEGER_MAX, Reader, WireError, Writer};
use crate::base::Extent;

/// Identifies one file of a server as long as it exists: device, inode and time of birth.
pub type FileIdentity = [u8; 24];

/// Another value after every restart of the server: what was written before it and not synced may
/// be lost.
pub type Verifier = [u8; 16];

/// The part of it that stays the same until the server's machine starts again: what was written is not lost as long as it does.
pub fn machine_start(verifier: Verifier) -> [u8; 8] {
    let [start @ .., _, _, _, _, _, _, _, _] = verifier;
    start
}

/// Tells the owners of locks of ranges apart that share a handle: a process, or a thread.
pub type LockOwner = [u8; 8];

/// The end of the largest file.
const LAST: u64 = i64::MAX as u64;

/// The range from `offset` on, whatever becomes of the file's length; none behind the largest file.
pub fn range_to_the_end(offset: u64) -> Option<Extent> {
    Extent::new(offset, LAST.checked_sub(offset)?).ok()
}

/// Length 0 is that of a range without an end.
fn read_range(reader: &mut Reader<'_>) -> Result<Extent, WireError> {
    let (offset, length) = (reader.integer()?, reader.integer()?);
    let range = if length == 0 { range_to_the_end(offset) } else { Extent::new(offset, length).ok() };
    range.ok_or(WireError::Invalid("range"))
}

/// An empty range cannot be said: that is what one without an end looks like.
fn range_is_sayable(range: Extent) -> bool {
    let length = range.end() == LAST || (1..=INTEGER_MAX).contains(&range.length());
    range.offset() <= INTEGER_MAX && length
}

fn write_range(range: Extent, writer: &mut Writer) {
    let length = if range.end() == LAST { 0 } else { range.length() };
    writer.integer(range.offset()).integer(length);
}

fn change(reader: &mut Reader<'_>) -> Result<u64, WireError> {
    reader.array().map(u64::from_be_bytes)
}
