//! The commands on names, on FTP servers.

use std::io::Write;

use super::ls::{Listing, LsEntry};
use super::rm::may_remove_all;
use super::stat::show;
use super::{Done, HELD_BYTES_MAX, NAME_BYTES, NameError, did, shortened, trouble};
use crate::cmd::ftp::facts::facts_of;
use crate::cmd::ftp::{FtpServer, FtpServers, error_of};
use crate::exit::{Exit, Failure};
use crate::output::{print, reader_is_gone};
use crate::plan::{NamesPlan, Verb};
use crate::url::Url;
use xdfs_client::{Error, ErrorKind};
use xdfs_gridftp::client;
use xdfs_gridftp::listing::{Entry, Kind};
use xdfs_gridftp::ranges::Range;

/// Names of a directory that are held at a time.
const ENTRIES_MAX: usize = 2_000_000;

/// Carries out the plan for one name.
pub(super) fn run(plan: &NamesPlan, servers: &mut FtpServers, url: &Url) -> Done {
    let server = servers.with(url).map_err(|(failure, kind)| NameError::Told(failure, kind))?;
    let done = one(plan, server, url);
    // Whatever failed may have left the session in the middle of an answer.
    if done.is_err() {
        servers.forget(url);
    }
    done
}

fn one(plan: &NamesPlan, server: &mut FtpServer, url: &Url) -> Done {
    let path = server.path(url);
    let told = |error: client::Error| trouble(url, &error_of(error));
    match &plan.verb {
        Verb::Ls { .. } => return list(plan, server, url),
        Verb::Stat { .. } => {
            let entry = found(server, url)?;
            if url.directory && entry.kind != Kind::Directory {
                return Err(trouble(url, &Error::new(ErrorKind::NotDirectory, "this is not a directory")));
            }
            return show(plan, url, &facts_of(&entry));
        }
        Verb::Cat => return cat(server, url),
        Verb::Mkdir { parents, .. } => {
            make_directories(server, url, *parents)?;
            return did(plan, "mkdir", url);
        }
        Verb::Rm { recursive, force } => return remove(plan, server, url, (*recursive, *force)),
        Verb::Mv { target, no_clobber } => {
            let to = server.path(target);
            if *no_clobber && server.session.look(&to).map_err(told)?.is_some() {
                return Err(trouble(target, &Error::new(ErrorKind::AlreadyExists, "it already exists")));
            }
            if let Err(error) = server.session.client().rename(&path, &to) {
                // Servers say little of why: a name that is not there is the usual reason.
                if matches!(error, client::Error::Refused { .. }) {
                    found(server, url)?;
                }
                return Err(told(error));
            }
        }
        Verb::Mkfifo { .. }
        | Verb::Ln { .. }
        | Verb::Symlink { .. }
        | Verb::Chmod { .. }
        | Verb::Touch { .. }
        | Verb::CatRange { .. }
        | Verb::Du { .. }
        | Verb::Find(_)
        | Verb::Df { .. } => {
            return Err(trouble(url, &Error::new(ErrorKind::Unsupported, "FTP servers cannot do that")));
        }
    }
    did(plan, "mv", url)
}

/// What a URL names; nothing is an error.
fn found(server: &mut FtpServer, url: &Url) -> Result<Entry, NameError> {
    let path = server.path(url);
    let found = server.session.look(&path).map_err(|error| trouble(url, &error_of(error)))?;
    found.ok_or_else(|| trouble(url, &Error::new(ErrorKind::NotFound, "no such file or directory")))
}

fn list(plan: &NamesPlan, server: &mut FtpServer, url: &Url) -> Done {
    let Some(listing) = Listing::of(plan) else { return Ok(()) };
    let top = found(server, url)?;
    if top.kind != Kind::Directory {
        return listing.show(url, &[LsEntry::new(url.name().unwrap_or_default(), facts_of(&top))]);
    }
    let heads = plan.urls.len() > 1 || listing.recursive();
    let (mut way, mut held, mut first) = (vec![url.clone()], 0, true);
    while let Some(directory) = way.pop() {
        if heads && !plan.json {
            let gap = if first { "" } else { "\n" };
            print(&format!("{gap}{directory}:\n"))?;
        }
        first = false;
        let mut entries = entries_of(server, &directory).map_err(|error| trouble(&directory, &error))?;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let shown: Vec<LsEntry> = entries.iter().map(|entry| LsEntry::new(&entry.name, facts_of(entry))).collect();
        listing.show(&directory, &shown)?;
        if listing.recursive() {
            for entry in entries.iter().rev().filter(|entry| entry.kind == Kind::Directory) {
                held += entry.name.len() + directory.path.as_bytes().len() + NAME_BYTES;
                let below = directory.join(&entry.name);
                way.push(
                    below
                        .map_err(|error| trouble(&directory, &Error::new(ErrorKind::InvalidPath, error.to_string())))?,
                );
            }
            if held > HELD_BYTES_MAX {
                return Err(trouble(url, &Error::new(ErrorKind::LimitExceeded, "more names than can be remembered")));
            }
        }
    }
    Ok(())
}

/// Everything in a directory.
fn entries_of(server: &mut FtpServer, url: &Url) -> Result<Vec<Entry>, Error> {
    let path = server.path(url);
    let (mut entries, mut held) = (Vec::new(), 0);
    let listed = server.session.list(&path, &mut |entry: Entry| {
        held += entry.name.len() + NAME_BYTES;
        if held <= HELD_BYTES_MAX && entries.len() < ENTRIES_MAX {
            entries.push(entry);
        }
    });
    listed.map_err(error_of)?;
    if held > HELD_BYTES_MAX || entries.len() == ENTRIES_MAX {
        return Err(Error::new(ErrorKind::LimitExceeded, "more names than can be remembered\nhelp: list parts of it"));
    }
    Ok(entries)
}

fn cat(server: &mut FtpServer, url: &Url) -> Done {
    let entry = found(server, url)?;
    let told = |error: client::Error| trouble(url, &error_of(error));
    let path = server.path(url);
    let size = match entry.size {
        Some(size) => size,
        None => server.session.client().size(&path).map_err(told)?,
    };
    let mut output = std::io::stdout().lock();
    let mut failed = None;
    let moved = server.session.client().download(&path, Range { start: 0, end: size }, &mut |_, bytes| {
        output.write_all(bytes).inspect_err(|error| {
            failed = Some(Failure::from_output(error));
        })
    });
    match (moved, failed) {
        (Ok(()), _) => Ok(output.flush().map_err(|error| Failure::from_output(&error))?),
        (Err(_), Some(_)) if reader_is_gone() => Err(NameError::Output(Failure::new(Exit::Done, ""))),
        (Err(_), Some(failure)) => Err(NameError::Output(failure)),
        (Err(error), None) => Err(told(error)),
    }
}

fn make_directories(server: &mut FtpServer, url: &Url, parents: bool) -> Done {
    let depth = url.path.depth();
    for depth in if parents { 1..=depth } else { depth..=depth } {
        let one = Url { path: url.path.prefix(depth), ..url.clone() };
        let path = server.path(&one);
        let made = server.session.client().make_directory(&path);
        match made {
            Ok(()) => {}
            // It may have been there: servers say that in many ways.
            Err(error) => match server.session.look(&path).ok().flatten() {
                Some(entry) if parents && entry.kind == Kind::Directory => {}
                Some(_) => return Err(trouble(&one, &Error::new(ErrorKind::AlreadyExists, "it already exists"))),
                None => return Err(trouble(&one, &error_of(error))),
            },
        }
    }
    Ok(())
}

fn remove(plan: &NamesPlan, server: &mut FtpServer, url: &Url, (recursive, force): (bool, bool)) -> Done {
    let path = server.path(url);
    let told = |error: client::Error| trouble(url, &error_of(error));
    let Some(top) = server.session.look(&path).map_err(told)? else {
        if force {
            return did(plan, "rm", url);
        }
        return Err(trouble(url, &Error::new(ErrorKind::NotFound, "no such file or directory")));
    };
    if top.kind != Kind::Directory {
        server.session.client().remove(&path).map_err(told)?;
        return did(plan, "rm", url);
    }
    may_remove_all(url, recursive, force)?;
    match server.session.features().facts {
        true => remove_tree(server, url).map_err(|error| trouble(url, &error))?,
        false => remove_empty(server, url)?,
    }
    did(plan, "rm", url)
}

/// Removes a directory of a server that does not tell links from directories, if it is empty: what it
/// holds may be outside of it, and only this one call stops at a link.
fn remove_empty(server: &mut FtpServer, url: &Url) -> Done {
    let path = server.path(url);
    server.session.client().remove_directory(&path).map_err(|error| {
        let refused = error_of(error);
        let text = format!(
            "{refused}; this server lists names alone (no MLSD), so that a link looks like the directory it leads to, and \
             -r removes only empty directories of it: remove what is in it by their names first"
        );
        trouble(url, &Error::new(refused.kind, text))
    })
}

/// Removes a directory with all that is listed in it. Memory holds the path down to the current one,
/// and the names along it.
fn remove_tree(server: &mut FtpServer, top: &Url) -> Result<(), Error> {
    let mut way = vec![(top.clone(), clear(server, top)?)];
    while let Some((directory, below)) = way.last_mut() {
        if let Some(name) = below.pop() {
            let url = directory.join(&name).map_err(|error| {
                Error::new(ErrorKind::InvalidPath, format!("below {}: {error}", shortened(directory)))
            })?;
            let inside = clear(server, &url)?;
            way.push((url, inside));
            continue;
        }
        let path = server.path(directory);
        server.session.client().remove_directory(&path).map_err(error_of)?;
        way.pop();
    }
    Ok(())
}

/// Removes the files of a directory, and returns its directories.
fn clear(server: &mut FtpServer, directory: &Url) -> Result<Vec<Vec<u8>>, Error> {
    let mut below = Vec::new();
    for entry in entries_of(server, directory)? {
        if entry.kind == Kind::Directory {
            below.push(entry.name);
            continue;
        }
        let url = directory.join(&entry.name);
        let path = server.path(&url.map_err(|error| Error::new(ErrorKind::InvalidPath, error.to_string()))?);
        server.session.client().remove(&path).map_err(error_of)?;
    }
    Ok(below)
}
