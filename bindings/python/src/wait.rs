//! Waiting without the interpreter's lock, and ending the wait when a signal arrives.
//!
//! Python runs the handlers of signals on its main thread alone, between two of its instructions. What
//! blocks there is done by another thread, while the main thread looks for signals; other threads do it
//! themselves.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// How often signals are looked for: a person does not notice that Ctrl-C took so long.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// Whether this is the thread that handles signals: Linux gives it the process's id.
fn is_main_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// Does `work` without the interpreter's lock. After a signal whose handler raises an exception,
/// `work` goes on without a caller, and its outcome is dropped.
pub(crate) fn blocking<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    if !is_main_thread() {
        return Ok(py.detach(work));
    }
    let (sender, mut receiver) = sync_channel(1);
    let work = move || {
        // Nobody waits for it any more after a signal.
        let _ = sender.send(work());
    };
    std::thread::Builder::new().name("xdfs-call".to_owned()).spawn(work)?;
    loop {
        let waited;
        (waited, receiver) = py.detach(move || (receiver.recv_timeout(TICK), receiver));
        match waited {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("a call of xdfs has failed")),
        }
    }
}
