//! Patterns in URLs: `xdfs://host/data/*.txt` stands for the names that fit. The shell leaves them
//! alone where they are quoted, or fit no file here.

use xdfs_client::wire::{FileType, Wanted};
use xdfs_client::{Error, ErrorKind, Session};

use super::remote::{Sessions, wire_name};
use crate::exit::{Exit, Failure, Side};
use crate::glob;
use crate::url::{PathPattern, Url};

/// Memory for names that fit, of which a server may list any number.
const HELD_BYTES_MAX: usize = 256 << 20;

/// What a URL stands for: itself, if the server has that name or it is no pattern; else the names that
/// fit, in order. Names that begin with a dot fit only a pattern that does, as in a shell.
pub(super) fn expand(sessions: &mut Sessions, url: &Url) -> Result<Vec<Url>, (Failure, ErrorKind)> {
    let itself = || vec![Url { pattern: None, ..url.clone() }];
    let Some(pattern) = &url.pattern else { return Ok(itself()) };
    let (session, _) = sessions.with(url)?;
    let failed = |error: Error| {
        let failure = Failure::new(Exit::of_error(&error, Side::Peer), format!("{url}: {error}"));
        (failure, error.kind)
    };
    if exists(session, url).map_err(failed)? {
        return Ok(itself());
    }
    let fitting = fitting(session, url, pattern).map_err(failed)?;
    if fitting.is_empty() {
        let failure = Failure::new(Exit::NotFound, format!("{url}: no name fits this pattern"));
        return Err((failure, ErrorKind::NotFound));
    }
    Ok(fitting)
}

/// The same for several; a pattern that nothing fits ends the command before it begins.
pub(super) fn expand_all(sessions: &mut Sessions, urls: &[Url]) -> Result<Vec<Url>, Failure> {
    let mut all = Vec::with_capacity(urls.len());
    for url in urls {
        all.extend(expand(sessions, url).map_err(|(failure, _)| failure)?);
    }
    Ok(all)
}

/// There is nothing there, or what has no names: a file, or a link that the server does not follow.
fn nothing_is_below(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::NotFound | ErrorKind::NotDirectory | ErrorKind::NotRegular)
}

fn exists(session: &Session, url: &Url) -> Result<bool, Error> {
    match session.look(wire_name(url), Wanted::NOTHING) {
        Ok(_) => Ok(true),
        Err(error) if nothing_is_below(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn fitting(session: &Session, url: &Url, pattern: &PathPattern) -> Result<Vec<Url>, Error> {
    let top = Url { path: url.path.prefix(0), pattern: None, directory: false, ..url.clone() };
    let depth = url.path.depth();
    // Without a pattern in it, a name was not looked up yet.
    let (mut found, mut unseen) = (vec![top], false);
    for (at, (name, pattern)) in (1..).zip(url.path.components().zip(pattern.components())) {
        let Some(pattern) = pattern else {
            found = found.iter().filter_map(|url| url.join(name).ok()).collect();
            unseen = true;
            continue;
        };
        let (mut next, mut held) = (Vec::new(), 0);
        for directory in &found {
            let names = names_in(session, directory, pattern, at < depth || url.directory, &mut held)?;
            if held > HELD_BYTES_MAX {
                let text = "more names fit this pattern than are remembered\nhelp: write a narrower one";
                return Err(Error::new(ErrorKind::LimitExceeded, text));
            }
            next.extend(names);
        }
        (found, unseen) = (next, false);
    }
    if unseen {
        let mut there = Vec::new();
        for url in found {
            if exists(session, &url)? {
                there.push(url);
            }
        }
        found = there;
    }
    let (directory, contents) = (url.directory, url.contents);
    Ok(found.into_iter().map(|found| Url { directory, contents, ..found }).collect())
}

/// The names in a directory that fit, in order; what they take is added to `held`. A name that is no
/// directory has none.
fn names_in(
    session: &Session,
    directory: &Url,
    pattern: &[u8],
    only_directories: bool,
    held: &mut usize,
) -> Result<Vec<Url>, Error> {
    let mut names = Vec::new();
    let pages = match session.list(wire_name(directory), Wanted::NOTHING) {
        Err(error) if nothing_is_below(&error) => return Ok(names),
        pages => pages?,
    };
    for page in pages {
        let page = match page {
            Err(error) if nothing_is_below(&error) => return Ok(names),
            page => page?,
        };
        for entry in page.entries().into_iter().flatten() {
            let kind = entry.attributes.kind;
            let is_wanted = !only_directories || matches!(kind, FileType::Directory | FileType::Symlink);
            let hidden = entry.name.starts_with(b".") && !pattern.starts_with(b".");
            if !is_wanted || hidden || !glob::fits(pattern, entry.name) {
                continue;
            }
            let Some(url) = directory.below(entry.name) else { continue };
            *held += url.memory();
            names.push(url);
            if *held > HELD_BYTES_MAX {
                // Which the caller finds, too.
                return Ok(names);
            }
        }
    }
    names.sort_unstable_by(|one, other| one.path.as_bytes().cmp(other.path.as_bytes()));
    Ok(names)
}
