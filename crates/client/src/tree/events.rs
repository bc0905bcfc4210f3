//! Events that reach the manager, and what it reports to the application.

use super::Summary;
use crate::transfer::Report;
use bytes::Bytes;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use xdfs_proto::base::{Error, Safety};
use xdfs_proto::limits;

/// The result of a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EntryAction {
    /// A file of this many bytes was copied.
    Copied {
        /// Its length.
        bytes: u64,
        /// How safe it is.
        safety: Safety,
        /// Something had its name at the target.
        replaces: bool,
    },
    /// A directory, symbolic link, further name or special file was made.
    Made,
    /// It was left alone: it is the same, or was to be kept.
    Skipped,
    /// It was removed.
    Deleted,
}

impl EntryAction {
    pub(super) const fn copied(bytes: u64, safety: Safety, replaces: bool) -> Self {
        Self::Copied { bytes, safety, replaces }
    }
}

/// Receives the events of a copy, on the thread that runs it.
pub trait Observer {
    /// A name is settled; in a dry run, would be.
    fn done(&mut self, path: &[u8], action: EntryAction);

    /// A name failed; the copy continues.
    fn failed(&mut self, path: &[u8], error: &Error);

    /// A message that concerns no single file.
    fn note(&mut self, text: &str);

    /// Something that was asked for was not done, though no single name failed.
    fn not_done(&mut self, text: &str) {
        self.note(text);
    }

    /// Called now and then with the progress. False to stop.
    fn should_continue(&mut self, summary: &Summary, bytes_moving: u64) -> bool;
}

/// An answer to a request in flight.
#[derive(Debug)]
pub enum Event {
    /// To a batch of calls: the payload of its reply.
    Reply(u64, Result<Bytes, Error>),
    /// The result of a transfer.
    Report(u64, Result<Report, Error>),
    /// Small files that were written locally: one outcome for each.
    Placed(u64, Result<Vec<Result<Safety, Error>>, Error>),
}

impl Event {
    /// The reply to a batch, or why there is none.
    pub fn reply(number: u64, reply: Result<Vec<u8>, Error>) -> Self {
        Self::Reply(number, reply.map(Bytes::from))
    }
}

/// Interval between checks whether to continue.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The queue of answers.
#[derive(Debug)]
pub(super) struct Events {
    sender: SyncSender<Event>,
    receiver: Receiver<Event>,
}

impl Events {
    pub(super) fn new() -> Self {
        // There are at most as many answers as operations in flight: there is always room.
        let (sender, receiver) = sync_channel(limits::OPERATIONS_MAX);
        Self { sender, receiver }
    }

    pub(super) fn sender(&self) -> SyncSender<Event> {
        self.sender.clone()
    }

    /// An answer that has already arrived.
    pub(super) fn ready(&self) -> Option<Event> {
        self.receiver.try_recv().ok()
    }

    /// The next answer; none after this time, or when it is time to check whether to continue.
    pub(super) fn next_within(&self, most: Duration) -> Option<Event> {
        self.receiver.recv_timeout(most.min(LOOK_EVERY)).ok()
    }
}
