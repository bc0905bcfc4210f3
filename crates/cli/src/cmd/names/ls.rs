//! `xdfs ls`: sorted names if they are few, unsorted as they arrive if they are many.

use super::stat::{SHOWN, StatAttributes, letters};
use super::{Done, HELD_BYTES_MAX, NameError, amount, json_name, told_of, trouble, unnameable, wire_name};
use crate::calendar;
use crate::exit::Failure;
use crate::output::{JsonLines, print, print_names};
use crate::plan::{NamesPlan, Verb};
use crate::text::printable;
use crate::url::Url;
use serde::Serialize;
use xdfs_client::wire::{FileType, Wanted};
use xdfs_client::{Error, ErrorKind, Facts, Session};

/// Entries of a directory that are sorted by default.
const SORTED_MAX: usize = 10_000;

#[derive(Serialize)]
#[serde(tag = "event", rename = "entry")]
struct LsLine {
    directory: String,
    name: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    name_escaped: bool,
    #[serde(flatten)]
    told: StatAttributes,
}

/// A name and what is known of it.
pub(super) struct LsEntry {
    name: Vec<u8>,
    facts: Facts,
}

impl LsEntry {
    pub(super) fn new(name: &[u8], facts: Facts) -> Self {
        Self { name: name.to_vec(), facts }
    }

    /// The memory that it takes.
    fn memory(&self) -> usize {
        let Facts { names, version, target, .. } = &self.facts;
        let names = names.as_ref().map_or(0, |(user, group)| user.len() + group.len());
        let texts = [version, target].into_iter().flatten().map(Vec::len).sum::<usize>();
        size_of::<Self>() + self.name.len() + names + texts
    }
}

/// How names are shown.
pub(super) struct Listing<'p> {
    plan: &'p NamesPlan,
    long: bool,
    numeric: bool,
    recursive: bool,
    human: bool,
    sort: bool,
    wanted: Wanted,
}

pub(super) fn run(plan: &NamesPlan, session: &Session, url: &Url) -> Done {
    let Some(listing) = Listing::of(plan) else { return Ok(()) };
    let (recursive, wanted) = (listing.recursive, listing.wanted);
    let facts = session.look(wire_name(url), wanted).map_err(|error| trouble(url, &error))?;
    if facts.kind != FileType::Directory && !(facts.kind == FileType::Symlink && url.is_followed()) {
        return listing.show(url, &[LsEntry { name: url.name().unwrap_or_default().to_vec(), facts }]);
    }
    let heads = plan.urls.len() > 1 || recursive;
    let mut way = vec![url.clone()];
    // Bytes of their names, and the error of an invalid name.
    let (mut held, mut wrong) = (url.memory(), None);
    let (mut first, mut unread) = (true, None);
    while let Some(directory) = way.pop() {
        held -= directory.memory();
        if heads && !plan.json {
            let gap = if first { "" } else { "\n" };
            print(&format!("{gap}{directory}:\n"))?;
        }
        match listing.directory(session, &directory, &mut held, &mut wrong) {
            Ok(below) => way.extend(below.into_iter().rev()),
            // The others are listed all the same.
            Err(NameError::Told(failure, kind)) if !first && !is_of_all(kind) => {
                unread.get_or_insert((failure.exit, kind));
                told_of(plan, &directory, &failure, kind)?;
            }
            Err(error) => return Err(error),
        }
        first = false;
    }
    if let Some((exit, kind)) = unread {
        return Err(NameError::Told(Failure::new(exit, ""), kind));
    }
    wrong.map_or(Ok(()), |error| Err(trouble(url, &error)))
}

/// Whether the others will not be listed either.
fn is_of_all(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionLost | ErrorKind::TimedOut | ErrorKind::Cancelled | ErrorKind::LimitExceeded)
}

impl<'p> Listing<'p> {
    /// As the plan of `ls` has it.
    pub(super) fn of(plan: &'p NamesPlan) -> Option<Self> {
        let Verb::Ls { long, numeric, recursive, human, sort } = plan.verb else { return None };
        let wanted = if long || plan.json { SHOWN } else { Wanted::NOTHING };
        Some(Self { plan, long, numeric, recursive, human, sort, wanted })
    }

    /// Whether subdirectories are listed too.
    pub(super) fn recursive(&self) -> bool {
        self.recursive
    }

    /// Lists one directory, and returns its subdirectories if they are to be listed, too: their
    /// names are added to `held`, and an invalid name is stored in `wrong`.
    fn directory(
        &self,
        session: &Session,
        url: &Url,
        held_bytes: &mut usize,
        wrong: &mut Option<Error>,
    ) -> Result<Vec<Url>, NameError> {
        let mut pages = session.list(wire_name(url), self.wanted).map_err(|error| trouble(url, &error))?;
        let (mut held, mut below, mut many) = (Vec::new(), Vec::new(), false);
        let mut entries_bytes = 0;
        for page in &mut pages {
            let page = page.map_err(|error| trouble(url, &error))?;
            for entry in page.entries().into_iter().flatten() {
                if self.recursive && entry.attributes.kind == FileType::Directory {
                    match url.below(entry.name) {
                        Some(inside) => {
                            *held_bytes += inside.memory();
                            below.push(inside);
                        }
                        None => drop(wrong.get_or_insert_with(|| unnameable(url, entry.name))),
                    }
                }
                let entry = LsEntry::new(entry.name, Facts::from(&entry.attributes));
                entries_bytes += entry.memory();
                held.push(entry);
            }
            if *held_bytes + entries_bytes > HELD_BYTES_MAX {
                let error =
                    Error::new(ErrorKind::LimitExceeded, "more names than can be remembered\nhelp: list parts of it");
                return Err(trouble(url, &error));
            }
            many |= !self.sort && held.len() > SORTED_MAX;
            if many {
                self.show(url, &held)?;
                held.clear();
                entries_bytes = 0;
            }
        }
        if !many {
            held.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            below.sort_unstable_by(|one: &Url, other: &Url| one.path.cmp(&other.path));
        }
        self.show(url, &held)?;
        Ok(below)
    }

    /// Shows these names of a directory.
    pub(super) fn show(&self, url: &Url, entries: &[LsEntry]) -> Done {
        if !self.plan.json && !self.long {
            return Ok(print_names(entries.iter().map(|entry| entry.name.as_slice()))?);
        }
        let mut text = String::new();
        for entry in entries {
            if self.plan.json {
                JsonLines.write(&line(url, entry))?;
            } else {
                text.push_str(&self.row(entry));
            }
        }
        if !text.is_empty() {
            print(&text)?;
        }
        Ok(())
    }

    fn row(&self, LsEntry { name, facts }: &LsEntry) -> String {
        let (user, group) = self.owners(facts);
        let arrow = facts.target.as_ref().map_or(String::new(), |target| format!(" -> {}", printable(target)));
        format!(
            "{kind}{mode} {links:>3} {user:<8} {group:<8} {size:>12} {time} {name}{arrow}\n",
            kind = letter(facts.kind),
            mode = letters(facts.mode.unwrap_or(0)),
            links = facts.links.unwrap_or(1),
            size = amount(facts.size.unwrap_or(0), self.human),
            time = facts.modified.map_or("-".to_owned(), |time| calendar::shown(time.seconds)),
            name = printable(name),
        )
    }
}

impl Listing<'_> {
    /// Owner and group: their names where the server tells them, else their numbers.
    fn owners(&self, facts: &Facts) -> (String, String) {
        let (user, group) = match &facts.names {
            Some((user, group)) if !self.numeric => (&user[..], &group[..]),
            _ => (&b""[..], &b""[..]),
        };
        let (uid, gid) = facts.owner.map_or(("-".into(), "-".into()), |(uid, gid)| (uid.to_string(), gid.to_string()));
        let shown = |name: &[u8], number: String| if name.is_empty() { number } else { printable(name) };
        (shown(user, uid), shown(group, gid))
    }
}

fn letter(kind: FileType) -> char {
    match kind {
        FileType::Regular => '-',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        FileType::CharacterDevice => 'c',
        FileType::BlockDevice => 'b',
        FileType::Other => '?',
    }
}

fn line(url: &Url, LsEntry { name, facts }: &LsEntry) -> LsLine {
    let (name, name_escaped) = json_name(name);
    LsLine { directory: url.to_string(), name, name_escaped, told: StatAttributes::of(facts) }
}
