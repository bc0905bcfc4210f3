//! Reads at an offset: many calls on their way at a time.

use super::ahead::{ReadFile, part};
use super::batches::{Answered, unexpected};
use super::core::{Core, change_told, lock};
use super::pending::{PendingRead, Sent};
use super::remote::Remote;
use crate::calls::Facts;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use xdfs_proto::base::Error;
use xdfs_proto::limits;
use xdfs_proto::wire::file::{FileAnswer, FileCall, ReadRange};
use xdfs_proto::wire::path::Wanted;

/// What is read at a time of a long range.
const LONG_READ_BYTES: usize = 16 << 20;

/// A longer read requests all of its parts at once by itself.
const READ_MAX: usize = 2 << 20;

/// The change number is that of the bytes, or a later one.
fn call_of(range: ReadRange) -> Vec<FileCall<'static>> {
    vec![FileCall::Read { ranges: vec![range] }, FileCall::Attributes { wanted: Wanted::CHANGE }]
}

/// Ranges that fit into one reply.
fn call_of_ranges(ranges: &[(u64, usize)]) -> Vec<FileCall<'static>> {
    // At most 256 KiB: fits.
    let ranges = ranges.iter().map(|&(offset, length)| ReadRange { offset, length: length as u32 }).collect();
    vec![FileCall::Read { ranges }]
}

impl Core {
    /// Waits for a range, and passes its bytes on: fewer than requested at the end of the file.
    fn range_of<T>(&self, read: PendingRead, take: impl FnOnce(&Answered, &[u8]) -> T) -> Result<T, Error> {
        let answered = self.finish(read.sent, call_of(read.range))?;
        // A lease may have ended between the two: the bytes are good nevertheless.
        if let Ok(change) = self.answer_at(&answered, 1, "look at", change_told) {
            // It grows with every change. Replies are not taken in the order in which they were made.
            self.read_change.fetch_max(change, Ordering::Relaxed);
        }
        let mut take = Some(take);
        self.parts(&answered, |parts| match parts {
            [part] if part.len() <= read.range.length as usize => take.take().map(|take| take(&answered, part)),
            _ => None,
        })
    }

    fn parts<T>(&self, answered: &Answered, read: impl FnOnce(&[&[u8]]) -> Option<T>) -> Result<T, Error> {
        self.answer(answered, "read", |answer| match answer {
            FileAnswer::Read(parts) => read(parts),
            _ => None,
        })
    }

    /// Fills `buf` from `offset`; fewer bytes are read only at the end of the file.
    pub(super) fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.settle_quietly();
        let (chunk, length, mut done) = (self.chunk(), buf.len(), 0);
        let most = self.long_calls_max();
        let mut pending = VecDeque::new();
        let mut requested = 0;
        while done < length {
            while requested < length && pending.len() < most {
                // At most 256 KiB: fits.
                let part = (length - requested).min(chunk) as u32;
                pending.push_back(self.request(ReadRange { offset: offset + requested as u64, length: part }));
                requested += part as usize;
            }
            // One is on its way for each byte that is missing.
            let Some(read) = pending.pop_front() else {
                return Err(Error::internal("no call is on its way for the rest of a range"));
            };
            let (from, asked) = (done, read.range.length as usize);
            done += self.range_of(read, |_, bytes| {
                buf[from..from + bytes.len()].copy_from_slice(bytes);
                bytes.len()
            })?;
            if done < from + asked {
                break;
            }
        }
        Ok(done)
    }

    /// Fills `buf` from `offset`; of a file that is read in order more is requested than that, and later
    /// calls find it here. Whoever is `steady` reads in order from wherever he begins, and may get fewer
    /// bytes; otherwise there are fewer only at the end of the file.
    pub(super) fn read_ahead_at(&self, buf: &mut [u8], offset: u64, steady: bool) -> Result<usize, Error> {
        self.settle_quietly();
        // What was requested under a lease that is over is forgotten.
        self.lease();
        let chunks = match buf.len() {
            ..=READ_MAX => lock(self.ahead()).advance(self, offset, buf.len(), steady),
            _ => Vec::new(),
        };
        let (mut done, mut ended) = (0, false);
        for chunk in chunks {
            let bytes = chunk.bytes(self).inspect_err(|_| lock(self.ahead()).forget())?;
            // What is between is asked for below.
            let Some(part) = part(&bytes, chunk.offset, offset + done as u64) else { break };
            let count = part.len().min(buf.len() - done);
            buf[done..done + count].copy_from_slice(&part[..count]);
            done += count;
            if bytes.len() < chunk.length {
                lock(self.ahead()).end_with(&chunk);
                ended = done > 0;
                break;
            }
        }
        if done == buf.len() || (steady && done > 0) || ended {
            return Ok(done);
        }
        Ok(done + self.read_at(&mut buf[done..], offset + done as u64)?)
    }

    /// Reads many ranges with few round trips: as many calls are on their way as for one long range.
    pub(super) fn read_ranges(&self, ranges: &[(u64, usize)]) -> Result<Vec<Vec<u8>>, Error> {
        self.settle_quietly();
        let mut all = Vec::with_capacity(ranges.len());
        let mut pending = VecDeque::new();
        let mut rest = ranges;
        let most = self.long_calls_max();
        loop {
            let fits = if pending.len() < most { self.how_many_fit(rest) } else { 0 };
            if fits > 0 {
                let (some, behind) = rest.split_at(fits);
                pending.push_back((some, self.start(call_of_ranges(some))));
                rest = behind;
            } else if let Some((some, sent)) = pending.pop_front() {
                all.extend(self.received_ranges(some, sent)?);
            } else if let Some((&(offset, length), behind)) = rest.split_first() {
                all.push(self.read_long(offset, length)?);
                rest = behind;
            } else {
                return Ok(all);
            }
        }
    }

    /// Reads a range that is longer than a reply; memory is taken for what there is, not for what is asked for.
    pub(super) fn read_long(&self, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
        let mut all = Vec::new();
        while all.len() < length {
            let (done, part) = (all.len(), (length - all.len()).min(LONG_READ_BYTES));
            all.resize(done + part, 0);
            let read = self.read_at(&mut all[done..], offset + done as u64)?;
            all.truncate(done + read);
            if read < part {
                break;
            }
        }
        Ok(all)
    }

    fn received_ranges(&self, asked: &[(u64, usize)], sent: Option<Sent>) -> Result<Vec<Vec<u8>>, Error> {
        let answered = self.finish(sent, call_of_ranges(asked))?;
        let parts = self.parts(&answered, |parts| Some(parts.iter().map(|part| part.to_vec()).collect::<Vec<_>>()))?;
        let honest = parts.len() == asked.len() && parts.iter().zip(asked).all(|(part, asked)| part.len() <= asked.1);
        if honest { Ok(parts) } else { Err(unexpected()) }
    }

    /// Ranges at the front whose bytes fit into one reply.
    fn how_many_fit(&self, ranges: &[(u64, usize)]) -> usize {
        // Before each there is its length.
        const LENGTH_BYTES: usize = 8;
        let mut left = self.chunk();
        let fits = |&&(_, length): &&(u64, usize)| {
            let room = left.checked_sub(length.saturating_add(LENGTH_BYTES));
            left = room.unwrap_or(0);
            room.is_some()
        };
        ranges.iter().take(limits::READ_RANGES_MAX).take_while(fits).count()
    }

    /// The file's length.
    pub(super) fn length(&self) -> Result<u64, Error> {
        self.look(Wanted::SIZE)?.size.ok_or_else(unexpected)
    }

    /// Its attributes; under a lease those that it had before.
    pub(super) fn look(&self, wanted: Wanted) -> Result<Facts, Error> {
        self.settle_quietly();
        if let Some(facts) = self.kept_facts(wanted) {
            return Ok(facts);
        }
        let (leased, count) = (self.lease().is_some(), self.changes().count());
        let facts = self.call(FileCall::Attributes { wanted }, "look at", |answer| match answer {
            FileAnswer::Attributes(told) => Some(Facts::from(told)),
            _ => None,
        })?;
        if leased {
            self.keep_facts(wanted, count, &facts);
        }
        Ok(facts)
    }
}

impl ReadFile for Core {
    fn remote(&self) -> &Arc<Remote> {
        self.remote()
    }

    fn changed(&self) -> u64 {
        self.changes().count()
    }

    fn chunk(&self) -> usize {
        self.chunk()
    }

    fn long_calls_max(&self) -> usize {
        self.long_calls_max()
    }

    fn known_end(&self) -> u64 {
        self.known_end()
    }

    fn request(&self, range: ReadRange) -> PendingRead {
        PendingRead { range, sent: self.start(call_of(range)) }
    }

    fn received(&self, read: PendingRead) -> Result<Bytes, Error> {
        self.range_of(read, Answered::slice)
    }
}
