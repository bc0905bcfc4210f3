//! Everything that touches the kernel: the event dispatcher, transports, stores, buffers and driver
//! stacks.
//!
//! Each folder has a `mod.rs` that starts with the contract that every implementation keeps; each implementation is
//! one file, and one conformance suite in `tests/conformance` runs over all implementations. This is the
//! only crate with `unsafe`, and within it only `sys` and `buf` have any.
//!
//! It uses only `proto::base` of `proto` (ids, extents, relative paths, error kinds), so that the
//! author of a driver needs no knowledge of the protocol.

pub mod buf;
pub mod dispatch;
pub mod host;
pub mod process;
pub mod stack;
pub mod store;
mod sys;
pub mod transport;
