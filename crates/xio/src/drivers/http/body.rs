//! The framing of bodies, in both directions. Nothing here reads or writes.

use super::head::Framing;

/// Longest line that gives a chunk's size, with its extensions, which mean nothing here.
const SIZE_LINE_BYTES_MAX: usize = 256;
/// Digits of a chunk's size: more do not fit.
const SIZE_DIGITS_MAX: usize = 15;
/// Most bytes of the fields behind the last chunk, which mean nothing here.
const TRAILER_BYTES_MAX: usize = 8 * 1024;
/// Largest chunk that is sent. What the layer below does not take of one is kept, so that no chunk is
/// left unfinished by a write that is cancelled.
const CHUNK_BYTES_MAX: usize = 256 * 1024;

const TOO_SHORT: BadBody = "less is written than the length that was announced";

/// Why a body is refused.
pub(super) type BadBody = &'static str;

/// What stands next in a body that is received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Up to so many bytes of content.
    Content(u64),
    /// So many bytes that are no content.
    Framing(usize),
    /// It cannot be told without more bytes.
    More,
    /// Nothing.
    End,
}

/// A body that is received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decoder {
    /// So many bytes are left.
    Length(u64),
    UntilClose,
    ChunkSize,
    /// So many bytes of the chunk are left.
    Chunk(u64),
    ChunkEnd,
    /// So many bytes of fields were left aside.
    Trailer(usize),
    End,
}

impl Decoder {
    pub(super) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Length(0) => Self::End,
            Framing::Length(bytes) => Self::Length(bytes),
            Framing::Chunked => Self::ChunkSize,
            Framing::UntilClose => Self::UntilClose,
        }
    }

    /// What `bytes`, the next to come, begin with. Framing counts as consumed.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<Next, BadBody> {
        match *self {
            Self::End => Ok(Next::End),
            Self::UntilClose => Ok(Next::Content(u64::MAX)),
            Self::Length(left) | Self::Chunk(left) => Ok(Next::Content(left)),
            Self::ChunkSize => {
                let Some(line) = line(bytes, SIZE_LINE_BYTES_MAX)? else { return Ok(Next::More) };
                *self = match size(line)? {
                    0 => Self::Trailer(0),
                    size => Self::Chunk(size),
                };
                Ok(Next::Framing(line.len() + 2))
            }
            Self::ChunkEnd => match bytes {
                [b'\r', b'\n', ..] => {
                    *self = Self::ChunkSize;
                    Ok(Next::Framing(2))
                }
                [] | [b'\r'] => Ok(Next::More),
                _ => Err("a chunk is longer than it says"),
            },
            Self::Trailer(before) => {
                let Some(line) = line(bytes, TRAILER_BYTES_MAX.saturating_sub(before))? else { return Ok(Next::More) };
                *self = if line.is_empty() { Self::End } else { Self::Trailer(before + line.len() + 2) };
                Ok(Next::Framing(line.len() + 2))
            }
        }
    }

    /// So many bytes of content were taken.
    pub(super) fn took(&mut self, bytes: u64) {
        *self = match *self {
            Self::Length(left) if left <= bytes => Self::End,
            Self::Length(left) => Self::Length(left - bytes),
            Self::Chunk(left) if left <= bytes => Self::ChunkEnd,
            Self::Chunk(left) => Self::Chunk(left - bytes),
            other => other,
        };
    }
}

/// The line that `bytes` begin with, without its end; none while it is incomplete.
fn line(bytes: &[u8], longest: usize) -> Result<Option<&[u8]>, BadBody> {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) if end > longest => Err("a line between chunks is too long"),
        Some(end) => {
            let line = bytes[..end].strip_suffix(b"\r").ok_or("a LF without CR between chunks")?;
            if line.contains(&b'\r') { Err("a CR without LF between chunks") } else { Ok(Some(line)) }
        }
        None if bytes.len() > longest => Err("a line between chunks is too long"),
        None => Ok(None),
    }
}

fn size(line: &[u8]) -> Result<u64, BadBody> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let extension = &line[digits..];
    let valid = (1..=SIZE_DIGITS_MAX).contains(&digits)
        && (extension.is_empty() || extension[0] == b';')
        && extension.iter().all(|byte| *byte == b'\t' || (0x20..0x7f).contains(byte));
    let text = std::str::from_utf8(&line[..digits]).ok().filter(|_| valid);
    text.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or("the size of a chunk is no number")
}

/// A body that is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Encoder {
    /// So many bytes are left.
    Length(u64),
    UntilClose,
    Chunked,
    /// What is written is left aside: the peer wants the head alone.
    Discard,
    /// There is no body, or it has ended.
    End,
}

impl Encoder {
    pub(super) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Length(0) => Self::End,
            Framing::Length(bytes) => Self::Length(bytes),
            Framing::Chunked => Self::Chunked,
            Framing::UntilClose => Self::UntilClose,
        }
    }

    /// `asked` bytes are to be sent, the last of the body if `ends`: how many of them may go next.
    pub(super) fn allowed(&self, asked: usize, ends: bool) -> Result<usize, BadBody> {
        match self {
            Self::Length(left) if ends && *left > asked as u64 => Err(TOO_SHORT),
            Self::Length(left) if usize::try_from(*left).is_ok_and(|left| left < asked) => {
                Err("more is written than the length that was announced")
            }
            Self::Chunked => Ok(asked.min(CHUNK_BYTES_MAX)),
            Self::Length(_) | Self::UntilClose | Self::Discard => Ok(asked),
            Self::End => Err("the message has no body, or it has ended"),
        }
    }

    /// So many of them were sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        if let Self::Length(left) = self {
            *left = left.saturating_sub(bytes as u64);
            if *left == 0 {
                *self = Self::End;
            }
        }
    }

    /// The body ends here. Puts its end behind `into`.
    pub(super) fn finish(&mut self, into: &mut Vec<u8>) -> Result<(), BadBody> {
        match self {
            // It has not ended: the peer waits for the rest, and nothing else may follow.
            Self::Length(_) => return Err(TOO_SHORT),
            Self::Chunked => into.extend_from_slice(b"0\r\n\r\n"),
            Self::UntilClose | Self::Discard | Self::End => {}
        }
        *self = Self::End;
        Ok(())
    }
}
