//! Whole files of a tree, to and from an FTP server.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;
use xdfs_proto::base::{Timestamp, TransferId};

use xdfs_client::tree::Receive;
use xdfs_client::wire::Put;
use xdfs_client::{Error, ErrorKind, Level, PutOptions, Report, Safety, Verify};
use xdfs_gridftp::client;
use xdfs_gridftp::listing::Kind;
use xdfs_gridftp::ranges::Range;
use xdfs_io::store::{CommitRequest, Source, StageRequest, Store};
use xdfs_secure::checksum::Sha256;
use xdfs_secure::naming::transfer_id;
use xdfs_secure::random;

use super::super::facts::{digits_of, facts_of};
use super::super::part::{hash_range, part_name};
use super::super::stage::{self, commit, read_back, resume_of, start_of};
use super::worker::{Trouble, Worker};
use crate::cmd::ftp::{LARGE_BYTES_MIN, PartRecords, PartsInUse, is_cut, is_gone, is_refused_name};

/// What is sent.
enum Content<'a> {
    /// A small file that was read before.
    Bytes(&'a [u8]),
    File(&'a Source),
}

impl Content<'_> {
    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, Error> {
        match self {
            Self::Bytes(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                let length = rest.len().min(into.len());
                into[..length].copy_from_slice(&rest[..length]);
                Ok(length)
            }
            Self::File(source) => source.read_at(into, at),
        }
    }

    /// The source and its length, if it can be continued.
    fn resumable(&self) -> Option<(&Source, u64)> {
        match self {
            Self::File(source) => {
                source.attributes().size.filter(|size| *size >= LARGE_BYTES_MIN).map(|size| (*source, size))
            }
            Self::Bytes(_) => None,
        }
    }

    /// Its temporary name, recorded. What can be continued has the same for the same file, so that the next attempt finds
    /// it; it is also that of a copy of this file alone.
    fn begin_part(&self, records: &PartRecords, path: &[u8]) -> Result<(Vec<u8>, PartsInUse), Error> {
        match self.resumable().and_then(|(source, _)| source.identity()) {
            Some(version) => records.begin_resumable(path, part_name(path, transfer_id(&[b"ftp", path, version]))),
            None => {
                let name = part_of_small(path)?;
                let in_use = records.begin(std::slice::from_ref(&name));
                Ok((name, in_use))
            }
        }
    }

    /// An error if what was read is not the file as it was when it was opened.
    fn revalidate(&self) -> Result<(), Error> {
        match self {
            Self::Bytes(_) => Ok(()),
            Self::File(source) => source.revalidate(),
        }
    }
}

/// A file to write.
struct Upload<'a> {
    path: &'a [u8],
    content: Content<'a>,
    modified: Option<Timestamp>,
    keep_existing: bool,
    verify: bool,
    /// What an earlier attempt has left is continued.
    resume: bool,
}

/// What was written.
struct Written {
    length: u64,
    /// Bytes that an earlier attempt had sent.
    resumed: u64,
    is_verified: bool,
}

/// A temporary name for a small file, which no later attempt continues.
pub(super) fn part_of_small(path: &[u8]) -> Result<Vec<u8>, Error> {
    Ok(part_name(path, TransferId(random::array()?)))
}

/// Writes a small file.
pub(super) fn put(worker: &mut Worker<'_>, path: &[u8], put: &Put<'_>) -> Result<(), Trouble> {
    let (content, verify) = (Content::Bytes(put.content), put.hash.is_some());
    let (modified, keep_existing) = (put.modified, put.keep_existing);
    let upload = Upload { path, content, modified, keep_existing, verify, resume: false };
    upload_as(worker, &upload).map(drop)
}

/// Sends a file.
pub(super) fn send(
    worker: &mut Worker<'_>,
    source: &Source,
    to: &[u8],
    options: &PutOptions,
) -> Result<Report, Trouble> {
    let (began, path) = (Instant::now(), worker.path(to));
    let upload = Upload {
        path: &path,
        content: Content::File(source),
        modified: source.modified(),
        keep_existing: options.keep_existing,
        verify: options.verify > Verify::None,
        resume: options.resume,
    };
    let written = upload_as(worker, &upload)?;
    Ok(report(worker.shared.opener.level(), &written, Safety::Written, began))
}

/// Writes a file under a temporary name and renames it, where the server does so.
fn upload_as(worker: &mut Worker<'_>, upload: &Upload<'_>) -> Result<Written, Trouble> {
    if upload.keep_existing && worker.session.look(upload.path)?.is_some() {
        return Err(Error::new(ErrorKind::AlreadyExists, "it already exists").into());
    }
    if worker.shared.in_place.load(Ordering::Relaxed) {
        return upload_to(worker, upload, upload.path, 0);
    }
    let (staged, in_use) = upload.content.begin_part(&worker.shared.records, upload.path)?;
    let start = match upload.content.resumable().filter(|_| upload.resume) {
        Some((_, size)) => sent_before(worker, &staged, size)?,
        None => 0,
    };
    let written = upload_to(worker, upload, &staged, start);
    let named = match written {
        Ok(written) => worker.session.client().rename(&staged, upload.path).map(|()| written).map_err(Trouble::from),
        Err(trouble) => Err(trouble),
    };
    let refused = match named {
        Err(Trouble::Refused(refused)) => refused,
        Ok(written) => {
            in_use.done_with(&mut worker.session);
            return Ok(written);
        }
        broken => return broken,
    };
    if is_cut(&refused) {
        return Err(Trouble::Broken(refused));
    }
    // Nothing stays of it, if the server allows that.
    if is_gone(&worker.session.client().remove(&staged)) {
        in_use.done();
    }
    if !is_refused_name(&refused) {
        return Err(refused.into());
    }
    let written = upload_to(worker, upload, upload.path, 0)?;
    // It works under the final name, so it is the temporary one that the server does not want.
    worker.shared.in_place.store(true, Ordering::Relaxed);
    Ok(written)
}

/// Bytes of a part that an earlier attempt has left.
fn sent_before(worker: &mut Worker<'_>, staged: &[u8], size: u64) -> Result<u64, Trouble> {
    match worker.session.client().size(staged) {
        Ok(there) if there <= size => Ok(there),
        Ok(_) | Err(client::Error::Refused { .. }) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Writes what follows the first `start` bytes, which are there.
fn upload_to(worker: &mut Worker<'_>, upload: &Upload<'_>, path: &[u8], start: u64) -> Result<Written, Trouble> {
    let (mut sum, mut own, mut moved) = (Sha256::default(), None, 0);
    let verify = upload.verify && worker.session.features().sha256.is_some();

    if let (Content::File(source), true) = (&upload.content, verify) {
        hash_range(source, 0, start, &mut sum)?;
    }
    let shared = worker.shared;
    let sent = worker.session.client().upload(path, start, &mut |at, into| {
        let read =
            if shared.cancelled.load(Ordering::Acquire) { Err(cancelled()) } else { upload.content.read_at(at, into) };
        let read = read.map_err(|error| {
            own = Some(error);
            std::io::Error::from(std::io::ErrorKind::Other)
        })?;
        if verify {
            sum.update(&into[..read]);
        }
        moved += read as u64;
        shared.moving.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    });
    shared.moving.fetch_sub(moved, Ordering::Relaxed);
    let length = match sent {
        Ok(length) => length,
        Err(error) => return Err(own.map_or_else(|| error.into(), Trouble::Broken)),
    };
    upload.content.revalidate()?;
    match worker.session.client().size(path) {
        Ok(there) if there != length => {
            let text = format!("the server has {there} bytes of {length}");
            return Err(Error::new(ErrorKind::Corrupted, text).into());
        }
        Err(error) if !matches!(error, client::Error::Refused { .. }) => return Err(error.into()),
        Ok(_) | Err(_) => {}
    }
    let is_verified = verify && same_sum(worker, path, &sum.finish())?;
    if let Some(digits) = upload.modified.and_then(digits_of) {
        worker.session.set_modified(path, digits)?;
    }
    Ok(Written { length, resumed: start, is_verified })
}

/// Compares a checksum with the server's; false where it says none.
pub(super) fn same_sum(worker: &mut Worker<'_>, path: &[u8], own: &str) -> Result<bool, Trouble> {
    match worker.session.sha256(path)? {
        None => Ok(false),
        Some(told) if told == own => Ok(true),
        Some(told) => {
            let text = format!("what moved has the SHA-256 {own}, the server's file {told}");
            Err(Error::new(ErrorKind::Corrupted, text).into())
        }
    }
}

/// Receives a file.
pub(super) fn receive(worker: &mut Worker<'_>, from: &[u8], receive: Receive) -> Result<Report, Trouble> {
    let (began, path) = (Instant::now(), worker.path(from));
    let entry = worker.found(&path)?;
    if entry.kind != Kind::File {
        return Err(Error::new(ErrorKind::NotRegular, "no file").into());
    }
    let size = match entry.size {
        Some(size) => size,
        None => worker.session.client().size(&path)?,
    };
    (receive.clear)()?;
    let may_resume = receive.options.resume && size >= LARGE_BYTES_MIN;
    let shared = worker.shared;
    let mut stage = shared.store.stage(&StageRequest {
        target: receive.target,
        size: Some(size),
        existing: receive.existing,
        transfer: transfer_id(&[b"ftp tree", from]),
        resume: if may_resume { resume_of(&entry, size, receive.options.durable) } else { None },
        base: None,
        holes: receive.holes,
    })?;
    let verify = receive.options.verify > Verify::None && worker.session.features().sha256.is_some();
    let (mut sum, mut own, mut moved) = (Sha256::default(), None, 0);
    let start = start_of(&stage, size);
    let wanted = Range { start, end: size };
    let mut sink = |at: u64, bytes: &[u8]| {
        let written = match shared.cancelled.load(Ordering::Acquire) {
            true => Err(cancelled()),
            false => stage::write(&stage, bytes, at),
        };
        if verify && start == 0 {
            sum.update(bytes);
        }
        moved += bytes.len() as u64;
        shared.moving.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        written.map_err(|error| {
            own = Some(error);
            std::io::Error::from(std::io::ErrorKind::Other)
        })
    };
    let got = match start == size && start > 0 {
        true => Ok(()),
        false => worker.session.client().download(&path, wanted, &mut sink),
    };
    shared.moving.fetch_sub(moved, Ordering::Relaxed);
    if let Err(error) = got {
        // What has arrived is for the next attempt.
        stage.keep();
        return Err(own.map_or_else(|| error.into(), Trouble::Broken));
    }
    let is_hashed = start == 0 || stage.can_read_back();
    let sum = match verify && start > 0 && is_hashed {
        true => read_back(&stage, size, false)?,
        false => sum.finish(),
    };
    let is_verified = verify && is_hashed && same_sum(worker, &path, &sum)?;
    let facts = facts_of(&entry);
    let request = CommitRequest { length: size, mode: facts.mode.unwrap_or(0o644) & 0o777, modified: facts.modified };
    let safety = commit(&mut stage, &request, receive.options.durable)?;
    let written = Written { length: size, resumed: start, is_verified };
    Ok(report(shared.opener.level(), &written, safety, began))
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "cancelled")
}

fn report(level: Level, written: &Written, safety: Safety, began: Instant) -> Report {
    Report {
        length: written.length,
        resumed: written.resumed,
        moved: written.length - written.resumed,
        channel_bytes: BTreeMap::new(),
        safety,
        level,
        verified: if written.is_verified { Verify::Hash } else { Verify::None },
        hash: None,
        seconds: began.elapsed().as_secs_f64(),
        remote: None,
    }
}
