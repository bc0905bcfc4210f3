//! Penalties for sources with failed logins (as OpenSSH's PerSourcePenalties): each failure adds to
//! a debt that decays with time, and a source with a large debt is refused. Bounded; when it is
//! full, the source with the shortest remaining wait is dropped.

use crate::base::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet};

/// Penalty of a failed login: as OpenSSH's `authfail`.
const FAILURE: Duration = Duration::from_secs(5);
/// Debt from which a source is refused: three failures at once.
const ENFORCED: Duration = Duration::from_secs(15);
/// Largest debt: as OpenSSH's `max`.
const LONGEST: Duration = Duration::from_secs(600);

/// Penalties of sources whose logins failed, decaying with time.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Penalties<S> {
    /// When the debt of a source is paid off, and whether it has grown large enough to be enforced.
    debts: BTreeMap<S, (Instant, bool)>,
    by_end: BTreeSet<(Instant, S)>,
    most: usize,
}

impl<S: Copy + Ord> Penalties<S> {
    pub fn new(most: usize) -> Self {
        Self { debts: BTreeMap::new(), by_end: BTreeSet::new(), most: most.max(1) }
    }

    /// Whether the source must wait.
    pub fn holds(&mut self, source: S, now: Instant) -> bool {
        self.forget_paid(now);
        self.debts.get(&source).is_some_and(|(_, enforced)| *enforced)
    }

    /// How long the source must wait.
    pub fn left(&self, source: S, now: Instant) -> Duration {
        self.debts.get(&source).map_or(Duration::ZERO, |(until, _)| until.since(now))
    }

    /// A login of the source failed.
    pub fn add(&mut self, source: S, now: Instant) {
        self.forget_paid(now);
        let (paid, enforced) = self.debts.get(&source).copied().unwrap_or((now, false));
        self.by_end.remove(&(paid, source));
        let until = paid.after(FAILURE).min(now.after(LONGEST));
        let enforced = enforced || until.since(now) >= ENFORCED;
        self.debts.insert(source, (until, enforced));
        self.by_end.insert((until, source));
        while self.debts.len() > self.most {
            if let Some((_, source)) = self.by_end.pop_first() {
                self.debts.remove(&source);
            }
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        assert_eq!(self.debts.len(), self.by_end.len());
        self.debts.len()
    }

    fn forget_paid(&mut self, now: Instant) {
        while let Some((_, source)) = self.by_end.first().copied().filter(|(until, _)| *until <= now) {
            self.by_end.pop_first();
            self.debts.remove(&source);
        }
    }
}
