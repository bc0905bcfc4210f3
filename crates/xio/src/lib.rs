//! Everything that touches the kernel: the event dispatcher, transports, stores, buffers and driver stacks.
//!
//! Each folder is a room: its `mod.rs` starts with the contract that every member keeps, each member is one file, and
//! one conformance suite in `tests/conformance` is run over all members. This is the only crate with `unsafe`, and in
//! it only `sys` and `buf` have any.
//!
//! Of `proto` it uses `proto::base` alone (ids, extents, relative paths, error kinds), so that a driver author never
//! meets the protocol.

pub mod buf;
pub mod dispatch;
pub mod host;
pub mod stack;
pub mod store;
mod sys;
pub mod transport;
