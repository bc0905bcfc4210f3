//! Remote files from end to end: a real client, a real server in one process, and the file on disk.
#![allow(clippy::disallowed_methods, reason = "tests set their scenes with the standard library")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the finding")]

mod access;
mod ahead;
mod asynchronous;
mod audit;
mod bad_input;
mod leases;
mod locks;
mod losses;
mod openers;
mod others;
mod pipes;
mod random;
mod ranges;
mod rights;
#[path = "../support/mod.rs"]
mod support;
mod together;
mod watches;

use std::sync::Arc;
use support::serving::Serving;
use xdfs_client::ErrorKind;
use xdfs_client::file::{File, OpenOptions, Remote};

/// Reads and writes.
pub(crate) const BOTH: OpenOptions = OpenOptions::new().read(true).write(true);

pub(crate) fn remote(serving: &Serving) -> Arc<Remote> {
    Remote::with_patience(serving.options(2), support::PATIENCE)
}

/// The kind of the error with which a file is not opened.
#[track_caller]
pub(crate) fn refused(remote: &Arc<Remote>, path: &str, options: &OpenOptions) -> ErrorKind {
    match File::open(remote, path, options) {
        Ok(_) => panic!("'{path}' was opened"),
        Err(error) => error.kind,
    }
}
