//! The request that opens an upload or a download (WIRE-14, WIRE-24..33): one form for both
//! directions, since they mirror each other (FTSM-29).

use super::codec::{Reader, WireError, Writer};
use super::extents::{read_extents, write_extents};
use super::times::{read_time, write_time};
use crate::base::{Extent, Level, Timestamp, TransferId, path};
use crate::limits;
use alloc::vec::Vec;

/// A client's request. The remote name is the first export component and the path below it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Request {
    /// Remote name: `EXPORT/path`, components as the file system has them, nothing encoded
    /// (WIRE-25, WIRE-66).
    pub name: Vec<u8>,
    /// The client's own name of the file, for the server's log; may be empty (WIRE-24).
    pub label: Vec<u8>,
    /// Names the transfer across sessions.
    pub transfer: TransferId,
    /// Upload: fail if the target exists.
    pub keep_existing: bool,
    /// First byte wanted of the remote file (download). Byte 0 of the transfer is the start of the
    /// range.
    pub offset: u64,
    /// Bytes of the transfer; none means up to the end (download) or unknown until FINISH (upload).
    pub length: Option<u64>,
    /// Protection wanted for the blocks.
    pub level: Level,
    /// Block size wanted, 0 for the session's.
    pub block: u32,
    /// Download: bytes that the server may send before the first CREDIT, on the opening channel.
    pub credit: u64,
    /// The receiver sends COMMITTED when the target is on stable storage, not when it is written.
    pub durable: bool,
    /// Upload: permission bits of the new file.
    pub mode: u32,
    /// Upload: modification time of the new file, seconds and nanoseconds since 1970.
    pub modified: Option<Timestamp>,
    /// The transfer may resume an earlier attempt.
    pub resume: Option<Resume>,
    /// FINISH carries the hash of what was sent, and the receiver compares it with what it received
    /// before it commits.
    pub hash: bool,
    /// Upload: the receiver compares with what its storage reads back, if it can.
    pub reread: bool,
    /// Download: reply with the hash of the range and send no bytes.
    pub sum: bool,
    /// Download: the client's content may be damaged, so the server hashes it, too. Upload: the
    /// client can send blinded hashes of bytes that the server considers unverified.
    pub unverified: bool,
    /// Upload that is retried: the version of the existing target when the first attempt began,
    /// empty if there was none. Nothing else is replaced, except a file with the length and the
    /// modification time of this upload.
    pub base: Option<Vec<u8>>,
    /// Upload: runs of zeros may be stored as holes at the server.
    pub holes: bool,
}

/// The parameters for resuming an earlier attempt.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Resume {
    /// Version of the source: on an upload the current one, on a download the one that the kept
    /// bytes came from. Only bytes of the same version are combined.
    pub source: Vec<u8>,
    /// Download: the ranges of it that the client has.
    pub kept: Vec<Extent>,
}

const KEEP_EXISTING: u64 = 1;
const LENGTH_KNOWN: u64 = 2;
const MODIFIED: u64 = 8;
const DURABLE: u64 = 16;
const RESUME: u64 = 32;
const HASH: u64 = 64;
const REREAD: u64 = 128;
const SUM: u64 = 256;
const DOUBT: u64 = 512;
const BASE: u64 = 1024;
const HOLES: u64 = 2048;
const FLAGS: u64 =
    KEEP_EXISTING | LENGTH_KNOWN | MODIFIED | DURABLE | RESUME | HASH | REREAD | SUM | DOUBT | BASE | HOLES;

impl Request {
    /// The payload on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let flags = flag(self.keep_existing, KEEP_EXISTING)
            | flag(self.length.is_some(), LENGTH_KNOWN)
            | flag(self.modified.is_some(), MODIFIED)
            | flag(self.durable, DURABLE)
            | flag(self.resume.is_some(), RESUME)
            | flag(self.hash, HASH)
            | flag(self.reread, REREAD)
            | flag(self.sum, SUM)
            | flag(self.unverified, DOUBT)
            | flag(self.base.is_some(), BASE)
            | flag(self.holes, HOLES);
        let mut writer = Writer::new();
        writer.integer(flags).bytes(&self.name).bytes(&self.label).raw(&self.transfer.0).integer(self.offset);
        if let Some(length) = self.length {
            writer.integer(length);
        }
        writer.byte(self.level as u8).integer(self.block.into()).integer(self.credit).integer(self.mode.into());
        if let Some(modified) = self.modified {
            write_time(&mut writer, modified);
        }
        if let Some(resume) = &self.resume {
            write_extents(writer.bytes(&resume.source), &resume.kept);
        }
        if let Some(base) = &self.base {
            writer.bytes(base);
        }
        writer.finish()
    }

    /// Reads a request; every field within its limit, the range within 2^63.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        let flags = reader.flags(FLAGS, "request flags")?;
        let request = Self {
            name: reader.bytes(path::PATH_BYTES_MAX, "remote name")?.to_vec(),
            label: reader.bytes(limits::LABEL_BYTES_MAX, "label")?.to_vec(),
            transfer: TransferId(reader.array()?),
            keep_existing: flags & KEEP_EXISTING != 0,
            durable: flags & DURABLE != 0,
            hash: flags & HASH != 0,
            reread: flags & REREAD != 0,
            sum: flags & SUM != 0,
            unverified: flags & DOUBT != 0,
            holes: flags & HOLES != 0,
            offset: reader.integer()?,
            length: if flags & LENGTH_KNOWN != 0 { Some(reader.integer()?) } else { None },
            level: level(&mut reader)?,
            block: block(&mut reader)?,
            credit: reader.integer_up_to(limits::INITIAL_CREDIT_MAX, "initial credit")?,
            mode: reader.integer_up_to(0o7777, "mode")? as u32,
            modified: if flags & MODIFIED != 0 { Some(read_time(&mut reader)?) } else { None },
            resume: if flags & RESUME != 0 { Some(read_resume(&mut reader)?) } else { None },
            base: if flags & BASE != 0 { Some(read_version(&mut reader)?) } else { None },
        };
        reader.end()?;
        crate::base::Extent::new(request.offset, request.length.unwrap_or(0))
            .map_err(|_| WireError::Invalid("range of the request"))?;
        Ok(request)
    }
}

fn read_version(reader: &mut Reader<'_>) -> Result<Vec<u8>, WireError> {
    Ok(reader.bytes(limits::VERSION_BYTES_MAX, "version")?.to_vec())
}

fn read_resume(reader: &mut Reader<'_>) -> Result<Resume, WireError> {
    let source = read_version(reader)?;
    let kept = read_extents(reader, limits::LEDGER_ENTRIES_MAX, "kept ranges")?;
    Ok(Resume { source, kept })
}

/// A protection level as one byte.
pub(super) fn level(reader: &mut Reader<'_>) -> Result<Level, WireError> {
    Level::from_code(reader.byte()?).ok_or(WireError::Invalid("protection level"))
}

/// A block size: 0, or a power of two between the limits.
pub(super) fn block(reader: &mut Reader<'_>) -> Result<u32, WireError> {
    let block = reader.integer_up_to(limits::BLOCK_BYTES_MAX.into(), "block size")? as u32;
    if block != 0 && (block < limits::BLOCK_BYTES_MIN || !block.is_power_of_two()) {
        return Err(WireError::Invalid("block size"));
    }
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back() {
        let full = Request {
            name: b"data/run 1/\xff".to_vec(),
            label: b"/home/x".to_vec(),
            transfer: TransferId([9; 16]),
            keep_existing: true,
            durable: true,
            hash: true,
            reread: true,
            sum: true,
            unverified: true,
            holes: true,
            offset: 777,
            length: Some(i64::MAX as u64 / 2 - 777),
            level: Level::Integrity,
            block: 1 << 20,
            credit: 4 << 20,
            mode: 0o644,
            modified: Some(Timestamp::new(-5, 999_999_999)),
            resume: Some(Resume {
                source: alloc::vec![7; limits::VERSION_BYTES_MAX],
                kept: alloc::vec![Extent::new(0, 9).unwrap(), Extent::new(20, 1).unwrap()],
            }),
            base: Some(alloc::vec![8; limits::VERSION_BYTES_MAX]),
        };
        for request in [full, Request { name: b"e/f".to_vec(), ..Request::default() }] {
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
    }

    #[test]
    fn ranges_and_block_sizes_out_of_bounds_are_refused() {
        let request = Request { name: b"e/f".to_vec(), ..Request::default() };
        let bad = |change: fn(&mut Request)| {
            let mut request = request.clone();
            change(&mut request);
            Request::decode(&request.encode())
        };
        assert!(bad(|r| r.block = 1000).is_err());
        assert!(bad(|r| r.block = 1 << 15).is_err());
        assert!(bad(|r| r.block = 1 << 23).is_err());
        assert!(bad(|r| r.credit = limits::INITIAL_CREDIT_MAX + 1).is_err());
        assert!(bad(|r| r.name = alloc::vec![b'a'; path::PATH_BYTES_MAX + 1]).is_err());
    }
}
