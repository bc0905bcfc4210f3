//! A batch: the common parameters of several calls, and the calls.

use super::super::codec::{Reader, WireError, Writer};
use super::call::Call;
use crate::limits;
use alloc::vec::Vec;

const STOP: u64 = 1;
const DURABLE: u64 = 2;
const REPEATED: u64 = 4;
const FLAGS: u64 = 7;

/// The payload of xPathM with REQUEST.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch<'a> {
    /// After the first call that failed, the others are not executed.
    pub stop: bool,
    /// Changes are on stable storage when the reply is sent.
    pub durable: bool,
    /// Longest reply that the client accepts.
    pub room: u32,
    /// Identifies the batch across sessions; zeros if a repetition is harmless.
    pub request: [u8; 16],
    /// It was sent in an earlier session, at most this many milliseconds ago, and no reply arrived
    /// (P-74).
    pub age_ms: Option<u64>,
    /// `EXPORT/path` that the paths of the calls are below. Empty: the list of exports.
    pub base: &'a [u8],
    /// The calls, in the order of execution.
    pub calls: Vec<Call<'a>>,
}

impl<'a> Batch<'a> {
    /// Reads the payload. A call with an unknown code is no error: it is answered with Unsupported.
    pub fn decode(payload: &'a [u8]) -> Result<Self, WireError> {
        if payload.len() > limits::CALL_BYTES_MAX {
            return Err(WireError::TooLong("batch"));
        }
        let mut reader = Reader::new(payload);
        let mut batch = Self::read(&mut reader)?;
        let count = reader.integer_up_to(limits::CALLS_MAX as u64, "calls")?;
        if count == 0 {
            return Err(WireError::Invalid("calls"));
        }
        for _ in 0..count {
            let code = reader.integer()?;
            let arguments = reader.bytes(limits::CALL_BYTES_MAX, "arguments")?;
            batch.calls.push(Call::decode(code, arguments)?);
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
        let base = reader.bytes(limits::CALL_PATH_BYTES_MAX, "base")?;
        let (stop, durable) = (flags & STOP != 0, flags & DURABLE != 0);
        Ok(Self { stop, durable, room, request, age_ms, base, calls: Vec::new() })
    }

    /// The payload on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = BatchWriter::default();
        self.calls.iter().for_each(|call| writer.push(call));
        writer.into_payload(self).0
    }
}

/// Collects calls until a batch is full: the caller compares [`BatchWriter::bytes`] with what it
/// may send.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BatchWriter {
    calls: Writer,
    codes: Vec<u64>,
}

/// What a call takes besides the content of a file, as a guess: the most for which its length is one byte.
const OTHER_ARGUMENTS: usize = 63;

impl BatchWriter {
    /// An empty one that is written into `memory`, which may grow.
    pub fn within(memory: Vec<u8>) -> Self {
        Self { calls: Writer::within(memory), codes: Vec::new() }
    }

    /// Appends a call.
    pub fn push(&mut self, call: &Call<'_>) {
        let likely = OTHER_ARGUMENTS + if let Call::Put(put) = call { put.content.len() } else { 0 };
        let code = call.code();
        self.calls.integer(code).counted(likely, |arguments| call.write(arguments));
        self.codes.push(code);
    }

    /// Codes of the calls, by which the reply is read.
    pub fn codes(&self) -> &[u64] {
        &self.codes
    }

    /// Bytes that the calls take.
    pub fn bytes(&self) -> usize {
        self.calls.as_bytes().len()
    }

    /// The payload, with all else from `about`; its own calls do not count.
    pub fn finish(&self, about: &Batch<'_>) -> Vec<u8> {
        let head = self.head(about);
        let mut writer = Writer::with_capacity(head.as_bytes().len() + self.bytes());
        writer.raw(head.as_bytes()).raw(self.calls.as_bytes());
        writer.finish()
    }

    /// The same, and the codes of its calls, in the memory that the calls have.
    pub fn into_payload(mut self, about: &Batch<'_>) -> (Vec<u8>, Vec<u64>) {
        let head = self.head(about);
        self.calls.prepend(head.as_bytes());
        (self.calls.finish(), self.codes)
    }

    /// All before the calls.
    fn head(&self, about: &Batch<'_>) -> Writer {
        let mut writer = Writer::new();
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let flags = flag(about.stop, STOP) | flag(about.durable, DURABLE) | flag(about.age_ms.is_some(), REPEATED);
        writer.integer(flags).integer(about.room.into()).raw(&about.request);
        if let Some(age_ms) = about.age_ms {
            writer.integer(age_ms);
        }
        writer.bytes(about.base);
        writer.integer(self.codes.len() as u64);
        writer
    }
}
