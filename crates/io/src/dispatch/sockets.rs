//! Code shared by all implementations: the table of sockets, turns and budgets, and the only place where
//! completions are made.
//!
//! A *round* begins with one wait. Every socket that is ready then, or has work left from the round
//! before, gets turns in it until its budget is used up; the kernel is not queried again until the
//! round is over. Per block this allocates nothing, takes no lock and counts no reference.

use super::direct::{Files, PipeRoute, SendContext};
use super::lazy_buffer::LazyBuffer;
use super::memory::ZERO_BLOCK_BYTES;
use super::pace::{Allowance, Pace, WaitingSides};
use super::slot::{InterestChange, ReceiveState, SendState, Slot, Turn, error_number};
use super::wait::{Event, Interest, Until, Wait, Waited};
use super::{Completion, Detached, Dispatch, End, FileId, Instant, Op, Progress, Side, SocketId, receive, send};
use crate::buf::Buffer;
use crate::stack::Driver;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes that one side of a socket may move in a round: one block of the usual size. With this
/// budget, turns were measured to share a thread evenly (Jain index 1.000 at 8 to 64 sockets),
/// since a side keeps its whole turn (see `linger`).
const BUDGET_BYTES: usize = 1 << 20;
/// The rest of a budget is rounded up to this: a call for a few bytes costs more than the fairness
/// it gains.
const TURN_BYTES_MIN: usize = 64 * 1024;

/// Space for received bytes that are not put into a buffer of the caller ([`Op::Some`]).
const SCRATCH_BYTES: usize = 256 * 1024;

/// Maximum number of unread bytes that [`Dispatch::attach`] accepts: a reader of opening messages
/// never holds more.
const UNREAD_BYTES_MAX: usize = 64 * 1024;

/// A dispatcher: the shared part on top of one waiting back end.
pub struct Sockets<W: Wait> {
    pub(super) back: W,
    slots: Vec<Option<Slot<W::Link>>>,
    free: Vec<u32>,
    tools: SendContext,
    /// Length of the last [`Completion::Some`].
    scratch_length: usize,
    /// Sides that get a turn in this round, and in the next one.
    round: VecDeque<(SocketId, Side)>,
    pub(super) next_round: VecDeque<(SocketId, Side)>,
    round_number: u64,
    /// Number of sides that were busy in a round: rises at once, falls slowly, so that one quiet
    /// round does not count.
    crowd: usize,
    /// Sides that wait for a limit of bandwidth.
    waiting: WaitingSides,
    /// Sockets whose layers wait for a time.
    pub(super) timed: WaitingSides,
    /// Sockets whose changed interest may have to be passed to the back end.
    unwatched: Vec<SocketId>,
    events: Vec<Event>,
    woken: bool,
    pub(super) now: Instant,
}

impl<W: Wait> Sockets<W> {
    /// A dispatcher without sockets on top of `back`.
    pub fn over(back: W) -> io::Result<Self> {
        let tools = SendContext {
            files: Files::default(),
            pipe: PipeRoute::default(),
            zeros: LazyBuffer::new(ZERO_BLOCK_BYTES),
            scratch: LazyBuffer::new(SCRATCH_BYTES),
        };
        let now = back.now();
        Ok(Self {
            back,
            slots: Vec::new(),
            free: Vec::new(),
            tools,
            scratch_length: 0,
            round: VecDeque::new(),
            next_round: VecDeque::new(),
            round_number: 1,
            crowd: 0,
            waiting: WaitingSides::default(),
            timed: WaitingSides::default(),
            unwatched: Vec::new(),
            events: Vec::new(),
            woken: false,
            now,
        })
    }

    /// The waiting back end.
    pub fn back(&self) -> &W {
        &self.back
    }

    /// # Panics
    /// When the socket is not attached, which is a bug of the caller.
    pub(super) fn slot(&mut self, socket: SocketId) -> &mut Slot<W::Link> {
        self.slots.get_mut(socket.0 as usize).and_then(Option::as_mut).expect("an attached socket")
    }

    fn attached(&self, socket: SocketId) -> &Slot<W::Link> {
        self.slots.get(socket.0 as usize).and_then(Option::as_ref).expect("an attached socket")
    }

    /// Queues one side for a turn: in this round as long as it has budget left. A turn that has
    /// begun continues.
    pub(super) fn queue(&mut self, socket: SocketId, side: Side) {
        let round = self.round_number;
        let way = self.slot(socket).driver.way(side);
        if way.paced.waits() || std::mem::replace(&mut way.queued, true) {
            return;
        }
        match way.spent {
            spent if way.round != round || spent == 0 => self.round.push_back((socket, side)),
            spent if spent < BUDGET_BYTES => self.round.push_front((socket, side)),
            _ => self.next_round.push_back((socket, side)),
        }
    }

    /// Puts a socket on the list of those whose interest may have to change before the next wait.
    pub(super) fn list(&mut self, socket: SocketId, change: InterestChange) {
        let slot = self.slot(socket);
        let before = slot.listed;
        slot.listed = before.max(Some(change));
        if before.is_none() {
            self.unwatched.push(socket);
        }
    }

    /// One side has a new operation: it runs at once if it may make progress, and waits otherwise.
    fn start(&mut self, socket: SocketId, side: Side) {
        let slot = self.slot(socket);
        let waits = match side {
            Side::Receive => slot.driver.receive.waits() && slot.unread.length() == 0,
            Side::Send => slot.driver.send.waits(),
        };
        if !waits {
            self.queue(socket, side);
        } else {
            self.watch_more(socket);
        }
    }

    /// What is waited for may have grown.
    fn watch_more(&mut self, socket: SocketId) {
        let slot = self.slot(socket);
        if slot.driver.link.layers().is_some() {
            self.watch_exactly(socket);
        } else if !slot.armed.covers(slot.wanted()) {
            self.list(socket, InterestChange::Grow);
        }
    }

    /// The bytes that a limit allows this turn to move; no number where there is no limit. A side
    /// that has to wait gets no turn.
    fn allowed(&mut self, socket: SocketId, side: Side) -> Option<Option<usize>> {
        let now = self.now;
        let slot = self.slot(socket);
        let Some(pace) = slot.pace(side) else { return Some(None) };
        match pace.ask(now) {
            Allowance::Bytes(bytes) => {
                slot.driver.way(side).paced.on_allowed();
                Some(Some(usize::try_from(bytes).unwrap_or(usize::MAX)))
            }
            Allowance::From(at) => {
                let place = slot.driver.way(side).paced.place();
                let place = self.waiting.add(place, at, socket, side);
                self.slot(socket).driver.way(side).paced.on_held_back(place);
                None
            }
        }
    }

    /// Queues the sides whose limit lets them go on.
    fn resume_paced(&mut self) {
        while let Some((socket, side)) = self.waiting.due(self.now) {
            self.slot(socket).driver.way(side).paced.on_due();
            self.queue(socket, side);
        }
    }

    /// Gives one side its turn.
    fn turn(&mut self, socket: SocketId, side: Side) -> Option<Completion<W::Link>> {
        let (round, now) = (self.round_number, self.now);
        let slot = self.slots.get_mut(socket.0 as usize)?.as_mut()?;
        let way = slot.driver.way(side);
        way.queued = false;
        if way.round != round {
            (way.round, way.spent) = (round, 0);
        }
        let allowed = self.allowed(socket, side)?;
        let slot = self.slots.get_mut(socket.0 as usize)?.as_mut()?;
        let before = slot.driver.way(side).spent;
        let turn = loop {
            let budget = allowed
                .unwrap_or(usize::MAX)
                .min(BUDGET_BYTES.saturating_sub(slot.driver.way(side).spent).max(TURN_BYTES_MIN));
            let turn = match side {
                Side::Receive => receive::turn(slot, socket, &mut self.tools.scratch, budget, now),
                Side::Send => send::turn(slot, socket, &mut self.tools, budget, now),
            };
            // A single busy side waits in the common wait.
            let stays = allowed.is_none()
                && matches!(turn, Turn::Blocked)
                && self.crowd > 1
                && slot.may_linger(side, BUDGET_BYTES);
            if !stays || !slot.linger(side, |link, interest| self.back.linger(link, interest)) {
                break turn;
            }
        };
        if let (Some(_), Some(pace)) = (allowed, slot.driver.way(side).paced.pace().cloned()) {
            pace.moved((slot.driver.way(side).spent - before) as u64);
        }
        let layered = slot.driver.link.layers().is_some();
        if layered {
            self.after_turn(socket, side, matches!(turn, Turn::Blocked));
        }
        match turn {
            Turn::Done(completion) => {
                if let Completion::Some { length, .. } = completion {
                    self.scratch_length = length;
                }
                return Some(completion);
            }
            Turn::Again => self.queue(socket, side),
            Turn::Blocked if !layered => self.watch_more(socket),
            Turn::Blocked | Turn::Nothing => {}
        }
        None
    }

    /// Passes the changes since the last wait to the back end.
    fn watch(&mut self) {
        while let Some(socket) = self.unwatched.pop() {
            let Some(slot) = self.slots.get_mut(socket.0 as usize).and_then(Option::as_mut) else { continue };
            let wanted = slot.wanted();
            let after = match slot.listed.take() {
                Some(InterestChange::Exact) => wanted,
                Some(InterestChange::Grow) | None => slot.armed.or(wanted),
            };
            if after == slot.armed {
                continue;
            }
            match self.back.watch(socket.0, &slot.driver.link, slot.armed, after) {
                Ok(()) => slot.armed = after,
                Err(error) => {
                    // The socket cannot be watched, so its operations end; other sockets continue.
                    let end = End::Failed(error_number(&error));
                    slot.driver.receive.ended.get_or_insert(end);
                    slot.driver.send.ended.get_or_insert(end);
                    self.queue(socket, Side::Receive);
                    self.queue(socket, Side::Send);
                }
            }
        }
    }

    /// Begins a round: one wait, which blocks only when no socket has work left.
    fn begin_round(&mut self, deadline: Option<Instant>) -> io::Result<Waited> {
        std::mem::swap(&mut self.round, &mut self.next_round);
        self.watch();
        let until = match self.waiting.earliest(self.timed.earliest(deadline)) {
            _ if !self.round.is_empty() => Until::Now,
            Some(moment) => Until::At(moment),
            None => Until::Ever,
        };
        let mut events = std::mem::take(&mut self.events);
        let waited = self.back.wait(until, &mut events);
        self.now = self.back.now();
        self.round_number += 1;
        for event in events.drain(..) {
            self.found(event);
        }
        self.resume_paced();
        self.resume_timed();
        self.events = events;
        let waited = waited?;
        self.woken |= waited.woken;
        self.crowd = self.round.len().max(self.crowd - self.crowd.div_ceil(8));
        Ok(waited)
    }

    /// A socket is ready: its waiting sides get a turn. Interest without a waiting operation is
    /// removed.
    fn found(&mut self, event: Event) {
        let socket = SocketId(event.slot);
        let Some(slot) = self.slots.get_mut(event.slot as usize).and_then(Option::as_mut) else { return };
        let (receiving, sending) = (slot.receiving.is_some(), slot.sending.is_some());
        if self.layers_found(socket) {
            return;
        }
        let Some(slot) = self.slots.get_mut(event.slot as usize).and_then(Option::as_mut) else { return };
        if event.found.readable {
            slot.driver.receive.ready = true;
        }
        if event.found.writable {
            slot.driver.send.ready = true;
            slot.driver.send.told = true;
        }
        let paced = (event.found.readable && slot.driver.receive.paced.waits())
            || (event.found.writable && slot.driver.send.paced.waits());
        let unasked = paced
            || (event.found.readable && !receiving && slot.armed.readable)
            || (event.found.writable && !sending && slot.armed.writable)
            || (!receiving && !sending);
        if unasked {
            self.list(socket, InterestChange::Exact);
        }
        if event.found.readable && receiving {
            self.queue(socket, Side::Receive);
        }
        if event.found.writable && sending {
            self.queue(socket, Side::Send);
        }
    }
}

impl<W: Wait> Dispatch for Sockets<W> {
    type Link = W::Link;
    type Waker = W::Waker;

    fn attach(&mut self, link: W::Link, unread: &[u8]) -> io::Result<SocketId> {
        if unread.len() > UNREAD_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "more than 64 KiB were read ahead of a socket"));
        }
        // Read again: after a long absence of the caller, the socket would seem to have stalled
        // since before it was attached.
        self.now = self.back.now();
        let slot = Some(Slot::new(link, unread, self.now));
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = slot;
            return Ok(SocketId(index));
        }
        let index = u32::try_from(self.slots.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.slots.push(slot);
        // Each side is queued at most once, so the queues never grow while bytes move.
        for queue in [&mut self.round, &mut self.next_round] {
            queue.reserve(2 * self.slots.len() - queue.len().min(2 * self.slots.len()));
        }
        self.unwatched.reserve(self.slots.len() - self.unwatched.len().min(self.slots.len()));
        self.events.reserve(self.slots.len());
        Ok(SocketId(index))
    }

    fn detach(&mut self, socket: SocketId, returned: &mut Vec<Buffer>) -> Detached<W::Link> {
        let slot = self.slots.get_mut(socket.0 as usize).and_then(Option::take).expect("an attached socket");
        self.free.push(socket.0);
        self.tools.pipe.release(socket);
        self.round.retain(|(queued, _)| *queued != socket);
        self.next_round.retain(|(queued, _)| *queued != socket);
        self.unwatched.retain(|listed| *listed != socket);
        self.waiting.remove(socket);
        self.timed.remove(socket);
        if slot.armed != Interest::NONE {
            // Fails only for a closed descriptor, which is not watched anyway.
            let _ = self.back.watch(socket.0, &slot.driver.link, slot.armed, Interest::NONE);
        }
        let mut unread = Vec::new();
        match slot.receiving {
            Some(ReceiveState::Small { bytes, at }) => unread.extend_from_slice(&bytes[..at]),
            Some(operation) => returned.extend(operation.into_buffer()),
            None => {}
        }
        unread.extend_from_slice(slot.unread.as_slice());
        returned.extend(slot.sending.and_then(SendState::into_buffer));
        Detached { link: slot.driver.link, unread }
    }

    fn open_file(&mut self, file: OwnedFd) -> FileId {
        self.tools.files.open(file)
    }

    fn close_file(&mut self, file: FileId) {
        self.tools.files.close(file);
    }

    fn submit(&mut self, op: Op) {
        let (socket, side) = match ReceiveState::from_op(op) {
            Ok((socket, operation)) => {
                let under_way = self.slot(socket).receiving.replace(operation);
                assert!(under_way.is_none(), "a second receiving operation on {socket:?}");
                (socket, Side::Receive)
            }
            Err(op) => {
                let (socket, operation) = SendState::from_op(op);
                let under_way = self.slot(socket).sending.replace(operation);
                assert!(under_way.is_none(), "a second sending operation on {socket:?}");
                (socket, Side::Send)
            }
        };
        self.back.submitted();
        self.start(socket, side);
    }

    fn next(&mut self, deadline: Option<Instant>) -> io::Result<Completion<W::Link>> {
        loop {
            if std::mem::take(&mut self.woken) {
                return Ok(Completion::Woken);
            }
            while let Some((socket, side)) = self.round.pop_front() {
                if let Some(completion) = self.turn(socket, side) {
                    return Ok(completion);
                }
            }
            let waited = self.begin_round(deadline)?;
            let idle = self.round.is_empty() && !self.woken;
            if idle && (waited.gave_up || deadline.is_some_and(|moment| moment <= self.now)) {
                return Ok(Completion::Deadline);
            }
        }
    }

    fn scratch(&mut self) -> &mut [u8] {
        &mut self.tools.scratch.made()[..self.scratch_length]
    }

    fn progress(&self, socket: SocketId) -> Progress {
        let driver = &self.attached(socket).driver;
        let mut progress = driver.progress;
        // What a limit of this side delays is no stall of the peer.
        if driver.receive.paced.waits() {
            progress.received_at = self.now;
        }
        if driver.send.paced.waits() {
            progress.sent_at = self.now;
        }
        progress
    }

    fn pace(&mut self, socket: SocketId, side: Side, pace: Option<Arc<dyn Pace>>) {
        self.slot(socket).driver.way(side).paced.set(pace);
    }

    fn finish_sending(&mut self, socket: SocketId) -> std::io::Result<()> {
        self.slot(socket).driver.link.finish_sending()
    }

    fn failure(&self, socket: SocketId) -> Option<String> {
        self.attached(socket).driver.link.layers()?.failure().map(str::to_owned)
    }

    fn link(&self, socket: SocketId) -> &W::Link {
        &self.attached(socket).driver.link
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn waker(&self) -> W::Waker {
        self.back.waker()
    }
}

#[cfg(test)]
mod tests;
