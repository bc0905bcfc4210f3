//! What two trees have in common, and trees worth comparing.

use std::path::Path;
use std::process::Command;

use xdfs_test_cli::{Scene, pattern};

/// What rsync would change to make `copy` like `original`, a line each: contents, and with `all` everything that it can keep.
pub fn differences(original: &Path, copy: &Path, all: bool) -> String {
    let what = if all { "-aHAXn" } else { "-rlptn" };
    let slash = |path: &Path| format!("{}/", path.display());
    let mut rsync = Command::new("rsync");
    rsync.args([what, "--checksum", "--delete", "--itemize-changes"]);
    rsync.args([slash(original), slash(copy)]);
    let output = rsync.output().expect("rsync is installed by the set-up of the tests");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Fails where anything differs that `differences` sees.
#[track_caller]
pub fn same(scene: &Scene, original: &str, copy: &str, all: bool) {
    assert_eq!(differences(&scene.path(original), &scene.path(copy), all), "", "{original} and {copy}");
}

/// Small files, large ones, empty ones and links in some directories, from a seed; so many files.
pub fn plant(scene: &Scene, top: &str, files: usize, seed: u64) {
    for number in 0..files {
        let size = match number % 10 {
            0 => 0,
            1 => 200_000 + number * 997,
            _ => number * 131 % 30_000,
        };
        let directory = format!("{top}/d{}/e{}", number % 7, number % 3);
        scene.write(format!("{directory}/file-{number}"), &pattern(size, seed + number as u64));
    }
    scene.directory(format!("{top}/empty"));
    std::os::unix::fs::symlink("../d0", scene.path(format!("{top}/d1/link"))).expect("a link can be made");
}
