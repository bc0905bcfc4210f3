//! An application that remembers what it was told.

use std::time::Instant;
use xdfs_client::tree::{Deed, Observer, Summary};
use xdfs_client::{Error, ErrorKind};

use super::support::PATIENCE;

pub struct Heard {
    pub done: Vec<(Vec<u8>, Deed)>,
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
    fn done(&mut self, path: &[u8], deed: Deed) {
        self.done.push((path.to_vec(), deed));
    }

    fn failed(&mut self, path: &[u8], error: &Error) {
        self.failed.push((path.to_vec(), error.kind));
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    fn goes_on(&mut self, _summary: &Summary, _bytes_moving: u64) -> bool {
        assert!(Instant::now() < self.until, "the copy goes on for ever: {:?} {:?}", self.failed, self.notes);
        true
    }
}
