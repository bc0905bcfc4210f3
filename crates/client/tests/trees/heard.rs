//! Applications that remember what they were told.

use std::time::Instant;
use xdfs_client::tree::{EntryAction, Observer, Summary};
use xdfs_client::{Error, ErrorKind};

use super::support::PATIENCE;

pub struct Heard {
    pub done: Vec<(Vec<u8>, EntryAction)>,
    pub failed: Vec<(Vec<u8>, ErrorKind)>,
    pub notes: Vec<String>,
    until: Instant,
}

impl Default for Heard {
    fn default() -> Self {
        Self { done: Vec::new(), failed: Vec::new(), notes: Vec::new(), until: Instant::now() + 3 * PATIENCE }
    }
}

impl Observer for Heard {
    fn done(&mut self, path: &[u8], action: EntryAction) {
        self.done.push((path.to_vec(), action));
    }

    fn failed(&mut self, path: &[u8], error: &Error) {
        self.failed.push((path.to_vec(), error.kind));
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    fn should_continue(&mut self, _summary: &Summary, _bytes_moving: u64) -> bool {
        assert!(Instant::now() < self.until, "the copy goes on for ever: {:?} {:?}", self.failed, self.notes);
        true
    }
}

/// Does something when the first answer has come, which tells what the target has.
pub struct Meddler<'m> {
    pub heard: Heard,
    pub act: Option<&'m dyn Fn()>,
    /// With each answer, and each name that is done.
    pub each: Option<&'m dyn Fn()>,
}

impl Observer for Meddler<'_> {
    fn done(&mut self, path: &[u8], action: EntryAction) {
        self.each.into_iter().for_each(|act| act());
        self.heard.done(path, action);
    }

    fn failed(&mut self, path: &[u8], error: &Error) {
        self.heard.failed(path, error);
    }

    fn note(&mut self, text: &str) {
        self.heard.note(text);
    }

    fn should_continue(&mut self, summary: &Summary, bytes_moving: u64) -> bool {
        self.act.take().into_iter().chain(self.each).for_each(|act| act());
        self.heard.should_continue(summary, bytes_moving)
    }
}
