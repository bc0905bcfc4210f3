//! The xdfs protocol, without input or output: what to send, what to expect, what it means.
//!
//! Nothing here opens a socket or a file, reads a clock or draws a random number. Bytes,
//! completions and the time come in as arguments; the resulting actions come out of `poll`. The
//! same machines therefore run over epoll, in the simulator and in the model checker. The run loop
//! of every driver is one page: **one input, then drain every output, then wait.**
//!
//! File bytes never enter this crate. It refers to ranges; the engine moves the bytes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod admit;
pub mod base;
pub mod channel;
pub mod features;
pub mod lease;
pub mod limits;
pub mod negotiate;
pub mod notices;
pub mod plan;
pub mod range_locks;
pub mod registry;
pub mod session;
pub mod wire;
