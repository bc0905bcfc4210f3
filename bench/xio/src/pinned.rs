//! Threads that wake each other, on one processor: where the kernel puts them otherwise differs from run to run, and a
//! wake-up of another processor costs as much as ten messages.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// Does the work on one processor, with the threads that it starts. Those that go on keep to it.
pub(crate) fn on_one_processor<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let all = sched_getaffinity(None)?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|processor| all.is_set(*processor));
    let mut one = CpuSet::new();
    one.set(last.ok_or_else(|| io::Error::other("there is no processor for this program"))?);
    sched_setaffinity(None, &one)?;
    let outcome = work();
    sched_setaffinity(None, &all)?;
    outcome
}
