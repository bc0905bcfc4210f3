//! Records of what running programs have begun: each is a small file that its program holds locked, so that another
//! tells a record whose program has ended from one that is in use.
//!
//! Must not: wait for a lock, read a record without a size limit, remove a record that is in use.

use super::{Folder, NAME_TRIES_MAX, Parent};
use crate::store::Result;
use crate::store::errors::{self, Verb};
use rustix::fs::{Dir, FlockOperation, Stat};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::os::fd::OwnedFd;

/// Bytes of a record.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// Names of a folder that are looked at.
const RECORDS_MAX: usize = 10_000;

const PREFIX: &[u8] = b"record-";

/// A record that this program holds. Dropped, it stays as that of a program that has ended.
#[derive(Debug)]
pub struct Record {
    #[expect(dead_code, reason = "holds the lock as long as it is open")]
    file: OwnedFd,
    parent: Parent,
    name: Vec<u8>,
    written: i64,
}

impl Record {
    /// When it was written, in seconds since 1970.
    pub fn written(&self) -> i64 {
        self.written
    }

    /// Removes it: what it says is done.
    pub fn remove(self) {
        // A record that stays is read by the next program, which finds nothing left to do.
        let _ = self.parent.remove(&self.name);
    }
}

/// A record that was found.
#[derive(Debug)]
pub struct FoundRecord {
    /// What it says.
    pub content: Vec<u8>,
    /// The record if its program has ended, and this one holds it now.
    pub ended: Option<Record>,
}

impl Folder {
    /// Writes a record and holds it. It is not synced: it is there for programs that were killed, not for machines.
    pub fn begin_record(&self, content: &[u8]) -> Result<Record> {
        let fail = |errno| errors::failed(Verb::Write, &self.shown, errno);
        if content.len() > RECORD_BYTES_MAX {
            return Err(fail(Errno::FBIG));
        }
        for _ in 0..NAME_TRIES_MAX {
            let mut random = [0; 16];
            getrandom(&mut random[..], GetRandomFlags::empty()).map_err(fail)?;
            let name = [PREFIX, format!("{:032x}", u128::from_be_bytes(random)).as_bytes()].concat();
            let file = self.parent.create_new(&name).map_err(fail)?;
            // Before it was locked another program may have taken it for an empty one that was left.
            if hold(&file).map_err(fail)?.is_some() {
                self.fill_record(&file, content).map_err(fail)?;
                let written = rustix::fs::fstat(&file).map_err(fail)?.st_mtime;
                return Ok(Record { file, parent: self.another_parent().map_err(fail)?, name, written });
            }
        }
        Err(fail(Errno::BUSY))
    }

    /// All records that can be read.
    pub fn records(&self) -> Result<Vec<FoundRecord>> {
        let fail = |errno| errors::failed(Verb::List, &self.shown, errno);
        let directory = Dir::read_from(&self.directory).map_err(fail)?;
        let names = directory.flatten().map(|entry| entry.file_name().to_bytes().to_vec());
        let names = names.filter(|name| name.starts_with(PREFIX)).take(RECORDS_MAX);
        Ok(names.filter_map(|name| self.found(name).ok().flatten()).collect())
    }

    /// The record of this name, unless it was removed meanwhile.
    fn found(&self, name: Vec<u8>) -> std::result::Result<Option<FoundRecord>, Errno> {
        let Some((file, _)) = self.parent.open_own(&name)? else { return Ok(None) };
        let is_held = hold(&file)?;
        let content = super::bounded(&file, RECORD_BYTES_MAX, &self.shown).map_err(|_| Errno::IO)?;
        let ended = match is_held {
            Some(stat) => Some(Record { file, parent: self.another_parent()?, name, written: stat.st_mtime }),
            None => None,
        };
        Ok(Some(FoundRecord { content, ended }))
    }

    fn another_parent(&self) -> std::result::Result<Parent, Errno> {
        rustix::io::fcntl_dupfd_cloexec(&self.directory, 0).map(Parent::new)
    }

    fn fill_record(&self, file: &OwnedFd, content: &[u8]) -> std::result::Result<(), Errno> {
        self.give(file)?;
        let mut rest = content;
        while !rest.is_empty() {
            match rustix::io::retry_on_intr(|| rustix::io::write(file, rest))? {
                0 => return Err(Errno::IO),
                count => rest = rest.get(count..).unwrap_or_default(),
            }
        }
        Ok(())
    }
}

/// Holds a file that nobody else holds and that still has its name.
fn hold(file: &OwnedFd) -> std::result::Result<Option<Stat>, Errno> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(errno) => return Err(errno),
    }
    let stat = rustix::fs::fstat(file)?;
    Ok((stat.st_nlink > 0).then_some(stat))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(folder: &Folder) -> Vec<(Vec<u8>, bool)> {
        let mut found: Vec<(Vec<u8>, bool)> =
            folder.records().unwrap().into_iter().map(|found| (found.content, found.ended.is_some())).collect();
        found.sort();
        found
    }

    #[test]
    fn a_record_is_known_to_be_in_use_until_it_is_dropped_and_gone_when_it_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Folder::create(&scratch.path().join("records")).unwrap();
        let (one, other) = (folder.begin_record(b"one").unwrap(), folder.begin_record(b"other").unwrap());
        assert_eq!(contents(&folder), [(b"one".to_vec(), false), (b"other".to_vec(), false)]);
        drop(one);
        assert_eq!(contents(&folder), [(b"one".to_vec(), true), (b"other".to_vec(), false)]);
        // Looking at a record takes nothing of it.
        assert_eq!(contents(&folder).len(), 2);
        other.remove();
        for found in folder.records().unwrap() {
            found.ended.unwrap().remove();
        }
        assert_eq!(contents(&folder), []);
    }

    #[test]
    fn only_one_program_holds_a_record_that_was_left() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Folder::create(scratch.path()).unwrap();
        drop(folder.begin_record(b"left").unwrap());
        let first = folder.records().unwrap();
        assert!(first[0].ended.is_some() && folder.records().unwrap()[0].ended.is_none());
        drop(first);
        assert!(folder.records().unwrap()[0].ended.is_some());
    }

    #[test]
    fn a_record_has_a_bound_and_what_is_none_is_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Folder::create(scratch.path()).unwrap();
        assert!(folder.begin_record(&vec![0; RECORD_BYTES_MAX + 1]).is_err());
        folder.replace("users", b"x").unwrap();
        assert_eq!(contents(&folder), []);
    }
}
