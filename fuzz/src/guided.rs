//! One target under libFuzzer, which chooses inputs by the branches they reach: `XDFS_FUZZ_TARGET` names it. `guide.rs` builds
//! and starts this program. It must not judge anything itself: the targets do.
#![no_main]
#![allow(dead_code, reason = "the modules are those of the other program, which uses more of them")]

mod conversations;
mod corpus;
mod heap;
mod mutate;
mod random;
mod run;
mod seeds;
mod target;

use std::sync::OnceLock;
use target::{CANARIES, TARGETS, Target};

#[global_allocator]
static HEAP: heap::Counting = heap::Counting;

/// The target of this process.
fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<&Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("XDFS_FUZZ_TARGET").expect("XDFS_FUZZ_TARGET names a target");
        TARGETS.iter().chain(CANARIES).find(|target| target.name == name).expect("there is such a target")
    })
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Err(what) = run::once(chosen(), input) {
        panic!("{}: {what}", chosen().name);
    }
});
