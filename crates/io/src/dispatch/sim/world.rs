//! The state of a simulated network: connections, listeners, dispatchers and the clock. Nothing
//! here waits.

use super::connection::Connection;
use super::faults::{FaultCounts, Faults, Random};
use crate::dispatch::Instant;
use crate::dispatch::wait::{Event, Interest};
use crate::stack::Room;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};

/// A dispatcher of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DispatcherId(usize);

/// Identifies a socket of a network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum SocketName {
    /// One end, 0 or 1, of a connection.
    End { connection: usize, side: usize },
    /// A listening socket.
    Listener(usize),
}

/// Sockets in memory, those who serve them, and their clock.
pub(super) struct World {
    now: Instant,
    random: Random,
    pub(super) faults: Faults,
    pub(super) tally: FaultCounts,
    connections: Vec<Connection>,
    listeners: Vec<Listener>,
    dispatchers: Vec<SimDispatcher>,
    /// Counts all events that may give a dispatcher work.
    changes: u64,
}

struct SimDispatcher {
    present: bool,
    woken: bool,
    /// The value of `changes` at which it found nothing to do, and the deadline it then had.
    idle: Option<(u64, Option<Instant>)>,
}

struct Listener {
    port: u16,
    open: bool,
    waiting: VecDeque<usize>,
}

impl World {
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        Self {
            now: Instant(0),
            random: Random::new(seed),
            faults,
            tally: FaultCounts::default(),
            connections: Vec::new(),
            listeners: Vec::new(),
            dispatchers: Vec::new(),
            changes: 0,
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    // Connections.

    pub(super) fn pair(&mut self) -> usize {
        self.changes += 1;
        self.tally.connections += 1;
        self.connections.push(Connection::new(self.now));
        self.connections.len() - 1
    }

    pub(super) fn listen(&mut self, port: u16) -> io::Result<usize> {
        if self.listeners.iter().any(|listener| listener.open && listener.port == port) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        self.changes += 1;
        self.listeners.push(Listener { port, open: true, waiting: VecDeque::new() });
        Ok(self.listeners.len() - 1)
    }

    pub(super) fn connect(&mut self, port: u16) -> usize {
        let delay = self.delay();
        let index = self.pair();
        let by_chance = self.random.happens(self.faults.refuse);
        self.tally.refusals += u64::from(by_chance);
        let listener = self.listeners.iter_mut().find(|listener| listener.open && listener.port == port);
        let connection = &mut self.connections[index];
        connection.decided_at = self.now.after(delay);
        match listener {
            Some(listener) if !by_chance => listener.waiting.push_back(index),
            _ => {
                connection.refused = true;
                connection.open[1] = false;
            }
        }
        index
    }

    pub(super) fn accept(&mut self, name: SocketName) -> io::Result<SocketName> {
        let SocketName::Listener(listener) = name else { return Err(io::ErrorKind::InvalidInput.into()) };
        match self.listeners[listener].waiting.front() {
            Some(connection) if self.connections[*connection].decided_at <= self.now => {
                let connection = *connection;
                self.listeners[listener].waiting.pop_front();
                self.changes += 1;
                Ok(SocketName::End { connection, side: 1 })
            }
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    pub(super) fn connected(&mut self, name: SocketName) -> io::Result<()> {
        let SocketName::End { connection, .. } = name else { return Err(io::ErrorKind::InvalidInput.into()) };
        let connection = &self.connections[connection];
        if connection.decided_at > self.now {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if connection.refused { Err(error(libc::ECONNREFUSED)) } else { Ok(()) }
    }

    // Bytes.

    pub(super) fn receive(&mut self, name: SocketName, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let SocketName::End { connection, side } = name else { return Err(io::ErrorKind::InvalidInput.into()) };
        let now = self.now;
        let direction = &mut self.connections[connection].directions[1 - side];
        let asked: usize = into.iter().map(|slice| slice.len()).sum();
        let there = direction.arrived(now).min(asked);
        if there == 0 {
            return match direction.broken {
                true => Err(error(libc::ECONNRESET)),
                false if direction.has_ended(now) || asked == 0 => Ok(0),
                false => Err(io::ErrorKind::WouldBlock.into()),
            };
        }
        let mut count = there;
        if there > 1 && self.random.happens(self.faults.short_receive) {
            count = 1 + self.random.below(there as u64 - 1) as usize;
            self.tally.short_receives += 1;
        }
        let mut left = count;
        for slice in into {
            let part = left.min(slice.len());
            direction.take(&mut slice[..part]);
            left -= part;
        }
        self.tally.received += count as u64;
        self.changes += 1;
        Ok(count)
    }

    pub(super) fn send(&mut self, name: SocketName, from: &[IoSlice<'_>]) -> io::Result<usize> {
        let SocketName::End { connection, side } = name else { return Err(io::ErrorKind::InvalidInput.into()) };
        if self.connections[connection].directions[side].broken {
            return Err(error(libc::ECONNRESET));
        }
        if !self.connections[connection].open[1 - side] || self.connections[connection].directions[side].is_finished() {
            return Err(error(libc::EPIPE));
        }
        if self.random.happens(self.faults.cut) {
            self.tally.cuts += 1;
            self.cut(name);
            return Err(error(libc::ECONNRESET));
        }
        let free = self.faults.capacity.saturating_sub(self.connections[connection].directions[side].length());
        let asked: usize = from.iter().map(|slice| slice.len()).sum();
        let mut count = asked.min(free);
        if count == 0 && asked > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if count > 1 && self.random.happens(self.faults.short_send) {
            count = 1 + self.random.below(count as u64 - 1) as usize;
            self.tally.short_sends += 1;
        }
        let due = self.now.after(self.delay());
        let direction = &mut self.connections[connection].directions[side];
        direction.put(from, count, due);
        self.tally.sent += count as u64;
        self.changes += 1;
        Ok(count)
    }

    /// Delivery delay of data sent now.
    fn delay(&mut self) -> xdfs_proto::base::Duration {
        let mut delay = self.faults.latency + self.random.up_to(self.faults.jitter);
        if self.random.happens(self.faults.stall) {
            self.tally.stalls += 1;
            delay += self.random.up_to(self.faults.stall_max);
        }
        delay
    }

    pub(super) fn room(&self, name: SocketName) -> Option<Room> {
        let SocketName::End { connection, side } = name else { return None };
        let used = self.connections[connection].directions[side].length();
        let total = self.faults.capacity;
        Some(Room { free: total.saturating_sub(used) as u64, total: total as u64 })
    }

    // Ends.

    /// The sender is finished: the peer receives the bytes in flight, then the end.
    pub(super) fn finish(&mut self, name: SocketName) {
        let SocketName::End { connection, side } = name else { return };
        let due = self.now.after(self.faults.latency);
        self.connections[connection].directions[side].finish(due);
        self.changes += 1;
    }

    /// The link was dropped. As with TCP, an end that leaves received bytes unread breaks the
    /// connection.
    pub(super) fn close(&mut self, name: SocketName) {
        self.changes += 1;
        match name {
            SocketName::Listener(listener) => {
                self.listeners[listener].open = false;
                for connection in std::mem::take(&mut self.listeners[listener].waiting) {
                    self.cut(SocketName::End { connection, side: 1 });
                }
            }
            SocketName::End { connection, side } => {
                let ends = &mut self.connections[connection];
                ends.open[side] = false;
                if ends.directions[1 - side].length() == 0 {
                    self.finish(name);
                } else {
                    ends.directions[side].break_off(self.now);
                    ends.directions[1 - side].broken = true;
                }
            }
        }
    }

    pub(super) fn cut(&mut self, name: SocketName) {
        let SocketName::End { connection, .. } = name else { return };
        for direction in &mut self.connections[connection].directions {
            direction.break_off(self.now);
        }
        self.changes += 1;
    }

    pub(super) fn hold(&mut self, name: SocketName, held: bool) {
        let SocketName::End { connection, side } = name else { return };
        self.connections[connection].directions[side].held = held;
        self.changes += 1;
    }

    // Dispatchers.

    pub(super) fn join(&mut self) -> DispatcherId {
        self.dispatchers.push(SimDispatcher { present: true, woken: false, idle: None });
        DispatcherId(self.dispatchers.len() - 1)
    }

    pub(super) fn leave(&mut self, dispatcher: DispatcherId) {
        self.dispatchers[dispatcher.0].present = false;
        self.changes += 1;
    }

    pub(super) fn wake(&mut self, dispatcher: DispatcherId) {
        self.dispatchers[dispatcher.0].woken = true;
        self.changes += 1;
    }

    pub(super) fn take_woken(&mut self, dispatcher: DispatcherId) -> bool {
        std::mem::take(&mut self.dispatchers[dispatcher.0].woken)
    }

    /// The dispatcher has something to do, or may have.
    pub(super) fn busy(&mut self, dispatcher: DispatcherId) {
        self.dispatchers[dispatcher.0].idle = None;
    }

    /// The dispatcher found nothing to do before `deadline`. If that holds for all dispatchers, time
    /// advances and the result is true: poll again.
    pub(super) fn idle(&mut self, dispatcher: DispatcherId, deadline: Option<Instant>) -> bool {
        self.dispatchers[dispatcher.0].idle = Some((self.changes, deadline));
        if !self.all_idle() {
            return false;
        }
        let Some(next) = self.next_moment() else { return false };
        self.now = next;
        self.changes += 1;
        true
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.all_idle() && self.next_moment().is_none()
    }

    fn all_idle(&self) -> bool {
        let mut present = self.dispatchers.iter().filter(|dispatcher| dispatcher.present);
        present.all(|dispatcher| dispatcher.idle.is_some_and(|(seen, _)| seen == self.changes))
    }

    /// The next moment at which something arrives, is decided, or a deadline passes.
    fn next_moment(&self) -> Option<Instant> {
        let now = self.now;
        let arrivals = self.connections.iter().flat_map(|connection| {
            let decided = Some(connection.decided_at).filter(|due| *due > now);
            let directions = connection.directions.iter().filter_map(move |direction| direction.next_due(now));
            decided.into_iter().chain(directions)
        });
        let present = self.dispatchers.iter().filter(|dispatcher| dispatcher.present);
        let deadlines = present.filter_map(|dispatcher| dispatcher.idle.and_then(|(_, deadline)| deadline));
        arrivals.chain(deadlines).min().map(|moment| moment.max(now))
    }

    /// How a socket is ready, of what is asked.
    pub(super) fn readiness(&self, name: SocketName, interest: Interest) -> Interest {
        let (readable, writable) = match name {
            SocketName::Listener(listener) => {
                let first = self.listeners[listener].waiting.front();
                (first.is_some_and(|index| self.connections[*index].decided_at <= self.now), false)
            }
            SocketName::End { connection, side } => {
                let ends = &self.connections[connection];
                let (incoming, outgoing) = (&ends.directions[1 - side], &ends.directions[side]);
                let decided = ends.decided_at <= self.now;
                let readable = incoming.arrived(self.now) > 0 || incoming.broken || incoming.has_ended(self.now);
                let writable = outgoing.broken || !ends.open[1 - side] || outgoing.length() < self.faults.capacity;
                (decided && readable, decided && writable)
            }
        };
        Interest { readable: readable && interest.readable, writable: writable && interest.writable }
    }

    /// Any order is possible.
    pub(super) fn shuffle(&mut self, events: &mut [Event]) {
        for last in (1..events.len()).rev() {
            let other = self.random.below(last as u64 + 1) as usize;
            events.swap(last, other);
        }
    }
}

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
