//! Trees: how `xdfs cp -r` copies a directory, and all of `xdfs sync`.

mod attempts;
mod link;
pub(in crate::cmd::cp) mod names;
mod option_file;
mod patterns;
mod reporter;
mod whole;
mod whole_here;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use xdfs_client::retry::Backoff;
use xdfs_client::tree::{Download, Preserve, Total, TreeOptions, Upload};
use xdfs_client::wire::{FileType, Wanted};
use xdfs_client::{Error, ErrorKind, Facts, Session};
use xdfs_io::store::LocalStore;

use self::attempts::{AttemptError, RunEnd, TreeAttempts};
use self::link::{DirectionRun, LinkFacts};
use self::names::{Failures, Only};
use self::whole::IntoPlace;
use super::failure::Failed;
use super::local_directory::{Above, directory, made, would_be_made};
use super::{Copy, verify_of, wire_name};
use crate::cmd::remote::remedy_without_export;
use crate::exit::{Exit, Failure};
use crate::output::{CopiedTree, Endpoint};
use crate::plan::{Sides, SyncPlan, TreePlan, WhenDone};
use crate::text::printable_path;
use crate::url::Url;

/// Carries out a `sync`.
pub(in crate::cmd) fn sync(plan: &SyncPlan) -> Result<Exit, Failure> {
    names::must_have_lists(&plan.tree)?;
    if matches!(plan.sides, Sides::Down(..)) {
        super::load_journal_key(&plan.login);
    }
    super::with_sessions(&plan.options, plan.format, &plan.login, |copy| {
        copy.ftp.removes_left = !matches!(plan.sides, Sides::Down(..)) && !plan.tree.dry_run;
        match &plan.sides {
            Sides::Up(source, target) => copy.tree_up(source, (target, Above::Needed), None, &plan.tree),
            Sides::Down(source, target) => copy.tree_down(source, (target, Above::Needed), &plan.tree),
            Sides::Between(source, target) => copy.tree_between(source, target, &plan.tree),
        }
    })
}

impl Copy<'_> {
    /// Makes `target` like the directory `source`; `known` may hold the attributes of the existing
    /// target. Returns the exit code.
    pub(super) fn tree_up(
        &mut self,
        source: &Path,
        (target, above): (&Url, Above),
        known: Option<Option<Facts>>,
        plan: &TreePlan,
    ) -> Result<Exit, Failure> {
        let shown = printable_path(source);
        let outcome = (|| {
            let here = |error| Failed::of_local(&shown, error);
            let store = directory(source).map_err(here)?;
            self.prepare_ftp_tree(target, plan.delete)?;
            let local = store.clone();
            let found = known.map_or_else(|| self.look(target), Ok)?;
            let atomic = plan.atomic && !plan.dry_run;
            let named = found.as_ref().filter(|_| atomic).and_then(|found| self.named_before(source, target, found));
            let fresh = above == Above::WouldBeMade || self.look_up(target, found)?;
            if plan.dry_run {
                self.must_be_writable(target, false)?;
            }
            let (options, listed) = self.tree_options(plan, atomic && named.is_none())?;
            let whole = match atomic && named.is_none() {
                true => Some(self.begin_whole(source, target, fresh)?),
                false => None,
            };
            let (base, fresh) = whole.as_ref().map_or((target, fresh), |(whole, fresh)| (&whole.place, *fresh));
            let upload = Upload::new(store, wire_name(base), fresh, options).map_err(here)?;
            Ok((upload, listed, whole.map(|(whole, _)| whole), named, local))
        })();
        let (mut upload, listed, whole, named, local) = match outcome {
            Ok(both) => both,
            Err(failed) => return self.monitor.tell(Err(failed)),
        };
        let ends = (&Endpoint::from(source), &Endpoint::from(target));
        let Some(whole) = whole else {
            let exit = self.carry(&mut upload, (target, &local), ends, plan, listed.as_deref())?;
            self.monitor.tell_staged_there(target, exit);
            if let Some(mark) = named.filter(|_| exit == Exit::Done) {
                self.end_named_before(mark, source, target);
            }
            return Ok(exit);
        };
        let mut direction = IntoPlace { upload: &mut upload, whole: &whole };
        let exit = self.carry(&mut direction, (target, &local), ends, plan, listed.as_deref())?;
        if exit == Exit::Done {
            return self.publish(&whole);
        }
        let text =
            format!("{target}: not there, since part of it failed\nhelp: the same command goes on with the rest");
        self.monitor.output().note(&text);
        Ok(exit)
    }

    /// Makes the directory `target` like `source`.
    pub(super) fn tree_down(
        &mut self,
        source: &Url,
        (target, above): (&Path, Above),
        plan: &TreePlan,
    ) -> Result<Exit, Failure> {
        let shown = printable_path(target);
        let outcome = (|| {
            self.prepare_ftp_tree(source, plan.delete)?;
            let top = self.look(source)?;
            let top = top.ok_or_else(|| not_found(source))?;
            if top.kind != FileType::Directory {
                let error = Error::new(ErrorKind::NotDirectory, "not a directory");
                return Err(Failed::of_peer(&source.to_string(), error));
            }
            let here = |error| Failed::of_local(&shown, error);
            let atomic = plan.atomic && !plan.dry_run;
            let (options, listed) = self.tree_options(plan, atomic)?;
            let way = match atomic {
                true => Some(whole_here::begin(source, target, &self.login).map_err(here)?),
                false => None,
            };
            let target = way.as_ref().map_or(target, |(way, _)| way);
            let made = if plan.dry_run { would_be_made(target, above) } else { made(target) };
            let (store, fresh) = made.map_err(here)?;
            let local = store.clone();
            let download = Download::new(store, wire_name(source), fresh, options);
            Ok((download.with_top(&top), listed, way, local))
        })();
        let (mut download, listed, way, local) = match outcome {
            Ok(both) => both,
            Err(failed) => {
                let failed = self.with_meant(failed, source);
                return self.monitor.tell(Err(failed));
            }
        };
        let exit =
            self.carry(&mut download, (source, &local), (&source.into(), &target.into()), plan, listed.as_deref())?;
        if exit == Exit::Cancelled {
            self.monitor.tell_staged(Some(target));
        }
        match way {
            Some((way, mark)) if exit == Exit::Done => match whole_here::publish(&way, target, &mark) {
                Ok(()) => Ok(exit),
                Err(error) => self.monitor.tell(Err(Failed::of_local(&shown, error))),
            },
            Some((way, _)) => {
                let way = printable_path(&way);
                self.monitor
                    .output()
                    .note(&format!("{shown}: not there, since part of it failed; the rest is in {way}"));
                Ok(exit)
            }
            None => Ok(exit),
        }
    }

    /// Runs the copy over as many sessions as needed.
    fn carry(
        &mut self,
        direction: &mut dyn DirectionRun,
        (server, local): (&Url, &LocalStore),
        (source, target): (&Endpoint, &Endpoint),
        plan: &TreePlan,
        listed: Option<&Only>,
    ) -> Result<Exit, Failure> {
        let (started, mut backoff) = (Instant::now(), Backoff::since_progress(self.options.retry));
        let mut failures = Failures::open(plan.failures.as_deref())?;
        self.monitor.begin();
        let total = self.total_of(direction);
        let mut attempts = TreeAttempts {
            copy: self,
            direction: &mut *direction,
            server,
            local,
            ends: (source, target),
            plan,
            listed,
            failures: &mut failures,
            total: &total,
        };
        let (ran, facts) = match backoff.retry(&mut attempts) {
            Ok(both) => both,
            Err(AttemptError::Output(failure)) => return Err(failure),
            Err(AttemptError::Session(failed)) => {
                let closed = failures.close_early(listed);
                let failed = self.monitor.given_up(&backoff, failed);
                self.monitor.output().tree_stopped(&direction.summary());
                let told = self.monitor.tell(Err(failed));
                return closed.and(told);
            }
        };
        let is_over = matches!(&ran, Ok((_, end)) if *end != RunEnd::Stopped);
        let closed = if is_over { failures.close() } else { failures.close_early(listed) };
        let (summary, stopped) = match ran {
            Ok((summary, end)) => (summary, end == RunEnd::Stopped),
            Err(error) => {
                let told = self.monitor.tell(Err(direction.refused(target.shown(), error)));
                return closed.and(told);
            }
        };
        let causes = closed?;
        let failed = if summary.is_complete() { Exit::Done } else { Exit::SomeFailed };
        let exit = if stopped { Exit::Cancelled } else { failed };
        let (source, target) = (source.clone(), target.clone());
        let LinkFacts { channels, level, in_place } = facts;
        let (retries, dry_run) = (backoff.attempts(), plan.dry_run);
        let (elapsed, archive, ok) = (started.elapsed(), plan.keep != Preserve::default(), exit == Exit::Done);
        let tree =
            CopiedTree { source, target, summary, causes, elapsed, channels, level, retries, dry_run, archive, ok };
        self.monitor.tell_tree(&tree)?;
        self.note_ftp_tree(server, &tree.summary, in_place);
        if stopped {
            let message = format!("{}: cancelled", tree.target);
            self.monitor.output().failed(tree.target.shown(), ErrorKind::Cancelled, &message)?;
        }
        Ok(exit)
    }

    /// The total of a tree; it is counted where it is shown.
    fn total_of(&mut self, direction: &mut dyn DirectionRun) -> Arc<Total> {
        let total = Arc::new(Total::default());
        if self.monitor.output().shows_tree_progress() {
            direction.count_into(Arc::clone(&total));
        }
        total
    }

    /// `unpublished`: nobody else has anything in the tree that it is copied to.
    fn tree_options(&self, plan: &TreePlan, unpublished: bool) -> Result<(TreeOptions, Option<Arc<Only>>), Failed> {
        let options = self.options;
        let (filter, listed) = names::filter(plan).map_err(|failure| Failed::local(String::new(), failure))?;
        let options = TreeOptions {
            durable: options.durability != WhenDone::Written,
            verify: verify_of(options.check),
            keep_existing: options.keep_existing,
            skip_same: options.resume,
            checksum: plan.checksum,
            dry_run: plan.dry_run,
            // What an earlier attempt brought and the source has no more is not of the tree.
            delete: plan.delete.or_else(|| (unpublished && plan.files_from.is_none()).then_some(u64::MAX)),
            keep: plan.keep,
            filter,
        };
        Ok((options, listed))
    }

    /// Whether an upload's target does not exist yet. An existing non-directory or a missing parent
    /// is an error.
    fn look_up(&mut self, target: &Url, found: Option<Facts>) -> Result<bool, Failed> {
        match found {
            Some(file) if file.kind == FileType::Directory => Ok(false),
            Some(_) => {
                let error = Error::new(ErrorKind::NotDirectory, "not a directory");
                Err(Failed::of_peer(&target.to_string(), error))
            }
            None => match target.parent() {
                Some(above) => match self.look(&above)? {
                    Some(file) if file.kind == FileType::Directory => Ok(true),
                    _ => Err(not_found(&above).make_first(&above)),
                },
                None => Ok(true),
            },
        }
    }

    /// The attributes of a URL; `None` if it does not exist.
    pub(super) fn look(&mut self, url: &Url) -> Result<Option<Facts>, Failed> {
        if url.is_ftp() {
            return self.look_ftp(url);
        }
        let wanted = Wanted::MODE.and(Wanted::MODIFIED).and(Wanted::OWNER).and(Wanted::NAMES).and(Wanted::INODE);
        match self.session_of(url)?.look(wire_name(url), wanted) {
            Ok(file) if file.kind == FileType::Symlink && url.is_followed() => {
                Ok(Some(Facts { kind: FileType::Directory, ..file }))
            }
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind == ErrorKind::NotFound && remedy_without_export(url, &error).is_none() => Ok(None),
            Err(error) => Err(Failed::of_peer(&url.to_string(), error)),
        }
    }

    pub(super) fn session_of(&mut self, url: &Url) -> Result<&Session, Failed> {
        let (session, new) = self.sessions.with(url).map_err(|failed| Failed::of_session(&url.to_string(), failed))?;
        if new {
            self.monitor.report_grant(session, self.options);
        }
        Ok(session)
    }
}

pub(super) fn not_found(url: &Url) -> Failed {
    Failed::of_peer(&url.to_string(), Error::new(ErrorKind::NotFound, "no such directory"))
}
