//! What a crash leaves, at every moment at which there can be one.
//!
//! - [`disk`]: what a file system may lose in a power cut, as a small model, and [`states`]: every order in which several
//!   commits can run on it, every cut of each, judged by what was told;
//! - [`loopback`]: a real ext4 in a file, whose power is cut around real commits, and [`markers`] beside real markers;
//! - [`trace`]: the real binary under strace in every [`scenario`], killed at calls on the file system, or told that they failed;
//! - [`small`]: a program that puts a group of small files, under strace, killed at each call or told that it failed, [`batch`]: the same through the
//!   real server, and [`small_cuts`]: power cuts behind each step of such a group;
//! - [`recorded`]: the calls that the real store made, replayed on a disk that loses what ext4 may lose;
//! - [`tamper`]: the real binary, whose writes take less than they say.
//!
//! Tests run a share that takes seconds and print how much; `cargo run -p xtask -- long crash` and `long cuts` run more.

pub mod batch;
pub mod disk;
pub mod loopback;
pub mod markers;
pub mod recorded;
pub mod scenario;
pub mod small;
pub mod small_cuts;
pub mod states;
pub mod tamper;
pub mod trace;
