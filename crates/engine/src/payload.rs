//! Reuses the memory of payloads: fresh pages cost more than the copy into them.

use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// For shorter payloads a new allocation is faster.
const POOLED_BYTES_MIN: usize = 16 << 10;

/// A pool of memory for payloads. Clones share it.
#[derive(Clone)]
pub struct PayloadPool {
    spare: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Most payloads whose memory is kept for reuse.
    most: usize,
}

/// A payload, whose memory is returned when the last slice of it is dropped.
struct PooledPayload {
    bytes: Vec<u8>,
    pool: PayloadPool,
}

impl PayloadPool {
    /// A pool that keeps the memory of so many payloads that nobody uses.
    pub fn new(most: usize) -> Self {
        Self { spare: Arc::default(), most }
    }

    /// Empty memory for a payload of so many bytes.
    pub fn memory(&self, bytes: usize) -> Vec<u8> {
        let spare = if bytes < POOLED_BYTES_MIN { None } else { self.lock().pop() };
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

    /// Gives memory back that nobody uses.
    pub fn clear(&self) {
        let spare = std::mem::take(&mut *self.lock());
        drop(spare);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
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
        if spare.len() < self.pool.most {
            spare.push(bytes);
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
        assert_eq!(pool.lock().len(), MOST);
        assert_eq!(pool.copy(b"short"), &b"short"[..]);
        assert_eq!(pool.lock().len(), MOST, "short ones leave it alone");
        pool.clear();
        assert_eq!(pool.lock().len(), 0);
    }
}
