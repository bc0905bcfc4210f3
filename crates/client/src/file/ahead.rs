//! Bytes of a file that are requested before somebody reads them.

use super::pending::PendingRead;
use super::remote::Remote;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::file::ReadRange;

/// By how much more is requested each time that all of it was read: over a long way each step takes a round trip.
const GROWTH: usize = 4;

/// A read this far from where the last one ended is one in order if it is at least that long: a
/// kernel that reads ahead has several on their way, which overtake each other.
const OVERTAKEN_MAX: u64 = 1 << 20;
const LONG: usize = 64 << 10;

/// The open file that is read.
pub(super) trait ReadFile {
    /// Where it is.
    fn remote(&self) -> &Arc<Remote>;

    /// How often it was changed.
    fn changed(&self) -> u64;

    /// How much one reply takes.
    fn chunk(&self) -> usize;

    /// How many calls for so much may be on their way.
    fn long_calls_max(&self) -> usize;

    /// As far as it is known to reach.
    fn known_end(&self) -> u64;

    /// Requests a range that fits into one reply.
    fn request(&self, range: ReadRange) -> PendingRead;

    /// Waits for a range: fewer bytes than requested at the end of the file.
    fn received(&self, read: PendingRead) -> Result<Bytes, Error>;
}

/// Memory of a server's files for what was requested ahead.
struct Room {
    remote: Arc<Remote>,
    bytes: usize,
}

impl Room {
    /// None if all files of the server hold as much as they may: then nothing is requested ahead.
    fn take(remote: &Arc<Remote>, bytes: usize) -> Option<Self> {
        let before = remote.ahead.fetch_add(bytes, Ordering::Relaxed);
        let room = Self { remote: Arc::clone(remote), bytes };
        (before + bytes <= remote.memory()).then_some(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.remote.ahead.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What became of a range that was requested ahead.
enum Fetch {
    Requested(PendingRead),
    /// Waited for by whoever has the lock: somebody else finds it so only if that thread panicked.
    Awaited,
    Ended(Result<Bytes, Error>),
}

/// A range that was requested ahead.
pub(super) struct Chunk {
    pub(super) offset: u64,
    /// How much was requested.
    pub(super) length: usize,
    /// Where it ends: earlier than requested at the end of the file.
    end: AtomicU64,
    /// Whoever has it waits for the reply, and the others for him.
    fetch: Mutex<Fetch>,
    _room: Room,
}

impl Chunk {
    fn new(offset: u64, length: usize, fetch: Fetch, room: Room) -> Self {
        let end = AtomicU64::new(offset + length as u64);
        Self { offset, length, end, fetch: Mutex::new(fetch), _room: room }
    }

    fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// Whether the file ends in it.
    fn is_short(&self) -> bool {
        self.end() < self.offset + self.length as u64
    }

    /// Its bytes, waited for if they have not arrived: fewer than requested at the end of the file.
    pub(super) fn bytes(&self, file: &impl ReadFile) -> Result<Bytes, Error> {
        let mut fetch = lock(&self.fetch);
        let outcome = match std::mem::replace(&mut *fetch, Fetch::Awaited) {
            Fetch::Requested(read) => file.received(read),
            Fetch::Awaited => Err(Error::new(ErrorKind::Internal, "a thread panicked while it waited for these bytes")),
            Fetch::Ended(outcome) => outcome,
        };
        if let Ok(bytes) = &outcome {
            self.end.store(self.offset + bytes.len().min(self.length) as u64, Ordering::Relaxed);
        }
        *fetch = Fetch::Ended(outcome.clone());
        outcome
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a file is read, and what was requested ahead of that.
#[derive(Default)]
pub(super) struct Ahead {
    /// Each begins where the one before it ends.
    chunks: VecDeque<Arc<Chunk>>,
    /// How many are requested: more as long as the file is read in order.
    window: usize,
    /// Where a read ended that made the window larger.
    grown: u64,
    /// Where the last read ended.
    end: u64,
    /// When all of that was requested.
    when: u64,
}

impl Ahead {
    /// The first bytes of a file, read with its open; `asked` were requested when the file had changed so often.
    pub(super) fn of_first(remote: &Arc<Remote>, bytes: Bytes, asked: u32, when: u64) -> Self {
        let length = asked as usize;
        let room = Room::take(remote, length).filter(|_| bytes.len() <= length);
        let chunk = room.map(|room| Chunk::new(0, length, Fetch::Ended(Ok(bytes)), room));
        Self { chunks: chunk.map(Arc::new).into_iter().collect(), when, ..Self::default() }
    }

    /// What was requested after `own` changes counts as requested after so many `others`, which are counted from now on.
    pub(super) fn count_from(&mut self, own: u64, others: u64) {
        if self.when != own {
            self.forget();
        }
        self.when = others;
    }

    /// The file ends in this chunk, and may grow: what is at its end or behind it is asked for again. What is before it may
    /// be read by others who are on their way.
    pub(super) fn end_with(&mut self, last: &Arc<Chunk>) {
        match self.chunks.iter().position(|chunk| Arc::ptr_eq(chunk, last)) {
            Some(at) => self.chunks.truncate(at + 1),
            None => self.forget(),
        }
    }

    pub(super) fn forget(&mut self) {
        self.chunks.clear();
        self.window = 0;
    }

    /// Whether a read goes on where the last one ended, or in what was requested. Whoever is `steady`
    /// reads in order from wherever he begins.
    fn is_in_order(&self, offset: u64, length: usize, steady: bool) -> bool {
        let held = match (self.chunks.front(), self.chunks.back()) {
            (Some(first), Some(last)) => first.offset <= offset && offset <= last.end(),
            _ => false,
        };
        let near = length >= LONG && offset.abs_diff(self.end) <= OVERTAKEN_MAX;
        held || (self.chunks.is_empty() && (steady || (self.end > 0 && (offset == self.end || near))))
    }

    /// The chunks that a read needs, requested if they were not; none if it is one of its own.
    pub(super) fn advance(
        &mut self,
        file: &impl ReadFile,
        offset: u64,
        length: usize,
        steady: bool,
    ) -> Vec<Arc<Chunk>> {
        if self.when != file.changed() {
            self.forget();
            self.when = file.changed();
        }
        let end = offset.saturating_add(length as u64);
        if !self.is_in_order(offset, length, steady) {
            self.forget();
            self.end = end;
            return Vec::new();
        }
        self.end = self.end.max(end);
        while self.chunks.front().is_some_and(|chunk| chunk.end().saturating_add(OVERTAKEN_MAX) < offset) {
            self.chunks.pop_front();
        }
        let chunk = file.chunk();
        if self.window == 0 || self.grown.saturating_add(chunk as u64) <= end {
            (self.window, self.grown) = ((self.window * GROWTH).clamp(1, file.long_calls_max()), end);
        }
        // Nothing is known to be behind the end of the file.
        let ahead = end.saturating_add(((self.window - 1) * chunk) as u64).min(file.known_end());
        // Where the file ended a moment ago there may be more by now, and only there.
        let end_at = self.chunks.back().filter(|chunk| chunk.is_short()).map(|chunk| chunk.end());
        let is_ended = end_at.is_some_and(|end| offset < end);
        if end_at.is_some() && !is_ended {
            self.chunks.clear();
        }
        let mut last = self.chunks.back().map_or(offset, |chunk| chunk.end());
        while !is_ended && last < ahead.max(end) {
            let Some(room) = Room::take(file.remote(), chunk) else { break };
            // At most 256 KiB: fits.
            let read = file.request(ReadRange { offset: last, length: chunk as u32 });
            self.chunks.push_back(Arc::new(Chunk::new(last, chunk, Fetch::Requested(read), room)));
            last += chunk as u64;
        }
        self.chunks.iter().filter(|chunk| chunk.offset < end && offset < chunk.end()).map(Arc::clone).collect()
    }
}

/// What a chunk has from a place on. None if it begins behind that place, since the chunk before it turned out to end
/// earlier.
pub(super) fn part(bytes: &[u8], chunk: u64, from: u64) -> Option<&[u8]> {
    let skipped = usize::try_from(from.checked_sub(chunk)?).ok()?;
    Some(bytes.get(skipped..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ConnectOptions;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use xdfs_io::transport::Address;

    /// Panics while it waits for bytes.
    struct Panicking(Arc<Remote>);

    impl ReadFile for Panicking {
        fn remote(&self) -> &Arc<Remote> {
            &self.0
        }

        fn changed(&self) -> u64 {
            0
        }

        fn chunk(&self) -> usize {
            10
        }

        fn long_calls_max(&self) -> usize {
            1
        }

        fn known_end(&self) -> u64 {
            100
        }

        fn request(&self, range: ReadRange) -> PendingRead {
            PendingRead { range, sent: None }
        }

        fn received(&self, _read: PendingRead) -> Result<Bytes, Error> {
            panic!("a thread panics")
        }
    }

    #[test]
    fn a_thread_that_panicked_is_not_the_servers_fault() {
        let file = Panicking(Remote::new(ConnectOptions::to(Address::Tcp(([127, 0, 0, 1], 1).into()))));
        let chunks = Ahead::default().advance(&file, 0, 10, true);
        assert!(catch_unwind(AssertUnwindSafe(|| chunks[0].bytes(&file))).is_err());
        for _ in 0..2 {
            assert_eq!(chunks[0].bytes(&file).unwrap_err().kind, ErrorKind::Internal);
        }
        assert_eq!(chunks[0].end(), 10, "as far as it is known");
    }

    #[test]
    fn a_chunk_has_nothing_of_what_is_before_it() {
        assert_eq!(part(b"abc", 10, 11), Some(&b"bc"[..]));
        assert_eq!(part(b"abc", 10, 13), Some(&b""[..]));
        assert_eq!(part(b"abc", 10, 400), Some(&b""[..]), "it ended earlier than it was to");
        assert_eq!(part(b"abc", 10, 9), None, "the one before it ended earlier");
    }
}
