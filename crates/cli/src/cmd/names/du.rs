//! `xdfs du`: bytes below a name. Many directories are asked for at a time; what is remembered is those that are still to come,
//! and files that have several names.

use super::{Done, Trouble, amount, trouble, wire_name};
use crate::exit::{Exit, Failure, Side};
use crate::output::{JsonLines, complain, print};
use crate::plan::NamesPlan;
use crate::url::Url;
use serde::Serialize;
use std::collections::{BTreeSet, VecDeque};
use xdfs_client::wire::{FileType, Wanted};
use xdfs_client::{Error, ErrorKind, Pages, Session};

/// Directories that are asked for before their turn comes.
const AHEAD: usize = 32;

#[derive(Serialize, Default)]
#[serde(tag = "event", rename = "du")]
struct Line {
    url: String,
    /// On the server's disk.
    allocated: u64,
    /// As their sizes say.
    bytes: u64,
    files: u64,
    directories: u64,
    /// Directories that could not be read: then there may be more.
    unread: u64,
}

/// A directory that is still to be counted.
struct Waiting<'s> {
    name: Vec<u8>,
    pages: Option<Result<Pages<'s>, Error>>,
}

struct Counting<'s> {
    session: &'s Session,
    line: Line,
    /// How the first directory failed that could not be read.
    failed: Option<(Exit, ErrorKind)>,
    waiting: VecDeque<Waiting<'s>>,
    several: BTreeSet<[u8; 16]>,
}

const WANTED: Wanted = Wanted::SIZE.and(Wanted::ALLOCATED).and(Wanted::LINKS).and(Wanted::INODE);

pub(super) fn run(plan: &NamesPlan, session: &Session, url: &Url, human: bool) -> Done {
    let top = session.look(wire_name(url), WANTED).map_err(|error| trouble(url, &error))?;
    let line = Line { url: url.to_string(), ..Line::default() };
    let mut counting = Counting { session, line, failed: None, waiting: VecDeque::new(), several: BTreeSet::new() };
    counting.add(wire_name(url), top.kind, [top.size, top.allocated, top.links], top.inode);
    counting.run(url);
    let (line, failed) = (counting.line, counting.failed);
    if plan.json {
        JsonLines.write(&line)?;
    } else {
        let [allocated, bytes] = [line.allocated, line.bytes].map(|bytes| amount(bytes, human));
        let (files, directories) = (line.files, line.directories);
        print(&format!("{allocated}\t{url} ({bytes} in {files} files, {directories} directories)\n"))?;
    }
    // What was told is not all there is; why was told where it happened.
    failed.map_or(Ok(()), |(exit, kind)| Err(Trouble::Told(Failure::new(exit, ""), kind)))
}

impl<'s> Counting<'s> {
    fn run(&mut self, url: &Url) {
        loop {
            for next in self.waiting.iter_mut().take(AHEAD).filter(|next| next.pages.is_none()) {
                next.pages = Some(self.session.list(&next.name, WANTED));
            }
            let Some(Waiting { name, pages: Some(pages) }) = self.waiting.pop_front() else { return };
            if let Err(error) = pages.and_then(|pages| self.count(&name, pages)) {
                complain(&format!("{url}: '{}': {}", crate::text::printable(&name), error.kind.text()));
                self.line.unread += 1;
                self.failed.get_or_insert((Exit::of_error(&error, Side::Peer), error.kind));
            }
        }
    }

    fn count(&mut self, directory: &[u8], pages: Pages<'s>) -> Result<(), Error> {
        for page in pages {
            let page = page?;
            for entry in page.entries().into_iter().flatten() {
                let name = [directory, b"/", entry.name].concat();
                let told = &entry.attributes;
                self.add(name, told.kind, [told.size, told.allocated, told.links], told.inode);
            }
        }
        Ok(())
    }

    fn add(&mut self, name: Vec<u8>, kind: FileType, numbers: [Option<u64>; 3], inode: Option<[u8; 16]>) {
        let [size, allocated, links] = numbers.map(|number| number.unwrap_or(0));
        let directory = kind == FileType::Directory;
        let again = !directory && links > 1 && inode.is_some_and(|inode| !self.several.insert(inode));
        if again {
            return;
        }
        self.line.allocated += allocated;
        if kind == FileType::Regular {
            self.line.bytes += size;
        }
        if directory {
            self.line.directories += 1;
            self.waiting.push_back(Waiting { name, pages: None });
        } else {
            self.line.files += 1;
        }
    }
}
