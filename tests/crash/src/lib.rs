//! What a crash leaves, at every moment at which there can be one.
//!
//! - [`disk`]: what a file system may lose in a power cut, as a small model, and [`states`]: every order in which several
//!   commits can run on it, every cut of each, judged by what was told;
//!
//! Tests run a share of it that takes seconds and print how much; `cargo run --release -p xdfs-test-crash` runs it at length.

pub mod disk;
pub mod states;
