//! File to file over one connection: splice on the way out, whole blocks on the way in.
//!
//! Sender: file, one 1 MiB pipe, socket; no byte enters this process. Receiver: one buffer, filled, then exactly one
//! pwrite, because the kernel is fastest with whole, page-aligned pieces.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::pipe::{self, PipeFlags, SpliceFlags};

use super::memory;
use crate::error::{Context, Error, Result};

/// The largest pipe that every user may have (fs.pipe-max-size).
const PIPE: usize = 1 << 20;

/// Preallocation pays on ext4 (large extents before the data) and costs a little on tmpfs.
const EXT4_MAGIC: i64 = 0xEF53;

const PAGE: usize = 4096;

/// Sends the whole file and returns its length; `announce` sends the length first.
pub(super) fn send(stream: &TcpStream, path: &Path, announce: bool) -> Result<u64> {
    let file = File::open(path).context(|| path.display().to_string())?;
    let length = file.metadata().context(|| path.display().to_string())?.len();
    if announce {
        memory::tell(stream, length)?;
    }
    let splicing = || format!("splice {}", path.display());
    let (pipe_out, pipe_in) = pipe::pipe_with(PipeFlags::CLOEXEC).context(splicing)?;
    pipe::fcntl_setpipe_size(&pipe_in, PIPE).context(splicing)?;
    let mut offset = 0;
    while offset < length {
        let filled =
            pipe::splice(&file, Some(&mut offset), &pipe_in, None, PIPE, SpliceFlags::MOVE).context(splicing)?;
        if filled == 0 {
            return Err(Error::Bound("had a file that became shorter"));
        }
        let mut left = filled;
        while left > 0 {
            let flags = SpliceFlags::MOVE | if offset < length { SpliceFlags::MORE } else { SpliceFlags::empty() };
            left -= pipe::splice(&pipe_out, None, stream, None, left, flags).context(splicing)?;
        }
    }
    Ok(length)
}

/// Receives `length` bytes into a new file.
pub(super) fn receive(stream: &TcpStream, path: &Path, length: u64, block: usize) -> Result<()> {
    let storing = || format!("write {}", path.display());
    let file = File::create_new(path).context(storing)?;
    let file_system = rustix::fs::fstatfs(&file).context(storing)?;
    if i128::from(file_system.f_type) == i128::from(EXT4_MAGIC) && length > 0 {
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, length).context(storing)?;
    }
    let mut memory = vec![0_u8; block + PAGE];
    // The copy is fastest from a page boundary; the allocator gives one only for what it maps itself.
    let start = memory.as_ptr().align_offset(PAGE).min(PAGE);
    let buffer = &mut memory[start..start + block];
    let mut offset = 0;
    while offset < length {
        let want = usize::try_from(length - offset).unwrap_or(usize::MAX).min(block);
        match (&mut &*stream).read_exact(&mut buffer[..want]) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(Error::Bound("ended before the whole file was there"));
            }
            Err(error) => return Err(error).context(|| "receive".to_owned()),
        }
        file.write_all_at(&buffer[..want], offset).context(storing)?;
        offset += want as u64;
    }
    Ok(())
}
