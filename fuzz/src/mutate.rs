//! Changes an input a little. What a change is worth is found out by running it.

use crate::random::Random;

/// Longest input that is made: every length field of the protocol's messages is reached with less.
const INPUT_BYTES_MAX: usize = 72 * 1024;

/// Values at which integers of the wire change their width, and limits of the protocol.
const NUMBERS: [u64; 16] = [
    0,
    1,
    0x3f,
    0x40,
    0xff,
    0x100,
    0x3fff,
    0x4000,
    0xffff,
    0x1_0000,
    0x3fff_ffff,
    0x4000_0000,
    0xffff_ffff,
    (1 << 62) - 1,
    1 << 20,
    1 << 26,
];

/// One to five changes.
pub(crate) fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    for _ in 0..=random.below(5) {
        change(input, corpus, random);
    }
    input.truncate(INPUT_BYTES_MAX);
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    if input.is_empty() {
        return input.push(random.byte());
    }
    let at = random.below(input.len());
    match random.below(10) {
        0 => input[at] ^= 1 << random.below(8),
        1 => input[at] = random.byte(),
        2 => input[at] = input[at].wrapping_add(1),
        3 => input[at] = [0, 1, 0x3f, 0x40, 0x7f, 0x80, 0xbf, 0xc0, 0xff][random.below(9)],
        4 => input.insert(at, random.byte()),
        5 => drop(input.drain(at..(at + 1 + random.below(8)).min(input.len()))),
        6 => input.truncate(at),
        7 => number(input, at, random),
        8 => {
            let end = (at + 1 + random.below(32)).min(input.len());
            let copy = input[at..end].to_vec();
            let place = random.below(input.len());
            drop(input.splice(place..place, copy));
        }
        _ => {
            let other = &corpus[random.below(corpus.len())];
            let from = if other.is_empty() { 0 } else { random.below(other.len()) };
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
    }
}

/// Writes a telling number, in the form that integers have on the wire or big-endian of some width.
fn number(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let value = NUMBERS[random.below(NUMBERS.len())];
    let bytes = value.to_be_bytes();
    let width = 1 << random.below(4);
    let mut written = bytes[8 - width..].to_vec();
    if random.below(2) == 0 {
        written[0] = written[0] & 0x3f | (width.trailing_zeros() as u8) << 6;
    }
    let end = (at + width).min(input.len());
    drop(input.splice(at..end, written));
}
