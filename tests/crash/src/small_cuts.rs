//! Power cuts of a real ext4 behind each step of a group of small files, in directories of which some were just made.

use crate::loopback::{Cuts, Disk};
use std::path::Path;
use xdfs_io::store::{Existing, LocalStore, SmallFile, Store};
use xdfs_proto::base::commit::{Commit, CommitStep};
use xdfs_proto::base::{RelPath, Safety};
use xdfs_test_cli::pattern;

/// Steps of the group: four files are finished, synced, named, and three directories are synced.
const STEPS: usize = 4 + 4 + 4 + 3;

/// Cuts the power behind each step of a group in turn, `count` times in all; every other group syncs the file system at once.
pub fn series(disk: &mut Disk, count: usize) -> Cuts {
    let mut cuts = Cuts::default();
    let mut before: Option<Vec<u8>> = None;
    while cuts.all < count && cuts.broken.is_none() {
        let number = cuts.all;
        let steps = 1 + number % STEPS;
        let contents: Vec<Vec<u8>> = (0..4)
            .map(|file| pattern(1 + (number * 7919 + file * 1009) % 20_000, (number * 4 + file) as u64 + 1))
            .collect();
        // What two of them are in is made by each group anew.
        let folder = format!("d{number}");
        let targets = ["target".to_owned(), format!("{folder}/a"), format!("{folder}/e/b"), format!("new{number}")];
        let told = put(disk.folder(), &targets, &contents, steps, number % 2 == 1);
        disk.cut();
        cuts.all += 1;
        cuts.inside += usize::from(told.contains(&None));
        for (((target, content), told), file) in targets.iter().zip(&contents).zip(&told).zip(0..) {
            let found = disk.read(target);
            let is_new = found.as_ref() == Some(content);
            cuts.new += usize::from(is_new);
            let old = if file == 0 { &before } else { &None };
            if !is_new && (found != *old || *told == Some(Safety::Durable)) {
                let length = found.as_ref().map(Vec::len);
                cuts.broken =
                    Some(format!("cut {number} behind step {steps}, {target}, told {told:?}: {length:?} bytes"));
            }
        }
        before = disk.read("target");
        clear(disk.folder(), &targets);
    }
    cuts
}

/// Puts the group as far as so many steps get. What may be told of each file.
fn put(folder: &Path, targets: &[String], contents: &[Vec<u8>], steps: usize, at_once: bool) -> Vec<Option<Safety>> {
    let store = LocalStore::open_root(folder, true).expect("the file system is there");
    let mut files = Vec::new();
    for (target, content) in targets.iter().zip(contents) {
        let target = RelPath::parse(target.as_bytes()).expect("a name");
        let (mode, modified, existing, base) = (0o644, None, Existing::Replace, None);
        files.push(SmallFile { target, content, mode, modified, existing, base, parents: true, holes: false });
    }
    let mut group = store.stage_small(&files, true);
    let mut plan = Commit::group(group.members(), at_once);
    for _ in 0..steps {
        let Some(step) = plan.next() else { break };
        match step {
            CommitStep::Finish(member) => group.finish(member, &files[member]),
            CommitStep::SyncFile(member) => group.sync(member),
            CommitStep::SyncSystem => group.sync_system(),
            CommitStep::Name(member) => group.name(member, &files[member]),
            CommitStep::SyncDirectory(directory) => group.sync_directory(directory),
        }
        .expect("a sound disk");
        plan.on_done(step).expect("it was next");
    }
    (0..files.len()).map(|member| plan.safety(member)).collect()
}

/// Makes room: the disk is a small one.
fn clear(folder: &Path, targets: &[String]) {
    for target in &targets[1..] {
        let _ = std::fs::remove_file(folder.join(target));
    }
    if let Some(made) = targets[1].split('/').next() {
        let _ = std::fs::remove_dir_all(folder.join(made));
    }
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).expect("the file system is there");
}
