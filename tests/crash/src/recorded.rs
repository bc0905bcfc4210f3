//! The calls of the real store, as strace saw them, replayed on a disk that loses what ext4 may lose: bytes that were not synced,
//! and names that were not synced, the later ones first, each directory by itself. Behind every call every name is judged in
//! every state that a power cut can leave there.
//!
//! A call that is not understood changes nothing here, so a record of another program proves nothing: its files must be named.

use std::collections::{BTreeMap, BTreeSet};

/// A process that there is not; the question whether it is there marks in a trace where a checkpoint is done.
pub const CHECKPOINT: i32 = 0x3fff_fff2;

/// The file that `put-large` puts, and its length.
pub const LARGE: &str = "large";
/// See [`LARGE`].
pub const LARGE_BYTES: u64 = 8 << 20;

/// A file as the medium may have it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Inode {
    written: u64,
    synced: u64,
}

/// What a directory's names stand for, one change after the other; a rename in it is one change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Directory {
    changes: Vec<Vec<(String, Option<usize>)>>,
    /// Changes that are on the medium.
    stable: usize,
}

impl Directory {
    /// What a name stands for when so many changes are on the medium; none where it stands for what it did before.
    fn binding(&self, name: &str, survived: usize) -> Option<Option<usize>> {
        let changes = self.changes[..survived].iter().rev().flatten();
        changes.filter(|(changed, _)| changed == name).map(|(_, inode)| *inode).next()
    }
}

/// A file that the program is to put, and whether its name stood for something before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// Its path.
    pub path: String,
    /// Its bytes.
    pub length: u64,
    /// See the type.
    pub old: bool,
}

/// What a record came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// States of names that were judged.
    pub states: usize,
    /// Calls that changed the disk.
    pub calls: usize,
    /// Checkpoints that were judged.
    pub checkpoints: usize,
    /// The first promise that was broken.
    pub broken: Option<String>,
}

/// A disk that replays the calls which strace recorded and loses what ext4 may lose.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    inodes: Vec<Inode>,
    /// By the path that the kernel shows for an open file, and `#123 (deleted)` for one without a name.
    by_path: BTreeMap<String, usize>,
    directories: BTreeMap<String, Directory>,
}

/// A call as strace writes it: its name, its arguments, its answer.
struct Call<'a> {
    name: &'a str,
    arguments: &'a str,
    answer: &'a str,
}

impl<'a> Call<'a> {
    /// None for a call that failed or was not answered on its line, and for what is no call.
    fn read(line: &'a str) -> Option<Self> {
        let text = line.trim_start_matches(|letter: char| letter.is_ascii_digit()).trim_start();
        let (name, rest) = text.split_once('(')?;
        let (arguments, answer) = rest.rsplit_once(" = ")?;
        (!answer.starts_with('-')).then_some(Self { name, arguments, answer: answer.trim() })
    }

    /// The paths of descriptors, in order, as `-y` shows them.
    fn paths(&self) -> Vec<&'a str> {
        let behind = self.arguments.split('<').skip(1);
        behind.filter_map(|text| text.split_once('>')).map(|(path, _)| path).collect()
    }

    /// The strings in quotes, in order.
    fn strings(&self) -> Vec<&'a str> {
        self.arguments.split('"').skip(1).step_by(2).collect()
    }
}

impl Disk {
    /// Directories that are there, and synced, before the first call.
    pub fn new(directories: &[String]) -> Self {
        let directories = directories.iter().map(|path| (path.clone(), Directory::default())).collect();
        Self { directories, ..Self::default() }
    }

    /// Replays `log` and judges behind each call; `told` names the files of which durable was told at its end.
    pub fn replay(mut self, log: &str, expected: &[Expected], told: &BTreeSet<String>) -> Report {
        let mut report = Report::default();
        let mark = format!("kill({CHECKPOINT}");
        for line in log.lines() {
            if line.contains(&mark) {
                self.judge_checkpoint(&mut report);
            }
            let Some(call) = Call::read(line) else { continue };
            if self.apply(&call) {
                report.calls += 1;
                self.judge(expected, &BTreeSet::new(), line, &mut report);
            }
        }
        self.judge(expected, told, "the last call", &mut report);
        report
    }

    /// Makes a call; whether it changed anything.
    fn apply(&mut self, call: &Call<'_>) -> bool {
        let (paths, strings) = (call.paths(), call.strings());
        match (call.name, &paths[..]) {
            ("openat" | "openat2", [directory, ..]) if call.arguments.contains("O_CREAT") => {
                let Some(path) = call.answer.split_once('<').map(|(_, path)| path.trim_end_matches('>')) else {
                    return false;
                };
                let inode = self.inode(path);
                self.change(directory, vec![(strings[0].to_owned(), Some(inode))]);
            }
            ("pwrite64" | "write", [path, ..]) if self.is_ours(path) => {
                let inode = self.inode(path);
                self.inodes[inode].written += call.answer.parse::<u64>().unwrap_or_default();
            }
            ("fsync" | "fdatasync", [path, ..]) => self.sync(path),
            ("syncfs", _) => {
                self.inodes.iter_mut().for_each(|inode| inode.synced = inode.written);
                self.directories.values_mut().for_each(|directory| directory.stable = directory.changes.len());
            }
            ("linkat", [path, directory, ..]) => {
                let inode = self.inode(path);
                self.change(directory, vec![(strings[1].to_owned(), Some(inode))]);
            }
            ("renameat" | "renameat2", [from, to, ..]) => {
                let inode = self.inode(&format!("{from}/{}", strings[0]));
                self.by_path.remove(&format!("{from}/{}", strings[0]));
                let (gone, named) = ((strings[0].to_owned(), None), (strings[1].to_owned(), Some(inode)));
                if from == to {
                    self.change(to, vec![gone, named]);
                } else {
                    self.change(from, vec![gone]);
                    self.change(to, vec![named]);
                }
            }
            ("unlinkat", [directory, ..]) => self.change(directory, vec![(strings[0].to_owned(), None)]),
            ("mkdirat", [directory, ..]) => {
                let made = format!("{directory}/{}", strings[0]);
                self.inodes.push(Inode::default());
                self.directories.insert(made, Directory::default());
                self.change(directory, vec![(strings[0].to_owned(), Some(self.inodes.len() - 1))]);
            }
            _ => return false,
        }
        true
    }

    /// Whether a path is in a directory of the record.
    fn is_ours(&self, path: &str) -> bool {
        path.rsplit_once('/').is_some_and(|(directory, _)| self.directories.contains_key(directory))
    }

    fn inode(&mut self, path: &str) -> usize {
        *self.by_path.entry(path.to_owned()).or_insert_with(|| {
            self.inodes.push(Inode::default());
            self.inodes.len() - 1
        })
    }

    fn change(&mut self, directory: &str, names: Vec<(String, Option<usize>)>) {
        for (name, inode) in &names {
            if let Some(inode) = inode {
                self.by_path.insert(format!("{directory}/{name}"), *inode);
            }
        }
        if let Some(directory) = self.directories.get_mut(directory) {
            directory.changes.push(names);
        }
    }

    fn sync(&mut self, path: &str) {
        if let Some(directory) = self.directories.get_mut(path) {
            directory.stable = directory.changes.len();
        } else {
            let inode = self.inode(path);
            self.inodes[inode].synced = self.inodes[inode].written;
        }
    }

    fn judge(&self, expected: &[Expected], told: &BTreeSet<String>, behind: &str, report: &mut Report) {
        for file in expected {
            let Some((folder, name)) = file.path.rsplit_once('/') else { continue };
            let directory = self.directories.get(folder).cloned().unwrap_or_default();
            let told = told.contains(&file.path);
            for survived in directory.stable..=directory.changes.len() {
                report.states += 1;
                let wrong = match directory.binding(name, survived) {
                    Some(Some(inode)) if self.is_whole(inode, file.length) => None,
                    Some(Some(_)) => Some("may hold a part of its bytes"),
                    Some(None) if file.old => Some("may stand for nothing"),
                    _ if told => Some("may not be there, and durable was told"),
                    _ => None,
                };
                let wrong =
                    wrong.or_else(|| (told && !self.is_stable(folder)).then_some("is in a directory that may be gone"));
                if let Some(wrong) = wrong {
                    report.broken.get_or_insert(format!("{} {wrong} behind {behind}", file.path));
                }
            }
        }
    }

    /// A checkpoint is done: part files and journals are on the medium as they are, with their names.
    fn judge_checkpoint(&self, report: &mut Report) {
        report.checkpoints += 1;
        let is_staged = |name: &str| name.ends_with(".part") || name.ends_with(".journal");
        let mut found = BTreeSet::new();
        for (folder, directory) in &self.directories {
            let names: BTreeSet<&str> = directory.changes.iter().flatten().map(|(name, _)| name.as_str()).collect();
            for name in names.into_iter().filter(|name| is_staged(name)) {
                let Some(Some(inode)) = directory.binding(name, directory.changes.len()) else { continue };
                found.insert(name.rsplit_once('.').map_or(name, |(_, kind)| kind));
                let Inode { written, synced } = self.inodes[inode];
                let named = directory.binding(name, directory.stable) == Some(Some(inode)) && self.is_stable(folder);
                if written != synced || !named {
                    let text =
                        format!("a checkpoint was told, and {name} has {synced} of {written} bytes, named: {named}");
                    report.broken.get_or_insert(text);
                }
            }
        }
        if !found.contains("part") || !found.contains("journal") {
            report.broken.get_or_insert(format!("a checkpoint was told, and there are only {found:?}"));
        }
    }

    fn is_whole(&self, inode: usize, length: u64) -> bool {
        let Inode { written, synced } = self.inodes[inode];
        written == length && synced == length
    }

    /// Whether a directory that was made is on the medium, and those above it.
    fn is_stable(&self, folder: &str) -> bool {
        let Some((above, name)) = folder.rsplit_once('/') else { return true };
        let Some(directory) = self.directories.get(above) else { return true };
        let was_made = directory.binding(name, directory.changes.len()).is_some();
        (!was_made || directory.binding(name, directory.stable).is_some()) && self.is_stable(above)
    }
}
