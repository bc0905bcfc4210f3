//! What a tree holds, counted beside its copy, so that a person sees how much is left.
//!
//! A copy lists a directory when it comes to it, since memory must not grow with the tree; it knows
//! the total when it is nearly done. A second walk that only adds numbers is far ahead of it. It
//! is for terminals: to a server it costs one more listing of each directory, one page at a time,
//! and only while the copy leaves most of the session's room for calls free.

use super::{TreeOptions, is_stuck, join, parse};
use crate::calls::{Batch, PendingReply};
use crate::session::Session;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use xdfs_io::store::tree::{ListControl, NodeKind, Tree};
use xdfs_proto::wire::path::{Answer, Call, FileType, Listing, Wanted};

/// Bytes of paths of directories that wait to be counted. A tree with more of them at once has no
/// total.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Memory of a directory to come, besides its path.
const WAITING_ENTRY_BYTES: usize = 64;
/// Files with several names that are remembered, to count their bytes once; further ones are
/// counted with each name.
const LINKED_MAX: usize = 1 << 16;
/// Room of a page of a listing.
const PAGE_BYTES: usize = 64 << 10;
/// Interval between checks whether the copy has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How much there is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sum {
    /// Names, directories aside.
    pub names: u64,
    /// Bytes of regular files; once, where links are kept.
    pub bytes: u64,
}

/// What is known of the total of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Counted {
    /// Nobody counts, or it could not be counted.
    #[default]
    Unknown,
    /// It is being counted.
    Counting,
    /// This much.
    Known(Sum),
}

/// The total of a tree.
#[derive(Debug, Default)]
pub struct Total {
    counted: Mutex<Counted>,
    stopped: AtomicBool,
    stop: Condvar,
}

/// A walk in progress.
struct Count {
    sum: Sum,
    /// Directories to come, the next one last.
    waiting: Vec<Vec<u8>>,
    waiting_bytes: usize,
    linked: BTreeSet<[u8; 16]>,
    count_links_once: bool,
}

fn memory_of(directory: &[u8]) -> usize {
    directory.len() + WAITING_ENTRY_BYTES
}

impl Count {
    fn new(options: &TreeOptions) -> Self {
        let top = Vec::new();
        let (waiting_bytes, waiting) = (memory_of(&top), vec![top]);
        let (sum, linked) = (Sum::default(), BTreeSet::new());
        Self { sum, waiting, waiting_bytes, linked, count_links_once: options.keep.links }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let directory = self.waiting.pop()?;
        self.waiting_bytes -= memory_of(&directory);
        Some(directory)
    }

    /// Adds an entry. False if there are more directories than are remembered.
    fn add(&mut self, options: &TreeOptions, path: Vec<u8>, kind: FileType, file: (u64, Option<[u8; 16]>)) -> bool {
        if !options.takes(&path, kind == FileType::Directory) {
            return true;
        }
        if kind == FileType::Directory {
            self.waiting_bytes += memory_of(&path);
            self.waiting.push(path);
            return self.waiting_bytes <= WAITING_BYTES_MAX;
        }
        self.sum.names += 1;
        let (bytes, inode) = file;
        let again = match inode {
            Some(inode) if self.count_links_once && self.linked.len() < LINKED_MAX => !self.linked.insert(inode),
            _ => false,
        };
        if kind == FileType::Regular && !again {
            self.sum.bytes = self.sum.bytes.saturating_add(bytes);
        }
        true
    }
}

impl Total {
    /// What is known so far.
    pub fn counted(&self) -> Counted {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `copy` while `count` counts on a thread of its own, unless everything was counted
    /// before.
    pub(super) fn beside<T>(&self, count: impl FnOnce(&Self) + Send, copy: impl FnOnce() -> T) -> T {
        if matches!(self.counted(), Counted::Known(_)) {
            return copy();
        }
        *self.lock() = Counted::Counting;
        self.stopped.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            // Without a thread there is no total, and nothing else is lost.
            let counting = std::thread::Builder::new().name("total".to_owned());
            let _ = counting.spawn_scoped(scope, || {
                count(self);
                self.end();
            });
            let ended = copy();
            let counted = self.lock();
            self.stopped.store(true, Ordering::Relaxed);
            self.stop.notify_all();
            drop(counted);
            ended
        })
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn finish(&self, count: &Count) {
        *self.lock() = Counted::Known(count.sum);
    }

    /// The walk has ended, and may have given up.
    fn end(&self) {
        let mut counted = self.lock();
        if *counted == Counted::Counting {
            *counted = Counted::Unknown;
        }
    }

    /// Counts a tree of this machine. A directory that cannot be read has nothing: the copy reports
    /// it.
    pub(super) fn count_local(&self, store: &(impl Tree + ?Sized), options: &TreeOptions) {
        let mut count = Count::new(options);
        while let Some(directory) = count.next() {
            // Its parts were checked when it was made of them.
            let Ok(at) = parse(&directory) else { continue };
            let mut fits = true;
            let _ = store.list(&at, b"", &mut |name, node| {
                let kind = xdfs_engine::kinds::told(node.kind);
                let inode = (node.links > 1 && node.kind != NodeKind::Directory).then(|| {
                    let (device, number) = node.identity;
                    let mut inode = [0; 16];
                    inode[..8].copy_from_slice(&device.to_be_bytes());
                    inode[8..].copy_from_slice(&number.to_be_bytes());
                    inode
                });
                fits = count.add(options, join(&directory, name), kind, (node.size, inode));
                if fits && !self.is_stopped() { ListControl::More } else { ListControl::Stop }
            });
            if !fits || self.is_stopped() {
                return;
            }
        }
        self.finish(&count);
    }

    /// Counts the tree `base` (`EXPORT/path`) of a server; a lost session ends it.
    pub(super) fn count_remote(&self, session: &Session, base: &[u8], options: &TreeOptions) {
        let mut count = Count::new(options);
        while let Some(directory) = count.next() {
            let mut cursor = Vec::new();
            loop {
                match self.page(session, base, (&directory, &cursor), options, &mut count) {
                    Page::Last => break,
                    Page::More(next) => cursor = next,
                    Page::GivenUp => return,
                }
            }
        }
        self.finish(&count);
    }

    /// Counts one page of a directory.
    fn page(
        &self,
        session: &Session,
        base: &[u8],
        (directory, cursor): (&[u8], &[u8]),
        options: &TreeOptions,
        count: &mut Count,
    ) -> Page {
        let links = if options.keep.links { Wanted::LINKS.and(Wanted::INODE) } else { Wanted::NOTHING };
        let mut batch = Batch::new(base);
        let room = PAGE_BYTES.min(session.batch_bytes_max() / 2);
        batch.push_with_room(&Call::List { path: directory, wanted: Wanted::SIZE.and(links), cursor }, room);
        while !session.leaves_room_for_calls(room) {
            if self.waits() {
                return Page::GivenUp;
            }
        }
        // Without the session there is no total; the copy itself says why.
        let Ok(pending) = session.call(&batch) else { return Page::GivenUp };
        let Some(reply) = self.answer(&pending) else { return Page::GivenUp };
        let Ok(reply) = reply.read() else { return Page::GivenUp };
        // What may not be listed is not copied either.
        let Some(Ok(Answer::Listing(listing))) = reply.outcomes.into_iter().next() else { return Page::Last };
        let mut entries = listing.entries.clone();
        let fits = entries.all(|entry| {
            let told = entry.attributes;
            let inode = told.inode.filter(|_| told.links.is_some_and(|links| links > 1));
            count.add(options, join(directory, entry.name), told.kind, (told.size.unwrap_or(0), inode))
        });
        match listing {
            _ if !fits => Page::GivenUp,
            Listing { complete: true, .. } => Page::Last,
            listing if is_stuck(&listing) => Page::GivenUp,
            Listing { cursor, .. } => Page::More(cursor.to_vec()),
        }
    }

    /// Waits a moment; whether the copy has ended.
    fn waits(&self) -> bool {
        let counted = self.lock();
        if !self.is_stopped() {
            drop(self.stop.wait_timeout(counted, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner));
        }
        self.is_stopped()
    }

    fn answer(&self, pending: &PendingReply) -> Option<crate::calls::Reply> {
        loop {
            if let Some(reply) = pending.wait_for(LOOK_EVERY) {
                return reply.ok();
            }
            if self.is_stopped() {
                return None;
            }
        }
    }
}

/// What follows a page.
enum Page {
    Last,
    More(Vec<u8>),
    /// There will be no total.
    GivenUp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Preserve;
    use xdfs_io::store::LocalStore;

    fn counted(options: &TreeOptions, store: &LocalStore) -> Counted {
        let total = Total::default();
        total.count_local(store, options);
        total.counted()
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "sets the scene with files of its own")]
    fn a_local_tree_is_counted_as_it_is_copied() {
        let scene = tempfile::tempdir().unwrap();
        let top = scene.path();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::write(top.join("one"), [1; 10]).unwrap();
        std::fs::write(top.join("a/b/two"), [2; 300]).unwrap();
        std::fs::hard_link(top.join("a/b/two"), top.join("a/again")).unwrap();
        std::os::unix::fs::symlink("one", top.join("a/link")).unwrap();
        let store = LocalStore::open_root(top, false).unwrap();
        assert_eq!(counted(&TreeOptions::default(), &store), Counted::Known(Sum { names: 4, bytes: 610 }));
        let linked = TreeOptions { keep: Preserve { links: true, ..Preserve::default() }, ..TreeOptions::default() };
        assert_eq!(counted(&linked, &store), Counted::Known(Sum { names: 4, bytes: 310 }));
        let filter: crate::tree::Filter = std::sync::Arc::new(|path: &[u8], _| path != b"a/b");
        let filtered = TreeOptions { filter: Some(filter), ..TreeOptions::default() };
        assert_eq!(counted(&filtered, &store), Counted::Known(Sum { names: 3, bytes: 310 }));
    }

    #[test]
    fn directories_of_short_names_are_remembered_within_the_same_memory() {
        let options = TreeOptions::default();
        let mut count = Count::new(&options);
        let all = 1 << 20;
        let kept = (0..all).take_while(|_| count.add(&options, b"a".to_vec(), FileType::Directory, (0, None))).count();
        // A vector's place, and what an allocator takes for a byte.
        assert!(kept * 48 < WAITING_BYTES_MAX, "{kept} of {all}");
        while count.next().is_some() {}
        assert_eq!(count.waiting_bytes, 0);
    }

    #[test]
    fn a_copy_that_ends_stops_the_count_and_a_tree_that_is_counted_is_not_counted_again() {
        let total = Total::default();
        total.beside(|total| while !total.waits() {}, || ());
        assert_eq!(total.counted(), Counted::Unknown);
        let count = Count { sum: Sum { names: 1, bytes: 2 }, ..Count::new(&TreeOptions::default()) };
        total.beside(|total| total.finish(&count), || ());
        assert_eq!(total.counted(), Counted::Known(Sum { names: 1, bytes: 2 }));
        total.beside(|_| panic!("it is known"), || ());
    }
}
