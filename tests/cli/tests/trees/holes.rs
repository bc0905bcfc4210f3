//! Files with holes: with -a they take no more room at the target than at the source.

use std::os::unix::fs::{FileExt, MetadataExt};

use xdfs_test_cli::{Scene, pattern};

use super::judge::same;

/// What a file system may need besides the bytes that are no zeros.
const SLACK: u64 = 64 << 10;

fn allocated(scene: &Scene, name: &str) -> u64 {
    scene.path(name).metadata().expect("it is there").blocks() * 512
}

fn sparse(scene: &Scene, name: &str, length: u64, data: &[u8], offset: u64) {
    let file = std::fs::File::create(scene.path(name)).expect("a file");
    file.set_len(length).expect("a length");
    file.write_all_at(data, offset).expect("bytes");
}

/// A large file with its bytes in the middle, one that ends with a hole, a small one of zeros, and one that is full of them.
fn plant(scene: &Scene) {
    scene.directory("tree");
    sparse(scene, "tree/middle", 64 << 20, &pattern(1 << 20, 1), (31 << 20) + 12_345);
    sparse(scene, "tree/end", 5_000_001, &pattern(100_000, 2), 0);
    sparse(scene, "tree/small", 30_000, b"", 0);
    scene.write("tree/full", &vec![0; 3 << 20]);
    scene.write("tree/little", &[0; 20_000]);
}

/// Nothing takes more room in `copy` than in the tree, and what has no holes there has none.
#[track_caller]
fn as_large(scene: &Scene, copy: &str) {
    same(scene, "tree", copy, true);
    for name in ["middle", "end", "small"] {
        let (ours, theirs) = (allocated(scene, &format!("tree/{name}")), allocated(scene, &format!("{copy}/{name}")));
        assert!(theirs <= ours + SLACK, "{copy}/{name} takes {theirs} bytes, its source {ours}");
    }
    for name in ["full", "little"] {
        assert!(allocated(scene, &format!("{copy}/{name}")) > 0, "{copy}/{name} has a hole that its source has not");
    }
}

#[test]
fn with_a_holes_stay_holes_in_both_directions() {
    let scene = Scene::new();
    plant(&scene);
    let server = scene.serve_with(&["--keep", "modes,owner,acl,xattr,special"]);
    for (verify, channels) in [("hash", "4"), ("reread", "1"), ("none", "3")] {
        let (up, down) = (format!("up-{verify}"), format!("down-{verify}"));
        let words = ["-a", "-P", channels, "--verify", verify, "--protection", "clear"];
        scene.run(["cp"].into_iter().chain(words).chain(["tree", &server.url(&up)])).ends_with(0).is_silent();
        as_large(&scene, &format!("server/{up}"));
        scene.run(["cp"].into_iter().chain(words).chain([&server.url(&up), &*down])).ends_with(0).is_silent();
        as_large(&scene, &down);
    }
    // A single file, and what comes over one that was full.
    scene.write("server/middle", &pattern(64 << 20, 3));
    scene.run(["cp", "-a", "tree/middle", &server.url("middle")]).ends_with(0);
    scene.run(["cp", "-a", &server.url("middle"), "middle"]).ends_with(0);
    for copy in ["server/middle", "middle"] {
        assert!(scene.read(copy) == scene.read("tree/middle"), "{copy} has other bytes");
        assert!(allocated(&scene, copy) <= allocated(&scene, "tree/middle") + SLACK);
    }
    // Without -a nobody looks for zeros.
    scene.run(["cp", "-r", "tree", &server.url("plain")]).ends_with(0).is_silent();
    assert!(allocated(&scene, "server/plain/middle") >= 64 << 20);
}
