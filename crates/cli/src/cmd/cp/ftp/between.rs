//! Files from one FTP server to another: directly between two GridFTP servers, otherwise through this machine.
//!
//! Directly, the bytes pass from server to server and only the control channels are here. Through this machine they pass
//! a pipe, and nothing is stored. In both cases the target gets its name when the file was compared.

use std::io::{ErrorKind::UnexpectedEof, Read};
use std::time::{Duration, Instant};
use xdfs_proto::base::Timestamp;

use xdfs_client::{Error, ErrorKind};
use xdfs_gridftp::client;
use xdfs_gridftp::client::direct::{self, Direct, DirectError};
use xdfs_gridftp::mode_e::STREAMS_MAX;
use xdfs_gridftp::ranges::Ranges;
use xdfs_secure::checksum::Sha256;
use xdfs_secure::naming::transfer_id;

use super::super::Copy;
use super::super::failure::Failed;
use super::super::monitor::FileOutcome;
use super::download::Source;
use super::relay::{Trouble, ended_early, fetch, is_asked, pipe};
use super::upload::Target;
use super::{LARGE_BYTES_MIN, OwnError, Progress, UNVERIFIED, copied, is_usable_after};
use crate::cmd::ftp::facts::seconds_of;
use crate::cmd::ftp::part::part_name;
use crate::cmd::ftp::{FtpServer, error_of, is_refused_name};
use crate::output::{CopiedFile, CopyItem};
use crate::plan::Check;
use crate::url::{Ftp, Url, Via};

/// What an attempt of this command left at the target, and of which source.
#[derive(Debug, Default)]
pub(in crate::cmd::cp) struct Arrived {
    of: Option<(u64, Option<[u8; 14]>)>,
    ranges: Ranges,
    /// How often the target was lost in the middle: what it had for the file may still write to it.
    lost: u64,
}

impl Arrived {
    /// The target was lost: what it has is not continued, nor written over.
    fn lose(&mut self) {
        *self = Self { lost: self.lost + 1, ..Self::default() };
    }

    /// A transfer into the target ended in the middle: what is at the start of the file moves again.
    fn distrust_start(&mut self) {
        self.ranges.remove_before(DISTRUSTED_BYTES);
    }
}

/// So much of the start of a file moves again after a transfer that ended in the middle: globus-gridftp-server writes the
/// part of a block that had arrived when its data connection ended to the start of the file, and not to where it belongs.
/// A block of such a server has 256 KiB, or what its administrator chose.
const DISTRUSTED_BYTES: u64 = 4 << 20;

/// How long a target may take to say that a transfer has ended whose source was lost.
const SETTLE: Duration = Duration::from_secs(10);

/// Why a file did not get there.
enum Unmoved {
    /// It is reported.
    Failed(Failed),
    /// The target refused, and its session goes on.
    Refused(Error),
}

impl From<Failed> for Unmoved {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

impl Copy<'_> {
    /// Copies a file between two FTP servers.
    pub(in crate::cmd::cp) fn between_ftp(
        &mut self,
        from: &Url,
        to: &Url,
        (number, count): (usize, usize),
    ) -> Result<FileOutcome, Failed> {
        let item = CopyItem { source: from.into(), target: to.into(), number, count };
        let source = self.source_ftp(from)?;
        let Some(target) = self.target_ftp(from, to)? else { return Ok(FileOutcome::Skipped(item)) };
        let mut target = self.renewed(from, target);
        if self.ftp.is_same(from, to) && source.path == target.path {
            let error = Error::new(ErrorKind::InvalidPath, "source and target are the same file");
            return Err(Failed::of_peer(&to.to_string(), error));
        }
        let moved = self.move_between(&item, &source, &mut target).and_then(|copied| {
            let modified = source.entry.modified.and_then(seconds_of).map(|seconds| Timestamp::new(seconds, 0));
            self.name_upload(modified, &target).map_err(|lost| self.unmoved(&item, to, lost))?;
            self.remove_stale(&target);
            Ok(copied)
        });
        match moved {
            Ok(copied) => Ok(FileOutcome::Copied(item, copied)),
            Err(Unmoved::Failed(failed)) => Err(failed),
            // The same under its name, as for uploads from here.
            Err(Unmoved::Refused(error)) if target.staged.is_some() && is_refused_name(&error) => {
                self.note_in_place(to)?;
                self.between_ftp(from, to, (number, count))
            }
            Err(Unmoved::Refused(error)) => Err(Failed::of_upload(&item, error)),
        }
    }

    /// A target under a name of its own if what wrote under the last one may still do so.
    fn renewed<'u>(&mut self, from: &Url, target: Target<'u>) -> Target<'u> {
        let lost = self.arrived.lost;
        let Some(own) = self.ftp.own_id().ok().filter(|_| lost > 0 && target.staged.is_some()) else { return target };
        let from = from.to_string();
        let name = |lost: u64| {
            let id = transfer_id(&[b"ftp again", &target.path, from.as_bytes(), &lost.to_be_bytes(), &own]);
            part_name(&target.path, id)
        };
        let stale = if lost == 1 { target.staged.clone() } else { Some(name(lost - 1)) };
        self.ftp.begin_part(target.url, &name(lost));
        Target { staged: Some(name(lost)), stale, ..target }
    }

    fn unmoved(&mut self, item: &CopyItem, url: &Url, (error, is_lost): (Error, bool)) -> Unmoved {
        if !is_lost {
            return Unmoved::Refused(error);
        }
        self.ftp.forget(url);
        Unmoved::Failed(Failed::of_upload(item, error))
    }

    /// Moves the bytes: directly where the servers can, otherwise through this machine, which is said once.
    fn move_between<'u>(
        &mut self,
        item: &CopyItem,
        from: &Source<'_>,
        to: &mut Target<'u>,
    ) -> Result<CopiedFile, Unmoved> {
        let of_session = |shown: &str, failed| Unmoved::Failed(Failed::of_session(shown, failed));
        let mut server = self.ftp.take(from.url).map_err(|failed| of_session(item.source.shown(), failed))?;
        let why = match self.ftp.why_apart(from.url, to.url) {
            Some(_) => None,
            None => match self.move_directly(item, (&mut server, from), to) {
                Ok(Ok(copied)) => {
                    self.ftp.give_back(server);
                    return Ok(copied);
                }
                Ok(Err(why)) => Some(why),
                Err(unmoved) => return Err(unmoved),
            },
        };
        if let Some(why) = why {
            let text = format!("{} to {}: the bytes go through this machine: {why}", from.url.host, to.url.host);
            self.monitor.output().note(&text);
            self.ftp.keep_apart(from.url, to.url, why);
        }
        *to = self.renewed(from.url, to.clone());
        if !server.session.client().is_ready() {
            server = self.ftp.take(from.url).map_err(|failed| of_session(item.source.shown(), failed))?;
        }
        let copied = self.move_through_here(item, (&mut server, from), to)?;
        self.ftp.give_back(server);
        Ok(copied)
    }

    /// Moves the bytes from server to server; the inner error says why that is not possible.
    fn move_directly(
        &mut self,
        item: &CopyItem,
        (server, from): (&mut FtpServer, &Source<'_>),
        to: &Target<'_>,
    ) -> Result<Result<CopiedFile, String>, Unmoved> {
        let began = Instant::now();
        let target = self.ftp.with(to.url);
        let target = target.map_err(|failed| Unmoved::Failed(Failed::of_session(item.target.shown(), failed)))?;
        if let Some(why) = why_through_here((from.url, server), (to.url, target)) {
            return Ok(Err(why));
        }
        let version = Some((from.size, from.entry.modified));
        let has_time = from.entry.modified.is_some();
        let arrived = &mut self.arrived;
        if arrived.of != version || !has_time || !self.options.resume || !is_whole_part(target, to, &arrived.ranges) {
            *arrived = Arrived { of: version, lost: arrived.lost, ranges: Ranges::default() };
        }
        let start = arrived.ranges.total();
        if start > 0 {
            let percent = u128::from(start) * 100 / u128::from(from.size.max(1));
            self.monitor.output().note(&format!("{}: resumes at {percent} %", item.target));
        }
        let streams = if from.size >= LARGE_BYTES_MIN { self.options.channels.clamp(1, STREAMS_MAX) } else { 1 };
        let what = Direct { from: &from.path, to: to.written(), length: from.size, streams };
        let mut own = OwnError::default();
        let mut progress = Progress::new(&mut self.monitor, item, Some(from.size), start);
        let ranges = &mut self.arrived.ranges;
        let moved = direct::copy(server.session.client(), target.session.client(), &what, ranges, &mut |reached| {
            own.keep(progress.reach(reached))
        });
        let is_target_ready = target.session.client().is_ready();
        match moved {
            Ok(()) => {
                let check = match self.compare_ends(item, (server, from), to) {
                    Err(Unmoved::Refused(error)) if start > 0 && error.kind == ErrorKind::Corrupted => {
                        self.monitor
                            .output()
                            .note(&format!("{}: what was there is wrong; beginning again", item.target));
                        return self.move_directly(item, (server, from), to);
                    }
                    compared => compared?,
                };
                let level = self.ftp.level(from.url).min(self.ftp.level(to.url));
                Ok(Ok(copied(level, from.size, start, streams, check, began.elapsed())))
            }
            Err(DirectError::Apart(why)) => {
                if !is_target_ready {
                    self.ftp.forget(to.url);
                    self.arrived.lose();
                }
                Ok(Err(why))
            }
            Err(error) => Err(self.of_direct(item, to, error, own)),
        }
    }

    /// A transfer that failed. The source's session is given up; that of the target goes on if it has ended the
    /// transfer, too.
    fn of_direct(&mut self, item: &CopyItem, to: &Target<'_>, error: DirectError, own: OwnError) -> Unmoved {
        let is_of_source = matches!(error, DirectError::Source(_));
        let is_ended = self.ftp.with(to.url).is_ok_and(|target| {
            let client = target.session.client();
            client.is_ready() || is_of_source && client.settle(SETTLE).is_ok()
        });
        if is_ended {
            self.arrived.distrust_start();
        } else {
            self.ftp.forget(to.url);
            self.arrived.lose();
        }
        match error {
            DirectError::Target(error) if is_usable_after(&error) && self.arrived.ranges.total() == 0 => {
                Unmoved::Refused(error_of(error))
            }
            DirectError::Target(error) => Failed::of_upload(item, error_of(error)).into(),
            DirectError::Source(error) => Failed::of_peer(item.source.shown(), error_of(error)).into(),
            DirectError::Apart(why) => {
                Failed::of_peer(item.target.shown(), Error::new(ErrorKind::ConnectionLost, why)).into()
            }
            DirectError::Watch(error) => {
                let error = own.of(client::Error::Local(error));
                Failed::of_upload(item, error).into()
            }
        }
    }

    /// Moves the bytes through a pipe of this machine.
    fn move_through_here(
        &mut self,
        item: &CopyItem,
        (server, from): (&mut FtpServer, &Source<'_>),
        to: &Target<'_>,
    ) -> Result<CopiedFile, Unmoved> {
        let began = Instant::now();
        let (mut reader, writer) = pipe(item)?;
        let target = self.ftp.with(to.url);
        let target = target.map_err(|failed| Unmoved::Failed(Failed::of_session(item.target.shown(), failed)))?;
        let (asked, size) = (is_asked(self.options.check), from.size);
        let (mut own, mut sum) = (OwnError::default(), Sha256::default());
        let mut progress = Progress::new(&mut self.monitor, item, Some(size), 0);
        let source = &mut *server;
        let (sent, fetched) = std::thread::scope(|scope| {
            let fetching = scope.spawn(move || {
                let mut writer = writer;
                fetch(source, from, asked, &mut writer)
            });
            let mut fill = |at: u64, into: &mut [u8]| {
                let most = usize::try_from(size - at).unwrap_or(usize::MAX).min(into.len());
                let read = reader.read(&mut into[..most])?;
                if read == 0 && most > 0 {
                    return Err(UnexpectedEof.into());
                }
                sum.update(&into[..read]);
                own.keep(progress.add(read)).map(|()| read)
            };
            let sent = target.session.client().upload(to.written(), 0, &mut fill);
            // Nobody takes what comes after a failure.
            drop(reader);
            (sent, fetching.join())
        });
        let level = self.ftp.level(from.url).min(self.ftp.level(to.url));
        match (sent, fetched) {
            (Ok(_), Ok(Ok(is_verified))) => {
                let check = if is_verified { Check::Hash } else { Check::None };
                if asked && !is_verified {
                    self.note_source_unverified(server, to.url)?;
                }
                let is_there = self.verify_upload(to, size, asked.then(|| sum.finish()));
                let there = is_there.map_err(|lost| self.unmoved(item, to.url, lost))?;
                let check = if there == Check::Hash { check } else { Check::None };
                Ok(copied(level, size, 0, 1, check, began.elapsed()))
            }
            (_, Ok(Err(Trouble::Server(error) | Trouble::Refused(error)))) => {
                self.ftp.forget(to.url);
                Err(Failed::of_peer(item.source.shown(), error).into())
            }
            (Err(error), _) => {
                let is_lost = !is_usable_after(&error);
                Err(self.unmoved(item, to.url, (own.of(error), is_lost)))
            }
            (Ok(_), _) => Err(Failed::of_local(item.source.shown(), ended_early()).into()),
        }
    }

    /// Compares what both servers have after a file has moved directly: the length, and the SHA-256 if both say it.
    fn compare_ends(
        &mut self,
        item: &CopyItem,
        (server, from): (&mut FtpServer, &Source<'_>),
        to: &Target<'_>,
    ) -> Result<Check, Unmoved> {
        let asked = is_asked(self.options.check);
        let of_source = |error| Unmoved::Failed(Failed::of_peer(item.source.shown(), error_of(error)));
        let told = if asked { server.session.sha256(&from.path).map_err(of_source)? } else { None };
        if asked && told.is_none() {
            self.note_source_unverified(server, to.url)?;
        }
        let there = self.verify_upload(to, from.size, told.clone()).map_err(|lost| self.unmoved(item, to.url, lost));
        if there.is_err() {
            // What is wrong is not continued.
            self.arrived = Arrived { lost: self.arrived.lost, ..Arrived::default() };
        }
        let there = there?;
        Ok(if told.is_some() { there } else { Check::None })
    }

    /// Says once that a source's content is not verified; then nothing is said of the target either.
    fn note_source_unverified(&mut self, source: &mut FtpServer, target: &Url) -> Result<(), Failed> {
        let of_session = |failed| Failed::of_session(&target.to_string(), failed);
        let told_of_target = &mut self.ftp.with(target).map_err(of_session)?.told_unverified;
        let told = std::mem::replace(&mut source.told_unverified, true) || std::mem::replace(told_of_target, true);
        if !told {
            self.monitor.output().note(&format!("{}: {UNVERIFIED}", source.url.host));
        }
        Ok(())
    }
}

/// Why two servers are not asked to move a file between them.
fn why_through_here((from, source): (&Url, &FtpServer), (to, target): (&Url, &FtpServer)) -> Option<String> {
    let plain = [from, to].into_iter().find(|url| url.via != Via::Ftp(Ftp::Grid));
    if let Some(plain) = plain {
        return Some(format!("{} is no GridFTP server", plain.host));
    }
    let without = [(from, source), (to, target)].into_iter().find(|(_, server)| !server.session.features().parallel);
    without.map(|(url, _)| format!("{} offers no Mode E", url.host))
}

/// Whether the part that an attempt left can hold these ranges.
fn is_whole_part(target: &mut FtpServer, to: &Target<'_>, ranges: &Ranges) -> bool {
    let Some(last) = ranges.list().pop() else { return true };
    target.session.client().size(to.written()).is_ok_and(|size| size >= last.end)
}
