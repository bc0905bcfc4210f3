//! A remote directory, page by page: the next page is fetched while one is processed, and no more
//! than two are in memory.

use super::{Batch, PendingReply, Reply, failed, lease_backoff};
use crate::retry::is_busy;
use crate::session::Session;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::path::{Answer, Call, Entries, Listing, Wanted};

/// Room of a page: some thousand entries, and less than the longest reply.
const PAGE_BYTES: usize = 128 * 1024;

/// Consecutive pages without an entry that are accepted before the listing is considered endless.
const EMPTY_MAX: u32 = 16;

/// One page of a directory.
#[derive(Clone, Debug)]
pub struct Page {
    reply: Reply,
}

impl Page {
    fn listing(&self) -> Result<Listing<'_>, Error> {
        match self.reply.read()?.outcomes.into_iter().next() {
            Some(Ok(Answer::Listing(listing))) => Ok(listing),
            Some(Err(failure)) => Err(failed(failure, "cannot list the directory")),
            _ => Err(Error::new(ErrorKind::Protocol, "the server answered something else")),
        }
    }

    /// Its entries, in the directory's own order.
    pub fn entries(&self) -> Option<Entries<'_>> {
        self.listing().ok().map(|listing| listing.entries)
    }
}

/// How far a listing has come.
#[derive(Debug)]
enum Progress {
    /// The page that begins at `cursor` is on its way.
    Asked { cursor: Vec<u8>, reply: PendingReply },
    /// The directory was read to its end.
    Complete,
    /// An error was returned.
    Failed,
}

/// The pages of a remote directory, with one read ahead. After an error it ends.
#[derive(Debug)]
pub struct Pages<'s> {
    session: &'s Session,
    remote: Vec<u8>,
    wanted: Wanted,
    progress: Progress,
    /// Pages without an entry since the last one with some.
    empty: u32,
}

impl Pages<'_> {
    /// Whether the directory was read to its end, without an error: only then does a name that was
    /// not listed not exist.
    pub fn is_complete(&self) -> bool {
        matches!(self.progress, Progress::Complete)
    }

    /// Requests the page that begins at `cursor`.
    fn ask(&self, cursor: &[u8]) -> Result<PendingReply, Error> {
        let mut batch = Batch::new(self.remote.clone());
        let room = PAGE_BYTES.min(self.session.batch_bytes_max() - 1024);
        batch.push_with_room(&Call::List { path: b"", wanted: self.wanted, cursor }, room);
        self.session.call(&batch)
    }

    /// Waits for the page that was requested at `cursor`, and requests the one behind it.
    fn receive(&mut self, cursor: &[u8], mut reply: PendingReply) -> Result<Page, Error> {
        let mut backoff = lease_backoff();
        let page = loop {
            match reply.wait() {
                Ok(reply) => break Page { reply },
                Err(error) if is_busy(&error) => backoff.wait(error)?,
                Err(error) => return Err(error),
            }
            reply = self.ask(cursor)?;
        };
        let mut listing = page.listing()?;
        let (complete, cursor) = (listing.complete, listing.cursor.to_vec());
        self.empty = if listing.entries.next().is_none() { self.empty + 1 } else { 0 };
        if !complete && self.empty > EMPTY_MAX {
            let text = "the server lists nothing again and again, and says that more follows";
            return Err(Error::new(ErrorKind::Protocol, text));
        }
        self.progress = match complete {
            true => Progress::Complete,
            false => Progress::Asked { reply: self.ask(&cursor)?, cursor },
        };
        Ok(page)
    }
}

impl Iterator for Pages<'_> {
    type Item = Result<Page, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match std::mem::replace(&mut self.progress, Progress::Failed) {
            Progress::Asked { cursor, reply } => Some(self.receive(&cursor, reply)),
            ended @ (Progress::Complete | Progress::Failed) => {
                self.progress = ended;
                None
            }
        }
    }
}

impl Session {
    /// Lists the directory `remote` (`EXPORT/path`; empty: the exports), with these attributes of
    /// each entry.
    pub fn list(&self, remote: impl AsRef<[u8]>, wanted: Wanted) -> Result<Pages<'_>, Error> {
        let remote = remote.as_ref().to_vec();
        let mut pages = Pages { session: self, remote, wanted, progress: Progress::Failed, empty: 0 };
        pages.progress = Progress::Asked { reply: pages.ask(b"")?, cursor: Vec::new() };
        Ok(pages)
    }
}
