//! Directories from one FTP server to another, file by file as `between` copies one.
//!
//! Nothing is removed on either side, and a name that is in the way of another is reported: so there is nothing to plan.

use std::collections::BTreeMap;
use std::time::Instant;

use xdfs_client::tree::Summary;
use xdfs_client::{Error, ErrorKind};
use xdfs_gridftp::client;
use xdfs_gridftp::listing::{Entry, Kind};

use super::super::Copy;
use super::super::failure::Failed;
use super::super::monitor::FileOutcome;
use super::is_usable_after;
use crate::cmd::ftp::error_of;
use crate::cmd::ftp::part::is_part;
use crate::exit::{Exit, Failure};
use crate::output::{CopiedTree, Endpoint};
use crate::url::Url;

/// Most names of one directory that are held.
const NAMES_MAX: usize = 1_000_000;

/// Most directories that wait to be copied.
const DIRECTORIES_MAX: usize = 1_000_000;

/// The entries of a directory by their names.
type Names = BTreeMap<Vec<u8>, Entry>;

/// A tree in progress.
struct Tree {
    /// Directories that are still to be copied: from where, to where.
    waiting: Vec<(Url, Url)>,
    summary: Summary,
    exits: Vec<Exit>,
}

impl Copy<'_> {
    /// Copies the directory `from` to `to`, which is made if it is missing.
    pub(in crate::cmd::cp) fn tree_between(&mut self, from: &Url, to: &Url) -> Result<Exit, Failure> {
        let began = Instant::now();
        let mut tree =
            Tree { waiting: vec![(from.clone(), to.clone())], summary: Summary::default(), exits: Vec::new() };
        if let Err(failed) = self.prepare_ftp_tree(from, None).and_then(|()| self.must_not_hold(from, to)) {
            return self.monitor.tell(Err(failed));
        }
        while let Some((from, to)) = tree.waiting.pop() {
            if self.monitor.stopped() {
                tree.exits.push(Exit::Cancelled);
                break;
            }
            let names = self.names_of(&from).and_then(|names| Ok((names, self.made_ftp(&to, &mut tree.summary)?)));
            match names {
                Ok((names, there)) => self.directory_between((&from, &to), names, &there, &mut tree)?,
                Err(failed) => self.tell_failed(failed, &mut tree)?,
            }
            // Every other name would wait as long for a server that is gone.
            if tree.exits.contains(&Exit::ConnectionLost) {
                break;
            }
        }
        let exit = Exit::of_all(&tree.exits);
        let copied = CopiedTree {
            source: Endpoint::from(from),
            target: Endpoint::from(to),
            summary: tree.summary,
            elapsed: began.elapsed(),
            channels: self.options.channels,
            level: self.ftp.level(from).min(self.ftp.level(to)),
            retries: 0,
            dry_run: false,
            ok: exit == Exit::Done,
        };
        self.monitor.tell_tree(&copied)?;
        Ok(exit)
    }

    /// A directory that is copied into itself would never end.
    fn must_not_hold(&mut self, from: &Url, to: &Url) -> Result<(), Failed> {
        if !self.ftp.is_same(from, to) {
            return Ok(());
        }
        let server = self.ftp.with(from).map_err(|failed| Failed::of_session(&from.to_string(), failed))?;
        let (outer, inner) = (server.path(from), server.path(to));
        let outer = outer.strip_suffix(b"/").unwrap_or(&outer);
        match inner.strip_prefix(outer) {
            Some(rest) if rest.is_empty() || rest.starts_with(b"/") => {
                let error = Error::new(ErrorKind::InvalidPath, "a directory cannot be copied into itself");
                Err(Failed::of_peer(&to.to_string(), error))
            }
            _ => Ok(()),
        }
    }

    /// Copies what a directory holds; directories in it wait.
    fn directory_between(
        &mut self,
        (from, to): (&Url, &Url),
        names: Names,
        there: &Names,
        tree: &mut Tree,
    ) -> Result<(), Failure> {
        for (name, entry) in names {
            if self.monitor.stopped() {
                tree.exits.push(Exit::Cancelled);
                return Ok(());
            }
            let (Ok(from), Ok(to)) = (from.join(&name), to.join(&name)) else {
                let error = Error::new(ErrorKind::InvalidPath, "no name that can be copied");
                self.tell_failed(Failed::of_peer(&from.to_string(), error), tree)?;
                continue;
            };
            match entry.kind {
                Kind::Directory if tree.waiting.len() < DIRECTORIES_MAX => tree.waiting.push((from, to)),
                Kind::Directory => {
                    let error = Error::new(ErrorKind::LimitExceeded, "more directories than can be held");
                    self.tell_failed(Failed::of_peer(&from.to_string(), error), tree)?;
                }
                Kind::File if there.get(&name).is_some_and(|there| self.is_done(&entry, there)) => {
                    tree.summary.skipped += 1;
                    tree.summary.skipped_bytes += entry.size.unwrap_or(0);
                }
                Kind::File => {
                    match self.with_patience(&to, true, |copy| copy.between_ftp(&from, &to, (1, 1))) {
                        Ok(FileOutcome::Copied(_, copied)) => {
                            tree.summary.files += 1;
                            tree.summary.bytes += copied.bytes;
                        }
                        Ok(_) => tree.summary.skipped += 1,
                        Err(failed) => self.tell_failed(failed, tree)?,
                    }
                    if tree.exits.last().is_some_and(|exit| matches!(exit, Exit::ConnectionLost)) {
                        return Ok(());
                    }
                }
                Kind::Other | Kind::Itself => tree.summary.passed_over += 1,
            }
        }
        Ok(())
    }

    fn tell_failed(&mut self, failed: Failed, tree: &mut Tree) -> Result<(), Failure> {
        tree.summary.failed += 1;
        tree.exits.push(self.monitor.tell(Err(failed))?);
        Ok(())
    }

    /// Whether a file is there already: of the same length and time, or any if those that exist are kept.
    fn is_done(&self, source: &Entry, there: &Entry) -> bool {
        let is_same = source.size.is_some() && source.size == there.size && source.modified == there.modified;
        there.kind == Kind::File && (self.options.keep_existing || is_same && source.modified.is_some())
    }

    /// What a directory holds; uploads that are not whole are none of it.
    fn names_of(&mut self, url: &Url) -> Result<Names, Failed> {
        let shown = url.to_string();
        let server = self.ftp.with(url).map_err(|failed| Failed::of_session(&shown, failed))?;
        let (path, mut names, mut is_whole) = (server.path(url), Names::new(), true);
        let listed = server.session.list(&path, &mut |entry| {
            is_whole &= names.len() < NAMES_MAX;
            if is_whole && !is_part(&entry.name) {
                names.insert(entry.name.clone(), entry);
            }
        });
        match listed {
            Ok(_) if is_whole => Ok(names),
            Ok(_) => Err(Failed::of_peer(&shown, Error::new(ErrorKind::LimitExceeded, "more names than can be held"))),
            Err(error) => Err(self.failed_upload(url, error)),
        }
    }

    /// Makes a directory, or lists one that is there.
    fn made_ftp(&mut self, url: &Url, summary: &mut Summary) -> Result<Names, Failed> {
        let shown = url.to_string();
        let server = self.ftp.with(url).map_err(|failed| Failed::of_session(&shown, failed))?;
        let path = server.path(url);
        let refused = match server.session.client().make_directory(&path) {
            Ok(()) => {
                summary.directories += 1;
                return Ok(Names::new());
            }
            Err(error @ client::Error::Refused { .. }) => error,
            Err(error) => return Err(self.failed_upload(url, error)),
        };
        match server.session.look(&path) {
            Ok(Some(entry)) if entry.kind == Kind::Directory => self.names_of(url),
            Ok(Some(_)) => Err(Failed::of_peer(&shown, Error::new(ErrorKind::NotDirectory, "not a directory"))),
            Ok(None) => Err(Failed::of_peer(&shown, error_of(refused))),
            Err(error) => {
                if !is_usable_after(&error) {
                    self.ftp.forget(url);
                }
                Err(Failed::of_peer(&shown, error_of(error)))
            }
        }
    }
}
