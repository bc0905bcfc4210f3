//! Which files are opened next, and which are open that nobody has asked for yet.

use super::super::state::{PAUSE_MAX, Read, join};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// Files that are opened together, and all that are open or on their way: with 64 KiB each at most 4 MiB.
const TOGETHER_MAX: usize = 16;
const OPEN_MAX: usize = 64;

/// Files behind the one that a program opens that are opened with it.
const BEHIND_MAX: usize = 32;

/// Directories of which the small files are remembered, and files of each.
const REMEMBERED_MAX: usize = 64;
const NAMES_MAX: usize = 1024;

/// Files that may be opened for nothing: at first, for each one that is used, and at most.
const CREDIT: usize = 8;
const CREDIT_FOR_USE: usize = 3;
const CREDIT_MAX: usize = 64;

/// A server that grants no leases is not asked for so long.
const WITHOUT_LEASES: Duration = Duration::from_secs(60);

/// What a thread does next.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Task<F> {
    Open(Vec<Vec<u8>>),
    Close(Vec<F>),
}

#[derive(Debug)]
pub(super) struct State<F> {
    orders: BTreeMap<Vec<u8>, Read>,
    wanted: VecDeque<Vec<u8>>,
    asked: BTreeSet<Vec<u8>>,
    /// Open files, and when they are of no use any more.
    open: BTreeMap<Vec<u8>, (F, Instant)>,
    closing: Vec<F>,
    credit: usize,
    /// When there was credit without use last.
    granted: Option<Instant>,
    /// Nothing is opened until then.
    refused: Option<Instant>,
    pub(super) ended: bool,
}

impl<F> Default for State<F> {
    fn default() -> Self {
        Self {
            orders: BTreeMap::new(),
            wanted: VecDeque::new(),
            asked: BTreeSet::new(),
            open: BTreeMap::new(),
            closing: Vec::new(),
            credit: 0,
            granted: None,
            refused: None,
            ended: false,
        }
    }
}

impl<F> State<F> {
    /// The small files of a page of a directory that a program reads.
    pub(super) fn has_listed(&mut self, path: &[u8], names: Vec<Vec<u8>>, first: bool, now: Instant) {
        match self.orders.get_mut(path).filter(|_| !first) {
            Some(read) => read.extend(names, NAMES_MAX, now),
            None if names.is_empty() => {}
            None => {
                if self.orders.len() >= REMEMBERED_MAX
                    && !self.orders.contains_key(path)
                    && let Some(oldest) =
                        self.orders.iter().min_by_key(|(_, read)| read.when).map(|(path, _)| path.clone())
                {
                    self.orders.remove(&oldest);
                }
                let mut read = Read::new(now);
                read.extend(names, NAMES_MAX, now);
                self.orders.insert(path.to_vec(), read);
            }
        }
    }

    /// A program opens a file, which was opened early and is `used` or not. Those behind it in its directory, and how many there
    /// may be altogether.
    pub(super) fn opens(&mut self, above: &[u8], name: &[u8], used: bool, now: Instant) -> (Vec<Vec<u8>>, usize) {
        if used {
            self.credit = (self.credit + CREDIT_FOR_USE).min(CREDIT_MAX);
        }
        let Some(read) = self.orders.get_mut(above).filter(|read| now < read.when + PAUSE_MAX) else {
            return (Vec::new(), 0);
        };
        read.when = now;
        let (next, is_step) = read.behind(name);
        let is_forgiven = self.granted.is_none_or(|when| now >= when + PAUSE_MAX);
        if is_step && is_forgiven {
            self.granted = Some(now);
            self.credit = self.credit.max(CREDIT);
        }
        if self.credit == 0 || self.refused.is_some_and(|until| now < until) {
            return (Vec::new(), 0);
        }
        (next.iter().take(BEHIND_MAX).map(|name| join(above, name)).collect(), BEHIND_MAX)
    }

    /// These are to be opened, and no others.
    pub(super) fn want(&mut self, paths: Vec<Vec<u8>>) {
        // Where the order is not known yet the same file is in both.
        let mut known = self.asked.clone();
        let is_new = |path: &Vec<u8>| !self.open.contains_key(path) && known.insert(path.clone());
        self.wanted = paths.into_iter().filter(is_new).collect();
    }

    /// What is to be done now.
    pub(super) fn next(&mut self, now: Instant) -> Option<Task<F>> {
        let old: Vec<Vec<u8>> =
            self.open.iter().filter(|(_, (_, until))| *until <= now).map(|(path, _)| path.clone()).collect();
        let old = old.iter().filter_map(|path| self.open.remove(path)).map(|(file, _)| file);
        self.closing.extend(old);
        let room = OPEN_MAX.saturating_sub(self.asked.len() + self.open.len());
        let count = self.wanted.len().min(self.credit).min(TOGETHER_MAX).min(room);
        if count > 0 {
            self.credit -= count;
            let next: Vec<Vec<u8>> = self.wanted.drain(..count).collect();
            self.asked.extend(next.iter().cloned());
            return Some(Task::Open(next));
        }
        (!self.closing.is_empty()).then(|| Task::Close(std::mem::take(&mut self.closing)))
    }

    /// When the first of those that are open is of no use any more.
    pub(super) fn expires(&self) -> Option<Instant> {
        self.open.values().map(|(_, until)| *until).min()
    }

    /// The server has answered, and granted a lease or not.
    pub(super) fn answered(&mut self, any_lease: bool, now: Instant) {
        self.refused = (!any_lease).then(|| now + WITHOUT_LEASES);
    }

    /// What came of one.
    pub(super) fn keep(&mut self, path: &[u8], file: Option<F>, until: Instant) {
        self.asked.remove(path);
        if let Some((before, _)) = file.and_then(|file| self.open.insert(path.to_vec(), (file, until))) {
            self.closing.push(before);
        }
    }

    pub(super) fn is_asked(&self, path: &[u8]) -> bool {
        self.asked.contains(path) && !self.ended
    }

    pub(super) fn take(&mut self, path: &[u8]) -> Option<F> {
        self.wanted.retain(|wanted| wanted != path);
        self.open.remove(path).map(|(file, _)| file)
    }

    pub(super) fn close(&mut self, file: F) {
        self.closing.push(file);
    }

    pub(super) fn take_all(&mut self) -> Vec<F> {
        let open = std::mem::take(&mut self.open).into_values().map(|(file, _)| file);
        open.chain(std::mem::take(&mut self.closing)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1);

    fn paths(names: &[&str]) -> Vec<Vec<u8>> {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    fn listed(names: &[&str], now: Instant) -> State<u32> {
        let mut state = State::default();
        state.has_listed(b"d", paths(names), true, now);
        state
    }

    fn open(state: &mut State<u32>, name: &str, now: Instant) {
        let (next, _) = state.opens(b"d", name.as_bytes(), false, now);
        state.want(next);
    }

    #[test]
    fn the_second_file_in_order_has_those_behind_it_opened() {
        let now = Instant::now();
        let mut state = listed(&["b", "d", "a", "c"], now);
        open(&mut state, "b", now);
        assert_eq!(state.next(now), None, "it may be the only one");
        state.want(paths(&["d/x", "d/x"]));
        assert_eq!(state.wanted.len(), 1);
        open(&mut state, "d", now);
        assert_eq!(state.next(now), Some(Task::Open(paths(&["d/a", "d/c"]))));
        open(&mut state, "a", now);
        assert_eq!(state.next(now), None, "both are on their way");
        assert!(state.is_asked(b"d/c"));
        state.keep(b"d/c", Some(7), now + LONG);
        assert!(!state.is_asked(b"d/c"));
        assert_eq!((state.take(b"d/c"), state.take(b"d/c")), (Some(7), None));
    }

    #[test]
    fn what_nobody_uses_is_closed_and_no_more_is_opened() {
        let now = Instant::now();
        let names: Vec<String> = (0..100).map(|number| format!("{number:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut state = listed(&names, now);
        let mut opened = 0;
        for name in &names[..50] {
            open(&mut state, name, now);
            while let Some(Task::Open(paths)) = state.next(now) {
                opened += paths.len();
                paths.iter().for_each(|path| state.keep(path, Some(1), now + LONG));
            }
        }
        assert_eq!(opened, CREDIT);
        assert_eq!(state.expires(), Some(now + LONG));
        assert_eq!(state.next(now + LONG), Some(Task::Close(vec![1; CREDIT])));
        assert_eq!((state.next(now + LONG), state.expires()), (None, None));
    }

    #[test]
    fn what_is_used_lets_more_be_opened_up_to_a_bound() {
        let now = Instant::now();
        let names: Vec<String> = (0..900).map(|number| format!("{number:03}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut state = listed(&names, now);
        let (mut used, mut most) = (0, 0);
        for name in &names {
            let path = join(b"d", name.as_bytes());
            let is_used = state.take(&path).is_some();
            used += usize::from(is_used);
            let (next, _) = state.opens(b"d", name.as_bytes(), is_used, now);
            state.want(next);
            while let Some(Task::Open(paths)) = state.next(now) {
                paths.iter().for_each(|path| state.keep(path, Some(1), now + LONG));
            }
            most = most.max(state.open.len());
        }
        assert!(used > 890 && most <= BEHIND_MAX, "{used} {most}");
    }

    #[test]
    fn a_server_without_leases_is_left_alone_for_a_time() {
        let now = Instant::now();
        let mut state = listed(&["a", "b", "c", "d"], now);
        open(&mut state, "a", now);
        state.answered(false, now);
        open(&mut state, "b", now);
        assert_eq!(state.next(now), None);
        state.answered(true, now);
        open(&mut state, "c", now);
        assert_eq!(state.next(now), Some(Task::Open(paths(&["d/d"]))));
    }

    #[test]
    fn directories_that_are_remembered_and_their_names_have_bounds() {
        let (mut state, now) = (State::<u32>::default(), Instant::now());
        let many = || (0..2 * NAMES_MAX).map(|number| format!("{number}").into_bytes()).collect::<Vec<_>>();
        for number in 0..2 * REMEMBERED_MAX {
            state.has_listed(format!("{number}").as_bytes(), many(), true, now);
            state.has_listed(format!("{number}").as_bytes(), many(), false, now);
        }
        assert_eq!(state.orders.len(), REMEMBERED_MAX);
        assert!(state.orders.values().all(|read| read.len() == NAMES_MAX));
    }
}
