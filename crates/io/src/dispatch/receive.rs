//! The receiving operations, one turn at a time: they move bytes from a driver to the operation's
//! destination.

use super::lazy_buffer::LazyBuffer;
use super::slot::{DriverState, IoStep, Moved, ReceiveState, SMALL_BYTES_MAX, Slot, Turn, Unread, error_number};
use super::{Completion, End, HEAD_BYTES, Instant, Side, SocketId};
use crate::stack::Driver;
use std::io::{self, IoSliceMut};

/// Cost of accepting a connection against a turn's budget, in bytes, so that a flood of connections
/// takes turns as well.
const ACCEPT_COST_BYTES: usize = 16 * 1024;

/// Gives the receiving operation of `slot` one turn of about `budget` bytes.
pub(super) fn turn<L: Driver>(
    slot: &mut Slot<L>,
    socket: SocketId,
    scratch: &mut LazyBuffer,
    budget: usize,
    now: Instant,
) -> Turn<L> {
    let Slot { driver, unread, receiving, .. } = slot;
    let Some(operation) = receiving else { return Turn::Nothing };
    let step = match operation {
        ReceiveState::Head => head(driver, unread, now),
        ReceiveState::Small { bytes, at } => small(driver, unread, bytes, at, now),
        ReceiveState::Fill { buffer, at, to } => {
            fill(driver, unread, &mut buffer.payload_mut()[..*to], at, budget, now)
        }
        ReceiveState::Some { limit, length } => match scratch.payload() {
            Ok(scratch) => some(driver, unread, scratch, (*limit).min(budget), length, now),
            Err(step) => step,
        },
        ReceiveState::Accept => match accept(driver) {
            Ok(link) => {
                *receiving = None;
                return Turn::Done(Completion::Accepted { socket, link });
            }
            Err(step) => step,
        },
    };
    match step {
        IoStep::Again => Turn::Again,
        IoStep::Blocked => Turn::Blocked,
        IoStep::Done | IoStep::Ended(_) => match receiving.take() {
            Some(operation) => Turn::Done(complete(operation, socket, unread, step)),
            None => Turn::Nothing,
        },
    }
}

/// The completion of an operation that has completed or ended.
fn complete<L>(operation: ReceiveState, socket: SocketId, unread: &mut Unread, step: IoStep) -> Completion<L> {
    if let IoStep::Ended(cause) = step {
        return Completion::Ended { socket, side: Side::Receive, cause, buffer: operation.into_buffer() };
    }
    match operation {
        ReceiveState::Head => {
            let mut head = [0; HEAD_BYTES];
            let taken = unread.take(&mut head);
            debug_assert_eq!(taken, HEAD_BYTES, "a head completes when all of it is there");
            Completion::Head { socket, head }
        }
        ReceiveState::Small { bytes, .. } => Completion::Small { socket, bytes },
        ReceiveState::Fill { buffer, .. } => Completion::Filled { socket, buffer },
        ReceiveState::Some { length, .. } => Completion::Some { socket, length },
        ReceiveState::Accept => unreachable!("an accepted connection has its own way out"),
    }
}

fn head<L: Driver>(driver: &mut DriverState<L>, unread: &mut Unread, now: Instant) -> IoStep {
    while unread.length() < HEAD_BYTES {
        if let Some(end) = driver.receive.ended {
            return IoStep::Ended(end);
        }
        match driver.pull(&mut [IoSliceMut::new(unread.space())], now) {
            Moved::Bytes(count) => unread.filled(count),
            Moved::Blocked => {
                unread.shrink();
                return IoStep::Blocked;
            }
            Moved::Ended(end) => return IoStep::Ended(end),
        }
        if !driver.receive.ready && unread.length() < HEAD_BYTES {
            return IoStep::Blocked;
        }
    }
    IoStep::Done
}

fn small<L: Driver>(
    driver: &mut DriverState<L>,
    unread: &mut Unread,
    bytes: &mut [u8],
    at: &mut usize,
    now: Instant,
) -> IoStep {
    debug_assert!(bytes.len() <= SMALL_BYTES_MAX, "checked when it was submitted; far below a turn's budget");
    *at += unread.take(&mut bytes[*at..]);
    while *at < bytes.len() {
        if let Some(end) = driver.receive.ended {
            return IoStep::Ended(end);
        }
        match driver.pull(&mut [IoSliceMut::new(&mut bytes[*at..]), IoSliceMut::new(unread.ahead())], now) {
            Moved::Bytes(count) => {
                let own = count.min(bytes.len() - *at);
                *at += own;
                unread.filled(count - own);
            }
            Moved::Blocked => return IoStep::Blocked,
            Moved::Ended(end) => return IoStep::Ended(end),
        }
        if !driver.receive.ready && *at < bytes.len() {
            return IoStep::Blocked;
        }
    }
    IoStep::Done
}

/// Fills `payload[at..]`. The call that can complete it also requests the following head, so that
/// the head of a block needs no call of its own.
fn fill<L: Driver>(
    driver: &mut DriverState<L>,
    unread: &mut Unread,
    payload: &mut [u8],
    at: &mut usize,
    budget: usize,
    now: Instant,
) -> IoStep {
    let to = payload.len();
    *at += unread.take(&mut payload[*at..]);
    let turn_end = at.saturating_add(budget);
    while *at < to {
        if let Some(end) = driver.receive.ended {
            return IoStep::Ended(end);
        }
        if *at >= turn_end {
            return IoStep::Again;
        }
        let upto = to.min(turn_end);
        let moved = if upto == to {
            driver.pull(&mut [IoSliceMut::new(&mut payload[*at..]), IoSliceMut::new(unread.space())], now)
        } else {
            driver.pull(&mut [IoSliceMut::new(&mut payload[*at..upto])], now)
        };
        match moved {
            Moved::Bytes(count) => {
                let body = count.min(upto - *at);
                *at += body;
                unread.filled(count - body);
            }
            Moved::Blocked => return IoStep::Blocked,
            Moved::Ended(end) => return IoStep::Ended(end),
        }
        if !driver.receive.ready && *at < to {
            return IoStep::Blocked;
        }
    }
    IoStep::Done
}

fn some<L: Driver>(
    driver: &mut DriverState<L>,
    unread: &mut Unread,
    scratch: &mut [u8],
    limit: usize,
    length: &mut usize,
    now: Instant,
) -> IoStep {
    let room = limit.min(scratch.len());
    *length = unread.take(&mut scratch[..room]);
    if *length > 0 {
        return IoStep::Done;
    }
    if let Some(end) = driver.receive.ended {
        return IoStep::Ended(end);
    }
    match driver.pull(&mut [IoSliceMut::new(&mut scratch[..room])], now) {
        Moved::Bytes(count) => {
            *length = count;
            IoStep::Done
        }
        Moved::Blocked => IoStep::Blocked,
        Moved::Ended(end) => IoStep::Ended(end),
    }
}

/// The next connection. Errors of a connection that died while it waited are not errors of the
/// listener; a lack of descriptors is reported, and accepting can be retried later.
fn accept<L: Driver>(driver: &mut DriverState<L>) -> Result<L, IoStep> {
    driver.receive.spent += ACCEPT_COST_BYTES;
    match driver.link.accept() {
        Ok(link) => Ok(link),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            driver.receive.ready = false;
            Err(IoStep::Blocked)
        }
        Err(error) => match error_number(&error) {
            libc::EINTR
            | libc::ECONNABORTED
            | libc::EPROTO
            | libc::ENETDOWN
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::EHOSTUNREACH
            | libc::ENOPROTOOPT
            | libc::ENONET => Err(IoStep::Again),
            number => Err(IoStep::Ended(End::Failed(number))),
        },
    }
}
