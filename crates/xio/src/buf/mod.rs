//! Page-aligned buffers with room for a record's head in front of the payload, and the pool that hands them out.
//!
//! # Contract
//!
//! A [`Pool`] serves one thread: it has no lock and counts nothing but what it handed out. A [`Buffer`] may travel: to
//! a writer thread and back, or into a dispatcher and out with a completion. Memory comes from the kernel a page at a
//! time, when it is first touched, so a buffer that was made and never filled costs address space and nothing else.
//!
//! This room holds no policy: how many buffers of which size exist is the caller's budget (`engine`).

mod buffer;
mod pool;

pub use buffer::{Buffer, HEAD_IN_FRONT_BYTES, HEADROOM_BYTES};
pub use pool::Pool;
