//! Files that come from an FTP server, until they are whole.

use xdfs_client::{Error, ErrorKind, Safety};
use xdfs_gridftp::listing::Entry;
use xdfs_io::buf::Buffer;
use xdfs_io::store::{CommitRequest, Resume, Stage, stored_range};
use xdfs_proto::base::{Extent, Timestamp};
use xdfs_secure::checksum::Sha256;

/// Bytes between two checkpoints: so much is transferred again at most after a loss.
const CHECKPOINT_BYTES: u64 = 64 << 20;

/// Bytes that are read back at a time.
const READ_BACK_BYTES: usize = 1 << 20;

/// What two downloads of a file must have in common. Without its time nobody knows whether the server's
/// file is still the same one.
pub(in crate::cmd) fn resume_of(entry: &Entry, size: u64, synced: bool) -> Option<Resume> {
    let source = entry.modified.map(|time| [&time[..], &size.to_be_bytes()].concat())?;
    Some(Resume { source, owner: Vec::new(), hashed: false, since: Timestamp::new(0, 0), synced })
}

/// Where a download continues.
pub(in crate::cmd) fn start_of(stage: &Stage, size: u64) -> u64 {
    // What each attempt has received is a range of its own there.
    let first = stored_range::ranges(stage.kept()).into_iter().next().filter(|extent| extent.offset() == 0);
    first.map_or(0, Extent::end).min(size)
}

/// Writes what has arrived, so that little of it is lost with the program.
pub(in crate::cmd) fn write(stage: &Stage, bytes: &[u8], offset: u64) -> Result<(), Error> {
    stage.write(bytes, offset)?;
    if stage.unmarked() >= CHECKPOINT_BYTES { stage.checkpoint() } else { Ok(()) }
}

/// The SHA-256 of what was written; with `fresh`, of what the storage has.
pub(in crate::cmd) fn read_back(stage: &Stage, size: u64, fresh: bool) -> Result<String, Error> {
    if fresh {
        stage.sync()?;
    }
    let back = stage.read_back(fresh)?;
    let failed = |error: std::io::Error| Error::new(ErrorKind::Resources, format!("no memory to verify with: {error}"));
    let (mut buffer, mut sum, mut at) = (Buffer::new(READ_BACK_BYTES).map_err(failed)?, Sha256::default(), 0);
    while at < size {
        let length = READ_BACK_BYTES.min(usize::try_from(size - at).unwrap_or(usize::MAX));
        back.read(&mut buffer, length, at)?;
        sum.update(buffer.payload().get(..length).unwrap_or_default());
        at += length as u64;
    }
    Ok(sum.finish())
}

/// Gives a staged file its name, in the order of docs/durability.md.
pub(in crate::cmd) fn commit(stage: &mut Stage, request: &CommitRequest, durable: bool) -> Result<Safety, Error> {
    stage.finish(request)?;
    if !durable {
        return stage.name(request).map(|_| Safety::Written);
    }
    stage.sync()?;
    stage.name(request)?;
    stage.sync_directory()?;
    Ok(stage.promises())
}
