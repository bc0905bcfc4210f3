//! Trees that were changed at random on both sides: kinds, links, modes, times, content. rsync finds nothing behind a `sync`.
//!
//! `XDFS_TREE_CHANGES=100` runs so many rounds; a failure names its seed.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, utimensat};
use xdfs_test_cli::{Scene, pattern};

use super::judge::{differences, plant, same};
use super::sync::synced;

fn rounds() -> u64 {
    std::env::var("XDFS_TREE_CHANGES").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

/// Everything below a directory, outermost first.
fn below(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![top.to_owned()];
    while let Some(at) = open.pop() {
        let mut names: Vec<_> =
            std::fs::read_dir(at).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
        names.sort();
        open.extend(names.iter().filter(|path| path.is_dir() && !path.is_symlink()).cloned());
        found.extend(names);
    }
    found
}

fn remove(path: &Path) {
    match path.is_dir() && !path.is_symlink() {
        true => std::fs::remove_dir_all(path).expect("it is there"),
        false => std::fs::remove_file(path).expect("it is there"),
    }
}

/// Makes something of any kind.
fn make(dice: &mut Dice, path: &Path, others: &[PathBuf]) {
    match dice.below(6) {
        0 => symlink(format!("to-{}", dice.below(9)), path).expect("a link"),
        1 => {
            std::fs::create_dir(path).expect("a directory");
            for number in 0..dice.below(4) {
                std::fs::write(path.join(format!("inner-{number}")), pattern(number * 999, 7)).expect("a file");
            }
        }
        2 => rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o640), 0).expect("a pipe"),
        3 => {
            let of = &others[dice.below(others.len())];
            if !of.exists() || of.is_dir() || std::fs::hard_link(of, path).is_err() {
                std::fs::write(path, b"in place of a second name").expect("a file");
            }
        }
        _ => std::fs::write(path, pattern(dice.below(150_000), dice.0)).expect("a file"),
    }
}

fn change(dice: &mut Dice, top: &Path) {
    let all = below(top);
    for _ in 0..12 {
        let path = &all[dice.below(all.len())];
        if std::fs::symlink_metadata(path).is_err() {
            continue;
        }
        match dice.below(5) {
            0 => remove(path),
            1 | 2 => {
                remove(path);
                make(dice, path, &all);
            }
            3 if !path.is_symlink() => {
                let mode = [0o700, 0o755, 0o750, 0o1777][dice.below(4)];
                std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a mode");
            }
            _ => {
                let time = Timespec { tv_sec: dice.below(4_000_000_000) as i64 - 2_000_000_000, tv_nsec: 5 };
                let times = Timestamps { last_access: time, last_modification: time };
                utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("a time");
            }
        }
    }
    for number in 0..4 {
        make(dice, &top.join(format!("new-{number}-{}", dice.0 % 1000)), &all);
    }
}

#[test]
fn behind_random_changes_on_both_sides_a_sync_leaves_nothing_that_differs() {
    let options = ["-a", "--delete"];
    for seed in 1..=rounds() {
        synced(20, &["--keep", "modes,owner,acl,xattr,special"], &options, |way| {
            let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            for (side, directory) in [("source", way.top), ("target", way.copy), ("source", way.top)] {
                change(&mut dice, &way.scene.path(directory));
                let outcome = way.run(&options);
                assert_eq!(outcome.code, Some(0), "seed {seed}, {side} changed: {}", outcome.messages);
                let (top, copy) = (way.scene.path(way.top), way.scene.path(way.copy));
                assert_eq!(differences(&top, &copy, true), "", "seed {seed}, {side} changed");
            }
        });
    }
}

/// What has been made anew under the name of an export's directory, or of a source, is another directory: the one that is open is
/// gone, and is not taken for one that has become empty.
#[test]
fn a_directory_that_was_removed_is_not_taken_for_an_empty_one() {
    let scene = Scene::new();
    plant(&scene, "server", 12, 3);
    let server = scene.serve();
    scene.run(["sync", "--delete", &server.url(""), "copy"]).ends_with(0);
    let mut cp = std::process::Command::new("cp");
    let copied = cp.args(["-a", "copy", "whole"]).current_dir(scene.path("")).status();
    assert!(copied.expect("cp runs").success());
    std::fs::remove_dir_all(scene.path("server")).expect("it is ours");
    scene.directory("server");
    let outcome = scene.run(["sync", "--delete", "--max-delete", "100", &server.url(""), "copy"]);
    outcome.fails().says(&["no such file"]);
    // The top has the time at which the other one lost its names.
    let time = scene.path("whole").metadata().and_then(|top| top.modified()).expect("a time");
    std::fs::File::open(scene.path("copy")).and_then(|top| top.set_modified(time)).expect("it is ours");
    same(&scene, "whole", "copy", false);
    scene.run(["cp", "-r", &server.url(""), "other"]).fails();
    scene.run(["ls", &server.url("")]).fails();
}
