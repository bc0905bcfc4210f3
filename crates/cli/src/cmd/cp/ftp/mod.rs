//! Copies of single files from and to FTP servers.
//!
//! A download is staged like every other and gets its name when it is whole. An upload is written
//! under a temporary name in its target's directory and renamed, where the server renames files.

pub(in crate::cmd::cp) mod between;
mod between_tree;
mod download;
mod ends;
mod relay;
mod surplus;
mod tree_state;
mod upload;

use std::io;
use std::time::{Duration, Instant};

use xdfs_client::tree::Summary;
use xdfs_client::{Error, ErrorKind, Facts, Level, Safety};
use xdfs_gridftp::client;
use xdfs_gridftp::mode_e::STREAMS_MAX;

use super::failure::Failed;
use super::monitor::{LOOK_EVERY, TransferMonitor};
use crate::cmd::ftp::facts::facts_of;
use crate::cmd::ftp::{FtpServer, LARGE_BYTES_MIN, error_of};
use crate::output::{CopiedFile, CopyItem};
use crate::plan::{Check, Options};
use crate::url::{Ftp, Url, Via};

/// What is said where contents cannot be compared.
const UNVERIFIED: &str = "not verified: the server computes no SHA-256; lengths were compared";

/// Watches a file that moves: shows its progress, and stops it on request.
struct Progress<'m, 'a> {
    monitor: &'m mut TransferMonitor<'a>,
    size: Option<u64>,
    done: u64,
    looked: Instant,
}

impl<'m, 'a> Progress<'m, 'a> {
    fn new(monitor: &'m mut TransferMonitor<'a>, item: &CopyItem, size: Option<u64>, done: u64) -> Self {
        monitor.output().begin(item);
        Self { monitor, size, done, looked: Instant::now() }
    }

    /// So many bytes more have moved.
    fn add(&mut self, bytes: usize) -> Result<(), Error> {
        self.reach(self.done + bytes as u64)
    }

    /// So many bytes are there.
    fn reach(&mut self, bytes: u64) -> Result<(), Error> {
        self.done = bytes;
        if self.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        self.monitor.reach(self.done);
        self.monitor.output().progress(self.done, self.size);
        if self.monitor.stopped() { Err(Error::new(ErrorKind::Cancelled, "cancelled")) } else { Ok(()) }
    }
}

/// Keeps our own error while the session reports that the transfer failed.
#[derive(Default)]
struct OwnError(Option<Error>);

impl OwnError {
    fn keep<T>(&mut self, outcome: Result<T, Error>) -> io::Result<T> {
        outcome.map_err(|error| {
            self.0 = Some(error);
            io::ErrorKind::Other.into()
        })
    }

    /// The error of a transfer: ours, or the session's.
    fn of(self, error: client::Error) -> Error {
        self.0.unwrap_or_else(|| error_of(error))
    }
}

/// Whether a file of this size may move on several connections.
fn may_be_parallel(url: &Url, server: &FtpServer, size: Option<u64>) -> bool {
    let is_able = url.via == Via::Ftp(Ftp::Grid) && server.session.features().parallel;
    is_able && size.is_none_or(|size| size >= LARGE_BYTES_MIN)
}

/// Connections for a file of this size.
fn streams(url: &Url, server: &FtpServer, size: Option<u64>, options: &Options) -> u16 {
    match may_be_parallel(url, server, size) {
        true => options.channels.min(STREAMS_MAX),
        false => 1,
    }
}

/// Whether an error leaves the session as it was.
fn is_usable_after(error: &client::Error) -> bool {
    matches!(error, client::Error::Refused { .. })
}

/// What was copied and how.
fn copied(level: Level, bytes: u64, resumed: u64, channels: u16, check: Check, elapsed: Duration) -> CopiedFile {
    CopiedFile {
        bytes,
        elapsed,
        channels,
        congestion: String::new(),
        level,
        safety: Safety::Written,
        check,
        hash: None,
        resumed,
        retries: 0,
        channel_bytes: Vec::new(),
    }
}

impl super::Copy<'_> {
    /// Says once for each server that contents were not verified.
    fn note_unverified(&mut self, url: &Url) -> Result<(), Failed> {
        let server = self.ftp.with(url).map_err(|failed| Failed::of_session(&url.to_string(), failed))?;
        if !std::mem::replace(&mut server.told_unverified, true) {
            self.monitor.output().note(&format!("{}: {UNVERIFIED}", url.host));
        }
        Ok(())
    }

    /// Says the same of a tree, and whether its files were written under their final names.
    pub(super) fn note_ftp_tree(&mut self, url: &Url, summary: &Summary, in_place: bool) {
        if in_place {
            self.note_written_in_place(url);
        }
        let asked = matches!(self.options.check, Check::Hash | Check::Reread) && !self.ftp.verifies(url);
        if asked && url.is_ftp() && summary.files > 0 {
            self.monitor.output().note(&format!("{}: {UNVERIFIED}", url.host));
        }
    }

    /// Says that uploads are written under their final names.
    pub(super) fn note_written_in_place(&mut self, url: &Url) {
        let text = "the server takes no temporary names: uploads that are cut leave a part under the final name";
        self.monitor.output().note(&format!("{}: {text}", url.host));
    }

    /// The attributes of a URL; `None` if it does not exist.
    pub(super) fn look_ftp(&mut self, url: &Url) -> Result<Option<Facts>, Failed> {
        let shown = url.to_string();
        let server = self.ftp.with(url).map_err(|failed| Failed::of_session(&shown, failed))?;
        let path = server.path(url);
        match server.session.look(&path) {
            Ok(entry) => Ok(entry.as_ref().map(facts_of)),
            Err(error) => {
                if !is_usable_after(&error) {
                    self.ftp.forget(url);
                }
                Err(Failed::of_peer(&shown, error_of(error)))
            }
        }
    }

    /// Says what the listings of a tree's server lack. Refuses to delete here what it only hides, and to
    /// delete there through links that look like directories.
    pub(super) fn prepare_ftp_tree(&mut self, url: &Url, delete: Option<u64>) -> Result<(), Failed> {
        if !url.is_ftp() {
            return Ok(());
        }
        let shown = url.to_string();
        self.ftp.deletes = delete.is_some();
        let server = self.ftp.with(url).map_err(|failed| Failed::of_session(&shown, failed))?;
        if delete.is_some() && !server.session.knows_ends() {
            let text = "--delete: this server lists over data channels alone (no MLSC), which whoever is between can cut: \
                        what is missing from the list may be there; remove by their names what is to go";
            return Err(Failed::of_peer(&shown, Error::new(ErrorKind::Unsupported, text)));
        }
        if server.session.features().facts {
            return Ok(());
        }
        if delete.is_some() {
            let text = "--delete: this server lists names alone (no MLSD): it may hide some, and links look like the \
                        directories they lead to; remove by their names what is to go";
            return Err(Failed::of_peer(&shown, Error::new(ErrorKind::Unsupported, text)));
        }
        let text = "the server lists names alone (no MLSD): names that start with a dot may be missing, and links are followed";
        self.monitor.output().note(&format!("{}: {text}", url.host));
        Ok(())
    }
}
