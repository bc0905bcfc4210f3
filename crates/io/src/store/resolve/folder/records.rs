//! Records of what running programs have begun: each is a small file that its program holds locked, so that another
//! tells a record whose program has ended from one that is in use.
//!
//! Must not: wait for a lock, read a record without a size limit, remove a record that is in use.

use super::{Folder, NAME_TRIES_MAX, Parent};
use crate::store::Result;
use crate::store::errors::{self, Verb};
use crate::store::locked_file::LockedFile;
use rustix::fs::{Dir, FlockOperation};
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
    #[expect(dead_code, reason = "holds the lock")]
    file: LockedFile,
    parent: Parent,
    name: Vec<u8>,
}

impl Record {
    /// Whether this is the record that was found.
    pub fn is(&self, found: &FoundRecord) -> bool {
        self.name == found.name
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
    name: Vec<u8>,
    /// What it says.
    pub content: Vec<u8>,
    /// When it was written, in seconds since 1970.
    pub written: i64,
    /// Whether a program that runs holds it.
    pub in_use: bool,
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
            match self.begin(file, &name, content) {
                Ok(Some(record)) => return Ok(record),
                failed => {
                    // Nothing stays of it.
                    let _ = self.parent.remove(&name);
                    failed.map_err(fail)?;
                }
            }
        }
        Err(fail(Errno::BUSY))
    }

    /// Holds and fills a record; none if another program looked at it just then, and may have taken it for one that was left.
    fn begin(&self, file: OwnedFd, name: &[u8], content: &[u8]) -> std::result::Result<Option<Record>, Errno> {
        let Some(file) = hold(file)? else { return Ok(None) };
        fill(&file, content)?;
        Ok(Some(Record { file, parent: self.another_parent()?, name: name.to_vec() }))
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
        let Some((file, stat)) = self.parent.open_own(&name)? else { return Ok(None) };
        // Those who only look do not exclude each other.
        let in_use = !is_had(&file, FlockOperation::NonBlockingLockShared)?;
        let file = LockedFile::new(file);
        let content = super::bounded(&file, RECORD_BYTES_MAX, &self.shown).map_err(|_| Errno::IO)?;
        Ok(Some(FoundRecord { name, content, written: stat.st_mtime, in_use }))
    }

    /// Holds a record whose program has ended; none if it is held, or gone.
    pub fn take_record(&self, found: &FoundRecord) -> Result<Option<Record>> {
        self.take(found).map_err(|errno| errors::failed(Verb::Open, &self.shown, errno))
    }

    fn take(&self, found: &FoundRecord) -> std::result::Result<Option<Record>, Errno> {
        let Some((file, _)) = self.parent.open_own(&found.name)? else { return Ok(None) };
        let Some(file) = hold(file)? else { return Ok(None) };
        Ok(Some(Record { file, parent: self.another_parent()?, name: found.name.clone() }))
    }

    fn another_parent(&self) -> std::result::Result<Parent, Errno> {
        rustix::io::fcntl_dupfd_cloexec(&self.directory, 0).map(Parent::new)
    }
}

fn fill(file: &OwnedFd, content: &[u8]) -> std::result::Result<(), Errno> {
    let mut rest = content;
    while !rest.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::write(file, rest))? {
            0 => return Err(Errno::IO),
            count => rest = rest.get(count..).unwrap_or_default(),
        }
    }
    Ok(())
}

/// Holds a file that nobody else holds or looks at, and that still has its name.
fn hold(file: OwnedFd) -> std::result::Result<Option<LockedFile>, Errno> {
    if !is_had(&file, FlockOperation::NonBlockingLockExclusive)? {
        return Ok(None);
    }
    let file = LockedFile::new(file);
    Ok((rustix::fs::fstat(&file)?.st_nlink > 0).then_some(file))
}

fn is_had(file: &OwnedFd, lock: FlockOperation) -> std::result::Result<bool, Errno> {
    match rustix::fs::flock(file, lock) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(folder: &Folder) -> Vec<(Vec<u8>, bool)> {
        let mut found: Vec<(Vec<u8>, bool)> =
            folder.records().unwrap().into_iter().map(|found| (found.content, found.in_use)).collect();
        found.sort();
        found
    }

    #[test]
    fn a_record_is_known_to_be_in_use_until_it_is_dropped_and_gone_when_it_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Folder::create(&scratch.path().join("records")).unwrap();
        let (one, other) = (folder.begin_record(b"one").unwrap(), folder.begin_record(b"other").unwrap());
        assert_eq!(contents(&folder), [(b"one".to_vec(), true), (b"other".to_vec(), true)]);
        drop(one);
        assert_eq!(contents(&folder), [(b"one".to_vec(), false), (b"other".to_vec(), true)]);
        let found = folder.records().unwrap();
        assert_eq!(found.iter().filter(|found| other.is(found)).count(), 1);
        for found in &found {
            let taken = folder.take_record(found).unwrap();
            assert_eq!(taken.is_some(), !other.is(found), "what is held is not taken");
            taken.into_iter().for_each(Record::remove);
        }
        other.remove();
        assert_eq!(contents(&folder), []);
        assert!(folder.take_record(&found[0]).unwrap().is_none(), "it is gone");
    }

    #[test]
    fn many_look_at_a_record_at_a_time_and_one_takes_it() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Folder::create(scratch.path()).unwrap();
        drop(folder.begin_record(b"left").unwrap());
        let name = folder.records().unwrap().remove(0).name;
        // Somebody else looks just now.
        let (looking, _) = folder.parent.open_own(&name).unwrap().unwrap();
        assert!(is_had(&looking, FlockOperation::NonBlockingLockShared).unwrap());
        let found = folder.records().unwrap();
        assert!(!found[0].in_use && folder.take_record(&found[0]).unwrap().is_none());
        drop(LockedFile::new(looking));
        let first = folder.take_record(&found[0]).unwrap();
        assert!(first.is_some() && folder.take_record(&found[0]).unwrap().is_none());
        assert!(folder.records().unwrap()[0].in_use);
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
