//! `xdfs rm`: names go in batches, a directory when what was in it is gone. Nothing that was not listed is removed.

use super::{Done, Trouble, did, trouble, wire_name};
use crate::ask;
use crate::exit::{Exit, Failure};
use crate::plan::NamesPlan;
use crate::text::printable;
use crate::url::Url;
use xdfs_client::wire::{Call, FileType, Wanted};
use xdfs_client::{Batch, Error, ErrorKind, PendingReply, Session, failed};
use xdfs_proto::limits::CALLS_MAX;

/// Names of a directory that are removed before it is listed anew.
const NAMES_MAX: usize = 50_000;

pub(super) fn run(plan: &NamesPlan, session: &Session, url: &Url, (recursive, force): (bool, bool)) -> Done {
    let top = match session.look(wire_name(url), Wanted::NOTHING) {
        Err(error) if force && error.kind == ErrorKind::NotFound => return did(plan, "rm", url),
        other => other.map_err(|error| trouble(url, &error))?,
    };
    if top.kind != FileType::Directory {
        session.remove(wire_name(url)).map_err(|error| trouble(url, &error))?;
        return did(plan, "rm", url);
    }
    if !recursive {
        let text = format!("{url}: is a directory; -r removes it with all it holds");
        return Err(Trouble::Told(Failure::new(Exit::Refused, text), ErrorKind::IsDirectory));
    }
    if !force {
        let asked = ask::agree(&format!("Remove {url} with all it holds?"));
        // Without a terminal nobody can be asked, and -r was said.
        if asked.map_err(|error| trouble(url, &error))? == Some(false) {
            let text = format!("{url}: kept");
            return Err(Trouble::Told(Failure::new(Exit::Cancelled, text), ErrorKind::Cancelled));
        }
    }
    remove_tree(session, &wire_name(url)).map_err(|error| trouble(url, &error))?;
    did(plan, "rm", url)
}

/// Removes a directory with all it holds. The way down to where it is at work is all that is remembered besides the names of
/// one directory.
fn remove_tree(session: &Session, top: &[u8]) -> Result<(), Error> {
    let mut way: Vec<(Vec<u8>, Vec<Vec<u8>>)> = vec![(top.to_vec(), empty(session, top)?)];
    while let Some((directory, below)) = way.last_mut() {
        if let Some(name) = below.pop() {
            let next = [directory.as_slice(), b"/", &name].concat();
            let inside = empty(session, &next)?;
            way.push((next, inside));
            continue;
        }
        match session.remove_directory(&*directory) {
            // There was more than is remembered at a time, or somebody else adds to it.
            Err(error) if error.kind == ErrorKind::NotEmpty => {
                let inside = empty(session, directory)?;
                *below = inside;
            }
            other => {
                other?;
                way.pop();
            }
        }
    }
    Ok(())
}

/// Removes what is no directory in a directory, and tells the directories in it. An error of one name is the end: what is told
/// as removed is gone with all it held.
fn empty(session: &Session, directory: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    'pages: for page in session.list(directory, Wanted::NOTHING)? {
        for entry in page?.entries().into_iter().flatten() {
            let of_kind = if entry.attributes.kind == FileType::Directory { &mut directories } else { &mut files };
            of_kind.push(entry.name.to_vec());
            if files.len() + directories.len() >= NAMES_MAX {
                break 'pages;
            }
        }
    }
    let mut pending: Vec<PendingReply> = Vec::new();
    for names in files.chunks(CALLS_MAX) {
        let mut batch = Batch::new(directory);
        names.iter().for_each(|name| batch.push(&Call::Unlink { path: name }));
        pending.push(session.call(&batch)?);
    }
    for (reply, names) in pending.into_iter().zip(files.chunks(CALLS_MAX)) {
        let reply = reply.wait()?;
        for (outcome, name) in reply.read()?.outcomes.iter().zip(names) {
            match outcome {
                // Gone already: that is what was wanted.
                Err(failure) if failure.kind != ErrorKind::NotFound => {
                    let what = format!("'{}'", printable(&[directory, b"/", name].concat()));
                    return Err(Error { errno: 0, ..failed(*failure, &what) });
                }
                _ => {}
            }
        }
    }
    Ok(directories)
}
