//! A file with a position: reading ahead, writing behind.

use super::{File, must_be_below_limit};
use std::io::{IoSlice, Read, Seek, SeekFrom, Write};
use xdfs_proto::base::{Error, ErrorKind};

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

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        // Later calls find what is behind that.
        let part = buf.len().min(self.core.chunk());
        let count = match part {
            0 => 0,
            _ => self.core.read_ahead_at(&mut buf[..part], self.position, true).map_err(to_io)?,
        };
        self.position += count as u64;
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
            self.position = begins + part.len() as u64;
            return Ok(part.len());
        }
        must_be_below_limit(self.position, part.len()).map_err(to_io)?;
        self.core.write_behind(self.position, part).map_err(to_io)?;
        self.position += part.len() as u64;
        Ok(part.len())
    }

    /// As many of the buffers as one call carries go in one call.
    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> std::io::Result<usize> {
        let most = self.core.chunk();
        let mut data = Vec::new();
        for buffer in buffers {
            let part = buffer.len().min(most - data.len());
            data.extend_from_slice(&buffer[..part]);
        }
        self.write(&data)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.core.settle().map_err(to_io)
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.core.length().map_err(to_io)?.checked_add_signed(by),
        };
        let position = position
            .ok_or_else(|| std::io::Error::new(std::io::ErrorKind::InvalidInput, "a position before the file"))?;
        self.position = position;
        Ok(position)
    }
}
