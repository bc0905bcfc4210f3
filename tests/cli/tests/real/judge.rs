//! Whether a copy is like its original, and whether anything else is left.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;

use xdfs_test_cli::STAGING;

/// What a copy has to have of its original.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// Contents, links and times.
    Times,
    /// And permissions, but for the set-id and sticky bits.
    Modes,
    /// And everything else that rsync can compare.
    All,
}

/// What rsync would change to make `copy` like `original`, a line each.
pub fn differences(original: &Path, copy: &Path, kept: Kept) -> String {
    let slash = |path: &Path| format!("{}/", path.display());
    let mut rsync = Command::new("rsync");
    rsync.args(match kept {
        Kept::Times => &["-rltn"][..],
        Kept::Modes => &["-rlptn", "--chmod=ug-s,o-t"],
        Kept::All => &["-aHAXn"],
    });
    rsync.args(["--checksum", "--delete", "--itemize-changes"]);
    // Times are compared to the nanosecond. What is neither file, directory nor link is passed over without a word.
    rsync.args(["--modify-window=-1", "--info=nonreg0"]);
    let output =
        rsync.args([slash(original), slash(copy)]).output().expect("rsync is installed by the set-up of the tests");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text
}

/// What is beside `copy` in its directory, a line each: nothing else was ever put there.
pub fn leftovers(copy: &Path) -> String {
    let mut found = Vec::new();
    let directory = copy.parent().expect("a copy is in a directory");
    for path in entries(directory).filter(|path| path != copy) {
        if path.ends_with(STAGING) {
            found.extend(entries(&path));
        } else {
            found.push(path);
        }
    }
    found.iter().map(|path| format!("{}\n", path.display())).collect()
}

/// Whether nothing is under way beside `copy` or in it.
pub fn is_tidy(copy: &Path) -> bool {
    let mut open = vec![copy.to_owned()];
    while let Some(directory) = open.pop() {
        for path in entries(&directory) {
            if path.ends_with(STAGING) {
                return false;
            }
            open.extend(path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()).then_some(path));
        }
    }
    leftovers(copy).is_empty()
}

/// What is in a directory. One of a server's own may go while it is looked at.
fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    there(std::fs::read_dir(directory)).into_iter().flatten().filter_map(there).map(|entry| entry.path())
}

/// What is there still.
fn there<T>(found: io::Result<T>) -> Option<T> {
    match found {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        found => Some(found.expect("a directory can be read")),
    }
}
