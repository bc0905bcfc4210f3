//! Calls in flight and their limits: shared between the application, which waits for room, and the
//! pipelines, which answer.

use crate::callback::Callback;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use xdfs_engine::payload::PayloadPool;
use xdfs_io::buf::Buffer;
use xdfs_proto::base::{Error, ErrorKind, PipelineId};
use xdfs_proto::limits;
use xdfs_proto::session::CallService;

/// Concurrent batches of one pipeline: the rest of its operations is for transfers.
const BATCHES_MAX: usize = limits::OPERATIONS_MAX / 2;

/// Replies whose memory is kept for reuse: as many as are read and written concurrently.
const SPARE_MAX: usize = 32;

/// What a batch takes.
#[derive(Clone, Copy)]
pub(crate) struct BatchNeeds {
    pub(crate) service: CallService,
    /// Its bytes and those of the longest reply together.
    pub(crate) bytes: usize,
    /// The longest reply.
    pub(crate) room: usize,
}

impl BatchNeeds {
    /// How large a buffer may be that is kept for a reply of this length. Those to calls on open files are held for as
    /// long as somebody may read them, and counted by their length; those of a tree are written at once.
    fn buffer_max(&self, length: usize) -> usize {
        match self.service {
            CallService::File => length + length / 8,
            CallService::Path => 4 * length,
        }
    }
}

struct QueuedBatch {
    pipeline: usize,
    needs: BatchNeeds,
    outcome: Callback<Bytes>,
    state: BatchState,
}

/// How far a batch is.
enum BatchState {
    /// Nothing was received for it.
    Sent,
    /// Its reply has arrived, and the outcome follows.
    Replied(Bytes),
    /// The same, and it is longer than its room.
    TooLong,
}

#[derive(Clone, Copy, Default)]
struct Load {
    bytes: usize,
    batches: usize,
    /// A channel of the pipeline is up, and the pipeline has not ended.
    open: bool,
}

struct QueueState {
    entries: BTreeMap<u64, QueuedBatch>,
    loads: Vec<Load>,
    /// Who waits for room, by ticket, in the order of asking. Only the first is woken: of a thousand that wait each answer
    /// would wake all.
    line: VecDeque<(u64, Thread)>,
    ended: bool,
    /// Bytes of all batches that are on their way, replies included.
    room: usize,
}

impl QueueState {
    /// The pipeline with the least load of those that have room for so many bytes.
    fn room(&self, bytes: usize) -> Option<usize> {
        let most = self.room / self.loads.len();
        let free =
            |load: &Load| load.open && load.batches < BATCHES_MAX && (load.batches == 0 || load.bytes + bytes <= most);
        let open = self.loads.iter().enumerate().filter(|(_, load)| free(load));
        open.min_by_key(|(_, load)| (load.batches, load.bytes)).map(|(pipeline, _)| pipeline)
    }

    fn is_turn(&self, ticket: u64) -> bool {
        self.line.front().is_none_or(|(first, _)| *first == ticket)
    }

    fn wake_first(&self) {
        if let Some((_, first)) = self.line.front() {
            first.unpark();
        }
    }
}

/// The batches in flight of a session and the limits on them.
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    replies: PayloadPool,
}

impl Queue {
    /// For a session with this many pipelines, and this much room for calls; the first one has a channel.
    pub(crate) fn new(pipelines: u8, room: usize) -> Self {
        let mut loads = vec![Load::default(); usize::from(pipelines.max(1))];
        loads[0].open = true;
        let state = QueueState { entries: BTreeMap::new(), loads, line: VecDeque::new(), ended: false, room };
        Self { state: Mutex::new(state), replies: PayloadPool::new(SPARE_MAX) }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a slot for a batch on the pipeline with the least load. Waits for one, in the order of asking; returns the
    /// callback if the session has ended.
    pub(crate) fn enter(
        &self,
        ticket: u64,
        needs: BatchNeeds,
        outcome: Callback<Bytes>,
    ) -> Result<usize, Callback<Bytes>> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return Err(outcome);
            }
            if state.is_turn(ticket)
                && let Some(pipeline) = state.room(needs.bytes)
            {
                state.entries.insert(ticket, QueuedBatch { pipeline, needs, outcome, state: BatchState::Sent });
                state.loads[pipeline].bytes += needs.bytes;
                state.loads[pipeline].batches += 1;
                if state.line.pop_front().is_some() {
                    state.wake_first();
                }
                return Ok(pipeline);
            }
            if !state.line.iter().any(|(waiting, _)| *waiting == ticket) {
                state.line.push_back((ticket, std::thread::current()));
            }
            drop(state);
            // Every answer and the end of a pipeline wake the first in line: every operation ends, since
            // channels have deadlines.
            std::thread::park();
            state = self.lock();
        }
    }

    /// How many batches of full length, replies included, may be on their way on a pipeline, with some room left for others.
    pub(crate) fn long_batches_max(&self) -> usize {
        let state = self.lock();
        (state.room / state.loads.len() / limits::CALL_BYTES_MAX).min(BATCHES_MAX).saturating_sub(2).max(1)
    }

    /// Whether some pipeline has at least half of its room for batches free, and so many bytes.
    pub(crate) fn is_half_free(&self, bytes: usize) -> bool {
        let state = self.lock();
        let most = state.room / state.loads.len() / 2;
        let free = |load: &Load| load.open && load.batches < BATCHES_MAX / 2 && load.bytes + bytes <= most;
        !state.ended && state.line.is_empty() && state.loads.iter().any(free)
    }

    /// The reply has arrived, as the first bytes of a buffer; its outcome follows. Returns a buffer of the same size.
    pub(crate) fn replied(&self, ticket: u64, buffer: Buffer, length: usize) -> Buffer {
        let Some(needs) = self.lock().entries.get(&ticket).map(|entry| entry.needs) else { return buffer };
        let (state, other) = if length > needs.room {
            (BatchState::TooLong, buffer)
        } else {
            let (reply, other) = self.replies.keep(buffer, length, needs.buffer_max(length));
            (BatchState::Replied(reply), other)
        };
        if let Some(entry) = self.lock().entries.get_mut(&ticket) {
            entry.state = state;
        }
        other
    }

    /// The outcome of a batch is known; false if the ticket is unknown.
    pub(crate) fn leave(&self, ticket: u64, outcome: Result<(), Error>) -> bool {
        let mut state = self.lock();
        let Some(entry) = state.entries.remove(&ticket) else { return false };
        state.loads[entry.pipeline].bytes -= entry.needs.bytes;
        state.loads[entry.pipeline].batches -= 1;
        state.wake_first();
        drop(state);
        entry.outcome.complete(outcome.and_then(|()| match entry.state {
            BatchState::Replied(reply) => Ok(reply),
            BatchState::TooLong => Err(Error::new(ErrorKind::Protocol, "the server's reply is longer than its room")),
            BatchState::Sent => Err(Error::internal("a batch has succeeded without a reply")),
        }));
        true
    }

    pub(crate) fn has(&self, ticket: u64) -> bool {
        self.lock().entries.contains_key(&ticket)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().entries.is_empty()
    }

    /// A pipeline has a channel.
    pub(crate) fn opened(&self, pipeline: usize) {
        let mut state = self.lock();
        if let Some(load) = state.loads.get_mut(pipeline) {
            load.open = true;
        }
        state.wake_first();
    }

    /// A pipeline has ended, and with it the session: its waiters receive the reason.
    pub(crate) fn ended(&self, pipeline: PipelineId, error: &Error) {
        let mut state = self.lock();
        state.ended = true;
        let its: Vec<u64> = state
            .entries
            .iter()
            .filter(|(_, entry)| entry.pipeline == usize::from(pipeline.0))
            .map(|(ticket, _)| *ticket)
            .collect();
        state.line.drain(..).for_each(|(_, waiting)| waiting.unpark());
        drop(state);
        for ticket in its {
            self.leave(ticket, Err(error.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn nobody() -> Callback<Bytes> {
        Callback::waiting().0
    }

    fn needs(bytes: usize) -> BatchNeeds {
        BatchNeeds { service: CallService::Path, bytes, room: 5 }
    }

    fn replied(queue: &Queue, ticket: u64) {
        let mut buffer = Buffer::new(4096).unwrap();
        buffer.payload_mut()[..5].copy_from_slice(b"reply");
        queue.replied(ticket, buffer, 5);
    }

    #[test]
    fn a_queue_that_is_full_waits_for_an_answer_and_an_ended_one_takes_nothing() {
        let queue = Arc::new(Queue::new(1, limits::CALL_ROOM_MAX));
        let half = limits::CALL_ROOM_MAX / 2;
        let (teller, first) = Callback::waiting();
        assert!(matches!(queue.enter(1, needs(half), teller), Ok(0)));
        assert!(queue.enter(2, needs(half), nobody()).is_ok());
        let waiting = Arc::clone(&queue);
        let third = std::thread::spawn(move || waiting.enter(3, needs(1), nobody()).is_ok());
        replied(&queue, 1);
        assert!(queue.leave(1, Ok(())) && !queue.leave(1, Ok(())));
        assert_eq!(first.recv().unwrap(), Ok(Bytes::from_static(b"reply")));
        assert!(third.join().unwrap());
        queue.ended(PipelineId(0), &Error::new(ErrorKind::ConnectionLost, "gone"));
        assert!(queue.is_empty() && queue.enter(4, needs(1), nobody()).is_err());
    }

    #[test]
    fn a_reply_that_is_longer_than_its_room_is_an_error_and_is_not_kept() {
        let queue = Queue::new(1, limits::CALL_ROOM_MAX);
        let (teller, outcome) = Callback::waiting();
        assert!(queue.enter(1, BatchNeeds { room: 4, ..needs(10) }, teller).is_ok());
        replied(&queue, 1);
        assert!(queue.leave(1, Ok(())));
        assert_eq!(outcome.recv().unwrap().unwrap_err().kind, ErrorKind::Protocol);
    }

    #[test]
    fn what_is_held_for_long_keeps_no_buffer_that_is_much_longer() {
        let kept_in_its_buffer = |service, length| {
            let queue = Queue::new(1, limits::CALL_ROOM_MAX);
            let (teller, outcome) = Callback::waiting();
            assert!(queue.enter(1, BatchNeeds { service, bytes: length, room: length }, teller).is_ok());
            let buffer = Buffer::new(256 << 10).unwrap();
            let at = buffer.payload().as_ptr();
            queue.replied(1, buffer, length);
            assert!(queue.leave(1, Ok(())));
            outcome.recv().unwrap().unwrap().as_ptr() == at
        };
        assert!(kept_in_its_buffer(CallService::Path, 64 << 10) && !kept_in_its_buffer(CallService::Path, 63 << 10));
        assert!(kept_in_its_buffer(CallService::File, 255 << 10) && !kept_in_its_buffer(CallService::File, 200 << 10));
    }

    #[test]
    fn who_waits_has_room_in_the_order_of_asking() {
        let queue = Arc::new(Queue::new(1, limits::CALL_ROOM_MAX));
        assert!(queue.enter(0, needs(limits::CALL_ROOM_MAX), nobody()).is_ok());
        let (entered, order) = std::sync::mpsc::sync_channel(3);
        // A large one first: the small ones do not pass it for ever.
        let waiting: Vec<_> = [(1, limits::CALL_ROOM_MAX), (2, 10), (3, 10)]
            .map(|(ticket, bytes)| {
                let (waits, entered) = (Arc::clone(&queue), entered.clone());
                let thread = std::thread::spawn(move || {
                    assert!(waits.enter(ticket, needs(bytes), nobody()).is_ok());
                    entered.send(ticket).unwrap();
                });
                while queue.lock().line.len() < ticket as usize {
                    std::thread::yield_now();
                }
                thread
            })
            .into();
        assert!(order.try_recv().is_err(), "no room yet");
        replied(&queue, 0);
        assert!(queue.leave(0, Ok(())));
        assert_eq!(order.recv(), Ok(1));
        assert!(order.try_recv().is_err(), "no room yet");
        replied(&queue, 1);
        assert!(queue.leave(1, Ok(())));
        // There is room for both, and either may say so first.
        let both: BTreeSet<u64> = order.iter().take(2).collect();
        assert_eq!(both, BTreeSet::from([2, 3]));
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(queue.lock().line.is_empty());
    }

    #[test]
    fn batches_go_to_the_pipeline_that_has_the_least_to_do_of_those_that_have_a_channel() {
        let queue = Queue::new(3, limits::CALL_ROOM_MAX);
        let enter = |ticket| queue.enter(ticket, needs(10), nobody()).ok().unwrap();
        assert_eq!((enter(1), enter(2)), (0, 0));
        queue.opened(2);
        assert_eq!((enter(3), enter(4), enter(5)), (2, 2, 0));
    }
}
