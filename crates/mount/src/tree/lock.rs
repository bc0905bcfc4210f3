//! Locks of whole files (flock), which the server's own programs and other clients see.

use super::Tree;
use super::data::OpenFile;
use crate::errno;
use crate::kernel::{Answer, Outcome, Waiting};
use rustix::io::Errno;
use std::sync::Arc;
use xdfs_client::ErrorKind;

/// Kinds of locks, as in fcntl(2).
const SHARED: u32 = 0;
const EXCLUSIVE: u32 = 1;

/// A lock that is tried until somebody else ends theirs.
struct WaitingFlock {
    open: Arc<OpenFile>,
    exclusive: bool,
}

impl Waiting for WaitingFlock {
    fn attempt(&mut self) -> Option<Result<Answer, Errno>> {
        match self.open.file.try_lock(self.exclusive) {
            Ok(()) => Some(Ok(Answer::Locked { inode: self.open.inode })),
            Err(error) if error.kind == ErrorKind::Locked => None,
            Err(error) => Some(Err(errno::of(&error))),
        }
    }

    fn undo(&mut self) {
        // Otherwise it ends when the file is closed.
        let _ = self.open.file.unlock();
    }
}

impl Tree {
    pub(super) fn lock(&self, handle: u64, kind: u32, whole_file: bool, wait: bool) -> Outcome {
        if !whole_file {
            return Outcome::Now(Err(Errno::NOSYS));
        }
        let Some(open) = self.files.find(handle) else { return Outcome::Now(Err(Errno::BADF)) };
        let exclusive = match kind {
            SHARED => false,
            EXCLUSIVE => true,
            _ => {
                let done = open.file.unlock().map(|()| Answer::Done);
                return Outcome::Now(done.map_err(|error| errno::of(&error)));
            }
        };
        let mut waiting = WaitingFlock { open, exclusive };
        match waiting.attempt() {
            Some(outcome) => Outcome::Now(outcome),
            None if wait => Outcome::Later(Box::new(waiting)),
            None => Outcome::Now(Err(Errno::AGAIN)),
        }
    }
}
