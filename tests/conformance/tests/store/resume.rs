//! Part files that are gone on with, in a directory of this machine: what is joined, what is not, and who may write.

use crate::bench::{Tags, names_under};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use xdfs_io::store::{
    Base, CommitRequest, Existing, Hashes, LocalStore, Resume, Stage, StageRequest, Store, StoredRange, stored_range,
};
use xdfs_proto::base::{ErrorKind, Extent, Timestamp, TransferId};
use xdfs_test_conformance::store::bench::{commit, path};

pub(crate) const SIZE: u64 = 8 << 20;
/// Of every file, but one.
const DATE: Timestamp = Timestamp::new(1_700_000_000, 0);
const PIECE: usize = 1 << 20;
/// Every attempt has the same.
pub(crate) const TRANSFER: TransferId = TransferId([0x5a; 16]);

/// A directory of a test's own, removed when it passes.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A store as another process would open it: it knows nothing of what is being written.
    pub(crate) fn store(&self) -> LocalStore {
        self.store_with_key(1)
    }

    pub(crate) fn store_with_key(&self, key: u8) -> LocalStore {
        LocalStore::open_root(self.path(), true).unwrap().with_journal_tags(Arc::new(Tags(key)))
    }

    /// Every name below, but not that of a directory which has something in it.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = names_under(self.path()).into_iter().map(|name| String::from_utf8(name).unwrap());
        let is_empty = |name: &String| {
            let path = self.path().join(name);
            !path.is_dir() || std::fs::read_dir(path).unwrap().next().is_none()
        };
        names.filter(is_empty).collect()
    }
}

pub(crate) fn request(source: &[u8]) -> StageRequest {
    StageRequest {
        target: path("target"),
        size: Some(SIZE),
        existing: Existing::Replace,
        transfer: TRANSFER,
        resume: Some(Resume {
            source: source.to_vec(),
            owner: b"anna".to_vec(),
            hashed: false,
            since: Timestamp::default(),
            synced: true,
        }),
        base: None,
        holes: false,
    }
}

pub(crate) fn extent(from: u64, to: u64) -> Extent {
    Extent::new(from, to - from).unwrap()
}

/// Writes the pieces with these numbers.
pub(crate) fn write(stage: &Stage, pieces: impl IntoIterator<Item = u64>) {
    for piece in pieces {
        stage.write(&vec![piece as u8 + 1; PIECE], piece * PIECE as u64).unwrap();
    }
}

/// A part file as a killed program leaves it: three pieces noted, a fourth written behind the marker.
pub(crate) fn left(folder: &Folder, source: &[u8]) -> Vec<String> {
    let stage = folder.store().stage(&request(source)).unwrap();
    write(&stage, [0, 1, 4]);
    stage.checkpoint().unwrap();
    write(&stage, [6]);
    // The lock goes with the descriptor, as in a process that ends; the files stay.
    assert!(stage.keep());
    drop(stage);
    folder.names()
}

#[test]
fn what_was_noted_is_gone_on_with_and_the_whole_file_appears() {
    let folder = Folder::new();
    assert_eq!(left(&folder, b"v1").len(), 2);
    let kept = folder.store().kept(&path("target"), TRANSFER, b"anna").unwrap();
    assert_eq!((kept.length, kept.source.as_slice()), (SIZE, &b"v1"[..]));
    let stage = folder.store().stage(&request(b"v1")).unwrap();
    let there = [extent(0, 2 << 20), extent(4 << 20, 5 << 20), extent(6 << 20, 7 << 20)];
    assert_eq!(
        (stored_range::ranges(stage.kept()), stored_range::ranges(&kept.noted)),
        (there.to_vec(), there.to_vec())
    );
    write(&stage, [2, 3, 5, 7]);
    stage.commit(&commit(SIZE)).unwrap();
    let content = std::fs::read(folder.path().join("target")).unwrap();
    assert!(content.chunks(PIECE).enumerate().all(|(piece, bytes)| bytes.iter().all(|b| *b == piece as u8 + 1)));
    assert_eq!(folder.names(), ["target"], "part and journal are gone");
}

#[test]
fn a_transfer_that_begins_anew_takes_what_the_same_user_left_of_another_source() {
    let other = |name: &str, owner: &[u8], transfer: u8| {
        let mut asked = request(b"v2");
        asked.target = path(name);
        asked.transfer = TransferId([transfer; 16]);
        asked.resume.as_mut().unwrap().owner = owner.to_vec();
        asked
    };
    let folder = Folder::new();
    left(&folder, b"v1");
    let leave = |asked: &StageRequest| {
        let stage = folder.store().stage(asked).unwrap();
        write(&stage, [0, 1]);
        stage.checkpoint().unwrap();
        assert!(stage.keep());
    };
    leave(&other("target", b"bert", 2));
    // Of another target whose name begins alike, and one that somebody writes.
    leave(&other("target.x", b"anna", 3));
    assert_eq!(folder.names().len(), 6);
    let another = folder.store();
    let written = another.stage(&other("target", b"anna", 4)).unwrap();
    assert_eq!(folder.names().len(), 5, "what anna left is gone: {:?}", folder.names());
    write(&written, [0]);
    written.checkpoint().unwrap();
    let stage = folder.store().stage(&other("target", b"anna", 5)).unwrap();
    let names = folder.names();
    let there = |digits: &str, end: &str| names.iter().any(|name| name.contains(digits) && name.ends_with(end));
    for (digits, kept) in [("5a5a", false), ("0202", true), ("0303", true), ("0404", true)] {
        assert_eq!((there(digits, ".part"), there(digits, ".journal")), (kept, kept), "{digits} of {names:?}");
    }
    // And in one program, where it is written through the same store.
    drop(stage);
    drop(another.stage(&other("target", b"anna", 6)).unwrap());
    assert!(folder.names().iter().any(|name| name.contains("0404")));
    written.commit(&commit(SIZE)).unwrap();
}

#[test]
fn nothing_is_joined_with_another_source_length_or_owner() {
    for change in 0..3 {
        let folder = Folder::new();
        left(&folder, b"v1");
        let mut asked = request(b"v1");
        let resume = asked.resume.as_mut().unwrap();
        match change {
            0 => resume.source = b"v2".to_vec(),
            1 => resume.owner = b"bert".to_vec(),
            _ => asked.size = Some(SIZE - 1),
        }
        let stage = folder.store().stage(&asked).unwrap();
        assert_eq!(stage.kept(), [], "change {change}");
        drop(stage);
        assert_eq!(folder.names(), Vec::<String>::new());
    }
}

#[test]
fn a_part_without_its_journal_or_with_another_files_is_begun_anew() {
    for replaced in [false, true] {
        let folder = Folder::new();
        let names = left(&folder, b"v1");
        let (journal, part) = (folder.path().join(&names[0]), folder.path().join(&names[1]));
        if replaced {
            // The same bytes in another file: not the one whose syncs were noted.
            let bytes = std::fs::read(&part).unwrap();
            std::fs::write(folder.path().join("other"), bytes).unwrap();
            std::fs::rename(folder.path().join("other"), part).unwrap();
        } else {
            std::fs::remove_file(journal).unwrap();
        }
        let stage = folder.store().stage(&request(b"v1")).unwrap();
        assert_eq!(stage.kept(), [], "replaced {replaced}");
    }
}

#[test]
fn what_was_cut_off_on_a_full_disk_is_not_taken_for_there() {
    let folder = Folder::new();
    let part = folder.path().join(&left(&folder, b"v1")[1]);
    // As it is left by a program that is killed before its next journal says so.
    std::fs::OpenOptions::new().write(true).open(part).unwrap().set_len((5 << 20) - 1).unwrap();
    let stage = folder.store().stage(&request(b"v1")).unwrap();
    assert_eq!(stored_range::ranges(stage.kept()), [extent(0, 2 << 20)]);
}

#[test]
fn a_part_that_somebody_planted_is_refused_and_left_alone() {
    let folder = Folder::new();
    let names = left(&folder, b"v1");
    let part = folder.path().join(&names[1]);
    std::fs::write(folder.path().join("precious"), b"mine").unwrap();
    std::fs::remove_file(&part).unwrap();
    std::fs::hard_link(folder.path().join("precious"), &part).unwrap();
    let error = folder.store().stage(&request(b"v1")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy);
    assert_eq!(std::fs::read(folder.path().join("precious")).unwrap(), b"mine");
}

#[test]
fn a_takeover_refuses_the_older_writer_and_keeps_what_it_wrote() {
    let folder = Folder::new();
    let store = folder.store();
    let older = store.stage(&request(b"v1")).unwrap();
    write(&older, [0, 1]);
    let newer = store.stage(&request(b"v1")).unwrap();
    assert_eq!(stored_range::ranges(newer.kept()), [extent(0, 2 << 20)], "without any marker");
    let error = older.write(&vec![9; PIECE], 0).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Superseded);
    assert_eq!(older.checkpoint().unwrap_err().kind, ErrorKind::Superseded);
    assert!(!older.keep());
    drop(older);
    write(&newer, 2..8);
    newer.commit(&commit(SIZE)).unwrap();
    assert_eq!(std::fs::read(folder.path().join("target")).unwrap()[0], 1);
    assert_eq!(folder.names(), ["target"]);
}

#[test]
fn what_an_older_session_asked_for_does_not_take_over_from_a_newer_one() {
    let folder = Folder::new();
    let store = folder.store();
    let of = |since| {
        let mut asked = request(b"v1");
        asked.resume.iter_mut().for_each(|resume| resume.since = Timestamp::new(since, 0));
        asked
    };
    let newer = store.stage(&of(2)).unwrap();
    assert_eq!(store.stage(&of(1)).unwrap_err().kind, ErrorKind::Superseded);
    write(&newer, 0..8);
    newer.commit(&commit(SIZE)).unwrap();
    let late = store.stage(&of(1)).unwrap();
    assert_eq!(late.kept(), []);
    drop(late);
    assert_eq!(folder.names(), ["target"]);
}

#[test]
fn whoever_comes_while_another_one_ends_has_a_part_file_that_stays() {
    let folder = Folder::new();
    let store = folder.store();
    for round in 0..300 {
        let (older, start) = (store.stage(&request(b"v1")).unwrap(), std::sync::Barrier::new(2));
        let newer = std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                if round % 2 == 0 { drop(older) } else { older.commit(&commit(0)).map_or_else(drop, drop) }
            });
            start.wait();
            store.stage(&request(b"v1")).unwrap()
        });
        newer.write(&[7; 100], 0).unwrap();
        newer.commit(&commit(100)).unwrap();
        assert_eq!(std::fs::read(folder.path().join("target")).unwrap(), [7; 100], "round {round}");
        assert_eq!(folder.names(), ["target"], "round {round}");
    }
}

/// Whoever hashes what is written: this is what it knows.
#[derive(Debug)]
struct Known(Vec<StoredRange>);

impl Hashes for Known {
    fn noted(&self) -> Vec<StoredRange> {
        self.0.clone()
    }
}

/// The first two pieces with their values.
fn hashed() -> Vec<StoredRange> {
    let piece = |index: u64| extent(index << 20, (index + 1) << 20);
    [1, 2].map(|value| StoredRange { extent: piece(value - 1), value: Some([value as u8; 32]), proved: true }).to_vec()
}

/// A request of whoever compares what is in doubt.
pub(crate) fn comparing(source: &[u8]) -> StageRequest {
    let mut asked = request(source);
    asked.resume.iter_mut().for_each(|resume| resume.hashed = true);
    asked
}

fn doubted() -> Vec<StoredRange> {
    hashed().into_iter().map(|one| StoredRange { proved: false, ..one }).collect()
}

#[test]
fn values_are_kept_across_markers_takeovers_and_processes() {
    let folder = Folder::new();
    let store = folder.store();
    let older = store.stage(&comparing(b"v1")).unwrap();
    older.hashed_by(Arc::new(Known(hashed())));
    write(&older, [0, 1, 5]);
    older.checkpoint().unwrap();
    let newer = store.stage(&comparing(b"v1")).unwrap();
    assert_eq!(newer.kept(), hashed(), "what is written and not hashed yet does not count");
    // Nobody hashes any more: what was known stays known.
    write(&newer, [2]);
    assert!(newer.keep());
    drop((older, newer));
    let third = folder.store().stage(&request(b"v1")).unwrap();
    assert_eq!(third.kept()[..2], hashed());
    assert_eq!(third.kept()[2..], [StoredRange::plain(extent(2 << 20, 3 << 20))]);
}

#[test]
fn a_copy_goes_on_in_doubt_and_the_journal_is_about_it_at_once() {
    for live in [true, false] {
        let folder = Folder::new();
        let store = folder.store();
        let older = store.stage(&comparing(b"v1")).unwrap();
        older.hashed_by(Arc::new(Known(hashed())));
        write(&older, [0, 1]);
        older.checkpoint().unwrap();
        let older = Some(older).filter(|older| live || !older.keep());
        let copy = if live { store.stage(&comparing(b"v2")) } else { folder.store().stage(&comparing(b"v2")) }.unwrap();
        assert_eq!(copy.kept(), doubted(), "live {live}");
        if let Some(older) = older {
            assert_eq!(older.write(&[9; PIECE], 0).unwrap_err().kind, ErrorKind::Superseded);
        }
        // What a crash leaves now is in doubt for everybody, and nothing to those who do not compare.
        copy.leave();
        let told = folder.store().kept(&path("target"), TRANSFER, b"anna").unwrap();
        assert_eq!((told.source.as_slice(), told.noted), (&b"v2"[..], doubted()));
        assert_eq!(folder.store().stage(&request(b"v2")).unwrap().kept(), []);
    }
}

/// A request of a copy that is tried again: what it found, and the time that it gives its target.
fn again(found: &[u8], modified: Timestamp) -> StageRequest {
    StageRequest { base: Some(Base { version: found.to_vec(), modified: Some(modified) }), ..comparing(b"v1") }
}

fn dated() -> CommitRequest {
    CommitRequest { modified: Some(DATE), ..commit(SIZE) }
}

#[test]
fn a_copy_that_is_tried_again_replaces_what_it_found_alone() {
    let folder = Folder::new();
    let store = folder.store();
    std::fs::write(folder.path().join("target"), b"old").unwrap();
    let first = store.stage(&comparing(b"v1")).unwrap();
    let found = first.replaces().to_vec();
    assert_eq!(found, store.attributes(&path("target")).unwrap().version.0);
    write(&first, 0..4);
    assert!(first.keep());
    drop(first);
    // What comes while it is written is noticed when it gets its name, and the bytes stay for whoever asks anew.
    let late = store.stage(&again(&found, DATE)).unwrap();
    write(&late, 4..8);
    std::fs::write(folder.path().join("target"), b"newer").unwrap();
    assert_eq!(late.commit(&CommitRequest { mode: 0o444, ..dated() }).unwrap_err().kind, ErrorKind::TargetChanged);
    let part = folder.names().into_iter().find(|name| name.ends_with(".part")).unwrap();
    let mode = std::fs::metadata(folder.path().join(part)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "who goes on has to open it for writing");
    assert_eq!(store.stage(&again(&found, DATE)).unwrap_err().kind, ErrorKind::TargetChanged);
    assert_eq!(std::fs::read(folder.path().join("target")).unwrap(), b"newer");
    let anew = store.stage(&comparing(b"v1")).unwrap();
    assert_eq!(stored_range::ranges(anew.kept()), [extent(0, SIZE)]);
    anew.commit(&dated()).unwrap();
    // Nothing was there, and now there is: the same, unless it is the copy itself.
    assert_eq!(store.stage(&again(b"", Timestamp::new(1_600_000_000, 0))).unwrap_err().kind, ErrorKind::TargetChanged);
}

#[test]
fn what_may_be_the_copy_itself_is_told_as_committed_once_it_was_compared() {
    let folder = Folder::new();
    let store = folder.store();
    let first = store.stage(&comparing(b"v1")).unwrap();
    write(&first, 0..8);
    let committed = first.commit(&dated()).unwrap();
    let stage = store.stage(&again(b"", DATE)).unwrap();
    assert_eq!(stage.kept(), [StoredRange { extent: extent(0, SIZE), value: None, proved: false }]);
    assert_eq!(
        stage.write(&[1], 0).unwrap_err().kind,
        ErrorKind::TargetChanged,
        "nothing is written to what has its name"
    );
    stage.sync().unwrap();
    assert_eq!(stage.commit(&dated()).unwrap().version, committed.version);
    // Who compares nothing sends it again.
    let mut blind = again(b"", DATE);
    blind.resume.iter_mut().for_each(|resume| resume.hashed = false);
    assert_eq!(store.stage(&blind).unwrap().kept(), []);
    // Somebody else takes the name while it is compared.
    let stage = store.stage(&again(b"", DATE)).unwrap();
    std::fs::write(folder.path().join("other"), b"newer").unwrap();
    std::fs::rename(folder.path().join("other"), folder.path().join("target")).unwrap();
    assert_eq!(stage.commit(&dated()).unwrap_err().kind, ErrorKind::TargetChanged);
    assert_eq!(std::fs::read(folder.path().join("target")).unwrap(), b"newer");
}

#[test]
fn another_process_is_kept_away_while_one_writes() {
    let folder = Folder::new();
    let stage = folder.store().stage(&request(b"v1")).unwrap();
    assert_eq!(folder.store().stage(&request(b"v1")).unwrap_err().kind, ErrorKind::Busy);
    drop(stage);
    drop(folder.store().stage(&request(b"v1")).unwrap());
}

#[test]
fn little_is_not_kept_and_a_long_story_stays_short() {
    let folder = Folder::new();
    let stage = folder.store().stage(&request(b"v1")).unwrap();
    stage.write(&[1; 1000], 0).unwrap();
    assert!(!stage.keep());
    drop(stage);
    assert_eq!(folder.names(), Vec::<String>::new());
    // Every other page: far more ranges than one journal holds, told many times.
    let stage = folder.store().stage(&request(b"v1")).unwrap();
    for page in (0..2048u64).step_by(2) {
        stage.write(&[1; 4096], page * 4096).unwrap();
        if page % 64 == 0 {
            stage.checkpoint().unwrap();
        }
    }
    assert!(stage.keep());
    drop(stage);
    let journal = folder.names().into_iter().find(|name| name.ends_with(".journal")).unwrap();
    let length = std::fs::metadata(folder.path().join(journal)).unwrap().len();
    assert!(length <= 128 << 10, "{length} bytes");
    assert_eq!(folder.store().stage(&request(b"v1")).unwrap().kept().len(), 1024);
}

/// From here on this thread's syncs fail, and nobody else's.
fn without_a_disk() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let calls = [libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_syncfs].map(|call| (call, Vec::new()));
    let refused = SeccompAction::Errno(libc::EIO as u32);
    let machine = std::env::consts::ARCH.try_into().expect("a machine with seccomp");
    let filter = SeccompFilter::new(calls.into(), SeccompAction::Allow, refused, machine).expect("a filter");
    seccompiler::apply_filter(&BpfProgram::try_from(filter).expect("a program")).expect("a kernel with seccomp");
}

#[test]
fn only_markers_that_are_to_outlive_a_power_cut_wait_for_the_disk() {
    for synced in [true, false] {
        let folder = Folder::new();
        let mut asked = request(b"v1");
        asked.resume.as_mut().unwrap().synced = synced;
        let stage = folder.store().stage(&asked).unwrap();
        write(&stage, [0, 1]);
        // A thread of its own: the filter cannot be taken off again.
        let noted = std::thread::scope(|scope| {
            let marker = || {
                without_a_disk();
                (stage.checkpoint().is_ok(), stage.keep())
            };
            scope.spawn(marker).join().unwrap()
        });
        assert_eq!(noted, (!synced, !synced));
        drop(stage);
        let kept =
            folder.store().kept(&path("target"), TRANSFER, b"anna").map(|kept| stored_range::ranges(&kept.noted));
        assert_eq!(kept, (!synced).then(|| vec![extent(0, 2 << 20)]), "synced: {synced}");
    }
}

#[test]
fn a_part_that_has_the_mode_of_a_file_nobody_may_write_is_gone_on_with() {
    use std::os::unix::fs::PermissionsExt;
    const NOBODY: u32 = 65_534;
    let folder = Folder::new();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(folder.path(), Some(NOBODY), None).unwrap();
    }
    // Root may write everything, so a thread of its own gives that up.
    let kept = std::thread::scope(|scope| {
        let owner = || {
            if rustix::process::geteuid().is_root() {
                rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(NOBODY)).unwrap();
            }
            for name in left(&folder, b"v1") {
                let mode = std::fs::Permissions::from_mode(0o444);
                std::fs::set_permissions(folder.path().join(name), mode).unwrap();
            }
            let stage = folder.store().stage(&request(b"v1")).unwrap();
            stored_range::ranges(stage.kept()).len()
        };
        scope.spawn(owner).join().unwrap()
    });
    assert_eq!(kept, 3);
}
