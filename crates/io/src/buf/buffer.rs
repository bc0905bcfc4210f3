//! One mapped buffer. It owns its pages and unmaps them on drop; it never grows and never moves.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ptr::{NonNull, null_mut};

/// Size of a record's head without its tag: what [`Buffer::headed`] puts directly before the
/// payload, so that one pass authenticates both.
pub const HEAD_IN_FRONT_BYTES: usize = 32;

/// Space before the payload area. A whole page, so that the payload starts on a page boundary and a
/// write of whole blocks stays aligned (unaligned writes were measured to cost 20 to 27 % on ext4).
pub const HEADROOM_BYTES: usize = 4096;

/// A payload area of whole pages, page-aligned, with [`HEADROOM_BYTES`] before it.
pub struct Buffer {
    /// First byte of the headroom: the start of the mapping.
    base: NonNull<u8>,
    /// Size of the payload area, a multiple of the page size.
    capacity: usize,
}

// SAFETY: the mapping is private memory that only this value points to; nothing in it belongs to a
// thread.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Maps a buffer whose payload area holds at least `payload_bytes`. No page is touched.
    pub fn new(payload_bytes: usize) -> io::Result<Self> {
        let capacity = payload_bytes
            .max(1)
            .checked_next_multiple_of(HEADROOM_BYTES)
            .filter(|capacity| *capacity <= isize::MAX as usize - HEADROOM_BYTES)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: an anonymous mapping at an address chosen by the kernel overlaps no existing one.
        let base = unsafe {
            mmap_anonymous(
                null_mut(),
                HEADROOM_BYTES + capacity,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, capacity })
    }

    /// Size of the payload area in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The payload area.
    pub fn payload(&self) -> &[u8] {
        // SAFETY: the range lies inside the mapping, which is readable and initialised (zero
        // pages), lives as long as `self`, and is written only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(HEADROOM_BYTES), self.capacity) }
    }

    /// The payload area, to be filled or changed in place.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `payload`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(HEADROOM_BYTES), self.capacity) }
    }

    /// The [`HEAD_IN_FRONT_BYTES`] of the head and the first `length` payload bytes as one
    /// contiguous range.
    ///
    /// # Panics
    /// When `length` exceeds [`Buffer::capacity`].
    pub fn headed(&mut self, length: usize) -> &mut [u8] {
        assert!(length <= self.capacity, "the payload is longer than its buffer");
        // SAFETY: the range starts inside the headroom, ends inside the payload area (asserted
        // above), and `&mut self` makes this the only reference.
        unsafe {
            let start = self.base.as_ptr().add(HEADROOM_BYTES - HEAD_IN_FRONT_BYTES);
            std::slice::from_raw_parts_mut(start, HEAD_IN_FRONT_BYTES + length)
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped; no reference into it can outlive `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), HEADROOM_BYTES + self.capacity) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours could not be unmapped");
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_is_page_aligned_and_the_head_lies_directly_before_it() {
        let mut buffer = Buffer::new(5000).unwrap();
        assert_eq!(buffer.capacity(), 8192, "whole pages");
        assert_eq!(buffer.payload().as_ptr() as usize % 4096, 0);
        buffer.headed(3).copy_from_slice(&[7; HEAD_IN_FRONT_BYTES + 3]);
        assert_eq!(buffer.payload()[..4], [7, 7, 7, 0]);
        let head = buffer.headed(0).as_ptr() as usize;
        assert_eq!(head + HEAD_IN_FRONT_BYTES, buffer.payload().as_ptr() as usize);
    }

    #[test]
    #[should_panic(expected = "longer than its buffer")]
    fn a_head_with_more_payload_than_there_is_panics() {
        Buffer::new(4096).unwrap().headed(4097);
    }

    #[test]
    fn a_size_that_no_machine_has_is_an_error() {
        assert!(Buffer::new(usize::MAX - 5000).is_err());
        assert!(Buffer::new(usize::MAX).is_err());
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the kernel's account of this process is no name of a peer's")]
    fn untouched_pages_are_not_resident() {
        let resident_pages = |buffer: &Buffer| {
            // The kernel's statistics of the mapping that contains this address: the line "Rss: n
            // kB".
            let address = buffer.payload().as_ptr() as usize;
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let mut inside = false;
            for line in maps.lines() {
                if let Some((range, _)) = line.split_once(' ')
                    && let Some((from, to)) = range.split_once('-')
                    && let (Ok(from), Ok(to)) = (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16))
                {
                    inside = (from..to).contains(&address);
                } else if inside && let Some(rss) = line.strip_prefix("Rss:") {
                    return rss.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 4;
                }
            }
            panic!("the mapping is not listed");
        };
        // Much larger than what a neighbouring mapping could add to the same line.
        let mut buffer = Buffer::new(1 << 30).unwrap();
        assert!(resident_pages(&buffer) < 4096, "made, not touched");
        buffer.payload_mut()[0] = 1;
        assert!(resident_pages(&buffer) < 4096, "one page touched");
    }
}
