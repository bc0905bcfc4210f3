//! The reply to a batch of calls on a file.

use super::super::codec::{Reader, WireError, Writer};
use super::super::path::{Attributes, Failure, ReplyWriter, read_failure, read_reply_head};
use super::call::FileCode;
use super::{FileIdentity, LeaseTold, Verifier, change, read_range, write_range};
use crate::base::Safety;
use crate::limits;
use crate::range_locks::RangeLock;
use alloc::vec::Vec;

/// A file that was opened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OpenedFile {
    /// Its handle, valid in this session; never 0.
    pub handle: u64,
    /// Which file it is.
    pub identity: FileIdentity,
    /// The server's instance.
    pub verifier: Verifier,
    /// Its length.
    pub size: u64,
    /// Another number after every change.
    pub change: u64,
}

/// The result of a call that succeeded.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields are those of the document's table")]
pub enum FileAnswer<'a> {
    /// close, lock, unlock, lockrange, unlockrange.
    Done,
    /// open.
    Opened(OpenedFile),
    /// read: the bytes of each range; fewer than requested at the end of the file.
    Read(Vec<&'a [u8]>),
    /// write, setlength, allocate, punch: the file's change number after it.
    Changed { change: u64 },
    /// append: where the data begins.
    Appended { offset: u64, change: u64 },
    /// sync.
    Synced { verifier: Verifier },
    /// seek; none where there is none behind the offset.
    Found { offset: Option<u64> },
    /// findlock; none where nothing is in the way.
    FoundLock { lock: Option<RangeLock> },
    /// lease.
    Lease(LeaseTold),
    /// fstat.
    Attributes(Attributes<'a>),
    /// readpipe: bytes, and how many were taken through this handle before them. Without bytes there
    /// is nothing yet, or at the `end` nobody left who writes.
    ReadPipe { offset: u64, data: &'a [u8], end: bool },
    /// writepipe: whether the FIFO has been opened, which takes somebody who reads, and the bytes that
    /// were put into it through this handle.
    WrotePipe { open: bool, taken: u64 },
}

const FOUND: u64 = 1;
const FOUND_EXCLUSIVE: u64 = 2;

/// Result of one call.
pub type FileOutcome<'a> = Result<FileAnswer<'a>, Failure>;

/// The payload of xDFSM without REQUEST.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileReply<'a> {
    /// One per call.
    pub outcomes: Vec<FileOutcome<'a>>,
}

impl<'a> FileReply<'a> {
    /// Reads the payload that answers calls with these numbers.
    pub fn decode(payload: &'a [u8], codes: &[u64]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        // Only sync makes anything durable, and says so itself.
        if read_reply_head(&mut reader, codes.len())? != Safety::Written {
            return Err(WireError::Invalid("safety"));
        }
        let mut outcomes = Vec::new();
        for code in codes {
            outcomes.push(match read_failure(&mut reader)? {
                Some(failure) => Err(failure),
                // To a call that it does not know a server cannot say yes.
                None => {
                    let code = FileCode::from_number(*code).ok_or(WireError::Invalid("status"))?;
                    Ok(FileAnswer::read(code, &mut reader)?)
                }
            });
        }
        reader.end()?;
        Ok(Self { outcomes })
    }

    /// The payload on the wire, where all of it has room.
    pub fn encode(&self) -> Vec<u8> {
        let Some(mut writer) = ReplyWriter::new(self.outcomes.len(), limits::CALL_BYTES_MAX) else { return Vec::new() };
        for outcome in &self.outcomes {
            match outcome {
                Ok(answer) => answer.tell(&mut writer),
                Err(failure) => writer.fail(*failure),
            }
        }
        writer.finish(Safety::Written)
    }
}

impl<'a> FileAnswer<'a> {
    /// The next call of `reply` succeeded with this.
    pub fn tell(&self, reply: &mut ReplyWriter) {
        reply.succeed(|writer| self.write(writer));
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Self::Done => {}
            Self::Opened(opened) => {
                writer.integer(opened.handle).raw(&opened.identity).raw(&opened.verifier).integer(opened.size);
                writer.raw(&opened.change.to_be_bytes());
            }
            Self::Read(parts) => {
                writer.integer(parts.len() as u64);
                for part in parts {
                    writer.bytes(part);
                }
            }
            Self::Changed { change } => drop(writer.raw(&change.to_be_bytes())),
            Self::Appended { offset, change } => drop(writer.integer(*offset).raw(&change.to_be_bytes())),
            Self::Synced { verifier } => drop(writer.raw(verifier)),
            Self::Found { offset } => {
                writer.integer(offset.is_some().into());
                if let Some(offset) = offset {
                    writer.integer(*offset);
                }
            }
            Self::FoundLock { lock: None } => drop(writer.integer(0)),
            Self::FoundLock { lock: Some(lock) } => {
                writer.integer(FOUND | if lock.exclusive { FOUND_EXCLUSIVE } else { 0 });
                write_range(lock.range, writer);
            }
            Self::Lease(told) => told.write(writer),
            Self::Attributes(attributes) => attributes.write(writer),
            Self::ReadPipe { offset, data, end } => drop(writer.integer((*end).into()).integer(*offset).bytes(data)),
            Self::WrotePipe { open, taken } => drop(writer.integer((*open).into()).integer(*taken)),
        }
    }

    fn read(code: FileCode, reader: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(match code {
            FileCode::Close | FileCode::Lock | FileCode::Unlock | FileCode::LockRange | FileCode::UnlockRange => {
                Self::Done
            }
            FileCode::Open => Self::Opened(OpenedFile {
                handle: match reader.integer()? {
                    0 => return Err(WireError::Invalid("handle")),
                    handle => handle,
                },
                identity: reader.array()?,
                verifier: reader.array()?,
                size: reader.integer()?,
                change: change(reader)?,
            }),
            FileCode::Read => {
                let count = reader.integer_up_to(limits::READ_RANGES_MAX as u64, "ranges")?;
                let mut parts = Vec::new();
                for _ in 0..count {
                    parts.push(reader.bytes(limits::CALL_BYTES_MAX, "data")?);
                }
                Self::Read(parts)
            }
            FileCode::Write | FileCode::SetLength | FileCode::Allocate | FileCode::Punch => {
                Self::Changed { change: change(reader)? }
            }
            FileCode::Append => Self::Appended { offset: reader.integer()?, change: change(reader)? },
            FileCode::Sync => Self::Synced { verifier: reader.array()? },
            FileCode::Seek => Self::Found {
                offset: match reader.flags(1, "flags of seek")? {
                    0 => None,
                    _ => Some(reader.integer()?),
                },
            },
            FileCode::FindLock => Self::FoundLock {
                lock: match reader.flags(FOUND | FOUND_EXCLUSIVE, "flags of findlock")? {
                    0 => None,
                    FOUND_EXCLUSIVE => return Err(WireError::Invalid("flags of findlock")),
                    flags => Some(RangeLock { range: read_range(reader)?, exclusive: flags & FOUND_EXCLUSIVE != 0 }),
                },
            },
            FileCode::Lease => Self::Lease(LeaseTold::read(reader)?),
            FileCode::Attributes => Self::Attributes(Attributes::read(reader)?),
            FileCode::ReadPipe => {
                let end = reader.flags(1, "flags of readpipe")? == 1;
                let (offset, data) = (reader.integer()?, reader.bytes(limits::CALL_BYTES_MAX, "data")?);
                if end && !data.is_empty() {
                    return Err(WireError::Invalid("flags of readpipe"));
                }
                Self::ReadPipe { offset, data, end }
            }
            FileCode::WritePipe => {
                Self::WrotePipe { open: reader.flags(1, "flags of writepipe")? == 1, taken: reader.integer()? }
            }
        })
    }
}
