//! The calls of a batch, as commands of FTP.

use std::collections::HashMap;
use std::sync::PoisonError;

use xdfs_client::wire::{Answer, Batch, Call, Failure, ListEntry, NewTime, ReplyWriter, Wanted};
use xdfs_client::{Error, ErrorKind, Safety};
use xdfs_gridftp::client;
use xdfs_gridftp::listing::{Entry, Kind};
use xdfs_gridftp::ranges::Range;

use super::super::facts::{attributes_of, digits_of};
use super::super::part::is_part;
use super::files;
use super::many::{self, Ahead, Done};
use super::worker::{Trouble, Worker, joined};

/// Directories of which pages are still to be asked for, by their paths. A copy asks for one page
/// after the other, so there are as many as it lists at a time.
pub(super) type Listings = HashMap<Vec<u8>, Vec<Entry>>;

/// Names of a directory that are held at a time, and their bytes.
const ENTRIES_MAX: usize = 2_000_000;
const HELD_BYTES_MAX: usize = 256 << 20;

/// Executes the calls of a batch, and returns the reply.
pub(super) fn execute(worker: &mut Worker<'_>, payload: &[u8], room: usize) -> Result<Vec<u8>, Trouble> {
    let unreadable = || Trouble::Broken(Error::internal("a batch that cannot be read"));
    let batch = Batch::decode(payload).map_err(|_| unreadable())?;
    let mut writer = ReplyWriter::new(batch.calls.len(), room).ok_or_else(unreadable)?;
    let mut ahead = Ahead::default();
    for (index, call) in batch.calls.iter().enumerate() {
        ahead.reach(worker, &batch, index, room)?;
        if call.result_bytes_max().is_none() {
            writer.leave_room(batch.calls[index + 1..].iter());
        }
        let path = worker.path(&joined(batch.base, call.path()));
        let done = match (call, ahead.take(index)) {
            (Call::Get { wanted, most, .. }, Some(Done::Fetched(entry, content))) => {
                answer_with(&entry, content, (*wanted, *most), &mut writer)
            }
            (_, Some(Done::Put)) => {
                writer.answer(&Answer::Done);
                Ok(())
            }
            _ => one(worker, batch.base, &path, call, &mut writer),
        };
        match done.map_err(|trouble| worker.mended(trouble)) {
            Ok(()) => {}
            Err(Trouble::Refused(error)) => writer.fail(Failure { kind: error.kind, errno: 0 }),
            Err(broken) => return Err(broken),
        }
    }
    Ok(writer.finish(Safety::Written))
}

fn one(
    worker: &mut Worker<'_>,
    base: &[u8],
    path: &[u8],
    call: &Call<'_>,
    writer: &mut ReplyWriter,
) -> Result<(), Trouble> {
    match call {
        Call::List { wanted, cursor, .. } => return list(worker, path, *wanted, cursor, writer),
        Call::Stat { wanted, .. } => {
            let entry = worker.found(path)?;
            writer.answer(&Answer::Attributes(of_wanted(&entry, *wanted)));
            return Ok(());
        }
        Call::Get { wanted, most, .. } => return get(worker, path, (*wanted, *most), writer),
        Call::MakeDirectory { parents, .. } => make_directory(worker, path, *parents)?,
        Call::RemoveDirectory { .. } => remove_directory(worker, path)?,
        Call::Unlink { .. } => {
            let removed = worker.session.client().remove(path);
            explained(worker, path, removed, ErrorKind::IsDirectory)?;
        }
        Call::Rename { to, keep_existing, .. } => {
            let to = worker.path(&joined(base, to));
            if *keep_existing && worker.session.look(&to)?.is_some() {
                return Err(Error::new(ErrorKind::AlreadyExists, "it already exists").into());
            }
            worker.session.client().rename(path, &to)?;
        }
        // Not every server does so for files, and none that we know for directories.
        Call::SetTimes { modified: Some(NewTime::At(time)), .. } => {
            if let Some(digits) = digits_of(*time) {
                worker.session.set_modified(path, digits)?;
            }
        }
        Call::SetTimes { .. } | Call::SetMode { .. } => {}
        Call::Put(put) => files::put(worker, path, put)?,
        _ => return Err(Error::new(ErrorKind::Unsupported, "FTP servers cannot do that").into()),
    }
    writer.answer(&Answer::Done);
    Ok(())
}

/// The attributes that were asked for, as far as the server says them.
fn of_wanted(entry: &Entry, wanted: Wanted) -> xdfs_client::wire::Attributes<'_> {
    let told = attributes_of(entry);
    xdfs_client::wire::Attributes {
        mode: told.mode.filter(|_| wanted.has(Wanted::MODE)),
        size: told.size.filter(|_| wanted.has(Wanted::SIZE)),
        modified: told.modified.filter(|_| wanted.has(Wanted::MODIFIED)),
        ..told
    }
}

/// A page of a directory, which is listed as a whole: the server has no pages.
fn list(
    worker: &mut Worker<'_>,
    path: &[u8],
    wanted: Wanted,
    cursor: &[u8],
    writer: &mut ReplyWriter,
) -> Result<(), Trouble> {
    let start = <[u8; 8]>::try_from(cursor).map_or(0, usize::from_be_bytes);
    let listings = || worker.shared.listings.lock().unwrap_or_else(PoisonError::into_inner);
    let known = if start > 0 { listings().remove(path) } else { None };
    let entries = match known {
        Some(entries) => entries,
        None => whole(worker, path)?,
    };
    let mut page = writer.listing();
    let mut next = start;
    while let Some(entry) = entries.get(next) {
        // One component without a slash: the reader of listings lets nothing else pass.
        if !page.push(&ListEntry { name: &entry.name, attributes: of_wanted(entry, wanted) }) {
            break;
        }
        next += 1;
    }
    let is_complete = next >= entries.len();
    page.finish(is_complete, if is_complete { Vec::new() } else { next.to_be_bytes().to_vec() }.as_slice());
    if !is_complete {
        worker.shared.listings.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_vec(), entries);
    }
    Ok(())
}

/// Removes a directory, with parts of uploads that are left in it: the copy does not see them.
fn remove_directory(worker: &mut Worker<'_>, path: &[u8]) -> Result<(), Trouble> {
    let mut removed = worker.session.client().remove_directory(path);
    if matches!(removed, Err(client::Error::Refused { .. })) && worker.session.features().facts {
        let mut names = Vec::new();
        // What else there is keeps the directory.
        let listed = worker.session.list(path, &mut |entry| {
            if names.len() < ENTRIES_MAX {
                names.push(entry.name);
            }
        });
        match listed {
            Ok(_) if !names.is_empty() && names.iter().all(|name| is_part(name)) => {
                for name in names {
                    worker.session.client().remove(&joined(path, &name))?;
                }
                removed = worker.session.client().remove_directory(path);
            }
            // Why it stays is found out below.
            Ok(_) | Err(client::Error::Refused { .. } | client::Error::ListingTruncated(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    explained(worker, path, removed, ErrorKind::NotEmpty)
}

/// All entries of a directory, by their names; uploads that are not whole are none of them.
fn whole(worker: &mut Worker<'_>, path: &[u8]) -> Result<Vec<Entry>, Trouble> {
    let (mut entries, mut held) = (Vec::new(), 0);
    let mut take = |entry: Entry| {
        if is_part(&entry.name) {
            return;
        }
        held += entry.name.len() + size_of::<Entry>();
        if held <= HELD_BYTES_MAX && entries.len() < ENTRIES_MAX {
            entries.push(entry);
        }
    };
    // Where names that are not listed are removed here, nobody between may have cut the list.
    let listed = match worker.shared.deletes {
        true => worker.session.list_whole(path, &mut take),
        false => worker.session.list(path, &mut take),
    };
    // What is no name of the directory is a lie about all of it: it is not copied, and nothing else of
    // this server's words about it is believed.
    listed.map_err(|error| match error {
        error @ client::Error::Listing(_) => Trouble::Broken(super::super::error_of(error)),
        error => error.into(),
    })?;
    if held > HELD_BYTES_MAX || entries.len() == ENTRIES_MAX {
        return Err(Error::new(ErrorKind::LimitExceeded, "more names than can be held").into());
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    if many::is_able(worker) {
        worker.shared.listed.lock().unwrap_or_else(PoisonError::into_inner).keep(path, &entries);
    }
    Ok(entries)
}

/// A small file, whole.
fn get(
    worker: &mut Worker<'_>,
    path: &[u8],
    (wanted, most): (Wanted, u32),
    writer: &mut ReplyWriter,
) -> Result<(), Trouble> {
    let entry = worker.found(path)?;
    if entry.kind != Kind::File {
        return Err(Error::new(ErrorKind::NotRegular, "no file").into());
    }
    let size = match entry.size {
        Some(size) => size,
        None => worker.session.client().size(path)?,
    };
    let length = usize::try_from(size).ok().filter(|size| *size <= writer.room().min(most as usize));
    let length = length.ok_or_else(too_large)?;
    let mut content = Vec::with_capacity(length);
    let whole = Range { start: 0, end: size };
    worker.session.client().download(path, whole, &mut |_, bytes| {
        content.extend_from_slice(bytes);
        Ok(())
    })?;
    if worker.shared.verify {
        files::same_sum(worker, path, &many::sum_of(&content))?;
    }
    answer_with(&entry, content, (wanted, most), writer)
}

/// The answer about a small file.
fn answer_with(
    entry: &Entry,
    content: Vec<u8>,
    (wanted, most): (Wanted, u32),
    writer: &mut ReplyWriter,
) -> Result<(), Trouble> {
    if content.len() > writer.room().min(most as usize) {
        return Err(too_large().into());
    }
    writer.answer(&Answer::File { attributes: of_wanted(entry, wanted), content: &content });
    Ok(())
}

fn too_large() -> Error {
    Error::new(ErrorKind::TooLarge, "more than is read at once")
}

/// Makes a directory; with `parents` also those above it, and one that is there is as good.
fn make_directory(worker: &mut Worker<'_>, path: &[u8], parents: bool) -> Result<(), Trouble> {
    let Err(error) = worker.session.client().make_directory(path) else { return Ok(()) };
    if !matches!(error, client::Error::Refused { .. }) {
        return Err(error.into());
    }
    match worker.session.look(path)? {
        Some(entry) if entry.kind == Kind::Directory && parents => Ok(()),
        Some(_) => Err(Error::new(ErrorKind::AlreadyExists, "it already exists").into()),
        None if parents => {
            let above = path.iter().rposition(|&byte| byte == b'/').filter(|slash| *slash > 0);
            let Some(above) = above.map(|slash| &path[..slash]) else { return Err(error.into()) };
            if worker.session.look(above)?.is_some() {
                return Err(error.into());
            }
            make_directory(worker, above, true)?;
            worker.session.client().make_directory(path).map_err(Trouble::from)
        }
        None => Err(error.into()),
    }
}

/// Why a name was not removed: servers say the same of one that is not there and of one that stays.
fn explained(
    worker: &mut Worker<'_>,
    path: &[u8],
    removed: Result<(), client::Error>,
    directory: ErrorKind,
) -> Result<(), Trouble> {
    let Err(error) = removed else { return Ok(()) };
    let trouble = Trouble::from(error);
    let Trouble::Refused(error) = trouble else { return Err(trouble) };
    let kind = match worker.session.look(path)? {
        None => ErrorKind::NotFound,
        Some(entry) if entry.kind == Kind::Directory => directory,
        Some(_) if error.kind == ErrorKind::NotFound => ErrorKind::PermissionDenied,
        Some(_) => error.kind,
    };
    Err(Error { kind, ..error }.into())
}
