//! A transfer in progress, as seen by the application.

use crate::options::Verify;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use xdfs_engine::mailbox::{Command, MailboxSender, Message};
use xdfs_io::dispatch::DescriptorWaker;
use xdfs_io::transport::Link;
use xdfs_proto::base::{Digest, Error, ErrorKind, Level, Timestamp};
use xdfs_proto::wire::control::Safety;

pub(crate) type PumpSender = MailboxSender<Link, DescriptorWaker>;

/// What the server reported about the file of a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteFile {
    /// Its size; `None` if it has no end.
    pub size: Option<u64>,
    /// Permission bits.
    pub mode: u32,
    /// Modification time.
    pub modified: Option<Timestamp>,
    /// Its version, opaque.
    pub version: Vec<u8>,
}

/// The result of a transfer.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Bytes of the target.
    pub length: u64,
    /// Bytes that did not have to be sent: an earlier attempt had left them.
    pub resumed: u64,
    /// Bytes of blocks that were transferred, including repeated ones.
    pub moved: u64,
    /// The same per channel that carried any, by channel number.
    pub channel_bytes: BTreeMap<u16, u64>,
    /// How safe the bytes are at the target.
    pub safety: Safety,
    /// Protection level of the blocks.
    pub level: Level,
    /// How the content was verified: no more than requested, and less if the target cannot be read
    /// back.
    pub verified: Verify,
    /// Hash of the content, if it was verified by hash.
    pub hash: Option<Digest>,
    /// Seconds from the session's first connect (for its first transfer), else from the request, to
    /// the outcome.
    pub seconds: f64,
    /// Download: the attributes of the source.
    pub remote: Option<RemoteFile>,
}

/// A handle of a transfer in progress. Dropping it leaves the transfer running.
#[derive(Debug)]
pub struct Transfer {
    pub(crate) ticket: u64,
    pub(crate) post: PumpSender,
    pub(crate) moved: Arc<AtomicU64>,
    pub(crate) resumed: Arc<AtomicU64>,
    pub(crate) replaces: Arc<OnceLock<Vec<u8>>>,
    pub(crate) outcome: Receiver<Result<Report, Error>>,
    pub(crate) length: Option<u64>,
}

fn gone() -> Error {
    Error::new(ErrorKind::ConnectionLost, "the session ended before the transfer did")
}

impl Transfer {
    /// Waits for the outcome.
    pub fn wait(self) -> Result<Report, Error> {
        self.outcome.recv().unwrap_or_else(|_| Err(gone()))
    }

    /// Waits at most this long for the outcome; `None` if it is not known yet.
    pub fn wait_for(&self, time: Duration) -> Option<Result<Report, Error>> {
        match self.outcome.recv_timeout(time) {
            Ok(outcome) => Some(outcome),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(gone())),
        }
    }

    /// Cancels it on both sides. The outcome is still reported: the receiver may have been faster.
    pub fn cancel(&self) {
        let _ = self.post.send(Message::Command(Command::Cancel { ticket: self.ticket }));
    }

    /// Bytes of blocks that have passed so far.
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Bytes that an earlier attempt had left; 0 until the server has answered.
    pub fn resumed(&self) -> u64 {
        self.resumed.load(Ordering::Relaxed)
    }

    /// For an upload, the version of the existing file when the server answered, empty if there was
    /// none; `None` until then. A subsequent attempt may pass it as its
    /// [`crate::PutOptions::base`].
    pub fn replaces(&self) -> Option<Vec<u8>> {
        self.replaces.get().cloned()
    }

    /// Bytes of the transfer, if known at its start.
    pub fn length(&self) -> Option<u64> {
        self.length
    }
}
