//! Second names of files, and what else has to wait for everything else.

use super::{Task, Upload};
use crate::session::Session;
use crate::tree::desk::{Flow, LIST_ROOM, Turn, too_long};
use crate::tree::events::{Deed, Observer};
use crate::tree::spill::{Drain, Spill};
use std::collections::HashMap;
use xdfs_proto::base::{ErrorKind, RelPath};
use xdfs_proto::wire::path::{Call, NewTime, Wanted};
use xdfs_xio::store::Tree;
use xdfs_xio::store::tree::Node;

/// Tasks that are taken from a list at a time.
const TAKEN: usize = 256;

/// Files with several names that were met: where the path of the first one is.
#[derive(Debug, Default)]
pub(super) struct Firsts {
    places: HashMap<(u64, u64), u64>,
    paths: Spill,
}

/// What comes behind everything else, in this order.
#[derive(Debug, Default)]
pub(super) struct Late {
    links: Spill,
    linking: Option<Drain>,
    /// Directories that got a second name.
    touched: Spill,
    touching: Option<Drain>,
    removing: Option<Drain>,
}

impl Upload {
    /// Whether this is one more name of a file that was met already; it is made when the first one is there.
    pub(super) fn is_second(&mut self, path: &[u8], node: &Node, observer: &mut dyn Observer) -> bool {
        let kept = match self.firsts.places.get(&node.identity) {
            Some(place) => {
                let place = *place;
                self.firsts.paths.at(place).and_then(|(first, _)| self.late.links.push(&first, path)).map(|_| true)
            }
            None => self.firsts.paths.push(path, b"").map(|place| {
                self.firsts.places.insert(node.identity, place);
                false
            }),
        };
        kept.unwrap_or_else(|error| {
            // Then it becomes a file of its own: no byte is missing.
            observer.note(&error.message);
            false
        })
    }

    /// Takes up what waits behind everything else; false when nothing is left.
    pub(super) fn take_up_late(&mut self, observer: &mut dyn Observer) -> bool {
        if self.options.dry_run {
            return self.tell_late(observer);
        }
        if self.late.linking.is_none() {
            self.late.linking = Some(drained(&mut self.late.links, observer));
        }
        let links: Vec<_> = self.late.linking.iter_mut().flatten().take(TAKEN).collect();
        for pair in links {
            match pair {
                Ok((first, path)) => self.desk.tasks.push(Task::Link { first, path, again: false }),
                Err(error) => observer.note(&error.message),
            }
        }
        if !self.desk.tasks.is_empty() {
            return true;
        }
        if self.late.removing.is_none() {
            let drain = if self.may_delete(observer) { drained(&mut self.surplus, observer) } else { Drain::default() };
            self.late.removing = Some(drain);
        }
        let surplus: Vec<_> = self.late.removing.iter_mut().flatten().take(TAKEN).flatten().collect();
        for (path, kind) in surplus {
            // The source may have got it since the target was looked at, and then it has been sent.
            if self.is_absent(&path, observer) {
                self.desk.tasks.push(if kind == b"d" {
                    Task::RemoveAll { path, cursor: Vec::new() }
                } else {
                    Task::Remove(path)
                });
            }
        }
        if !self.desk.tasks.is_empty() {
            return true;
        }
        if self.late.touching.is_none() {
            self.late.touching = Some(drained(&mut self.late.touched, observer));
        }
        let touched: Vec<_> = self.late.touching.iter_mut().flatten().take(TAKEN).flatten().collect();
        self.desk.tasks.extend(touched.into_iter().map(|(path, _)| Task::Retouch(path)));
        !self.desk.tasks.is_empty()
    }

    /// Takes on what comes behind everything else.
    pub(super) fn take_late(&mut self, session: &Session, observer: &mut dyn Observer, task: Task) -> Flow<Turn<Task>> {
        match task {
            Task::Link { ref first, ref path, again } => {
                let (first, path) = (first.clone(), path.clone());
                if !self.desk.takes_path(session, first.len().max(path.len())) {
                    self.linked(observer, first, path, again, Some(too_long()));
                    return Ok(Turn::Taken);
                }
                if !self.desk.make_room(session, 2, first.len() + 2 * path.len(), 0)? {
                    return Ok(Turn::Later(task));
                }
                if again {
                    self.desk.filling.push(&Call::Unlink { path: &path }, 0, Task::Step);
                }
                self.desk.filling.push(&Call::Link { path: &first, to: &path }, 0, task);
                Ok(Turn::Taken)
            }
            Task::Retouch(ref path) => {
                let path = path.clone();
                let modified =
                    RelPath::parse(&path).ok().and_then(|at| self.store.node(&at).ok()).map(|node| node.modified);
                let modified = modified.map(NewTime::At);
                self.desk.ask(session, &Call::SetTimes { path: &path, modified, accessed: None }, 0, task)
            }
            Task::Remove(ref path) => {
                let path = path.clone();
                self.desk.ask(session, &Call::Unlink { path: &path }, 0, task)
            }
            Task::RemoveEmpty(ref path) => {
                // What was in it has to be gone.
                self.desk.flush(session)?;
                if !self.desk.flight.is_empty() || !self.desk.filling.is_empty() {
                    return Ok(Turn::Later(task));
                }
                let path = path.clone();
                self.desk.ask(session, &Call::RemoveDirectory { path: &path }, 0, task)
            }
            Task::RemoveAll { ref path, ref cursor } => {
                let (path, cursor) = (path.clone(), cursor.clone());
                let call = Call::List { path: &path, wanted: Wanted::NOTHING, cursor: &cursor };
                self.desk.ask(session, &call, LIST_ROOM, task)
            }
            _ => Ok(Turn::Taken),
        }
    }

    /// A directory whose time has to be set again.
    pub(super) fn touch_late(&mut self, path: &[u8]) {
        let slash = path.iter().rposition(|&byte| byte == b'/');
        let above = slash.and_then(|at| path.get(..at)).unwrap_or_default();
        // A time that is not kept is no loss of data.
        let _ = self.late.touched.push(above, b"");
    }

    /// Whether the source still does not have a name.
    fn is_absent(&self, path: &[u8], observer: &mut dyn Observer) -> bool {
        let looked = RelPath::parse(path).ok().map(|at| self.store.node(&at));
        match looked {
            Some(Err(error)) if error.kind == ErrorKind::NotFound => true,
            Some(Err(error)) => {
                observer.note(&error.message);
                false
            }
            Some(Ok(_)) | None => false,
        }
    }

    /// Deleting needs a source that was read to its end, and keeps to its bound (T8).
    fn may_delete(&mut self, observer: &mut dyn Observer) -> bool {
        let (Some(most), count) = (self.options.delete, self.surplus.count()) else { return false };
        if count == 0 {
            return false;
        }
        if self.books.incomplete || self.books.summary.failed > 0 {
            // Of what could not be read at the target nobody has been told that it failed.
            self.books.summary.failed += u64::from(self.books.summary.failed == 0);
            observer.note(&format!(
                "{count} names that the source does not have were not removed: part of the copy failed"
            ));
            return false;
        }
        if count > most {
            observer
                .note(&format!("{count} names would be removed, more than {most}: nothing was; raise --max-delete"));
            self.books.summary.failed += 1;
            return false;
        }
        true
    }

    /// What a dry run has to tell at its end.
    fn tell_late(&mut self, observer: &mut dyn Observer) -> bool {
        for (_, path) in drained(&mut self.late.links, observer).flatten() {
            self.books.summary.others += 1;
            observer.done(&path, Deed::Made);
        }
        if self.may_delete(observer) {
            for (path, _) in drained(&mut self.surplus, observer).flatten() {
                self.books.summary.deleted += 1;
                observer.done(&path, Deed::Deleted);
            }
        }
        false
    }
}

fn drained(list: &mut Spill, observer: &mut dyn Observer) -> Drain {
    list.drain().unwrap_or_else(|error| {
        observer.note(&error.message);
        Drain::default()
    })
}
