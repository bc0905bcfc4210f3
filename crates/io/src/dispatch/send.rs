//! The sending operations, one turn at a time. Bodies in memory are handled in `memory`, files in
//! `direct`.

use super::direct::{self, SendContext};
use super::memory::memory;
use super::slot::{DriverState, IoStep, SendState, Slot, Turn};
use super::{Body, Completion, Instant, Side, SocketId};
use crate::stack::{Driver, Layers};

/// Gives the sending operation of `slot` one turn of about `budget` bytes.
pub(super) fn turn<L: Driver>(
    slot: &mut Slot<L>,
    socket: SocketId,
    tools: &mut SendContext,
    budget: usize,
    now: Instant,
) -> Turn<L> {
    let Slot { driver, sending, .. } = slot;
    let Some(operation) = sending else { return Turn::Nothing };
    let told = std::mem::take(&mut driver.send.told);
    let step = match (driver.send.ended, &mut *operation) {
        (Some(end), _) => IoStep::Ended(end),
        (None, SendState::Connect) => connect(driver),
        (None, SendState::Send(outgoing)) if matches!(outgoing.body, Body::File { .. }) => {
            direct::step(driver, outgoing, socket, tools, budget, told, now)
        }
        (None, SendState::Send(outgoing)) => memory(driver, outgoing, &mut tools.zeros, budget, now),
    };
    let step = if matches!(step, IoStep::Done) { flushed(driver) } else { step };
    if matches!(step, IoStep::Done | IoStep::Ended(_)) {
        tools.pipe.release(socket);
    }
    match step {
        IoStep::Again => Turn::Again,
        IoStep::Blocked => Turn::Blocked,
        IoStep::Done | IoStep::Ended(_) => match sending.take() {
            Some(operation) => Turn::Done(complete(operation, socket, step)),
            None => Turn::Nothing,
        },
    }
}

/// What layers keep belongs to the operation.
fn flushed<L: Driver>(driver: &mut DriverState<L>) -> IoStep {
    let Some(flushed) = driver.link.layers_mut().map(Layers::flush) else { return IoStep::Done };
    match flushed {
        Ok(()) => IoStep::Done,
        Err(error) => driver.send_failed(&error).unwrap_or_else(|| {
            driver.send.ready = true;
            IoStep::Blocked
        }),
    }
}

/// The completion of an operation that has completed or ended.
fn complete<L>(operation: SendState, socket: SocketId, step: IoStep) -> Completion<L> {
    match (step, operation) {
        (IoStep::Ended(cause), operation) => {
            Completion::Ended { socket, side: Side::Send, cause, buffer: operation.into_buffer() }
        }
        (_, SendState::Connect) => Completion::Connected { socket },
        (_, SendState::Send(outgoing)) => {
            let short_by = outgoing.short_by;
            Completion::Sent { socket, buffer: outgoing.into_buffer(), short_by }
        }
    }
}

fn connect<L: Driver>(driver: &mut DriverState<L>) -> IoStep {
    loop {
        match driver.link.connected() {
            Ok(()) => return IoStep::Done,
            Err(error) => {
                if let Some(step) = driver.send_failed(&error) {
                    return step;
                }
            }
        }
    }
}
