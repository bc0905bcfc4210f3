//! Trees that were begun under a new name and are incomplete: the same command resumes there, and
//! not below it.
//!
//! `cp -r` copies into an existing directory. After an interruption the directory exists because of
//! the copy itself, so begun copies are recorded in the state folder: since the record is the
//! client's, it works with servers of any version, and no peer can forge one. Without a state
//! folder only cp's rule applies.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use xdfs_client::{Error, Facts};
use xdfs_io::store::{Folder, Secrecy};
use xdfs_secure::naming;

use crate::plan::LoginPlan;
use crate::state;
use crate::url::Url;

/// The file in the state folder: a line for each copy, with its id and when it was begun (seconds
/// since 1970).
const FILE: &str = "unfinished";
const LOCK: &str = "unfinished.lock";
/// A copy that was not resumed for this long is forgotten, like its part files.
const AGE_MAX: u64 = 7 * 24 * 60 * 60;
/// Copies that are remembered; beyond that the oldest are forgotten.
const COPIES_MAX: usize = 1000;
/// Bytes of a line: 32 digits, a space, at most 20 digits, its end.
const LINE_BYTES_MAX: usize = 54;

/// One copy, identified by source and target.
#[derive(Debug)]
pub(super) struct UnfinishedMark {
    state: Option<PathBuf>,
    id: String,
}

impl UnfinishedMark {
    pub(super) fn up(login: &LoginPlan, source: &Path, target: &Url) -> Self {
        Self::of(login, b"tree up", source, target)
    }

    pub(super) fn down(login: &LoginPlan, source: &Url, target: &Path) -> Self {
        Self::of(login, b"tree down", target, source)
    }

    /// For a tree that was made elsewhere and is to get the target's name: exactly the one that was
    /// `found`, as far as its server distinguishes two.
    pub(super) fn named(login: &LoginPlan, source: &Path, target: &Url, found: &Facts) -> Option<Self> {
        let way = [b"tree named ", found.inode?.as_slice()].concat();
        Some(Self::of(login, &way, source, target))
    }

    /// For a tree that is kept beside its target until it is complete: in exactly this directory.
    pub(super) fn beside(login: &LoginPlan, source: &Url, target: &Path, (inode, born): (u64, u128)) -> Self {
        let way = [b"tree beside ", &inode.to_be_bytes()[..], &born.to_be_bytes()].concat();
        Self::of(login, &way, target, source)
    }

    fn of(login: &LoginPlan, way: &[u8], here: &Path, there: &Url) -> Self {
        let [here, there] = ends(here, there);
        let id = naming::transfer_id(&[way, &here, &there]);
        let id = format!("{:032x}", u128::from_be_bytes(id.0));
        Self { state: state::own(login.state.as_deref()).ok(), id }
    }

    /// Whether this copy was begun and is incomplete.
    pub(super) fn stands(&self) -> bool {
        let folder = self.state.as_deref().and_then(|state| Folder::open(state).ok().flatten());
        folder.is_some_and(|folder| read(&folder, now()).iter().any(|(id, _)| *id == self.id))
    }

    /// Records that it is begun. If that cannot be written, cp's rule applies after an
    /// interruption, and the reason is returned.
    pub(super) fn set(&self) -> Result<(), String> {
        if self.state.is_none() {
            return Err("there is no state folder".to_owned());
        }
        self.change(|lines| lines.push((self.id.clone(), now()))).map_err(|error| error.to_string())
    }

    /// It is complete, or nothing of it exists.
    pub(super) fn clear(&self) {
        if self.stands() {
            let _ = self.change(|_| {});
        }
    }

    /// Writes all lines except its own, and those that `change` adds.
    fn change(&self, change: impl FnOnce(&mut Vec<(String, u64)>)) -> Result<(), Error> {
        let Some(state) = &self.state else { return Ok(()) };
        let folder = Folder::create(state)?;
        let _lock = folder.lock(LOCK)?;
        let mut lines = read(&folder, now());
        lines.retain(|(id, _)| *id != self.id);
        change(&mut lines);
        let surplus = lines.len().saturating_sub(COPIES_MAX);
        let text: String = lines.iter().skip(surplus).map(|(id, since)| format!("{id} {since}\n")).collect();
        folder.replace(FILE, text.as_bytes())
    }
}

/// What identifies the ends of one copy however they are named: the server whatever was specified
/// about its key, and the directory from wherever it is named.
pub(super) fn ends(here: &Path, there: &Url) -> [Vec<u8>; 2] {
    let there = Url { key: None, directory: false, ..there.clone() }.to_string();
    [absolute(here), there.into_bytes()]
}

fn absolute(here: &Path) -> Vec<u8> {
    let here = std::path::absolute(here).unwrap_or_else(|_| here.to_owned());
    let here: PathBuf = here.components().collect();
    here.into_os_string().into_encoded_bytes()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The recorded copies that are not too old. Invalid lines are ignored.
fn read(folder: &Folder, now: u64) -> Vec<(String, u64)> {
    let bytes = folder.read(FILE, COPIES_MAX * LINE_BYTES_MAX, Secrecy::Public).ok().flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let line = |line: &str| {
        let (id, since) = line.split_once(' ')?;
        Some((id.to_owned(), since.parse().ok()?))
    };
    text.lines().filter_map(line).filter(|(_, since)| now.saturating_sub(*since) < AGE_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(std::ffi::OsStr::new(text)).unwrap()
    }

    #[test]
    fn a_mark_stands_for_one_command_until_it_is_cleared() {
        let scratch = tempfile::tempdir().unwrap();
        let state = scratch.path();
        let login = LoginPlan { state: Some(state.to_owned()), ..LoginPlan::default() };
        let mark = UnfinishedMark::up(&login, Path::new("a"), &url("xdfs://h/e/new"));
        let same = UnfinishedMark::up(&login, &std::path::absolute("a/").unwrap(), &url("xdfs://h/e/new/"));
        let others = [
            UnfinishedMark::up(&login, Path::new("b"), &url("xdfs://h/e/new")),
            UnfinishedMark::up(&login, Path::new("a"), &url("xdfs://u@h/e/new")),
            UnfinishedMark::down(&login, &url("xdfs://h/e/new"), Path::new("a")),
        ];
        assert!(!mark.stands());
        mark.clear();
        mark.set().unwrap();
        mark.set().unwrap();
        assert!(mark.stands() && same.stands());
        assert!(others.iter().all(|other| !other.stands()));
        others[0].set().unwrap();
        same.clear();
        assert!(!mark.stands() && others[0].stands());
        let folder = Folder::open(state).unwrap().unwrap();
        assert_eq!(read(&folder, now()).len(), 1);
        assert_eq!(read(&folder, now() + AGE_MAX).len(), 0);
        let many = (0..2 * COPIES_MAX).map(|number| (format!("{number:032x}"), now()));
        mark.change(|lines| lines.extend(many)).unwrap();
        assert_eq!(read(&folder, now()).len(), COPIES_MAX);
    }
}
