//! Connections with faults, drawn from a seed.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::time::Duration;

use xdfs_xio::{ErrorKind, Received, Stack};

/// Nothing that is waited for takes this long, unless it never comes.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// What runs out of time on purpose.
pub const SHORT: Duration = Duration::from_millis(2);

/// Numbers drawn from a seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    pub fn length(&mut self) -> usize {
        let most = [1, 20, 300, 9000][self.below(4) as usize];
        self.below(most) as usize
    }
}

/// Bytes that tell which write of which seed they are of, and where in it they stand.
pub fn content(seed: u64, write: usize, length: usize) -> Vec<u8> {
    let start = (seed as usize).wrapping_mul(31).wrapping_add(write.wrapping_mul(7919));
    (start..start + length).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 11) as u8).collect()
}

/// What an operation that failed had moved. A layer that broke its contract, as `verify` finds out, is no
/// failure that was drawn.
pub fn transferred(error: &xdfs_xio::Error) -> usize {
    assert_ne!(error.kind(), ErrorKind::Driver, "{error}");
    error.transferred()
}

pub fn moved(result: xdfs_xio::Result<Received>) -> usize {
    result.map_or_else(|error| transferred(&error), |received| received.bytes)
}

/// A stack with faults, and mostly a layer above them.
pub fn stack(random: &mut Random) -> Stack {
    let mut odds = || [0, 30, 250, 600][random.below(4) as usize];
    let (short, blocked, late) = (odds(), odds(), odds());
    let errors = [0, 0, 5, 100][random.below(4) as usize];
    let seed = random.below(1 << 32);
    let delay = if random.below(20) == 0 { "1ms" } else { "0ms" };
    let fault = format!("seed={seed};errors={errors};short={short};blocked={blocked};late={late};delay={delay}");
    let above = ["", ",noop", ",rate=1GB/s", ",fault=7", ",queue=300", ",bounce=50", ",verify", ",queue,verify"]
        [random.below(8) as usize];
    Stack::new().push_all(&format!("unix,fault:{fault}{above}")).unwrap()
}
