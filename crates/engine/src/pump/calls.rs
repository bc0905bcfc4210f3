//! Batches of calls: held from their first byte to the last byte of the reply, and executed by the
//! pool one after the other per lane (P-70, P-83). The host defines what a call means.

use super::{Host, Pump};
use crate::call_lane::CallLane;
use crate::mailbox::Message;
use crate::payload::PayloadPool;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use xdfs_io::buf::Buffer;
use xdfs_io::dispatch::Dispatch;
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Extent, OperationId};
use xdfs_proto::session::CallService;
use xdfs_proto::wire::file::FileBatch;
use xdfs_proto::wire::path::Batch;
use xdfs_proto::wire::{Event, Flags, Head};

use super::channel_io::BufferOrigin;
use super::pacing::QueuedStart;

/// Longest reply that a batch accepts. One whose head cannot be parsed requests no room, and fails
/// when it is parsed in full.
fn room_of(service: CallService, payload: &[u8]) -> usize {
    let room = match service {
        CallService::Path => Batch::head_of(payload).map(|batch| batch.room),
        CallService::File => FileBatch::head_of(payload).map(|batch| batch.room),
    };
    room.map_or(0, |room| room as usize)
}

/// What is held for one operation of calls.
struct HeldBatch {
    service: CallService,
    /// The batch; at the server, the reply once the batch was executed.
    payload: Bytes,
    /// Longest reply that the client accepts. (Server.)
    room: usize,
    /// Bytes that count against the session's share.
    counted: usize,
    /// Set when no further call of it may start.
    stop: Arc<AtomicBool>,
}

/// Batches and replies whose memory is kept for reuse: as many as are executed and sent at a time.
const SPARE_MAX: usize = 8;

/// Batches of calls, executed by the pool one after the other per lane (P-70, P-83).
pub(super) struct Batches {
    held: BTreeMap<OperationId, HeldBatch>,
    /// Pending batches of each lane; the first one is being executed.
    queues: BTreeMap<CallLane, VecDeque<OperationId>>,
    /// Bytes that `held` counts.
    bytes: usize,
    pool: PayloadPool,
}

impl Default for Batches {
    fn default() -> Self {
        let (held, queues) = (BTreeMap::new(), BTreeMap::new());
        Self { held, queues, bytes: 0, pool: PayloadPool::new(SPARE_MAX) }
    }
}

impl Batches {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn hold(&mut self, operation: OperationId, service: CallService, payload: Bytes, room: usize) {
        let counted = payload.len() + room;
        self.bytes += counted;
        self.held.insert(operation, HeldBatch { service, payload, room, counted, stop: Arc::default() });
    }

    fn forget(&mut self, operation: OperationId) {
        if let Some(held) = self.held.remove(&operation) {
            self.bytes -= held.counted;
        }
    }

    /// The batch was executed: its reply replaces it.
    fn answered(&mut self, operation: OperationId, payload: Vec<u8>) {
        if let Some(held) = self.held.get_mut(&operation) {
            self.bytes = self.bytes - held.counted + payload.len();
            (held.counted, held.payload) = (payload.len(), self.pool.payload(payload));
        }
    }
}

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    /// The application submits calls. (Client.)
    pub(super) fn open_calls(&mut self, ticket: u64, service: CallService, payload: Bytes) {
        let bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let result = self.session.open_calls(service, bytes);
        if let Ok(operation) = result {
            self.tickets.insert(ticket, operation);
            self.batches.hold(operation, service, payload, 0);
        }
        self.host.numbered(ticket, result);
    }

    /// A batch, or a reply, is complete and verified.
    pub(super) fn on_calls_filled(&mut self, channel: ChannelId, head: &Head, mut buffer: Buffer) {
        let now = self.dispatch.now();
        let taken = self.session.on_calls(channel, now);
        if taken == Ok(true) {
            // The record's length is bounded by its buffer.
            let length = head.length as usize;
            self.host.moved(head.operation, head.length.into());
            if head.flags.has(Flags::REQUEST) {
                let payload = &buffer.payload()[..length];
                let service = Event::from_code(head.event).and_then(CallService::of).unwrap_or(CallService::Path);
                let room = room_of(service, payload);
                let payload = self.batches.pool.copy(payload);
                self.batches.hold(head.operation, service, payload, room);
            } else {
                buffer = self.host.replied(head.operation, buffer, length);
            }
        }
        self.buffers.receive.give(buffer);
        match taken {
            Ok(_) => {
                self.next_head(channel);
                self.serve_waiting();
            }
            Err(fault) => self.session.on_fault(fault),
        }
    }

    /// Queues a batch behind those of its lane.
    pub(super) fn on_execute(&mut self, operation: OperationId, channel: ChannelId) {
        // Twice what a client may have in flight: the client may learn of an outcome before the
        // server knows that it has.
        let limits = self.session.limits();
        let most = 2 * limits.calls_room / usize::from(limits.pipelines.max(1));
        if self.batches.bytes > most {
            let text = "too many calls at a time in this session";
            return self.refuse_calls(operation, Error::new(ErrorKind::Busy, text));
        }
        // Cannot fail: a batch is held before the machine learns of it.
        let Some(held) = self.batches.held.get(&operation) else { return };
        if held.room > self.session.calls_bytes_max() as usize {
            // Afterwards is too late: what was executed would not be answered (P-69).
            let text = "the room for the reply is more than a block of this session";
            return self.refuse_calls(operation, Error::new(ErrorKind::LimitExceeded, text));
        }
        let lane = CallLane::of(held.service, &held.payload, channel, operation);
        let queue = self.batches.queues.entry(lane).or_default();
        queue.push_back(operation);
        if queue.len() == 1 {
            self.begin(QueuedStart::Calls(lane, operation));
        }
    }

    pub(super) fn start_calls(&mut self, lane: CallLane, operation: OperationId) {
        // Cannot fail: a batch is held until it was answered.
        let Some(held) = self.batches.held.get_mut(&operation) else { return };
        let (service, payload, stop) = (held.service, std::mem::take(&mut held.payload), Arc::clone(&held.stop));
        let memory = self.batches.pool.any_memory(held.room);
        let (share, job) = self.host.execute(operation, service, payload, stop, memory);
        self.call_sliced(&share, job, move |result| Message::Answered { operation, lane, result });
    }

    /// The calls of a batch were executed, or the batch failed as a whole.
    pub(super) fn on_answered(&mut self, operation: OperationId, lane: CallLane, result: Result<Vec<u8>, Error>) {
        self.storage.pending -= 1;
        let room = self.batches.held.get(&operation).map_or(0, |held| held.room);
        let most = room.min(self.session.calls_bytes_max() as usize);
        let result = result.and_then(|reply| {
            if reply.is_empty() || reply.len() > most {
                return Err(Error::new(ErrorKind::LimitExceeded, "the reply is longer than its room"));
            }
            let bytes = reply.len() as u32;
            self.batches.answered(operation, reply);
            Ok(bytes)
        });
        match result {
            Ok(bytes) => self.session.on_answered(operation, Ok(bytes)),
            Err(error) => self.refuse_calls(operation, error),
        }
        // Cannot fail: a queue stays until its last batch was answered.
        let Some(queue) = self.batches.queues.get_mut(&lane) else { return };
        queue.pop_front();
        match queue.front().copied() {
            Some(next) => self.begin(QueuedStart::Calls(lane, next)),
            None => drop(self.batches.queues.remove(&lane)),
        }
    }

    /// No further call of the batch may start; returns whether a batch of this number exists.
    pub(super) fn stop_calls(&mut self, operation: OperationId) -> bool {
        let Some(held) = self.batches.held.get(&operation) else { return false };
        held.stop.store(true, Ordering::Relaxed);
        let mut waited = false;
        for queue in self.batches.queues.values_mut() {
            if let Some(at) = queue.iter().skip(1).position(|waiting| *waiting == operation) {
                queue.remove(at + 1);
                waited = true;
            }
        }
        if waited {
            self.refuse_calls(operation, Error::new(ErrorKind::Cancelled, "cancelled before it was begun"));
        }
        true
    }

    /// Ends a batch without a reply: its memory is released although its client may not know of the
    /// error yet.
    fn refuse_calls(&mut self, operation: OperationId, error: Error) {
        self.batches.forget(operation);
        self.session.on_answered(operation, Err(error));
    }

    pub(super) fn forget_calls(&mut self, operation: OperationId) {
        self.batches.forget(operation);
    }

    /// A batch or reply is sent from a buffer, as a block is.
    pub(super) fn send_calls(&mut self, channel: ChannelId, head: Head) {
        // Cannot fail: a length of 32 bits.
        let Ok(extent) = Extent::new(0, head.length.into()) else { return };
        match self.buffers.want_send.is_empty().then(|| self.buffers.send.take()).flatten() {
            Some(buffer) => self.fill_calls(channel, &head, extent, buffer),
            None => self.buffers.want_send.push_back((channel, head, extent)),
        }
    }

    pub(super) fn fill_calls(&mut self, channel: ChannelId, head: &Head, extent: Extent, mut buffer: Buffer) {
        let length = head.length as usize;
        match self.batches.held.get(&head.operation) {
            Some(held) if held.payload.len() == length => {
                buffer.payload_mut()[..length].copy_from_slice(&held.payload);
                self.send_buffer(channel, head, extent, BufferOrigin::Pool, buffer);
            }
            // It was dropped while it waited for a buffer: the record was counted, so the channel
            // cannot continue without it.
            _ => {
                self.buffers.send.give(buffer);
                self.abandon_send(channel);
            }
        }
    }
}
