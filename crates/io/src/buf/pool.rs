//! A bounded set of equal buffers for one thread. It never exceeds its limit and never waits.

use super::Buffer;

/// Up to `count_max` buffers of one size. Buffers are created when first needed and kept; the most
/// recently returned one is reused first, since its pages are most likely still in the cache.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Buffer>,
    /// Buffers in use.
    out: usize,
    count_max: usize,
    payload_bytes: usize,
}

impl Pool {
    /// A pool that owns at most `count_max` buffers of `payload_bytes` each. Nothing is mapped yet.
    pub fn new(count_max: usize, payload_bytes: usize) -> Self {
        Self { free: Vec::with_capacity(count_max), out: 0, count_max, payload_bytes }
    }

    /// A buffer; none when all are in use, or when the kernel has no memory for a new one. The caller waits in both
    /// cases: with none in use for as long as it likes, since nothing is returned then.
    pub fn take(&mut self) -> Option<Buffer> {
        let buffer = match self.free.pop() {
            Some(buffer) => buffer,
            None if self.out < self.count_max => Buffer::new(self.payload_bytes).ok()?,
            None => return None,
        };
        self.out += 1;
        Some(buffer)
    }

    /// Returns a buffer.
    ///
    /// # Panics
    /// When no buffer is in use or the buffer has another size: it belongs to another pool.
    pub fn give(&mut self, buffer: Buffer) {
        assert!(self.out > 0, "a buffer came back to a pool that handed out none");
        assert!(buffer.capacity() == rounded(self.payload_bytes), "a buffer came back to another pool");
        self.out -= 1;
        self.free.push(buffer);
    }

    /// Number of buffers that can be taken now.
    pub fn available(&self) -> usize {
        self.count_max - self.out
    }

    /// Number of buffers in use.
    pub fn outstanding(&self) -> usize {
        self.out
    }

    /// Requested payload size of each buffer.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Returns the memory of all unused buffers to the kernel.
    pub fn trim(&mut self) {
        self.free.clear();
    }
}

/// The capacity of a buffer that [`Buffer::new`] creates for a size.
fn rounded(payload_bytes: usize) -> usize {
    payload_bytes.max(1).next_multiple_of(super::HEADROOM_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_hands_out_no_more_than_its_bound_and_reuses_the_last_one_first() {
        let mut pool = Pool::new(2, 100);
        let first = pool.take().unwrap();
        let second = pool.take().unwrap();
        assert!(pool.take().is_none());
        assert_eq!((pool.available(), pool.outstanding()), (0, 2));
        let last = second.payload().as_ptr();
        pool.give(first);
        pool.give(second);
        assert_eq!(pool.take().unwrap().payload().as_ptr(), last);
    }

    #[test]
    fn a_buffer_goes_to_another_thread_and_comes_back() {
        let mut pool = Pool::new(1, 4096);
        let mut buffer = pool.take().unwrap();
        let buffer = std::thread::spawn(move || {
            buffer.payload_mut()[4095] = 9;
            buffer
        })
        .join()
        .unwrap();
        assert_eq!(buffer.payload()[4095], 9);
        pool.give(buffer);
        assert_eq!(pool.available(), 1);
    }

    #[test]
    #[should_panic(expected = "another pool")]
    fn a_buffer_of_another_pool_is_refused() {
        let mut small = Pool::new(1, 4096);
        let _out = small.take();
        small.give(Buffer::new(8192).unwrap());
    }
}
