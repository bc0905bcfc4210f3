//! What a mounted file system does for the kernel: the calls that it answers, at once or later.

use super::answer::{Answer, Newer};
use super::device::Kernel;
use super::request::Call;
use rustix::io::Errno;

/// Something that is tried again until it succeeds.
pub(crate) trait Waiting: Send {
    /// Tries it; none if it is too early.
    fn attempt(&mut self) -> Option<Result<Answer, Errno>>;
    /// Nobody wants it any more, after it succeeded.
    fn undo(&mut self);
}

/// What becomes of a call.
pub(crate) enum Outcome {
    /// This is its answer.
    Now(Result<Answer, Errno>),
    /// It is answered when this succeeds.
    Later(Box<dyn Waiting>),
}

/// What is mounted.
pub(crate) trait FileSystem: Sync {
    /// Makes a call.
    fn call(&self, call: &Call<'_>) -> Outcome;
    /// The answer to a call that needs nothing of the server; none if [`FileSystem::call`] has to be made. Must not wait.
    fn at_once(&self, call: &Call<'_>) -> Option<Result<Answer, Errno>>;
    /// The kernel forgets an inode that it looked up so often. Must not wait.
    fn forget(&self, inode: u64, lookups: u64);
    /// The kernel has dropped the attributes that were older.
    fn dropped_older(&self, newer: Newer);
    /// The kernel does not know of this answer.
    fn undelivered(&self, answer: Answer);
    /// Whether locks are for it to decide, and not for this machine's kernel alone.
    fn locks(&self) -> bool;
    /// What it does besides, until [`FileSystem::end_work`]: called once, in a thread of its own.
    fn work(&self, kernel: &dyn Kernel);
    /// Nothing is asked any more.
    fn end_work(&self);
}
