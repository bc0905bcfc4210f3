//! Reuses the memory of payloads: fresh pages cost more than the copy into them.

use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xdfs_io::buf::Buffer;
use xdfs_proto::limits;

/// For shorter payloads a new allocation is faster.
const POOLED_BYTES_MIN: usize = 16 << 10;

/// A pool of memory for payloads. Clones share it.
#[derive(Clone)]
pub struct PayloadPool {
    spare: Arc<Mutex<Spare>>,
    /// Most payloads whose memory is kept for reuse, of each kind.
    most: usize,
}

/// Memory that nobody uses.
#[derive(Default)]
struct Spare {
    memory: Vec<Vec<u8>>,
    buffers: Vec<Buffer>,
}

/// A payload, whose memory is returned when the last slice of it is dropped.
struct PooledPayload {
    bytes: Vec<u8>,
    pool: PayloadPool,
}

/// A payload in the buffer in which it arrived, which is returned likewise.
struct BufferedPayload {
    /// None once it is being dropped.
    buffer: Option<Buffer>,
    length: usize,
    pool: PayloadPool,
}

impl PayloadPool {
    /// A pool that keeps the memory of so many payloads that nobody uses: of buffers fewer, where they are larger than a
    /// batch.
    pub fn new(most: usize) -> Self {
        Self { spare: Arc::default(), most }
    }

    /// Empty memory for a payload of at most so many bytes, of whatever capacity.
    pub fn any_memory(&self, bytes_max: usize) -> Vec<u8> {
        let spare = if bytes_max < POOLED_BYTES_MIN { None } else { self.lock().memory.pop() };
        spare.unwrap_or_default()
    }

    /// Empty memory for a payload of about so many bytes, and not for much more: whoever holds it counts its length.
    pub fn memory(&self, bytes: usize) -> Vec<u8> {
        if bytes < POOLED_BYTES_MIN {
            return Vec::new();
        }
        let mut spare = self.lock();
        match spare.memory.iter().rposition(|memory| (bytes..=bytes + bytes / 8).contains(&memory.capacity())) {
            Some(at) => spare.memory.remove(at),
            None => Vec::with_capacity(bytes + bytes / 16),
        }
    }

    /// A payload of these bytes; their memory is reused afterwards.
    pub fn payload(&self, bytes: Vec<u8>) -> Bytes {
        if bytes.capacity() < POOLED_BYTES_MIN {
            return bytes.into();
        }
        Bytes::from_owner(PooledPayload { bytes, pool: self.clone() })
    }

    /// A copy of these bytes.
    pub fn copy(&self, bytes: &[u8]) -> Bytes {
        let mut memory = self.memory(bytes.len());
        memory.extend_from_slice(bytes);
        self.payload(memory)
    }

    /// A payload of the first bytes of a buffer, and a buffer to use in its place. They are copied if the buffer is
    /// larger than `capacity_max`, which is as much as may be held for them.
    pub fn keep(&self, buffer: Buffer, length: usize, capacity_max: usize) -> (Bytes, Buffer) {
        let capacity = buffer.capacity();
        let other = if capacity > capacity_max { None } else { self.buffer(capacity) };
        match other {
            Some(other) => {
                let payload = BufferedPayload { buffer: Some(buffer), length, pool: self.clone() };
                (Bytes::from_owner(payload), other)
            }
            None => (self.copy(&buffer.payload()[..length]), buffer),
        }
    }

    /// A buffer of this capacity, if the kernel has memory for it.
    fn buffer(&self, capacity: usize) -> Option<Buffer> {
        let mut spare = self.lock();
        match spare.buffers.iter().rposition(|buffer| buffer.capacity() == capacity) {
            Some(at) => Some(spare.buffers.swap_remove(at)),
            None => Buffer::new(capacity).ok(),
        }
    }

    /// Gives memory back that nobody uses.
    pub fn clear(&self) {
        let spare = std::mem::take(&mut *self.lock());
        drop(spare);
    }

    fn lock(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsRef<[u8]> for PooledPayload {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PooledPayload {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let mut spare = self.pool.lock();
        spare.memory.push(bytes);
        // What was of use last is of use next: the oldest goes.
        let surplus = (spare.memory.len() > self.pool.most).then(|| spare.memory.remove(0));
        drop(spare);
        drop(surplus);
    }
}

impl AsRef<[u8]> for BufferedPayload {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer.payload()[..self.length])
    }
}

impl Drop for BufferedPayload {
    fn drop(&mut self) {
        let mut spare = self.pool.lock();
        let bytes = (spare.buffers.len() + 1) * self.buffer.as_ref().map_or(0, Buffer::capacity);
        if bytes <= self.pool.most * limits::CALL_BYTES_MAX {
            spare.buffers.extend(self.buffer.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 3;

    #[test]
    fn what_nobody_reads_any_more_is_used_again_within_a_bound() {
        let pool = PayloadPool::new(MOST);
        let bytes = vec![1; POOLED_BYTES_MIN];
        let first = pool.copy(&bytes);
        let (at, slice) = (first.as_ptr(), first.slice(5..9));
        drop(first);
        assert_ne!(pool.copy(&bytes).as_ptr(), at, "a slice of it is still read");
        drop(slice);
        assert_eq!(pool.copy(&bytes).as_ptr(), at);
        assert_eq!(pool.copy(&bytes[1..]).len(), bytes.len() - 1);
        let many: Vec<_> = (0..2 * MOST).map(|_| pool.copy(&bytes)).collect();
        assert!(many.iter().all(|kept| *kept == bytes));
        drop(many);
        assert_eq!(pool.lock().memory.len(), MOST);
        assert_eq!(pool.copy(b"short"), &b"short"[..]);
        assert_eq!(pool.lock().memory.len(), MOST, "short ones leave it alone");
        pool.clear();
        assert_eq!(pool.lock().memory.len(), 0);
    }

    #[test]
    fn a_payload_takes_no_memory_that_is_much_longer() {
        let pool = PayloadPool::new(MOST);
        let long = pool.copy(&vec![1; 8 * POOLED_BYTES_MIN]);
        let at = long.as_ptr();
        drop(long);
        let short = vec![1; POOLED_BYTES_MIN];
        assert_ne!(pool.copy(&short).as_ptr(), at);
        assert!(pool.memory(POOLED_BYTES_MIN).capacity() <= 9 * POOLED_BYTES_MIN / 8);
        assert_eq!(pool.copy(&vec![1; 8 * POOLED_BYTES_MIN - 100]).as_ptr(), at, "about as long");
        let any = pool.any_memory(POOLED_BYTES_MIN);
        assert_eq!(any.as_ptr(), at);
        // Those of another length do not stay for ever.
        (0..MOST).for_each(|_| drop(pool.payload(Vec::with_capacity(8 * POOLED_BYTES_MIN))));
        let kept = pool.copy(&short);
        let at = kept.as_ptr();
        drop(kept);
        assert_eq!(pool.copy(&short).as_ptr(), at);
    }

    #[test]
    fn what_stays_in_its_buffer_gives_it_back_within_a_bound() {
        let pool = PayloadPool::new(MOST);
        let filled = |bytes| {
            let mut buffer = Buffer::new(bytes).unwrap();
            buffer.payload_mut().fill(7);
            buffer
        };
        let buffer = filled(8192);
        let at = buffer.payload().as_ptr();
        let (payload, other) = pool.keep(buffer, 5000, 8192);
        assert_eq!((payload.as_ptr(), payload.len(), payload[0]), (at, 5000, 7));
        assert_eq!(other.capacity(), 8192);
        drop(payload);
        let (copied, other) = pool.keep(other, 5000, 8191);
        assert_ne!(copied.as_ptr(), other.payload().as_ptr(), "the buffer is too large to be kept");
        let (_kept, again) = pool.keep(other, 5000, 8192);
        assert_eq!(again.payload().as_ptr(), at);
        let (_kept, other) = pool.keep(Buffer::new(4096).unwrap(), 4096, 4096);
        assert_eq!(other.capacity(), 4096, "of the same size, and never another one");
        pool.clear();
        for (bytes, spare) in [(limits::CALL_BYTES_MAX, MOST), (2 * limits::CALL_BYTES_MAX, MOST / 2)] {
            let many: Vec<_> = (0..2 * MOST).map(|_| pool.keep(filled(bytes), bytes, bytes).0).collect();
            drop(many);
            assert_eq!(pool.lock().buffers.len(), spare);
            pool.clear();
            assert_eq!(pool.lock().buffers.len(), 0);
        }
    }
}
