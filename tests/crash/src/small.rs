//! A group of small files, put by a program of its own under strace: killed at each call on the file system that it makes, or told
//! that the call failed. Every file then is what it was or what was put, and who was told more was told the truth.

use crate::trace::{CALLS, Strike};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use xdfs_client::wire::Put;
use xdfs_io::store::{
    Attributes, Capability, Existing, LocalStore, SmallFile, SmallGroup, Source, Stage, StageRequest, Store,
};
use xdfs_proto::base::commit::Member;
use xdfs_proto::base::{Error, RelPath, Timestamp};
use xdfs_test_cli::{Scene, pattern};

/// A process that there is not; the question whether it is there marks the beginning of the group in a trace.
pub const MARK: i32 = 0x3fff_fff1;

/// Calls that only small files make, and their errors; the others are those of [`CALLS`].
pub(crate) const OWN_CALLS: &[(&str, &[&str])] = &[
    ("syncfs", &["error=EIO", "error=ENOSPC"]),
    ("sync_file_range", &["error=EIO", "error=ENOSPC"]),
    ("fstat", &["error=EIO"]),
];

const OLD: &[u8] = b"what was there before";

/// Runs at the same time.
const WORKERS: usize = 3;

/// A file of the group.
#[derive(Clone, Debug)]
pub struct File {
    name: &'static str,
    content: Vec<u8>,
    existing: Existing,
    /// What has the name before.
    old: bool,
}

/// New files and old ones, in a directory that is there and in two that are not, and one that is refused.
pub fn group() -> Vec<File> {
    let file = |(number, (name, existing, old)): (usize, (&'static str, Existing, bool))| File {
        name,
        content: pattern(1 + number * 3000, number as u64 + 3),
        existing,
        old,
    };
    let files = [
        ("new", Existing::Keep, false),
        ("old", Existing::Replace, true),
        ("made/deep/new", Existing::Replace, false),
        ("there/old", Existing::Replace, true),
        ("taken", Existing::Keep, true),
        ("made/other", Existing::Keep, false),
    ];
    files.into_iter().enumerate().map(file).collect()
}

impl File {
    /// As the store takes it.
    pub fn as_small(&self) -> SmallFile<'_> {
        let target = RelPath::parse(self.name.as_bytes()).expect("a name");
        let (modified, existing) = (Some(Timestamp::new(1_700_000_000, 7)), self.existing);
        SmallFile {
            target,
            content: &self.content,
            mode: 0o644,
            modified,
            existing,
            base: None,
            parents: true,
            holes: false,
        }
    }

    /// As a call has it.
    pub(crate) fn as_put(&self) -> Put<'_> {
        let (path, content, keep_existing) = (self.name.as_bytes(), &self.content[..], self.existing == Existing::Keep);
        Put {
            path,
            keep_existing,
            parents: true,
            mode: 0o644,
            modified: Some(Timestamp::new(1_700_000_000, 7)),
            holes: false,
            hash: None,
            content,
        }
    }

    /// Its path below the directory.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its bytes.
    pub const fn length(&self) -> u64 {
        self.content.len() as u64
    }

    /// Whether something has the name before.
    pub const fn is_old(&self) -> bool {
        self.old
    }

    /// It can never be put.
    pub fn is_refused(&self) -> bool {
        self.old && self.existing == Existing::Keep
    }
}

/// How the group is put.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Way {
    /// `durable` or `written`.
    pub durability: &'static str,
    /// `unnamed`, or `named` as where every file has a name.
    pub naming: &'static str,
    /// `each` or `once`: which files are synced by one call. The store decides by what else waits for the disk, which is not the same
    /// in every run.
    pub synced: &'static str,
}

/// All of them.
pub const WAYS: [Way; 5] = [
    Way { durability: "durable", naming: "unnamed", synced: "each" },
    Way { durability: "durable", naming: "unnamed", synced: "once" },
    Way { durability: "durable", naming: "named", synced: "once" },
    Way { durability: "written", naming: "unnamed", synced: "each" },
    Way { durability: "written", naming: "named", synced: "each" },
];

impl Way {
    /// The arguments of the program.
    pub fn words(&self) -> [&'static str; 3] {
        [self.durability, self.naming, self.synced]
    }
}

/// A store whose groups are synced in the way that is asked for.
#[derive(Debug)]
pub struct Synced {
    /// The store.
    pub inner: LocalStore,
    /// All files by one call.
    pub at_once: bool,
}

/// A group of [`Synced`].
struct SyncedGroup<'s> {
    inner: Box<dyn SmallGroup + 's>,
    at_once: bool,
}

impl Store for Synced {
    fn capability(&self) -> Capability {
        self.inner.capability()
    }

    fn attributes(&self, path: &RelPath) -> Result<Attributes, Error> {
        self.inner.attributes(path)
    }

    fn open(&self, path: &RelPath) -> Result<Source, Error> {
        self.inner.open(path)
    }

    fn stage(&self, request: &StageRequest) -> Result<Stage, Error> {
        self.inner.stage(request)
    }

    fn stage_small(&self, files: &[SmallFile<'_>], durable: bool) -> Box<dyn SmallGroup + '_> {
        Box::new(SyncedGroup { inner: self.inner.stage_small(files, durable), at_once: self.at_once })
    }
}

impl SmallGroup for SyncedGroup<'_> {
    fn members(&self) -> Vec<Member> {
        self.inner.members()
    }

    fn at_once(&self) -> bool {
        self.at_once
    }

    fn finish(&mut self, member: usize, file: &SmallFile<'_>) -> Result<(), Error> {
        self.inner.finish(member, file)
    }

    fn sync(&mut self, member: usize) -> Result<(), Error> {
        self.inner.sync(member)
    }

    fn sync_system(&mut self) -> Result<(), Error> {
        self.inner.sync_system()
    }

    fn name(&mut self, member: usize, file: &SmallFile<'_>) -> Result<(), Error> {
        self.inner.name(member, file)
    }

    fn sync_directory(&mut self, directory: usize) -> Result<(), Error> {
        self.inner.sync_directory(directory)
    }
}

/// What is done where: which of the calls of one name, from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Point {
    pub(crate) way: Way,
    pub(crate) call: &'static str,
    pub(crate) index: usize,
    pub(crate) injection: &'static str,
}

/// What was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Points {
    /// Points at which something was done, by call.
    pub struck: BTreeMap<&'static str, usize>,
    /// Runs behind which every file was there all the same.
    pub completed: usize,
}

/// Strikes at every call that the group makes, in every way to put it.
pub fn sweep(program: &Path, strike: Strike) -> Points {
    let points: Vec<Point> = WAYS.iter().flat_map(|way| calls_of(program, *way, strike)).collect();
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut found = Points::default();
        while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(completed) = point.run(program) else { continue };
            *found.struck.entry(point.call).or_default() += 1;
            found.completed += usize::from(completed);
        }
        found
    };
    let mut all = Points::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(worker)).collect();
        for found in workers.into_iter().map(|worker| worker.join().expect("what was wrong is above")) {
            all.completed += found.completed;
            found.struck.into_iter().for_each(|(call, count)| *all.struck.entry(call).or_default() += count);
        }
    });
    all
}

/// The calls that a run makes behind the mark, each with its number among those of its name.
fn calls_of(program: &Path, way: Way, strike: Strike) -> Vec<Point> {
    let room = Room::new();
    let log = room.scene.path("all.log");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(&log).arg(program);
    assert!(room.put(command, way).status.success(), "the group is put where nothing goes wrong");
    let log = std::fs::read_to_string(log).expect("strace has a log");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut points = Vec::new();
    let mut begun = false;
    for line in log.lines() {
        let text = line.split_once(' ').map_or(line, |(_, call)| call.trim_start());
        begun |= text.starts_with(&format!("kill({MARK}"));
        let Some((name, _)) = text.split_once('(') else { continue };
        let Some((call, errors)) = CALLS.iter().chain(OWN_CALLS).find(|(call, _)| *call == name) else { continue };
        let index = counts.entry(call).or_default();
        *index += 1;
        let injection = if strike == Strike::Kill { "signal=SIGKILL" } else { errors[*index % errors.len()] };
        points.extend(begun.then_some(Point { way, call, index: *index, injection }));
    }
    assert!(begun, "the program marks no beginning");
    points
}

impl Point {
    /// Puts the group with the injection and judges what it left, then without. None where the call was not reached, else whether
    /// everything was put.
    fn run(&self, program: &Path) -> Option<bool> {
        let room = Room::new();
        let log = room.scene.path("strace.log");
        let what = format!("inject={}:{}:when={}", self.call, self.injection, self.index);
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-e", &format!("trace={}", self.call), "-e", &what, "-o"]).arg(&log).arg(program);
        let output = room.put(command, self.way);
        let log = std::fs::read_to_string(log).expect("strace has a log");
        let killed = log.contains("killed by SIGKILL");
        if !killed && !log.contains("(INJECTED)") {
            return None;
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let told: Vec<&str> = text.lines().collect();
        assert!(
            killed || told.len() == group().len(),
            "{self:?}: {told:?} {}",
            String::from_utf8_lossy(&output.stderr)
        );
        room.judge(self, killed, &told);
        let completed = self.completed(&told);
        // Whatever was left is not in the way of those who come later.
        room.judge_again(self, program);
        Some(completed)
    }

    /// Whether everything was put, but for what is refused; then no sync can have failed.
    pub(crate) fn completed(&self, told: &[&str]) -> bool {
        let completed = told.iter().filter(|told| **told == self.way.durability).count() + 1 == group().len();
        let sync = ["fsync", "syncfs", "sync_file_range"].contains(&self.call);
        let failed = self.injection.starts_with("error=") && self.injection != "error=EINTR";
        assert!(!(sync && failed && completed), "{self:?}: everything was told, and a sync had failed");
        completed
    }
}

/// A fresh directory with what is there before.
pub(crate) struct Room {
    pub(crate) scene: Scene,
    folder: PathBuf,
}

impl Room {
    pub(crate) fn new() -> Self {
        let scene = Scene::new();
        let folder = scene.directory("data");
        std::fs::create_dir(folder.join("there")).expect("a directory can be made");
        for file in group().iter().filter(|file| file.old) {
            std::fs::write(folder.join(file.name), OLD).expect("a file can be made");
        }
        Self { scene, folder }
    }

    /// Puts the group by `command`, which ends in the program.
    fn put(&self, mut command: Command, way: Way) -> std::process::Output {
        command.arg(&self.folder).args(way.words()).output().expect("strace runs")
    }

    pub(crate) fn judge(&self, point: &Point, killed: bool, told: &[&str]) {
        for (number, file) in group().iter().enumerate() {
            let found = std::fs::read(self.folder.join(file.name)).ok();
            let is_new = found.as_deref() == Some(&file.content);
            let before = file.old.then(|| OLD.to_vec());
            let length = found.as_ref().map(Vec::len);
            assert!(is_new || found == before, "{point:?}: {} has {length:?} bytes", file.name);
            assert!(!(is_new && file.is_refused()), "{point:?}: {} was not to be replaced", file.name);
            let good = told.get(number).is_some_and(|told| matches!(*told, "durable" | "written"));
            assert!(!good || is_new, "{point:?}: {} was told, and is not there", file.name);
            let least = told.get(number).is_none_or(|told| !good || *told == point.way.durability);
            assert!(least, "{point:?}: {} is less safe than it was asked for", file.name);
        }
        for name in self.leftovers() {
            // A program that goes on removes what it made, unless that is the call which failed. What has no name leaves nothing,
            // but for the moment in which it replaces another.
            let replaces = self.leftovers().len() == 1;
            let allowed = point.call == "unlinkat" || killed && (point.way.naming == "named" || replaces);
            assert!(allowed, "{point:?}: {name} is left");
        }
    }

    /// Names that nobody asked for.
    fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        for folder in ["", "there", "made", "made/deep"] {
            let Ok(entries) = std::fs::read_dir(self.folder.join(folder)) else { continue };
            let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
            let ours = ["new", "old", "made", "deep", "there", "taken", "other"];
            for name in names.filter(|name| !ours.contains(&name.as_str())) {
                assert_eq!(name, ".xdfs-staging", "{name} is left in '{folder}'");
                let staged = std::fs::read_dir(self.folder.join(folder).join(&name)).expect("it is a directory");
                let staged: Vec<_> =
                    staged.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
                assert!(staged.iter().all(|name| name.ends_with(".part")), "{staged:?} are left");
                // An empty directory is removed by whoever stages next.
                found.extend(if staged.is_empty() { vec![name] } else { staged });
            }
        }
        found
    }

    fn judge_again(&self, point: &Point, program: &Path) {
        let output = self.put(Command::new(program), point.way);
        self.judge_told_again(point, &String::from_utf8_lossy(&output.stdout).lines().collect::<Vec<_>>());
    }

    /// What was told of a second attempt, in which nothing went wrong.
    pub(crate) fn judge_told_again(&self, point: &Point, told: &[&str]) {
        for (told, file) in told.iter().zip(group()) {
            let kept = file.existing == Existing::Keep && *told == "AlreadyExists";
            assert!(*told == point.way.durability || kept, "{point:?}, again: {} is {told}", file.name);
            let found = std::fs::read(self.folder.join(file.name)).ok();
            assert!(found.as_deref() == Some(&file.content) || file.is_refused(), "{point:?}, again: {}", file.name);
        }
        assert_eq!(told.len(), group().len(), "{point:?}, again");
    }
}
