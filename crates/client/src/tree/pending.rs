//! What is under way: batches of calls, transfers, and small files that are being written here, within the bounds that a session
//! has; and the batch that is being filled.

use super::events::Event;
use crate::session::Session;
use crate::teller::Teller;
use crate::transfer::Transfer;
use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use xdfs_proto::base::Error;
use xdfs_proto::limits;
use xdfs_proto::wire::path::{Batch, BatchWriter, Call, REPLY_BYTES, REPLY_CALL_BYTES};

/// Operations of one copy at a time: others of the session have their share (P-20).
const OPERATIONS_MAX: usize = 120;
/// Transfers of one copy at a time: what hides the round trips of files that take less than one.
const TRANSFERS_FAR: usize = 96;
/// The same where there is next to no round trip to hide: every operation of a session costs both ends a look at each turn.
const TRANSFERS_NEAR: usize = 16;
/// The quickest answer says which of them it is.
const NEAR: Duration = Duration::from_millis(4);
/// Batches at a time.
const BATCHES_MAX: usize = 32;
/// Calls in a batch: files that become durable together.
pub(super) const CALLS_MAX: usize = 64;

/// One thing under way.
#[derive(Debug)]
struct Flying<J> {
    job: J,
    kind: Kind,
    room: usize,
    content: usize,
}

#[derive(Debug)]
enum Kind {
    /// A batch that went at this time.
    Calls(Instant),
    /// A transfer that began at this time.
    Transfer(Instant, Transfer),
    /// Files that are being written here.
    Place,
}

/// See the module. `J` is what has to be known when the answer comes, and when none comes.
#[derive(Debug)]
pub(super) struct Flight<J> {
    all: BTreeMap<u64, Flying<J>>,
    next: u64,
    rooms: usize,
    content: usize,
    transfers: usize,
    places: usize,
    /// How long the quickest answer took.
    quickest: Duration,
}

impl<J> Default for Flight<J> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), next: 0, rooms: 0, content: 0, transfers: 0, places: 0, quickest: Duration::MAX }
    }
}

impl<J> Flight<J> {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a batch with such a reply may go.
    pub(super) fn has_room(&self, room: usize) -> bool {
        self.all.len() < OPERATIONS_MAX
            && self.all.len() - self.transfers < BATCHES_MAX
            // Else the session would have this thread wait (P-71).
            && self.rooms + room + self.content + limits::CALL_BYTES_MAX <= limits::CALL_ROOM_MAX
    }

    /// Whether files are being written here.
    pub(super) fn places(&self) -> bool {
        self.places > 0
    }

    /// Whether a transfer may go.
    pub(super) fn has_transfer(&self) -> bool {
        let most = if self.quickest < NEAR { TRANSFERS_NEAR } else { TRANSFERS_FAR };
        self.all.len() < OPERATIONS_MAX && self.transfers < most
    }

    /// Sends a batch.
    pub(super) fn call(
        &mut self,
        session: &Session,
        events: SyncSender<Event>,
        payload: Vec<u8>,
        room: usize,
        job: J,
    ) -> Result<(), (J, Error)> {
        let (number, content) = (self.next, payload.len());
        let answer = Teller::new(move |reply| drop(events.try_send(Event::Reply(number, reply))));
        if let Err(error) = session.send_calls(payload, room, answer) {
            return Err((job, error));
        }
        self.enter(Flying { job, kind: Kind::Calls(Instant::now()), room, content });
        Ok(())
    }

    /// The number under which a transfer, or what is written here, is to answer.
    pub(super) fn number(&self) -> u64 {
        self.next
    }

    /// A transfer was begun under [`Self::number`].
    pub(super) fn moves(&mut self, transfer: Transfer, job: J) {
        self.transfers += 1;
        self.enter(Flying { job, kind: Kind::Transfer(Instant::now(), transfer), room: 0, content: 0 });
    }

    /// Files of a reply of `room` bytes are being written here, to answer under [`Self::number`]: the reply keeps its room.
    pub(super) fn place(&mut self, room: usize, job: J) {
        self.places += 1;
        self.enter(Flying { job, kind: Kind::Place, room, content: 0 });
    }

    fn enter(&mut self, flying: Flying<J>) {
        self.rooms += flying.room;
        self.content += flying.content;
        self.all.insert(self.next, flying);
        self.next += 1;
    }

    /// What an answer belongs to.
    pub(super) fn take(&mut self, number: u64) -> Option<J> {
        let flying = self.all.remove(&number)?;
        self.rooms -= flying.room;
        self.content -= flying.content;
        match flying.kind {
            Kind::Calls(began) => self.quickest = self.quickest.min(began.elapsed()),
            Kind::Transfer(began, _) => {
                self.transfers -= 1;
                self.quickest = self.quickest.min(began.elapsed());
            }
            Kind::Place => self.places -= 1,
        }
        Some(flying.job)
    }

    /// Everything that was not answered; nothing is under way then.
    pub(super) fn give_up(&mut self) -> Vec<J> {
        (self.rooms, self.content, self.transfers, self.places) = (0, 0, 0, 0);
        std::mem::take(&mut self.all).into_values().map(|flying| flying.job).collect()
    }

    /// Has every transfer cancelled.
    pub(super) fn cancel(&self) {
        self.transfers().for_each(Transfer::cancel);
    }

    /// Bytes that the transfers under way have moved.
    pub(super) fn moving(&self) -> u64 {
        self.transfers().map(Transfer::moved).sum()
    }

    fn transfers(&self) -> impl Iterator<Item = &Transfer> {
        self.all.values().filter_map(|flying| match &flying.kind {
            Kind::Transfer(_, transfer) => Some(transfer),
            Kind::Calls(_) | Kind::Place => None,
        })
    }
}

/// A batch that is being filled, with what has to be known about each of its calls.
#[derive(Debug)]
pub(super) struct Filling<I> {
    calls: BatchWriter,
    items: Vec<I>,
    /// Bytes that the results may take, besides what every result takes.
    room: usize,
}

/// Bytes of a call's numbers beside its paths and content, and of a batch's head: more than they ever are.
const CALL_OVERHEAD: usize = 128;

impl<I> Default for Filling<I> {
    fn default() -> Self {
        Self { calls: BatchWriter::default(), items: Vec::new(), room: 0 }
    }
}

/// A batch that is ready to go.
#[derive(Debug)]
pub(super) struct Filled<I> {
    pub(super) payload: Vec<u8>,
    pub(super) codes: Vec<u64>,
    pub(super) items: Vec<I>,
    pub(super) room: usize,
}

impl<I> Filling<I> {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether calls with so many bytes of paths and content, and so many bytes of results, still fit.
    pub(super) fn fits(&self, calls: usize, bytes: usize, room: usize, most: usize) -> bool {
        let count = self.items.len() + calls;
        count <= CALLS_MAX
            && self.calls.bytes() + bytes + (calls + 1) * CALL_OVERHEAD <= most
            && REPLY_BYTES + count * REPLY_CALL_BYTES + self.room + room <= most
    }

    /// Appends a call whose result takes `room` bytes besides the usual.
    pub(super) fn push(&mut self, call: &Call<'_>, room: usize, item: I) {
        self.calls.push(call);
        self.room += room;
        self.items.push(item);
    }

    /// Longest reply that it asks for.
    pub(super) fn room(&self) -> usize {
        REPLY_BYTES + self.items.len() * REPLY_CALL_BYTES + self.room
    }

    /// The batch as it is, and an empty one in its place.
    pub(super) fn take(&mut self, base: &[u8], durable: bool) -> Filled<I> {
        let room = self.room();
        let Self { calls, items, .. } = std::mem::take(self);
        // A repetition in another session does no harm: every call here says how things are to be in the end.
        let batch = Batch { durable, room: u32::try_from(room).unwrap_or(u32::MAX), base, ..Batch::default() };
        Filled { payload: calls.finish(&batch), codes: calls.codes().to_vec(), items, room }
    }
}
