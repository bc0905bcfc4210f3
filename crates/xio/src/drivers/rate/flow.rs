//! A connection with a rate as an element of a stack.

use std::io::{self, IoSlice, IoSliceMut};
use std::time::{Duration, Instant};
use xdfs_io::stack::{Flow, Interest, ReadInfo, WriteInfo};

/// The share of a second whose bytes may go at once.
const BURST_PER_SECOND: u64 = 10;

/// A connection whose bytes take their time.
pub(super) struct RateFlow {
    below: Box<dyn Flow>,
    receiving: Bucket,
    sending: Bucket,
}

impl RateFlow {
    pub(super) fn new(below: Box<dyn Flow>, rate: u64) -> Self {
        Self { below, receiving: Bucket::new(rate), sending: Bucket::new(rate) }
    }
}

impl Flow for RateFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let allowed = self.receiving.allowed(Instant::now())?;
        // The first slice with room, up to what is allowed: a datagram's rest would be lost, so what
        // has messages belongs above this layer's use.
        let Some(first) = into.iter_mut().find(|slice| !slice.is_empty()) else {
            return self.below.receive(into, info);
        };
        let length = first.len().min(allowed);
        let bytes = self.below.receive(&mut [IoSliceMut::new(&mut first[..length])], info)?;
        self.receiving.take(bytes);
        Ok(bytes)
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        let allowed = self.sending.allowed(Instant::now())?;
        let Some(first) = from.iter().find(|slice| !slice.is_empty()) else { return self.below.send(from, info) };
        let length = first.len().min(allowed);
        let is_part = length < from.iter().map(|slice| slice.len()).sum();
        // The message ends with its last part.
        let part = WriteInfo { end_of_message: info.end_of_message && !is_part, ..*info };
        let bytes = self.below.send(&[IoSlice::new(&first[..length])], &part)?;
        self.sending.take(bytes);
        Ok(bytes)
    }

    fn below(&self) -> Option<&dyn Flow> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        Some(&mut *self.below)
    }

    fn holds(&self) -> bool {
        // What is below may be taken when the bucket has something again, and not before.
        self.receiving.refills.is_none() && self.below.holds()
    }

    fn wants(&self, asked: Interest) -> Interest {
        let empty = Interest { read: self.receiving.refills.is_some(), write: self.sending.refills.is_some() };
        let left = asked.without(empty);
        if left == Interest::NONE { left } else { self.below.wants(left) }
    }

    fn deadline(&self) -> Option<Instant> {
        [self.receiving.refills, self.sending.refills, self.below.deadline()].into_iter().flatten().min()
    }

    fn on_deadline(&mut self) {
        let now = Instant::now();
        for bucket in [&mut self.receiving, &mut self.sending] {
            bucket.refills = bucket.refills.filter(|at| *at > now);
        }
        if self.below.deadline().is_some_and(|deadline| deadline <= now) {
            self.below.on_deadline();
        }
    }
}

/// Bytes that may go.
struct Bucket {
    rate: u64,
    /// When it would have been empty: the bytes in it are those of the time since.
    empty_at: Instant,
    /// Set while it is waited for.
    refills: Option<Instant>,
}

impl Bucket {
    fn new(rate: u64) -> Self {
        Self { rate, empty_at: Instant::now(), refills: None }
    }

    /// Bytes that may go now; `WouldBlock` until a worthwhile number of them may.
    fn allowed(&mut self, now: Instant) -> io::Result<usize> {
        let burst = Duration::from_secs(1) / BURST_PER_SECOND as u32;
        if now.saturating_duration_since(self.empty_at) > burst {
            self.empty_at = now.checked_sub(burst).unwrap_or(now);
        }
        let saved = now.saturating_duration_since(self.empty_at);
        let bytes = u128::from(self.rate) * saved.as_nanos() / 1_000_000_000;
        // A hundredth of a second's worth, but at least a byte: many small pieces cost more than they
        // even out.
        let worthwhile = u128::from((self.rate / 100).max(1));
        if bytes < worthwhile {
            let missing = (worthwhile - bytes) * 1_000_000_000;
            let wait = missing.div_ceil(u128::from(self.rate));
            self.refills = now.checked_add(Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)));
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.refills = None;
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    fn take(&mut self, bytes: usize) {
        let nanoseconds = (bytes as u128 * 1_000_000_000).div_ceil(u128::from(self.rate));
        self.empty_at += Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
    }
}
