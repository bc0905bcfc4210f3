//! A file with a position: reading ahead, writing behind.

use super::positioned::{AHEAD_MAX, PendingRead};
use super::unsynced::Change;
use super::{File, must_be_below_limit};
use bytes::Bytes;
use std::collections::VecDeque;
use std::io::{Read, Seek, SeekFrom, Write};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::file::ReadRange;

/// The position of a file, and what was read ahead of it.
#[derive(Default)]
pub(super) struct Stream {
    position: u64,
    /// Bytes that arrived, the first at the position.
    arrived: Bytes,
    /// Ranges that were requested; each begins where the one before it ends.
    ahead: VecDeque<PendingRead>,
    /// How many are requested next: more as long as the file is read in order.
    window: usize,
    /// When all of that was requested: [`super::core::Core::epoch`].
    epoch: u64,
}

impl Stream {
    /// Nothing that was read ahead is used any more.
    fn forget(&mut self) {
        self.arrived = Bytes::new();
        self.ahead.clear();
        self.window = 0;
    }

    fn advance(&mut self, count: usize) {
        self.position += count as u64;
    }
}

/// EPIPE, as errors carry it.
pub(super) const BROKEN: u16 = 32;

/// The error as the standard library has it, with ours inside.
pub(super) fn to_io(error: Error) -> std::io::Error {
    let kind = match error.kind {
        ErrorKind::NotFound => std::io::ErrorKind::NotFound,
        ErrorKind::AlreadyExists => std::io::ErrorKind::AlreadyExists,
        ErrorKind::PermissionDenied | ErrorKind::Refused => std::io::ErrorKind::PermissionDenied,
        ErrorKind::NoSpace => std::io::ErrorKind::StorageFull,
        ErrorKind::QuotaExceeded => std::io::ErrorKind::QuotaExceeded,
        ErrorKind::TooLarge => std::io::ErrorKind::FileTooLarge,
        ErrorKind::ReadOnly => std::io::ErrorKind::ReadOnlyFilesystem,
        ErrorKind::Stale => std::io::ErrorKind::StaleNetworkFileHandle,
        ErrorKind::TimedOut => std::io::ErrorKind::TimedOut,
        ErrorKind::Storage if error.errno == BROKEN => std::io::ErrorKind::BrokenPipe,
        _ => std::io::ErrorKind::Other,
    };
    std::io::Error::new(kind, error)
}

impl File {
    /// Bytes at the position; none at the end of the file.
    fn arrive(&mut self) -> Result<(), Error> {
        self.core.settle()?;
        let stream = &mut self.stream;
        if stream.epoch != self.core.epoch() {
            stream.forget();
            stream.epoch = self.core.epoch();
        }
        if !stream.arrived.is_empty() {
            return Ok(());
        }
        let chunk = self.core.chunk() as u64;
        if stream.ahead.front().is_some_and(|read| read.range.offset != stream.position) {
            stream.forget();
        }
        stream.window = (stream.window * 2).clamp(1, AHEAD_MAX);
        while stream.ahead.len() < stream.window {
            let last = stream.ahead.back().map(|read| read.range.offset + u64::from(read.range.length));
            // At most 256 KiB: fits.
            let range = ReadRange { offset: last.unwrap_or(stream.position), length: chunk as u32 };
            stream.ahead.push_back(self.core.request(range));
        }
        let Some(next) = stream.ahead.pop_front() else { return Ok(()) };
        // Another session may have another block size than the one that it was requested in.
        let asked = next.range.length as usize;
        stream.arrived = self.core.received(next, Bytes::copy_from_slice)?;
        if stream.arrived.len() < asked {
            // The end of the file, which may grow: what was requested behind it has a gap before it.
            stream.ahead.clear();
            stream.window = 0;
        }
        Ok(())
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        self.arrive().map_err(to_io)?;
        let count = buf.len().min(self.stream.arrived.len());
        buf[..count].copy_from_slice(&self.stream.arrived.split_to(count));
        self.stream.advance(count);
        Ok(count)
    }
}

impl Write for File {
    /// Sends the data without waiting for the answer: an error may be reported by a later call, at
    /// the latest by `flush`, a sync or [`File::close`].
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        let part = &data[..data.len().min(self.core.chunk())];
        if part.is_empty() {
            return Ok(0);
        }
        if self.core.options().appends() {
            let begins = self.core.append(part).map_err(to_io)?;
            self.stream.position = begins + part.len() as u64;
            return Ok(part.len());
        }
        must_be_below_limit(self.stream.position, part.len()).map_err(to_io)?;
        let change = Change::Write { offset: self.stream.position, data: Bytes::copy_from_slice(part) };
        self.core.write_behind(change).map_err(to_io)?;
        self.stream.advance(part.len());
        Ok(part.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.core.settle().map_err(to_io)
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.stream.position.checked_add_signed(by),
            SeekFrom::End(by) => self.core.length().map_err(to_io)?.checked_add_signed(by),
        };
        let position = position
            .ok_or_else(|| std::io::Error::new(std::io::ErrorKind::InvalidInput, "a position before the file"))?;
        if position != self.stream.position {
            self.stream.forget();
            self.stream.position = position;
        }
        Ok(position)
    }
}
