//! How a staged file becomes the target: which call on storage may follow which, and what may be told after it.
//!
//! ```text
//! written, exact cover, FINISH  ->  finish  ->  [ sync file ]  ->  name  ->  [ sync directory ]  ->  told
//! ```
//!
//! The calls in brackets belong to a durable commit. The order is the whole point (probed with power cuts of ext4): a name
//! before the sync of the file can be an empty file after a cut, a name without the sync of its directory can be gone. The
//! first call that fails ends the plan for good: what a sync could not write the kernel forgets, so a second sync that
//! succeeds proves nothing (rule D5).
//!
//! It must not make a call itself: whoever carries the plan out asks for the next step and says how it went.

use crate::base::Safety;
use crate::bug::{Bug, Bugs};

/// One call on storage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// Give the staged file its length, mode and time.
    Finish,
    /// Wait until its bytes and those attributes are on stable storage.
    SyncFile,
    /// Give it the target's name, in one step.
    Name,
    /// Wait until the name is on stable storage.
    SyncDirectory,
}

/// Who carries the plan out did something else than what was next: a mistake of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfOrder;

/// How far a commit is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Done {
    Nothing,
    Finished,
    Synced,
    Named,
    NameSynced,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Commit {
    durable: bool,
    done: Done,
    named: bool,
    synced: bool,
    failed: bool,
    bugs: Bugs,
}

impl Commit {
    /// The commit of a file whose every byte is written. `durable` asks for both syncs.
    pub fn new(durable: bool, bugs: Bugs) -> Self {
        Self { durable, done: Done::Nothing, named: false, synced: false, failed: false, bugs }
    }

    /// What has to be done now; none when everything is done, or something failed.
    pub fn next(&self) -> Option<Step> {
        if self.failed {
            return None;
        }
        let early = self.durable && self.bugs.has(Bug::NameBeforeSync);
        Some(match self.done {
            Done::Nothing => Step::Finish,
            Done::Finished if self.durable && !early => Step::SyncFile,
            Done::Finished | Done::Synced if !self.named => Step::Name,
            Done::Named if early && !self.synced => Step::SyncFile,
            Done::Named | Done::Synced if self.durable && !self.bugs.has(Bug::NoDirectorySync) => Step::SyncDirectory,
            _ => return None,
        })
    }

    /// The step that was next is done.
    pub fn on_done(&mut self, step: Step) -> Result<(), OutOfOrder> {
        if self.next() != Some(step) {
            return Err(OutOfOrder);
        }
        self.done = match step {
            Step::Finish => Done::Finished,
            Step::SyncFile => {
                self.synced = true;
                Done::Synced
            }
            Step::Name => {
                self.named = true;
                Done::Named
            }
            Step::SyncDirectory => Done::NameSynced,
        };
        Ok(())
    }

    /// The step that was next failed: nothing follows, whatever the call would say if it were made again.
    pub fn on_failed(&mut self, step: Step) {
        let again = step == Step::SyncFile && self.bugs.has(Bug::SyncAgain);
        let ignored = step == Step::SyncFile && self.bugs.has(Bug::ErrorIgnored) && self.on_done(step).is_ok();
        self.failed |= !again && !ignored;
    }

    /// Whether the file has its name: it can no longer be taken back.
    pub const fn has_name(&self) -> bool {
        self.named
    }

    /// What may be told; none unless everything was done.
    pub fn safety(&self) -> Option<Safety> {
        let done = !self.failed && self.named && self.next().is_none();
        done.then_some(if self.durable { Safety::Durable } else { Safety::Written })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn steps(durable: bool) -> Vec<Step> {
        let mut plan = Commit::new(durable, Bugs::default());
        let mut steps = Vec::new();
        while let Some(step) = plan.next() {
            assert_eq!(plan.safety(), None, "nothing is told before the last step");
            plan.on_done(step).unwrap();
            steps.push(step);
        }
        assert_eq!(plan.safety(), Some(if durable { Safety::Durable } else { Safety::Written }));
        steps
    }

    #[test]
    fn a_durable_commit_syncs_the_file_before_its_name_and_the_directory_behind_it() {
        assert_eq!(steps(true), [Step::Finish, Step::SyncFile, Step::Name, Step::SyncDirectory]);
        assert_eq!(steps(false), [Step::Finish, Step::Name]);
    }

    #[test]
    fn after_any_failure_nothing_follows_and_nothing_is_told() {
        for failing in 0..4 {
            let mut plan = Commit::new(true, Bugs::default());
            for _ in 0..failing {
                plan.on_done(plan.next().unwrap()).unwrap();
            }
            let step = plan.next().unwrap();
            plan.on_failed(step);
            assert_eq!((plan.next(), plan.safety()), (None, None));
            assert_eq!(plan.on_done(step), Err(OutOfOrder), "a sync that succeeds the second time proves nothing");
            assert_eq!(plan.has_name(), failing == 3);
        }
    }

    #[test]
    fn no_step_can_be_done_out_of_its_turn() {
        let mut plan = Commit::new(true, Bugs::default());
        plan.on_done(Step::Finish).unwrap();
        for step in [Step::Finish, Step::Name, Step::SyncDirectory] {
            assert_eq!(plan.on_done(step), Err(OutOfOrder));
        }
        assert!(!plan.has_name());
    }
}
