//! Records of uploads that have temporary names on a server: the next command removes what a killed one has left.
//!
//! They are in the state folder of the client, held as long as their command works on it. So nothing is removed that
//! another command is writing, no server can forge a record, and servers that do not list such names are tidied, too.
//! Without a state folder what a killed command leaves stays.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use xdfs_client::{Error, ErrorKind};
use xdfs_gridftp::client::{self, Session};
use xdfs_gridftp::command::Command;
use xdfs_io::store::{Folder, FoundRecord, Record};
use xdfs_secure::random;

use super::error::kind_of;
use super::part::{is_of_same_target, is_part, part_name};
use crate::plan::LoginPlan;
use crate::state;
use crate::url::Url;
use xdfs_proto::base::TransferId;

/// A part that nobody continued for so long is removed, like those of downloads.
const AGE_MAX: i64 = 7 * 24 * 60 * 60;

/// A record of a server that no command has used for so long is removed. Its parts stay.
const FORGOTTEN_AFTER: i64 = 30 * 24 * 60 * 60;

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
            if is_gone(&session.client().remove(&name)) {
                record.remove();
            }
        }
        self.done();
    }
}

/// Whether a name is gone from a server, or was not there. What the server will not remove now it may remove later.
pub(in crate::cmd) fn is_gone<T>(removed: &Result<T, client::Error>) -> bool {
    match removed {
        Ok(_) => true,
        Err(client::Error::Refused { code, reply, .. }) => matches!(
            kind_of(*code, reply),
            ErrorKind::NotFound
                | ErrorKind::NotDirectory
                | ErrorKind::IsDirectory
                | ErrorKind::InvalidPath
                | ErrorKind::Unsupported
        ),
        Err(_) => false,
    }
}

/// Whether a path is that of a temporary name of ours, which can be sent. Nothing else is recorded, and nothing else is removed
/// whatever a record says.
fn is_removable(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    is_part(name) && Command::Dele(path.to_vec()).encode().is_ok()
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
    /// has it, or if nobody can tell.
    pub(in crate::cmd) fn begin_resumable(&self, path: &[u8], name: Vec<u8>) -> Result<(Vec<u8>, PartsInUse), Error> {
        let Some(record) = self.write(Kind::Resumable, std::slice::from_ref(&name)) else {
            return Ok((part_name(path, TransferId(random::array()?)), PartsInUse::default()));
        };
        // Who does not see his own record does not see those of others.
        let (mut is_alone, mut left) = (false, Vec::new());
        let mut is_taken = false;
        for found in self.found() {
            if record.is(&found) {
                is_alone = true;
                continue;
            }
            let Some((Kind::Resumable, names)) = self.parse(&found.content) else { continue };
            let Some(one) = names.into_iter().next().filter(|one| is_of_same_target(one, &name)) else { continue };
            match found.in_use {
                true => is_taken |= one == name,
                false => left.push((one, found)),
            }
        }
        if is_taken || !is_alone {
            record.remove();
            let name = part_name(path, TransferId(random::array()?));
            let record = self.write(Kind::Scrap, std::slice::from_ref(&name));
            return Ok((name, PartsInUse { record, superseded: Vec::new() }));
        }
        let taken = left.into_iter().filter_map(|(one, found)| Some((one, self.take(&found)?)));
        // What was left under this very name goes on.
        let (same, superseded): (Vec<_>, Vec<_>) = taken.partition(|(one, _)| *one == name);
        same.into_iter().for_each(|(_, record)| record.remove());
        Ok((name, PartsInUse { record: Some(record), superseded }))
    }

    /// Removes what commands that have ended left on the server, as far as nobody will continue it.
    ///
    /// # Errors
    /// If the session is lost.
    pub(super) fn remove_left(&self, session: &mut Session) -> Result<(), client::Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let (in_use, left): (Vec<_>, Vec<_>) = self.found().into_iter().partition(|found| found.in_use);
        let in_use: BTreeSet<Vec<u8>> =
            in_use.iter().filter_map(|found| self.parse(&found.content)).flat_map(|(_, names)| names).collect();
        for found in left {
            let age = now.saturating_sub(found.written);
            let names = match self.parse(&found.content) {
                Some((Kind::Resumable, _)) if age < AGE_MAX => continue,
                Some((_, names)) => names,
                // One of another server that nobody uses any more, or one that was never filled.
                None if age >= FORGOTTEN_AFTER || found.content.is_empty() => Vec::new(),
                None => continue,
            };
            let Some(record) = self.take(&found) else { continue };
            let names = names.into_iter().filter(|name| !in_use.contains(name));
            let answers = session.client().ask_many(&names.map(Command::Dele).collect::<Vec<_>>())?;
            if age >= AGE_MAX || answers.iter().all(is_gone) {
                record.remove();
            }
        }
        Ok(())
    }

    fn folder(&self) -> Option<Folder> {
        Folder::open(self.folder.as_deref()?).ok().flatten()
    }

    fn found(&self) -> Vec<FoundRecord> {
        self.folder().and_then(|folder| folder.records().ok()).unwrap_or_default()
    }

    fn take(&self, found: &FoundRecord) -> Option<Record> {
        self.folder()?.take_record(found).ok().flatten()
    }

    fn write(&self, kind: Kind, names: &[Vec<u8>]) -> Option<Record> {
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).filter(|name| is_removable(name)).collect();
        let mut content = [kind.word(), &self.server, b"\n"].concat();
        names.iter().for_each(|name| content.extend([name, &b"\n"[..]].concat()));
        let folder = self.folder.as_deref().filter(|_| !names.is_empty())?;
        Folder::create(folder).ok()?.begin_record(&content).ok()
    }

    /// The kind and the names of a record of this server. A line without an end was being written: the server does not
    /// know that name.
    fn parse(&self, content: &[u8]) -> Option<(Kind, Vec<Vec<u8>>)> {
        let mut lines = content.split_inclusive(|&byte| byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
        let first = lines.next()?;
        let mut kinds = [Kind::Scrap, Kind::Resumable].into_iter();
        let kind = kinds.find(|kind| first.strip_prefix(kind.word()) == Some(&self.server))?;
        Some((kind, lines.filter(|name| is_removable(name)).map(<[u8]>::to_vec).collect()))
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
        all.filter_map(|one| records.parse(&one.content).map(|(kind, names)| (kind, names, !one.in_use))).collect()
    }

    #[test]
    fn names_in_use_are_known_to_be_and_left_ones_to_commands_for_the_same_server() {
        let state = tempfile::tempdir().unwrap();
        let (one, other) = (records(state.path(), "ftp://h/d"), records(state.path(), "ftp://h:2121/d"));
        let names = [0, 1].map(|number| part_name(b"/d/f", TransferId([number; 16])));
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
        let name = part_name(b"/d/f", TransferId([7; 16]));
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
        let [old, new] = [part_name(b"/d/f", TransferId([7; 16])), part_name(b"/d/f", TransferId([8; 16]))];
        drop(one.begin_resumable(b"/d/f", old.clone()).unwrap());
        drop(one.begin_resumable(b"/d/g", part_name(b"/d/g", TransferId([7; 16]))).unwrap());
        let (name, in_use) = one.begin_resumable(b"/d/f", new.clone()).unwrap();
        let superseded: Vec<&[u8]> = in_use.superseded.iter().map(|(name, _)| &name[..]).collect();
        assert!(name == new && superseded == [&old[..]]);
    }

    #[test]
    fn a_name_that_was_being_written_is_none_and_so_is_one_that_is_not_ours() {
        let state = tempfile::tempdir().unwrap();
        let one = records(state.path(), "ftp://h/d");
        let part = part_name(b"/a/f", TransferId([1; 16]));
        let lines: [&[u8]; 7] =
            [b"scrap ", &one.server, b"\n/home/anna/.ssh/authorized_keys\n", &part, b"\n/a\n\n", b"\r\n", &part];
        assert_eq!(one.parse(&lines.concat()), Some((Kind::Scrap, vec![part])));
        assert_eq!(one.parse(b""), None);
        assert_eq!(one.parse(b"scrap"), None);
    }

    #[test]
    fn a_directory_whose_name_has_lines_is_not_recorded() {
        let state = tempfile::tempdir().unwrap();
        let one = records(state.path(), "ftp://h/d");
        let named = |path: &[u8]| part_name(path, TransferId([1; 16]));
        let evil = [&b"/up/x\n"[..], &named(b"/home/anna/f"), b"\n/f"].concat();
        let in_use = one.begin(&[named(&evil), named(b"/up/f")]);
        assert_eq!(known(&one), [(Kind::Scrap, vec![named(b"/up/f")], false)]);
        in_use.done();
        let (name, in_use) = one.begin_resumable(&evil, named(&evil)).unwrap();
        assert!(in_use.record.is_none() && is_of_same_target(&name, &named(&evil)));
        assert!(one.found().is_empty());
    }

    #[test]
    fn where_nothing_can_be_recorded_no_two_commands_have_one_name() {
        let state = tempfile::tempdir().unwrap();
        std::fs::write(state.path().join(FOLDER), b"").unwrap();
        let one = records(state.path(), "ftp://h/d");
        let name = part_name(b"/d/f", TransferId([7; 16]));
        let (first, _) = one.begin_resumable(b"/d/f", name.clone()).unwrap();
        let (second, _) = one.begin_resumable(b"/d/f", name.clone()).unwrap();
        assert!(first != name && second != name && first != second);
    }
}
