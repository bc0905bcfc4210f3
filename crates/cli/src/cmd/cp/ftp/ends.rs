//! The two ends of a tree between servers: what is asked of either kind of server.

use std::collections::BTreeMap;

use xdfs_client::wire::{FileType, Wanted};
use xdfs_client::{Error, ErrorKind, Facts, Level};
use xdfs_gridftp::client;
use xdfs_gridftp::listing::{Entry, Kind};

use super::super::failure::Failed;
use super::super::monitor::FileOutcome;
use super::super::{Copy, wire_name};
use super::surplus::Surplus;
use crate::cmd::ftp::error_of;
use crate::cmd::ftp::facts::{digits_of, facts_of};
use crate::url::Url;

/// Most names of one directory that are held.
const NAMES_MAX: usize = 1_000_000;

/// Permissions of directories that are made, before the server's umask.
const DIRECTORY_MODE: u32 = 0o777;

/// The entries of a directory by their names.
pub(super) type Names = BTreeMap<Vec<u8>, Entry>;

impl Copy<'_> {
    /// Copies a file, again if a server was lost meanwhile.
    pub(super) fn copy_between(
        &mut self,
        (source, target): (&Url, &Url),
        number: (usize, usize),
    ) -> Result<FileOutcome, Failed> {
        // The session with the server of xdfs is a new one then; those with FTP servers know when they are lost.
        let server = if source.is_ftp() { target } else { source };
        let copied = self.with_patience(server, true, |copy| match (source.is_ftp(), target.is_ftp()) {
            _ if copy.options.dry_run => copy.plan_between(source, target, number),
            (true, true) => copy.between_ftp(source, target, number),
            (true, false) => copy.relay_from_ftp(source, target, number),
            (false, _) => copy.relay_to_ftp(source, target, number),
        });
        // A tree of which many files fail would keep as many records open, and parts on the server.
        if target.is_ftp() {
            self.ftp.leave_parts(target);
        }
        copied
    }

    /// How the data of a server are protected.
    pub(super) fn level_of(&self, url: &Url) -> Level {
        if url.is_ftp() { self.ftp.level(url) } else { self.options.level }
    }

    /// All that a directory holds.
    pub(super) fn all_names_of(&mut self, url: &Url) -> Result<Names, Failed> {
        if !url.is_ftp() {
            return self.names_of_session(url);
        }
        let shown = url.to_string();
        let deletes = self.ftp.deletes;
        let server = self.ftp.with(url).map_err(|failed| Failed::of_session(&shown, failed))?;
        let (path, mut names, mut is_whole) = (server.path(url), Names::new(), true);
        let mut take = |entry: Entry| {
            is_whole &= names.len() < NAMES_MAX;
            if is_whole {
                names.insert(entry.name.clone(), entry);
            }
        };
        // Where names that are not listed are removed, nobody between may have cut the list.
        let listed = match deletes {
            true => server.session.list_whole(&path, &mut take),
            false => server.session.list(&path, &mut take),
        };
        match listed {
            Ok(_) if is_whole => {
                names.retain(|_, entry| entry.kind != Kind::Itself);
                Ok(names)
            }
            Ok(_) => Err(Failed::of_peer(&shown, too_many())),
            Err(error) => Err(self.failed_upload(url, error)),
        }
    }

    /// The same of a server of xdfs. Links are none of the files that are copied, and not followed.
    fn names_of_session(&mut self, url: &Url) -> Result<Names, Failed> {
        let shown = url.to_string();
        let told = |error: Error| Failed::of_peer(&shown, error);
        let session = self.session_of(url)?;
        let wanted = Wanted::SIZE.and(Wanted::MODIFIED);
        let (mut names, mut pages) = (Names::new(), session.list(wire_name(url), wanted).map_err(told)?);
        for page in pages.by_ref() {
            let page = page.map_err(told)?;
            for entry in page.entries().into_iter().flatten() {
                if names.len() == NAMES_MAX {
                    return Err(told(too_many()));
                }
                let kind = match entry.attributes.kind {
                    FileType::Regular => Kind::File,
                    FileType::Directory => Kind::Directory,
                    _ => Kind::Other,
                };
                let modified = entry.attributes.modified.and_then(digits_of);
                let name = entry.name.to_vec();
                names.insert(name.clone(), Entry { name, kind, size: entry.attributes.size, modified, mode: None });
            }
        }
        if !pages.is_complete() {
            return Err(told(Error::new(ErrorKind::ConnectionLost, "the list of names ended early")));
        }
        Ok(names)
    }

    /// Makes a directory. What is there already is returned.
    pub(super) fn make_one(&mut self, url: &Url) -> Result<Option<Facts>, Failed> {
        let shown = url.to_string();
        if !url.is_ftp() {
            return match self.session_of(url)?.make_directory(wire_name(url), DIRECTORY_MODE, false) {
                Ok(()) => Ok(None),
                Err(error) if error.kind == ErrorKind::AlreadyExists => self.look(url),
                // Nobody makes the top of an export.
                Err(error) => match self.look(url)? {
                    Some(found) if url.path.is_root() => Ok(Some(found)),
                    _ => Err(Failed::of_peer(&shown, error)),
                },
            };
        }
        let server = self.ftp.with(url).map_err(|failed| Failed::of_session(&shown, failed))?;
        let path = server.path(url);
        let made = match server.session.client().make_directory(&path) {
            Ok(()) => Ok(None),
            Err(error @ client::Error::Refused { .. }) => match server.session.look(&path) {
                Ok(Some(found)) => Ok(Some(facts_of(&found))),
                Ok(None) => return Err(Failed::of_peer(&shown, error_of(error))),
                Err(lost) => Err(lost),
            },
            Err(error) => Err(error),
        };
        made.map_err(|error| self.failed_upload(url, error))
    }

    /// Removes a name.
    pub(super) fn remove_one(&mut self, surplus: &Surplus) -> Result<(), Failed> {
        let (shown, url) = (surplus.url.to_string(), &surplus.url);
        if !url.is_ftp() {
            let (session, name) = (self.session_of(url)?, wire_name(url));
            let removed = if surplus.is_directory { session.remove_directory(name) } else { session.remove(name) };
            return removed.map_err(|error| Failed::of_peer(&shown, error));
        }
        let server = self.ftp.with(url).map_err(|failed| Failed::of_session(&shown, failed))?;
        let path = server.path(url);
        let client = server.session.client();
        let removed = if surplus.is_directory { client.remove_directory(&path) } else { client.remove(&path) };
        removed.map_err(|error| self.failed_upload(url, error))
    }
}

fn too_many() -> Error {
    Error::new(ErrorKind::LimitExceeded, "more names than can be held")
}
