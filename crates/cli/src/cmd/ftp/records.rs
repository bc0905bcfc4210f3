//! Records of uploads that have temporary names on a server: the next command removes what a killed one has left.
//!
//! They are in the state folder of the client, held as long as their command works on it. So nothing is removed that
//! another command is writing, no server can forge a record, and servers that do not list such names are tidied, too.
//! Without a state folder what a killed command leaves stays.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use xdfs_client::Error;
use xdfs_gridftp::client::{self, Session};
use xdfs_gridftp::command::Command;
use xdfs_io::store::{Folder, FoundRecord, Record};
use xdfs_secure::random;

use super::part::{is_of_same_target, part_name};
use crate::plan::LoginPlan;
use crate::state;
use crate::url::Url;

/// A part that nobody continued for so long is removed, like those of downloads.
const AGE_MAX: i64 = 7 * 24 * 60 * 60;

/// Its folder in the state folder.
const FOLDER: &str = "ftp-uploads";

/// What becomes of a part whose command has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Nobody continues it: it is removed.
    Scrap,
    /// The same command continues it.
    Resumable,
}

impl Kind {
    fn word(self) -> &'static [u8] {
        match self {
            Self::Scrap => b"scrap ",
            Self::Resumable => b"resumable ",
        }
    }
}

/// The records of uploads to one server.
#[derive(Clone, Debug)]
pub(in crate::cmd) struct PartRecords {
    folder: Option<PathBuf>,
    server: Vec<u8>,
}

/// Temporary names that are in use. Dropped, they are left for the next command.
#[derive(Debug, Default)]
pub(in crate::cmd) struct PartsInUse {
    record: Option<Record>,
    /// Parts of other versions of the same target, which nobody continues any more, with their records.
    superseded: Vec<(Vec<u8>, Record)>,
}

impl PartsInUse {
    /// They have their final names, or are removed.
    pub(in crate::cmd) fn done(self) {
        self.record.into_iter().for_each(Record::remove);
    }

    /// The same, and what the target had of other versions is removed, too.
    pub(in crate::cmd) fn done_with(mut self, session: &mut Session) {
        for (name, record) in std::mem::take(&mut self.superseded) {
            if is_answered(&session.client().remove(&name)) {
                record.remove();
            }
        }
        self.done();
    }
}

/// Whether a server has said what became of a command. That there is nothing to remove is usual.
fn is_answered(removed: &Result<(), client::Error>) -> bool {
    matches!(removed, Ok(()) | Err(client::Error::Refused { .. }))
}

impl PartRecords {
    /// Those of uploads to the server of this URL, by its user.
    pub(super) fn of(url: &Url, login: &LoginPlan) -> Self {
        let user = url.user.as_deref().unwrap_or_default();
        let server = format!("{:?} {user} {} {}", url.via, url.host, url.port);
        Self { folder: state::own(login.state.as_deref()).ok().map(|state| state.join(FOLDER)), server: server.into() }
    }

    /// Records temporary names that no later command continues, before the server knows of them.
    pub(in crate::cmd) fn begin(&self, names: &[Vec<u8>]) -> PartsInUse {
        PartsInUse { record: self.write(Kind::Scrap, names), superseded: Vec::new() }
    }

    /// Records the name of a part that the next command continues: this one, or another if a command that is running
    /// has it.
    pub(in crate::cmd) fn begin_resumable(&self, path: &[u8], name: Vec<u8>) -> Result<(Vec<u8>, PartsInUse), Error> {
        let record = self.write(Kind::Resumable, std::slice::from_ref(&name));
        let (mut superseded, mut holders) = (Vec::new(), 0);
        for found in self.found() {
            let Some((Kind::Resumable, names)) = self.parse(&found.content) else { continue };
            let Some(one) = names.into_iter().next().filter(|one| is_of_same_target(one, &name)) else { continue };
            match found.ended {
                Some(record) => superseded.push((one, record)),
                None => holders += usize::from(one == name),
            }
        }
        // One of the holders is this command.
        let is_taken = holders > usize::from(record.is_some());
        // What was left under this very name goes on.
        let (same, superseded): (Vec<_>, Vec<_>) = superseded.into_iter().partition(|(one, _)| *one == name);
        if !is_taken {
            same.into_iter().for_each(|(_, record)| record.remove());
            return Ok((name, PartsInUse { record, superseded }));
        }
        record.into_iter().for_each(Record::remove);
        let name = part_name(path, &random::array()?);
        let record = self.write(Kind::Scrap, std::slice::from_ref(&name));
        Ok((name, PartsInUse { record, superseded: Vec::new() }))
    }

    /// Removes what commands that have ended left on the server, as far as nobody will continue it.
    ///
    /// # Errors
    /// If the session is lost.
    pub(super) fn remove_left(&self, session: &mut Session) -> Result<(), client::Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        for found in self.found() {
            let (Some((kind, names)), Some(record)) = (self.parse(&found.content), found.ended) else { continue };
            if kind == Kind::Resumable && now.saturating_sub(record.written()) < AGE_MAX {
                continue;
            }
            let commands: Vec<Command> = names.into_iter().map(Command::Dele).collect();
            // That the server has no such name any more is as good.
            session.client().ask_many(&commands)?;
            record.remove();
        }
        Ok(())
    }

    fn folder(&self) -> Option<Folder> {
        Folder::open(self.folder.as_deref()?).ok().flatten()
    }

    fn found(&self) -> Vec<FoundRecord> {
        self.folder().and_then(|folder| folder.records().ok()).unwrap_or_default()
    }

    fn write(&self, kind: Kind, names: &[Vec<u8>]) -> Option<Record> {
        let mut content = [kind.word(), &self.server, b"\n"].concat();
        names.iter().for_each(|name| content.extend([name, &b"\n"[..]].concat()));
        Folder::create(self.folder.as_deref()?).ok()?.begin_record(&content).ok()
    }

    /// The kind and the names of a record of this server. A line without an end was being written: the server does not
    /// know that name.
    fn parse(&self, content: &[u8]) -> Option<(Kind, Vec<Vec<u8>>)> {
        let mut lines = content.split_inclusive(|&byte| byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
        let first = lines.next()?;
        let mut kinds = [Kind::Scrap, Kind::Resumable].into_iter();
        let kind = kinds.find(|kind| first.strip_prefix(kind.word()) == Some(&self.server))?;
        Some((kind, lines.map(<[u8]>::to_vec).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(state: &std::path::Path, url: &str) -> PartRecords {
        let login = LoginPlan { state: Some(state.to_owned()), ..LoginPlan::default() };
        PartRecords::of(&Url::parse(std::ffi::OsStr::new(url)).unwrap(), &login)
    }

    /// What is recorded of one server, and whether its command has ended.
    fn known(records: &PartRecords) -> Vec<(Kind, Vec<Vec<u8>>, bool)> {
        let all = records.found().into_iter();
        all.filter_map(|one| records.parse(&one.content).map(|(kind, names)| (kind, names, one.ended.is_some())))
            .collect()
    }

    #[test]
    fn names_in_use_are_known_to_be_and_left_ones_to_commands_for_the_same_server() {
        let state = tempfile::tempdir().unwrap();
        let (one, other) = (records(state.path(), "ftp://h/d"), records(state.path(), "ftp://h:2121/d"));
        let names = [b"/d/.xdfs-0.part".to_vec(), b"/d/.xdfs-1.part".to_vec()];
        let in_use = one.begin(&names);
        assert_eq!(known(&one), [(Kind::Scrap, names.to_vec(), false)]);
        drop(in_use);
        assert_eq!(known(&one), [(Kind::Scrap, names.to_vec(), true)]);
        assert!(known(&other).is_empty());
        one.begin(&names).done();
        assert_eq!(known(&one).len(), 1);
    }

    #[test]
    fn two_commands_never_write_one_part_and_the_next_continues_it() {
        let state = tempfile::tempdir().unwrap();
        let one = records(state.path(), "ftp://h/d");
        let name = part_name(b"/d/f", &[7; 16]);
        let (first, in_use) = one.begin_resumable(b"/d/f", name.clone()).unwrap();
        let (second, beside) = one.begin_resumable(b"/d/f", name.clone()).unwrap();
        assert!(first == name && second != name && is_of_same_target(&second, &name));
        assert_eq!(known(&one).len(), 2);
        drop(in_use);
        beside.done();
        let (third, in_use) = one.begin_resumable(b"/d/f", name.clone()).unwrap();
        assert!(third == name && in_use.superseded.is_empty());
        in_use.done();
        assert!(known(&one).is_empty());
    }

    #[test]
    fn the_part_of_another_version_of_a_file_is_superseded_and_that_of_another_file_is_not() {
        let state = tempfile::tempdir().unwrap();
        let one = records(state.path(), "ftp://h/d");
        let [old, new] = [part_name(b"/d/f", &[7; 16]), part_name(b"/d/f", &[8; 16])];
        drop(one.begin_resumable(b"/d/f", old.clone()).unwrap());
        drop(one.begin_resumable(b"/d/g", part_name(b"/d/g", &[7; 16])).unwrap());
        let (name, in_use) = one.begin_resumable(b"/d/f", new.clone()).unwrap();
        let superseded: Vec<&[u8]> = in_use.superseded.iter().map(|(name, _)| &name[..]).collect();
        assert!(name == new && superseded == [&old[..]]);
    }

    #[test]
    fn a_name_that_was_being_written_is_none() {
        let state = tempfile::tempdir().unwrap();
        let one = records(state.path(), "ftp://h/d");
        let whole = [&b"scrap "[..], &one.server, b"\n/a\n/b"].concat();
        assert_eq!(one.parse(&whole), Some((Kind::Scrap, vec![b"/a".to_vec()])));
        assert_eq!(one.parse(b""), None);
        assert_eq!(one.parse(b"scrap"), None);
    }
}
