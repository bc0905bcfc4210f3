//! Reuses the memory of replies: fresh pages cost more than the copy into them.

use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Replies that are kept for reuse: as many as are read and written concurrently.
const SPARE_MAX: usize = 8;

/// For shorter replies a new allocation is faster.
const SPARE_BYTES_MIN: usize = 16 << 10;

/// A pool of reply buffers, since fresh pages cost more than the copy into them. Clones share it.
#[derive(Clone, Default)]
pub(super) struct ReplyPool(Arc<Mutex<Vec<Vec<u8>>>>);

/// A reply, whose memory is returned when the last slice of it is dropped.
struct PooledReply {
    bytes: Vec<u8>,
    memory: ReplyPool,
}

impl ReplyPool {
    /// A copy of `reply`.
    pub(super) fn keep(&self, reply: &[u8]) -> Bytes {
        if reply.len() < SPARE_BYTES_MIN {
            return Bytes::copy_from_slice(reply);
        }
        let mut bytes = self.lock().pop().unwrap_or_default();
        bytes.extend_from_slice(reply);
        Bytes::from_owner(PooledReply { bytes, memory: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsRef<[u8]> for PooledReply {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PooledReply {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let mut spare = self.memory.lock();
        if spare.len() < SPARE_MAX {
            spare.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_reads_any_more_is_used_again_within_a_bound() {
        let memory = ReplyPool::default();
        let reply = vec![1; SPARE_BYTES_MIN];
        let first = memory.keep(&reply);
        let (at, slice) = (first.as_ptr(), first.slice(5..9));
        drop(first);
        assert_ne!(memory.keep(&reply).as_ptr(), at, "a slice of it is still read");
        drop(slice);
        assert_eq!(memory.keep(&reply).as_ptr(), at);
        let many: Vec<_> = (0..2 * SPARE_MAX).map(|_| memory.keep(&reply)).collect();
        assert!(many.iter().all(|kept| *kept == reply));
        drop(many);
        assert_eq!(memory.lock().len(), SPARE_MAX);
        assert_eq!(memory.keep(b"short"), &b"short"[..]);
    }
}
