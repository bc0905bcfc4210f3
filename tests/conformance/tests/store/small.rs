//! Small files in groups: what the disk alone has to keep.

use crate::bench::{FaultBench, LocalBench, as_nobody, make_fifo, names_under};
use std::os::unix::fs::symlink;
use xdfs_io::store::fault::{Call, Fault, Plan};
use xdfs_io::store::tree::Node;
use xdfs_io::store::{Base, CommitRequest, Existing, LocalStore, SmallFile, SmallReader, StageRequest, Store, Tree};
use xdfs_proto::base::{ErrorKind, Safety, Timestamp};
use xdfs_test_conformance::store::bench::{Bench, names, path, request};
use xdfs_test_conformance::store::small::{file, kinds, new, read};

const EIO: i32 = 5;

#[test]
fn a_file_that_is_another_than_was_seen_is_read_as_it_is() {
    let bench = LocalBench::on_tmpfs();
    let mut reading = SmallReader::default();
    let mut get = |seen: &Node| {
        let attributes = bench.store.get_small(&path("x"), Some(seen), 4096, &mut reading).unwrap();
        (attributes.size, reading.content().to_vec())
    };
    bench.put("x", b"short");
    let seen = bench.store.node(&path("x")).unwrap();
    assert_eq!(get(&seen), (Some(5), b"short".to_vec()));
    for content in [&b"longer than it was"[..], b"s"] {
        bench.put("x", content);
        assert_eq!(get(&seen), (Some(content.len() as u64), content.to_vec()));
    }
    std::fs::remove_file(bench.scratch.path().join("x")).unwrap();
    make_fifo(&bench.scratch.path().join("x"));
    let error = bench.store.get_small(&path("x"), Some(&seen), 4096, &mut SmallReader::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotRegular);
}

/// Puts `file` by a group, or by a stage of its own as a large file is; whether it was there already.
fn unchanged(bench: &LocalBench, file: &SmallFile<'_>, alone: bool) -> bool {
    if !alone {
        return bench.store.put_small(std::slice::from_ref(file), true).pop().unwrap().unwrap().unchanged;
    }
    let size = Some(file.content.len() as u64);
    let asked = StageRequest { target: file.target.clone(), size, ..request("x", file.existing) };
    let mut stage = bench.store.stage(&asked).unwrap();
    stage.write(file.content, 0).unwrap();
    let commit = CommitRequest { length: file.content.len() as u64, mode: file.mode, modified: file.modified };
    stage.finish(&commit).unwrap();
    stage.name(&commit).unwrap();
    stage.unchanged()
}

#[test]
fn what_came_since_somebody_looked_stays_where_it_is_the_file_itself() {
    let content = [7; 600 << 10];
    let long_ago = Existing::ReplaceOther { since: Timestamp::new(0, 0) };
    let copy = SmallFile { existing: long_ago, ..file("x", &content) };
    let mut last = content;
    last[content.len() - 1] = 8;
    for bench in [LocalBench::on_tmpfs(), LocalBench::on_disk(), LocalBench::without_unnamed()] {
        for alone in [false, true] {
            let version = || bench.store.attributes(&copy.target).unwrap().version;
            unchanged(&bench, &SmallFile { existing: Existing::Replace, ..copy.clone() }, alone);
            let first = version();
            assert!(unchanged(&bench, &copy, alone));
            assert_eq!((version(), names(&bench)), (first, vec!["x".to_owned()]));
            let others = [
                // Whoever could know of it meant it.
                SmallFile { existing: Existing::Replace, ..copy.clone() },
                SmallFile { existing: Existing::ReplaceOther { since: Timestamp::new(1 << 40, 0) }, ..copy.clone() },
                SmallFile { mode: 0o600, ..copy.clone() },
                SmallFile { modified: Some(Timestamp::new(1_700_000_000, 123_456_788)), ..copy.clone() },
                SmallFile { content: &content[1..], ..copy.clone() },
                SmallFile { content: &last, ..copy.clone() },
            ];
            for other in others {
                let before = version();
                assert!(!unchanged(&bench, &other, alone), "{:?} {:?}", other.existing, other.modified);
                assert_ne!(version(), before);
                assert_eq!(bench.content("x").unwrap(), other.content);
                unchanged(&bench, &SmallFile { existing: Existing::Replace, ..copy.clone() }, alone);
            }
            // Somebody else would go on having what is put.
            let (one, other) = (bench.scratch.path().join("x"), bench.scratch.path().join("y"));
            std::fs::hard_link(&one, &other).unwrap();
            assert!(!unchanged(&bench, &copy, alone));
            std::fs::remove_file(other).unwrap();
            assert_eq!(names(&bench), ["x"]);
        }
    }
}

#[test]
fn on_a_disk_small_files_are_durable_and_in_memory_they_are_not() {
    for (bench, safety) in [(LocalBench::on_disk(), Safety::Durable), (LocalBench::on_tmpfs(), Safety::Written)] {
        let files = [file("a", b"1"), file("b", b"2")];
        for placed in bench.store.put_small(&files, true) {
            assert_eq!(placed.unwrap().safety, safety);
        }
    }
}

#[test]
fn each_directory_is_synced_once_and_one_that_was_made_in_the_one_above_it() {
    let bench = FaultBench::of(LocalBench::on_disk(), Plan::none());
    let syncs = |files: &[SmallFile<'_>], durable| {
        let before = bench.faults().calls(Call::SyncDirectory);
        assert!(bench.store().put_small(files, durable).iter().all(Result::is_ok));
        bench.faults().calls(Call::SyncDirectory) - before
    };
    let deep = |target| SmallFile { parents: true, ..file(target, b"content") };
    assert_eq!(syncs(&[deep("a/b/x"), deep("a/b/y"), deep("a/b/z")], true), 3, "a/b, a, and the root");
    assert_eq!(syncs(&[deep("a/b/x"), deep("a/b/w")], true), 1, "what is durable stays so");
    assert_eq!(syncs(&[deep("c/x")], false), 0);
    assert_eq!(syncs(&[deep("c/d/y")], true), 3, "whoever made c did not sync it");
    assert_eq!(syncs(&[deep("c/y"), file("z", b"")], true), 2);
}

#[test]
fn an_error_at_any_call_of_one_file_leaves_its_old_content_and_lets_the_others_pass() {
    for call in [Call::Stage, Call::Write, Call::Sync, Call::Commit] {
        // No sync of the whole file system in place of the second call: two files are too few.
        let bench = FaultBench::of(LocalBench::on_disk(), Plan::none().at(call, 2, Fault::Errno(EIO)));
        bench.put("x", b"old");
        bench.put("y", b"old");
        let outcomes = bench.store().put_small(&[file("x", b"new"), file("y", b"new")], true);
        assert_eq!(kinds(outcomes), [None, Some(ErrorKind::Storage)], "{call:?}");
        assert_eq!((bench.content("x").unwrap(), bench.content("y").unwrap()), (b"new".to_vec(), b"old".to_vec()));
        assert_eq!(names(&bench), ["x", "y"]);
    }
}

#[test]
fn a_directory_that_cannot_be_synced_fails_all_that_it_holds_and_nobody_else() {
    let bench = FaultBench::of(LocalBench::on_disk(), Plan::none().at(Call::SyncDirectory, 1, Fault::Errno(EIO)));
    bench.make_directory("d");
    let outcomes = bench.store().put_small(&[file("x", b"1"), file("d/y", b"2"), file("z", b"3")], true);
    assert_eq!(kinds(outcomes), [Some(ErrorKind::Storage), None, Some(ErrorKind::Storage)]);
}

#[test]
fn a_disk_that_is_full_refuses_what_does_not_fit() {
    let bench = FaultBench::of(LocalBench::on_disk(), Plan::none().room(6));
    let outcomes = bench.store().put_small(&[file("x", b"1234"), file("y", b"5678"), file("z", b"9")], false);
    assert_eq!(kinds(outcomes), [None, Some(ErrorKind::NoSpace), Some(ErrorKind::NoSpace)]);
    assert_eq!(names(&bench), ["x"]);
}

#[test]
fn no_link_is_followed_to_a_file_or_on_the_way_to_it() {
    for bench in [LocalBench::on_tmpfs(), LocalBench::on_disk()] {
        let top = bench.scratch.path().to_owned();
        let store = LocalStore::open_root(&top.join("export"), true);
        assert!(store.is_err());
        std::fs::create_dir_all(top.join("export/d")).unwrap();
        std::fs::create_dir(top.join("outside")).unwrap();
        std::fs::write(top.join("outside/canary"), b"canary").unwrap();
        symlink("../outside", top.join("export/out")).unwrap();
        symlink("../outside/canary", top.join("export/link")).unwrap();
        symlink("../outside/new", top.join("export/nothing")).unwrap();
        make_fifo(&top.join("export/fifo"));
        let store = LocalStore::open_root(&top.join("export"), true).unwrap();
        for target in ["out/x", "out/a/x", "link", "nothing", "fifo", "out/canary", "link/x"] {
            for (existing, parents) in [(Existing::Replace, true), (Existing::Keep, false)] {
                let asked = SmallFile { existing, parents, ..file(target, b"evil") };
                let error = store.put_small(&[asked], true).pop().unwrap().unwrap_err();
                let expected = matches!(error.kind, ErrorKind::NotRegular | ErrorKind::NotDirectory);
                assert!(expected, "{target}: {error:?}");
                assert!(read(&store, &path(target), 4096).is_err(), "{target} was read");
            }
        }
        assert_eq!(std::fs::read(top.join("outside/canary")).unwrap(), b"canary");
        assert_eq!(names_under(&top.join("outside")), [b"canary".to_vec()]);
    }
}

#[test]
fn of_many_groups_that_make_one_name_exactly_one_wins() {
    // Whoever replaces nothing says so in one way or the other.
    let nothing = Base { version: Vec::new(), modified: None };
    let ways = [
        (Existing::Keep, None, ErrorKind::AlreadyExists),
        (Existing::Replace, Some(nothing), ErrorKind::TargetChanged),
    ];
    for (bench, (existing, base, lost)) in ways
        .iter()
        .flat_map(|way| [LocalBench::on_tmpfs(), LocalBench::without_unnamed()].map(|bench| (bench, way.clone())))
    {
        for round in 0..20 {
            let target = format!("a{round}{existing:?}/b/x");
            let put = |number: u8, store: &LocalStore| {
                let content = [number; 100];
                let asked = SmallFile { parents: true, existing, base: base.clone(), ..file(&target, &content) };
                let outcome = store.put_small(&[asked], false).pop().unwrap();
                outcome.map(drop).map_err(|error| assert_eq!(error.kind, lost)).is_ok()
            };
            let start = std::sync::Barrier::new(8);
            let (store, start, put) = (&bench.store, &start, &put);
            let run = |number| {
                move || {
                    start.wait();
                    usize::from(put(number, store))
                }
            };
            let wins: usize = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|number| scope.spawn(run(number))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!(wins, 1, "{existing:?}");
            let content = bench.content(&target).unwrap();
            assert!(content.len() == 100 && content.iter().all(|byte| *byte == content[0]));
        }
    }
}

#[test]
fn until_they_have_their_own_names_small_files_have_none_or_those_of_part_files() {
    for (bench, parts) in [(LocalBench::on_tmpfs(), 0), (LocalBench::on_disk(), 0), (LocalBench::without_unnamed(), 2)]
    {
        let files = [file("x", b"1"), file("y", b"2")];
        let mut group = bench.store.stage_small(&files, true);
        group.finish(0, &files[0]).unwrap();
        let staged = names(&bench);
        assert_eq!(staged.iter().filter(|name| name.ends_with(".part")).count(), parts);
        assert!(staged.iter().all(|name| name.starts_with(".xdfs-staging")), "{staged:?}");
        group.name(0, &files[0]).unwrap();
        drop(group);
        assert_eq!(names(&bench), ["x"]);
    }
}

#[test]
fn without_privileges_new_files_get_their_names_all_the_same() {
    let made = as_nobody("small::without_privileges_new_files_get_their_names_all_the_same", |top| {
        let store = LocalStore::open_root(top, true).unwrap();
        let outcomes = store.put_small(&[new("x", b"1"), SmallFile { parents: true, ..file("d/y", b"2") }], true);
        assert_eq!(kinds(outcomes), [None, None]);
        assert_eq!(kinds(store.put_small(&[file("x", b"3")], true)), [None]);
    });
    let Some(scratch) = made else { return };
    assert_eq!(names_under(scratch.path()), [&b"d"[..], b"d/y", b"x"]);
    assert_eq!(std::fs::read(scratch.path().join("x")).unwrap(), b"3");
}
