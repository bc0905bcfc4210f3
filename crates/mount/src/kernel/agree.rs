//! The kernel's first request: which version of the protocol is spoken, and what both sides can.

use super::abi::{self, init};
use super::answer::Answer;
use super::device::{read, send};
use super::file_system::FileSystem;
use super::request::{self, Operation};
use rustix::io::Errno;
use std::fs::File;

/// Reads and writes of the page cache that the kernel has on their way at a time.
const BACKGROUND_MAX: u16 = 64;

/// The first request: versions and what both sides can, of which the bits are returned.
pub(super) fn agree(device: &File, files: &dyn FileSystem, buffer: &mut [u8]) -> Result<u64, Errno> {
    loop {
        let length = read(device, buffer)?.ok_or(Errno::NODEV)?;
        let call = request::decode(&buffer[..length]).ok_or(Errno::PROTO)?;
        let Operation::Init { major, minor, readahead, flags } = call.operation else {
            send(device, call.unique, Err(Errno::IO))?;
            continue;
        };
        if major < abi::MAJOR || (major == abi::MAJOR && minor < abi::MINOR_MIN) {
            send(device, call.unique, Err(Errno::PROTO))?;
            return Err(Errno::PROTO);
        }
        let locks = if files.locks() { init::FLOCK_LOCKS | init::POSIX_LOCKS } else { 0 };
        let wanted = init::ASYNC_READ
            | init::ATOMIC_O_TRUNC
            | init::BIG_WRITES
            | init::DONT_MASK
            | init::AUTO_INVAL_DATA
            | init::DO_READDIRPLUS
            | init::READDIRPLUS_AUTO
            | init::PARALLEL_DIROPS
            | init::MAX_PAGES
            | init::HANDLE_KILLPRIV_V2
            | init::INIT_EXT
            | init::HAS_EXPIRE_ONLY
            | init::DIRECT_IO_ALLOW_MMAP
            | locks;
        let agreed = wanted & flags;
        let mut fields = Vec::new();
        for field in [abi::MAJOR, abi::MINOR, readahead, agreed as u32] {
            fields.extend(field.to_ne_bytes());
        }
        for field in [BACKGROUND_MAX, BACKGROUND_MAX / 4 * 3] {
            fields.extend(field.to_ne_bytes());
        }
        let max_write = if agreed & init::MAX_PAGES != 0 { abi::DATA_MAX } else { 32 * abi::PAGE };
        // Times have nanoseconds.
        for field in [max_write as u32, 1] {
            fields.extend(field.to_ne_bytes());
        }
        for field in [(abi::DATA_MAX / abi::PAGE) as u16, 0] {
            fields.extend(field.to_ne_bytes());
        }
        fields.extend(((agreed >> 32) as u32).to_ne_bytes());
        fields.resize(64, 0);
        // It is answered in its own form only if the kernel's major version is ours.
        send(device, call.unique, Ok(&Answer::Data(fields.into())))?;
        if major == abi::MAJOR {
            return Ok(agreed);
        }
    }
}
