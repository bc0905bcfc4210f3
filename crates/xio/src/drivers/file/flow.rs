//! An open file as an element of a stack.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use xdfs_io::stack::{Answer, Command, Flow, ReadInfo, WriteInfo};

/// The highest position that the kernel takes.
const POSITION_MAX: u64 = i64::MAX as u64;

/// An open file.
pub(super) struct FileFlow {
    file: OwnedFd,
    /// Of the next read, and of the next write without an offset.
    position: u64,
    /// Writes go to the end: the kernel says where that is.
    append: bool,
}

impl FileFlow {
    pub(super) fn new(file: OwnedFd, position: u64, append: bool) -> Self {
        Self { file, position, append }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(u64::try_from(rustix::fs::fstat(&self.file)?.st_size).unwrap_or(0))
    }
}

impl Flow for FileFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let bytes = rustix::io::preadv(&self.file, into, checked(self.position)?).map_err(never_waits)?;
        info.offset = Some(self.position);
        info.end = bytes == 0 && into.iter().any(|slice| !slice.is_empty());
        self.position += bytes as u64;
        Ok(bytes)
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        let at = checked(info.offset.unwrap_or(self.position))?;
        let bytes = rustix::io::pwritev(&self.file, from, at).map_err(never_waits)?;
        if bytes == 0 && from.iter().any(|slice| !slice.is_empty()) {
            return Err(io::ErrorKind::WriteZero.into());
        }
        if info.offset.is_none() && !self.append {
            self.position += bytes as u64;
        }
        Ok(bytes)
    }

    /// `seek=OFFSET` counts from the beginning; `position` and `size` are asked for;
    /// `truncate=LENGTH` cuts or extends; `sync` waits for the disk.
    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        match &*command.name {
            "seek" => {
                self.position = number(command)?;
                Ok(Answer::Number(self.position))
            }
            "position" => Ok(Answer::Number(self.position)),
            "size" => self.size().map(Answer::Number),
            "truncate" => {
                rustix::fs::ftruncate(&self.file, number(command)?)?;
                Ok(Answer::Done)
            }
            "sync" => {
                rustix::fs::fdatasync(&self.file)?;
                Ok(Answer::Done)
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// A position that the kernel takes; what lies behind it is an error and no other place.
fn checked(position: u64) -> io::Result<u64> {
    if position <= POSITION_MAX {
        return Ok(position);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no file has an offset of {position}")))
}

fn number(command: &Command) -> io::Result<u64> {
    let text = command.value.as_deref().unwrap_or_default();
    let number = text.parse().map_err(|_| {
        let what = format!("'{}' needs a number of bytes, not '{}'", command.name, text.escape_debug());
        io::Error::new(io::ErrorKind::InvalidInput, what)
    })?;
    checked(number)
}

/// A device that would have to be waited for cannot be watched.
fn never_waits(error: rustix::io::Errno) -> io::Error {
    if error == rustix::io::Errno::AGAIN {
        let what = "the device has to be waited for; the driver 'pipe' can";
        return io::Error::new(io::ErrorKind::Unsupported, what);
    }
    error.into()
}
