//! `cp --dry-run`: it tells what would be copied, and changes nothing at either end.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use xdfs_test_cli::{Scene, exit};

/// All that is below a directory: names, sizes and times.
fn snapshot(top: &Path) -> BTreeMap<String, (u64, SystemTime)> {
    let mut found = BTreeMap::new();
    let mut left = vec![top.to_owned()];
    while let Some(path) = left.pop() {
        let facts = path.symlink_metadata().expect("it is there");
        if facts.is_dir() {
            left.extend(std::fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry").path()));
        }
        let length = if facts.is_dir() { 0 } else { facts.len() };
        found.insert(path.display().to_string(), (length, facts.modified().expect("a time")));
    }
    found
}

fn sorted(text: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = String::from_utf8_lossy(text).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn files_are_named_with_what_they_would_replace_and_nothing_changes() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("work/a", &[1; 1000]);
    scene.write("work/b", &[2; 2000]);
    scene.write("server/b", &[3; 500]);
    scene.write("server/d/c", &[4; 70_000]);
    let before = snapshot(&scene.path("work")).into_iter().chain(snapshot(&scene.path("server"))).collect::<Vec<_>>();
    let url = |path| server.url(path);
    let (a, b, c) = (url("a"), url("b"), url("d/c"));
    let up = scene.run(["cp", "--dry-run", "work/a", "work/b", &url("")]);
    up.ends_with(exit::DONE);
    assert_eq!(sorted(&up.output), [format!("copy work/a to {a}"), format!("replace {b} by work/b")]);
    // A target that is a directory receives the file.
    let into = scene.run(["cp", "--dry-run", "work/a", &url("d")]);
    into.ends_with(exit::DONE);
    assert_eq!(sorted(&into.output), [format!("copy work/a to {}", url("d/a"))]);
    let down = scene.run(["cp", "--dry-run", &b, &c, "work"]);
    down.ends_with(exit::DONE);
    assert_eq!(sorted(&down.output), [format!("copy {c} to work/c"), format!("replace work/b by {b}")]);
    scene.run(["cp", "--dry-run", "-n", "work/b", &b]).ends_with(exit::DONE).says(&["it exists and was kept"]);
    let json = scene.run(["cp", "--dry-run", "--json", "--offset", "1000", &c, "work/b"]);
    json.ends_with(exit::DONE);
    let objects = json.objects();
    assert_eq!(objects.len(), 1, "{objects:?}");
    assert_eq!((&objects[0]["event"], &objects[0]["action"]), (&"planned".into(), &"replaced".into()));
    assert_eq!((&objects[0]["bytes"], &objects[0]["dry_run"]), (&69_000.into(), &true.into()));
    let (code, shown) = scene.terminal_as("somebody", ["cp", "--dry-run", "work/a", "work/b", &url("")]).wait();
    assert_eq!(code, Some(exit::DONE), "{shown}");
    assert!(shown.contains("would copy 2 files (3.00 kB)"), "{shown}");
    // What would fail fails here, too.
    scene.run(["cp", "--dry-run", "work/x", &a]).ends_with(exit::NOT_FOUND).says(&["work/x"]);
    scene.run(["cp", "--dry-run", &url("x"), "work"]).ends_with(exit::NOT_FOUND).says(&[&url("x")]);
    scene.run(["cp", "--dry-run", "work/a", &url("gone/a")]).ends_with(exit::NOT_FOUND).says(&["no such directory"]);
    scene.run(["cp", "--dry-run", &url("d"), "work"]).says(&["is a directory", "copy it with -r"]);
    let range = scene.run(["cp", "--dry-run", "--offset", "600", &b, "work/b"]);
    range.ends_with(exit::REFUSED).says(&["it ends before the range does"]);
    scene.run(["cp", "--offset", "600", &b, "work/b"]).ends_with(exit::REFUSED);
    let after = snapshot(&scene.path("work")).into_iter().chain(snapshot(&scene.path("server"))).collect::<Vec<_>>();
    assert_eq!(before, after);
}

#[test]
fn trees_are_listed_as_sync_does_also_where_they_would_be_new() {
    let scene = Scene::new();
    let server = scene.serve();
    for name in ["tree/a", "tree/d/b", "server/far/x/c", "server/far/y"] {
        scene.write(name, &[7; 1000]);
    }
    let tops = ["tree", "server"];
    let look = || tops.map(|top| snapshot(&scene.path(top)));
    let before = look();
    for target in ["new", "new/", "far", "far/"] {
        let up = scene.run(["cp", "-r", "--dry-run", "tree", &server.url(target)]);
        up.ends_with(exit::DONE);
        assert_eq!(sorted(&up.output), ["copy a", "copy d/b", "make d"], "{target}");
    }
    for target in ["fresh", "fresh/", "tree", "tree/", "."] {
        let down = scene.run(["cp", "-r", "--dry-run", &server.url("far"), target]);
        down.ends_with(exit::DONE);
        assert_eq!(sorted(&down.output), ["copy x/c", "copy y", "make x"], "{target}");
    }
    let atomic = scene.run(["cp", "-r", "--dry-run", "--atomic", "tree", &server.url("new")]);
    atomic.ends_with(exit::DONE);
    assert_eq!(sorted(&atomic.output), ["copy a", "copy d/b", "make d"]);
    let json = scene.run(["cp", "-r", "--dry-run", "--json", "tree", &server.url("new/")]);
    assert!(json.objects().iter().all(|line| line["durability"].is_null()), "nothing was written");
    let last = json.objects().pop().expect("the tree");
    assert_eq!((&last["target"], &last["dry_run"]), (&server.url("new/tree").into(), &true.into()));
    let synced = scene.run(["sync", "--dry-run", &server.url("far"), "fresh"]);
    synced.ends_with(exit::DONE);
    assert_eq!(sorted(&synced.output), ["copy x/c", "copy y", "make x"]);
    for words in [["tree", &server.url("gone/new")], [&server.url("far"), "gone/new"]] {
        scene.run([&["cp", "-r", "--dry-run"], &words[..]].concat()).ends_with(exit::NOT_FOUND);
    }
    assert!(!scene.path("fresh").exists() && !scene.path("gone").exists());
    assert_eq!(before, look());
    // The same without --dry-run is what was told.
    scene.run(["cp", "-r", &server.url("far"), "fresh/"]).ends_with(exit::DONE);
    assert_eq!(scene.names("fresh/far"), ["x", "y"]);
}

#[test]
fn what_the_export_does_not_take_is_said_as_the_copy_itself_would() {
    let scene = Scene::new();
    scene.write("file", b"x");
    scene.write("tree/a", b"x");
    scene.write("server/there", b"x");
    let options = ["--export", "ro=server:ro", "--export", "nowhere=server"];
    let server = scene.serve_with(&options);
    let for_readers = scene.serve_with(&["--allow-anonymous", "ro"]);
    let for_adders = scene.serve_with(&["--allow-anonymous", "create"]);
    let (ro, missing) = (server.url_in("ro", "x"), server.url_in("nosuch", "x"));
    let (read, there) = (for_readers.url("x"), for_adders.url("there"));
    for words in [
        &["cp", "file", &ro][..],
        &["cp", "-r", "tree", &ro],
        &["sync", "tree", &ro],
        &["cp", "file", &missing],
        &["cp", "-r", "tree", &missing],
        &["cp", "file", &read],
        &["sync", "tree", &read],
        &["cp", "file", &there],
    ] {
        let planned = scene.run([&words[..1], &["--dry-run"], &words[1..]].concat());
        let real = scene.run(words);
        assert_eq!((planned.code, planned.text()), (real.code, ""), "{words:?}: {planned:?} {real:?}");
        assert_ne!(real.code, Some(exit::DONE), "{words:?}");
        assert!(planned.messages.contains("export '"), "{}", planned.messages);
    }
    // What may be added is planned.
    let new = for_adders.url("new");
    scene.run(["cp", "--dry-run", "file", &new]).ends_with(exit::DONE);
    scene.run(["cp", "--dry-run", "-n", "file", &there]).ends_with(exit::DONE).says(&["was kept"]);
}

#[test]
fn a_file_of_a_tree_that_is_there_already_is_said_to_be_replaced() {
    let scene = Scene::new();
    let server = scene.serve();
    for (name, length) in [("tree/same", 5), ("tree/other", 6), ("server/far/other", 7), ("server/up/tree/other", 7)] {
        scene.write(name, &vec![7; length]);
    }
    let far = server.url("far");
    scene.run(["sync", "--dry-run", "tree", &far]).ends_with(exit::DONE);
    for (words, copied, replaced) in [
        (["sync", "--dry-run", "tree", &far], "same", "other"),
        (["sync", "--dry-run", &far, "tree"], "", "other"),
        (["cp", "-r", "--dry-run", "tree"], "same", "other"),
    ] {
        let up = server.url("up");
        let words: Vec<&str> = words.into_iter().chain((words[0] == "cp").then_some(up.as_str())).collect();
        let told = scene.run(&words);
        told.ends_with(exit::DONE);
        let mut expected = vec![format!("replace {replaced}")];
        expected.extend((!copied.is_empty()).then(|| format!("copy {copied}")));
        expected.sort();
        assert_eq!(sorted(&told.output), expected, "{words:?}");
        let json = scene.run(words.iter().copied().chain(["--json"]));
        let name = |line: &serde_json::Value| line["path"] == replaced && line["action"] == "replaced";
        assert!(json.objects().iter().any(name), "{:?}", json.objects());
    }
}
