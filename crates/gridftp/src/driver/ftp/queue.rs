//! The bytes of a download between the connections and the reader: in order, and those that arrived
//! before others that belong before them. No input or output.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSliceMut;

/// The writer of the queue waits while it holds so many bytes in order.
const QUEUE_BYTES: usize = 1 << 20;
/// A connection whose bytes belong further behind the queue's end waits. What is kept out of order is at
/// most that, and what each connection had under way.
const AHEAD_BYTES: u64 = 8 << 20;
/// Buffers that are kept for the next bytes.
const SPARE_MAX: usize = 8;

/// The queue.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Queue {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that were read.
    taken: usize,
    /// Bytes in `pieces` that were not.
    bytes: usize,
    /// Offset of what comes behind them.
    next: u64,
    early: BTreeMap<u64, Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Queue {
    /// Empty, for bytes from this offset on.
    pub(super) fn starting_at(offset: u64) -> Self {
        Self { next: offset, ..Self::default() }
    }

    /// Offset of the next byte that is read.
    pub(super) fn position(&self) -> u64 {
        self.next - self.bytes as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= QUEUE_BYTES
    }

    /// Whether bytes of that offset may come.
    pub(super) fn has_room_at(&self, offset: u64) -> bool {
        offset < self.next.saturating_add(AHEAD_BYTES)
    }

    /// A buffer for bytes.
    pub(super) fn spare(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Adds bytes, each of which comes once.
    pub(super) fn add(&mut self, offset: u64, piece: Vec<u8>) {
        if piece.is_empty() {
            return;
        }
        if offset != self.next {
            self.early.insert(offset, piece);
            return;
        }
        self.append(piece);
        while let Some(piece) = self.early.remove(&self.next) {
            self.append(piece);
        }
    }

    fn append(&mut self, piece: Vec<u8>) {
        self.next += piece.len() as u64;
        self.bytes += piece.len();
        self.pieces.push_back(piece);
    }

    /// Takes bytes out, in order.
    pub(super) fn take(&mut self, into: &mut [IoSliceMut<'_>]) -> usize {
        let mut moved = 0;
        for slice in into {
            let mut rest = &mut slice[..];
            while let (false, Some(piece)) = (rest.is_empty(), self.pieces.front_mut()) {
                let count = rest.len().min(piece.len() - self.taken);
                rest[..count].copy_from_slice(&piece[self.taken..][..count]);
                rest = &mut rest[count..];
                self.taken += count;
                moved += count;
                if self.taken == piece.len() {
                    let mut piece = self.pieces.pop_front().unwrap_or_default();
                    self.taken = 0;
                    piece.clear();
                    if self.spare.len() < SPARE_MAX {
                        self.spare.push(piece);
                    }
                }
            }
        }
        self.bytes -= moved;
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(queue: &mut Queue, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most];
        let (first, second) = bytes.split_at_mut(most / 2);
        let count = queue.take(&mut [IoSliceMut::new(first), IoSliceMut::new(second)]);
        bytes.truncate(count);
        bytes
    }

    #[test]
    fn bytes_come_out_in_the_order_of_their_offsets() {
        let mut queue = Queue::starting_at(10);
        queue.add(16, b"ghi".to_vec());
        queue.add(12, b"cd".to_vec());
        assert!(queue.is_empty());
        queue.add(10, b"ab".to_vec());
        assert_eq!(taken(&mut queue, 3), b"abc");
        assert_eq!(queue.position(), 13);
        queue.add(14, b"ef".to_vec());
        assert_eq!(taken(&mut queue, 100), b"defghi");
        assert_eq!((queue.position(), queue.is_empty()), (19, true));
    }

    #[test]
    fn it_is_full_and_has_a_window() {
        let mut queue = Queue::starting_at(5);
        assert!(queue.has_room_at(5) && queue.has_room_at(4 + AHEAD_BYTES) && !queue.has_room_at(5 + AHEAD_BYTES));
        queue.add(5, vec![0; QUEUE_BYTES]);
        assert!(queue.is_full() && queue.has_room_at(5 + AHEAD_BYTES));
        taken(&mut queue, 1);
        assert!(!queue.is_full());
    }
}
