//! xDFSM (DFSM-01..12, WIRE-56..59): calls on one open file, many to a record. A *batch* goes from
//! the client to the server, a *reply* comes back with one result per call, in the same order.
//!
//! A batch names its file by a handle; a batch without one begins with [`FileCall::Open`]. So a
//! small file is opened, read and closed in one round trip. Data borrows from the payload.

mod batch;
mod call;
mod reply;
#[cfg(test)]
mod tests;

pub use batch::FileBatch;
pub use call::{FileCall, FileCode, OpenFile, OpenedBefore, ReadRange};
pub use reply::{FileAnswer, FileOutcome, FileReply, OpenedFile};

use super::codec::{Reader, WireError};

/// Identifies one file of a server as long as it exists: device, inode and time of birth.
pub type FileIdentity = [u8; 24];

/// Another value after every restart of the server: what was written before it and not synced may
/// be lost.
pub type Verifier = [u8; 16];

fn change(reader: &mut Reader<'_>) -> Result<u64, WireError> {
    reader.array().map(u64::from_be_bytes)
}
