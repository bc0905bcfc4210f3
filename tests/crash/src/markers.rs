//! Markers of the real store: what a journal tells of behind a power cut, and what is gone on with behind a kill.

use crate::loopback::Disk;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xdfs_io::store::{Existing, JournalTags, LocalStore, Resume, Stage, StageRequest, Store};
use xdfs_proto::base::{Digest, Error, RelPath, Timestamp, TransferId};
use xdfs_test_cli::pattern;

/// Bytes of each file: a sync of them takes a few milliseconds, so that a cut can come between two calls of a marker.
const SIZE: usize = 4 << 20;
const PIECE: usize = 1 << 20;
/// Cuts come at any of the microseconds up to here behind the beginning of a marker.
const MOMENTS: u64 = 16_000;

fn request(number: u64) -> StageRequest {
    let mut transfer = [0; 16];
    transfer[..8].copy_from_slice(&number.to_be_bytes());
    StageRequest {
        target: RelPath::parse(b"target").expect("a name"),
        size: Some(SIZE as u64),
        existing: Existing::Replace,
        transfer: TransferId(transfer),
        resume: Some(Resume {
            source: b"version".to_vec(),
            owner: b"anna".to_vec(),
            hashed: false,
            since: Timestamp::new(0, 0),
            synced: true,
        }),
        base: None,
        holes: false,
    }
}

fn store(folder: &Path) -> LocalStore {
    let store = LocalStore::open_root(folder, true).expect("the file system is there");
    store.with_journal_tags(Arc::new(Tags))
}

/// Authenticates journals with nothing: what is tested here is what they tell of.
#[derive(Debug)]
struct Tags;

impl JournalTags for Tags {
    fn tag(&self, _: &[&[u8]]) -> Digest {
        [7; 32]
    }
}

/// The bytes of the part file below `folder`, and its names removed.
fn take_part(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let staging = folder.join(".xdfs-staging");
    for entry in std::fs::read_dir(&staging).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|end| end == "part") {
            bytes = std::fs::read(&path).expect("it is ours");
        }
    }
    if staging.exists() {
        std::fs::remove_dir_all(staging).expect("it is ours");
    }
    // What was removed makes room only when the journal has it.
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).expect("the file system is there");
    bytes
}

/// What a series of cuts found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cuts {
    /// Cuts.
    pub all: u64,
    /// A journal was there behind them.
    pub noted: u64,
    /// One that lied.
    pub broken: Option<String>,
}

/// Cuts the power beside `count` markers: what a journal tells of is there.
pub fn series(disk: &mut Disk, count: u64) -> Cuts {
    let mut cuts = Cuts::default();
    while cuts.all < count && cuts.broken.is_none() {
        let number = cuts.all;
        let content = pattern(SIZE, number + 1);
        let folder = disk.folder().to_owned();
        let stage = store(&folder).stage(&request(number)).expect("there is room");
        stage.write(&content, 0).expect("it is written");
        std::thread::scope(|scope| {
            let marker = scope.spawn(move || marker(stage));
            let (began, moment) = (Instant::now(), Duration::from_micros(number * 7919 % MOMENTS));
            while began.elapsed() < moment {
                std::thread::yield_now();
            }
            disk.cut();
            // It may have failed, or not.
            let _ = marker.join().expect("a marker does not panic");
        });
        cuts.all += 1;
        let kept = store(&folder).kept(&request(number).target, request(number).transfer, b"anna");
        let there = take_part(&folder);
        let ranges = kept.map_or_else(Vec::new, |kept| kept.noted);
        cuts.noted += u64::from(!ranges.is_empty());
        for noted in ranges {
            let range = noted.extent;
            let range = range.offset() as usize..range.end() as usize;
            if there.get(range.clone()) != content.get(range.clone()) {
                cuts.broken = Some(format!("cut {number}: the journal tells of {range:?}, and it is not there"));
            }
        }
    }
    cuts
}

/// As a program that loses its power: nothing is removed behind it.
fn marker(stage: Stage) -> Result<(), Error> {
    let result = stage.checkpoint();
    stage.leave();
    result
}

/// Bytes that an attempt goes on with behind one that wrote the second piece of a file, marked it, wrote the last one and was
/// killed.
pub fn kept_behind_a_kill(folder: &Path) -> Vec<(u64, u64)> {
    let content = pattern(SIZE, 5);
    let write = |stage: &Stage, piece: usize| {
        let at = piece * PIECE;
        stage.write(&content[at..at + PIECE], at as u64).expect("it is written");
    };
    let stage = store(folder).stage(&request(0)).expect("there is room");
    write(&stage, 1);
    stage.checkpoint().expect("a sound disk");
    write(&stage, 3);
    stage.leave();
    let next = store(folder).stage(&request(0)).expect("there is room");
    next.kept().iter().map(|noted| (noted.extent.offset(), noted.extent.end())).collect()
}

/// What [`kept_behind_a_kill`] has to be: what the marker told of.
pub const MARKED: [(u64, u64); 1] = [(PIECE as u64, 2 * PIECE as u64)];
