//! `xdfs du`: bytes below a name. Many directories are requested in parallel; memory holds those
//! that are still pending, and files that have several names, both within a bound: a server may
//! list without end.

use super::{Done, HELD_BYTES_MAX, NameError, amount, shortened, trouble, unnameable, wire_name};
use crate::exit::{Exit, Failure, Side};
use crate::output::{JsonLines, complain, print};
use crate::plan::NamesPlan;
use crate::url::Url;
use serde::Serialize;
use std::collections::BTreeSet;
use xdfs_client::wire::{FileType, Wanted};
use xdfs_client::{Error, ErrorKind, Pages, Session};

/// Directories that are requested in advance.
const AHEAD: usize = 32;

/// Files with several names that are remembered, so that each is counted once.
const SEVERAL_MAX: usize = 4_000_000;

#[derive(Serialize, Default)]
#[serde(tag = "event", rename = "du")]
struct DuLine {
    url: String,
    /// Bytes on the server's disk.
    allocated: u64,
    /// Bytes according to their sizes.
    bytes: u64,
    files: u64,
    directories: u64,
    /// Directories that could not be read: then there may be more.
    unread: u64,
}

/// A directory that is still to be counted.
struct PendingDirectory<'s> {
    url: Url,
    /// Few have any: they must not make all the others larger, least of all while they move to a larger place.
    pages: Option<Box<Result<Pages<'s>, Error>>>,
}

struct Counting<'s> {
    session: &'s Session,
    line: DuLine,
    /// The error of the first directory that could not be read.
    failed: Option<(Exit, ErrorKind)>,
    /// A stack: the last one is next, so it holds only one path down and the siblings along it.
    waiting: Vec<PendingDirectory<'s>>,
    /// Bytes of their names.
    held: usize,
    /// How many of them were requested.
    asked: usize,
    several: BTreeSet<[u8; 16]>,
}

const WANTED: Wanted = Wanted::SIZE.and(Wanted::ALLOCATED).and(Wanted::LINKS).and(Wanted::INODE);

pub(super) fn run(plan: &NamesPlan, session: &Session, url: &Url, human: bool) -> Done {
    let top = session.look(wire_name(url), WANTED).map_err(|error| trouble(url, &error))?;
    let line = DuLine { url: url.to_string(), ..DuLine::default() };
    let (waiting, several) = (Vec::new(), BTreeSet::new());
    let mut counting = Counting { session, line, failed: None, waiting, held: 0, asked: 0, several };
    let counted = counting.add(top.kind, [top.size, top.allocated, top.links], top.inode);
    counted.map_err(|error| trouble(url, &error))?;
    if top.kind == FileType::Directory || top.kind == FileType::Symlink && url.is_followed() {
        counting.wait(url.clone()).map_err(|error| trouble(url, &error))?;
    }
    counting.run();
    let (line, failed) = (counting.line, counting.failed);
    if plan.json {
        JsonLines.write(&line)?;
    } else {
        let [allocated, bytes] = [line.allocated, line.bytes].map(|bytes| amount(bytes, human));
        let (files, directories) = (line.files, line.directories);
        print(&format!("{allocated}\t{url} ({bytes} in {files} files, {directories} directories)\n"))?;
    }
    // The reported count is incomplete; the reason was reported where it happened.
    failed.map_or(Ok(()), |(exit, kind)| Err(NameError::Told(Failure::new(exit, ""), kind)))
}

impl<'s> Counting<'s> {
    fn run(&mut self) {
        while let Some(mut next) = self.waiting.pop() {
            self.held -= size(&next.url);
            self.asked -= usize::from(next.pages.is_some());
            let asked = next.pages.take().map(|pages| *pages);
            let pages = asked.unwrap_or_else(|| self.session.list(wire_name(&next.url), WANTED));
            self.ask_ahead();
            if let Err(error) = pages.and_then(|pages| self.count(&next.url, pages)) {
                let said = if error.errno == 0 { shortened(&error) } else { error.kind.text().to_owned() };
                complain(&format!("{}: {said}", shortened(&next.url)));
                self.line.unread += 1;
                self.failed.get_or_insert((Exit::of_error(&error, Side::Peer), error.kind));
            }
        }
    }

    fn ask_ahead(&mut self) {
        for next in self.waiting.iter_mut().rev().take(AHEAD).filter(|next| next.pages.is_none()) {
            if self.asked == AHEAD {
                return;
            }
            self.asked += 1;
            next.pages = Some(Box::new(self.session.list(wire_name(&next.url), WANTED)));
        }
    }

    /// Counts the entries of a directory. An invalid subdirectory is reported when the others have
    /// been counted.
    fn count(&mut self, directory: &Url, pages: Pages<'s>) -> Result<(), Error> {
        let mut wrong = None;
        for page in pages {
            let page = page?;
            for entry in page.entries().into_iter().flatten() {
                let told = &entry.attributes;
                self.add(told.kind, [told.size, told.allocated, told.links], told.inode)?;
                if told.kind == FileType::Directory {
                    match directory.below(entry.name) {
                        Some(url) => self.wait(url)?,
                        None => drop(wrong.get_or_insert_with(|| unnameable(directory, entry.name))),
                    }
                }
            }
        }
        wrong.map_or(Ok(()), Err)
    }

    /// Adds a pending directory.
    fn wait(&mut self, url: Url) -> Result<(), Error> {
        self.held += size(&url);
        if self.held > HELD_BYTES_MAX {
            self.held -= size(&url);
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                "more directories than can be remembered\nhelp: count parts of it",
            ));
        }
        self.waiting.push(PendingDirectory { url, pages: None });
        Ok(())
    }

    fn add(&mut self, kind: FileType, numbers: [Option<u64>; 3], inode: Option<[u8; 16]>) -> Result<(), Error> {
        let [size, allocated, links] = numbers.map(|number| number.unwrap_or(0));
        let directory = kind == FileType::Directory;
        let again = !directory && links > 1 && inode.is_some_and(|inode| !self.several.insert(inode));
        if again {
            return Ok(());
        }
        if self.several.len() > SEVERAL_MAX {
            let text = "more files with several names than can be remembered\nhelp: count parts of it";
            return Err(Error::new(ErrorKind::LimitExceeded, text));
        }
        self.line.allocated = self.line.allocated.saturating_add(allocated);
        if kind == FileType::Regular {
            self.line.bytes = self.line.bytes.saturating_add(size);
        }
        let count = if directory { &mut self.line.directories } else { &mut self.line.files };
        *count += 1;
        Ok(())
    }
}

/// Bytes that are accounted for a pending directory.
fn size(url: &Url) -> usize {
    url.memory() + (size_of::<PendingDirectory<'_>>() - size_of::<Url>())
}
