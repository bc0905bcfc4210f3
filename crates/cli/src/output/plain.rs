//! For pipes, logs and `-q`: silence, but for what a person has to know.

use xdfs_proto::base::ErrorKind;

use super::{Item, Output, Transfer, complain};
use crate::exit::Failure;

/// No progress, no success: errors and, unless quiet, notes.
#[derive(Debug)]
pub(super) struct Plain {
    quiet: bool,
}

impl Plain {
    pub(super) fn new(quiet: bool) -> Self {
        Self { quiet }
    }
}

impl Output for Plain {
    fn begin(&mut self, _item: &Item) {}

    fn progress(&mut self, _bytes: u64, _size: Option<u64>) {}

    fn finished(&mut self, _item: &Item, _transfer: &Transfer) -> Result<(), Failure> {
        Ok(())
    }

    fn kept(&mut self, item: &Item) -> Result<(), Failure> {
        self.note(&kept_message(item));
        Ok(())
    }

    fn failed(&mut self, _path: &str, _kind: ErrorKind, message: &str) -> Result<(), Failure> {
        complain(message);
        Ok(())
    }

    fn note(&mut self, message: &str) {
        if !self.quiet {
            complain(message);
        }
    }
}

/// The words for a target that was kept.
pub(super) fn kept_message(item: &Item) -> String {
    format!("{}: it exists and was kept (-n)", item.target)
}
