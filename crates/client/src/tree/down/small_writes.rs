//! Small files that have arrived, and the threads that write them: making and naming files takes
//! longer than receiving them, and would delay everything else. There are half as many threads as
//! cores, since threads that name files in one directory wait for each other, and receiving needs a
//! core, too.

use super::{Download, DownloadEntry};
use crate::tree::Preserve;
use crate::tree::endpoints::Remote;
use crate::tree::scheduler::PendingJob;
use bytes::Bytes;
use std::sync::Arc;
use xdfs_engine::blocking::Blocking;
use xdfs_engine::bounds;
use xdfs_io::store::{Existing, SmallFile};
use xdfs_proto::base::{RelPath, Timestamp};
use xdfs_proto::wire::path::Attributes;

/// Most threads that write small files: a network file system handles several at a time.
const WRITERS_MAX: usize = 4;

/// The threads, started when needed.
pub(super) fn writers() -> Blocking {
    Blocking::undivided((bounds::cores() / 2).clamp(1, WRITERS_MAX))
}

/// The small files of one reply.
#[derive(Default)]
pub(super) struct SmallWrites {
    entries: Vec<DownloadEntry>,
    files: Vec<SmallWrite>,
}

/// What has to be written for one of them. The content is a slice of the reply.
struct SmallWrite {
    target: RelPath,
    mode: u32,
    modified: Option<Timestamp>,
    existing: Existing,
    holes: bool,
    content: Bytes,
}

impl SmallWrites {
    pub(super) fn push(
        &mut self,
        mut entry: DownloadEntry,
        target: RelPath,
        told: &Attributes<'_>,
        (existing, keep): (Existing, Preserve),
        content: Bytes,
    ) {
        entry.detail.source.size = content.len() as u64;
        self.files.push(SmallWrite {
            target,
            mode: keep.made_with(told.mode.unwrap_or(entry.detail.source.mode)),
            modified: told.modified.or(entry.detail.source.modified),
            existing,
            holes: entry.detail.source.holes,
            content,
        });
        self.entries.push(entry);
    }
}

impl<'a> From<&'a SmallWrite> for SmallFile<'a> {
    fn from(file: &'a SmallWrite) -> Self {
        Self {
            target: file.target.clone(),
            content: &file.content,
            mode: file.mode,
            modified: file.modified,
            existing: file.existing,
            base: None,
            parents: false,
            holes: file.holes,
        }
    }
}

impl Download {
    /// Writes the small files of a reply of this many bytes together, on another thread.
    pub(super) fn place(&mut self, remote: &mut dyn Remote, reply: usize, arrived: SmallWrites) {
        let SmallWrites { entries, files } = arrived;
        if entries.is_empty() {
            return;
        }
        let number = self.scheduler.in_flight.number();
        let (store, durable) = (Arc::clone(&self.store), self.options.durable);
        self.scheduler.in_flight.place(reply, PendingJob::Place(entries));
        let small = move || store.write_small(&files.iter().map(SmallFile::from).collect::<Vec<_>>(), durable);
        remote.write(number, Box::new(small));
    }
}
