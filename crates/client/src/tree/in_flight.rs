//! Requests in flight: batches of calls, transfers, and small files that are being written locally,
//! within the bounds of a session; and the batch that is being filled.

use super::endpoints::Remote;
use std::collections::BTreeMap;
use std::time::Duration;
use xdfs_proto::base::Error;
use xdfs_proto::limits;
use xdfs_proto::wire::path::{Batch, BatchWriter, Call, REPLY_BYTES, REPLY_CALL_BYTES};

/// Concurrent operations of one copy: other users of the session get their share (P-20).
const OPERATIONS_MAX: usize = 120;
/// Concurrent transfers of one copy: enough to hide the round trips of files that take less than
/// one.
const TRANSFERS_FAR: usize = 96;
/// The same if there is next to no round trip to hide: both ends check every operation of a session
/// at each turn.
const TRANSFERS_NEAR: usize = 16;
/// The fastest answer decides between the two.
const NEAR: Duration = Duration::from_millis(4);
/// Concurrent batches.
pub(super) const BATCHES_MAX: usize = 32;
/// Calls in a batch: files that become durable together.
pub(super) const CALLS_MAX: usize = 64;

/// One request in flight.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Request<J> {
    job: J,
    kind: RequestKind,
    room: usize,
    content: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum RequestKind {
    /// A batch that was sent at this time.
    Calls(Duration),
    /// A transfer that began at this time.
    Transfer(Duration),
    /// Files that are being written locally.
    Place,
}

/// Requests in flight, within the bounds of a session. `J` is what each answer is needed for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct InFlight<J> {
    all: BTreeMap<u64, Request<J>>,
    next: u64,
    rooms: usize,
    content: usize,
    transfers: usize,
    places: usize,
    /// How long the fastest answer took.
    quickest: Duration,
    /// Concurrent requests, limited by the files that both sides may open.
    most: usize,
    /// Requests that ended since `most` was changed.
    ended: usize,
}

impl<J> Default for InFlight<J> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            next: 0,
            rooms: 0,
            content: 0,
            transfers: 0,
            places: 0,
            quickest: Duration::MAX,
            most: OPERATIONS_MAX,
            ended: 0,
        }
    }
}

impl<J> InFlight<J> {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a batch with a reply of this size may be sent.
    pub(super) fn has_room(&self, room: usize) -> bool {
        self.all.len() < self.most
            && self.all.len() - self.transfers < BATCHES_MAX
            // Otherwise the session would block this thread (P-71).
            && self.rooms + room + self.content + limits::CALL_BYTES_MAX <= limits::CALL_ROOM_MAX
    }

    /// Whether a batch is in flight.
    pub(super) fn has_calls(&self) -> bool {
        self.all.len() > self.transfers + self.places
    }

    /// The batches in flight.
    pub(super) fn batches(&self) -> impl Iterator<Item = (u64, &J)> {
        let calls = |request: &Request<J>| matches!(request.kind, RequestKind::Calls(_));
        self.all.iter().filter(move |(_, request)| calls(request)).map(|(number, request)| (*number, &request.job))
    }

    /// Whether files are being written locally.
    pub(super) fn places(&self) -> bool {
        self.places > 0
    }

    /// Whether transfers are in flight.
    pub(super) fn transfers_are_under_way(&self) -> bool {
        self.transfers > 0
    }

    /// Whether a transfer may begin.
    pub(super) fn has_transfer(&self) -> bool {
        let most = if self.quickest < NEAR { TRANSFERS_NEAR } else { TRANSFERS_FAR };
        self.all.len() < self.most && self.transfers < most
    }

    /// Lowers the number of concurrent requests because one was refused with too many open files.
    /// False if nothing else is in flight that could close some.
    pub(super) fn descriptors_are_scarce(&mut self) -> bool {
        (self.most, self.ended) = ((self.all.len() / 2).max(1), 0);
        !self.all.is_empty()
    }

    /// Allows one more request each time that as many as allowed have ended without a refusal.
    fn ended_well(&mut self) {
        self.ended += 1;
        if self.ended >= self.most && self.most < OPERATIONS_MAX {
            (self.most, self.ended) = (self.most + 1, 0);
        }
    }

    /// Sends a batch. If the session is lost it counts as sent, so that its tasks are repeated in
    /// their order: behind those that were sent before, and ahead of those that wait for them.
    pub(super) fn call(
        &mut self,
        remote: &mut dyn Remote,
        now: Duration,
        payload: Vec<u8>,
        room: usize,
        job: J,
    ) -> Result<(), Error> {
        let content = payload.len();
        let sent = remote.call(self.next, payload, room);
        self.enter(Request { job, kind: RequestKind::Calls(now), room, content });
        sent
    }

    /// The number under which the next transfer or local write answers.
    pub(super) fn number(&self) -> u64 {
        self.next
    }

    /// A transfer was begun under [`Self::number`].
    pub(super) fn moves(&mut self, now: Duration, job: J) {
        self.transfers += 1;
        self.enter(Request { job, kind: RequestKind::Transfer(now), room: 0, content: 0 });
    }

    /// Files of a reply of `room` bytes are being written locally, to answer under
    /// [`Self::number`]: the reply keeps its room.
    pub(super) fn place(&mut self, room: usize, job: J) {
        self.places += 1;
        self.enter(Request { job, kind: RequestKind::Place, room, content: 0 });
    }

    fn enter(&mut self, flying: Request<J>) {
        self.rooms += flying.room;
        self.content += flying.content;
        self.all.insert(self.next, flying);
        self.next += 1;
    }

    /// Takes the job that an answer belongs to.
    pub(super) fn take(&mut self, now: Duration, number: u64) -> Option<J> {
        let flying = self.all.remove(&number)?;
        self.ended_well();
        self.rooms -= flying.room;
        self.content -= flying.content;
        match flying.kind {
            RequestKind::Calls(began) => self.quickest = self.quickest.min(now.saturating_sub(began)),
            RequestKind::Transfer(began) => {
                self.transfers -= 1;
                self.quickest = self.quickest.min(now.saturating_sub(began));
            }
            RequestKind::Place => self.places -= 1,
        }
        Some(flying.job)
    }

    /// Takes all unanswered jobs; nothing is in flight afterwards.
    pub(super) fn give_up(&mut self) -> Vec<J> {
        (self.rooms, self.content, self.transfers, self.places) = (0, 0, 0, 0);
        std::mem::take(&mut self.all).into_values().map(|flying| flying.job).collect()
    }
}

/// A batch that is being filled, with an item for each of its calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BatchBuilder<I> {
    calls: BatchWriter,
    items: Vec<I>,
    /// Bytes that the results may take, besides what every result takes.
    room: usize,
    /// The result of the last call takes all remaining room: a server fills a page to the end of
    /// the reply except for [`REPLY_CALL_BYTES`] for each later call, and other results would find
    /// no room.
    closed: bool,
}

/// Upper bound for the bytes of a call's numbers, besides its paths and content, and of a batch's
/// head.
const CALL_OVERHEAD: usize = 128;

impl<I> Default for BatchBuilder<I> {
    fn default() -> Self {
        Self { calls: BatchWriter::default(), items: Vec::new(), room: 0, closed: false }
    }
}

/// A batch that is ready to be sent.
#[derive(Debug)]
pub(super) struct PendingBatch<I> {
    pub(super) payload: Vec<u8>,
    pub(super) codes: Vec<u64>,
    pub(super) items: Vec<I>,
    pub(super) room: usize,
}

impl<I> BatchBuilder<I> {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether calls with this many bytes of paths and content, and this many bytes of results,
    /// still fit.
    pub(super) fn fits(&self, calls: usize, bytes: usize, room: usize, most: usize) -> bool {
        let count = self.items.len() + calls;
        !self.closed
            && count <= CALLS_MAX
            && self.calls.bytes() + bytes + (calls + 1) * CALL_OVERHEAD <= most
            && REPLY_BYTES + count * REPLY_CALL_BYTES + self.room + room <= most
    }

    /// Appends a call, reserving the room of its longest result.
    pub(super) fn push(&mut self, call: &Call<'_>, item: I) {
        self.calls.push(call);
        self.room += call.room();
        self.items.push(item);
    }

    /// Appends a call whose result is bounded only by `room`: nothing else joins the batch.
    pub(super) fn push_last(&mut self, call: &Call<'_>, room: usize, item: I) {
        self.push(call, item);
        self.room += room;
        self.closed = true;
    }

    /// The longest reply that it requests.
    pub(super) fn room(&self) -> usize {
        REPLY_BYTES + self.items.len() * REPLY_CALL_BYTES + self.room
    }

    /// Takes the batch and leaves an empty one in this memory.
    pub(super) fn take(&mut self, base: &[u8], durable: bool, memory: Vec<u8>) -> PendingBatch<I> {
        let room = self.room();
        let next = Self { calls: BatchWriter::within(memory), ..Self::default() };
        let Self { calls, items, .. } = std::mem::replace(self, next);
        // Repeating it in another session does no harm: every call here describes the final state.
        let batch = Batch { durable, room: u32::try_from(room).unwrap_or(u32::MAX), base, ..Batch::default() };
        let (payload, codes) = calls.into_payload(&batch);
        PendingBatch { payload, codes, items, room }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdfs_proto::base::{Safety, Timestamp};
    use xdfs_proto::wire::path::{Answer, Attributes, FileType, ListEntry, Reply, ReplyWriter, Wanted};

    const MOST: usize = limits::CALL_BYTES_MAX;

    /// A server may fill a page except for what is reserved for every later call, and no more.
    #[test]
    fn nothing_joins_a_batch_behind_a_page_and_what_is_before_it_keeps_its_room() {
        let wanted = Wanted::MODE.and(Wanted::SIZE).and(Wanted::MODIFIED);
        let content = vec![7; 40 << 10];
        let mut filling = BatchBuilder::default();
        for number in 0..3 {
            filling.push(&Call::Get { path: b"f", wanted, most: content.len() as u32 }, number);
        }
        assert!(filling.fits(1, 1, 0, MOST));
        filling.push_last(&Call::List { path: b"", wanted, cursor: b"" }, 64 << 10, 3);
        assert!(!filling.fits(1, 1, 0, MOST), "a page is the last of its batch");
        let filled = filling.take(b"base", false, Vec::new());
        assert!(filling.fits(1, 1, 0, MOST));

        let mut writer = ReplyWriter::new(filled.codes.len(), filled.room).unwrap();
        let attributes = Attributes {
            mode: Some(0o7777),
            size: Some(u64::MAX >> 2),
            modified: Some(Timestamp::new(1 << 60, 999_999_999)),
            ..Attributes::of(FileType::Regular)
        };
        for _ in 0..3 {
            writer.answer(&Answer::File { attributes, content: &content });
        }
        let mut page = writer.listing();
        while page.push(&ListEntry { name: &[b'n'; 150], attributes }) {}
        page.finish(false, b"more");
        let payload = writer.finish(Safety::Written);
        assert!(payload.len() <= filled.room);
        let reply = Reply::decode(&payload, &filled.codes).unwrap();
        assert!(reply.outcomes.iter().all(Result::is_ok), "each has room");
    }
}
