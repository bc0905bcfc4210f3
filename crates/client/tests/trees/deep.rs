//! Paths of 32 KiB and directories a thousand deep: rsync stops at the kernel's PATH_MAX, so these are compared by a walk of
//! descriptors.

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use xdfs_client::tree::{Download, Ended, TreeOptions, Upload};
use xdfs_client::{ConnectOptions, Session};
use xdfs_io::store::LocalStore;

use super::heard::Heard;
use super::support::Scratch;
use super::support::serving::Serving;

fn enter(at: impl AsFd, name: &[u8]) -> OwnedFd {
    rustix::fs::openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).unwrap()
}

/// Makes directories of such a name inside of each other, so many, with a file in each tenth.
fn dig(top: &Path, name: &[u8], depth: usize) {
    let mut at = enter(CWD, top.as_os_str().as_encoded_bytes());
    for level in 0..depth {
        rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)).unwrap();
        at = enter(&at, name);
        if level % 10 == 9 {
            let flags = OFlags::WRONLY | OFlags::CREATE;
            let file = rustix::fs::openat(&at, "file", flags, Mode::from_raw_mode(0o644)).unwrap();
            rustix::io::write(&file, format!("at level {level}").as_bytes()).unwrap();
        }
    }
}

/// Kind, mode, time and content by depth and name.
type Everything = BTreeMap<(usize, Vec<u8>), (FileType, u32, i64, Vec<u8>)>;

/// Everything, however long its path.
fn walk(top: &Path) -> Everything {
    let mut seen = BTreeMap::new();
    let mut open = vec![(0, enter(CWD, top.as_os_str().as_encoded_bytes()))];
    while let Some((depth, directory)) = open.pop() {
        for entry in Dir::read_from(&directory).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_bytes().to_vec();
            if name == b"." || name == b".." {
                continue;
            }
            let stat = rustix::fs::statat(&directory, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW).unwrap();
            let kind = FileType::from_raw_mode(stat.st_mode);
            let mut content = vec![0; 64];
            if kind == FileType::RegularFile {
                let file = rustix::fs::openat(&directory, name.as_slice(), OFlags::RDONLY, Mode::empty()).unwrap();
                let length = rustix::io::read(&file, &mut content).unwrap();
                content.truncate(length);
            } else {
                content.clear();
                open.push((depth + 1, enter(&directory, &name)));
            }
            seen.insert((depth, name), (kind, stat.st_mode & 0o7777, stat.st_mtime, content));
        }
    }
    seen
}

/// Removes it, which the standard library cannot at such a depth.
fn bury(scratch: &Scratch, name: &str) {
    let removed = std::process::Command::new("rm").args(["-rf", name]).current_dir(scratch.path()).status().unwrap();
    assert!(removed.success());
}

#[test]
fn the_deepest_and_the_longest_paths_go_up_and_come_down() {
    // One component less each: the export's name is part of a path on the wire.
    for (name, depth) in [(vec![b'd'], 1000), (vec![b'n'; 250], 128)] {
        let serving = Serving::start();
        // Records of the usual size: such paths go into one several times.
        let session = Session::connect(&ConnectOptions { block: None, ..serving.options(2) }).unwrap();
        let scratch = Scratch::new();
        for directory in ["tree", "back"] {
            std::fs::create_dir(scratch.file(directory)).unwrap();
        }
        dig(&scratch.file("tree"), &name, depth);
        let store = |path: &Path| LocalStore::open_root(path, true).unwrap();
        let mut heard = Heard::default();
        let options = TreeOptions::default();
        let mut up = Upload::new(store(&scratch.file("tree")), "data/t", true, options.clone()).unwrap();
        let ended = up.run(&session, &mut heard);
        assert!(
            matches!(ended, Ended::Complete(summary) if summary.failed == 0),
            "{ended:?} {:?}",
            heard.failed.first()
        );
        let expected = walk(&scratch.file("tree"));
        assert_eq!(expected.len(), depth + depth / 10);
        assert!(walk(&serving.directory.file("t")) == expected, "up, names of {} bytes", name.len());
        let ended = Download::new(store(&scratch.file("back")), "data/t", true, options).run(&session, &mut heard);
        assert!(
            matches!(ended, Ended::Complete(summary) if summary.failed == 0),
            "{ended:?} {:?}",
            heard.failed.first()
        );
        assert!(walk(&scratch.file("back")) == expected, "down, names of {} bytes", name.len());
        for (one, name) in [(&scratch, "tree"), (&scratch, "back"), (&serving.directory, "t")] {
            bury(one, name);
        }
    }
}
