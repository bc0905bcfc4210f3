//! What a run did, as one number that two runs of a seed must share, and on demand as lines to read.

use crate::schedule::Who;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use xdfs_proto::base::Instant;

/// The trace of a run: one number that two runs of a seed must share, and lines on demand.
pub struct Trace {
    hasher: Mixer,
    print: bool,
}

impl Trace {
    /// An empty trace that is printed, or not.
    pub const fn new(print: bool) -> Self {
        Self { hasher: Mixer(0x9e37_79b9_7f4a_7c15), print }
    }

    /// Something happened to `who`.
    pub fn note(&mut self, now: Instant, who: Who, what: &(impl Hash + Debug)) {
        (now, who).hash(&mut self.hasher);
        what.hash(&mut self.hasher);
        if self.print {
            let text = format!("{what:?}");
            let cut = text.char_indices().nth(400).map_or(text.len(), |(at, _)| at);
            println!("{:>12} {:?} {}: {}", now.0, who.side, who.pipeline, &text[..cut]);
        }
    }

    /// A remark for the reader alone.
    pub fn remark(&self, now: Instant, text: impl FnOnce() -> String) {
        if self.print {
            println!("{:>12} -- {}", now.0, text());
        }
    }

    /// The number.
    pub fn hash(&self) -> u64 {
        self.hasher.finish()
    }
}

/// A hasher that is the same in every build and on every machine, unlike the standard library's.
#[derive(Clone)]
pub struct Mixer(pub u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}
