//! `sync`: only what changed, nothing that was left out, and no more removed than was asked for.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags, setxattr, utimensat};
use serde_json::Value;
use xdfs_test_cli::{Outcome, Scene, Server, exit, pattern};

use super::judge::{differences, plant, same};

#[track_caller]
pub fn tree(outcome: &Outcome) -> Value {
    outcome.ends_with(0);
    outcome.objects().pop().expect("a line about the tree")
}

pub fn names(outcome: &Outcome, action: &str) -> Vec<String> {
    let objects = outcome.objects();
    let named = objects.iter().filter(|line| line["event"] == "name" && line["action"] == action);
    let mut names: Vec<_> = named.map(|line| line["path"].as_str().expect("a path").to_owned()).collect();
    names.sort();
    names
}

/// A tree and its copy, in one direction.
pub struct Way {
    _server: Server,
    pub source: String,
    pub target: String,
    /// Where source and copy are.
    pub top: &'static str,
    pub copy: &'static str,
    pub scene: Scene,
}

impl Way {
    pub fn run(&self, options: &[&str]) -> Outcome {
        let ends = [self.source.as_str(), self.target.as_str()];
        self.scene.run(["sync"].iter().chain(options).copied().chain(ends))
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.scene.path(format!("{}/{name}", self.copy))
    }
}

/// Each direction, behind a first `sync` with these options.
pub fn synced(files: usize, serving: &[&str], options: &[&str], check: impl Fn(&Way)) {
    for down in [false, true] {
        let scene = Scene::new();
        plant(&scene, "tree", files, 1);
        plant(&scene, "server/tree", files, 1);
        let server = scene.serve_with(serving);
        let (source, target, top, copy) = match down {
            true => (server.url("tree"), "copy".to_owned(), "server/tree", "copy"),
            false => ("tree".to_owned(), server.url("copy"), "tree", "server/copy"),
        };
        let way = Way { _server: server, source, target, top, copy, scene };
        way.run(options).ends_with(0);
        check(&way);
    }
}

#[test]
fn what_is_the_same_is_left_alone_in_both_directions() {
    let scene = Scene::new();
    plant(&scene, "tree", 60, 1);
    let server = scene.serve();
    let url = server.url("copy");
    let first = tree(&scene.run(["sync", "--json", "tree", &url]));
    assert_eq!((&first["files"], &first["skipped"]), (&60.into(), &0.into()));
    let again = tree(&scene.run(["sync", "--json", "tree", &url]));
    assert_eq!((&again["files"], &again["skipped"], &again["directories"]), (&0.into(), &61.into(), &0.into()));
    let down = tree(&scene.run(["sync", "--json", &url, "back"]));
    assert_eq!(down["files"], 60);
    let again = tree(&scene.run(["sync", "--json", &url, "back"]));
    assert_eq!((&again["files"], &again["skipped"]), (&0.into(), &61.into()));
    // One changed in size, one in time alone, one new, one a link to somewhere else now.
    scene.write("tree/d2/e2/file-2", b"another length");
    scene.write("tree/d3/e0/file-3", &scene.read("tree/d3/e0/file-3"));
    scene.write("tree/new/deep/file", b"new");
    std::fs::remove_file(scene.path("tree/d1/link")).expect("it is there");
    std::os::unix::fs::symlink("elsewhere", scene.path("tree/d1/link")).expect("a link");
    let changed = scene.run(["sync", "--json", "tree", &url]);
    assert_eq!(names(&changed, "copied"), ["d2/e2/file-2", "d3/e0/file-3", "new/deep/file"]);
    assert_eq!(names(&changed, "made"), ["d1/link", "new", "new/deep"]);
    same(&scene, "tree", "server/copy", false);
    let changed = scene.run(["sync", "--json", &url, "back"]);
    assert_eq!(names(&changed, "copied"), ["d2/e2/file-2", "d3/e0/file-3", "new/deep/file"]);
    same(&scene, "tree", "back", false);
}

#[test]
fn contents_are_compared_where_that_is_asked_for() {
    let scene = Scene::new();
    plant(&scene, "tree", 20, 1);
    let server = scene.serve();
    let url = server.url("copy");
    scene.run(["sync", "tree", &url]).ends_with(0);
    scene.run(["sync", &url, "back"]).ends_with(0);
    // The same size and time, other bytes: no comparison of times can see it.
    for top in ["server/copy", "back"] {
        let path = scene.path(format!("{top}/d1/e1/file-1"));
        let before = std::fs::metadata(&path).and_then(|meta| meta.modified()).expect("a time");
        let mut content = scene.read(format!("{top}/d1/e1/file-1"));
        content[77] ^= 1;
        std::fs::write(&path, content).expect("it can be written");
        std::fs::File::open(&path).and_then(|file| file.set_modified(before)).expect("a time can be set");
    }
    assert_eq!(tree(&scene.run(["sync", "--json", "tree", &url]))["files"], 0);
    for (words, copy) in [(["tree", url.as_str()], "server/copy"), ([url.as_str(), "back"], "back")] {
        let outcome = scene.run(["sync", "--json", "--checksum", words[0], words[1]]);
        let told = tree(&outcome);
        assert_eq!((names(&outcome, "copied"), &told["skipped"]), (vec!["d1/e1/file-1".to_owned()], &20.into()));
        same(&scene, "tree", copy, false);
    }
}

#[test]
fn a_dry_run_tells_and_changes_nothing() {
    let scene = Scene::new();
    plant(&scene, "tree", 20, 1);
    let server = scene.serve();
    let url = server.url("copy");
    scene.run(["sync", "tree", &url]).ends_with(0);
    scene.write("tree/d2/e2/file-2", b"changed");
    scene.write("tree/more/file", b"more");
    scene.write("server/copy/surplus/file", b"surplus");
    let before = differences(&scene.path("tree"), &scene.path("server/copy"), false);
    let outcome = scene.run(["sync", "-n", "--delete", "tree", &url]);
    let mut lines: Vec<_> = outcome.ends_with(0).text().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["copy more/file", "delete surplus", "make more", "replace d2/e2/file-2"]);
    assert_eq!(differences(&scene.path("tree"), &scene.path("server/copy"), false), before);
    assert!(!scene.path("server/copy/more").exists());
    let outcome = scene.run(["sync", "-n", "--delete", &url, "tree"]);
    let mut lines: Vec<_> = outcome.ends_with(0).text().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["copy surplus/file", "delete more", "make surplus", "replace d2/e2/file-2"]);
    assert_eq!(differences(&scene.path("tree"), &scene.path("server/copy"), false), before);
}

#[test]
fn only_what_the_source_does_not_have_is_removed_and_only_when_it_may() {
    synced(20, &[], &[], |way| {
        for name in ["extra/deep/file", "extra/other", "d1/surplus", "kept.log"] {
            way.scene.write(format!("{}/{name}", way.copy), b"surplus");
        }
        std::os::unix::fs::symlink("/", way.at("root")).expect("a link");
        // Not asked for; then too many; then all but what is excluded.
        way.run(&[]).ends_with(0);
        assert!(way.at("extra/deep/file").exists());
        let refused = way.run(&["-q", "--delete", "--max-delete", "2"]);
        refused.ends_with(exit::SOME_FAILED).says(&["error: ", "more than 2", "help: allow more with --max-delete N"]);
        assert!(!refused.messages.contains("name failed"), "no name failed: {}", refused.messages);
        assert!(way.at("extra/deep/file").exists());
        let looked = way.run(&["-n", "--delete", "--max-delete", "2"]);
        looked
            .ends_with(exit::SOME_FAILED)
            .says(&["4 names would be removed, more than 2: so none is\nhelp: allow more"]);
        let lines: Vec<_> = looked.text().lines().filter(|line| line.starts_with("delete ")).collect();
        assert_eq!(lines.len(), 4, "{}", looked.text());
        assert!(!looked.messages.contains("--dry-run"), "{}", looked.messages);
        way.run(&["--json", "--delete", "--exclude", "*.log"]).ends_with(0);
        assert!(way.at("kept.log").exists());
        std::fs::remove_file(way.at("kept.log")).expect("it is there");
        way.run(&[]).ends_with(0);
        same(&way.scene, way.top, way.copy, false);
        assert!(way.scene.path("server").exists() && std::path::Path::new("/etc").exists());
    });
}

#[test]
fn what_has_become_a_directory_takes_the_place_of_what_it_was() {
    synced(20, &[], &[], |way| {
        // A file, and a link to a directory outside, where the source has directories with something in them.
        way.scene.write("outside/kept", b"not of this copy");
        for name in ["d1/e1", "d2"] {
            std::fs::remove_dir_all(way.at(name)).expect("it is there");
        }
        std::fs::write(way.at("d1/e1"), b"was a file").expect("a file");
        std::os::unix::fs::symlink(way.scene.path("outside"), way.at("d2")).expect("a link");
        assert!(names(&way.run(&["-n", "--json"]), "made").contains(&"d2".to_owned()) && way.at("d2").is_symlink());
        way.run(&[]).ends_with(0);
        same(&way.scene, way.top, way.copy, false);
        assert_eq!(std::fs::read_dir(way.scene.path("outside")).expect("it is there").count(), 1);
    });
}

/// A copy that is killed between making a link and giving it its time leaves one that differs by that alone.
#[test]
fn a_link_of_another_time_gets_that_of_its_source() {
    synced(3, &[], &[], |way| {
        let link = way.at("d1/link");
        let number = || std::fs::symlink_metadata(&link).expect("it is there").ino();
        let before = number();
        let long_ago = Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
        let times = Timestamps { last_access: long_ago, last_modification: long_ago };
        utimensat(CWD, &link, &times, AtFlags::SYMLINK_NOFOLLOW).expect("a time can be set");
        way.run(&["-n"]).ends_with(0);
        assert!(!differences(&way.scene.path(way.top), &way.scene.path(way.copy), false).is_empty());
        let told = tree(&way.run(&["--json"]));
        assert_eq!((&told["files"], &told["skipped"], &told["reduced"]), (&0.into(), &4.into(), &0.into()));
        same(&way.scene, way.top, way.copy, false);
        assert_eq!(number(), before, "it is the link that was there");
    });
}

/// With -a: what has the same content and another mode or owner, or lacks attributes, as after a copy that was killed before it gave
/// it them.
#[test]
fn attributes_are_made_the_same_where_they_are_kept() {
    synced(10, &["--keep", "modes,owner,acl,xattr"], &["-a"], |way| {
        let of_source = |name: &str| way.scene.path(format!("{}/{name}", way.top));
        for (name, mode) in [("d1/e1/file-1", 0o2750), ("d2/e2", 0o1705), ("d3", 0o700)] {
            std::fs::set_permissions(of_source(name), std::fs::Permissions::from_mode(mode)).expect("a mode");
        }
        for name in ["d4/e1/file-4", "d1/link", "d5"] {
            std::os::unix::fs::lchown(of_source(name), Some(12), Some(34)).expect("an owner");
        }
        for name in ["d6/e0/file-6", "d0"] {
            setxattr(of_source(name), "user.note", b"new", XattrFlags::empty()).expect("a note");
        }
        let told = tree(&way.run(&["-a", "--json"]));
        assert_eq!((&told["files"], &told["skipped"], &told["reduced"]), (&0.into(), &11.into(), &0.into()));
        same(&way.scene, way.top, way.copy, true);
        // Without -a nothing of it is looked at.
        std::os::unix::fs::lchown(of_source("d1"), Some(56), None).expect("an owner");
        way.run(&[]).ends_with(0);
        assert_ne!(std::fs::metadata(way.at("d1")).expect("it is there").uid(), 56);
    });
}

#[test]
fn what_is_excluded_stays_in_a_directory_that_goes_and_so_does_what_holds_it() {
    synced(3, &[], &[], |way| {
        for name in ["extra/deep/kept.log", "extra/deep/file", "extra/other", "extra/kept/file", "gone/file"] {
            way.scene.write(format!("{}/{name}", way.copy), b"surplus");
        }
        let options = ["--delete", "--exclude", "*.log", "--exclude", "kept/"];
        way.run(&options).ends_with(0).says(&["extra", "kept"]);
        let there = |name: &str| way.at(name).exists();
        assert!(there("extra/deep/kept.log") && there("extra/kept/file"));
        assert!(!there("extra/deep/file") && !there("extra/other") && !there("gone"));
    });
}

/// T8: what could not be read is no reason to remove anything.
#[test]
fn b09_nothing_is_removed_when_part_of_the_source_could_not_be_read() {
    let scene = Scene::new();
    plant(&scene, "tree", 10, 1);
    scene.write("server/copy/surplus", b"surplus");
    let server = scene.serve();
    // A directory that nobody can read to its end: its path is longer than any that is copied.
    let name = "n".repeat(250);
    let deep = scene.path("tree/deep");
    let script = format!("mkdir deep && cd -P deep && for i in $(seq 140); do mkdir {name} && cd -P {name}; done");
    let run = |words: &[&str]| {
        assert!(
            std::process::Command::new("bash")
                .args(words)
                .current_dir(scene.path("tree"))
                .status()
                .expect("bash runs")
                .success()
        );
    };
    run(&["-c", &script]);
    let outcome = scene.run(["sync", "--delete", "tree", &server.url("copy")]);
    outcome.ends_with(exit::SOME_FAILED).says(&["were not removed", "command of its own"]);
    // The name is told by its start and its length.
    assert!(outcome.messages.lines().all(|line| line.len() < 1000), "{}", outcome.messages.len());
    assert!(scene.path("server/copy/surplus").exists());
    run(&["-c", "rm -rf deep ../server/copy/deep"]);
    assert!(!deep.exists());
}

#[test]
fn names_of_a_list_that_the_source_does_not_have_are_failures() {
    let scene = Scene::new();
    for name in ["a", "d/b", "d/c", "left"] {
        scene.write(format!("tree/{name}"), name.as_bytes());
        scene.write(format!("server/tree/{name}"), name.as_bytes());
    }
    let server = scene.serve();
    scene.write("list", b"./a\r\nd/\n\nd/b\n/absolute\n../up\nd/none\n");
    for (source, target, copy) in
        [("tree".to_owned(), server.url("copy"), "server/copy"), (server.url("tree"), "copy".to_owned(), "copy")]
    {
        let words = ["sync", "--files-from", "list", "--failures", "failed", &source, &target];
        scene.run(words).ends_with(exit::SOME_FAILED).says(&["/absolute: ", "../up: ", "d/none: ", "3 names failed"]);
        let there = |name: &str| scene.path(format!("{copy}/{name}")).exists();
        assert!(there("a") && there("d/b") && there("d/c") && !there("left"));
        assert_eq!(scene.read("failed"), b"../up\n/absolute\nd/none\n");
        // What is there is enough; '.' is all of it.
        scene.write("list", b"a\n");
        scene.run(words).ends_with(0);
        scene.write("list", b".\n");
        scene.run(words).ends_with(0);
        assert!(there("left"));
        scene.write("list", b"./a\r\nd/\n\nd/b\n/absolute\n../up\nd/none\n");
    }
}

#[test]
fn what_fails_is_named_however_short_its_name_is() {
    let scene = Scene::new();
    scene.write("tree/a", b"a");
    scene.write("server/copy/a/in/the/way", b"x");
    let server = scene.serve();
    scene
        .run(["sync", "tree", &server.url("copy")])
        .ends_with(exit::SOME_FAILED)
        .says(&["a: a directory with something in it"]);
}

#[test]
fn patterns_leave_out_and_take_in_the_order_in_which_they_are_typed() {
    let scene = Scene::new();
    for name in ["a.c", "a.o", "lib/b.c", "lib/b.o", "lib/keep.o", "build/x", "deep/build/y"] {
        scene.write(format!("tree/{name}"), name.as_bytes());
    }
    let server = scene.serve();
    let taken = |options: &[&str], target: &str| {
        let url = server.url(target);
        let outcome = scene.run(["sync", "--json"].iter().chain(options).copied().chain(["tree", url.as_str()]));
        outcome.ends_with(0);
        names(&outcome, "copied")
    };
    assert_eq!(taken(&["--exclude", "*.o", "--exclude", "/build/"], "one"), ["a.c", "deep/build/y", "lib/b.c"]);
    let keep = ["--include", "keep.o", "--exclude", "*.o", "--exclude", "build"];
    assert_eq!(taken(&keep, "two"), ["a.c", "lib/b.c", "lib/keep.o"]);
    let only_c = ["--include", "*/", "--include", "*.c", "--exclude", "*"];
    assert_eq!(taken(&only_c, "three"), ["a.c", "lib/b.c"]);
    scene.run(["sync", "--exclude", "", "tree", &server.url("x")]).ends_with(exit::USAGE).says(&["--exclude", "empty"]);
    scene.run(["sync", "--exclude", "[z-a]", "tree", &server.url("x")]).ends_with(exit::USAGE).says(&["--exclude"]);
}

#[test]
fn patterns_are_read_from_files_and_from_standard_input() {
    let scene = Scene::new();
    for name in ["a.c", "a.o", "#a", "lib/b.c", "lib/b.o", "lib/keep.o", "build/x"] {
        scene.write(format!("tree/{name}"), name.as_bytes());
    }
    let list = scene.write("patterns", b"# objects\n; and so on\n\n+ keep.o\r\n*.o\n- /build/\n");
    let list = list.to_str().unwrap();
    let server = scene.serve();
    let taken = |options: &[&str], target: &str, input: &[u8]| {
        let url = server.url(target);
        let words = ["sync", "--json"].iter().chain(options).copied().chain(["tree", url.as_str()]);
        let mut running = scene.start(words);
        running.feed(input);
        let outcome = running.wait();
        outcome.ends_with(0);
        names(&outcome, "copied")
    };
    assert_eq!(taken(&["--exclude-from", list], "one", b""), ["#a", "a.c", "lib/b.c", "lib/keep.o"]);
    let both = ["--exclude", "keep.o", "--exclude-from", list];
    assert_eq!(taken(&both, "two", b""), ["#a", "a.c", "lib/b.c"], "the first that fits decides");
    assert_eq!(taken(&["--exclude-from", "-"], "three", b"lib\n\\#a\n*.o\n"), ["a.c", "build/x"]);
    let only_c = ["--include-from", "-", "--exclude", "*"];
    assert_eq!(taken(&only_c, "four", b"*/\n*.c"), ["a.c", "lib/b.c"]);
    let refused = |options: &[&str], said: &[&str]| {
        let url = server.url("x");
        scene
            .run(["sync"].iter().chain(options).copied().chain(["tree", url.as_str()]))
            .ends_with(exit::USAGE)
            .says(said);
    };
    let bad = scene.write("bad", b"good\n[z-a]\n");
    refused(&["--exclude-from", bad.to_str().unwrap()], &["--exclude-from", "bad, line 2"]);
    for (text, remedy) in
        [("!keep.o", "help: write '+ keep.o'"), ("lib/***", "left out by 'lib/'"), ("a[b", "has no ']'")]
    {
        let foreign = scene.write("foreign", format!("good\n{text}\n").as_bytes());
        refused(&["--exclude-from", foreign.to_str().unwrap()], &["foreign, line 2: ", remedy]);
    }
    refused(&["--exclude-from", "-", "--files-from", "-"], &["--exclude-from -", "standard input"]);
    let empty = scene.write("empty", b"- \n");
    refused(&["--exclude-from", empty.to_str().unwrap()], &["line 1", "empty"]);
    let absent = scene.run(["sync", "--exclude-from", "absent", "tree", &server.url("x")]);
    absent.ends_with(exit::NOT_FOUND).says(&["--exclude-from absent: "]);
    let two = scene.run(["cp", "-r", "--exclude-from", "-", "tree", "tree/lib", &server.url("")]);
    two.ends_with(exit::USAGE).says(&["--exclude-from -", "standard input"]);
    assert!(!scene.path("server/x").exists());
}

#[test]
fn an_export_that_takes_nothing_says_so_once() {
    let scene = Scene::new();
    plant(&scene, "tree", 40, 3);
    scene.write("tree/large", &pattern(3 << 20, 1));
    scene.directory("fixed/there");
    let server = scene.serve_with(&["--export", "ro=fixed:ro"]);
    for (words, target) in [(["cp", "-r"], "new"), (["sync", "--delete"], "there"), (["sync", "-a"], "new")] {
        let outcome = scene.run(words.into_iter().chain(["tree", &server.url_in("ro", target)]));
        outcome.ends_with(exit::PERMISSION_DENIED).says(&["read-only"]);
        let told = outcome.messages.lines().filter(|line| line.contains("read-only")).count();
        assert_eq!(told, 1, "{}", outcome.messages);
        assert!(!outcome.messages.contains("again"), "{}", outcome.messages);
    }
    assert_eq!(scene.names("fixed"), ["there"]);
}
