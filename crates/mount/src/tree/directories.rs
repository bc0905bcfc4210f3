//! Open directories: read page by page, with the attributes that readdirplus wants.

use super::attributes::{inode_number, kind_bits};
use super::recent_changes::Changed;
use super::{HIDDEN, Outcomes, Tree, is_root, refused};
use crate::kernel::{Answer, DirectoryBuffer, Entry};
use rustix::io::Errno;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use xdfs_client::wire::{Answer as Told, Call, FileType, Listing};
use xdfs_client::{Batch, Facts, failed};

/// Room of a page: some three hundred entries, and some thousand for a program that needs little time for one. What it is told
/// late it has to look at again, one by one.
const PAGE_BYTES_MIN: usize = 32 << 10;
const PAGE_BYTES_MAX: usize = 128 << 10;

/// Consecutive pages without an entry before the listing counts as endless.
const EMPTY_MAX: u32 = 16;

/// The same of pages whose entries are all hidden: many times as many as a server keeps hidden files for a user.
const HIDDEN_MAX: u32 = 64;

/// The offsets behind `.` and `..`; what follows are the entries, in the server's order.
const DOTS: u64 = 2;

/// A page of the server, and where in the directory it is.
#[derive(Debug)]
pub(super) struct Page<Entry> {
    /// Entries before it.
    first: u64,
    pub(super) entries: Vec<Entry>,
    /// Where the next one begins.
    cursor: Vec<u8>,
    complete: bool,
    /// Room that it had.
    room: usize,
}

/// Two pages, one behind the other: the kernel asks again for what it was told and had no room for, which
/// may begin in the page before. Read anew that would not have the same entries if some were removed.
#[derive(Debug)]
struct Pages<Entry> {
    before: Arc<Page<Entry>>,
    last: Arc<Page<Entry>>,
}

/// What is at an index of a directory.
#[derive(PartialEq, Eq, Debug)]
enum At<Found> {
    Entry(Found),
    End,
    /// Behind the last page.
    Unread,
    /// Before the pages that are kept.
    Gone,
}

impl<Entry> Default for Page<Entry> {
    fn default() -> Self {
        Self { first: 0, entries: Vec::new(), cursor: Vec::new(), complete: false, room: 0 }
    }
}

impl<Entry> Default for Pages<Entry> {
    fn default() -> Self {
        Self { before: Arc::default(), last: Arc::default() }
    }
}

impl<Entry> Pages<Entry> {
    fn at(&self, index: u64) -> At<&Entry> {
        let page = if index < self.last.first { &self.before } else { &self.last };
        let Some(within) = index.checked_sub(page.first) else { return At::Gone };
        // An index within a page fits.
        match page.entries.get(within as usize) {
            Some(entry) => At::Entry(entry),
            None if self.last.complete => At::End,
            None => At::Unread,
        }
    }

    fn push(&mut self, page: Arc<Page<Entry>>) {
        self.before = std::mem::replace(&mut self.last, page);
    }
}

/// An entry of a directory.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) name: Vec<u8>,
    pub(super) facts: Facts,
    /// When it was asked for, by [`Tree::now`].
    then: u64,
    /// How long it may be used.
    until: Instant,
}

impl Page<Listed> {
    pub(super) fn is_first(&self) -> bool {
        self.first == 0
    }

    /// The first page of a directory, asked for at `then`.
    pub(super) fn first(listing: Listing<'_>, room: usize, then: u64, until: Instant) -> Self {
        Self::behind(&Self::default(), listing, room, then, until)
    }

    /// A whole directory of so many entries that are alike.
    #[cfg(test)]
    pub(super) fn of_copies(name: &[u8], facts: Facts, amount: usize) -> Self {
        let entry = || Listed { name: name.to_vec(), facts: facts.clone(), then: 0, until: Instant::now() };
        let entries = std::iter::repeat_with(entry).take(amount).collect();
        Self { first: 0, entries, cursor: Vec::new(), complete: true, room: 0 }
    }

    fn behind(before: &Self, listing: Listing<'_>, room: usize, then: u64, until: Instant) -> Self {
        let first = before.first + before.entries.len() as u64;
        let (cursor, complete) = (listing.cursor.to_vec(), listing.complete);
        let entries = listing.entries.map(|entry| {
            let (name, facts) = (entry.name.to_vec(), Facts::from(&entry.attributes));
            Listed { name, facts, then, until }
        });
        Self { first, entries: entries.collect(), cursor, complete, room }
    }

    /// Room of the page behind it: more if little of the time was needed for which entries may be used.
    fn room_behind(&self, valid: Duration) -> usize {
        let left = self.entries.first().map(|entry| entry.until.saturating_duration_since(Instant::now()));
        match left {
            _ if valid.is_zero() => PAGE_BYTES_MAX,
            Some(left) if left > valid / 4 * 3 => (self.room * 2).clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX),
            _ => PAGE_BYTES_MIN,
        }
    }
}

/// A directory that a program reads.
#[derive(Default, Debug)]
pub(super) struct OpenDirectory {
    pub(super) inode: u64,
    pages: Mutex<Pages<Listed>>,
}

impl Tree {
    pub(super) fn open_directory(&self, inode: u64) -> Outcomes {
        if !self.directories.has_room() {
            return Err(Errno::NFILE);
        }
        Ok(Answer::OpenedDirectory {
            handle: self.directories.insert(OpenDirectory { inode, pages: Mutex::default() }),
        })
    }

    pub(super) fn read_directory(&self, (inode, handle): (u64, u64), offset: u64, size: u32, plus: bool) -> Outcomes {
        let open = self.directories.find(handle).ok_or(Errno::BADF)?;
        let mut pages = open.pages.lock().unwrap_or_else(PoisonError::into_inner);
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
        // From the beginning: read anew.
        if at == DOTS {
            *pages = Pages::default();
            self.uses_directory(inode);
        }
        let mut barren = 0;
        loop {
            match pages.at(at - DOTS) {
                At::Entry(listed) if !buffer.fits(&listed.name, plus) => break,
                At::Entry(listed) => {
                    at += 1;
                    self.push(&mut buffer, inode, listed, at, plus);
                }
                At::End => break,
                At::Gone => *pages = Pages::default(),
                // What is told with it would be old when the program gets there.
                At::Unread if !buffer.is_empty() && at > DOTS => break,
                At::Unread if barren > HIDDEN_MAX => return Err(Errno::IO),
                At::Unread if at == DOTS => pages.push(self.first_page(inode, &path)?),
                At::Unread => {
                    let next = self.next_page(&path, &pages.last)?;
                    // Where the kernel goes on in the middle, the pages before that are read again.
                    barren += u32::from(next.first >= at - DOTS);
                    self.has_listed(&path, &next);
                    pages.push(Arc::new(next));
                }
            }
        }
        Ok(Answer::Directory(buffer))
    }

    fn push(&self, buffer: &mut DirectoryBuffer, inode: u64, listed: &Listed, next: u64, plus: bool) {
        let Listed { name, facts, then, until } = listed;
        if name.starts_with(HIDDEN) || (is_root(inode) && name.is_empty()) {
            return;
        }
        let number = facts.inode.map_or(1, inode_number).max(1);
        let renamed = facts.inode.is_none_or(|identity| self.inodes().is_known_otherwise(inode, name, identity))
            || self.changes.is_after(*then, &Changed::Name(inode, name.clone()));
        let told = if plus && !renamed { self.entry(inode, name, facts).ok() } else { None };
        // The kernel asks for those of a file that was changed meanwhile.
        let told = told.filter(|entry| {
            let newer = self.is_newer(entry.id, *then);
            if newer {
                self.inodes().forget(entry.id, 1);
            }
            !newer
        });
        let left = until.saturating_duration_since(Instant::now());
        let told = told.map(|entry| {
            self.keep_listed(entry.id, listed);
            Entry { valid: left, ..entry }
        });
        buffer.push(name, next, number, kind_bits(facts.kind), plus.then_some(told.as_ref()));
    }

    /// What programs ask for of a file after they were told of it: the kernel keeps less of that.
    fn keep_listed(&self, inode: u64, Listed { facts, then, until, .. }: &Listed) {
        self.known.facts.keep(inode, facts, *then, *until);
        if facts.xattrs == Some(false) {
            self.known.xattr_names.keep_none(inode, *until);
        }
        if let Some(target) = &facts.target {
            self.known.link_targets.keep(inode, target, facts.change, *until);
        }
    }

    /// The page behind this one.
    pub(super) fn next_page(&self, path: &[u8], page: &Page<Listed>) -> Result<Page<Listed>, Errno> {
        let mut cursor = page.cursor.clone();
        let (then, until, wanted) = (self.now(), Instant::now() + self.settings.valid, self.wanted_of_entries());
        let room = page.room_behind(self.settings.valid);
        for _ in 0..EMPTY_MAX {
            let mut batch = Batch::new(self.base.as_slice());
            batch.push_with_room(&Call::List { path, wanted, cursor: &cursor }, room);
            let reply = self.remote.call(&batch).map_err(|error| refused(&error))?;
            let outcomes = reply.read().map_err(|error| refused(&error))?.outcomes;
            let listing = match outcomes.into_iter().next() {
                Some(Ok(Told::Listing(listing))) => listing,
                Some(Err(failure)) => return Err(refused(&failed(failure, ""))),
                _ => return Err(Errno::IO),
            };
            let next = Page::behind(page, listing, room, then, until);
            if next.complete || !next.entries.is_empty() {
                return Ok(next);
            }
            cursor = next.cursor;
        }
        Err(Errno::IO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_before_is_kept_and_no_other() {
        let page =
            |first, complete| Arc::new(Page { first, entries: vec![first, first + 1], complete, ..Page::default() });
        let mut pages = Pages::default();
        assert_eq!(pages.at(0), At::Unread);
        pages.push(page(0, false));
        assert_eq!((pages.at(1), pages.at(2)), (At::Entry(&1), At::Unread));
        pages.push(page(2, false));
        assert_eq!((pages.at(0), pages.at(1), pages.at(3)), (At::Entry(&0), At::Entry(&1), At::Entry(&3)));
        pages.push(page(4, true));
        assert_eq!((pages.at(1), pages.at(2), pages.at(5)), (At::Gone, At::Entry(&2), At::Entry(&5)));
        assert_eq!(pages.at(6), At::End);
    }
}
