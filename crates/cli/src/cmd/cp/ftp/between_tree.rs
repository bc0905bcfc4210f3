//! Directories from one server to another, one of which at least is an FTP server: file by file as `between` and `relay`
//! copy one.
//!
//! A name that is in the way of another is reported and stays. What the source does not have is removed at the end, if that
//! is asked for and nothing failed (`surplus`).

use std::net::IpAddr;
use std::time::Instant;

use xdfs_client::tree::EntryAction;
use xdfs_client::wire::FileType;
use xdfs_client::{Error, ErrorKind, Safety};
use xdfs_gridftp::listing::{Entry, Kind};

use super::super::Copy;
use super::super::failure::Failed;
use super::super::monitor::FileOutcome;
use super::super::tree::names;
use super::ends::Names;
use super::surplus::{Surplus, SurplusNames};
use super::tree_state::{TreeState, below};
use crate::address;
use crate::cmd::ftp::part::is_part;
use crate::exit::{Exit, Failure};
use crate::output::{CopiedTree, Endpoint};
use crate::plan::TreePlan;
use crate::url::{FROM_ROOT, Url, Via};

/// Most directories that wait to be copied.
const DIRECTORIES_MAX: usize = 1_000_000;

/// A tree in progress.
struct Tree<'p> {
    /// Directories that are still to be copied.
    waiting: Vec<Directory>,
    state: TreeState<'p>,
    /// What the target has and the source has not.
    surplus: SurplusNames,
}

/// A directory that is to be copied.
struct Directory {
    from: Url,
    to: Url,
    /// Its path below the top.
    path: Vec<u8>,
    /// A dry run has not made it.
    is_missing: bool,
}

impl Copy<'_> {
    /// Copies the directory `from` to `to`, which is made if it is missing.
    pub(in crate::cmd::cp) fn tree_between(&mut self, from: &Url, to: &Url, plan: &TreePlan) -> Result<Exit, Failure> {
        let began = Instant::now();
        let (filter, _) = names::filter(plan)?;
        let top = Directory { from: from.clone(), to: to.clone(), path: Vec::new(), is_missing: false };
        let (state, surplus) = (TreeState::new(plan, filter), SurplusNames::default());
        let mut tree = Tree { waiting: vec![top], state, surplus };
        let mut prepared = self.prepare_ftp_tree(from, plan.delete);
        if plan.delete.is_some() {
            prepared = prepared.and_then(|()| self.prepare_ftp_tree(to, plan.delete));
        }
        if let Err(failed) = prepared.and_then(|()| self.must_not_hold(from, to, plan.delete.is_some())) {
            return self.monitor.tell(Err(failed));
        }
        while let Some(directory) = tree.waiting.pop() {
            if self.monitor.stopped() {
                tree.state.exits.push(Exit::Cancelled);
                break;
            }
            let names = self.names_of(&directory.from);
            match names.and_then(|names| Ok((names, self.made(&directory, &mut tree)?))) {
                Ok((names, there)) => self.directory_between(&directory, names, there, &mut tree)?,
                Err(failed) => self.tell_failed(failed, &mut tree.state)?,
            }
            // Every other name would wait as long for a server that is gone.
            if tree.state.exits.contains(&Exit::ConnectionLost) {
                break;
            }
        }
        if plan.delete.is_some() {
            self.remove_surplus(to, tree.surplus, &mut tree.state)?;
        }
        let exit = match Exit::of_all(&tree.state.exits) {
            exit @ (Exit::Done | Exit::Cancelled | Exit::ConnectionLost) => exit,
            _ if tree.state.summary.failed > 0 => Exit::SomeFailed,
            exit => exit,
        };
        let copied = CopiedTree {
            source: Endpoint::from(from),
            target: Endpoint::from(to),
            summary: tree.state.summary,
            causes: tree.state.causes,
            elapsed: began.elapsed(),
            channels: self.options.channels,
            level: self.level_of(from).min(self.level_of(to)),
            retries: 0,
            dry_run: plan.dry_run,
            archive: false,
            ok: exit == Exit::Done,
        };
        self.monitor.tell_tree(&copied)?;
        Ok(exit)
    }

    /// A directory that is copied into itself would never end, and one that holds its source would lose it with what it has
    /// besides.
    fn must_not_hold(&mut self, from: &Url, to: &Url, deletes: bool) -> Result<(), Failed> {
        let is_same = self.ftp.is_same(from, to);
        // Another port, user or way may lead to the same files. Nobody knows, and what is removed is gone.
        if !(is_same || deletes && is_of_same_host(from, to)) {
            return Ok(());
        }
        let (Some(source), Some(target)) = (self.path_from_root(from)?, self.path_from_root(to)?) else {
            return Ok(());
        };
        let shown = to.to_string();
        let refused = |text: &str| {
            // A directory that may be another machine's is not called the same.
            let doubt = if is_same { "" } else { " (this may be the same machine by another name)" };
            Failed::of_peer(&shown, Error::new(ErrorKind::InvalidPath, format!("{text}{doubt}")))
        };
        let (is_inside, holds) = (is_within(&target, &source), is_within(&source, &target));
        // One path of two servers may be two directories.
        if is_inside && (is_same || !holds) {
            let mut failed = refused("a directory cannot be copied into itself");
            if !is_same {
                failed.failure = failed.failure.help("leave --delete out, or name a target that is not in the source");
            }
            return Err(failed);
        }
        if deletes && holds && !is_inside {
            let mut failed = refused("--delete: the source is in this directory, and would be removed");
            failed.failure = failed.failure.help("leave --delete out, or name a target that does not hold the source");
            return Err(failed);
        }
        Ok(())
    }

    /// The path of a directory in the file system of its server, if it is known.
    fn path_from_root(&mut self, url: &Url) -> Result<Option<Vec<u8>>, Failed> {
        if !url.is_ftp() {
            let is_known = url.via == Via::Ssh && url.export == FROM_ROOT;
            return Ok(is_known.then(|| [b"/", url.path.as_bytes()].concat()));
        }
        let server = self.ftp.with(url).map_err(|failed| Failed::of_session(&url.to_string(), failed))?;
        Ok(Some(server.path(url)))
    }

    /// Copies what a directory holds; directories in it wait.
    fn directory_between(
        &mut self,
        directory: &Directory,
        names: Names,
        there: Option<Names>,
        tree: &mut Tree<'_>,
    ) -> Result<(), Failure> {
        let (is_missing, there) = (there.is_none(), there.unwrap_or_default());
        if tree.state.plan.delete.is_some() {
            note_surplus(directory, &names, &there, tree);
        }
        for (name, entry) in names {
            if self.monitor.stopped() {
                tree.state.exits.push(Exit::Cancelled);
                return Ok(());
            }
            let path = below(&directory.path, &name);
            let (Ok(from), Ok(to)) = (directory.from.join(&name), directory.to.join(&name)) else {
                let error = Error::new(ErrorKind::InvalidPath, "no name that can be copied");
                self.tell_failed(Failed::of_peer(&directory.from.to_string(), error), &mut tree.state)?;
                continue;
            };
            match entry.kind {
                Kind::Directory | Kind::File if !tree.state.takes(&path, entry.kind == Kind::Directory) => {}
                // A link there may lead anywhere: nothing is copied through it, nor removed behind it.
                Kind::Directory if there.get(&name).is_some_and(|there| there.kind != Kind::Directory) => {
                    let error = Error::new(ErrorKind::NotDirectory, "not a directory, and in the way of one");
                    self.tell_failed(Failed::of_peer(&to.to_string(), error), &mut tree.state)?;
                }
                Kind::Directory if tree.waiting.len() < DIRECTORIES_MAX => {
                    // Only a dry run goes below what is not there.
                    let is_missing = is_missing || tree.state.plan.dry_run && !there.contains_key(&name);
                    tree.waiting.push(Directory { from, to, path, is_missing });
                }
                Kind::Directory => {
                    let error = Error::new(ErrorKind::LimitExceeded, "more directories than can be held");
                    self.tell_failed(Failed::of_peer(&from.to_string(), error), &mut tree.state)?;
                }
                Kind::File if there.get(&name).is_some_and(|there| self.is_done(&entry, there)) => {
                    tree.state.summary.skipped += 1;
                    let skipped = &mut tree.state.summary.skipped_bytes;
                    *skipped = skipped.saturating_add(entry.size.unwrap_or(0));
                    self.monitor.output().name_done(&path, EntryAction::Skipped, tree.state.plan.dry_run)?;
                }
                Kind::File => {
                    self.file_between((&from, &to), (&path, &entry), there.get(&name), tree)?;
                    if tree.state.exits.last().is_some_and(|exit| matches!(exit, Exit::ConnectionLost)) {
                        return Ok(());
                    }
                }
                Kind::Other | Kind::Itself => tree.state.summary.passed_over += 1,
            }
        }
        Ok(())
    }

    fn file_between(
        &mut self,
        (from, to): (&Url, &Url),
        (path, entry): (&[u8], &Entry),
        there: Option<&Entry>,
        tree: &mut Tree<'_>,
    ) -> Result<(), Failure> {
        let copied = match tree.state.plan.dry_run {
            true if there.is_some_and(|there| there.kind == Kind::Directory) => {
                let error = Error::new(ErrorKind::IsDirectory, "is a directory");
                return self.tell_failed(Failed::of_peer(&to.to_string(), error), &mut tree.state);
            }
            true => Some(entry.size.unwrap_or(0)),
            false => match self.copy_between((from, to), (1, 1)) {
                Ok(FileOutcome::Copied(_, copied)) => Some(copied.bytes),
                Ok(_) => None,
                Err(failed) => return self.tell_failed(failed, &mut tree.state),
            },
        };
        let action = match copied {
            Some(bytes) => {
                tree.state.summary.files += 1;
                tree.state.summary.bytes = tree.state.summary.bytes.saturating_add(bytes);
                EntryAction::Copied { bytes, safety: Safety::Written, replaces: there.is_some() }
            }
            None => {
                tree.state.summary.skipped += 1;
                EntryAction::Skipped
            }
        };
        self.monitor.output().name_done(path, action, tree.state.plan.dry_run)
    }

    /// Whether a file is there already: of the same length and time, or any if those that exist are kept.
    fn is_done(&self, source: &Entry, there: &Entry) -> bool {
        let is_same = source.size.is_some() && source.size == there.size && source.modified == there.modified;
        there.kind == Kind::File && (self.options.keep_existing || is_same && source.modified.is_some())
    }

    /// What a directory holds; uploads that are not whole are none of it.
    fn names_of(&mut self, url: &Url) -> Result<Names, Failed> {
        let mut names = self.all_names_of(url)?;
        if url.is_ftp() {
            names.retain(|name, _| !is_part(name));
        }
        Ok(names)
    }

    /// Makes a directory, or lists one that is there; none if a dry run would have made it.
    fn made(&mut self, directory: &Directory, tree: &mut Tree<'_>) -> Result<Option<Names>, Failed> {
        let url = &directory.to;
        let found = match tree.state.plan.dry_run {
            true if directory.is_missing => None,
            true => self.look(url)?,
            false => self.make_one(url)?,
        };
        match found {
            None => {
                tree.state.summary.directories += 1;
                Ok(if tree.state.plan.dry_run { None } else { Some(Names::new()) })
            }
            Some(found) if found.kind == FileType::Directory => self.names_of(url).map(Some),
            Some(_) => Err(Failed::of_peer(&url.to_string(), Error::new(ErrorKind::NotDirectory, "not a directory"))),
        }
    }
}

/// Notes what only the target has of a directory.
fn note_surplus(directory: &Directory, names: &Names, there: &Names, tree: &mut Tree<'_>) {
    for (name, entry) in there.iter().filter(|(name, _)| !names.contains_key(*name)) {
        let (path, is_directory) = (below(&directory.path, name), entry.kind == Kind::Directory);
        // A name that no URL has was made by no copy.
        if tree.state.takes(&path, is_directory)
            && let Ok(url) = directory.to.join(name)
        {
            tree.surplus.add(Surplus { url, path, is_directory }, tree.state.plan.delete.unwrap_or(0));
        }
    }
}

/// Whether two URLs may name the same host, whatever its port, its user and the way to it: by one name, by names that lead
/// to the same address, or to addresses of this machine. Only ssh knows which host a name means for it.
fn is_of_same_host(one: &Url, other: &Url) -> bool {
    let name = |url: &Url| url.host.to_string().trim_end_matches('.').to_ascii_lowercase();
    if one.via == Via::Ssh || other.via == Via::Ssh || name(one) == name(other) {
        return true;
    }
    // What cannot be told apart now may be the same.
    let (Some(one), Some(other)) = (addresses(one), addresses(other)) else { return true };
    let are_here = |all: &[IpAddr]| all.iter().any(|address| is_here(*address));
    one.iter().any(|address| other.contains(address)) || are_here(&one) && are_here(&other)
}

/// Whether it is an address of this machine.
fn is_here(address: IpAddr) -> bool {
    address.is_loopback() || std::net::UdpSocket::bind((address, 0)).is_ok()
}

/// The addresses of a host; none if its name cannot be resolved now.
fn addresses(url: &Url) -> Option<Vec<IpAddr>> {
    let found = address::resolve(url).ok()?;
    Some(found.iter().map(|address| address.ip().to_canonical()).collect())
}

/// Whether a path is that of a directory, or leads to something in it.
fn is_within(path: &[u8], directory: &[u8]) -> bool {
    let bare = |path: &[u8]| path.len() - path.iter().rev().take_while(|&&byte| byte == b'/').count();
    let (path, directory) = (&path[..bare(path)], &directory[..bare(directory)]);
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_within_a_directory_is_it_or_below_it() {
        for (path, directory) in [("/a", "/a"), ("/a/", "/a"), ("/a", "/a/"), ("/a/b", "/a"), ("/a", "/"), ("/", "/")] {
            assert!(is_within(path.as_bytes(), directory.as_bytes()), "{path} in {directory}");
        }
        for (path, directory) in [("/a", "/a/b"), ("/ab", "/a"), ("/", "/a"), ("/b/a", "/a")] {
            assert!(!is_within(path.as_bytes(), directory.as_bytes()), "{path} in {directory}");
        }
    }

    #[test]
    fn a_host_is_the_same_with_another_port_user_or_way() {
        let url = |text: &str| Url::parse(std::ffi::OsStr::new(text)).unwrap();
        let one = url("ftp://h.example/a");
        for same in ["ftp://anna@H.example:2121/a", "gsiftp://h.example/a", "ssh://h.example/a"] {
            assert!(is_of_same_host(&one, &url(same)), "{same}");
        }
        // Nobody knows where a name leads that cannot be resolved.
        assert!(is_of_same_host(&one, &url("ftp://i.invalid/a")));
        assert!(!is_of_same_host(&url("ftp://192.0.2.1/a"), &url("ftp://192.0.2.2/a")));
    }

    #[test]
    fn a_host_is_the_same_by_another_of_its_names() {
        let url = |text: &str| Url::parse(std::ffi::OsStr::new(text)).unwrap();
        for (one, other) in [
            ("ftp://localhost/a", "ftp://127.0.0.1:2121/a"),
            ("ftp://[::1]/a", "ftp://127.0.0.1/a"),
            ("ftp://127.0.0.1/a", "ftp://[::ffff:127.0.0.1]/a"),
            ("ftp://192.0.2.1/a", "ssh://alias/a"),
        ] {
            assert!(is_of_same_host(&url(one), &url(other)), "{one} {other}");
        }
        assert!(!is_of_same_host(&url("ftp://127.0.0.1/a"), &url("ftp://192.0.2.1/a")));
    }
}
