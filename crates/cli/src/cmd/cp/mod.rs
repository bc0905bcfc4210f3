//! `xdfs cp`: pairs sources with targets and copies one file after the other, in one session for
//! each server.

mod dry_run;
mod ends;
mod failure;
mod ftp;
mod input;
mod into;
mod items;
mod keep;
mod local_directory;
mod monitor;
mod pipe;
mod retry;
mod tree;
mod unfinished;

use std::ffi::OsStr;
use std::io::ErrorKind::NotFound;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use xdfs_client::tree::Preserve;
use xdfs_client::wire::FileType;
use xdfs_client::{Error, ErrorKind, Existing, Facts, GetOptions, PutOptions, Verify};
use xdfs_io::store::{Base, LocalPlace, Stage};
use xdfs_server::users::StateFolder;

use self::dry_run::TargetRights;
use self::ends::{open_source, payload, source_of, target_of, written_place};
use self::failure::Failed;
use self::ftp::between::Arrived;
use self::items::{Download, Upload};
use self::local_directory::Above;
use self::monitor::{DownloadProgress, FileOutcome, TransferMonitor};
use self::unfinished::UnfinishedMark;
use super::connect::SessionRequest;
use super::ftp::FtpServers;
use super::pattern::expand_all;
use super::remote::{Sessions, check_congestion, wire_name};
use crate::bandwidth::{Bandwidth, Schedule};
use crate::exit::{Exit, Failure};
use crate::output::{self, CopyItem};
use crate::plan::{Check, Copies, CopyPlan, Format, Local, LocalTarget, LoginPlan, Options, TreePlan, WhenDone};
use crate::text::printable_path;
use crate::url::Url;
use crate::{descriptors, signal, state};

pub(super) use tree::sync;

/// Carries out a copy; files that fail are reported and do not stop the others.
pub(crate) fn run(plan: CopyPlan) -> Result<Exit, Failure> {
    plan.tree.iter().try_for_each(tree::names::must_have_lists)?;
    if matches!(plan.copies, Copies::Download { .. }) && !plan.options.dry_run {
        load_journal_key(&plan.login);
    }
    with_sessions(&plan.options, plan.format, &plan.login, |copy| {
        copy.ftp.removes_left = !matches!(plan.copies, Copies::Download { .. }) && !plan.options.dry_run;
        copy.keep = plan.tree.as_ref().map_or(Preserve::default(), |tree| tree.keep);
        let exits = match &plan.copies {
            Copies::Upload { sources, target } => copy.upload_all(sources, target, plan.tree.as_ref())?,
            Copies::Download { sources, target } => {
                let sources = expand_all(&mut copy.sessions, sources)?;
                copy.download_all(&sources, target, plan.tree.as_ref())?
            }
            Copies::Between { sources, target } => {
                let sources = expand_all(&mut copy.sessions, sources)?;
                copy.between_all(&sources, target, plan.tree.as_ref())?
            }
        };
        Ok(Exit::of_all(&exits))
    })
}

/// Loads the key of journals from the state folder, so that data that an earlier command downloaded
/// are trusted. Without a writable folder, data of an interrupted copy are compared with their
/// source.
fn load_journal_key(login: &LoginPlan) {
    let folder = state::own(login.state.as_deref()).ok();
    let key = folder.and_then(|folder| StateFolder::create(&folder).and_then(|state| state.journal_key()).ok());
    key.into_iter().for_each(xdfs_client::use_journal_key);
}

/// Runs an action with the requested sessions, and closes them in order.
fn with_sessions(
    options: &Options,
    format: Format,
    login: &LoginPlan,
    act: impl FnOnce(&mut Copy<'_>) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let stop = signal::stop_flag()?;
    let mut output = output::choose(format);
    let limit = descriptors::raise_limit();
    descriptors::must_do(limit, false)?;
    let (channels, note) = descriptors::channels_that_fit(options.channels, login.descriptors_for_channels(limit));
    note.iter().for_each(|note| output.note(note));
    options.congestion.as_deref().map_or(Ok(()), check_congestion)?;
    let bandwidth = options.bandwidth.clone().map(Schedule::start);
    let wishes = SessionRequest {
        channels,
        window: options.window,
        block: options.block,
        congestion: options.congestion.clone(),
        level: options.level,
        moves: true,
        limit: bandwidth.as_ref().map(Bandwidth::limit),
        retry: options.retry,
    };
    let mut copy = Copy {
        sessions: Sessions::new(wishes, login.clone()),
        ftp: FtpServers::new(login.clone(), options.level, Arc::clone(&stop)),
        options,
        login: login.clone(),
        monitor: TransferMonitor::new(output.as_mut(), stop),
        base: None,
        arrived: Arrived::default(),
        rights: TargetRights::NotAsked,
        keep: Preserve::default(),
        whole: Vec::new(),
    };
    let exit = act(&mut copy)?;
    let whole = std::mem::take(&mut copy.whole);
    copy.ftp.close(exit);
    match exit {
        Exit::Cancelled => copy.sessions.leave(),
        _ => copy.sessions.close(),
    }
    // Last of all: if this command is killed it is repeated, and the repetition must not copy into
    // a complete tree.
    whole.iter().for_each(UnfinishedMark::clear);
    output.ended();
    Ok(exit)
}

/// A copy in progress.
struct Copy<'a> {
    sessions: Sessions,
    ftp: FtpServers,
    options: &'a Options,
    login: LoginPlan,
    monitor: TransferMonitor<'a>,
    /// The version of the existing target of the present file when its first attempt began.
    base: Option<Vec<u8>>,
    /// What earlier attempts brought of the present file from one FTP server to another.
    arrived: Arrived,
    /// The rights in the export of the target, for a dry run.
    rights: TargetRights,
    /// What else is kept of files that are copied alone.
    keep: Preserve,
    /// The marks of complete trees; they are cleared after the sessions have ended.
    whole: Vec<UnfinishedMark>,
}

impl Copy<'_> {
    fn upload_all(&mut self, sources: &[Local], target: &Url, tree: Option<&TreePlan>) -> Result<Vec<Exit>, Failure> {
        if sources.len() > 1
            && let Err(failed) = self.must_receive_several(target, tree)
        {
            return Ok(vec![self.monitor.tell(Err(failed))?]);
        }
        let either = items::target_may_be_either(sources, target);
        let pairs = items::uploads(sources, target, false);
        let mut exits = Vec::with_capacity(pairs.len());
        for (index, (source, pair)) in sources.iter().zip(pairs).enumerate() {
            if self.monitor.stopped() {
                exits.push(Exit::Cancelled);
                break;
            }
            if let (Some(tree), Local::File(path)) = (tree, source)
                && path.is_dir()
            {
                exits.push(match pair {
                    Err(failure) if items::own_name(path).is_some() => {
                        self.monitor.tell(Err(Failed::local(source_of(source).to_string(), failure)))?
                    }
                    _ => self.directory_up(path, target, tree, sources.len() > 1)?,
                });
                continue;
            }
            let mut outcome = match pair {
                Ok(pair) => self.upload_with_patience(&pair, numbered(index, sources.len())),
                Err(failure) => Err(Failed::local(source_of(source).to_string(), failure)),
            };
            // The server reports that the target is a directory; then the file is copied into it,
            // as cp does.
            if either && outcome.as_ref().is_err_and(|failed| failed.kind == Some(ErrorKind::IsDirectory)) {
                let into = items::uploads(sources, target, true).pop();
                outcome = match into {
                    Some(Ok(pair)) => self.upload_with_patience(&pair, numbered(index, sources.len())),
                    Some(Err(failure)) => Err(Failed::local(source_of(source).to_string(), failure)),
                    None => outcome,
                };
            }
            let exit = self.monitor.tell(outcome)?;
            if matches!(source, Local::File(path) if path.is_file()) {
                self.monitor.tell_staged_there(target, exit);
            }
            exits.push(exit);
        }
        Ok(exits)
    }

    /// A directory becomes the target, or is copied into it if that exists, as cp does.
    fn directory_up(&mut self, path: &Path, target: &Url, tree: &TreePlan, several: bool) -> Result<Exit, Failure> {
        let mut known = None;
        if (!several || target.directory) && !target.path.is_root() {
            match self.receiver(target, tree) {
                Ok(found) => known = Some(found),
                Err(failed) => return self.monitor.tell(Err(failed)),
            }
        }
        let is_directory = |file: &Facts| file.kind == FileType::Directory;
        let mark = UnfinishedMark::up(&self.login, path, target);
        let above = match tree.dry_run && target.directory && known == Some(None) {
            true => Above::WouldBeMade,
            false => Above::Needed,
        };
        let there =
            above == Above::WouldBeMade || known.as_ref().is_none_or(|found| found.as_ref().is_some_and(is_directory));
        // An unfinished earlier attempt is resumed; a slash means "into" nevertheless.
        let named = known
            .iter()
            .flatten()
            .any(|found| tree.atomic && !tree.dry_run && self.named_before(path, target, found).is_some());
        let into = there && (several || target.directory || !(mark.stands() || named));
        // For 'x/.', '.', '..' and '/' the contents go into the target, as for a source without a
        // name of its own.
        let own = items::own_name(path);
        let Some(name) = own.filter(|_| into) else {
            let may_be_ours = known.as_ref().is_some_and(|found| found.as_ref().is_none_or(is_directory));
            let begun = may_be_ours && !tree.atomic && !tree.dry_run && own.is_some();
            let exit = self
                .under_mark(begun.then_some(&mark), &|copy| copy.tree_up(path, (target, above), known.clone(), tree))?;
            let failed = !matches!(exit, Exit::Done | Exit::Cancelled | Exit::ConnectionLost);
            // Complete, or nothing was begun: whatever is made there later belongs to another
            // process.
            if begun && (exit == Exit::Done || failed && matches!(self.look(target), Ok(None))) {
                self.whole.push(mark);
            }
            return Ok(exit);
        };
        let inside = target.join(name.as_bytes()).map_err(|error| {
            Failure::new(Exit::Usage, format!("{}: the server could not name it: {error}", printable_path(path)))
        })?;
        let known = (above == Above::WouldBeMade).then_some(None);
        self.tree_up(path, (&inside, above), known, tree)
    }

    /// Copies a tree to a new name, or resumes it there, while the mark exists.
    fn under_mark(
        &mut self,
        mark: Option<&UnfinishedMark>,
        copy: &dyn Fn(&mut Self) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        let unrecorded = mark.and_then(|mark| mark.set().err());
        let exit = copy(self)?;
        if let Some(reason) = unrecorded.filter(|_| exit != Exit::Done) {
            let text = "continue with 'xdfs sync': the same command would copy into the directory that is there now";
            self.monitor
                .output()
                .note(&format!("{text}, since it is not recorded that this copy is incomplete ({reason})"));
        }
        Ok(exit)
    }

    fn upload(&mut self, pair: &Upload, (number, count): (usize, usize)) -> Result<FileOutcome, Failed> {
        if pair.target.is_ftp() {
            return self.upload_ftp(pair, (number, count));
        }
        if let Some(outcome) = self.feed_pipe(pair, (number, count)) {
            return outcome;
        }
        let source = source_of(&pair.source);
        let here = |error: Error| Failed::of_local(source.shown(), error);
        // Before connecting: a missing source is reported without a server.
        let payload = payload(&pair.source, self.options, &|| self.monitor.stopped()).map_err(here)?;
        let item = CopyItem { source: source.clone(), target: (&pair.target).into(), number, count };
        let durable = self.options.durability != WhenDone::Written;
        let put = PutOptions {
            keep_existing: self.options.keep_existing,
            label: source.to_string().into_bytes(),
            mode: None,
            durable,
            resume: self.options.resume,
            verify: verify_of(self.options.check),
            base: self.base.clone(),
            holes: self.options.holes,
        };
        let (session, new) =
            self.sessions.with(&pair.target).map_err(|failed| Failed::of_session(item.target.shown(), failed))?;
        if new {
            self.monitor.report_grant(session, self.options);
        }
        let size = payload.length();
        let started = session.put(payload, wire_name(&pair.target), &put);
        let (moving, base, options) = (&mut self.monitor, &mut self.base, self.options);
        let moved = started.and_then(|transfer| {
            let moved = moving.watch(&item, session, &transfer, &|| size, options);
            *base = base.take().or_else(|| transfer.replaces());
            moved
        });
        moved.or_else(|error| {
            if error.kind == ErrorKind::ConnectionLost {
                self.sessions.forget(&pair.target);
            }
            if self.options.keep_existing && is_there(error.kind) {
                return Ok(FileOutcome::Skipped(item.clone()));
            }
            Err(Failed::of_upload(&item, error))
        })
    }

    fn download_all(
        &mut self,
        sources: &[Url],
        target: &LocalTarget,
        tree: Option<&TreePlan>,
    ) -> Result<Vec<Exit>, Failure> {
        let into_directory = into::receives(target, tree)?;
        if let (LocalTarget::Path(path), false, true) = (target, into_directory, sources.len() > 1) {
            return Err(failure::not_for_several_here(path));
        }
        if sources.len() > 1 && *target == LocalTarget::Stdout {
            let text = "-: several sources fit\nhelp: 'xdfs cat' writes one behind the other";
            return Err(Failure::new(Exit::Usage, text));
        }
        if !self.options.dry_run {
            self.clean_up(target, into_directory)?;
        }
        let pairs = items::downloads(sources, target, into_directory);
        let mut exits = Vec::with_capacity(pairs.len());
        for (index, (source, pair)) in sources.iter().zip(pairs).enumerate() {
            if self.monitor.stopped() {
                exits.push(Exit::Cancelled);
                break;
            }
            if let (Some(tree), LocalTarget::Path(path)) = (tree, target) {
                match self.look(source) {
                    Ok(Some(file)) if file.kind == FileType::Directory => {
                        let mark = UnfinishedMark::down(&self.login, source, path);
                        let into = into_directory && (sources.len() > 1 || into::ends_in_slash(path) || !mark.stands());
                        let own = source.name().filter(|_| !source.contents);
                        if let (Some(_), Err(failure)) = (own, &pair) {
                            let failed = Failed::local(source.to_string(), failure.clone());
                            exits.push(self.monitor.tell(Err(failed))?);
                            continue;
                        }
                        let into = own.filter(|_| into);
                        let begun = into.is_none() && !tree.atomic && !tree.dry_run && own.is_some();
                        let above = if into.is_some() { into::above_in(path, tree) } else { Above::Needed };
                        let path = into.map_or_else(|| path.clone(), |name| path.join(OsStr::from_bytes(name)));
                        let exit = self
                            .under_mark(begun.then_some(&mark), &|copy| copy.tree_down(source, (&path, above), tree));
                        // Complete, or nothing was begun: whatever is made there later belongs to
                        // another process.
                        let is_missing = || path.symlink_metadata().is_err_and(|error| error.kind() == NotFound);
                        if begun && (matches!(exit, Ok(Exit::Done)) || is_missing()) {
                            self.whole.push(mark);
                        }
                        exits.push(exit?);
                        continue;
                    }
                    Ok(_) => {}
                    Err(failed) => {
                        exits.push(self.monitor.tell(Err(failed))?);
                        continue;
                    }
                }
            }
            let outcome = match pair {
                Ok(pair) => self.download_with_patience(&pair, numbered(index, sources.len())),
                Err(failure) => Err(Failed::local(source.to_string(), failure)),
            };
            let outcome = outcome.map_err(|failed| self.with_meant(failed, source));
            let exit = self.monitor.tell(outcome)?;
            if let (Exit::Cancelled, LocalTarget::Path(path)) = (exit, target) {
                self.monitor.tell_staged(if into_directory { Some(path) } else { path.parent() });
            }
            exits.push(exit);
        }
        Ok(exits)
    }

    fn download(&mut self, pair: &Download, (number, count): (usize, usize)) -> Result<FileOutcome, Failed> {
        if pair.source.is_ftp() {
            return self.download_ftp(pair, (number, count));
        }
        let target_name = target_of(&pair.target);
        let item = CopyItem { source: (&pair.source).into(), target: target_name.clone(), number, count };
        let place = match &pair.target {
            LocalTarget::Path(path) => {
                Some(written_place(path).map_err(|error| Failed::of_local(target_name.shown(), error))?)
            }
            LocalTarget::Stdout | LocalTarget::Null => None,
        };
        if self.options.keep_existing && place.as_ref().is_some_and(|place| place.existing.is_some()) {
            return Ok(FileOutcome::Skipped(item));
        }
        let existing = if self.options.keep_existing { Existing::Keep } else { Existing::Replace };
        // A later attempt replaces what the first one found, and nothing newer.
        let first = self.base.is_none();
        self.base = self.base.take().or_else(|| place.as_ref().and_then(LocalPlace::version));
        let base = self.base.clone().filter(|_| !first).map(|version| Base { version, modified: None });
        let (progress, holes) = (Arc::new(DownloadProgress::default()), self.options.holes);
        let to_output = pair.target == LocalTarget::Stdout;
        let target = || {
            let (looked, place, base) = (place.clone(), place.clone(), base.clone());
            progress.target(
                move |transfer| looked.and_then(|place| place.kept(transfer)),
                move |asked| match place {
                    Some(place) => place.stage(asked.size, existing, asked.transfer, asked.resume, base, holes),
                    None if to_output => Stage::standard_output(),
                    None => Ok(Stage::null()),
                },
            )
        };
        let durable = self.options.durability != WhenDone::Written;
        let get = GetOptions {
            offset: self.options.offset,
            length: self.options.length,
            label: target_name.to_string().into_bytes(),
            durable,
            resume: self.options.resume,
            verify: verify_of(self.options.check),
            owner_follows: self.keep.owner_follows() && matches!(pair.target, LocalTarget::Path(_)),
        };
        let (session, new, started) = self
            .sessions
            .get(&pair.source, &target, &get)
            .map_err(|failed| Failed::of_session(item.source.shown(), failed))?;
        if new {
            self.monitor.report_grant(session, self.options);
        }
        let size = || progress.size();
        let moved = started.and_then(|transfer| self.monitor.watch(&item, session, &transfer, &size, self.options));
        let special = to_output && moved.as_ref().is_err_and(|error| error.kind == ErrorKind::NotRegular);
        if let Some(outcome) = special.then(|| self.drain_pipe(&pair.source, &item)).flatten() {
            return outcome;
        }
        moved.or_else(|error| {
            if error.kind == ErrorKind::ConnectionLost {
                self.sessions.forget(&pair.source);
            }
            if self.options.keep_existing && is_there(error.kind) {
                return Ok(FileOutcome::Skipped(item.clone()));
            }
            if to_output && progress.began() && output::reader_is_gone() {
                return Ok(FileOutcome::NotWanted);
            }
            Err(Failed::of_download(&item, error, progress.began()))
        })
    }
}

/// Whether the target's name is taken, either from the start or since an earlier attempt.
fn is_there(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::AlreadyExists | ErrorKind::TargetChanged)
}

/// What a session is asked to verify; tags are always verified.
const fn verify_of(check: Check) -> Verify {
    match check {
        Check::None | Check::Wire => Verify::None,
        Check::Hash => Verify::Hash,
        Check::Reread => Verify::Reread,
    }
}

fn numbered(index: usize, count: usize) -> (usize, usize) {
    (index + 1, count)
}
