//! Small files in groups: their content is in memory, and a group shares the syncs that make it
//! durable.
//!
//! A store provides the calls of one group ([`SmallGroup`]); the plan of
//! [`xdfs_proto::base::commit`] decides which call is made when. So no file appears under its name
//! before it is complete and, where requested, on stable storage. A failure of one file ends that
//! file only, unless the failed call covered several.
//!
//! Must not: decide about an order, touch a name.

use super::errors::{self, Verb};
use super::fresh_id::fresh_id;
use super::resolve::{Parent, Root};
use super::{Attributes, Base, CommitRequest, Existing, Placed, Result, Source, Stage, StageRequest, descriptors};
use std::collections::BTreeMap;
use std::sync::Arc;
use xdfs_proto::base::commit::{Commit, CommitStep, Member};
use xdfs_proto::base::{Error, ErrorKind, RelPath, Safety, Timestamp, TransferId};

/// A file that is put as a whole.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SmallFile<'a> {
    /// The name that it gets.
    pub target: RelPath,
    /// Its whole content.
    pub content: &'a [u8],
    /// Permission bits; only 0o777 count, less the process's umask.
    pub mode: u32,
    /// Modification time, where the source has one: seconds and nanoseconds since 1970.
    pub modified: Option<Timestamp>,
    /// What to do with an existing file.
    pub existing: Existing,
    /// The version that it may replace, apart from a file with this same content, which is reported
    /// as put. Without it, any existing file may be replaced.
    pub base: Option<Base>,
    /// Missing parent directories are created. They remain, whatever the result for the file.
    pub parents: bool,
    /// Runs of zeros take no space, as far as the storage supports that.
    pub holes: bool,
}

/// Buffer into which small files are read, one after the other. It keeps the directory of the last
/// one open, so that files next to it are found without resolving it again.
#[derive(Debug, Default)]
pub struct SmallReader {
    /// As long as the largest file so far.
    content: Vec<u8>,
    /// Bytes of it that the last file takes.
    length: usize,
    pub(super) held: Option<HeldDirectory>,
}

/// A directory that is held open for the files in it.
#[derive(Debug)]
pub(super) struct HeldDirectory {
    pub(super) root: Arc<Root>,
    /// Its path below the root.
    pub(super) path: Vec<u8>,
    pub(super) parent: Parent,
}

impl SmallReader {
    /// The content of the file that was read last.
    pub fn content(&self) -> &[u8] {
        &self.content[..self.length]
    }

    /// The content of a file that a store of another kind has read.
    pub fn fill(&mut self, content: &[u8]) {
        self.room(content.len() as u64).copy_from_slice(content);
    }

    /// Forces the next directory to be resolved again, because names were changed.
    pub fn forget(&mut self) {
        self.held = None;
    }

    /// Buffer space for the content of one file of `size` bytes.
    pub(super) fn room(&mut self, size: u64) -> &mut [u8] {
        self.length = usize::try_from(size).unwrap_or(usize::MAX);
        if self.length > self.content.len() {
            self.content.resize(self.length, 0);
        }
        &mut self.content[..self.length]
    }
}

/// Unfinished files of one group, by their numbers, and the calls of a plan. Dropping it leaves
/// only files that have been named, and created directories.
///
/// A file that could not be staged reports its error when it is finished.
pub trait SmallGroup {
    /// What the plan needs to know about each file.
    fn members(&self) -> Vec<Member>;

    /// Whether one sync of the file system covers all of them, and is quicker than one for each.
    fn at_once(&self) -> bool {
        false
    }

    /// Sets content, mode and time of the file; `file` is what it was staged with.
    fn finish(&mut self, member: usize, file: &SmallFile<'_>) -> Result<()>;

    /// Waits until bytes and attributes are on stable storage. An error is final.
    fn sync(&mut self, member: usize) -> Result<()>;

    /// The same for everything that was written to the file system; called only where
    /// [`Self::at_once`] is true.
    fn sync_system(&mut self) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "this store cannot sync everything at once"))
    }

    /// Renames the file to its target, atomically. On failure the existing file stays.
    fn name(&mut self, member: usize, file: &SmallFile<'_>) -> Result<()>;

    /// Whether the existing file was kept: see [`Existing::ReplaceOther`].
    fn unchanged(&self, _member: usize) -> bool {
        false
    }

    /// Waits until the names in a directory are on stable storage.
    fn sync_directory(&mut self, directory: usize) -> Result<()>;
}

impl SmallFile<'_> {
    fn commit_request(&self) -> CommitRequest {
        CommitRequest { length: self.content.len() as u64, mode: self.mode, modified: self.modified }
    }

    pub(super) fn stage_request(&self) -> StageRequest {
        StageRequest {
            target: self.target.clone(),
            size: Some(self.content.len() as u64),
            existing: self.existing,
            transfer: TransferId(fresh_id()),
            resume: None,
            base: self.base.clone(),
            holes: self.holes,
        }
    }
}

/// Puts files in groups of at most [`MEMBERS_MAX`](xdfs_proto::base::commit::MEMBERS_MAX), fewer
/// where few files may be open; `stage` makes a group of the files passed to it.
pub(super) fn put<'s>(
    files: &[SmallFile<'_>],
    durable: bool,
    mut stage: impl FnMut(&[SmallFile<'_>]) -> Box<dyn SmallGroup + 's>,
) -> Vec<Result<Placed>> {
    files.chunks(descriptors::members_max()).flat_map(|files| carry_out(stage(files), files, durable)).collect()
}

fn carry_out(mut group: Box<dyn SmallGroup + '_>, files: &[SmallFile<'_>], durable: bool) -> Vec<Result<Placed>> {
    let at_once = durable && group.at_once();
    let plan = Commit::group(group.members(), at_once);
    let nobody = || Error::new(ErrorKind::Storage, "a group has no such member");
    let outcomes = plan.run(|step| match step {
        CommitStep::Finish(member) => group.finish(member, files.get(member).ok_or_else(nobody)?),
        CommitStep::SyncFile(member) => group.sync(member),
        CommitStep::SyncSystem => group.sync_system(),
        CommitStep::Name(member) => group.name(member, files.get(member).ok_or_else(nobody)?),
        CommitStep::SyncDirectory(directory) => group.sync_directory(directory),
    });
    let placed = |(member, outcome): (usize, Result<Safety>)| {
        outcome.map(|safety| Placed { safety, unchanged: group.unchanged(member) })
    };
    outcomes.into_iter().enumerate().map(placed).collect()
}

/// A group for any store: a stage for each file.
pub(super) struct StageGroup {
    stages: Vec<Result<Stage>>,
    /// Directory of each file.
    directories: Vec<usize>,
    durable: bool,
}

impl StageGroup {
    pub(super) fn new(files: &[SmallFile<'_>], durable: bool, stage: impl Fn(&SmallFile<'_>) -> Result<Stage>) -> Self {
        let mut known = BTreeMap::new();
        let mut number = |file: &SmallFile<'_>| {
            let next = known.len();
            *known.entry(file.target.parent()).or_insert(next)
        };
        let directories = files.iter().map(&mut number).collect();
        Self { stages: files.iter().map(stage).collect(), directories, durable }
    }

    fn stage(&mut self, member: usize) -> Result<&mut Stage> {
        match self.stages.get_mut(member) {
            Some(Ok(stage)) => Ok(stage),
            Some(Err(error)) => Err(error.clone()),
            None => Err(Error::new(ErrorKind::Storage, "a group has no such member")),
        }
    }
}

impl SmallGroup for StageGroup {
    fn members(&self) -> Vec<Member> {
        let promised = |stage: &Result<Stage>| stage.as_ref().is_ok_and(|stage| stage.promises() == Safety::Durable);
        let member = |(stage, directory): (&Result<Stage>, &usize)| Member {
            durable: self.durable && promised(stage),
            directories: vec![*directory],
        };
        self.stages.iter().zip(&self.directories).map(member).collect()
    }

    fn finish(&mut self, member: usize, file: &SmallFile<'_>) -> Result<()> {
        let stage = self.stage(member)?;
        stage.write(file.content, 0)?;
        stage.finish(&file.commit_request())
    }

    fn sync(&mut self, member: usize) -> Result<()> {
        self.stage(member)?.sync()
    }

    fn name(&mut self, member: usize, file: &SmallFile<'_>) -> Result<()> {
        self.stage(member)?.name(&file.commit_request()).map(drop)
    }

    fn unchanged(&self, member: usize) -> bool {
        matches!(self.stages.get(member), Some(Ok(stage)) if stage.unchanged())
    }

    fn sync_directory(&mut self, directory: usize) -> Result<()> {
        let there = |stage: &Result<Stage>| stage.is_ok();
        let mut of = self.stages.iter().zip(&self.directories).filter(|(_, number)| **number == directory);
        let stage = of.find(|(stage, _)| there(stage)).map(|(stage, _)| stage);
        match stage {
            Some(Ok(stage)) => stage.sync_directory(),
            _ => Ok(()),
        }
    }
}

/// Reads all of `source`, which must have at most `bytes_max` bytes and must not change meanwhile.
pub(super) fn whole(source: &Source, bytes_max: u64, into: &mut SmallReader) -> Result<Attributes> {
    let attributes = source.attributes().clone();
    let because = match attributes.size {
        Some(size) if size <= bytes_max => {
            source.read_exact_at(into.room(size), 0)?;
            source.revalidate()?;
            return Ok(attributes);
        }
        Some(size) => format!("it has {size} bytes, and at most {bytes_max} are read at once"),
        None => "it has no size".to_owned(),
    };
    Err(errors::refused(ErrorKind::TooLarge, Verb::Read, source.shown(), &because))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Two files in two directories that can be synced at once, and a call that fails.
    #[derive(Debug)]
    struct Told<'a> {
        calls: &'a RefCell<Vec<String>>,
        failing: &'static str,
        durable: bool,
    }

    impl Told<'_> {
        fn call(&self, what: String) -> Result<()> {
            let failed = what == self.failing;
            self.calls.borrow_mut().push(what);
            if failed { Err(Error::new(ErrorKind::Storage, "broken")) } else { Ok(()) }
        }
    }

    impl SmallGroup for Told<'_> {
        fn members(&self) -> Vec<Member> {
            (0..2).map(|member| Member { durable: self.durable, directories: vec![member] }).collect()
        }

        fn at_once(&self) -> bool {
            true
        }

        fn finish(&mut self, member: usize, _: &SmallFile<'_>) -> Result<()> {
            self.call(format!("finish {member}"))
        }

        fn sync(&mut self, member: usize) -> Result<()> {
            self.call(format!("sync {member}"))
        }

        fn sync_system(&mut self) -> Result<()> {
            self.call("sync all".into())
        }

        fn name(&mut self, member: usize, _: &SmallFile<'_>) -> Result<()> {
            self.call(format!("name {member}"))
        }

        fn sync_directory(&mut self, directory: usize) -> Result<()> {
            self.call(format!("sync directory {directory}"))
        }
    }

    /// The calls of a group, and the result of each file.
    fn calls(durable: bool, failing: &'static str) -> (String, Vec<Option<Safety>>) {
        let target = RelPath::parse(b"x").unwrap();
        let (existing, base, parents) = (Existing::Replace, None, false);
        let file = SmallFile { target, content: b"", mode: 0, modified: None, existing, base, parents, holes: false };
        let calls = RefCell::default();
        let placed = put(&[file.clone(), file], durable, |_| Box::new(Told { calls: &calls, failing, durable }));
        let told = placed.into_iter().map(|placed| placed.ok().map(|placed| placed.safety)).collect();
        (calls.into_inner().join(", "), told)
    }

    #[test]
    fn a_group_that_can_syncs_everything_at_once_and_fails_together() {
        let (durable, written) = (Some(Safety::Durable), Some(Safety::Written));
        let all = "finish 0, finish 1, sync all, name 0, name 1, sync directory 0, sync directory 1";
        assert_eq!(calls(true, ""), (all.into(), vec![durable, durable]));
        assert_eq!(calls(false, ""), ("finish 0, finish 1, name 0, name 1".into(), vec![written, written]));
        assert_eq!(calls(true, "sync all"), ("finish 0, finish 1, sync all".into(), vec![None, None]));
        assert_eq!(calls(true, "finish 0").1, [None, durable]);
        assert_eq!(calls(true, "sync directory 0").1, [None, durable]);
    }
}
