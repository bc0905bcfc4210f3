//! Faults of small files: each file is prepared, written, synced and named by calls of the plan,
//! and each group syncs its directories, or everything, by one.

use super::{Call, Fault, SharedPlan, allowed, flipped};
use crate::store::Result;
use crate::store::errors::{self, Verb};
use crate::store::io_loops::{stuck_words, write_full};
use crate::store::small::{SmallFile, SmallGroup};
use std::borrow::Cow;
use std::fmt;
use xdfs_proto::base::commit::Member;
use xdfs_proto::base::{Error, ErrorKind};

/// A group of a [`super::FaultStore`].
pub(super) struct FaultGroup<'s> {
    inner: Box<dyn SmallGroup + 's>,
    plan: SharedPlan,
    /// For each file: its name in messages, and the error that occurred above `inner`, which does
    /// not know of it.
    members: Vec<(String, Result<()>)>,
}

impl fmt::Debug for FaultGroup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultGroup").field("members", &self.members).finish_non_exhaustive()
    }
}

impl<'s> FaultGroup<'s> {
    pub(super) fn new(inner: Box<dyn SmallGroup + 's>, plan: SharedPlan, files: &[SmallFile<'_>]) -> Self {
        let member = |file: &SmallFile<'_>| {
            let shown = errors::shown("", &file.target);
            let staged = plan.check(Call::Stage, Verb::Create, &shown);
            (shown, staged)
        };
        Self { members: files.iter().map(member).collect(), inner, plan }
    }

    fn nobody() -> Error {
        Error::new(ErrorKind::Storage, "a group has no such member")
    }

    /// Fails if an earlier call failed; otherwise `call` decides, and an error is final.
    fn decide(&mut self, member: usize, call: impl FnOnce(&SharedPlan, &str) -> Result<()>) -> Result<()> {
        let (shown, failed) = self.members.get_mut(member).ok_or_else(Self::nobody)?;
        failed.clone()?;
        *failed = call(&self.plan, shown);
        failed.clone()
    }
}

/// The bytes of a file as written under the plan.
fn written<'a>(plan: &SharedPlan, shown: &str, content: &'a [u8]) -> Result<Cow<'a, [u8]>> {
    let mut kept = Cow::Borrowed(content);
    write_full(content, 0, |rest, at| {
        let fault = plan.lock().decide(Call::Write, rest.len());
        let length = allowed(fault, rest.len())?;
        let start = at as usize;
        let part = rest.get(..length).unwrap_or_default();
        let other = match fault {
            Some(Fault::Lost) => Some(vec![0; length]),
            Some(Fault::Flipped) => Some(flipped(part)),
            _ => None,
        };
        if let Some(other) = other
            && let Some(place) = kept.to_mut().get_mut(start..start + length)
        {
            place.copy_from_slice(&other);
        }
        plan.lock().written(length);
        Ok(length)
    })
    .map_err(|stuck| stuck_words(shown, stuck))?;
    Ok(kept)
}

impl SmallGroup for FaultGroup<'_> {
    fn members(&self) -> Vec<Member> {
        self.inner.members()
    }

    fn at_once(&self) -> bool {
        self.inner.at_once()
    }

    fn finish(&mut self, member: usize, file: &SmallFile<'_>) -> Result<()> {
        let mut content = Cow::Borrowed(file.content);
        self.decide(member, |plan, shown| {
            content = written(plan, shown, file.content)?;
            Ok(())
        })?;
        self.inner.finish(member, &SmallFile { content: &content, ..file.clone() })
    }

    fn sync(&mut self, member: usize) -> Result<()> {
        self.decide(member, |plan, shown| plan.check(Call::Sync, Verb::Sync, shown))?;
        self.inner.sync(member)
    }

    fn sync_system(&mut self) -> Result<()> {
        self.plan.check(Call::SyncSystem, Verb::Sync, "a group of files")?;
        self.inner.sync_system()
    }

    fn name(&mut self, member: usize, file: &SmallFile<'_>) -> Result<()> {
        self.decide(member, |plan, shown| plan.check(Call::Commit, Verb::Create, shown))?;
        self.inner.name(member, file)
    }

    fn unchanged(&self, member: usize) -> bool {
        self.inner.unchanged(member)
    }

    fn sync_directory(&mut self, directory: usize) -> Result<()> {
        self.plan.check(Call::SyncDirectory, Verb::Sync, "a directory")?;
        self.inner.sync_directory(directory)
    }
}
