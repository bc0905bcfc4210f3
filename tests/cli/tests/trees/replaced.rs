//! What has become something of another kind, and files that have other names in common: `sync` makes one like the other.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use xdfs_test_cli::{Scene, exit, pattern};

use super::judge::same;
use super::sync::{names, synced, tree};

#[test]
fn a_directory_makes_way_for_what_the_source_has_in_its_place_and_back() {
    synced(20, &[], &[], |way| {
        let source = |name: &str| way.scene.path(format!("{}/{name}", way.top));
        // A small file, a large one, a link, a pipe's name, where directories are; and directories where files and links are.
        way.scene.write(format!("{}/d2/deep/er/file", way.top), b"deeper");
        symlink("nowhere", source("d2/deep/link")).expect("a link");
        way.run(&[]).ends_with(0);
        for name in ["d0", "d1/e1", "d2", "d3"] {
            std::fs::remove_dir_all(source(name)).expect("it is there");
        }
        std::fs::write(source("d0"), b"a file now").expect("a file");
        std::fs::write(source("d1/e1"), pattern(1 << 20, 3)).expect("a file");
        symlink("elsewhere", source("d2")).expect("a link");
        std::fs::remove_file(source("d1/link")).expect("it is there");
        way.scene.write(format!("{}/d1/link/file", way.top), b"in what was a link");
        way.scene.write(format!("{}/surplus", way.copy), b"surplus");
        // Without leave to remove names, what is in a directory stays; each such name is told, and fails alone.
        way.run(&[]).ends_with(exit::SOME_FAILED).says(&["d0: ", "d1/e1: ", "d2: ", "sync --delete", "3 names failed"]);
        assert!(way.at("d0").is_dir() && way.at("d2/deep/er/file").exists() && way.at("surplus").exists());
        assert_eq!(std::fs::read(way.at("d1/link/file")).expect("it is there"), b"in what was a link");
        let told = names(&way.run(&["--delete", "-n", "--json"]), "replaced");
        assert_eq!(told, ["d0", "d1/e1"]);
        assert!(way.at("d0").is_dir());
        way.run(&["--delete"]).ends_with(0);
        same(&way.scene, way.top, way.copy, false);
        // And back.
        for name in ["d0", "d1/e1", "d2"] {
            std::fs::remove_file(source(name)).expect("it is there");
            way.scene.write(format!("{}/{name}/again/file", way.top), name.as_bytes());
        }
        way.run(&["--delete"]).ends_with(0);
        same(&way.scene, way.top, way.copy, false);
    });
}

#[test]
fn an_empty_directory_makes_way_without_being_asked_for() {
    synced(3, &[], &[], |way| {
        std::fs::create_dir(way.at("new")).expect("a directory");
        way.scene.write(format!("{}/new", way.top), b"a file");
        way.run(&[]).ends_with(0);
        same(&way.scene, way.top, way.copy, false);
    });
}

#[test]
fn a_name_that_cannot_be_replaced_is_told_and_stops_no_other_removal() {
    synced(10, &[], &[], |way| {
        way.scene.write(format!("{}/blocked", way.top), b"a file");
        for name in ["blocked/kept.log", "blocked/other", "surplus/file"] {
            way.scene.write(format!("{}/{name}", way.copy), b"surplus");
        }
        way.run(&["--delete", "--exclude", "*.log"]).ends_with(exit::SOME_FAILED).says(&["blocked: ", "1 name"]);
        assert!(way.at("blocked/kept.log").exists() && !way.at("blocked/other").exists());
        assert!(!way.at("surplus").exists());
        way.run(&["--delete"]).ends_with(0);
        same(&way.scene, way.top, way.copy, false);
    });
}

#[test]
fn directories_that_make_way_count_among_the_names_that_may_be_removed() {
    synced(10, &[], &[], |way| {
        for name in ["one", "two"] {
            way.scene.write(format!("{}/{name}", way.top), b"a file");
            way.scene.write(format!("{}/{name}/inner", way.copy), b"in its way");
        }
        way.scene.write(format!("{}/surplus", way.copy), b"surplus");
        way.run(&["--delete", "--max-delete", "1"]).ends_with(exit::SOME_FAILED).says(&["--max-delete"]);
        assert!(way.at("surplus").exists() && (way.at("one").is_dir() || way.at("two").is_dir()));
        way.run(&["--delete", "--max-delete", "2"]).ends_with(0);
        same(&way.scene, way.top, way.copy, false);
    });
}

/// As many names on both sides, and equal content: only which names are one file differs.
#[test]
fn names_are_one_file_where_they_are_one_at_the_source_and_nowhere_else() {
    synced(3, &["--keep", "modes,owner"], &["-a"], |way| {
        let source = |name: &str| way.scene.path(format!("{}/{name}", way.top));
        for name in ["a", "c", "e", "d1/x"] {
            let file = way.scene.write(format!("{}/{name}", way.top), b"all have the same content");
            let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
            std::fs::File::open(file).and_then(|file| file.set_modified(time)).expect("a time");
        }
        for (first, second) in [("a", "b"), ("c", "d"), ("e", "d2/f")] {
            std::fs::hard_link(source(first), source(second)).expect("a second name");
        }
        symlink("to", source("s")).expect("a link");
        std::fs::hard_link(source("s"), source("t")).expect("a second name of a link");
        way.run(&["-a"]).ends_with(0);
        same(&way.scene, way.top, way.copy, true);
        assert_eq!(tree(&way.run(&["-a", "--json"]))["others"], 0, "nothing is made again");
        let number = |name: &str| std::fs::symlink_metadata(way.at(name)).expect("it is there").ino();
        let swap = |name: &str, with: &str| {
            std::fs::remove_file(way.at(name)).expect("it is there");
            std::fs::hard_link(way.at(with), way.at(name)).expect("a second name");
        };
        let check = || {
            way.run(&["-a"]).ends_with(0);
            same(&way.scene, way.top, way.copy, true);
            let files = [["a", "b"], ["c", "d"], ["e", "d2/f"], ["s", "t"]];
            let numbers = files.map(|names| names.map(number));
            assert!(numbers.iter().all(|[one, other]| one == other), "{numbers:?}");
            let mut firsts: Vec<_> = numbers.iter().map(|[one, _]| *one).chain([number("d1/x")]).collect();
            firsts.sort_unstable();
            firsts.dedup();
            assert_eq!(firsts.len(), 5, "{firsts:?}");
        };
        // Partners swapped; all of them one; one with another that has a single name; none.
        swap("b", "c");
        swap("d", "a");
        check();
        ["b", "c", "d", "e", "d2/f"].iter().for_each(|name| swap(name, "a"));
        check();
        swap("d1/x", "c");
        check();
        for name in ["a", "t", "d2/f"] {
            let link = std::fs::read_link(way.at(name)).ok();
            let content = std::fs::read(way.at(name)).unwrap_or_default();
            std::fs::remove_file(way.at(name)).expect("it is there");
            match link {
                Some(to) => symlink(to, way.at(name)).expect("a link"),
                None => std::fs::write(way.at(name), content).expect("a file"),
            }
        }
        check();
        // A directory where a second name is to be.
        std::fs::remove_file(way.at("d")).expect("it is there");
        way.scene.write(format!("{}/d/in/it", way.copy), b"in its way");
        way.run(&["-a"]).ends_with(exit::SOME_FAILED).says(&["d: "]);
        way.run(&["-a", "--delete"]).ends_with(0);
        check();
    });
}

#[test]
fn what_has_a_reserved_name_is_no_surplus() {
    synced(20, &[], &[], |way| {
        way.run(&[]).ends_with(0);
        // Others may read it, so that it is no staging directory of this user.
        let name = format!("{}/d0/.xdfs-staging/file", way.copy);
        way.scene.write(&name, b"of another user");
        way.run(&["--delete"]).ends_with(0);
        assert_eq!(way.scene.read(&name), b"of another user");
    });
}

/// Names of a directory that makes way, many enough that a kill meets it while it is emptied.
const NAMES: usize = 1500;
/// The file in its place: so long that it moves while the name is free.
const LARGE: usize = 12 << 20;

/// What is there under the name of a directory that makes way for a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Emptied(usize),
    Nothing,
    File,
}

#[track_caller]
fn found(path: &Path, content: &[u8]) -> Found {
    let Ok(node) = std::fs::symlink_metadata(path) else { return Found::Nothing };
    if node.is_dir() {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        return Found::Emptied(entries.inspect(|entry| assert_eq!(entry.file_name().len(), 8)).count());
    }
    assert!(std::fs::read(path).expect("a file") == content, "the new file is there whole or not at all");
    Found::File
}

/// docs/decisions/0039: the old directory less some names, or nothing, or the new file whole; and the same command ends it.
#[test]
fn a_kill_while_a_directory_makes_way_leaves_less_of_it_and_the_same_command_ends_it() {
    let content = pattern(LARGE, 5);
    let mut seen = Vec::new();
    for down in [false, true] {
        let scene = Scene::new();
        let (top, copy) = if down { ("server/tree", "copy") } else { ("tree", "server/copy") };
        scene.write(format!("{top}/name"), &content);
        scene.write(format!("{top}/other"), b"other");
        let server = scene.serve();
        let (source, target) =
            if down { (server.url("tree"), copy.to_owned()) } else { (top.to_owned(), server.url("copy")) };
        // When it is emptied to so many names it is killed; 0 is the time behind that.
        for left in [NAMES, NAMES - 1, NAMES / 2, 1, 0] {
            for number in 0..NAMES {
                scene.write(format!("{copy}/name/{number:08}"), b"");
            }
            let words = ["sync", "--delete", "--retry", "0", source.as_str(), &target];
            let running = scene.start(words);
            let until = Instant::now() + Duration::from_secs(60);
            let path = scene.path(format!("{copy}/name"));
            while !running.has_ended() && matches!(found(&path, &content), Found::Emptied(names) if names > left) {
                assert!(Instant::now() < until, "it does not go on: {:?}", found(&path, &content));
            }
            running.kill();
            seen.push(found(&path, &content));
            scene.run(words).ends_with(0);
            same(&scene, top, copy, false);
            std::fs::remove_file(path).expect("it is the file");
        }
    }
    println!("{seen:?}");
    assert!(seen.iter().any(|found| matches!(found, Found::Emptied(names) if *names < NAMES)), "{seen:?}");
}
