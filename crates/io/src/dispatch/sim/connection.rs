//! One simulated connection: bytes in flight, in both directions.

use crate::dispatch::Instant;
use std::collections::VecDeque;
use std::io::IoSlice;

pub(super) struct Connection {
    /// When the connecting end learns the result.
    pub(super) decided_at: Instant,
    pub(super) refused: bool,
    /// Indexed by the sending side.
    pub(super) directions: [Direction; 2],
    /// Ends that still have a link.
    pub(super) open: [bool; 2],
}

/// Bytes in flight from one end to the other.
#[derive(Default)]
pub(super) struct Direction {
    bytes: VecDeque<u8>,
    /// When the bytes arrive: times that never decrease, and counts that add up to `bytes`.
    arrivals: VecDeque<(Instant, usize)>,
    /// The end of the bytes, once the sender is finished.
    end_at: Option<Instant>,
    /// Broken: what arrived can be received, then comes an error.
    pub(super) broken: bool,
    /// Nothing arrives while it is held.
    pub(super) held: bool,
}

impl Connection {
    /// A connection that is established at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self { decided_at: now, refused: false, directions: Default::default(), open: [true, true] }
    }
}

impl Direction {
    pub(super) fn arrived(&self, now: Instant) -> usize {
        if self.held && !self.broken {
            return 0;
        }
        self.arrivals.iter().take_while(|(due, _)| *due <= now).map(|(_, count)| count).sum()
    }

    pub(super) fn has_ended(&self, now: Instant) -> bool {
        !self.held && self.bytes.is_empty() && self.end_at.is_some_and(|due| due <= now)
    }

    /// The next time after `now` at which something arrives.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        if self.held {
            return None;
        }
        self.arrivals.iter().map(|(due, _)| *due).chain(self.end_at).find(|due| *due > now)
    }

    pub(super) fn take(&mut self, into: &mut [u8]) {
        let length = into.len();
        let (first, second) = self.bytes.as_slices();
        let part = first.len().min(length);
        into[..part].copy_from_slice(&first[..part]);
        into[part..].copy_from_slice(&second[..length - part]);
        self.bytes.drain(..length);
        let mut left = length;
        while left > 0 {
            let (_, count) = self.arrivals.front_mut().expect("arrivals add up to the bytes");
            let part = left.min(*count);
            *count -= part;
            left -= part;
            if *count == 0 {
                self.arrivals.pop_front();
            }
        }
    }

    /// Takes the first `count` bytes of `from`; they arrive at `due`, or after the bytes in flight.
    pub(super) fn put(&mut self, from: &[IoSlice<'_>], count: usize, due: Instant) {
        let mut left = count;
        for slice in from {
            let part = left.min(slice.len());
            self.bytes.extend(&slice[..part]);
            left -= part;
        }
        self.arrivals.push_back((self.not_before_others(due), count));
    }

    /// No more bytes follow.
    pub(super) fn finish(&mut self, due: Instant) {
        let due = self.not_before_others(due);
        self.end_at.get_or_insert(due);
    }

    pub(super) fn is_finished(&self) -> bool {
        self.end_at.is_some()
    }

    /// Bytes in flight or waiting to be received.
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    fn not_before_others(&self, due: Instant) -> Instant {
        self.arrivals.back().map_or(due, |(last, _)| due.max(*last))
    }

    /// Drops what has not arrived.
    pub(super) fn break_off(&mut self, now: Instant) {
        let arrived = self.arrived(now);
        self.bytes.truncate(arrived);
        let mut kept = 0;
        self.arrivals.retain(|(_, count)| {
            kept += count;
            kept <= arrived
        });
        self.broken = true;
    }
}
