//! What a copy has to leave at its target: the oracle knows the options, both trees before, and
//! nothing of how a copy is made.

use super::files::Found;
use super::generate::{Changes, Scenario};
use crate::tree::events::{EntryAction, Observer};
use crate::tree::{Summary, same_time};
use std::collections::{BTreeMap, BTreeSet};
use xdfs_io::store::tree::NodeKind;
use xdfs_proto::base::Error;

type Names = BTreeMap<Vec<u8>, Found>;

/// What a copy said.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) failed: BTreeMap<Vec<u8>, String>,
    pub(super) notes: Vec<String>,
    /// It ended before everything was tried.
    pub(super) stopped: bool,
    /// Looks whether to go on that are answered by yes; all if there is none.
    pub(super) patience: Option<u64>,
}

impl Observer for Heard {
    fn done(&mut self, _: &[u8], _: EntryAction) {}

    fn failed(&mut self, path: &[u8], error: &Error) {
        self.failed.insert(path.to_vec(), error.to_string());
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    fn should_continue(&mut self, _: &Summary, _: u64) -> bool {
        let left = self.patience.map(|left| left.checked_sub(1));
        self.patience = left.map(Option::unwrap_or_default);
        left != Some(None)
    }
}

/// A copy that has ended.
pub(super) struct Outcome<'a> {
    pub(super) scenario: &'a Scenario,
    /// The source before, and the target before and after.
    pub(super) source: Names,
    pub(super) before: Names,
    pub(super) after: Names,
    pub(super) summary: Summary,
    pub(super) heard: Heard,
    /// It was stopped, and the command was repeated.
    pub(super) repeated: bool,
    pub(super) changes: Changes,
}

/// For whoever has to find out why it was wrong.
impl std::fmt::Display for Outcome<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Scenario { up, fresh, options, refusals, greedy, page, batch_bytes_max, life, .. } = self.scenario;
        writeln!(f, "up: {up}, fresh: {fresh}, {options:?}, filter: {}", options.filter.is_some())?;
        writeln!(f, "keep_existing: {}, checksum: {}", options.keep_existing, options.checksum)?;
        writeln!(f, "{refusals:?}, greedy: {greedy}, page: {page}, batches of {batch_bytes_max}, life: {life:?}")?;
        writeln!(
            f,
            "{:?}, {:?}, changed: {:?}",
            self.summary,
            self.heard,
            self.changes.paths.iter().map(|path| path.escape_ascii().to_string()).collect::<Vec<_>>()
        )?;
        for (title, names) in [("source", &self.source), ("before", &self.before), ("after", &self.after)] {
            writeln!(f, "{title}:")?;
            for (path, Found { inode, kind, mode, modified, content, .. }) in names {
                let (path, start) = (path.escape_ascii(), content.first().copied().unwrap_or(b'-').escape_ascii());
                writeln!(f, "  {path} {kind:?} #{inode} {mode:o} {modified:?} {} x {start}", content.len())?;
            }
        }
        Ok(())
    }
}

fn above(path: &[u8]) -> &[u8] {
    path.iter().rposition(|&byte| byte == b'/').map_or(b"", |at| &path[..at])
}

impl Outcome<'_> {
    /// The first thing that is wrong.
    pub(super) fn judge(&self) -> Result<(), String> {
        if self.scenario.options.dry_run {
            return if self.after == self.before { Ok(()) } else { Err("a dry run changed something".to_owned()) };
        }
        let wanted = self.wanted();
        for (path, source) in &self.source {
            if wanted.contains(path) {
                self.judge_name(path, source).map_err(|wrong| format!("{}: {wrong}", path.escape_ascii()))?;
            }
        }
        self.judge_surplus(&wanted)?;
        self.judge_links(&wanted)?;
        let quiet = !self.may_give_up() && self.changes.paths.is_empty();
        match self.heard.failed.iter().find(|(path, _)| quiet && !self.may_fail(path)) {
            Some((path, why)) => Err(format!("{} failed: {why}", path.escape_ascii())),
            None if quiet && self.summary.failed > self.heard.failed.len() as u64 && !self.has_obstacles() => {
                Err(format!("{:?} and nobody was told: {:?}", self.summary, self.heard))
            }
            None => Ok(()),
        }
    }

    /// Names of the source that are to be copied.
    fn wanted(&self) -> BTreeSet<Vec<u8>> {
        let mut wanted = BTreeSet::new();
        for (path, found) in &self.source {
            let below = above(path).is_empty() || wanted.contains(above(path));
            if below && self.scenario.options.takes(path, found.kind == NodeKind::Directory) {
                wanted.insert(path.clone());
            }
        }
        wanted
    }

    fn is_kind_before(&self, path: &[u8], kind: NodeKind) -> bool {
        self.before.get(path).is_some_and(|found| found.kind == kind)
    }

    /// What the target has under a name may prevent it from being copied.
    fn may_fail(&self, path: &[u8]) -> bool {
        let source = self.source.get(path).filter(|source| source.kind != NodeKind::Directory);
        let one = |(other, found): (&Vec<u8>, &Found)| {
            source.is_some_and(|source| source.inode == found.inode) && self.is_blocked(other)
        };
        // Names of one file fail together.
        self.is_blocked(path) || self.scenario.options.keep.links && self.source.iter().any(one)
    }

    fn is_blocked(&self, path: &[u8]) -> bool {
        let full = self.before.keys().any(|name| name.starts_with(&[path, b"/"].concat()));
        let (delete, keep) = (self.scenario.options.delete.is_some(), self.scenario.options.keep_existing);
        let protected = !delete || self.scenario.options.filter.is_some();
        let file_in_way = keep && self.before.get(path).is_some_and(|found| found.kind != NodeKind::Directory);
        let below_file = self.obstacles_above(path);
        self.is_kind_before(path, NodeKind::Directory) && full && protected || file_in_way || below_file
    }

    /// A directory above it could not be made, since something else is to be kept.
    fn obstacles_above(&self, path: &[u8]) -> bool {
        let mut at = above(path);
        while !at.is_empty() {
            if self.scenario.options.keep_existing
                && self.before.get(at).is_some_and(|found| found.kind != NodeKind::Directory)
            {
                return true;
            }
            at = above(at);
        }
        false
    }

    fn has_obstacles(&self) -> bool {
        self.source.keys().any(|path| self.may_fail(path))
    }

    /// It, or something above it, was reported as failed.
    fn has_failed(&self, path: &[u8]) -> bool {
        let mut at = path;
        loop {
            if self.heard.failed.contains_key(at) {
                return true;
            }
            if at.is_empty() {
                return false;
            }
            at = above(at);
        }
    }

    /// Calls fail for good, or too often.
    fn may_give_up(&self) -> bool {
        self.scenario.refusals.storage > 0 || self.heard.stopped
    }

    /// Everything went well as far as the copy says.
    fn is_clean(&self) -> bool {
        self.heard.failed.is_empty()
            && self.heard.notes.is_empty()
            && self.summary.failed == 0
            && self.summary.reduced == 0
    }

    fn judge_name(&self, path: &[u8], source: &Found) -> Result<(), String> {
        let (before, after) = (self.before.get(path), self.after.get(path));
        if let Some(after) = after.filter(|after| after.kind == NodeKind::Regular) {
            // What one name of a file has may be taken for all of them.
            let names = self.source.iter().filter(|(_, other)| other.inode == source.inode).map(|(name, _)| name);
            let changed = names.filter_map(|name| self.changes.contents.get(name)).flatten();
            let mut known = changed.chain([&source.content]).chain(before.map(|before| &before.content));
            if !known.any(|content| *content == after.content) {
                return Err(format!("{} bytes that nobody wrote", after.content.len()));
            }
        }
        let excused = self.may_give_up() && !self.is_clean();
        let gone = before.is_some() && after.is_none() && !self.changes.reach(path);
        // Files are replaced in one step; links and special files are made anew.
        let lasting = matches!(source.kind, NodeKind::Regular | NodeKind::Directory);
        if gone && lasting && before.is_some_and(|before| before.kind == source.kind) {
            return Err("it was deleted, and the source has it".to_owned());
        }
        if excused || self.changes.reach(path) || self.has_failed(path) || self.obstacles_above(path) {
            return Ok(());
        }
        let options = &self.scenario.options;
        let special = !matches!(source.kind, NodeKind::Regular | NodeKind::Directory | NodeKind::Symlink);
        if special && !options.keep.specials
            || options.keep_existing && before.is_some() && source.kind != NodeKind::Directory
        {
            return self.is_as_before(before, after);
        }
        let Some(after) = after else { return Err("it is missing".to_owned()) };
        if (after.kind, &after.content, after.device) != (source.kind, &source.content, source.device) {
            return Err(format!("{source:?} became {after:?}"));
        }
        let names = self.before.values().filter(|before| before.inode == after.inode).count();
        if self.summary.reduced > 0 || names > 1 && !options.keep.links {
            // The copy says that some attributes were not kept, or other names of the file got theirs.
            return Ok(());
        }
        let restless = source.kind == NodeKind::Directory && self.changes.reach_below(path);
        // What was made by one call gets the rest by the next one, and `-n` looks at nothing again that exists.
        let is_left = self.repeated && options.keep_existing;
        let untimed = is_left && !lasting;
        if !same_time(source.modified, after.modified) && !restless && !untimed {
            return Err(format!("time {:?} became {:?}", source.modified, after.modified));
        }
        let made = self.before.values().all(|before| before.inode != after.inode);
        let bits = if options.keep.modes && !is_left { 0o7777 } else { 0o777 };
        // A directory that could not be made was made on the way to what is in it, and is put right when it is finished.
        let is_unfinished = self.repeated && self.scenario.refusals.scarce > 0 && source.kind == NodeKind::Directory;
        let checked = (options.keep.modes || made && !is_unfinished) && source.kind != NodeKind::Symlink;
        if checked && (after.mode ^ source.mode) & bits != 0 {
            return Err(format!("mode {:o} became {:o}", source.mode, after.mode));
        }
        Ok(())
    }

    fn is_as_before(&self, before: Option<&Found>, after: Option<&Found>) -> Result<(), String> {
        let same = |one: &Found, other: &Found| {
            (one.kind, &one.content, one.inode) == (other.kind, &other.content, other.inode)
        };
        match (before, after) {
            (None, None) => Ok(()),
            (Some(before), Some(after)) if same(before, after) => Ok(()),
            _ => Err(format!("{before:?} was to stay and is {after:?}")),
        }
    }

    /// Names that the source does not have, or that are not to be copied.
    fn judge_surplus(&self, wanted: &BTreeSet<Vec<u8>>) -> Result<(), String> {
        let options = &self.scenario.options;
        for path in self.before.keys().filter(|path| !wanted.contains(*path) && !self.changes.reach(path)) {
            let excluded = self.is_excluded(path);
            if self.is_below_a_file(path, wanted) {
                // It goes or stays with the directory that a file is to replace.
                continue;
            }
            // What could not be removed to make room says nothing about the source. A copy that was stopped may have removed it.
            let failed = |(name, why): (&Vec<u8>, &String)| {
                let in_the_way = self.is_kind_before(name, NodeKind::Directory);
                let still = self.changes.paths.is_empty() && !self.repeated;
                still && wanted.contains(name) && !in_the_way && why.contains("storage error")
            };
            if self.heard.failed.iter().any(failed) && !self.after.contains_key(path) {
                return Err(format!("{} was deleted although part of the copy failed", path.escape_ascii()));
            }
            if options.delete.is_some() && !excluded {
                let kept = self.after.contains_key(path) && !self.holds_excluded(path);
                if kept && self.is_clean() && self.changes.paths.is_empty() {
                    return Err(format!("{} was to be deleted", path.escape_ascii()));
                }
                continue;
            }
            self.is_as_before(self.before.get(path), self.after.get(path))
                .map_err(|wrong| format!("{}: {wrong}", path.escape_ascii()))?;
        }
        if self.scenario.refusals.storage > 0 {
            // A temporary name could not be removed.
            return Ok(());
        }
        match self
            .after
            .keys()
            .find(|path| !self.before.contains_key(*path) && !wanted.contains(*path) && self.changes.paths.is_empty())
        {
            Some(path) => Err(format!("{} came from nowhere", path.escape_ascii())),
            None => Ok(()),
        }
    }

    /// The source has something else where the target has the directory that contains it.
    fn is_below_a_file(&self, path: &[u8], wanted: &BTreeSet<Vec<u8>>) -> bool {
        let mut at = above(path);
        while !at.is_empty() {
            if wanted.contains(at) && self.source[at].kind != NodeKind::Directory {
                return true;
            }
            at = above(at);
        }
        false
    }

    /// It or something above it is excluded.
    fn is_excluded(&self, path: &[u8]) -> bool {
        let mut at = path;
        while !at.is_empty() {
            if !self.scenario.options.takes(at, self.is_kind_before(at, NodeKind::Directory)) {
                return true;
            }
            at = above(at);
        }
        false
    }

    fn holds_excluded(&self, path: &[u8]) -> bool {
        let start = [path, b"/"].concat();
        self.before.keys().any(|name| name.starts_with(&start) && self.is_excluded(name))
    }

    /// Names of one file are names of one file again, and no others.
    fn judge_links(&self, wanted: &BTreeSet<Vec<u8>>) -> Result<(), String> {
        let options = &self.scenario.options;
        if !options.keep.links || options.keep_existing || !self.is_clean() || !self.changes.paths.is_empty() {
            return Ok(());
        }
        let skips = |found: &Found| match found.kind {
            NodeKind::Regular | NodeKind::Symlink => false,
            NodeKind::Directory => true,
            _ => !options.keep.specials,
        };
        let (mut there, mut here) = (BTreeMap::new(), BTreeMap::new());
        for (path, source) in self.source.iter().filter(|(path, source)| wanted.contains(*path) && !skips(source)) {
            let Some(after) = self.after.get(path) else { continue };
            let one = *there.entry(source.inode).or_insert(after.inode) == after.inode;
            if !one || *here.entry(after.inode).or_insert(source.inode) != source.inode {
                return Err(format!("{}: it shares its file with others than in the source", path.escape_ascii()));
            }
        }
        Ok(())
    }
}
