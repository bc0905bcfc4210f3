//! The real store's own calls, on a disk that loses what ext4 may lose.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use xdfs_test_cli::Scene;
use xdfs_test_crash::recorded::{Disk, Expected, LARGE, LARGE_BYTES, Report};
use xdfs_test_crash::small::{WAYS, Way, group};

/// Calls that change a disk.
const CHANGING: &str =
    "trace=openat,openat2,pwrite64,write,fsync,fdatasync,syncfs,linkat,renameat,renameat2,mkdirat,unlinkat,kill";

/// A record of the group that is put in one way.
struct Record {
    log: String,
    directories: Vec<String>,
    expected: Vec<Expected>,
    told: BTreeSet<String>,
}

impl Record {
    fn of(way: Way) -> Self {
        let scene = Scene::new();
        let folder = scene.directory("data").to_string_lossy().into_owned();
        let there = scene.directory("data/there").to_string_lossy().into_owned();
        for file in group().iter().filter(|file| file.is_old()) {
            scene.write(format!("data/{}", file.name()), b"old");
        }
        let log = scene.path("strace.log");
        let mut command = Command::new("strace");
        command.args(["-f", "-y", "-qq", "-e", CHANGING, "-o"]).arg(&log);
        command.arg(Path::new(env!("CARGO_BIN_EXE_put-small"))).arg(&folder).args(way.words());
        let output = command.output().expect("strace runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let path = |name: &str| format!("{folder}/{name}");
        let files = group().into_iter().filter(|file| !file.is_refused());
        let expected: Vec<_> =
            files.map(|file| Expected { path: path(file.name()), length: file.length(), old: file.is_old() }).collect();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let durable = said.lines().zip(group()).filter(|(said, _)| *said == "durable");
        let told = durable.map(|(_, file)| path(file.name())).collect();
        let log = std::fs::read_to_string(log).expect("strace has a log");
        Self { log, directories: vec![folder.clone(), there], expected, told }
    }

    /// A record of a file that is put in two attempts, over an old one.
    fn of_large() -> Self {
        let scene = Scene::new();
        let folder = scene.directory("data").to_string_lossy().into_owned();
        scene.write(format!("data/{LARGE}"), b"old");
        let log = scene.path("strace.log");
        let mut command = Command::new("strace");
        command.args(["-f", "-y", "-qq", "-e", CHANGING, "-o"]).arg(&log);
        command.arg(Path::new(env!("CARGO_BIN_EXE_put-large"))).arg(&folder);
        let output = command.output().expect("strace runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stdout, b"durable\n");
        let path = format!("{folder}/{LARGE}");
        let expected = vec![Expected { path: path.clone(), length: LARGE_BYTES, old: true }];
        let log = std::fs::read_to_string(log).expect("strace has a log");
        Self { log, directories: vec![folder], expected, told: BTreeSet::from([path]) }
    }

    /// Replays it without the lines that `forgotten` picks.
    fn replay(&self, forgotten: impl Fn(&str) -> bool) -> Report {
        let log: Vec<&str> = self.log.lines().filter(|line| !forgotten(line)).collect();
        Disk::new(&self.directories).replay(&log.join("\n"), &self.expected, &self.told)
    }

    /// A sync of a directory that is there, or was made.
    fn is_of_directory(line: &str) -> bool {
        let is_file = [".part>", ".journal>", ".journal.new>", "(deleted)"].iter().any(|end| line.contains(end));
        line.contains("fsync(") && !is_file
    }
}

/// Which calls are left out of a replay.
type Forgotten<'f> = &'f dyn Fn(&str) -> bool;

#[test]
fn no_cut_between_the_stores_own_calls_breaks_a_promise_and_every_forgotten_sync_is_caught() {
    if !xdfs_test_needs::tracing() {
        return;
    }
    for way in WAYS.into_iter().filter(|way| way.durability == "durable") {
        let record = Record::of(way);
        assert_eq!(record.told.len(), record.expected.len(), "{way:?}");
        let report = record.replay(|_| false);
        println!("{way:?}: {} states behind {} calls", report.states, report.calls);
        assert_eq!(report.broken, None, "{way:?}");
        assert!(report.calls >= 15 && report.states >= 100, "{way:?}: {report:?}");
        let forgotten: [(&str, Forgotten<'_>); 2] = [
            ("files", &|line| line.contains("sync") && !Record::is_of_directory(line)),
            ("directories", &Record::is_of_directory),
        ];
        for (what, forgotten) in forgotten {
            let report = record.replay(forgotten);
            assert!(report.broken.is_some(), "{way:?} without the syncs of {what} breaks nothing");
        }
    }
}

#[test]
fn no_cut_in_an_upload_that_goes_on_from_its_journal_breaks_a_promise_and_every_forgotten_sync_is_caught() {
    if !xdfs_test_needs::tracing() {
        return;
    }
    let record = Record::of_large();
    let report = record.replay(|_| false);
    println!("{} states behind {} calls, {} checkpoints", report.states, report.calls, report.checkpoints);
    assert_eq!((report.broken, report.checkpoints), (None, 3));
    assert!(report.calls >= 20 && report.states >= 40, "{} calls, {} states", report.calls, report.states);
    let of =
        |ends: &'static [&str]| move |line: &str| line.contains("sync(") && ends.iter().any(|end| line.contains(end));
    let forgotten: [(&str, Forgotten<'_>); 3] = [
        ("the part file", &of(&[".part>"])),
        ("the journal", &of(&[".journal>", ".journal.new>"])),
        ("directories", &Record::is_of_directory),
    ];
    for (what, forgotten) in forgotten {
        let report = record.replay(forgotten);
        assert!(report.broken.is_some(), "without the syncs of {what} nothing breaks");
    }
}

/// The kernel frees a file that is replaced when nobody holds it, for minutes where it has very many extents, and locks
/// directories for as long if that is within the rename.
#[test]
fn what_a_rename_replaces_is_held_until_the_rename_is_done() {
    if !xdfs_test_needs::tracing() {
        return;
    }
    let log = Record::of_large().log;
    let name = format!("\"{LARGE}\"");
    let renamed = log.lines().position(|line| line.contains("renameat(") && line.contains(&name));
    let renamed = renamed.unwrap_or_else(|| panic!("no rename to {LARGE}:\n{log}"));
    let before = log.lines().take(renamed).last().unwrap_or_default();
    assert!(before.contains("openat(") && before.contains(&name) && before.contains("O_PATH"), "{before}");
}
