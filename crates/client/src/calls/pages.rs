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

/// The pages of a remote directory, with one read ahead. After an error it ends.
#[derive(Debug)]
pub struct Pages<'s> {
    session: &'s Session,
    remote: Vec<u8>,
    wanted: Wanted,
    next: Option<PendingReply>,
    /// Where it begins.
    cursor: Vec<u8>,
    complete: bool,
    /// Pages without an entry since the last one with some.
    empty: u32,
}

impl Pages<'_> {
    /// Whether the directory was read to its end, without an error: only then does a name that was
    /// not listed not exist.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Requests the page at the cursor.
    fn ask_again(&mut self) -> Result<(), Error> {
        let mut batch = Batch::new(self.remote.clone());
        let room = PAGE_BYTES.min(self.session.batch_bytes_max() - 1024);
        batch.push_with_room(&Call::List { path: b"", wanted: self.wanted, cursor: &self.cursor }, room);
        self.next = Some(self.session.call(&batch)?);
        Ok(())
    }
}

impl Iterator for Pages<'_> {
    type Item = Result<Page, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut backoff = lease_backoff();
        let page = loop {
            let again = match self.next.take()?.wait() {
                Ok(reply) => break Page { reply },
                Err(error) if is_busy(&error) => backoff.wait(error).and_then(|()| self.ask_again()),
                Err(error) => Err(error),
            };
            if let Err(error) = again {
                return Some(Err(error));
            }
        };
        let (complete, cursor, empty) = match page.listing() {
            Ok(mut listing) => (listing.complete, listing.cursor.to_vec(), listing.entries.next().is_none()),
            Err(error) => return Some(Err(error)),
        };
        self.empty = if empty { self.empty + 1 } else { 0 };
        if !complete && self.empty > EMPTY_MAX {
            let text = "the server lists nothing again and again, and says that more follows";
            return Some(Err(Error::new(ErrorKind::Protocol, text)));
        }
        self.complete = complete;
        if !complete {
            self.cursor = cursor;
            if let Err(error) = self.ask_again() {
                return Some(Err(error));
            }
        }
        Some(Ok(page))
    }
}

impl Session {
    /// Lists the directory `remote` (`EXPORT/path`; empty: the exports), with these attributes of
    /// each entry.
    pub fn list(&self, remote: impl AsRef<[u8]>, wanted: Wanted) -> Result<Pages<'_>, Error> {
        let remote = remote.as_ref().to_vec();
        let mut pages =
            Pages { session: self, remote, wanted, next: None, cursor: Vec::new(), complete: false, empty: 0 };
        pages.ask_again()?;
        Ok(pages)
    }
}
