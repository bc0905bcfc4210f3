//! Sends heads, and bodies that are in memory or zeros.

use super::lazy_buffer::LazyBuffer;
use super::slot::{DriverState, IoStep, Moved, Outgoing};
use super::{Body, HEAD_BYTES, Instant};
use crate::stack::Driver;
use std::io::IoSlice;

/// Size of the block of zeros: it stays in the cache, and one call sends it up to four times.
pub(super) const ZERO_BLOCK_BYTES: usize = 256 * 1024;
const ZERO_SLICES: usize = 4;

/// Sends head and body from memory, as much per call as the budget allows.
pub(super) fn memory<L: Driver>(
    driver: &mut DriverState<L>,
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
        match driver.push(&slices[..count], more, now) {
            Moved::Bytes(moved) => {
                outgoing.advance(moved);
                left = left.saturating_sub(moved);
                if moved < bytes && !driver.send.ready {
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
    driver: &mut DriverState<L>,
    outgoing: &mut Outgoing,
    now: Instant,
) -> Option<IoStep> {
    while outgoing.head_at < HEAD_BYTES {
        let head = [IoSlice::new(&outgoing.head[outgoing.head_at..])];
        match driver.push(&head, outgoing.length() > 0, now) {
            Moved::Bytes(count) => outgoing.advance(count),
            Moved::Blocked => return Some(IoStep::Blocked),
            Moved::Ended(end) => return Some(IoStep::Ended(end)),
        }
    }
    None
}
