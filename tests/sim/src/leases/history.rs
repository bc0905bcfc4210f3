//! What programs saw of one register, and whether one that everybody shares can have shown it.
//!
//! Every value is written once. So a history is that of a shared register if and only if the zones of its values do not
//! contradict each other: a value is there from the end of the first operation on it to the beginning of the last one (Gibbons
//! and Korach, "Testing shared memories", 1997).

use std::collections::{BTreeMap, BTreeSet};

/// From when to when an operation took.
type Span = (u64, u64);

/// Later than everything.
const NEVER: u64 = u64::MAX;

/// The operations of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    writes: BTreeMap<u64, (usize, Span)>,
    reads: Vec<(usize, u64, Span)>,
    /// Their programs were told that they failed.
    failed: BTreeSet<u64>,
    /// Their programs were told that nobody knows.
    unknown: BTreeSet<u64>,
}

impl History {
    /// A program was told that it wrote this.
    pub fn wrote(&mut self, who: usize, value: u64, span: Span) {
        self.writes.insert(value, (who, span));
    }

    /// A program read this.
    pub fn read(&mut self, who: usize, value: u64, span: Span) {
        self.reads.push((who, value, span));
    }

    /// A write that was kept never reached the server.
    pub fn failed(&mut self, value: u64) {
        self.failed.insert(value);
    }

    /// A write began, and its answer was lost.
    pub fn unknown(&mut self, who: usize, value: u64, began: u64) {
        self.writes.entry(value).or_insert((who, (began, NEVER))).1.1 = NEVER;
        self.unknown.insert(value);
    }

    /// An error if no shared register shows this.
    pub fn judge(&self) -> Result<(), String> {
        let mut zones: BTreeMap<u64, Span> = BTreeMap::from([(0, (0, 0))]);
        let seen_by_others =
            |value: u64, owner: usize| self.reads.iter().any(|read| read.1 == value && read.0 != owner);
        for (value, (owner, (began, ended))) in &self.writes {
            let gone = self.failed.contains(value) || self.unknown.contains(value) && !seen_by_others(*value, *owner);
            if !gone {
                zones.insert(*value, (*ended, *began));
            }
        }
        for (who, value, (began, ended)) in &self.reads {
            let own = self.writes.get(value).is_some_and(|write| write.0 == *who);
            let Some((first_end, last_begin)) = zones.get_mut(value) else {
                if own {
                    continue;
                }
                return Err(format!("client {who} read {value} at {ended}, which was never written"));
            };
            if self.writes.get(value).is_some_and(|write| write.1.0 > *ended) {
                return Err(format!("client {who} read {value} at {ended}, before it was written"));
            }
            (*first_end, *last_begin) = ((*first_end).min(*ended), (*last_begin).max(*began));
        }
        contradiction(&zones).map_or(Ok(()), Err)
    }
}

/// Zones as the end of the first operation and the beginning of the last.
fn contradiction(zones: &BTreeMap<u64, Span>) -> Option<String> {
    let mut forward: Vec<(u64, u64, u64)> = zones
        .iter()
        .filter(|(_, (end, begin))| end < begin)
        .map(|(value, (end, begin))| (*end, *begin, *value))
        .collect();
    forward.sort_unstable();
    for pair in forward.windows(2) {
        if pair[1].0 < pair[0].1 {
            return Some(format!(
                "{} is the value from {} to {}, and {} from {} to {}",
                pair[0].2, pair[0].0, pair[0].1, pair[1].2, pair[1].0, pair[1].1
            ));
        }
    }
    for (value, (end, begin)) in zones.iter().filter(|(_, (end, begin))| end >= begin) {
        if let Some(over) = forward.iter().find(|zone| zone.0 < *begin && *end < zone.1) {
            return Some(format!(
                "{value} was written from {begin} to {end}, while {} is the value from {} to {}",
                over.2, over.0, over.1
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_and_turned_reads_contradict_a_register() {
        let mut history = History::default();
        history.wrote(0, 1, (10, 20));
        history.read(1, 0, (5, 15));
        history.read(1, 1, (16, 18));
        assert_eq!(history.judge(), Ok(()));
        let mut stale = history.clone();
        stale.read(2, 0, (21, 22));
        assert!(stale.judge().is_err(), "the old value behind the end of the write");
        let mut turned = history.clone();
        turned.read(2, 0, (19, 19));
        assert!(turned.judge().is_err(), "the old value behind the new one");
        history.failed(1);
        assert!(history.judge().is_err(), "somebody saw what failed");
    }
}
