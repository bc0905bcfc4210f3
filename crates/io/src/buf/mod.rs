//! Page-aligned buffers with space for a record's head before the payload, and their pool.
//!
//! # Contract
//!
//! A [`Pool`] serves one thread: it has no lock and counts only the buffers in use. A [`Buffer`]
//! may be moved: to a writer thread and back, or into a dispatcher and back with a completion. The
//! kernel allocates memory page by page, on first access, so a buffer that was created and never
//! filled costs only address space.
//!
//! This module has no policy: the number and size of buffers is the caller's budget (`engine`).

mod buffer;
mod pool;

pub use buffer::{Buffer, HEAD_IN_FRONT_BYTES, HEADROOM_BYTES};
pub use pool::Pool;
