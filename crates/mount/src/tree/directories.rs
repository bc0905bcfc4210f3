//! Open directories: read page by page, with the attributes that readdirplus wants.

use super::attributes::{inode_number, kind_bits};
use super::{HIDDEN, Outcomes, Tree, WANTED, is_root, refused};
use crate::kernel::{Answer, DirectoryBuffer};
use rustix::io::Errno;
use std::sync::{Mutex, PoisonError};
use xdfs_client::wire::{Answer as Told, Call, FileType};
use xdfs_client::{Batch, Facts, failed};

/// Room of a page: some thousand entries.
const PAGE_BYTES: usize = 128 << 10;

/// Consecutive pages without an entry before the listing counts as endless.
const EMPTY_MAX: u32 = 16;

/// The offsets behind `.` and `..`; what follows are the entries, in the server's order.
const DOTS: u64 = 2;

/// A page of the server, and where in the directory it is.
#[derive(Default, Debug)]
struct Page {
    /// Entries before it.
    first: u64,
    entries: Vec<(Vec<u8>, Facts)>,
    /// Where the next one begins.
    cursor: Vec<u8>,
    complete: bool,
    /// It was read.
    read: bool,
}

/// A directory that a program reads. One page of it is in memory.
#[derive(Default, Debug)]
pub(super) struct OpenDirectory {
    page: Mutex<Page>,
}

impl Tree {
    pub(super) fn open_directory(&self, _inode: u64) -> Outcomes {
        if !self.directories.has_room() {
            return Err(Errno::NFILE);
        }
        Ok(Answer::OpenedDirectory { handle: self.directories.insert(OpenDirectory::default()) })
    }

    pub(super) fn read_directory(&self, (inode, handle): (u64, u64), offset: u64, size: u32, plus: bool) -> Outcomes {
        let open = self.directories.find(handle).ok_or(Errno::BADF)?;
        let mut page = open.page.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = DirectoryBuffer::new(size);
        let mut at = offset;
        for (own, name) in [(0, &b"."[..]), (1, b"..")] {
            if at == own && buffer.fits(name, plus) {
                at += 1;
                buffer.push(name, at, 1, kind_bits(FileType::Directory), plus.then_some(None));
            }
        }
        if at < DOTS {
            return Ok(Answer::Directory(buffer));
        }
        let path = self.path(inode)?;
        // From the beginning: read anew, or again.
        if at == DOTS || at - DOTS < page.first {
            *page = Page::default();
        }
        loop {
            let index = at - DOTS - page.first;
            // An index within a page fits.
            if let Some((name, facts)) = page.entries.get(index as usize) {
                if !buffer.fits(name, plus) {
                    break;
                }
                at += 1;
                self.push(&mut buffer, inode, (name, facts), at, plus);
            } else if page.read && page.complete {
                break;
            } else {
                let next = self.next_page(&path, &page)?;
                *page = next;
            }
        }
        Ok(Answer::Directory(buffer))
    }

    fn push(&self, buffer: &mut DirectoryBuffer, inode: u64, entry: (&[u8], &Facts), next: u64, plus: bool) {
        let (name, facts) = entry;
        if name.starts_with(HIDDEN) || (is_root(inode) && name.is_empty()) {
            return;
        }
        let number = facts.inode.map_or(1, inode_number).max(1);
        let told = if plus { self.entry(inode, name, facts).ok() } else { None };
        buffer.push(name, next, number, kind_bits(facts.kind), plus.then_some(told.as_ref()));
    }

    /// The page behind this one.
    fn next_page(&self, path: &[u8], page: &Page) -> Result<Page, Errno> {
        let mut cursor = page.cursor.clone();
        for _ in 0..EMPTY_MAX {
            let mut batch = Batch::new(self.base.as_slice());
            batch.push_with_room(&Call::List { path, wanted: WANTED, cursor: &cursor }, PAGE_BYTES);
            let reply = self.remote.call(&batch).map_err(|error| refused(&error))?;
            let outcomes = reply.read().map_err(|error| refused(&error))?.outcomes;
            let listing = match outcomes.into_iter().next() {
                Some(Ok(Told::Listing(listing))) => listing,
                Some(Err(failure)) => return Err(refused(&failed(failure, ""))),
                _ => return Err(Errno::IO),
            };
            let entries: Vec<_> =
                listing.entries.map(|entry| (entry.name.to_vec(), Facts::from(&entry.attributes))).collect();
            if listing.complete || !entries.is_empty() {
                let first = page.first + page.entries.len() as u64;
                let cursor = listing.cursor.to_vec();
                return Ok(Page { first, entries, cursor, complete: listing.complete, read: true });
            }
            cursor = listing.cursor.to_vec();
        }
        Err(Errno::IO)
    }
}
