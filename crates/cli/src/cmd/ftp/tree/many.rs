//! Small files of a batch that follow one another: where the server can, they move together. What does not is done one
//! by one, which says why.

use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use xdfs_client::Error;
use xdfs_client::wire::{Batch, Call, Put};
use xdfs_gridftp::client;
use xdfs_gridftp::command::Command;
use xdfs_gridftp::listing::{Entry, Kind};
use xdfs_secure::checksum::Sha256;

use super::super::facts::digits_of;
use super::files::part_of_small;
use super::worker::{Trouble, Worker, joined};
use crate::cmd::ftp::part::part_name;
use crate::cmd::ftp::{LARGE_BYTES_MIN, is_gone};
use xdfs_proto::base::TransferId;

/// After so many troubles all is done one by one: what the troubles are, a tree that changes or a server that does not
/// keep its word, each costs a session.
const TROUBLES_MAX: u32 = 3;

/// Names whose facts are kept until they are asked for, and bytes of the names: the facts of others are asked for again.
const LISTED_MAX: usize = 200_000;
const LISTED_BYTES_MAX: usize = 32 << 20;

/// What listings said of small files that are not fetched yet, by their paths.
#[derive(Default)]
pub(super) struct Listed {
    entries: HashMap<Vec<u8>, Entry>,
    bytes: usize,
}

impl Listed {
    /// Keeps what is said of the small files of a directory, as far as there is room.
    pub(super) fn keep(&mut self, directory: &[u8], entries: &[Entry]) {
        let is_small =
            |entry: &&Entry| entry.kind == Kind::File && entry.size.is_some_and(|size| size < LARGE_BYTES_MIN);
        for entry in entries.iter().filter(is_small) {
            let path = joined(directory.strip_suffix(b"/").unwrap_or(directory), &entry.name);
            let bytes = path.len() + entry.name.len();
            if self.entries.len() >= LISTED_MAX || self.bytes + bytes > LISTED_BYTES_MAX {
                return;
            }
            self.bytes += bytes;
            if let Some(before) = self.entries.insert(path, entry.clone()) {
                self.bytes -= bytes - entry.name.len() + before.name.len();
            }
        }
    }

    /// Takes what was said of a file: it is believed once.
    fn take(&mut self, path: &[u8]) -> Option<Entry> {
        let (path, entry) = self.entries.remove_entry(path)?;
        self.bytes -= path.len() + entry.name.len();
        Some(entry)
    }
}

/// What was done of a call before its turn.
pub(super) enum Done {
    /// A file was fetched, and verified where that was asked for.
    Fetched(Entry, Vec<u8>),
    /// A file was written.
    Put,
}

/// Calls of a batch that were done before their turn.
#[derive(Default)]
pub(super) struct Ahead {
    /// The first call that was not looked at.
    end: usize,
    done: BTreeMap<usize, Done>,
}

impl Ahead {
    /// Does what follows call `index` of its kind, if it is the first of several.
    pub(super) fn reach(
        &mut self,
        worker: &mut Worker<'_>,
        batch: &Batch<'_>,
        index: usize,
        room: usize,
    ) -> Result<(), Trouble> {
        let shared = worker.shared;
        if index < self.end || !is_able(worker) {
            return Ok(());
        }
        let calls = &batch.calls[index..];
        // A name that cannot be sent is refused on its own.
        let path = |call: &Call<'_>| worker.path(&joined(batch.base, call.path()));
        let is_named = |call: &Call<'_>| Command::Dele(part_name(&path(call), TransferId([0; 16]))).encode().is_ok();
        let gets = calls.iter().take_while(|call| matches!(call, Call::Get { .. }) && is_named(call)).count();
        let puts = calls.iter().take_while(|call| new_put(call).is_some() && is_named(call)).count();
        let puts = if shared.in_place.load(Ordering::Relaxed) { 0 } else { puts };
        self.end = index + gets.max(puts).max(1);
        if gets < 2 && puts < 2 {
            return Ok(());
        }
        let calls = &batch.calls[index..self.end];
        let paths: Vec<Vec<u8>> = calls.iter().map(path).collect();
        let done = match gets > puts {
            true => fetch(worker, calls, &paths, room),
            false => put(worker, calls, &paths),
        };
        match done {
            Ok(done) => {
                self.done = done.into_iter().map(|(at, done)| (index + at, done)).collect();
                Ok(())
            }
            Err(_) => {
                shared.troubles.fetch_add(1, Ordering::Relaxed);
                let opened = shared.opener.open();
                worker.session =
                    opened.map_err(|(failure, kind)| Trouble::Broken(Error::new(kind, failure.message)))?;
                Ok(())
            }
        }
    }

    /// What was done of this call.
    pub(super) fn take(&mut self, index: usize) -> Option<Done> {
        self.done.remove(&index)
    }
}

/// Whether small files move together.
pub(super) fn is_able(worker: &Worker<'_>) -> bool {
    let shared = worker.shared;
    shared.opener.is_grid() && worker.session.has_many() && shared.troubles.load(Ordering::Relaxed) < TROUBLES_MAX
}

/// A file that may replace what is there.
fn new_put<'c>(call: &'c Call<'c>) -> Option<&'c Put<'c>> {
    match call {
        Call::Put(put) if !put.keep_existing => Some(put),
        _ => None,
    }
}

/// Those of `names` at these places.
fn at<'n>(names: &'n [Vec<u8>], places: impl IntoIterator<Item = &'n usize>) -> Vec<&'n [u8]> {
    places.into_iter().map(|place| &names[*place][..]).collect()
}

/// Fetches those that are files, not too large for the reply, and what the server says they are.
fn fetch(
    worker: &mut Worker<'_>,
    calls: &[Call<'_>],
    paths: &[Vec<u8>],
    room: usize,
) -> Result<Vec<(usize, Done)>, client::Error> {
    let mut entries: Vec<Option<Entry>> = {
        let mut listed = worker.shared.listed.lock().unwrap_or_else(PoisonError::into_inner);
        paths.iter().map(|path| listed.take(path)).collect()
    };
    let unknown: Vec<usize> = (0..paths.len()).filter(|place| entries[*place].is_none()).collect();
    for (place, entry) in unknown.iter().zip(worker.session.look_many(&at(paths, &unknown))?) {
        entries[*place] = entry;
    }
    let mut left = room;
    let mut wanted: Vec<(usize, Entry, usize)> = Vec::new();
    for (place, (entry, call)) in entries.into_iter().zip(calls).enumerate() {
        let (Some(entry), Call::Get { most, .. }) = (entry, call) else { continue };
        let size = entry.size.filter(|_| entry.kind == Kind::File).and_then(|size| usize::try_from(size).ok());
        if let Some(size) = size.filter(|size| *size <= left.min(*most as usize)) {
            left -= size;
            wanted.push((place, entry, size));
        }
    }
    let files: Vec<(&[u8], usize)> = wanted.iter().map(|(place, _, size)| (&paths[*place][..], *size)).collect();
    let mut contents = Vec::with_capacity(files.len());
    worker.session.client().download_many(&files, &mut |one| contents.push(one.ok()))?;
    let mut sums = vec![None; files.len()];
    if worker.shared.verify {
        let names: Vec<&[u8]> = files.iter().map(|(name, _)| *name).collect();
        sums = worker.session.sha256_many(&names)?;
    }
    let is_right = |content: &[u8], sum: Option<String>| sum.is_none_or(|told| told == sum_of(content));
    let all = wanted.into_iter().zip(contents).zip(sums);
    let right = all.filter_map(|(((place, entry, _), content), sum)| {
        let content = content.filter(|content| is_right(content, sum))?;
        Some((place, Done::Fetched(entry, content)))
    });
    Ok(right.collect())
}

/// Writes files under temporary names, and renames those that are whole.
fn put(worker: &mut Worker<'_>, calls: &[Call<'_>], paths: &[Vec<u8>]) -> Result<Vec<(usize, Done)>, client::Error> {
    let puts: Vec<&Put<'_>> = calls.iter().filter_map(new_put).collect();
    // Without random bytes nothing is named: one by one says so.
    let staged: Vec<Vec<u8>> = paths.iter().map_while(|path| part_of_small(path).ok()).collect();
    let puts = &puts[..puts.len().min(staged.len())];
    let in_use = worker.shared.records.begin(&staged);
    let written = write(worker, puts, &staged, paths);
    let written = match written {
        Ok(written) => written,
        Err(error) => {
            // Nothing stays of it, if there is a session.
            if !worker.session.client().is_ready()
                && let Ok(session) = worker.shared.opener.open()
            {
                worker.session = session;
            }
            // The server may still do what was sent ahead in the lost session: the names stay recorded.
            remove(worker, &staged, 0..staged.len());
            return Err(error);
        }
    };
    let failed = (0..puts.len()).filter(|place| !written.contains(place));
    if remove(worker, &staged, failed) {
        in_use.done();
    }
    Ok(written.into_iter().map(|place| (place, Done::Put)).collect())
}

/// Which of the files have their final names.
fn write(
    worker: &mut Worker<'_>,
    puts: &[&Put<'_>],
    staged: &[Vec<u8>],
    paths: &[Vec<u8>],
) -> Result<Vec<usize>, client::Error> {
    // In Mode E a file's end is marked, and the server has said that it has all: its length is not asked for again.
    let files: Vec<(&[u8], &[u8])> = staged.iter().zip(puts).map(|(name, put)| (&name[..], put.content)).collect();
    let sent = worker.session.client().upload_many(&files)?;
    let mut good: Vec<usize> =
        sent.iter().enumerate().filter(|(_, sent)| sent.is_ok()).map(|(place, _)| place).collect();
    if worker.session.features().sha256.is_some() {
        let (hashed, other): (Vec<usize>, Vec<usize>) = good.iter().partition(|place| puts[**place].hash.is_some());
        let sums = worker.session.sha256_many(&at(staged, &hashed))?;
        let right = hashed
            .into_iter()
            .zip(sums)
            .filter(|(place, sum)| sum.as_ref().is_some_and(|told| *told == sum_of(puts[*place].content)));
        good = right.map(|(place, _)| place).chain(other).collect();
    }
    let times = good.iter().filter_map(|place| {
        let digits = puts[*place].modified.and_then(digits_of)?;
        Some((&staged[*place][..], digits))
    });
    worker.session.set_modified_many(&times.collect::<Vec<_>>())?;
    let names: Vec<(&[u8], &[u8])> = good.iter().map(|place| (&staged[*place][..], &paths[*place][..])).collect();
    let mut renamed = worker.session.rename_many(&names)?.into_iter();
    good.retain(|_| renamed.next().unwrap_or(false));
    Ok(good)
}

/// Removes what was staged, as far as the server does. False if nobody knows whether it has.
fn remove(worker: &mut Worker<'_>, staged: &[Vec<u8>], places: impl Iterator<Item = usize>) -> bool {
    let commands: Vec<Command> = places.filter_map(|place| staged.get(place)).cloned().map(Command::Dele).collect();
    // What stays is no name that the copy sees.
    worker.session.client().ask_many(&commands).is_ok_and(|answers| answers.iter().all(is_gone))
}

/// The SHA-256 of a small file.
pub(super) fn sum_of(content: &[u8]) -> String {
    let mut sum = Sha256::default();
    sum.update(content);
    sum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &[u8], size: u64) -> Entry {
        Entry { kind: Kind::File, size: Some(size), ..Entry::unknown(name) }
    }

    #[test]
    fn what_was_listed_is_believed_once_and_has_a_bound() {
        let mut listed = Listed::default();
        let directory = Entry { kind: Kind::Directory, size: Some(1), ..Entry::unknown(b"d") };
        listed.keep(b"/a", &[file(b"f", 5), file(b"large", LARGE_BYTES_MIN), directory, Entry::unknown(b"x")]);
        listed.keep(b"/a", &[file(b"f", 6)]);
        listed.keep(b"/", &[file(b"g", 7)]);
        assert_eq!(listed.entries.len(), 2);
        assert_eq!(listed.take(b"/a/f").and_then(|entry| entry.size), Some(6));
        assert!(listed.take(b"/a/f").is_none() && listed.take(b"/a/large").is_none());
        assert!(listed.take(b"/g").is_some());
        assert_eq!((listed.bytes, listed.entries.len()), (0, 0));
        let long: Vec<Entry> = (0..100_u32).map(|number| file(&vec![b'n'; 1 << 20 | number as usize], 1)).collect();
        listed.keep(b"/a", &long);
        assert!(listed.bytes <= LISTED_BYTES_MAX && !listed.entries.is_empty());
        let many: Vec<Entry> = (0..300_000_u32).map(|number| file(&number.to_be_bytes(), 1)).collect();
        let mut listed = Listed::default();
        listed.keep(b"/a", &many);
        assert_eq!(listed.entries.len(), LISTED_MAX);
    }
}
