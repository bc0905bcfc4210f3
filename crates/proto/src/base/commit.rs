//! How staged files become their targets: which storage call may follow which, and what may be
//! reported afterwards. A single file is a group of one.
//!
//! ```text
//! written, exact cover, FINISH  ->  finish all  ->  [ sync each, or the file system once ]  ->  name all
//!                               ->  [ sync each directory once ]  ->  each is told
//! ```
//!
//! The calls in brackets belong to a durable commit. The order is essential (tested with power cuts
//! of ext4): a rename before the sync of the file can leave an empty file after a power cut, and a
//! name without the sync of its directory can be lost. The first call that fails ends the commit
//! permanently for every member that it concerned: the kernel drops what a sync could not write, so
//! a second sync that succeeds proves nothing. The others continue.
//!
//! It must not make a call itself: the caller executes the plan, asks for the next step and reports
//! its result.

use super::{Error, ErrorKind, Safety};
use alloc::vec;
use alloc::vec::Vec;

/// Limit on members of a group: this many files are open at once, and a file waits for at most this
/// many others.
pub const MEMBERS_MAX: usize = 64;

/// One storage call. Members and directories are identified by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CommitStep {
    /// Set the staged file's length, mode and time.
    Finish(usize),
    /// Wait until its bytes and those attributes are on stable storage.
    SyncFile(usize),
    /// Wait until everything that was written to the file system is on stable storage.
    SyncSystem,
    /// Rename the file to the target's name, atomically.
    Name(usize),
    /// Wait until the names in this directory are on stable storage.
    SyncDirectory(usize),
}

/// The properties of a file in a group.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Member {
    /// It must survive a power cut.
    pub durable: bool,
    /// Directories in which a name must be on stable storage before the file counts as durable: its
    /// own, and the parents of directories that were created for it.
    pub directories: Vec<usize>,
}

/// The caller executed something other than the next step: a bug in this program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfOrder;

/// The progress of a member.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct File {
    asked: Member,
    finished: bool,
    synced: bool,
    named: bool,
    failed: bool,
}

impl File {
    fn is_to_finish(&self) -> bool {
        !self.failed && !self.finished
    }

    fn is_to_sync(&self) -> bool {
        !self.failed && self.asked.durable && !self.synced
    }

    fn is_to_name(&self) -> bool {
        !self.failed && !self.named
    }
}

/// The first member that must be finished, synced and renamed. Steps are never undone, so these
/// only grow, and the next step is found without visiting every member.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct First {
    finish: usize,
    sync: usize,
    name: usize,
}

impl First {
    fn follow(&mut self, files: &[File]) {
        let beyond = |from: usize, is_to: fn(&File) -> bool| {
            files.iter().skip(from).position(is_to).map_or(files.len(), |ahead| from + ahead)
        };
        self.finish = beyond(self.finish, File::is_to_finish);
        self.sync = beyond(self.sync, File::is_to_sync);
        self.name = beyond(self.name, File::is_to_name);
    }
}

/// The order of storage calls that turns staged files into their targets.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Commit {
    files: Vec<File>,
    first: First,
    /// By number: its names are synced.
    directories: Vec<bool>,
    /// The file system is synced instead of each file.
    at_once: bool,
}

impl Commit {
    /// The commit of files whose every byte is written. `at_once` if one sync of the file system
    /// serves all of them and is worthwhile.
    pub fn group(members: Vec<Member>, at_once: bool) -> Self {
        let directories = members.iter().flat_map(|member| &member.directories).max().map_or(0, |last| last + 1);
        let begun = |asked| File { asked, finished: false, synced: false, named: false, failed: false };
        let files: Vec<File> = members.into_iter().map(begun).collect();
        let mut first = First::default();
        first.follow(&files);
        Self { files, first, directories: vec![false; directories], at_once }
    }

    /// The commit of one file.
    pub fn single(durable: bool) -> Self {
        Self::group(vec![Member { durable, directories: vec![0] }], false)
    }

    /// The next step; none when everything is done or failed.
    pub fn next(&self) -> Option<CommitStep> {
        self.member(self.first.finish)
            .map(CommitStep::Finish)
            .or_else(|| self.next_sync())
            .or_else(|| self.member(self.first.name).map(CommitStep::Name))
            .or_else(|| self.next_directory().map(CommitStep::SyncDirectory))
    }

    /// The number, if there is such a member.
    fn member(&self, number: usize) -> Option<usize> {
        (number < self.files.len()).then_some(number)
    }

    fn next_sync(&self) -> Option<CommitStep> {
        let member = self.member(self.first.sync)?;
        Some(if self.at_once { CommitStep::SyncSystem } else { CommitStep::SyncFile(member) })
    }

    fn next_directory(&self) -> Option<usize> {
        let open = |number: &&usize| self.directories.get(**number) == Some(&false);
        let wanted = |file: &File| file.asked.directories.iter().find(open).copied();
        self.files.iter().filter(|file| !file.failed && file.asked.durable).find_map(wanted)
    }

    /// The next step was completed.
    pub fn on_done(&mut self, step: CommitStep) -> Result<(), OutOfOrder> {
        if self.next() != Some(step) {
            return Err(OutOfOrder);
        }
        match step {
            CommitStep::Finish(member) => self.mark(member, |file| file.finished = true),
            CommitStep::SyncFile(member) => self.mark(member, |file| file.synced = true),
            CommitStep::SyncSystem => self.files.iter_mut().for_each(|file| file.synced = true),
            CommitStep::Name(member) => self.mark(member, |file| file.named = true),
            CommitStep::SyncDirectory(number) => {
                if let Some(synced) = self.directories.get_mut(number) {
                    *synced = true;
                }
            }
        }
        self.first.follow(&self.files);
        Ok(())
    }

    fn mark(&mut self, member: usize, how: impl Fn(&mut File)) {
        if let Some(file) = self.files.get_mut(member) {
            how(file);
        }
    }

    /// The next step failed: nothing follows for the members that it concerned, whatever a repeated
    /// call would return.
    pub fn on_failed(&mut self, step: CommitStep) {
        for (number, file) in self.files.iter_mut().enumerate() {
            file.failed |= match step {
                CommitStep::Finish(member) | CommitStep::SyncFile(member) | CommitStep::Name(member) => {
                    member == number
                }
                CommitStep::SyncSystem => file.asked.durable,
                CommitStep::SyncDirectory(directory) => {
                    file.asked.durable && file.asked.directories.contains(&directory)
                }
            };
        }
        self.first.follow(&self.files);
    }

    /// Whether the file has its name: it can no longer be undone.
    pub fn has_name(&self, member: usize) -> bool {
        self.files.get(member).is_some_and(|file| file.named)
    }

    /// Whether a call that concerned this member failed.
    pub fn has_failed(&self, member: usize) -> bool {
        self.files.get(member).is_none_or(|file| file.failed)
    }

    /// What may be reported for a member; none unless every step that concerns it is done.
    pub fn safety(&self, member: usize) -> Option<Safety> {
        let file = self.files.get(member).filter(|file| file.named && !file.failed)?;
        if !file.asked.durable {
            return Some(Safety::Written);
        }
        let kept = |number: &usize| self.directories.get(*number) == Some(&true);
        (file.synced && file.asked.directories.iter().all(kept)).then_some(Safety::Durable)
    }

    /// Executes the plan with `call`, and returns the result of each member.
    pub fn run(mut self, mut call: impl FnMut(CommitStep) -> Result<(), Error>) -> Vec<Result<Safety, Error>> {
        let mut errors: Vec<Option<Error>> = vec![None; self.files.len()];
        while let Some(step) = self.next() {
            let done = call(step);
            let Err(error) = done.and_then(|()| self.on_done(step).map_err(|_| broken("a commit lost its order")))
            else {
                continue;
            };
            self.on_failed(step);
            for (number, told) in errors.iter_mut().enumerate() {
                if self.has_failed(number) && told.is_none() {
                    *told = Some(error.clone());
                }
            }
        }
        let told = |(number, error): (usize, Option<Error>)| {
            let unfinished = || error.unwrap_or_else(|| broken("a commit did not come to its end"));
            self.safety(number).ok_or_else(unfinished)
        };
        errors.into_iter().enumerate().map(told).collect()
    }
}

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Storage, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(mut plan: Commit) -> Vec<CommitStep> {
        let mut steps = Vec::new();
        while let Some(step) = plan.next() {
            plan.on_done(step).unwrap();
            steps.push(step);
        }
        steps
    }

    /// Two files in directory 0, one in directory 1, which was created for it below 0, and one that
    /// need not be durable.
    fn four() -> Vec<Member> {
        let member = |durable, directories: &[usize]| Member { durable, directories: directories.to_vec() };
        vec![member(true, &[0]), member(true, &[1, 0]), member(false, &[0]), member(true, &[0])]
    }

    #[test]
    fn a_durable_commit_syncs_the_file_before_its_name_and_the_directory_behind_it() {
        use CommitStep::{Finish, Name, SyncDirectory, SyncFile};
        let single = |durable| steps(Commit::single(durable));
        assert_eq!(single(true), [Finish(0), SyncFile(0), Name(0), SyncDirectory(0)]);
        assert_eq!(single(false), [Finish(0), Name(0)]);
    }

    #[test]
    fn a_group_shares_the_sync_of_each_directory_and_where_it_is_worth_it_that_of_the_files() {
        use CommitStep::{Finish, Name, SyncDirectory, SyncFile, SyncSystem};
        let group = |at_once| steps(Commit::group(four(), at_once));
        let (finish, name) = ([0, 1, 2, 3].map(Finish), [0, 1, 2, 3].map(Name));
        let directories = [SyncDirectory(0), SyncDirectory(1)];
        let each = [SyncFile(0), SyncFile(1), SyncFile(3)];
        assert_eq!(group(false), [&finish[..], &each, &name, &directories].concat());
        assert_eq!(group(true), [&finish[..], &[SyncSystem], &name, &directories].concat());
    }

    #[test]
    fn each_member_is_told_when_everything_that_concerns_it_is_done_and_not_before() {
        let mut plan = Commit::group(four(), false);
        let told = |plan: &Commit| [0, 1, 2, 3].map(|member| plan.safety(member));
        while let Some(step) = plan.next() {
            let durable = |member: &usize| told(&plan)[*member] == Some(Safety::Durable);
            match step {
                CommitStep::SyncDirectory(1) => {
                    assert_eq!([0, 1, 3].map(|member| durable(&member)), [true, false, true])
                }
                _ => assert!(![0, 1, 3].iter().any(durable), "before {step:?}"),
            }
            plan.on_done(step).unwrap();
        }
        let (durable, written) = (Some(Safety::Durable), Some(Safety::Written));
        assert_eq!(told(&plan), [durable, durable, written, durable]);
    }

    #[test]
    fn a_failure_ends_for_good_whom_it_was_about_and_nobody_else() {
        for at_once in [false, true] {
            let all = steps(Commit::group(four(), at_once));
            for (index, failing) in all.iter().enumerate() {
                let mut plan = Commit::group(four(), at_once);
                all.iter().take(index).for_each(|step| plan.on_done(*step).unwrap());
                plan.on_failed(*failing);
                assert_ne!(plan.next(), Some(*failing), "a sync that succeeds the second time proves nothing");
                assert_eq!(plan.on_done(*failing), Err(OutOfOrder));
                while let Some(step) = plan.next() {
                    plan.on_done(step).unwrap();
                }
                let lost: &[usize] = match failing {
                    CommitStep::Finish(member) | CommitStep::SyncFile(member) | CommitStep::Name(member) => &[*member],
                    CommitStep::SyncSystem | CommitStep::SyncDirectory(0) => &[0, 1, 3],
                    CommitStep::SyncDirectory(_) => &[1],
                };
                for member in 0..4 {
                    assert_eq!(plan.safety(member).is_none(), lost.contains(&member), "{failing:?} and {member}");
                    let behind = matches!(failing, CommitStep::SyncDirectory(_));
                    assert_eq!(plan.has_name(member), behind || !lost.contains(&member), "{failing:?}, {member}");
                }
            }
        }
    }

    #[test]
    fn no_step_can_be_done_out_of_its_turn() {
        let mut plan = Commit::single(true);
        plan.on_done(CommitStep::Finish(0)).unwrap();
        for step in [
            CommitStep::Finish(0),
            CommitStep::Name(0),
            CommitStep::SyncDirectory(0),
            CommitStep::SyncSystem,
            CommitStep::SyncFile(1),
        ] {
            assert_eq!(plan.on_done(step), Err(OutOfOrder));
        }
        assert!(!plan.has_name(0));
    }

    #[test]
    fn who_carries_it_out_hears_the_first_error_of_each() {
        let plan = Commit::group(four(), false);
        let outcomes = plan.run(|step| match step {
            CommitStep::SyncFile(1) => Err(Error::new(ErrorKind::NoSpace, "full")),
            CommitStep::SyncDirectory(_) => Err(Error::new(ErrorKind::Storage, "broken")),
            _ => Ok(()),
        });
        let told: Vec<_> = outcomes.iter().map(|told| told.as_ref().map_err(|error| error.kind)).collect();
        let broken = Err(ErrorKind::Storage);
        assert_eq!(told, [broken, Err(ErrorKind::NoSpace), Ok(&Safety::Written), broken]);
    }
}
