//! The sending operations, one turn at a time. Bodies in memory are handled here, files in
//! `direct`.

use super::direct::{self, Files, PipeRoute};
use super::receive::Turn;
use super::slot::{DriverState, IoStep, Moved, Outgoing, SendState, Slot, error_number};
use super::{Body, Completion, End, HEAD_BYTES, Instant, Side, SocketId};
use crate::buf::Buffer;
use crate::stack::{Driver, Layers};
use std::io::{self, IoSlice};

/// Size of the block of zeros: it stays in the cache, and one call sends it up to four times.
pub(super) const ZERO_BLOCK_BYTES: usize = 256 * 1024;
const ZERO_SLICES: usize = 4;

/// Buffers needed for sending; one set per dispatcher.
pub(super) struct SendContext {
    pub(super) files: Files,
    pub(super) pipe: PipeRoute,
    /// Never written to.
    pub(super) zeros: LazyBuffer,
    /// Where received bytes wait for their caller; between two completions it is available for file
    /// bytes.
    pub(super) scratch: LazyBuffer,
}

/// A buffer that is allocated on first use: many dispatchers are short-lived and never need theirs.
pub(super) struct LazyBuffer {
    bytes: usize,
    buffer: Option<Buffer>,
}

impl LazyBuffer {
    pub(super) fn new(bytes: usize) -> Self {
        Self { bytes, buffer: None }
    }

    /// Its payload area; the socket that needs it ends if there is no memory.
    pub(super) fn payload(&mut self) -> Result<&mut [u8], IoStep> {
        if self.buffer.is_none() {
            let made = Buffer::new(self.bytes).map_err(|error| IoStep::Ended(End::Failed(error_number(&error))))?;
            self.buffer = Some(made);
        }
        Ok(self.made())
    }

    /// The payload area if it has been allocated; otherwise empty.
    pub(super) fn made(&mut self) -> &mut [u8] {
        self.buffer.as_mut().map(Buffer::payload_mut).unwrap_or_default()
    }
}

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
        Err(error) => stopped(line, &error).unwrap_or_else(|| {
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
                if let Some(step) = stopped(line, &error) {
                    return step;
                }
            }
        }
    }
}

/// Sends head and body from memory, as much per call as the budget allows.
pub(super) fn memory<L: Driver>(
    line: &mut DriverState<L>,
    outgoing: &mut Outgoing,
    zeros: &mut LazyBuffer,
    budget: usize,
    now: Instant,
) -> IoStep {
    let mut left = budget;
    while outgoing.rest() > 0 {
        if left == 0 {
            return IoStep::Again;
        }
        let zeros = match outgoing.body {
            Body::Zero { .. } => match zeros.payload() {
                Ok(zeros) => zeros,
                Err(step) => return step,
            },
            _ => &mut [],
        };
        let (slices, count, bytes) = slices(outgoing, zeros, left);
        let more = outgoing.rest() > bytes as u64 || matches!(outgoing.body, Body::Lead(_));
        match line.push(&slices[..count], more, now) {
            Moved::Bytes(moved) => {
                outgoing.advance(moved);
                left = left.saturating_sub(moved);
                if moved < bytes && !line.send.ready {
                    return IoStep::Blocked;
                }
            }
            Moved::Blocked => return IoStep::Blocked,
            Moved::Ended(end) => return IoStep::Ended(end),
        }
    }
    IoStep::Done
}

/// The data of the next call: the slices, their count, and their bytes. The head is included
/// whatever the budget is.
fn slices<'a>(
    outgoing: &'a Outgoing,
    zeros: &'a [u8],
    budget: usize,
) -> ([IoSlice<'a>; 1 + ZERO_SLICES], usize, usize) {
    let mut slices = [IoSlice::new(&[]); 1 + ZERO_SLICES];
    let (mut count, mut bytes) = (0, 0);
    let mut add = |slice: &'a [u8]| {
        if !slice.is_empty() {
            slices[count] = IoSlice::new(slice);
            count += 1;
            bytes += slice.len();
        }
    };
    add(&outgoing.head[outgoing.head_at..]);
    let at = outgoing.at as usize;
    let cut = |body: &'a [u8]| &body[at..body.len().min(at.saturating_add(budget))];
    match &outgoing.body {
        Body::None | Body::File { .. } => {}
        Body::Bytes(body) | Body::Lead(body) => add(cut(body)),
        Body::Buffer { buffer, from, to } => add(cut(&buffer.payload()[*from..*to])),
        Body::Zero { length } => {
            let mut rest = (length - outgoing.at).min(budget as u64) as usize;
            for _ in 0..ZERO_SLICES {
                let part = rest.min(ZERO_BLOCK_BYTES);
                add(&zeros[..part]);
                rest -= part;
            }
        }
    }
    (slices, count, bytes)
}

/// Sends the head alone and tells the transport that the body follows; `None` when the head has
/// been sent.
pub(super) fn head_first<L: Driver>(
    line: &mut DriverState<L>,
    outgoing: &mut Outgoing,
    now: Instant,
) -> Option<IoStep> {
    while outgoing.head_at < HEAD_BYTES {
        let head = [IoSlice::new(&outgoing.head[outgoing.head_at..])];
        match line.push(&head, outgoing.length() > 0, now) {
            Moved::Bytes(count) => outgoing.advance(count),
            Moved::Blocked => return Some(IoStep::Blocked),
            Moved::Ended(end) => return Some(IoStep::Ended(end)),
        }
    }
    None
}

/// The effect of a call that returned an error on the sending side; none for a call that must be
/// repeated.
pub(super) fn stopped<L: Driver>(line: &mut DriverState<L>, error: &io::Error) -> Option<IoStep> {
    let moved = line.failure(error)?;
    Some(match line.send_stopped(moved) {
        Moved::Ended(end) => IoStep::Ended(end),
        _ => IoStep::Blocked,
    })
}
