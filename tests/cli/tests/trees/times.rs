//! Times from far away, and times that differ where nothing else does.

use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use xdfs_test_cli::pattern;

use super::judge::same;
use super::sync::{names, synced, tree};

fn set_time(path: &Path, seconds: i64, nanoseconds: u32) {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("a time can be set");
}

/// Before 1970, and as late as ext4 can tell.
#[test]
fn times_from_long_ago_and_far_ahead_go_along_and_are_known_again() {
    synced(3, &[], &[], |way| {
        let source = |name: &str| way.scene.path(format!("{}/{name}", way.top));
        for (number, (seconds, nanoseconds)) in
            [(-1, 0), (-1, 999_999_999), (-2_000_000_000, 1), (10_000_000_000, 123_456_789), (0, 0)]
                .into_iter()
                .enumerate()
        {
            let kinds = ["small", "large", "directory/in", "link"].map(|kind| source(&format!("t{number}/{kind}")));
            way.scene.write(&kinds[0], b"a few bytes");
            way.scene.write(&kinds[1], &pattern((1 << 20) + 7, number as u64));
            std::fs::create_dir_all(&kinds[2]).expect("a directory");
            std::os::unix::fs::symlink("to", &kinds[3]).expect("a link");
            kinds.iter().for_each(|path| set_time(path, seconds, nanoseconds));
            set_time(&source(&format!("t{number}")), seconds, nanoseconds);
        }
        way.run(&[]).ends_with(0).is_silent();
        same(&way.scene, way.top, way.copy, false);
        let told = tree(&way.run(&["--json"]));
        assert_eq!((&told["files"], &told["others"]), (&0.into(), &0.into()), "{told}");
    });
}

#[test]
fn a_fraction_that_the_source_does_not_have_is_another_time() {
    synced(3, &[], &[], |way| {
        let [source, copy] = [way.top, way.copy].map(|top| way.scene.path(format!("{top}/d1/e1/file-1")));
        set_time(&source, 1_000_000_000, 0);
        set_time(&copy, 1_000_000_000, 500_000_000);
        assert_eq!(names(&way.run(&["--json"]), "copied"), ["d1/e1/file-1"]);
        assert!(names(&way.run(&["--json"]), "copied").is_empty());
    });
}

#[test]
fn a_time_that_differs_is_set_where_the_content_is_found_equal() {
    synced(3, &[], &[], |way| {
        set_time(&way.at("d1/e1/file-1"), 1_000_000_000, 5);
        let outcome = way.run(&["--json", "--checksum"]);
        assert!(names(&outcome, "copied").is_empty(), "{}", tree(&outcome));
        same(&way.scene, way.top, way.copy, false);
    });
}
