//! Directories that are listed before a program reads them.
//!
//! Who reads a directory below one that was just read goes through a tree: those beside and below it are listed together, many
//! in a round trip. So is the directory in which a program looks up one name after the other. How many are listed that nobody
//! has asked for depends on how many of the last ones were used. What was listed holds for as long as attributes do, but for
//! what this mount has changed since.

mod files;
mod state;

pub(super) use files::{Early, WORKERS as OPENERS};

use super::directories::{Listed, Page};
use super::recent_changes::Changed;
use super::{Tree, WANTED, refused};
use crate::inodes::Identity;
use crate::kernel::Entry;
use rustix::io::Errno;
use state::{Known, Listing, State, join, split};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xdfs_client::wire::{Answer as Told, Call, FileType};
use xdfs_client::{Batch, Facts};

/// Threads that list.
pub(super) const WORKERS: usize = 3;

/// Room for the entries of each directory of a batch: together less than the longest reply.
const PAGE_BYTES: usize = 16 << 10;

/// Directories in one that is read, and in one that nobody has read yet, that are listed after it.
const BELOW_MAX: usize = 32;
const FURTHER_MAX: usize = 4;

/// Directories in one of which is remembered that a program may go through them.
const REMEMBERED_BELOW_MAX: usize = 2048;

/// Directories by their paths: what is listed, and what is to be.
#[derive(Default, Debug)]
pub(super) struct Ahead {
    state: Mutex<State>,
    changed: Condvar,
}

/// The names of the directories in a page.
fn directories(page: &Page<Listed>, most: usize) -> impl Iterator<Item = &[u8]> {
    let directories = page.entries.iter().filter(|entry| entry.facts.kind == FileType::Directory);
    directories.take(most).map(|entry| entry.name.as_slice())
}

impl Ahead {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Waits until there is something to list; none at the end.
    fn next(&self) -> Option<Vec<Vec<u8>>> {
        let waits = |state: &mut State| !state.has_work() && !state.ended;
        let mut state = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        (!state.ended).then(|| state.next())
    }

    fn want(&self, paths: Vec<Vec<u8>>) {
        let mut state = self.lock();
        state.want(paths, Instant::now());
        if state.has_work() {
            self.changed.notify_all();
        }
    }

    /// What is known of a directory. What is on its way is waited for, at most for as long as it could be used.
    fn find(&self, path: &[u8], wait: Duration) -> Option<Arc<Listing>> {
        let is_asked = |state: &mut State| matches!(state.known(path, Instant::now()), Known::Asked);
        let waited = self.changed.wait_timeout_while(self.lock(), wait, is_asked);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.known(path, Instant::now()) {
            Known::Listed(listing) => Some(listing),
            Known::Asked | Known::Nothing => None,
        }
    }

    /// A listing was of use. Those who list are woken if they have something to do from now on, and not for each name that is
    /// looked up.
    fn used(&self) {
        if self.lock().used() {
            self.changed.notify_all();
        }
    }
}

impl Tree {
    /// Lists directories before they are read, until [`Ahead::end`].
    pub(super) fn list_ahead(&self) {
        while let Some(paths) = self.ahead.next() {
            let (then, until) = (self.now(), Instant::now() + self.settings.valid);
            let told = self.list_together(&paths, then, until).unwrap_or_default();
            let mut told = told.into_iter();
            let mut state = self.ahead.lock();
            let now = Instant::now();
            let mut further = Vec::new();
            for path in &paths {
                let listing = told.next().flatten();
                let page = listing.as_ref().map(|listing| Arc::clone(&listing.page));
                further
                    .extend(page.iter().flat_map(|page| directories(page, FURTHER_MAX)).map(|name| join(path, name)));
                state.keep(path, listing, now);
            }
            state.want(further, now);
            drop(state);
            self.ahead.changed.notify_all();
        }
    }

    /// Of each directory what it is and its first entries; none of one that cannot be listed.
    fn list_together(&self, paths: &[Vec<u8>], then: u64, until: Instant) -> Result<Vec<Option<Listing>>, Errno> {
        let wanted = self.wanted_of_entries();
        let mut batch = Batch::new(self.base.as_slice());
        for path in paths {
            let stat = Call::Stat { path, wanted: WANTED };
            batch.push_with_room(&stat, stat.room());
            batch.push_with_room(&Call::List { path, wanted, cursor: &[] }, PAGE_BYTES);
        }
        let reply = self.remote.call(&batch).map_err(|error| refused(&error))?;
        let mut outcomes = reply.read().map_err(|error| refused(&error))?.outcomes.into_iter();
        let listings = paths.iter().map(|_| match (outcomes.next()?, outcomes.next()?) {
            (Ok(Told::Attributes(facts)), Ok(Told::Listing(listing))) => {
                let facts = Facts::from(&facts);
                Some(Listing::new(facts, Page::first(listing, PAGE_BYTES, then, until), then, until))
            }
            _ => None,
        });
        Ok(listings.collect())
    }

    /// The first entries of a directory that a program begins to read. If it goes through a tree, the directories that it reads
    /// next are listed with it.
    pub(super) fn first_page(&self, inode: u64, path: &[u8]) -> Result<Arc<Page<Listed>>, Errno> {
        if self.settings.valid.is_zero() {
            return self.next_page(path, &Page::default()).map(Arc::new);
        }
        let behind = self.ahead.lock().reads(path, Instant::now());
        let goes_through = behind.is_some();
        self.ahead.want(behind.unwrap_or_default());
        let listing = self.ahead.find(path, self.settings.valid).filter(|known| self.is_of(inode, known));
        let page = match listing {
            Some(listing) => {
                self.ahead.used();
                Arc::clone(&listing.page)
            }
            None => Arc::new(self.next_page(path, &Page::default())?),
        };
        self.has_listed(path, &page);
        let below = directories(&page, REMEMBERED_BELOW_MAX).map(<[u8]>::to_vec).collect();
        self.ahead.lock().has_read(path, below, Instant::now());
        if goes_through {
            self.ahead.want(directories(&page, BELOW_MAX).map(|name| join(path, name)).collect());
        }
        Ok(page)
    }

    /// Whether it is a directory's, and nothing was changed there since.
    fn is_of(&self, inode: u64, listing: &Listing) -> bool {
        let identity: Option<Identity> = self.inodes().identity(inode);
        identity.is_some() && identity == listing.facts.inode && !self.is_newer(inode, listing.then)
    }

    /// What is known of a directory itself.
    pub(super) fn listed_facts(&self, inode: u64, path: &[u8]) -> Option<(Facts, Duration)> {
        let listing = self.ahead.find(path, Duration::ZERO)?;
        if !self.is_of(inode, &listing) {
            return None;
        }
        self.ahead.used();
        Some((listing.facts.clone(), listing.until.saturating_duration_since(Instant::now())))
    }

    /// The server says that there is no such name.
    pub(super) fn is_gone(&self, path: &[u8]) {
        split(path).into_iter().for_each(|(above, name)| self.ahead.lock().is_gone(above, name));
    }

    /// What a name leads to, if its directory is listed or it is one. A name that the kernel knows is asked for because it
    /// must be right, as when a program wants to make it.
    pub(super) fn looked_up_ahead(&self, parent: u64, name: &[u8], path: &[u8]) -> Option<Entry> {
        if self.must_be_right(parent, name) {
            return None;
        }
        let find = |path: &[u8]| self.ahead.find(path, Duration::ZERO);
        let (above, _) = split(path)?;
        let (facts, then, until) = match (find(path), find(above)) {
            (Some(itself), _) if itself.facts.kind == FileType::Directory => {
                (itself.facts.clone(), itself.then, itself.until)
            }
            (_, Some(listing)) if self.is_of(parent, &listing) => {
                (listing.find(name)?.facts.clone(), listing.then, listing.until)
            }
            _ => return None,
        };
        let identity = facts.inode?;
        let is_other = self.changes.is_after(then, &Changed::Name(parent, name.to_vec()));
        if is_other || self.inodes().is_known_otherwise(parent, name, identity) {
            return None;
        }
        let entry = self.entry(parent, name, &facts).ok()?;
        if self.is_newer(entry.id, then) {
            self.inodes().forget(entry.id, 1);
            return None;
        }
        self.ahead.used();
        Some(Entry { valid: until.saturating_duration_since(Instant::now()), ..entry })
    }

    /// A name has to be asked for. Its directory is listed if that is so of many names there.
    pub(super) fn looks_into(&self, parent: u64, name: &[u8], path: &[u8]) {
        let Some((above, _)) = split(path).filter(|_| !self.must_be_right(parent, name)) else { return };
        if self.ahead.find(above, Duration::ZERO).is_some_and(|listing| self.is_of(parent, &listing)) {
            return;
        }
        let is_to_be_listed = self.ahead.lock().looks_into(above, self.settings.valid, Instant::now());
        if is_to_be_listed {
            self.ahead.want(vec![above.to_vec()]);
        }
    }

    fn must_be_right(&self, parent: u64, name: &[u8]) -> bool {
        self.settings.valid.is_zero() || self.inodes().is_told(parent, name, Instant::now())
    }
}
