//! Random changes of a tree, of every kind that users make between two copies.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, RenameFlags, Timespec, Timestamps, utimensat};
use xdfs_test_cli::pattern;

use super::random::Random;

/// Directories with more names than this are not removed or replaced: most of the tree has to stay.
const REPLACED_MAX: usize = 100;

/// Names tried until one is still there.
const PICKS_MAX: usize = 50;

/// Seconds since 1970 that files get: long before, just before, zero, usual, and after 2038.
const TIMES: [i64; 7] = [-2_000_000_000, -1, 0, 1, 1_000_000_000, 1_700_000_000, 4_000_000_000];

/// In 1985, in seconds since 1970.
const DAY: i64 = 500_000_000;

/// What names are made of: bytes before and behind a number. The last are those that xdfs gave its own files in earlier versions.
const NAMES: [(&[u8], &[u8]); 17] = [
    (b"plain", b""),
    (b"\xff\xfe", b""),
    (b"new\nline", b"\n"),
    (b" blank", b" "),
    (b"-dash", b""),
    (b".hidden", b""),
    (b"*?[x]", b""),
    (b"back\\slash", b"\\"),
    (b"quote\"'", b""),
    (b"tab\t", b"\t"),
    (b"\x01\x7f", b""),
    ("ü€".as_bytes(), b""),
    (b"%41%", b"%"),
    (b"#:@", b"#"),
    (&[b'l'; 245], b""),
    (b".", b".00112233445566778899aabbccddeeff.part"),
    (b".", b".00112233445566778899aabbccddeeff.journal"),
];

/// What can happen to a name.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Shrink,
    Grow,
    ToFile,
    ToDirectory,
    ToLink,
    Remove,
    Rename,
    Exchange,
    Mode,
    Times,
    HardLink,
    NewFile,
    NewDirectory,
    /// From here on: what only -a keeps.
    Owner,
    Pipe,
}

/// All kinds, those that are usual twice.
const KINDS: [Kind; 17] = [
    Kind::Shrink,
    Kind::Grow,
    Kind::ToFile,
    Kind::ToDirectory,
    Kind::ToLink,
    Kind::Remove,
    Kind::Rename,
    Kind::Rename,
    Kind::Exchange,
    Kind::Mode,
    Kind::Times,
    Kind::HardLink,
    Kind::NewFile,
    Kind::NewFile,
    Kind::NewDirectory,
    Kind::Owner,
    Kind::Pipe,
];

/// Those that every command carries over.
const KINDS_OF_ALL: usize = KINDS.len() - 2;

/// Changes a tree.
#[derive(Debug)]
pub struct Changer<'a> {
    top: &'a Path,
    /// Everything that was there at the beginning or came since; some of it may be gone.
    names: Vec<PathBuf>,
    random: Random,
    /// Owners and special files, too: what only -a keeps.
    all: bool,
    made: usize,
}

impl<'a> Changer<'a> {
    /// A changer of what is below `top`.
    pub fn new(top: &'a Path, seed: u64, all: bool) -> Self {
        let mut names = Vec::new();
        list(top, &mut names);
        names.sort();
        assert_eq!(fs::canonicalize(top).expect("it is there"), top, "a way without links");
        Self { top, names, random: Random::new(seed), all, made: 0 }
    }

    /// Names below the top.
    pub fn names(&self) -> usize {
        self.names.len()
    }

    /// Makes so many changes.
    pub fn change(&mut self, count: usize) {
        for _ in 0..count {
            let before = self.random.clone();
            match self.one() {
                // A directory cannot be moved into itself.
                Err(error) if error.kind() != io::ErrorKind::InvalidInput => panic!("{before:?}: {error}"),
                _ => {}
            }
        }
    }

    /// A name that is still there. The way to it has no link: nothing outside of the tree may change.
    fn pick(&mut self) -> Option<PathBuf> {
        (0..PICKS_MAX).find_map(|_| {
            let path = self.names.get(self.random.below(self.names.len().max(1)))?;
            let directory = path.parent().expect("it is below the top");
            let reached = fs::canonicalize(directory).is_ok_and(|real| real == directory);
            (reached && fs::symlink_metadata(path).is_ok()).then(|| path.clone())
        })
    }

    fn one(&mut self) -> io::Result<()> {
        let Some(path) = self.pick() else { return self.make_file() };
        let metadata = fs::symlink_metadata(&path)?;
        let kinds = if self.all { &KINDS[..] } else { &KINDS[..KINDS_OF_ALL] };
        match self.random.pick(kinds) {
            Kind::Shrink if metadata.is_file() => {
                let length = self.part_of(metadata.len());
                fs::File::options().write(true).open(&path)?.set_len(length)
            }
            Kind::Grow if metadata.is_file() => {
                let more = self.content();
                fs::File::options().write(true).open(&path)?.write_all_at(&more, metadata.len())
            }
            Kind::Shrink | Kind::Grow | Kind::ToFile => self.replace(&path, |changer, path| {
                let content = changer.content();
                fs::write(path, content)
            }),
            Kind::ToDirectory => self.replace(&path, |changer, path| changer.fill(path, &["a", "b/c", "b/d"])),
            Kind::ToLink => self.replace(&path, |changer, path| {
                symlink(changer.random.pick(&["../nowhere", "/etc/passwd", ".", "a/b/../c"]), path)
            }),
            Kind::Remove => remove(&path),
            Kind::Rename => self.rename(&path, &metadata),
            Kind::Exchange => self.exchange(&path, &metadata),
            Kind::Mode if !metadata.is_symlink() => self.set_mode(&path),
            Kind::Mode | Kind::Times => self.set_times(&path),
            Kind::HardLink if metadata.is_file() => self.link(&path),
            Kind::HardLink | Kind::NewFile => self.make_file(),
            Kind::NewDirectory => {
                let path = self.fresh();
                let count = self.random.below(12);
                let names: Vec<String> = (0..count).map(|number| format!("file-{number}")).collect();
                fs::create_dir(&path)?;
                self.fill(&path, &names)
            }
            Kind::Owner => {
                let (user, group) = (self.random.below(3) as u32 * 1000, self.random.below(3) as u32 * 1000);
                lchown(&path, Some(user), Some(group))
            }
            Kind::Pipe => {
                let path = self.fresh();
                rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o640), 0)?;
                fs::hard_link(path, self.fresh())
            }
        }
    }

    fn part_of(&mut self, length: u64) -> u64 {
        if length == 0 { 0 } else { self.random.next() % length }
    }

    /// Nothing, a little, or more than comes in one message.
    fn content(&mut self) -> Vec<u8> {
        let bound = *self.random.pick(&[1, 100, 5_000, 5_000, 70_000, 900_000, 3_000_000]);
        let size = self.random.below(bound);
        pattern(size, self.random.next())
    }

    /// A name that is not there yet, in any directory.
    fn fresh(&mut self) -> PathBuf {
        let near = self.pick();
        let directory = match &near {
            Some(path) if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) => path,
            Some(path) => path.parent().expect("it is below the top"),
            None => self.top,
        };
        self.made += 1;
        let (before, behind) = *self.random.pick(&NAMES);
        let name = [before, self.made.to_string().as_bytes(), behind].concat();
        let path = directory.join(OsString::from_vec(name));
        self.names.push(path.clone());
        path
    }

    fn make_file(&mut self) -> io::Result<()> {
        let path = self.fresh();
        let content = self.content();
        fs::write(path, content)
    }

    /// Files in a directory, which is made where it is missing.
    fn fill(&mut self, directory: &Path, names: &[impl AsRef<Path>]) -> io::Result<()> {
        for name in names {
            let file = directory.join(name);
            fs::create_dir_all(file.parent().expect("it is below"))?;
            let content = self.content();
            fs::write(file, content)?;
        }
        Ok(())
    }

    /// Removes what is there and has `make` make something else.
    fn replace(&mut self, path: &Path, make: impl FnOnce(&mut Self, &Path) -> io::Result<()>) -> io::Result<()> {
        remove(path)?;
        if path.symlink_metadata().is_ok() { Ok(()) } else { make(self, path) }
    }

    fn rename(&mut self, path: &Path, metadata: &fs::Metadata) -> io::Result<()> {
        let Some(other) = self.pick() else { return Ok(()) };
        let fresh = self.fresh();
        let over = fs::symlink_metadata(&other)
            .is_ok_and(|there| there.is_file() && metadata.is_file() && self.random.below(2) == 0);
        fs::rename(path, if over { other } else { fresh })
    }

    /// Exchanges it with something of another kind.
    fn exchange(&mut self, path: &Path, metadata: &fs::Metadata) -> io::Result<()> {
        let Some(other) = self.pick() else { return Ok(()) };
        if fs::symlink_metadata(&other)?.file_type() == metadata.file_type() {
            return Ok(());
        }
        Ok(rustix::fs::renameat_with(CWD, path, CWD, other, RenameFlags::EXCHANGE)?)
    }

    fn set_mode(&mut self, path: &Path) -> io::Result<()> {
        let mode = self.random.below(0o1000) as u32;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    }

    fn set_times(&mut self, path: &Path) -> io::Result<()> {
        let tv_sec = *self.random.pick(&TIMES);
        let tv_nsec = *self.random.pick(&[0, 1, 500_000_000, 999_999_999]);
        let time = Timespec { tv_sec, tv_nsec };
        let times = Timestamps { last_access: time, last_modification: time };
        Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn link(&mut self, path: &Path) -> io::Result<()> {
        let Some(other) = self.pick() else { return Ok(()) };
        let fresh = self.fresh();
        let (there, metadata) = (fs::symlink_metadata(&other), fs::symlink_metadata(path)?);
        let another = there.is_ok_and(|there| there.is_file() && there.ino() != metadata.ino());
        let over = another && self.random.below(2) == 0;
        if over {
            fs::remove_file(&other)?;
        }
        fs::hard_link(path, if over { other } else { fresh })
    }
}

/// Gives files of `source` another time that only their content tells from those of `copy`: who compares sizes and times would
/// rightly see no change. Times of one second count as one, since a copy may lack the fraction.
pub fn tell_apart(source: &Path, copy: &Path) {
    let mut names = Vec::new();
    list(source, &mut names);
    names.sort();
    for (number, path) in names.iter().enumerate() {
        let same = copy.join(path.strip_prefix(source).expect("it is below"));
        let (one, Ok(other)) = (fs::symlink_metadata(path).expect("it is there"), fs::symlink_metadata(&same)) else {
            continue;
        };
        let alike = one.is_file() && other.is_file() && (one.len(), one.mtime()) == (other.len(), other.mtime());
        let read = |path: &Path| fs::read(path).expect("it can be read");
        if alike && (one.mtime_nsec() != other.mtime_nsec() || read(path) != read(&same)) {
            // No file has a time of that day.
            let time = Timespec { tv_sec: DAY + number as i64, tv_nsec: 0 };
            let times = Timestamps { last_access: time, last_modification: time };
            utimensat(CWD, path, &times, AtFlags::empty()).expect("it has a time");
        }
    }
}

/// Removes a name with what is below it, unless that is much.
fn remove(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    let mut names = Vec::new();
    list(path, &mut names);
    if names.len() > REPLACED_MAX { Ok(()) } else { fs::remove_dir_all(path) }
}

fn list(directory: &Path, names: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if fs::symlink_metadata(&path).expect("it is there").is_dir() {
            list(&path, names);
        }
        names.push(path);
    }
}
