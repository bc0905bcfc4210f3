//! Which directories are listed next, and what is known of those that were.

use super::super::directories::{Listed, Page};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use xdfs_client::Facts;

/// Directories of one batch.
const TOGETHER_MAX: usize = 15;
/// Bytes of their paths.
const PATHS_BYTES_MAX: usize = 64 << 10;

/// Directories behind the one that is read that are listed with it.
const BEHIND_MAX: usize = 32;

/// A program that goes through a directory in some order reads one of the next so many there.
const STEP_MAX: usize = 4;

/// Listings that are kept, and directories that wait to be listed.
const LISTED_MAX: usize = 256;
const WANTED_MAX: usize = 256;
/// Entries of all listings that are kept: more than so many have in pages of real directories. A server may pack a page with
/// entries of four bytes, each of which takes some three hundred here.
const ENTRIES_MAX: usize = 64 << 10;

/// Directories that were read, or looked into, of which that is remembered.
const REMEMBERED_MAX: usize = 256;

/// How long a program that goes through a tree may take for one directory.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(5);

/// So many names have to be looked up in a directory before it is listed.
const LOOKS_MIN: u32 = 4;

/// Listings that may go unused: at first, for each one that is used, and at most.
const CREDIT: usize = 32;
const CREDIT_FOR_USE: usize = 4;
const CREDIT_MAX: usize = 256;

/// A directory as it was.
#[derive(Debug)]
pub(in crate::tree) struct Listing {
    /// What it is itself.
    pub(super) facts: Facts,
    /// Its entries, from the first.
    pub(super) page: Arc<Page<Listed>>,
    /// The indexes of the entries in the order of their names.
    by_name: Vec<usize>,
    /// When it was asked for, by [`Tree::now`].
    pub(super) then: u64,
    pub(super) until: Instant,
}

impl Listing {
    pub(super) fn new(facts: Facts, page: Page<Listed>, then: u64, until: Instant) -> Self {
        let mut by_name: Vec<usize> = (0..page.entries.len()).collect();
        by_name.sort_by(|one, other| page.entries[*one].name.cmp(&page.entries[*other].name));
        Self { facts, page: Arc::new(page), by_name, then, until }
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<&Listed> {
        let at = |index: &usize| self.page.entries[*index].name.as_slice();
        let found = self.by_name.binary_search_by(|index| at(index).cmp(name)).ok()?;
        self.page.entries.get(self.by_name[found])
    }
}

/// What is known of a directory.
#[derive(Debug)]
pub(super) enum Known {
    Listed(Arc<Listing>),
    /// The answer is on its way.
    Asked,
    Nothing,
}

/// A directory that a program has read: it may go through the directories in it, or the files.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) when: Instant,
    /// The names of those, in the order of the listing and in their own.
    below: [Vec<Vec<u8>>; 2],
    /// Which one was read last, and in which order after the one before.
    last: Vec<u8>,
    order: usize,
}

impl Read {
    pub(super) fn new(when: Instant) -> Self {
        Self { when, below: [Vec::new(), Vec::new()], last: Vec::new(), order: 0 }
    }

    /// There are more, of which so many are remembered altogether.
    pub(super) fn extend(&mut self, names: Vec<Vec<u8>>, most: usize, now: Instant) {
        self.when = now;
        let [listed, sorted] = &mut self.below;
        listed.extend(names);
        listed.truncate(most);
        sorted.clone_from(listed);
        sorted.sort();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.below[0].len()
    }

    /// Those behind this one, in the order in which the last ones were read.
    fn next(&self, name: &[u8]) -> &[Vec<u8>] {
        let order = &self.below[self.order];
        order.iter().position(|other| other == name).map_or(&[], |at| &order[at + 1..])
    }

    /// Those that come next if this one is read now: in the order in which the last one was followed by this one. If that was
    /// neither of the two, some in either. Whether it was one of the two.
    pub(super) fn behind(&mut self, name: &[u8]) -> (Vec<Vec<u8>>, bool) {
        let place = |order: &[Vec<u8>], name: &[u8]| order.iter().position(|other| other == name);
        let steps = self.below.each_ref().map(|order| {
            let (last, now) = (place(order, &self.last), place(order, name)?);
            let is_step = last.is_some_and(|last| (1..=STEP_MAX).contains(&now.saturating_sub(last)));
            Some((now, is_step))
        });
        self.last = name.to_vec();
        let is_step = |step: &Option<(usize, bool)>| step.is_some_and(|(_, is_step)| is_step);
        let any = steps.iter().any(is_step);
        self.order = steps.iter().position(is_step).unwrap_or(self.order);
        let both = self.below.iter().zip(steps).filter_map(|(order, step)| {
            let (now, is_step) = step?;
            let next = order[now + 1..].iter().take(if any { BEHIND_MAX } else { BEHIND_MAX / 2 });
            (is_step || !any).then(|| next.cloned())
        });
        (both.flatten().collect(), any)
    }
}

#[derive(Default, Debug)]
pub(super) struct State {
    /// Directories that programs have read.
    read: BTreeMap<Vec<u8>, Read>,
    /// Directories in which names were looked up, how many, and when the first.
    looked_into: BTreeMap<Vec<u8>, (u32, Instant)>,
    pub(super) wanted: VecDeque<Vec<u8>>,
    asked: BTreeSet<Vec<u8>>,
    listed: BTreeMap<Vec<u8>, Arc<Listing>>,
    pub(super) credit: usize,
    /// When there was credit without use last.
    granted: Option<Instant>,
    pub(super) ended: bool,
}

impl State {
    /// A program reads a directory. If it has come from the one above, those that it reads next.
    pub(super) fn reads(&mut self, path: &[u8], now: Instant) -> Option<Vec<Vec<u8>>> {
        let (above, name) = split(path)?;
        let read = self.read.get_mut(above).filter(|read| now < read.when + PAUSE_MAX)?;
        read.when = now;
        let behind = read.behind(name).0.iter().map(|name| join(above, name)).collect();
        self.grant(now);
        Some(behind)
    }

    /// What a program has found in a directory.
    pub(super) fn has_read(&mut self, path: &[u8], below: Vec<Vec<u8>>, now: Instant) {
        if self.read.len() >= REMEMBERED_MAX {
            self.read.retain(|_, read| now < read.when + PAUSE_MAX);
        }
        if self.read.len() >= REMEMBERED_MAX
            && let Some(oldest) = self.read.iter().min_by_key(|(_, read)| read.when).map(|(path, _)| path.clone())
        {
            self.read.remove(&oldest);
        }
        let mut read = Read::new(now);
        read.extend(below, usize::MAX, now);
        self.read.insert(path.to_vec(), read);
    }

    /// The directories that are read after this one, if the program goes on as it did.
    pub(super) fn behind(&self, path: &[u8], most: usize) -> Vec<Vec<u8>> {
        let Some((above, name)) = split(path) else { return Vec::new() };
        let next = self.read.get(above).map(|read| read.next(name)).unwrap_or_default();
        next.iter().take(most).map(|name| join(above, name)).collect()
    }

    /// A name was looked up in a directory, and asked for; whether the directory is to be listed.
    pub(super) fn looks_into(&mut self, path: &[u8], valid: Duration, now: Instant) -> bool {
        let is_recent = |when: Instant| now < when + valid;
        if self.looked_into.len() >= REMEMBERED_MAX {
            self.looked_into.retain(|_, (_, when)| is_recent(*when));
        }
        let has_room = self.looked_into.len() < REMEMBERED_MAX;
        let Some((looks, when)) = self.looked_into.get_mut(path) else {
            if has_room {
                self.looked_into.insert(path.to_vec(), (1, now));
            }
            return false;
        };
        if !is_recent(*when) {
            (*looks, *when) = (0, now);
        }
        *looks += 1;
        let is_enough = *looks == LOOKS_MIN;
        if is_enough {
            self.grant(now);
        }
        is_enough
    }

    /// What was not used long ago is forgiven.
    fn grant(&mut self, now: Instant) {
        if self.granted.is_none_or(|when| now >= when + PAUSE_MAX) {
            self.granted = Some(now);
            self.credit = self.credit.max(CREDIT);
        }
    }

    /// Directories are to be listed, before all others, and in this order.
    pub(super) fn want(&mut self, paths: Vec<Vec<u8>>, now: Instant) {
        for path in paths.into_iter().rev() {
            let is_known = self.asked.contains(&path) || self.listed.get(&path).is_some_and(|known| now < known.until);
            if !is_known {
                self.wanted.retain(|other| *other != path);
                self.wanted.push_front(path);
            }
        }
        self.wanted.truncate(WANTED_MAX);
    }

    /// Whether there is something to list, which may be listed.
    pub(super) fn has_work(&self) -> bool {
        !self.wanted.is_empty() && self.credit > 0
    }

    /// Those that are listed next, together.
    pub(super) fn next(&mut self) -> Vec<Vec<u8>> {
        let most = self.credit.min(TOGETHER_MAX);
        let (mut next, mut bytes) = (Vec::new(), 0);
        while next.len() < most
            && let Some(path) = self.wanted.front()
            && bytes + path.len() <= PATHS_BYTES_MAX
        {
            bytes += path.len();
            next.extend(self.wanted.pop_front());
        }
        self.credit -= next.len();
        self.asked.extend(next.iter().cloned());
        next
    }

    /// What came of one.
    pub(super) fn keep(&mut self, path: &[u8], listing: Option<Listing>, now: Instant) {
        self.asked.remove(path);
        let Some(listing) = listing else { return };
        // In its place.
        self.listed.remove(path);
        if !self.has_room(&listing) {
            self.listed.retain(|_, known| now < known.until);
        }
        if self.has_room(&listing) {
            self.listed.insert(path.to_vec(), Arc::new(listing));
        }
    }

    fn has_room(&self, listing: &Listing) -> bool {
        let entries: usize = self.listed.values().map(|known| known.page.entries.len()).sum();
        self.listed.len() < LISTED_MAX && entries + listing.page.entries.len() <= ENTRIES_MAX
    }

    /// The server says that a directory has no such name: a listing with it is old.
    pub(super) fn is_gone(&mut self, path: &[u8], name: &[u8]) {
        if self.listed.get(path).is_some_and(|listing| listing.find(name).is_some()) {
            self.listed.remove(path);
        }
    }

    pub(super) fn known(&self, path: &[u8], now: Instant) -> Known {
        match self.listed.get(path).filter(|listing| now < listing.until) {
            Some(listing) => Known::Listed(Arc::clone(listing)),
            None if self.asked.contains(path) => Known::Asked,
            None => Known::Nothing,
        }
    }

    /// A listing was of use. Whether others may be listed for that, which had to wait.
    pub(super) fn used(&mut self) -> bool {
        let had_work = self.has_work();
        self.credit = (self.credit + CREDIT_FOR_USE).min(CREDIT_MAX);
        !had_work && self.has_work()
    }
}

/// The path of the directory that a path is in, and its name there; none of the one that is mounted.
pub(super) fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => Some((&path[..at], &path[at + 1..])),
        None => (!path.is_empty()).then_some((b"", path)),
    }
}

pub(super) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdfs_client::wire::FileType;

    const VALID: Duration = Duration::from_secs(1);

    fn paths(names: &[&str]) -> Vec<Vec<u8>> {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    fn facts() -> Facts {
        Facts::from(&xdfs_client::wire::Attributes::of(FileType::Directory))
    }

    fn listing(until: Instant) -> Listing {
        Listing::new(facts(), Page::default(), 0, until)
    }

    #[test]
    fn who_comes_from_the_directory_above_goes_through_a_tree() {
        let (mut state, now) = (State::default(), Instant::now());
        assert_eq!(state.reads(b"", now), None, "nothing is above the top");
        state.has_read(b"", paths(&["b", "d", "a", "c"]), now);
        assert_eq!(state.reads(b"e/f", now), None);
        // Either order, then the one that it turns out to be.
        assert_eq!(state.reads(b"b", now), Some(paths(&["d", "a", "c", "c", "d"])));
        assert_eq!(state.reads(b"d", now), Some(paths(&["a", "c"])));
        state.has_read(b"d", paths(&["x", "y"]), now);
        assert_eq!(state.reads(b"d/x", now), Some(paths(&["d/y", "d/y"])));
        assert_eq!(state.reads(b"a", now + PAUSE_MAX), None, "that was another program");
        for number in 0..2 * REMEMBERED_MAX {
            state.has_read(format!("{number}").as_bytes(), Vec::new(), now + PAUSE_MAX);
        }
        assert_eq!(state.read.len(), REMEMBERED_MAX);
    }

    #[test]
    fn a_directory_is_gone_through_in_the_order_of_its_names_too() {
        let (mut state, now) = (State::default(), Instant::now());
        state.has_read(b"", paths(&["d", "b", "a", "c"]), now);
        state.reads(b"a", now);
        assert_eq!(state.reads(b"b", now), Some(paths(&["c", "d"])));
    }

    #[test]
    fn the_last_wish_is_first_and_each_is_listed_once() {
        let (mut state, now) = (State::default(), Instant::now());
        state.want(paths(&["a", "b"]), now);
        assert!(state.next().is_empty(), "nobody goes through a tree");
        state.grant(now);
        state.want(paths(&["a/c", "b"]), now);
        assert_eq!(state.next(), paths(&["a/c", "b", "a"]));
        state.want(paths(&["a"]), now);
        assert!(state.next().is_empty(), "it is on its way");
        state.keep(b"a", Some(listing(now + VALID)), now);
        state.want(paths(&["a"]), now);
        assert!(state.next().is_empty(), "it is known");
        state.want(paths(&["a"]), now + VALID);
        assert_eq!(state.next(), paths(&["a"]));
    }

    #[test]
    fn what_is_not_used_ends_and_what_is_used_goes_on() {
        let (mut state, now) = (State::default(), Instant::now());
        let many = || (0..WANTED_MAX + 9).map(|number| format!("{number}").into_bytes()).collect::<Vec<_>>();
        let listed = |state: &mut State| {
            state.want(many(), now);
            let next: Vec<_> = std::iter::from_fn(|| Some(state.next()).filter(|next| !next.is_empty())).collect();
            assert!(next.iter().all(|some| some.len() <= TOGETHER_MAX));
            let next = next.concat();
            next.iter().for_each(|path| state.keep(path, None, now));
            next.len()
        };
        state.grant(now);
        assert_eq!(listed(&mut state), CREDIT);
        state.grant(now);
        assert_eq!(listed(&mut state), 0, "all of it was for nothing, and a moment ago");
        assert!(state.used(), "some have waited for that");
        assert!(!state.used(), "they have been told");
        assert_eq!(listed(&mut state), 2 * CREDIT_FOR_USE);
        for _ in 0..WANTED_MAX {
            state.used();
        }
        assert_eq!(state.credit, CREDIT_MAX);
    }

    #[test]
    fn a_listing_is_not_used_when_its_time_is_over() {
        let (mut state, now) = (State::default(), Instant::now());
        state.keep(b"a", Some(listing(now + VALID)), now);
        assert!(matches!(state.known(b"a", now), Known::Listed(_)));
        assert!(matches!(state.known(b"a", now + VALID), Known::Nothing));
        for number in 0..2 * LISTED_MAX {
            state.keep(format!("{number}").as_bytes(), Some(listing(now + VALID)), now);
        }
        assert_eq!(state.listed.len(), LISTED_MAX);
    }

    #[test]
    fn short_entries_take_no_more_memory_than_real_ones() {
        let (mut state, now) = (State::default(), Instant::now());
        let packed = |until| Listing::new(facts(), Page::of_copies(b"n", facts(), ENTRIES_MAX / 3), 0, until);
        for number in 0..4_u8 {
            state.keep(&[number], Some(packed(now + VALID)), now);
            state.keep(&[number], Some(packed(now + VALID)), now);
        }
        assert_eq!(state.listed.len(), 3, "the fourth has no room, and a second one takes the place of the first");
        state.keep(b"later", Some(packed(now + 2 * VALID)), now + VALID);
        assert_eq!(state.listed.len(), 1, "those before it are no longer used");
    }

    #[test]
    fn a_directory_is_listed_when_several_names_are_looked_up_in_a_short_time() {
        let (mut state, now) = (State::default(), Instant::now());
        let mut looks = |at: Instant| (0..LOOKS_MIN).map(|_| state.looks_into(b"a", VALID, at)).collect::<Vec<_>>();
        assert_eq!(looks(now), [false, false, false, true]);
        assert_eq!(looks(now), [false; LOOKS_MIN as usize], "once is enough");
        assert_eq!(looks(now + VALID), [false, false, false, true]);
        for number in 0..2 * REMEMBERED_MAX {
            state.looks_into(format!("{number}").as_bytes(), VALID, now + VALID);
        }
        assert_eq!(state.looked_into.len(), REMEMBERED_MAX);
    }

    #[test]
    fn a_path_is_split_at_its_last_name() {
        let parts = |path| split(path).map(|(above, name)| join(above, name));
        assert_eq!((parts(b"a/b/c"), parts(b"a"), parts(b"")), (Some(b"a/b/c".to_vec()), Some(b"a".to_vec()), None));
        assert_eq!(split(b"a/b/c"), Some((&b"a/b"[..], &b"c"[..])));
    }
}
