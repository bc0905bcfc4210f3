//! The drivers of this crate, one file each, and the table of their names.
//!
//! Each file says what its driver promises beside the contract of [`crate::Flow`]; the tests in
//! `tests/handles.rs` run over all of them.

mod noop;
mod rate;
mod sockets;
mod tcp;
mod unix;

use crate::driver::Driver;
use std::sync::Arc;

/// The drivers by name.
pub(crate) fn built_in() -> Vec<(&'static str, Arc<dyn Driver>)> {
    vec![
        ("noop", Arc::new(noop::Noop)),
        ("rate", Arc::new(rate::Rate)),
        ("tcp", Arc::new(tcp::Tcp)),
        ("unix", Arc::new(unix::Unix)),
    ]
}
