//! Stores in crates of their own, behind the real server: files go to objects and come back.

use xdfs_test_cli::{Scene, exit, pattern};

const MIB: usize = 1 << 20;

#[test]
fn files_are_copied_into_objects_and_back_at_every_level() {
    let scene = Scene::new();
    let server = scene.serve_with(&["--export", "objects=example-objects:256"]);
    for (level, channels) in [("clear", "1"), ("integrity", "4"), ("private", "8")] {
        // None, a part that is not full, and several parts.
        for size in [0, 1, MIB + 17, 21 * MIB + 5] {
            let content = pattern(size, size as u64 + 1);
            let source = scene.write("source", &content);
            let name = format!("{level}-{size}");
            let url = server.url_in("objects", &name);
            scene.run(["cp", "-P", channels, "--protection", level, "source", &url]).ends_with(0).is_silent();
            scene.run(["cp", "-P", channels, "--protection", level, &url, &name]).ends_with(0).is_silent();
            assert!(scene.read(&name) == content, "{name} came back as something else");
            let times = |path: &std::path::Path| std::fs::metadata(path).unwrap().modified().unwrap();
            assert_eq!(times(&source), times(&scene.path(&name)), "{name}");
        }
    }
}

#[test]
fn an_object_is_replaced_as_a_whole_and_never_changed_in_place() {
    let scene = Scene::new();
    let server = scene.serve_with(&["--export", "objects=example-objects:64"]);
    let url = server.url_in("objects", "x");
    let (old, new) = (pattern(12 * MIB, 1), pattern(9 * MIB, 2));
    scene.write("old", &old);
    scene.write("new", &new);
    scene.run(["cp", "old", &url]).ends_with(0);
    // What has no room ends as it began: the old object stays.
    scene.write("large", &pattern(60 * MIB, 3));
    let refused = scene.run(["cp", "large", &url]);
    refused.ends_with(exit::NO_SPACE).says(&["the bucket is full"]);
    scene.run(["cp", &url, "back"]).ends_with(0);
    assert!(scene.read("back") == old);
    scene.run(["cp", "new", &url]).ends_with(0);
    scene.run(["cp", &url, "back"]).ends_with(0);
    assert!(scene.read("back") == new);
}

#[test]
fn a_store_that_cannot_be_opened_is_refused_before_the_server_starts() {
    let scene = Scene::new();
    let refused = scene.run(["serve", "--export", "objects=example-objects:much"]);
    refused.ends_with(exit::LOCAL).says(&["example-objects:much", "MiB"]);
    scene.write("server.toml", b"[exports.o]\ndirectory = \"example-objects:0\"\n");
    scene.run(["serve", "--config", "server.toml"]).says(&["example-objects:0", "server.toml:2:"]);
}
