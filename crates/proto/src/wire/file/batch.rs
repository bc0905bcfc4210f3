//! A batch of calls on one file.

use super::super::codec::{Reader, WireError, Writer};
use super::call::{FileCall, FileCode};
use crate::limits;
use alloc::vec::Vec;

const STOP: u64 = 1;
const UNORDERED: u64 = 2;
const REPEATED: u64 = 4;
const FLAGS: u64 = 7;

/// The payload of xDFSM with REQUEST.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileBatch<'a> {
    /// After the first call that failed, the others are not executed.
    pub stop: bool,
    /// It may be executed before or beside other batches about this file.
    pub unordered: bool,
    /// Longest reply that the client accepts.
    pub room: u32,
    /// Identifies the batch across sessions; zeros if a repetition is harmless.
    pub request: [u8; 16],
    /// It was sent in an earlier session, at most this many milliseconds ago, and no reply arrived
    /// (P-74).
    pub age_ms: Option<u64>,
    /// The open file; 0 if the first call opens it.
    pub handle: u64,
    /// The calls, in the order of execution.
    pub calls: Vec<FileCall<'a>>,
}

impl<'a> FileBatch<'a> {
    /// Reads the payload. A call with an unknown code is no error: it is answered with Unsupported.
    pub fn decode(payload: &'a [u8]) -> Result<Self, WireError> {
        if payload.len() > limits::CALL_BYTES_MAX {
            return Err(WireError::TooLong("batch"));
        }
        let mut reader = Reader::new(payload);
        let mut batch = Self::read(&mut reader)?;
        let count = reader.integer_up_to(limits::CALLS_MAX as u64, "calls")?;
        for at in 0..count {
            let code = reader.integer()?;
            // A batch without a handle begins with open, and no other call is one.
            if (code == FileCode::Open as u64) != (at == 0 && batch.handle == 0) {
                return Err(WireError::Invalid("handle"));
            }
            batch.calls.push(FileCall::decode(code, reader.bytes(limits::CALL_BYTES_MAX, "arguments")?)?);
        }
        if batch.calls.is_empty() {
            return Err(WireError::Invalid("calls"));
        }
        reader.end()?;
        Ok(batch)
    }

    /// What a batch says before its calls.
    pub fn head_of(payload: &'a [u8]) -> Result<Self, WireError> {
        Self::read(&mut Reader::new(payload))
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let flags = reader.flags(FLAGS, "flags of a batch")?;
        // At most 256 KiB: fits.
        let room = reader.integer_up_to(limits::CALL_BYTES_MAX as u64, "room")? as u32;
        let request = reader.array()?;
        let age_ms = if flags & REPEATED != 0 { Some(reader.integer()?) } else { None };
        if age_ms.is_some() && request == [0; 16] {
            return Err(WireError::Invalid("request id"));
        }
        let (stop, unordered) = (flags & STOP != 0, flags & UNORDERED != 0);
        Ok(Self { stop, unordered, room, request, age_ms, handle: reader.integer()?, calls: Vec::new() })
    }

    /// The payload on the wire. The bytes of a write in its last call are at its end.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_within(Vec::new())
    }

    /// The same in this memory; previous content is discarded.
    pub fn encode_within(&self, memory: Vec<u8>) -> Vec<u8> {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let flags = flag(self.stop, STOP) | flag(self.unordered, UNORDERED) | flag(self.age_ms.is_some(), REPEATED);
        let mut writer = Writer::within(memory);
        writer.integer(flags).integer(self.room.into()).raw(&self.request);
        if let Some(age_ms) = self.age_ms {
            writer.integer(age_ms);
        }
        writer.integer(self.handle).integer(self.calls.len() as u64);
        let mut arguments = Writer::new();
        for call in &self.calls {
            arguments.truncate(0);
            let last = call.write(&mut arguments);
            let length = arguments.as_bytes().len() + last.len();
            writer.integer(call.code()).integer(length as u64).raw(arguments.as_bytes()).raw(last);
        }
        writer.finish()
    }

    /// The codes of the calls, by which the reply is read.
    pub fn codes(&self) -> Vec<u64> {
        self.calls.iter().map(FileCall::code).collect()
    }
}
