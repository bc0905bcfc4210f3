//! What happened since the last look, gathered by directory and name, and told to those who may learn
//! of it.

use super::table::{Entry, Scope, Table};
use super::{Queue, lock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use xdfs_io::store::Watcher;
use xdfs_io::store::reserved::is_reserved;
use xdfs_io::store::watch::{Happened, Mark};
use xdfs_proto::base::SessionId;
use xdfs_proto::notices;
use xdfs_proto::wire::notice::{Changes, Notice};

/// Names of one directory that are told apart in a round, and names for which the user of one session is
/// judged in it, besides once for each of its watches: all that a session is told anyway. Without rights nothing is told,
/// and no name fills it.
const NAMES_MAX: usize = notices::NAMES_MAX;

/// Names of all directories in a round.
const ALL_NAMES_MAX: usize = 16_384;

#[derive(Default)]
struct Directory {
    itself: Changes,
    names: BTreeMap<Vec<u8>, Changes>,
    /// More names than are told apart.
    more: bool,
}

/// What happened since the last one.
#[derive(Default)]
pub(super) struct Round {
    directories: BTreeMap<Mark, Directory>,
    names: usize,
    gone: BTreeSet<Mark>,
    lost: bool,
}

impl Round {
    /// This happened to a name in the directory, or to the directory itself.
    pub(super) fn happened(&mut self, mark: Mark, name: &[u8], happened: Happened) {
        let changes = match happened {
            Happened::Content => Changes::CONTENT,
            Happened::Attributes => Changes::ATTRIBUTES,
            Happened::Name => Changes::NAME,
            Happened::Gone => {
                self.gone.insert(mark);
                return;
            }
            Happened::Lost => {
                self.lost = true;
                return;
            }
        };
        let directory = self.directories.entry(mark).or_default();
        if name.is_empty() {
            directory.itself = directory.itself.and(changes);
        } else if let Some(known) = directory.names.get_mut(name) {
            *known = known.and(changes);
        } else if directory.names.len() < NAMES_MAX && self.names < ALL_NAMES_MAX {
            directory.names.insert(name.to_vec(), changes);
            self.names += 1;
        } else {
            directory.more = true;
        }
    }

    /// Adds it to what the sessions are to be told whose users may learn of it, as `judge` says for the
    /// name on the wire; returns them. Judging takes a while: the table is not locked meanwhile.
    pub(super) fn tell(
        self,
        table: &Mutex<Table>,
        watcher: Option<&Watcher>,
        judge: impl Fn(&Queue, &[u8]) -> bool,
    ) -> Vec<Arc<Queue>> {
        let mut told: BTreeMap<SessionId, Arc<Queue>> = BTreeMap::new();
        let mut note = |queue: &Arc<Queue>| drop(told.insert(queue.session, Arc::clone(queue)));
        let mut judged: BTreeMap<SessionId, usize> = BTreeMap::new();
        for (mark, directory) in &self.directories {
            let entries: Vec<_> = lock(table).watching(*mark).map(Arc::clone).collect();
            for entry in entries {
                let changes = directory.changes_for(&entry, judged.entry(entry.queue.session).or_default(), &judge);
                if !changes.is_empty() && lock(table).tell(&entry, &changes) {
                    note(&entry.queue);
                }
            }
        }
        let mut table = lock(table);
        if self.lost {
            for queue in table.queues() {
                lock(&queue.pending).add(Notice::of_all());
                note(&queue);
            }
        }
        for mark in self.gone {
            for entry in table.gone(mark, watcher) {
                entry.add(Changes::OVER, b"");
                note(&entry.queue);
            }
        }
        told.into_values().collect()
    }
}

impl Directory {
    /// What the client is told, by name; `judged` counts the names for which its user was judged in this round.
    fn changes_for(
        &self,
        entry: &Entry,
        judged: &mut usize,
        judge: &impl Fn(&Queue, &[u8]) -> bool,
    ) -> Vec<(Changes, &[u8])> {
        match &entry.scope {
            Scope::Name { component, name } => {
                let known = self.names.get(component).copied();
                let changes =
                    known.unwrap_or_default().and(if self.more { Changes::LOOK_AGAIN } else { Changes::NONE });
                let tells = changes != Changes::NONE && judge(&entry.queue, name);
                tells.then_some((changes, &b""[..])).into_iter().collect()
            }
            Scope::Names { directory } => self.changes_in(entry, directory, judged, judge),
        }
    }

    fn changes_in(
        &self,
        entry: &Entry,
        directory: &[u8],
        judged: &mut usize,
        judge: &impl Fn(&Queue, &[u8]) -> bool,
    ) -> Vec<(Changes, &[u8])> {
        let names = || self.names.iter().filter(|(name, _)| !is_reserved(name));
        let (mut itself, count) = (self.itself, names().count());
        let has_room = || *judged + count <= NAMES_MAX && !lock(&entry.queue.pending).is_full(entry.number);
        if self.more || (count > 0 && !has_room()) {
            itself = itself.and(Changes::LOOK_AGAIN);
        }
        let mut told = Vec::new();
        if itself != Changes::NONE && judge(&entry.queue, directory) {
            told.push((itself, &b""[..]));
        }
        if !itself.is_about_all() {
            *judged += count;
            let may_learn = |name: &[u8]| judge(&entry.queue, &[directory, b"/", name].concat());
            told.extend(names().filter(|(name, _)| may_learn(name)).map(|(name, changes)| (*changes, &name[..])));
        }
        told
    }
}
