//! Second names of files, and names that the source does not have: they wait for everything else.

use super::{Download, parse};
use crate::tree::events::{Deed, Observer};
use crate::tree::spill::{Drain, Spill};
use crate::tree::{TreeOptions, join};
use std::collections::HashMap;
use xdfs_proto::base::{Error, ErrorKind, RelPath};
use xdfs_proto::wire::path::Attributes;
use xdfs_xio::store::Tree;
use xdfs_xio::store::tree::{Change, Cursor, NodeKind, Take};

/// Names of a directory that are removed at a time.
const TAKEN: usize = 1024;

/// Files with several names that were met: where the path of the first one is.
#[derive(Debug, Default)]
pub(super) struct Firsts {
    places: HashMap<[u8; 16], u64>,
    paths: Spill,
}

/// What comes behind everything else.
#[derive(Debug, Default)]
pub(super) struct Late {
    links: Spill,
}

impl Download {
    /// Whether this is one more name of a file that was met already; it is made when the first one is there.
    pub(super) fn is_second(&mut self, path: &[u8], told: &Attributes<'_>) -> bool {
        let Some(inode) = told.inode else { return false };
        // Where the list cannot be kept it becomes a file of its own: no byte is missing.
        match self.firsts.places.get(&inode) {
            Some(place) => {
                let place = *place;
                self.firsts.paths.at(place).and_then(|(first, _)| self.late.links.push(&first, path)).is_ok()
            }
            None => {
                if let Ok(place) = self.firsts.paths.push(path, b"") {
                    self.firsts.places.insert(inode, place);
                }
                false
            }
        }
    }

    /// What waited for everything else.
    pub(super) fn take_up_late(&mut self, observer: &mut dyn Observer) {
        let links = drained(&mut self.late.links, observer);
        for (first, path) in links.flatten() {
            let made = if self.options.dry_run { Ok(()) } else { self.link(&first, &path) };
            self.tell(observer, &path, Deed::Made, made);
        }
        let (Some(most), count) = (self.options.delete, self.surplus.count()) else { return };
        if count == 0 {
            return;
        }
        if self.books.incomplete || self.books.summary.failed > 0 {
            self.books.summary.failed += u64::from(self.books.summary.failed == 0);
            return observer.note(&format!(
                "{count} names that the source does not have were not removed: part of the copy failed"
            ));
        }
        if count > most {
            self.books.summary.failed += 1;
            return observer
                .note(&format!("{count} names would be removed, more than {most}: nothing was; raise --max-delete"));
        }
        for (path, _) in drained(&mut self.surplus, observer).flatten() {
            let removed = match self.options.dry_run {
                true => Ok(true),
                false => self.keeping_time(&path, |this| remove_all(&this.store, &parse(&path)?, &this.options)),
            };
            if let Ok(false) = removed {
                observer.note(&format!("{}: kept, with what is left out in it", path.escape_ascii()));
                continue;
            }
            self.tell(observer, &path, Deed::Deleted, removed.map(drop));
        }
    }

    fn tell(&mut self, observer: &mut dyn Observer, path: &[u8], deed: Deed, outcome: Result<(), Error>) {
        match outcome {
            Ok(()) => {
                self.books.summary.count(deed);
                observer.done(path, deed);
            }
            Err(error) => {
                self.books.summary.failed += 1;
                observer.failed(path, &error);
            }
        }
    }

    fn link(&mut self, first: &[u8], path: &[u8]) -> Result<(), Error> {
        let (of, name) = (parse(first)?, parse(path)?);
        self.keeping_time(path, |this| match this.store.link(&of, &name) {
            // The name stands for something of its own here.
            Err(error) if error.kind == ErrorKind::AlreadyExists && !this.options.keep_existing => {
                if this.store.node(&name)?.identity == this.store.node(&of)?.identity {
                    return Ok(());
                }
                this.store.remove(&name)?;
                this.store.link(&of, &name)
            }
            other => other,
        })
    }

    /// Changes a directory that is finished, and gives it its time back.
    fn keeping_time<T>(&mut self, path: &[u8], act: impl FnOnce(&Self) -> Result<T, Error>) -> Result<T, Error> {
        let above = parse(path)?.parent().unwrap_or_default();
        let before = self.store.node(&above)?.modified;
        let done = act(self)?;
        if self.options.durable {
            self.store.sync(&above)?;
        }
        self.store.change(&above, &Change { modified: Some(before), ..Change::default() })?;
        Ok(done)
    }
}

fn drained(list: &mut Spill, observer: &mut dyn Observer) -> Drain {
    list.drain().unwrap_or_else(|error| {
        observer.note(&error.message);
        Drain::default()
    })
}

/// A directory that is being emptied: where its listing goes on, none behind its end; and whether something in it stays.
struct Emptied {
    path: RelPath,
    cursor: Option<Cursor>,
    kept: bool,
}

/// Removes a name, and of a directory all that is in it first, as far as that is not left out. False where something stays. It
/// goes as deep as a path may be.
pub(super) fn remove_all(tree: &dyn Tree, path: &RelPath, options: &TreeOptions) -> Result<bool, Error> {
    if tree.node(path)?.kind != NodeKind::Directory {
        return tree.remove(path).map(|()| true);
    }
    let emptied = |path: RelPath| Emptied { path, cursor: Some(Cursor::new()), kept: false };
    let mut below = vec![emptied(path.clone())];
    let mut gone = true;
    while let Some(directory) = below.last_mut() {
        let Some(cursor) = directory.cursor.take() else {
            gone = !directory.kept;
            if gone {
                tree.remove_directory(&directory.path)?;
            }
            below.pop();
            if let Some(above) = below.last_mut() {
                above.kept |= !gone;
            }
            continue;
        };
        let (mut files, mut inner) = (Vec::new(), None);
        let at = directory.path.as_bytes();
        directory.cursor = tree.list(&directory.path, &cursor, &mut |name, node| {
            if inner.is_some() || files.len() == TAKEN {
                return Take::Stop;
            }
            let (name, is_directory) = (join(at, name), node.kind == NodeKind::Directory);
            match (options.takes(&name, is_directory), is_directory) {
                (false, _) => directory.kept = true,
                (true, true) => inner = Some(name),
                (true, false) => files.push(name),
            }
            Take::More
        })?;
        for name in &files {
            tree.remove(&parse(name)?)?;
        }
        if let Some(name) = inner {
            below.push(emptied(parse(&name)?));
        }
    }
    Ok(gone)
}
