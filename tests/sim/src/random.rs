//! All chance of a run: one number in, the same decisions out. SplitMix64, because it is short and needs no warm-up.
//!
//! It must not be asked for anything that a run prints only: a trace that is switched on would change the run.

/// The random source of a run: SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A sequence of its own for `purpose`, so that one more decision in one place does not shift all others.
    pub fn fork(&self, purpose: u64) -> Self {
        let mut fork = Self(self.0 ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
        fork.bits();
        fork
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// A number below `bound`, 0 where that is 0. The bias is far below what a test could notice.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// A number from `low` (at least 1) to `high` whose magnitude is even: small ones are as likely as large ones.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let (from, to) = (low.ilog2(), high.ilog2());
        let exponent = self.between(from.into(), to.into()) as u32;
        let value = (1u64 << exponent) + self.below(1 << exponent);
        value.clamp(low, high)
    }

    /// True `per_mille` times in a thousand.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < per_mille.into()
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
