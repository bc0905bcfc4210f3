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
    let Slot { line, sending, .. } = slot;
    let Some(operation) = sending else { return Turn::Nothing };
    let told = std::mem::take(&mut line.send.told);
    let step = match (line.send.ended, &mut *operation) {
        (Some(end), _) => IoStep::Ended(end),
        (None, SendState::Connect) => connect(line),
        (None, SendState::Send(outgoing)) if matches!(outgoing.body, Body::File { .. }) => {
            direct::step(line, outgoing, socket, tools, budget, told, now)
        }
        (None, SendState::Send(outgoing)) => memory(line, outgoing, &mut tools.zeros, budget, now),
    };
    let step = if matches!(step, IoStep::Done) { flushed(line) } else { step };
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
fn flushed<L: Driver>(line: &mut DriverState<L>) -> IoStep {
    let Some(flushed) = line.link.layers_mut().map(Layers::flush) else { return IoStep::Done };
    match flushed {
        Ok(()) => IoStep::Done,
        Err(error) => line.send_failed(&error).unwrap_or_else(|| {
            line.send.ready = true;
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

fn connect<L: Driver>(line: &mut DriverState<L>) -> IoStep {
    loop {
        match line.link.connected() {
            Ok(()) => return IoStep::Done,
            Err(error) => {
                if let Some(step) = line.send_failed(&error) {
                    return step;
                }
            }
        }
    }
}
