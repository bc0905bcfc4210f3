//! What comes back to the manager, and what it tells the application.

use super::Summary;
use crate::transfer::Report;
use bytes::Bytes;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use xdfs_proto::base::{Error, Safety};
use xdfs_proto::limits;

/// What became of a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EntryAction {
    /// A file was copied, so many bytes.
    Copied {
        /// Its length.
        bytes: u64,
        /// How safe it is.
        safety: Safety,
    },
    /// A directory, symbolic link, second name or special file was made.
    Made,
    /// It was left alone: it is the same, or was to be kept.
    Skipped,
    /// It was removed.
    Deleted,
}

/// Told what happens, from the thread that runs the copy.
pub trait Observer {
    /// A name is settled. In a dry run: would be.
    fn done(&mut self, path: &[u8], deed: EntryAction);

    /// A name failed; the others go on.
    fn failed(&mut self, path: &[u8], error: &Error);

    /// Something that concerns no single file.
    fn note(&mut self, text: &str);

    /// Asked now and then: how far it is. False to stop.
    fn should_continue(&mut self, summary: &Summary, bytes_moving: u64) -> bool;
}

/// An answer to something that was under way.
#[derive(Debug)]
pub(super) enum Event {
    /// To a batch of calls: the payload of its reply.
    Reply(u64, Result<Bytes, Error>),
    /// A transfer.
    Report(u64, Result<Report, Error>),
    /// Small files that were written here: one outcome for each.
    Placed(u64, Result<Vec<Result<Safety, Error>>, Error>),
}

/// Time between two looks at whether to go on.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The queue of answers.
#[derive(Debug)]
pub(super) struct Events {
    sender: SyncSender<Event>,
    receiver: Receiver<Event>,
}

impl Events {
    pub(super) fn new() -> Self {
        // As many answers come as operations are under way: there is always room.
        let (sender, receiver) = sync_channel(limits::OPERATIONS_MAX);
        Self { sender, receiver }
    }

    pub(super) fn sender(&self) -> SyncSender<Event> {
        self.sender.clone()
    }

    /// An answer that is there already.
    pub(super) fn ready(&self) -> Option<Event> {
        self.receiver.try_recv().ok()
    }

    /// The same, and none after this time either.
    pub(super) fn next_within(&self, most: Duration) -> Option<Event> {
        self.receiver.recv_timeout(most.min(LOOK_EVERY)).ok()
    }

    /// The next answer; none when it is time to look at whether to go on.
    pub(super) fn next(&self) -> Option<Event> {
        self.next_within(LOOK_EVERY)
    }
}
