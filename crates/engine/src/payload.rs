//! Reuses the memory of payloads: fresh pages cost more than the copy into them.

use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xdfs_io::buf::Buffer;

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
    /// A pool that keeps the memory of so many payloads that nobody uses.
    pub fn new(most: usize) -> Self {
        Self { spare: Arc::default(), most }
    }

    /// Empty memory for a payload of so many bytes.
    pub fn memory(&self, bytes: usize) -> Vec<u8> {
        let spare = if bytes < POOLED_BYTES_MIN { None } else { self.lock().memory.pop() };
        spare.unwrap_or_default()
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

    /// A payload of the first bytes of a buffer, and a buffer to use in its place. They are not copied if they take at
    /// least a quarter of it, so that what is kept takes at most four times its length.
    pub fn keep(&self, buffer: Buffer, length: usize) -> (Bytes, Buffer) {
        let capacity = buffer.capacity();
        let other = if 4 * length < capacity { None } else { self.buffer(capacity) };
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
        if spare.memory.len() < self.pool.most {
            spare.memory.push(bytes);
        }
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
        if spare.buffers.len() < self.pool.most {
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
    fn what_fills_a_quarter_of_its_buffer_stays_in_it_and_the_buffer_is_used_again() {
        let pool = PayloadPool::new(MOST);
        let filled = || {
            let mut buffer = Buffer::new(4 * POOLED_BYTES_MIN).unwrap();
            buffer.payload_mut().fill(7);
            buffer
        };
        let buffer = filled();
        let at = buffer.payload().as_ptr();
        let (payload, other) = pool.keep(buffer, POOLED_BYTES_MIN);
        assert_eq!((payload.as_ptr(), payload.len(), payload[0]), (at, POOLED_BYTES_MIN, 7));
        assert_eq!(other.capacity(), 4 * POOLED_BYTES_MIN);
        drop(payload);
        let (copied, other) = pool.keep(other, POOLED_BYTES_MIN - 1);
        assert_ne!(copied.as_ptr(), other.payload().as_ptr(), "less than a quarter of it is copied");
        let (_kept, again) = pool.keep(other, 4 * POOLED_BYTES_MIN);
        assert_eq!(again.payload().as_ptr(), at);
        let (_kept, other) = pool.keep(Buffer::new(4096).unwrap(), 4096);
        assert_eq!(other.capacity(), 4096, "of the same size, and never another one");
        let many: Vec<_> = (0..2 * MOST).map(|_| pool.keep(filled(), 4 * POOLED_BYTES_MIN).0).collect();
        drop(many);
        assert_eq!(pool.lock().buffers.len(), MOST);
        pool.clear();
        assert_eq!(pool.lock().buffers.len(), 0);
    }
}
