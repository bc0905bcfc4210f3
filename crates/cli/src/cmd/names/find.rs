//! `xdfs find`: names below a URL that pass tests, printed as URLs. Memory holds the directories that
//! are still to be looked at, within a bound: a server may list without end.

use super::{Done, HELD_BYTES_MAX, NameError, Sessions, shortened, trouble, unnameable, wire_name};
use crate::calendar;
use crate::exit::{Exit, Failure, Side};
use crate::glob;
use crate::output::complain;
use crate::plan::{Reference, Search, Test};
use crate::text::printable_path;
use crate::url::Url;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use xdfs_client::wire::{FileType, Wanted};
use xdfs_client::{Error, ErrorKind, Facts, Session};
use xdfs_proto::base::Timestamp;

const SECONDS_OF_DAY: i64 = 86_400;

pub(super) fn run(search: &Search, sessions: &mut Sessions, url: &Url) -> Done {
    let newer = references(search, sessions)?;
    let (session, _) = sessions.with(url).map_err(|(failure, kind)| NameError::Told(failure, kind))?;
    let now = i64::try_from(calendar::now()).unwrap_or(i64::MAX);
    let mut finding = Finding { session, search, newer, now, wanted: wanted(search), held: 0, failed: None };
    let top = session.look(wire_name(url), finding.wanted).map_err(|error| trouble(url, &error))?;
    let is_directory = top.kind == FileType::Directory || top.kind == FileType::Symlink && url.is_followed();
    finding.show(url, &top, 0)?;
    let mut waiting = if is_directory { vec![(url.clone(), 1)] } else { Vec::new() };
    while let Some((directory, depth)) = waiting.pop() {
        finding.held = finding.held.saturating_sub(directory.memory());
        if search.depth_max.is_some_and(|most| depth > most) {
            continue;
        }
        match finding.directory(&directory, depth) {
            Ok(below) => waiting.extend(below.into_iter().rev().map(|url| (url, depth + 1))),
            Err(NameError::Told(failure, kind)) => {
                complain(&failure.message);
                finding.failed.get_or_insert((failure.exit, kind));
            }
            Err(ended) => return Err(ended),
        }
    }
    finding.failed.map_or(Ok(()), |(exit, kind)| Err(NameError::Told(Failure::new(exit, ""), kind)))
}

struct Finding<'a> {
    session: &'a Session,
    search: &'a Search,
    /// The times of the files behind -newer, in their order.
    newer: Vec<Timestamp>,
    now: i64,
    wanted: Wanted,
    /// Bytes of the names of directories that are still to be looked at.
    held: usize,
    /// The first directory that could not be read; the reason was said where it happened.
    failed: Option<(Exit, ErrorKind)>,
}

impl Finding<'_> {
    /// Prints what fits in a directory, and returns its subdirectories. Of one that cannot be listed to its end none is remembered.
    fn directory(&mut self, directory: &Url, depth: usize) -> Result<Vec<Url>, NameError> {
        let held = self.held;
        self.listed(directory, depth).inspect_err(|_| self.held = held)
    }

    fn listed(&mut self, directory: &Url, depth: usize) -> Result<Vec<Url>, NameError> {
        let told = |error: Error| trouble(directory, &error);
        let mut below = Vec::new();
        for page in self.session.list(wire_name(directory), self.wanted).map_err(told)? {
            let page = page.map_err(told)?;
            for entry in page.entries().into_iter().flatten() {
                let facts = Facts::from(&entry.attributes);
                let Some(url) = directory.below(entry.name) else {
                    let error = unnameable(directory, entry.name);
                    complain(&format!("{}: {}", shortened(directory), shortened(&error)));
                    self.failed.get_or_insert((Exit::of_error(&error, Side::Peer), error.kind));
                    continue;
                };
                self.show(&url, &facts, depth)?;
                if facts.kind == FileType::Directory {
                    self.held += url.memory();
                    below.push(url);
                }
            }
            if self.held > HELD_BYTES_MAX {
                let text = "more directories than can be remembered\nhelp: look at parts of it";
                return Err(told(Error::new(ErrorKind::LimitExceeded, text)));
            }
        }
        below.sort_unstable_by(|one: &Url, other| one.path.cmp(&other.path));
        Ok(below)
    }

    fn show(&self, url: &Url, facts: &Facts, depth: usize) -> Done {
        if depth < self.search.depth_min {
            return Ok(());
        }
        let mut newer = self.newer.iter();
        for (negated, test) in &self.search.tests {
            let holds = match test {
                Test::Name { pattern, any_case } => {
                    let name = url.name().unwrap_or(url.export.as_bytes());
                    match any_case {
                        true => glob::fits(pattern, &name.to_ascii_lowercase()),
                        false => glob::fits(pattern, name),
                    }
                }
                Test::Path(pattern) => glob::fits(pattern, &wire_name(url)),
                Test::Type(kinds) => kinds.contains(&facts.kind),
                Test::Size(count, unit) => count.is(facts.size.unwrap_or(0).div_ceil(*unit)),
                Test::Age(count) => facts.modified.is_some_and(|Timestamp { seconds, .. }| {
                    count.is(u64::try_from(self.now.saturating_sub(seconds) / SECONDS_OF_DAY).unwrap_or(0))
                }),
                Test::Newer(_) => {
                    let than = newer.next().copied().unwrap_or(Timestamp::new(i64::MAX, 0));
                    facts.modified.is_some_and(|time| time > than)
                }
                Test::Empty => self.is_empty(url, facts).map_err(|error| trouble(url, &error))?,
            };
            if holds == *negated {
                return Ok(());
            }
        }
        let end = if self.search.print0 { '\0' } else { '\n' };
        // A URL is ASCII without control characters.
        let mut output = std::io::stdout().lock();
        write!(output, "{url}{end}").and_then(|()| output.flush()).map_err(|error| Failure::from_output(&error))?;
        Ok(())
    }

    fn is_empty(&self, url: &Url, facts: &Facts) -> Result<bool, Error> {
        match facts.kind {
            FileType::Regular => Ok(facts.size == Some(0)),
            FileType::Directory => {
                for page in self.session.list(wire_name(url), Wanted::NOTHING)? {
                    if page?.entries().into_iter().flatten().next().is_some() {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// The times of the files behind -newer.
fn references(search: &Search, sessions: &mut Sessions) -> Result<Vec<Timestamp>, NameError> {
    let references = search.tests.iter().filter_map(|(_, test)| match test {
        Test::Newer(reference) => Some(reference),
        _ => None,
    });
    let times = references.map(|reference| match reference {
        Reference::Local(path) => {
            let failed = |error: std::io::Error| {
                Failure::new(Exit::of_io(&error), format!("-newer {}: {error}", printable_path(path)))
            };
            let found = path.metadata().map_err(failed)?;
            Ok(Timestamp::new(found.mtime(), u32::try_from(found.mtime_nsec()).unwrap_or(0)))
        }
        Reference::Remote(url) => {
            let (session, _) = sessions.with(url).map_err(|(failure, kind)| NameError::Told(failure, kind))?;
            let found = session.look(wire_name(url), Wanted::MODIFIED).map_err(|error| trouble(url, &error))?;
            Ok(found.modified.unwrap_or(Timestamp::new(i64::MAX, 0)))
        }
    });
    times.collect()
}

/// What the tests need to know of each name.
fn wanted(search: &Search) -> Wanted {
    search.tests.iter().fold(Wanted::NOTHING, |wanted, (_, test)| match test {
        Test::Size(..) | Test::Empty => wanted.and(Wanted::SIZE),
        Test::Age(_) | Test::Newer(_) => wanted.and(Wanted::MODIFIED),
        Test::Name { .. } | Test::Path(_) | Test::Type(_) => wanted,
    })
}
