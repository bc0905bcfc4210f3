//! A session under an arbitrary peer that is authenticated (its tags are right) and may say anything, while storage, time
//! and the application do whatever the input says. The input is a program of operations that is run several times over,
//! so that what is kept per round shows: a session must never panic, never ask without end, never grow without bound.

mod step;
mod world;

use crate::heap;
use step::{Bytes, Step};
use world::World;

/// Rounds of a program. What a round leaves behind shows after some, what one byte leaves behind after many.
const ROUNDS: usize = 6;
/// Rounds that a program gets which lived through the first ones without the session's end.
const MANY_ROUNDS: usize = 192;
/// Steps of a program.
const STEPS_MAX: usize = 96;
/// What a session may hold: a few operations with names, a few channels, a span of sixteen blocks.
const BYTES_MAX: usize = 256 * 1024;
/// What the second half of many rounds may add. Lists double their room; nothing else is left to grow by then.
const GROWTH_MAX: usize = 24 * 1024;

pub(super) fn run(input: &[u8]) {
    repeated(input, false);
}

/// The program that an input is, a step per line.
pub(crate) fn program(input: &[u8]) -> String {
    let mut bytes = Bytes::new(input);
    let mut text = format!("shape {}", bytes.byte());
    while !bytes.is_empty() {
        text.push_str(&format!("\n{:?}", Step::read(&mut bytes)));
    }
    text
}

/// `leaky`: every step leaves something behind, for the canary.
pub(super) fn repeated(input: &[u8], leaky: bool) {
    let mut bytes = Bytes::new(input);
    let before = heap::live();
    let shape = bytes.byte();
    let mut world = World::new(shape);
    let mut steps = Vec::with_capacity(STEPS_MAX);
    while !bytes.is_empty() && steps.len() < STEPS_MAX {
        steps.push(Step::read(&mut bytes));
    }
    let program = heap::live() - before;
    let mut left = Vec::new();
    let mut halfway = None;
    // The first steps may be for once: what opens an operation, before the rounds that go on with it.
    let opening = usize::from(shape >> 5).min(steps.len());
    for round in 0..MANY_ROUNDS {
        for step in &steps[if round == 0 { 0 } else { opening }..] {
            world.apply(step);
            if leaky {
                left.push([0_u8; 64]);
            }
            if world.is_over() {
                return world.finish();
            }
        }
        let held = heap::live() - before - program;
        assert!(held <= BYTES_MAX, "the session holds {held} bytes after {round} rounds of {} steps", steps.len());
        if round == ROUNDS && steps.len() < 3 {
            break;
        }
        if round == MANY_ROUNDS / 2 {
            halfway = Some(held);
        }
        if let Some(halfway) = halfway {
            let more = held.saturating_sub(halfway);
            assert!(more <= GROWTH_MAX, "the session grew by {more} bytes in {} rounds", round - MANY_ROUNDS / 2);
        }
    }
    world.finish();
}
