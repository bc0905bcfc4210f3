//! `xdfs rm`: names are removed in batches, a directory when it is empty. Nothing that was not
//! listed is removed.
//!
//! A server may list without end: the names of a directory and those along the path down to it are
//! bounded, as is a path, and a directory that is never empty is left in place.

use super::{Done, HELD_BYTES_MAX, NAME_BYTES, NameError, did, shortened, trouble, unnameable, wire_name};
use crate::ask;
use crate::exit::{Exit, Failure};
use crate::plan::NamesPlan;
use crate::text::printable;
use crate::url::Url;
use xdfs_client::wire::{Call, FileType, Wanted};
use xdfs_client::{Batch, Error, ErrorKind, PendingReply, Session, failed};
use xdfs_proto::limits::CALLS_MAX;

/// Names of a directory that are removed before it is listed again.
const NAMES_MAX: usize = 50_000;

/// How often a directory that was emptied is emptied again because it has new entries.
const ROUNDS_MAX: u32 = 100;

pub(super) fn run(plan: &NamesPlan, session: &Session, url: &Url, (recursive, force): (bool, bool)) -> Done {
    let top = match session.look(wire_name(url), Wanted::NOTHING) {
        Err(error) if force && error.kind == ErrorKind::NotFound => return did(plan, "rm", url),
        other => other.map_err(|error| trouble(url, &error))?,
    };
    if top.kind != FileType::Directory {
        session.remove(wire_name(url)).map_err(|error| trouble(url, &error))?;
        return did(plan, "rm", url);
    }
    may_remove_all(url, recursive, force)?;
    remove_tree(session, url).map_err(|error| trouble(url, &error))?;
    did(plan, "rm", url)
}

/// An error if a directory stays: `-r` was not given, or the user says no.
pub(super) fn may_remove_all(url: &Url, recursive: bool, force: bool) -> Done {
    if !recursive {
        let text = format!("{url}: is a directory\nhelp: -r removes it with all it holds");
        return Err(NameError::Told(Failure::new(Exit::Usage, text), ErrorKind::IsDirectory));
    }
    if !force {
        let asked = ask::agree(&format!("Remove {url} with all it holds?"));
        // Without a terminal there is no prompt, and -r was specified.
        if asked.map_err(|error| trouble(url, &error))? == Some(false) {
            let text = format!("{url}: kept");
            return Err(NameError::Told(Failure::new(Exit::Cancelled, text), ErrorKind::Cancelled));
        }
    }
    Ok(())
}

/// A directory on the path down to the current one.
struct Level {
    url: Url,
    /// Its subdirectories that are still to be removed.
    below: Vec<Vec<u8>>,
    /// How often it was emptied.
    rounds: u32,
}

/// Removes a directory with all its contents. Memory holds only the path down to the current
/// directory and the names of one directory.
fn remove_tree(session: &Session, top: &Url) -> Result<(), Error> {
    let mut held = 0;
    let mut way = vec![Level { url: top.clone(), below: empty(session, top, &mut held)?.directories, rounds: 0 }];
    while let Some(level) = way.last_mut() {
        if let Some(name) = level.below.pop() {
            held -= name.len() + NAME_BYTES;
            let url = level.url.below(&name).ok_or_else(|| unnameable(&level.url, &name))?;
            let below = empty(session, &url, &mut held)?.directories;
            way.push(Level { url, below, rounds: 0 });
            continue;
        }
        match session.remove_directory(wire_name(&level.url)) {
            // There were more names than fit in memory, or another process adds to it.
            Err(error) if error.kind == ErrorKind::NotEmpty => {
                let inside = empty(session, &level.url, &mut held)?;
                level.rounds = if inside.whole { level.rounds + 1 } else { 0 };
                if inside.nothing || level.rounds > ROUNDS_MAX {
                    let text = format!("{}: never empty, though all that is listed was removed", shortened(&level.url));
                    return Err(Error::new(ErrorKind::NotEmpty, text));
                }
                level.below = inside.directories;
            }
            other => {
                other?;
                way.pop();
            }
        }
    }
    Ok(())
}

/// The contents of a directory.
struct Inside {
    /// The directories, which still exist.
    directories: Vec<Vec<u8>>,
    /// All of it was listed.
    whole: bool,
    /// The listing was empty.
    nothing: bool,
}

/// Removes all entries of a directory except directories, and returns those; their names are added
/// to `held`. An error of one name ends it: a name that is reported as removed is gone with all its
/// contents.
fn empty(session: &Session, directory: &Url, held: &mut usize) -> Result<Inside, Error> {
    let (mut files, mut directories, mut whole) = (Vec::new(), Vec::new(), true);
    'pages: for page in session.list(wire_name(directory), Wanted::NOTHING)? {
        for entry in page?.entries().into_iter().flatten() {
            if entry.attributes.kind == FileType::Directory {
                *held += entry.name.len() + NAME_BYTES;
                directories.push(entry.name.to_vec());
            } else {
                files.push(entry.name.to_vec());
            }
            // One entry of each directory is always handled, however much is held.
            if files.len() + directories.len() >= NAMES_MAX || *held >= HELD_BYTES_MAX {
                whole = false;
                break 'pages;
            }
        }
    }
    let nothing = files.is_empty() && directories.is_empty();
    unlink(session, directory, &files)?;
    Ok(Inside { directories, whole, nothing })
}

fn unlink(session: &Session, directory: &Url, files: &[Vec<u8>]) -> Result<(), Error> {
    let mut pending: Vec<PendingReply> = Vec::new();
    for names in files.chunks(CALLS_MAX) {
        let mut batch = Batch::new(wire_name(directory));
        names.iter().for_each(|name| batch.push(&Call::Unlink { path: name }));
        pending.push(session.call(&batch)?);
    }
    for (reply, names) in pending.into_iter().zip(files.chunks(CALLS_MAX)) {
        let reply = reply.wait()?;
        for (outcome, name) in reply.read()?.outcomes.iter().zip(names) {
            match outcome {
                // Already removed, as intended.
                Err(failure) if failure.kind != ErrorKind::NotFound => {
                    let what = format!("'{}'", printable(&[&wire_name(directory), b"/".as_slice(), name].concat()));
                    return Err(Error { errno: 0, ..failed(*failure, &what) });
                }
                _ => {}
            }
        }
    }
    Ok(())
}
