//! The engine connects protocol and kernel: the pump drives a session machine over a dispatcher and
//! stores, with one thread per pipeline (the papers' MTEDP model).
//!
//! - [`pump`]: the loop of one pipeline: one input, then every output, then wait;
//! - [`transfer`]: what an operation reads from or writes to, and its helper threads;
//! - [`schedule`]: chooses the next storage call or slice of long work, as a plain value;
//!   [`blocking`]: the threads that run them;
//! - [`opening`]: the handshake and JOIN of both sides, without input or output;
//! - [`idle`]: a pipeline without an operation, which its owner watches without a thread;
//! - [`record`]: what protects a channel's records, and one whose head has arrived;
//! - [`payload`]: the memory of batches and replies, used again;
//! - [`pipeline`]: a pipeline's channels and machine as a plain value that moves between threads.
//!
//! This crate opens no socket and no file by name: links come from `client` and `server`, files
//! from their hosts.
#![forbid(unsafe_code)]

pub mod blocking;
pub mod bounds;
mod call_lane;
mod control;
pub mod host;
pub mod idle;
pub mod journal;
pub mod kinds;
pub mod mailbox;
pub mod opening;
pub mod pace;
pub mod payload;
pub mod pipeline;
pub mod pump;
pub mod record;
pub mod schedule;
pub mod transfer;
