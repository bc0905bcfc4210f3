//! What the mounted directory is, and the space of its file system. Whoever unmounts it looks at both first, also if the server
//! is lost: so they are waited for a short time, and then it is told what they were.

use super::Tree;
use crate::inodes::ROOT;
use crate::kernel::FileSystemFacts;
use rustix::io::Errno;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xdfs_client::Facts;

/// How long the server may take to tell them.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is told of the mounted directory: its attributes, and the space of its file system.
#[derive(Debug)]
pub(super) struct Root {
    facts: LastKnown<Told>,
    space: LastKnown<Option<FileSystemFacts>>,
}

/// What one thread asks for whenever somebody wants to know it.
#[derive(Debug)]
struct LastKnown<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    /// How often somebody wanted to know, and for how many of those it was asked.
    wanted: u64,
    answered: u64,
    told: T,
    /// Why it could not be told the last time.
    failed: Option<Errno>,
    ended: bool,
}

/// What the directory is, or was.
#[derive(Clone, PartialEq, Debug)]
struct Told {
    facts: Facts,
    /// When it was asked for, by [`Tree::now`] and by the clock.
    then: u64,
    asked: Instant,
}

/// How something is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Freshness {
    /// It was asked for since somebody wanted to know.
    Now,
    /// The server does not answer.
    Last,
}

impl<T: Clone> LastKnown<T> {
    fn new(told: T) -> Self {
        let state = State { wanted: 0, answered: 0, told, failed: None, ended: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Waits until somebody wants to know; how many did. None at the end.
    fn next(&self) -> Option<u64> {
        let waits = |state: &mut State<T>| state.answered >= state.wanted && !state.ended;
        let state = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        (!state.ended).then_some(state.wanted)
    }

    fn answer(&self, wanted: u64, outcome: Result<T, Errno>) {
        let mut state = self.lock();
        state.answered = wanted;
        match outcome {
            Ok(told) => (state.told, state.failed) = (told, None),
            Err(errno) => state.failed = Some(errno),
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Asks whenever somebody wants to know, until [`LastKnown::end`].
    fn ask(&self, ask: impl Fn() -> Result<T, Errno>) {
        while let Some(wanted) = self.next() {
            self.answer(wanted, ask());
        }
    }

    /// What it is now; what it was if that is not told within this time.
    fn find(&self, patience: Duration) -> Result<(T, Freshness), Errno> {
        let mut state = self.lock();
        state.wanted += 1;
        let wanted = state.wanted;
        self.changed.notify_all();
        let waits = |state: &mut State<T>| state.answered < wanted && !state.ended;
        let waited = self.changed.wait_timeout_while(state, patience, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.failed.filter(|_| state.answered >= wanted) {
            // It is lost.
            Some(Errno::IO) => Ok((state.told.clone(), Freshness::Last)),
            Some(errno) => Err(errno),
            None if state.answered >= wanted => Ok((state.told.clone(), Freshness::Now)),
            None => Ok((state.told.clone(), Freshness::Last)),
        }
    }
}

impl Root {
    pub(super) fn new(facts: Facts) -> Self {
        let told = Told { facts, then: 0, asked: Instant::now() };
        Self { facts: LastKnown::new(told), space: LastKnown::new(None) }
    }

    pub(super) fn end(&self) {
        self.facts.end();
        self.space.end();
    }
}

impl Tree {
    /// Asks for the attributes of the mounted directory whenever somebody wants to know; until [`Root::end`].
    pub(super) fn look_at_root(&self) {
        self.known.root.facts.ask(|| {
            let (then, asked) = (self.now(), Instant::now());
            self.facts_of(b"").map(|facts| Told { facts, then, asked })
        });
    }

    /// The same for the space of its file system.
    pub(super) fn look_at_space(&self) {
        self.known.root.space.ask(|| self.space_at(b"").map(Some));
    }

    /// The attributes of the mounted directory, and for how long they may be used.
    pub(super) fn root_facts(&self) -> Result<(Facts, Duration), Errno> {
        let (Told { facts, then, asked }, freshness) = self.known.root.facts.find(PATIENCE)?;
        if freshness == Freshness::Last || self.is_newer(ROOT, then) {
            return Ok((facts, Duration::ZERO));
        }
        self.known.facts.keep(ROOT, &facts, then, asked + self.settings.valid);
        Ok((facts, self.settings.valid))
    }

    /// The space of its file system; none if that was never told.
    pub(super) fn root_space(&self) -> Result<Option<FileSystemFacts>, Errno> {
        self.known.root.space.find(PATIENCE).map(|(space, _)| space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn who_looks_is_told_what_was_known_if_nobody_answers() {
        let root = LastKnown::new(1);
        assert_eq!(root.find(Duration::ZERO), Ok((1, Freshness::Last)));
        let wanted = root.next().unwrap();
        root.answer(wanted, Ok(2));
        assert_eq!(root.find(Duration::ZERO), Ok((2, Freshness::Last)), "that was an answer to an earlier question");
    }

    #[test]
    fn who_looks_is_told_what_is_so_since() {
        let root = LastKnown::new(1);
        let _ = root.find(Duration::ZERO);
        std::thread::scope(|scope| {
            let before = root.next().unwrap();
            let looks = scope.spawn(|| root.find(LONG));
            while root.lock().wanted == before {
                std::thread::yield_now();
            }
            root.answer(before, Ok(2));
            let wanted = root.next().unwrap();
            root.answer(wanted, Ok(3));
            assert_eq!(looks.join().unwrap(), Ok((3, Freshness::Now)));
        });
    }

    #[test]
    fn an_error_of_the_server_is_told_and_that_it_is_lost_is_none() {
        let root = LastKnown::new(1);
        for (errno, expected) in [(Errno::NOENT, Err(Errno::NOENT)), (Errno::IO, Ok((1, Freshness::Last)))] {
            std::thread::scope(|scope| {
                let looks = scope.spawn(|| root.find(LONG));
                let wanted = root.next().unwrap();
                root.answer(wanted, Err(errno));
                assert_eq!(looks.join().unwrap(), expected);
            });
        }
    }

    #[test]
    fn nobody_waits_at_the_end() {
        let root = LastKnown::new(1);
        root.end();
        assert_eq!(root.next(), None);
        assert_eq!(root.find(LONG), Ok((1, Freshness::Last)));
    }
}
