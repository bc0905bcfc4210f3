//! Between an FTP server and an xdfs server, through this machine: the bytes pass a pipe, and nothing
//! is stored here.
//!
//! A thread serves the FTP server, and the session of xdfs does its part as for standard input and
//! output. Neither target gets its name before both ends have agreed that everything arrived.

use std::collections::HashSet;
use std::io::{self, ErrorKind::UnexpectedEof, PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use xdfs_client::wire::{FileType, NewTime, Wanted};
use xdfs_client::{Error, ErrorKind, GetOptions, Payload, PutOptions, Report, Target, Transfer};
use xdfs_gridftp::client;
use xdfs_gridftp::listing::Kind;
use xdfs_gridftp::ranges::Range;
use xdfs_io::store::stream::{StreamSource, StreamStage};
use xdfs_io::store::{Source, Stage};
use xdfs_secure::checksum::Sha256;
use xdfs_secure::naming::transfer_id;

use super::super::failure::Failed;
use super::super::monitor::{FileOutcome, LOOK_EVERY, TransferMonitor, done};
use super::super::{Copy, items, numbered, verify_of, wire_name};
use super::download::Source as FtpSource;
use super::is_usable_after;
use super::upload::Target as FtpTarget;
use crate::cmd::ftp::facts::facts_of;
use crate::cmd::ftp::part::part_name;
use crate::cmd::ftp::{FtpServer, error_of, is_refused_name};
use crate::exit::{Exit, Failure};
use crate::output::{CopiedFile, CopyItem};
use crate::plan::{Check, TreePlan, WhenDone};
use crate::url::Url;

/// Time for a cancelled transfer to end.
const CANCEL_WAIT: Duration = Duration::from_secs(5);

impl Copy<'_> {
    /// Copies files between servers, one of which at least is an FTP server.
    pub(in crate::cmd::cp) fn between_all(
        &mut self,
        sources: &[Url],
        target: &Url,
        tree: Option<&TreePlan>,
    ) -> Result<Vec<Exit>, Failure> {
        let mut into = sources.len() > 1 || target.directory || target.path.is_root();
        if !into {
            match self.look(target) {
                Ok(found) => into = found.is_some_and(|found| found.kind == FileType::Directory),
                Err(failed) => return Ok(vec![self.monitor.tell(Err(failed))?]),
            }
        }
        let (mut taken, mut exits) = (HashSet::new(), Vec::new());
        for (index, source) in sources.iter().enumerate() {
            if self.monitor.stopped() {
                exits.push(Exit::Cancelled);
                break;
            }
            if let Some(tree) = tree
                && let Some(exit) = self.directory_between_servers(source, target, into, tree)?
            {
                exits.push(exit);
                continue;
            }
            let target = if into { items::url_into(source, target, &mut taken) } else { Ok(target.clone()) };
            let outcome = match target {
                Err(failure) => Err(Failed::local(source.to_string(), failure)),
                Ok(target) => self.copy_between((source, &target), numbered(index, sources.len())),
            };
            exits.push(self.monitor.tell(outcome)?);
        }
        Ok(exits)
    }

    /// Copies a directory to the target, or into it; `None` for what is none.
    fn directory_between_servers(
        &mut self,
        source: &Url,
        target: &Url,
        into: bool,
        plan: &TreePlan,
    ) -> Result<Option<Exit>, Failure> {
        match self.look(source) {
            Ok(Some(found)) if found.kind == FileType::Directory => {}
            Ok(_) => return Ok(None),
            Err(failed) => return self.monitor.tell(Err(failed)).map(Some),
        }
        let name = source.name().filter(|_| into && !source.contents);
        let inside = name.map(|name| target.join(name)).transpose();
        let inside = inside.map_err(|error| Failure::new(Exit::Usage, format!("{source}: {error}")))?;
        self.tree_between(source, inside.as_ref().unwrap_or(target), plan).map(Some)
    }

    pub(super) fn relay_from_ftp(
        &mut self,
        from: &Url,
        to: &Url,
        (number, count): (usize, usize),
    ) -> Result<FileOutcome, Failed> {
        let item = CopyItem { source: from.into(), target: to.into(), number, count };
        let source = self.source_ftp(from)?;
        let facts = facts_of(&source.entry);
        let put = PutOptions {
            keep_existing: self.options.keep_existing,
            label: from.to_string().into_bytes(),
            mode: facts.mode.map(|mode| mode & 0o777),
            durable: self.options.durability != WhenDone::Written,
            resume: false,
            verify: verify_of(self.options.check),
            base: None,
            holes: false,
        };
        let (copied, is_verified) = match self.fetch_into(&item, &source, to, &put) {
            Err(failed) if self.options.keep_existing && failed.kind == Some(ErrorKind::AlreadyExists) => {
                return Ok(FileOutcome::Skipped(item));
            }
            copied => copied?,
        };
        if let Some(time) = facts.modified {
            let (session, _) =
                self.sessions.with(to).map_err(|failed| Failed::of_session(item.target.shown(), failed))?;
            if session.set_times(wire_name(to), Some(NewTime::At(time)), None).is_err() {
                self.monitor.output().note(&format!("{to}: its time could not be set"));
            }
        }
        let copied = self.weakened(copied, from, is_verified)?;
        Ok(FileOutcome::Copied(item, copied))
    }

    /// Moves a file of an FTP server into an upload. Returns also whether the server proved it.
    fn fetch_into(
        &mut self,
        item: &CopyItem,
        source: &FtpSource<'_>,
        to: &Url,
        put: &PutOptions,
    ) -> Result<(CopiedFile, bool), Failed> {
        let (reader, writer) = pipe(item)?;
        let (session, new) =
            self.sessions.with(to).map_err(|failed| Failed::of_session(item.target.shown(), failed))?;
        if new {
            self.monitor.report_grant(session, self.options);
        }
        let server = self.ftp.with(source.url).map_err(|failed| Failed::of_session(item.source.shown(), failed))?;
        let stream = Source::new(StreamSource::new(reader.into(), item.source.shown()));
        let payload = Payload::source(stream, 0, Some(source.size));
        let transfer = payload.and_then(|payload| session.put(payload, wire_name(to), put));
        let transfer = transfer.map_err(|error| Failed::of_upload(item, error))?;
        let (asked, has_failed) = (is_asked(self.options.check), AtomicBool::new(false));
        let (moved, fetched) = std::thread::scope(|scope| {
            let fetching = scope.spawn(|| {
                let mut writer = writer;
                let fetched = fetch(server, source, asked, &mut writer);
                has_failed.store(fetched.is_err(), Ordering::Release);
                // The end of the pipe would be taken for that of the file.
                fetched.map_err(|error| (error, writer))
            });
            let moved = watch(&mut self.monitor, item, &transfer, source.size, &has_failed);
            (moved, fetching.join())
        });
        match (moved, fetched) {
            (Ok(report), Ok(Ok(is_verified))) => Ok((done(&report, session, self.options), is_verified)),
            (_, Ok(Err((Trouble::Server(error), _)))) => {
                self.ftp.forget(source.url);
                Err(Failed::of_peer(item.source.shown(), error))
            }
            // It failed because nobody took the bytes.
            (Err(error), _) => {
                self.ftp.forget(source.url);
                if error.kind == ErrorKind::ConnectionLost {
                    self.sessions.forget(to);
                }
                Err(Failed::of_upload(item, error))
            }
            (Ok(_), _) => Err(Failed::of_local(item.source.shown(), ended_early())),
        }
    }

    pub(super) fn relay_to_ftp(
        &mut self,
        from: &Url,
        to: &Url,
        (number, count): (usize, usize),
    ) -> Result<FileOutcome, Failed> {
        let item = CopyItem { source: from.into(), target: to.into(), number, count };
        let told = |error: Error| Failed::of_peer(&from.to_string(), error);
        let wanted = Wanted::SIZE.and(Wanted::MODIFIED);
        let file = self.session_of(from)?.look(wire_name(from), wanted).map_err(told)?;
        if file.kind == FileType::Directory {
            return Err(told(Error::new(ErrorKind::IsDirectory, "is a directory")));
        }
        let size = file.size.filter(|_| file.kind == FileType::Regular);
        let size = size.ok_or_else(|| told(Error::new(ErrorKind::NotRegular, "not a regular file")))?;
        let Some(target) = self.target_ftp(from, to)? else { return Ok(FileOutcome::Skipped(item)) };
        let sent = self.send_from(&item, from, &target, size).and_then(|(copied, sum)| {
            let asked = is_asked(self.options.check);
            let check = self.verify_upload(&target, size, asked.then_some(sum)).map_err(Unsent::Refused)?;
            self.name_upload(file.modified, &target).map_err(Unsent::Refused)?;
            Ok((copied, check))
        });
        if let Err(Unsent::Refused((_, false))) = &sent {
            self.remove_part(&target);
        }
        match sent {
            Ok((copied, check)) => {
                let copied = self.weakened(copied, to, check == Check::Hash)?;
                Ok(FileOutcome::Copied(item, copied))
            }
            Err(Unsent::Failed(failed)) => Err(failed),
            // The same under its name, as for uploads from here.
            Err(Unsent::Refused((error, false))) if target.staged.is_some() && is_refused_name(&error) => {
                self.note_in_place(to)?;
                self.relay_to_ftp(from, to, (number, count))
            }
            Err(Unsent::Refused((error, is_lost))) => {
                if is_lost {
                    self.ftp.forget(to);
                }
                Err(Failed::of_upload(&item, error))
            }
        }
    }

    /// Moves a download into a file of an FTP server. Returns also the SHA-256 of what was sent.
    fn send_from(
        &mut self,
        item: &CopyItem,
        from: &Url,
        target: &FtpTarget<'_>,
        size: u64,
    ) -> Result<(CopiedFile, String), Unsent> {
        let (reader, writer) = pipe(item).map_err(Unsent::Failed)?;
        let of_session = |shown: &str, failed| Unsent::Failed(Failed::of_session(shown, failed));
        let (session, new) = self.sessions.with(from).map_err(|failed| of_session(item.source.shown(), failed))?;
        if new {
            self.monitor.report_grant(session, self.options);
        }
        let server = self.ftp.with(target.url).map_err(|failed| of_session(item.target.shown(), failed))?;
        let get = GetOptions {
            offset: 0,
            length: None,
            label: item.target.to_string().into_bytes(),
            durable: false,
            resume: false,
            verify: verify_of(self.options.check),
            owner_follows: false,
        };
        let shown = item.target.shown().to_owned();
        let stage = Target::stage(move |_, _| Ok(Stage::new(StreamStage::new(writer.into(), shown))));
        let transfer = session.get(wire_name(from), stage, &get);
        let transfer = transfer.map_err(|error| Unsent::Failed(Failed::of_download(item, error, false)))?;
        let has_failed = AtomicBool::new(false);
        let (moved, sent) = std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let sent = send(server, target, size, reader);
                has_failed.store(sent.is_err(), Ordering::Release);
                sent
            });
            let moved = watch(&mut self.monitor, item, &transfer, size, &has_failed);
            (moved, sending.join())
        });
        match (moved, sent) {
            (Ok(report), Ok(Ok(sum))) => Ok((done(&report, session, self.options), sum)),
            (_, Ok(Err(Trouble::Refused(error)))) => Err(Unsent::Refused((error, false))),
            (_, Ok(Err(Trouble::Server(error)))) => Err(Unsent::Refused((error, true))),
            // It failed because nothing more came.
            (Err(error), _) => {
                self.ftp.forget(target.url);
                if error.kind == ErrorKind::ConnectionLost {
                    self.sessions.forget(from);
                }
                Err(Unsent::Failed(Failed::of_download(item, error, false)))
            }
            (Ok(_), _) => Err(Unsent::Failed(Failed::of_local(item.source.shown(), ended_early()))),
        }
    }

    /// Where a file goes on an FTP server; `None` if there is one that is kept.
    pub(super) fn target_ftp<'u>(&mut self, from: &Url, to: &'u Url) -> Result<Option<FtpTarget<'u>>, Failed> {
        let shown = to.to_string();
        let server = self.ftp.with(to).map_err(|failed| Failed::of_session(&shown, failed))?;
        let path = server.path(to);
        let is_in_place = server.in_place;
        let found = server.session.look(&path);
        match found.map_err(|error| self.failed_upload(to, error))? {
            Some(entry) if entry.kind == Kind::Directory => {
                Err(Failed::of_peer(&shown, Error::new(ErrorKind::IsDirectory, "is a directory")))
            }
            Some(_) if self.options.keep_existing => Ok(None),
            _ if is_in_place => Ok(Some(FtpTarget { url: to, path, staged: None, stale: None })),
            _ => {
                // The same in all attempts of this command: what one of them left is written over.
                let own = self.ftp.own_id().map_err(|error| Failed::of_local(&from.to_string(), error))?;
                let staged = part_name(&path, transfer_id(&[b"ftp", &path, from.to_string().as_bytes(), &own]));
                self.ftp.begin_part(to, &staged);
                Ok(Some(FtpTarget { url: to, path, staged: Some(staged), stale: None }))
            }
        }
    }

    /// As little is protected and verified as on the weaker part of the way.
    fn weakened(&mut self, copied: CopiedFile, ftp: &Url, is_verified: bool) -> Result<CopiedFile, Failed> {
        let check = if is_verified { copied.check } else { Check::None };
        if !is_verified && is_asked(self.options.check) {
            self.note_unverified(ftp)?;
        }
        Ok(CopiedFile { level: copied.level.min(self.ftp.level(ftp)), check, ..copied })
    }
}

/// Why an FTP server did not get a file.
enum Unsent {
    /// It is reported.
    Failed(Failed),
    /// The server refused; and whether its session is of no more use.
    Refused((Error, bool)),
}

/// Why the thread of the FTP server ended early.
pub(super) enum Trouble {
    /// The server is at fault; its session is of no more use.
    Server(Error),
    /// The server refused; its session goes on.
    Refused(Error),
    /// The other end of the pipe is.
    Pipe,
}

impl From<client::Error> for Trouble {
    fn from(error: client::Error) -> Self {
        match error {
            client::Error::Local(_) => Self::Pipe,
            error if is_usable_after(&error) => Self::Refused(error_of(error)),
            error => Self::Server(error_of(error)),
        }
    }
}

pub(super) fn is_asked(check: Check) -> bool {
    matches!(check, Check::Hash | Check::Reread)
}

pub(super) fn ended_early() -> Error {
    Error::new(ErrorKind::Resources, "the copy between the servers ended early")
}

/// Brings a file into a pipe; true if the server proved its content. The last bytes go when everything
/// was compared: without them the other end gives the file no name.
pub(super) fn fetch(
    server: &mut FtpServer,
    source: &FtpSource<'_>,
    verify: bool,
    pipe: &mut PipeWriter,
) -> Result<bool, Trouble> {
    let (mut held, mut sum) = (Vec::new(), Sha256::default());
    let whole = Range { start: 0, end: source.size };
    let fetched = server.session.client().download(&source.path, whole, &mut |_, bytes| {
        pipe.write_all(&held)?;
        held.clear();
        held.extend_from_slice(bytes);
        sum.update(bytes);
        Ok(())
    });
    // A refusal of a source is no less an end of this copy than a loss.
    let server_s = |error: client::Error| match Trouble::from(error) {
        Trouble::Refused(error) => Trouble::Server(error),
        trouble => trouble,
    };
    fetched.map_err(server_s)?;
    let told = if verify { server.session.sha256(&source.path).map_err(server_s)? } else { None };
    let own = sum.finish();
    if let Some(told) = told.as_ref().filter(|told| **told != own) {
        let text = format!("what arrived has the SHA-256 {own}, the server's file {told}");
        return Err(Trouble::Server(Error::new(ErrorKind::Corrupted, text)));
    }
    pipe.write_all(&held).map_err(|_| Trouble::Pipe)?;
    Ok(told.is_some())
}

/// Sends what comes out of a pipe, which must be `size` bytes. Returns their SHA-256.
fn send(server: &mut FtpServer, target: &FtpTarget<'_>, size: u64, mut pipe: PipeReader) -> Result<String, Trouble> {
    let mut sum = Sha256::default();
    server.session.client().upload(target.written(), 0, &mut |at, into| {
        let most = usize::try_from(size - at).unwrap_or(usize::MAX).min(into.len());
        let read = pipe.read(&mut into[..most])?;
        sum.update(&into[..read]);
        if read == 0 && most > 0 { Err(UnexpectedEof.into()) } else { Ok(read) }
    })?;
    Ok(sum.finish())
}

/// Waits for the end of a transfer, and ends it when it is to stop or the other side has failed.
fn watch(
    monitor: &mut TransferMonitor<'_>,
    item: &CopyItem,
    transfer: &Transfer,
    size: u64,
    has_failed: &AtomicBool,
) -> Result<Report, Error> {
    monitor.output().begin(item);
    loop {
        if let Some(outcome) = transfer.wait_for(LOOK_EVERY) {
            return outcome;
        }
        monitor.reach(transfer.moved());
        if monitor.stopped() || has_failed.load(Ordering::Acquire) {
            transfer.cancel();
            let cancelled = || Err(Error::new(ErrorKind::Cancelled, "cancelled"));
            return transfer.wait_for(CANCEL_WAIT).unwrap_or_else(cancelled);
        }
        monitor.output().progress(transfer.moved(), Some(size));
    }
}

pub(super) fn pipe(item: &CopyItem) -> Result<(PipeReader, PipeWriter), Failed> {
    io::pipe().map_err(|error| {
        Failed::of_local(item.source.shown(), Error::new(ErrorKind::Resources, format!("no pipe: {error}")))
    })
}
