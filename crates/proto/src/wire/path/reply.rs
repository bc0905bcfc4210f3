//! A reply: one result per call, in the calls' order, within the size that the batch stated.

use super::super::codec::{Reader, WireError, Writer};
use super::attributes::Attributes;
use super::call::{Call, Code, REPLY_CALL_BYTES};
use super::listing::{ListEntry, Listing, StringList};
use super::openers::Openers;
use crate::base::{Digest, ErrorKind, Safety};
use crate::limits;
use alloc::vec::Vec;

/// Size of a reply without its results.
pub const REPLY_BYTES: usize = 8;

/// Why a call failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Failure {
    /// What went wrong.
    pub kind: ErrorKind,
    /// The server's errno, 0 for none; informative.
    pub errno: u16,
}

/// Space of a file system, in bytes and files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FileSystem {
    /// Bytes of a block.
    pub block: u64,
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes that this user may take.
    pub available: u64,
    /// Files that there can be.
    pub files: u64,
    /// Files that there can still be.
    pub files_free: u64,
}

/// The result of a call that succeeded.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields are those of the document's table")]
pub enum Answer<'a> {
    /// No further data.
    Done,
    /// stat.
    Attributes(Attributes<'a>),
    /// list.
    Listing(Listing<'a>),
    /// readlink: the target; getxattr: the value; stagetree: the place.
    Bytes(&'a [u8]),
    /// listxattr.
    Names(StringList<'a>),
    /// statfs.
    FileSystem(FileSystem),
    /// hash.
    Hash { length: u64, digest: Digest },
    /// opens.
    Openers(Openers<'a>),
    /// get.
    File { attributes: Attributes<'a>, content: &'a [u8] },
}

/// Result of one call.
pub type CallOutcome<'a> = Result<Answer<'a>, Failure>;

/// The payload of xPathM without REQUEST.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply<'a> {
    /// The durability of what the successful calls changed.
    pub safety: Safety,
    /// One per call.
    pub outcomes: Vec<CallOutcome<'a>>,
}

impl<'a> Reply<'a> {
    /// Reads the payload that answers calls with these numbers.
    pub fn decode(payload: &'a [u8], codes: &[u64]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        let safety = read_reply_head(&mut reader, codes.len())?;
        let mut outcomes = Vec::new();
        for code in codes {
            outcomes.push(read_outcome(&mut reader, *code)?);
        }
        reader.end()?;
        Ok(Self { safety, outcomes })
    }

    /// The payload on the wire, where all of it has room.
    pub fn encode(&self) -> Vec<u8> {
        let Some(mut writer) = ReplyWriter::new(self.outcomes.len(), limits::CALL_BYTES_MAX) else { return Vec::new() };
        for outcome in &self.outcomes {
            match outcome {
                Ok(answer) => writer.answer(answer),
                Err(failure) => writer.fail(*failure),
            }
        }
        writer.finish(self.safety)
    }
}

/// What a reply says before its results, of which there must be so many.
pub(in super::super) fn read_reply_head(reader: &mut Reader<'_>, calls: usize) -> Result<Safety, WireError> {
    let safety = match reader.byte()? {
        2 => Safety::Written,
        3 => Safety::Durable,
        _ => return Err(WireError::Invalid("safety")),
    };
    if reader.integer()? != calls as u64 {
        return Err(WireError::Invalid("number of results"));
    }
    Ok(safety)
}

/// The status of a result: none if the call succeeded.
pub(in super::super) fn read_failure(reader: &mut Reader<'_>) -> Result<Option<Failure>, WireError> {
    let status = reader.integer_up_to(u16::MAX.into(), "status")?;
    if status == 0 {
        return Ok(None);
    }
    // At most 65535: both fit.
    let errno = reader.integer_up_to(u16::MAX.into(), "errno")? as u16;
    let kind = ErrorKind::from_code(status as u16).unwrap_or(ErrorKind::Unsupported);
    Ok(Some(Failure { kind, errno }))
}

fn read_outcome<'a>(reader: &mut Reader<'a>, code: u64) -> Result<CallOutcome<'a>, WireError> {
    if let Some(failure) = read_failure(reader)? {
        return Ok(Err(failure));
    }
    // To a call that it does not know a server cannot say yes.
    let code = Code::from_number(code).ok_or(WireError::Invalid("status"))?;
    let content_max = limits::CALL_BYTES_MAX;
    Ok(Ok(match code {
        Code::Stat => Answer::Attributes(Attributes::read(reader)?),
        Code::List => Answer::Listing(Listing::read(reader)?),
        Code::ReadLink => Answer::Bytes(reader.bytes(limits::LINK_BYTES_MAX, "target of a link")?),
        Code::XattrValue => Answer::Bytes(reader.bytes(limits::XATTR_BYTES_MAX, "value of an attribute")?),
        Code::StageTree => Answer::Bytes(reader.bytes(limits::STAGE_PATH_BYTES_MAX, "place of a tree")?),
        Code::XattrNames => Answer::Names(StringList::read(reader)?),
        Code::FileSystem => Answer::FileSystem(FileSystem {
            block: reader.integer()?,
            bytes: reader.integer()?,
            free: reader.integer()?,
            available: reader.integer()?,
            files: reader.integer()?,
            files_free: reader.integer()?,
        }),
        Code::Hash => Answer::Hash { length: reader.integer()?, digest: reader.array()? },
        Code::Opens => Answer::Openers(Openers::read(reader)?),
        Code::Get => {
            let attributes = Attributes::read(reader)?;
            Answer::File { attributes, content: reader.bytes(content_max, "content")? }
        }
        Code::MakeDirectory
        | Code::RemoveDirectory
        | Code::Watch
        | Code::Unlink
        | Code::Rename
        | Code::Link
        | Code::Symlink
        | Code::SetMode
        | Code::SetTimes
        | Code::Truncate
        | Code::SetOwner
        | Code::MakeNode
        | Code::SetXattr
        | Code::RemoveXattr
        | Code::Put
        | Code::PublishTree => Answer::Done,
    }))
}

/// Writes results in order. What has no room is LimitExceeded; a failure, and success without
/// bytes, always has.
#[derive(Clone, Debug)]
pub struct ReplyWriter {
    writer: Writer,
    room: usize,
    /// Results that are still to come.
    left: usize,
    /// Bytes that the next result leaves to those behind it, besides what is set aside for each.
    kept: usize,
}

/// What a page or a list keeps at least of the room that is left, where the calls behind it may
/// need all: its longest entry.
const OPEN_BYTES_MIN: usize = 6 * 1024;

impl ReplyWriter {
    /// For so many calls within `room` bytes; none where that is too little for any outcome.
    pub fn new(calls: usize, room: usize) -> Option<Self> {
        Self::within(Vec::new(), calls, room)
    }

    /// The same, written into `memory`, which may grow.
    pub fn within(memory: Vec<u8>, calls: usize, room: usize) -> Option<Self> {
        let least = REPLY_BYTES + calls * REPLY_CALL_BYTES;
        if room < least {
            return None;
        }
        // No memory is taken by a word of the peer: the room is what it says.
        let mut writer = Writer::within(memory);
        writer.byte(Safety::Written as u8).integer(calls as u64);
        Some(Self { writer, room, left: calls, kept: 0 })
    }

    /// The next result is one that nothing but the room bounds, and the results of `behind` come
    /// after it: it leaves them what they may need, as far as there is so much.
    pub fn leave_room<'c>(&mut self, behind: impl Iterator<Item = &'c Call<'c>>) {
        let needed = behind.map(Call::room).fold(0, usize::saturating_add);
        self.kept = needed.min(self.room().saturating_sub(OPEN_BYTES_MIN));
    }

    /// Bytes that the next result may have, its status among them.
    pub fn room(&self) -> usize {
        self.most().saturating_sub(self.writer.as_bytes().len())
    }

    /// How long the reply may be with the next result.
    fn most(&self) -> usize {
        self.room - self.left.saturating_sub(1) * REPLY_CALL_BYTES - self.kept
    }

    /// Results that are still to come.
    pub fn left(&self) -> usize {
        self.left
    }

    /// The next call failed.
    pub fn fail(&mut self, failure: Failure) {
        self.writer.integer(failure.kind as u64).integer(failure.errno.into());
        self.counted();
    }

    /// A result is complete.
    fn counted(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.kept = 0;
    }

    /// The next call succeeded; not for a listing, which is written entry by entry.
    pub fn answer(&mut self, answer: &Answer<'_>) {
        if let Answer::Listing(listing) = answer {
            let mut page = self.listing();
            let all = listing.entries.clone().all(|entry| page.push(&entry));
            return page.finish(listing.complete && all, listing.cursor);
        }
        self.succeed(|writer| match answer {
            Answer::Done | Answer::Listing(_) => {}
            Answer::Attributes(attributes) => attributes.write(writer),
            Answer::Bytes(bytes) => drop(writer.bytes(bytes)),
            Answer::Names(names) => {
                for name in names.clone() {
                    writer.bytes(name);
                }
                writer.bytes(&[]);
            }
            Answer::FileSystem(room) => {
                for number in [room.block, room.bytes, room.free, room.available, room.files, room.files_free] {
                    writer.integer(number.min(super::super::codec::INTEGER_MAX));
                }
            }
            Answer::Openers(openers) => openers.write(writer),
            Answer::Hash { length, digest } => drop(writer.integer(*length).raw(digest)),
            Answer::File { attributes, content } => {
                attributes.write(writer);
                writer.bytes(content);
            }
        });
    }

    /// The next call succeeded with what `write` appends.
    pub(in super::super) fn succeed(&mut self, write: impl FnOnce(&mut Writer)) {
        let (before, most) = (self.writer.as_bytes().len(), self.most());
        self.writer.integer(0);
        write(&mut self.writer);
        self.hold_to(before, most);
    }

    /// The next call, for names of extended attributes, succeeded with these.
    pub fn names<'n>(&mut self, names: impl Iterator<Item = &'n [u8]>) {
        // The kernel's list of them is bounded, and so is what is written before the look at the
        // room.
        self.succeed(|writer| {
            for name in names {
                writer.bytes(name);
            }
            writer.bytes(&[]);
        });
    }

    /// What was written since `before` is a result, if it leaves the others their room.
    fn hold_to(&mut self, before: usize, most: usize) {
        if self.writer.as_bytes().len() > most {
            self.writer.truncate(before);
            return self.fail(Failure { kind: ErrorKind::LimitExceeded, errno: 0 });
        }
        self.counted();
    }

    /// The next call is a listing that succeeds: its page is filled by the caller, who must finish
    /// it.
    pub fn listing(&mut self) -> ListingWriter<'_> {
        // What ends a page has its place in what is set aside for every call.
        let (start, most) = (self.writer.as_bytes().len(), self.most() - REPLY_CALL_BYTES);
        self.writer.integer(0);
        ListingWriter { reply: self, start, most, entries: 0, refused: false }
    }

    /// The payload. Results that were not written are "not tried".
    pub fn finish(mut self, safety: Safety) -> Vec<u8> {
        while self.left > 0 {
            self.fail(Failure { kind: ErrorKind::NotTried, errno: 0 });
        }
        let mut payload = self.writer.finish();
        if let Some(first) = payload.first_mut() {
            *first = safety as u8;
        }
        payload
    }
}

/// Fills a page within its room. See [`ReplyWriter::listing`].
#[derive(Debug)]
pub struct ListingWriter<'w> {
    reply: &'w mut ReplyWriter,
    /// Where the result begins.
    start: usize,
    /// How long the reply may be with an entry.
    most: usize,
    /// Entries so far.
    entries: u32,
    /// One did not fit.
    refused: bool,
}

impl ListingWriter<'_> {
    /// Appends an entry; false, and nothing happens, where it does not fit.
    pub fn push(&mut self, entry: &ListEntry<'_>) -> bool {
        let writer = &mut self.reply.writer;
        let before = writer.as_bytes().len();
        writer.bytes(entry.name);
        entry.attributes.write(writer);
        let fits = writer.as_bytes().len() <= self.most;
        if fits {
            self.entries += 1;
        } else {
            writer.truncate(before);
            self.refused = true;
        }
        fits
    }

    /// Entries so far.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// The last word of the page. A page without room for its first entry is a failure: the client
    /// would ask for it for ever.
    pub fn finish(self, complete: bool, cursor: &[u8]) {
        if self.refused && self.entries == 0 {
            return self.fail(Failure { kind: ErrorKind::LimitExceeded, errno: 0 });
        }
        self.reply.writer.bytes(&[]).integer(complete.into()).bytes(cursor);
        self.reply.counted();
    }

    /// The directory cannot be read: there is no page.
    pub fn fail(self, failure: Failure) {
        self.reply.writer.truncate(self.start);
        self.reply.fail(failure);
    }
}
