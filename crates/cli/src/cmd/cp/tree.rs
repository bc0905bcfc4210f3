//! Trees: what `xdfs cp -r` does with a directory, and all of `xdfs sync`.

mod names;
mod news;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use xdfs_client::tree::{Download, Ended, Observer, Summary, TreeOptions, Upload};
use xdfs_client::{Error, ErrorKind, RemoteFile, RemoteKind, Session};
use xdfs_xio::store::{FileKind, LocalPlace, LocalStore, Tree as _};

use self::names::Failures;
use self::news::News;
use super::failure::Failed;
use super::retry::Patience;
use super::{Copy, verify_of, wire_name};
use crate::exit::{Exit, Failure};
use crate::output::Tree;
use crate::plan::{Sides, SyncPlan, TreePlan, WhenDone};
use crate::text::printable_path;
use crate::url::Url;

/// One direction of a tree, over one session after the other.
trait Course {
    fn run(&mut self, session: &Session, observer: &mut dyn Observer) -> Ended;
}

impl Course for Upload {
    fn run(&mut self, session: &Session, observer: &mut dyn Observer) -> Ended {
        self.run(session, observer)
    }
}

impl Course for Download {
    fn run(&mut self, session: &Session, observer: &mut dyn Observer) -> Ended {
        self.run(session, observer)
    }
}

/// Carries out a `sync`.
pub(in crate::cmd) fn sync(plan: &SyncPlan) -> Result<Exit, Failure> {
    super::with_sessions(&plan.options, plan.format, &plan.login, |copy| match &plan.sides {
        Sides::Up(source, target) => copy.tree_up(source, target, &plan.tree),
        Sides::Down(source, target) => copy.tree_down(source, target, &plan.tree),
    })
}

impl Copy<'_> {
    /// Makes `target` like the directory `source`; the exit code that it comes to.
    pub(super) fn tree_up(&mut self, source: &Path, target: &Url, plan: &TreePlan) -> Result<Exit, Failure> {
        let shown = printable_path(source);
        let outcome = (|| {
            let here = |error| Failed::of_local(&shown, error);
            let store = directory(source).map_err(here)?;
            let fresh = self.look_up(target)?;
            let options = self.tree_options(plan)?;
            Upload::new(store, wire_name(target), fresh, options).map_err(here)
        })();
        match outcome {
            Ok(mut upload) => self.carry(&mut upload, target, (&shown, &target.to_string()), plan),
            Err(failed) => self.moving.tell(Err(failed)),
        }
    }

    /// Makes the directory `target` like `source`.
    pub(super) fn tree_down(&mut self, source: &Url, target: &Path, plan: &TreePlan) -> Result<Exit, Failure> {
        let shown = printable_path(target);
        let outcome = (|| {
            let top = self.look(source)?;
            let top = top.ok_or_else(|| not_found(source))?;
            if top.kind != RemoteKind::Directory {
                let error = Error::new(ErrorKind::NotDirectory, "not a directory");
                return Err(Failed::of_peer(&source.to_string(), error));
            }
            let here = |error| Failed::of_local(&shown, error);
            let options = self.tree_options(plan)?;
            let (store, fresh) = made(target, plan.dry_run).map_err(here)?;
            let download = Download::new(store, wire_name(source), fresh, options);
            Ok(download.with_top(top.mode, top.modified))
        })();
        match outcome {
            Ok(mut download) => self.carry(&mut download, source, (&source.to_string(), &shown), plan),
            Err(failed) => self.moving.tell(Err(failed)),
        }
    }

    /// Over as many sessions as it takes.
    fn carry(
        &mut self,
        course: &mut dyn Course,
        server: &Url,
        (source, target): (&str, &str),
        plan: &TreePlan,
    ) -> Result<Exit, Failure> {
        let started = Instant::now();
        let mut patience = Patience::new(self.options.retry);
        let mut failures = Failures::open(plan.failures.as_deref())?;
        self.moving.begin();
        let (ended, facts) = loop {
            let mut failed = match self.sessions.with(server) {
                Ok((session, new)) => {
                    if new {
                        self.moving.greet(session, self.options);
                    }
                    let facts = (session.facts().channels, session.facts().level);
                    let mut news = News::new(&mut self.moving, &mut failures, plan, (source, target));
                    match course.run(session, &mut news) {
                        Ended::Lost(error) => {
                            news.check()?;
                            Failed::of_peer(&server.to_string(), error)
                        }
                        ended => {
                            news.check()?;
                            break (ended, facts);
                        }
                    }
                }
                Err(failed) => Failed::of_session(&server.to_string(), failed),
            };
            if self.moving.stopped() || !patience.again(&failed, self.moving.reached()) {
                failed.failure.message.push_str(&patience.story());
                return self.moving.tell(Err(failed));
            }
            self.moving.tell_again(&failed);
            self.sessions.forget(server);
        };
        failures.close()?;
        let (summary, stopped) = match ended {
            Ended::Stopped(summary) => (summary, true),
            Ended::Complete(summary) => (summary, false),
            Ended::Lost(_) => (Summary::default(), true),
        };
        let exit = match (stopped, summary.failed) {
            (true, _) => Exit::Cancelled,
            (false, 0) => Exit::Done,
            (false, _) => Exit::SomeFailed,
        };
        let (source, target) = (source.to_owned(), target.to_owned());
        let (channels, level) = facts;
        let retries = patience.attempts();
        let dry_run = plan.dry_run;
        let elapsed = started.elapsed();
        let tree = Tree { source, target, summary, elapsed, channels, level, retries, dry_run, ok: exit == Exit::Done };
        self.moving.tell_tree(&tree)?;
        Ok(exit)
    }

    fn tree_options(&self, plan: &TreePlan) -> Result<TreeOptions, Failed> {
        let options = self.options;
        let filter = names::filter(plan).map_err(|failure| Failed::local(String::new(), failure))?;
        Ok(TreeOptions {
            durable: options.durability != WhenDone::Written,
            verify: verify_of(options.check),
            keep_existing: options.keep_existing,
            skip_same: options.resume,
            checksum: plan.checksum,
            dry_run: plan.dry_run,
            delete: plan.delete,
            keep: plan.keep,
            filter,
        })
    }

    /// Whether an upload's target is not there yet. Something that is no directory is in the way; so is a missing parent.
    fn look_up(&mut self, target: &Url) -> Result<bool, Failed> {
        match self.look(target)? {
            Some(file) if file.kind == RemoteKind::Directory => Ok(false),
            Some(_) => {
                let error = Error::new(ErrorKind::NotDirectory, "not a directory");
                Err(Failed::of_peer(&target.to_string(), error))
            }
            None => match target.parent() {
                Some(above) => match self.look(&above)? {
                    Some(file) if file.kind == RemoteKind::Directory => Ok(true),
                    _ => Err(not_found(&above)),
                },
                None => Ok(true),
            },
        }
    }

    /// What stands at a URL; none where nothing does.
    pub(super) fn look(&mut self, url: &Url) -> Result<Option<RemoteFile>, Failed> {
        let shown = url.to_string();
        let (session, new) = self.sessions.with(url).map_err(|failed| Failed::of_session(&shown, failed))?;
        if new {
            self.moving.greet(session, self.options);
        }
        match session.stat(wire_name(url)) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failed::of_peer(&shown, error)),
        }
    }
}

fn not_found(url: &Url) -> Failed {
    Failed::of_peer(&url.to_string(), Error::new(ErrorKind::NotFound, "no such directory"))
}

/// The directory that a person named.
fn directory(path: &Path) -> Result<LocalStore, Error> {
    let place = LocalPlace::of(path.as_os_str().as_bytes())?;
    match place.existing {
        Some(FileKind::Directory) => Ok(place.store),
        _ => Err(Error::new(ErrorKind::NotDirectory, format!("'{}' is not a directory", printable_path(path)))),
    }
}

/// The same; it is made where it is missing, which the second value tells.
fn made(path: &Path, dry_run: bool) -> Result<(LocalStore, bool), Error> {
    // A slash at the end says no more than that a directory is meant.
    let trimmed = trimmed(path);
    let place = LocalPlace::of(trimmed.as_os_str().as_bytes())?;
    match place.existing {
        Some(FileKind::Directory) => Ok((place.store, false)),
        Some(_) => Err(Error::new(ErrorKind::NotDirectory, format!("'{}' is not a directory", printable_path(path)))),
        None if dry_run => {
            let text = format!("'{}' does not exist: everything would be copied", printable_path(path));
            Err(Error::new(ErrorKind::NotFound, text))
        }
        None => {
            place.store.make_directory(&place.name, 0o777, false)?;
            Ok((LocalPlace::of(trimmed.as_os_str().as_bytes())?.store, true))
        }
    }
}

fn trimmed(path: &Path) -> PathBuf {
    // Components leave out slashes at the end, and nothing else that matters here.
    path.components().collect()
}
