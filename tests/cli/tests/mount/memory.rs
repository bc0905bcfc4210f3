//! How much memory the process of a mount takes.

use std::fs;

use xdfs_test_cli::{Scene, pattern};

use crate::{Mount, shell};

/// What `--cache` says.
const CACHE: u64 = 8 << 20;

/// What the process has beside that at most: the program itself, its threads, and the names and attributes of a few thousand files.
const OTHERS: u64 = 48 << 20;

/// The same of the static program, whose allocator keeps pages for each thread.
const OTHERS_STATIC: u64 = 96 << 20;

/// Bytes of each large file.
const LARGE: usize = 48 << 20;

#[test]
fn a_mount_takes_no_more_memory_than_its_cache_and_a_bound() {
    let scene = Scene::new();
    let server = scene.serve();
    for directory in 0..30 {
        for file in 0..100 {
            scene.write(format!("server/tree/{directory:02}/{file:02}"), &pattern(3000, file));
        }
    }
    let large = ["one", "two", "three"];
    for (seed, name) in (0..).zip(large) {
        scene.write(format!("server/{name}"), &pattern(LARGE, seed));
    }
    let mount = Mount::new(&scene, &server, &["--cache", &CACHE.to_string()]);
    let before = mount.running().peak_memory();
    let after = |what: &str| {
        let peak = mount.running().peak_memory();
        let others = if xdfs_test_cli::released().is_some() { OTHERS_STATIC } else { OTHERS };
        assert!(peak < CACHE + others, "{what}: {peak} bytes, and {before} at first");
    };
    shell(&mount.point, "cat ../server/tree/*/* > ../all; cat tree/*/* | cmp - ../all");
    after("a tree");
    // All at once, each in its order.
    shell(
        &mount.point,
        "for f in one two three; do cmp $f ../server/$f & all=\"$all $!\"; done; for p in $all; do wait $p; done",
    );
    after("large files");
    shell(
        &mount.point,
        "for f in one two three; do cp ../server/$f new-$f & all=\"$all $!\"; done; for p in $all; do wait $p; done",
    );
    after("written files");
    for name in large {
        let [old, new] = ["", "new-"].map(|prefix| fs::read(scene.path(format!("server/{prefix}{name}"))).unwrap());
        assert!(old == new, "{name}");
    }
    mount.unmount();
}
