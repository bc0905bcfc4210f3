//! The staging directory of the local store: that no path leads into it, that nothing planted is used, and that files which pass
//! through it are what files made in their directory would have been.

use crate::bench::{LocalBench, Scratch, as_nobody};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use xdfs_io::store::tree::{AttributeChange, ListControl, Tree};
use xdfs_io::store::{CommitRequest, Existing, LocalStore, SmallFile, SmallReader, Stage, StageRequest, Store};
use xdfs_proto::base::{ErrorKind, RelPath};
use xdfs_test_conformance::store::bench::{Bench, commit, path, request, stage};
use xdfs_test_conformance::store::small::{file, kinds};

const STAGING: &str = ".xdfs-staging";

fn benches() -> [LocalBench; 3] {
    [LocalBench::on_tmpfs(), LocalBench::on_disk(), LocalBench::without_unnamed()]
}

/// The part file below `top`.
fn part_below(top: &Path) -> PathBuf {
    let names = crate::bench::names_under(top).into_iter().map(|name| String::from_utf8(name).unwrap());
    let parts: Vec<_> = names.filter(|name| name.ends_with(".part")).collect();
    assert_eq!(parts.len(), 1, "{parts:?}");
    top.join(&parts[0])
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_part_file_is_private_and_in_a_directory_that_is_private() {
    for bench in benches() {
        bench.make_directory("a");
        let stage = stage(&bench, "a/name");
        let part = part_below(bench.scratch.path());
        let staging = part.parent().unwrap();
        assert_eq!(staging.file_name().unwrap(), STAGING);
        assert_eq!((mode_of(staging) & 0o777, mode_of(&part)), (0o700, 0o600));
        assert!(!part.file_name().unwrap().to_string_lossy().contains("name"), "{}", part.display());
        stage.write(b"content", 0).unwrap();
        stage.commit(&commit(7)).unwrap();
        assert_eq!(bench.names(), [b"a".to_vec(), b"a/name".to_vec()], "nothing else is left");
    }
}

#[test]
fn one_staging_directory_serves_all_directories_of_a_file_system() {
    let bench = LocalBench::on_disk();
    bench.make_directory("a");
    bench.make_directory("a/b");
    let stages = [stage(&bench, "a/x"), stage(&bench, "a/b/x"), stage(&bench, "x")];
    let staging = bench.scratch.path().join(STAGING);
    assert_eq!(std::fs::read_dir(&staging).unwrap().count(), 3);
    stages.into_iter().for_each(Stage::abort);
    assert!(!staging.exists(), "the last one removes it");
}

#[test]
fn no_path_leads_into_a_staging_directory_whatever_is_done() {
    let bench = LocalBench::on_tmpfs();
    let store = &bench.store;
    bench.make_directory("d");
    bench.put("file", b"1");
    let stage = stage(&bench, "x");
    let part = part_below(bench.scratch.path());
    let before = std::fs::read_dir(bench.scratch.path().join(STAGING)).unwrap().count();
    // As whoever works in the directory itself could leave it: no call reaches it.
    std::fs::write(bench.scratch.path().join("d/.xdfs-staging-7"), b"1").unwrap();
    let mut reading = SmallReader::default();
    let inside = format!("{STAGING}/{}", part.file_name().unwrap().to_str().unwrap());
    let names = ".xdfs-staging/new .xdfs-staging-0 d/.xdfs-staging d/.xdfs-staging/new d/.xdfs-staging-7".split(' ');
    for name in [STAGING, &inside].into_iter().chain(names) {
        let at = path(name);
        let small = |parents| SmallFile { parents, ..file(name, b"x") };
        let puts = [false, true].map(|parents| store.put_small(&[small(parents)], true).pop().unwrap().err());
        let reads: [(&str, Option<ErrorKind>); 7] = [
            ("node", store.node(&at).err().map(|error| error.kind)),
            ("attributes", store.attributes(&at).err().map(|error| error.kind)),
            ("get", store.get_small(&at, None, 4096, &mut reading).err().map(|error| error.kind)),
            ("open", store.open(&at).err().map(|error| error.kind)),
            ("list", store.list(&at, b"", &mut |_, _| ListControl::More).err().map(|error| error.kind)),
            ("read link", store.read_symlink(&at).err().map(|error| error.kind)),
            ("xattrs", store.xattrs(&at).err().map(|error| error.kind)),
        ];
        for (what, answer) in reads {
            assert_eq!(answer, Some(ErrorKind::NotFound), "{what} of {name}");
        }
        let other = path("d/other");
        let file = path("file");
        let change = AttributeChange { mode: Some(0o777), ..AttributeChange::default() };
        let writes = [
            ("stage", store.stage(&request(name, Existing::Replace)).err()),
            ("mkdir", store.make_directory(&at, 0o755, false).err()),
            ("mkdir -p", store.make_directory(&path(&format!("{name}/below")), 0o755, true).err()),
            ("rename from", store.rename(&at, &other, Existing::Keep).err()),
            ("rename to", store.rename(&file, &at, Existing::Replace).err()),
            ("link of", store.link(&at, &other).err()),
            ("link to", store.link(&file, &at).err()),
            ("symlink", store.make_symlink(&at, b"x").err()),
            ("remove", store.remove(&at).err()),
            ("rmdir", store.remove_directory(&at).err()),
            ("change", store.change(&at, &change).err()),
        ];
        for (what, error) in writes.into_iter().chain(puts.map(|error| ("put", error))) {
            let error = error.unwrap_or_else(|| panic!("{what} of {name} succeeded"));
            assert_eq!(error.kind, ErrorKind::InvalidPath, "{what} of {name}: {error}");
            assert!(error.message.contains("is a name that xdfs reserves"), "{error}");
        }
    }
    let mut listed = Vec::new();
    store
        .list(&RelPath::default(), b"", &mut |name, _| {
            listed.push(name.to_vec());
            ListControl::More
        })
        .unwrap();
    listed.sort();
    assert_eq!(listed, [b"d".to_vec(), b"file".to_vec()]);
    assert_eq!(std::fs::read_dir(bench.scratch.path().join(STAGING)).unwrap().count(), before);
    stage.commit(&commit(0)).unwrap();
}

/// What is in a directory decides, and neither owner nor mode: FAT gives all directories the same.
#[test]
fn listings_hide_a_directory_of_staged_files_and_show_one_of_a_users_own() {
    for mode in [0o700, 0o755] {
        let bench = LocalBench::on_tmpfs();
        let listed = || {
            let mut names = Vec::new();
            let mut take = |name: &[u8], _: &_| {
                names.push(name.to_vec());
                ListControl::More
            };
            bench.store.list(&RelPath::default(), b"", &mut take).unwrap();
            names
        };
        let staged = stage(&bench, "x");
        let staging = bench.scratch.path().join(STAGING);
        std::fs::set_permissions(&staging, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(listed(), Vec::<Vec<u8>>::new(), "{mode:o}");
        // What NFS makes of a file that is removed while it is open.
        std::fs::write(staging.join(".nfs000000000000001a"), b"").unwrap();
        assert_eq!(listed(), Vec::<Vec<u8>>::new(), "{mode:o}");
        std::fs::write(staging.join("notes"), b"a user's").unwrap();
        assert_eq!(listed(), [STAGING.as_bytes()], "{mode:o}");
        staged.abort();
        assert_eq!(std::fs::read(staging.join("notes")).unwrap(), b"a user's");
    }
}

#[test]
fn what_has_the_reserved_name_and_is_no_private_directory_is_left_alone_and_in_nobodys_way() {
    type Plant = fn(&Path);
    let plants: [(&str, Plant); 4] = [
        ("open", |at| {
            std::fs::create_dir(at).unwrap();
            std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o777)).unwrap();
        }),
        ("link", |at| symlink("/tmp", at).unwrap()),
        ("file", |at| std::fs::write(at, b"planted").unwrap()),
        ("other user", |at| {
            std::fs::create_dir(at).unwrap();
            std::os::unix::fs::chown(at, Some(65_534), None).expect("the tests of files of other users run as root");
        }),
    ];
    let own = format!("{STAGING}-{}", rustix::process::geteuid().as_raw());
    for ((what, plant), both) in plants.into_iter().flat_map(|plant| [(plant, false), (plant, true)]) {
        let bench = LocalBench::on_tmpfs();
        let top = bench.scratch.path();
        let planted: Vec<&str> = [STAGING, &own].into_iter().take(1 + usize::from(both)).collect();
        planted.iter().for_each(|name| plant(&top.join(name)));
        let look = || -> Vec<(u32, u64, i64)> {
            let look = |name: &&str| std::fs::symlink_metadata(top.join(name)).unwrap();
            planted.iter().map(look).map(|found| (found.mode(), found.ino(), found.mtime_nsec())).collect()
        };
        let before = look();
        bench.make_directory("d");
        bench.put("d/x", b"old");
        for name in ["d/x", "d/new"] {
            let staged = stage(&bench, name);
            let there = match both {
                // Something of the same name, by the same rules.
                true => top.join("d").join(STAGING),
                false => top.join(&own),
            };
            assert_eq!(std::fs::read_dir(&there).unwrap().count(), 1, "{what}");
            assert_eq!(mode_of(&there) & 0o777, 0o700, "{what}");
            staged.write(b"new", 0).unwrap();
            staged.commit(&commit(3)).unwrap();
            assert_eq!(bench.content(name).unwrap(), b"new", "{what}");
        }
        if both {
            // Directly in the top there is no other place.
            let error = bench.store.stage(&request("x", Existing::Replace)).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused, "{what}: {error}");
            assert!(error.message.contains(STAGING), "{what}: {error}");
        }
        assert_eq!(bench.store.notice().is_some(), both, "{what}");
        assert_eq!(bench.store.notice(), None, "it is told once");
        assert_eq!(look(), before, "{what}");
    }
}

#[test]
fn who_may_change_a_directory_cannot_have_theirs_taken_for_one_without_owners() {
    const OTHER: u32 = 65_533;
    let bench = LocalBench::on_tmpfs();
    let top = bench.scratch.path();
    let theirs = |name: &str| {
        std::fs::create_dir(top.join(name)).unwrap();
        std::os::unix::fs::chown(top.join(name), Some(OTHER), None)
            .expect("the tests of files of other users run as root");
        std::fs::set_permissions(top.join(name), std::fs::Permissions::from_mode(0o700)).unwrap();
    };
    theirs(STAGING);
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            theirs("theirs");
            // Whatever is made to find out is exchanged at once.
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                for entry in std::fs::read_dir(top).unwrap().flatten() {
                    let (name, theirs_at) = (entry.file_name().into_string().unwrap(), top.join("theirs"));
                    let exchange = rustix::fs::RenameFlags::EXCHANGE;
                    let at = rustix::fs::CWD;
                    if name.len() > STAGING.len() + 20
                        && rustix::fs::renameat_with(at, entry.path(), at, &theirs_at, exchange).is_ok()
                    {
                        std::fs::remove_dir(&theirs_at).or_else(|_| std::fs::remove_file(&theirs_at)).unwrap();
                        theirs("theirs");
                    }
                }
            }
        });
        let used = (0..2000).any(|_| {
            let staged = bench.store.stage(&request("x", Existing::Replace));
            let used = std::fs::read_dir(top.join(STAGING)).unwrap().next().is_some();
            drop(staged);
            used
        });
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(!used, "a part file is in a directory of another user");
    });
}

#[test]
fn where_another_user_has_the_name_a_user_has_one_of_their_own() {
    let bench = LocalBench::on_tmpfs();
    let staging = bench.scratch.path().join(STAGING);
    std::fs::create_dir(&staging).unwrap();
    std::fs::set_permissions(&staging, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&staging, Some(65_534), None).expect("the tests of files of other users run as root");
    let stage = stage(&bench, "x");
    let own = format!("{STAGING}-{}", rustix::process::geteuid().as_raw());
    assert_eq!(part_below(bench.scratch.path()).parent().unwrap(), bench.scratch.path().join(&own));
    stage.write(b"x", 0).unwrap();
    stage.commit(&commit(1)).unwrap();
    assert!(staging.exists() && !bench.scratch.path().join(own).exists());
}

#[test]
fn names_that_part_files_had_beside_their_targets_are_names_like_any_other() {
    let bench = LocalBench::on_tmpfs();
    let hex = "ab".repeat(16);
    for name in [format!(".x.{hex}.part"), format!(".x.{hex}.journal"), format!(".x.{hex}.journal.new")] {
        let stage = stage(&bench, &name);
        stage.write(b"mine", 0).unwrap();
        stage.commit(&commit(4)).unwrap();
        assert_eq!(bench.content(&name).unwrap(), b"mine");
        // However old it is.
        let file = std::fs::File::open(bench.scratch.path().join(&name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    bench.store.recover(i64::MAX);
    assert_eq!(bench.names().len(), 3, "nothing is removed that is not provably a part file");
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Group, mode and access control list of a file.
fn inherited(path: &Path) -> (u32, u32, Vec<u8>) {
    let found = std::fs::metadata(path).unwrap();
    let mut list = vec![0; 1024];
    let length = rustix::fs::getxattr(path, "system.posix_acl_access", list.as_mut_slice()).unwrap();
    list.truncate(length);
    (found.gid(), found.mode() & 0o7777, list)
}

/// The default access control list of a directory: owner, user 12346, group, group 12347, mask, others.
fn give_default_list(directory: &Path) {
    const NOBODY: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 6] =
        [(1, 7, NOBODY), (2, 7, 12_346), (4, 5, NOBODY), (8, 5, 12_347), (16, 7, NOBODY), (32, 5, NOBODY)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    let name = "system.posix_acl_default";
    rustix::fs::setxattr(directory, name, &list, rustix::fs::XattrFlags::empty()).expect("a file system with lists");
}

#[test]
fn a_file_gets_group_and_access_control_list_of_its_directory() {
    for bench in benches() {
        let top = bench.scratch.path();
        let directory = top.join("shared");
        std::fs::create_dir(&directory).unwrap();
        std::os::unix::fs::chown(&directory, None, Some(12_345)).expect("the tests of other groups run as root");
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o2775)).unwrap();
        give_default_list(&directory);
        // What a program that makes it there and gives it its mode gets.
        let direct = directory.join("direct");
        std::fs::write(&direct, b"1").unwrap();
        std::fs::set_permissions(&direct, std::fs::Permissions::from_mode(0o640)).unwrap();
        for (name, existing) in [("shared/new", Existing::Keep), ("shared/replaced", Existing::Replace)] {
            if existing == Existing::Replace {
                bench.put(name, b"old");
            }
            let stage = bench.store.stage(&StageRequest { size: Some(1), ..request(name, existing) }).unwrap();
            stage.write(b"1", 0).unwrap();
            stage.commit(&CommitRequest { length: 1, mode: 0o640, modified: None }).unwrap();
            assert_eq!(inherited(&top.join(name)), inherited(&direct), "{name}");
            let small = SmallFile { existing, ..file(name, b"2") };
            if existing == Existing::Keep {
                std::fs::remove_file(top.join(name)).unwrap();
            }
            assert_eq!(kinds(bench.store.put_small(&[small], true)), [None], "{name}");
            assert_eq!(inherited(&top.join(name)), inherited(&direct), "{name} as a small file");
        }
    }
}

#[test]
fn a_directory_that_only_holds_staging_is_removed_and_a_part_that_is_written_stays() {
    let bench = LocalBench::without_unnamed();
    bench.make_directory("d");
    let written = stage(&bench, "d/x");
    let error = bench.store.remove_directory(&path("d")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::AlreadyExists);
    // What a killed program does not do: remove its part file.
    written.leave();
    bench.store.remove_directory(&path("d")).unwrap();
    assert!(bench.names().is_empty());
}

#[test]
fn a_directory_that_its_owner_may_not_list_is_removed_with_its_staging() {
    as_nobody("staging::a_directory_that_its_owner_may_not_list_is_removed_with_its_staging", |top| {
        std::fs::create_dir_all(top.join("d").join(STAGING)).unwrap();
        for (name, mode) in [(format!("d/{STAGING}"), 0o700), ("d".to_owned(), 0o300)] {
            std::fs::set_permissions(top.join(name), PermissionsExt::from_mode(mode)).unwrap();
        }
        assert!(std::fs::read_dir(top.join("d")).is_err(), "root may list it all the same");
        LocalStore::open_root(top, true).unwrap().remove_directory(&path("d")).unwrap();
        assert!(!top.join("d").exists());
    });
}

#[test]
fn a_directory_that_is_not_removed_leaves_the_journal_of_who_writes_there() {
    let bench = LocalBench::without_unnamed();
    bench.make_directory("d");
    let asked = StageRequest { target: path("d/x"), ..crate::resume::request(b"v1") };
    let written = bench.store.stage(&asked).unwrap();
    crate::resume::write(&written, [0, 1]);
    written.checkpoint().unwrap();
    let before = bench.names();
    assert!(before.iter().any(|name| name.ends_with(b".journal")), "{before:?}");
    assert_eq!(bench.store.remove_directory(&path("d")).unwrap_err().kind, ErrorKind::AlreadyExists);
    assert_eq!(bench.names(), before);
}

/// Names of the staging directory that end like this.
fn ending(bench: &LocalBench, end: &[u8]) -> Vec<Vec<u8>> {
    bench.names().into_iter().filter(|name| name.ends_with(end)).collect()
}

#[test]
fn a_journal_that_was_half_written_when_its_program_was_killed_goes_with_its_transfer() {
    let asked = StageRequest { target: path("x"), ..crate::resume::request(b"v1") };
    // Killed before the first journal had its name, and while a second one was written.
    for noted in [false, true] {
        let bench = LocalBench::without_unnamed();
        let killed = bench.store.stage(&asked).unwrap();
        crate::resume::write(&killed, [0, 1]);
        if noted {
            killed.checkpoint().unwrap();
        }
        let part = part_below(bench.scratch.path());
        killed.leave();
        let half = part.with_extension("journal.new");
        std::fs::write(&half, b"half").unwrap();
        assert_eq!(ending(&bench, b".journal.new").len(), 1);
        let again = bench.store.stage(&asked).unwrap();
        assert_eq!(ending(&bench, b".journal.new"), Vec::<Vec<u8>>::new());
        crate::resume::write(&again, [0, 1]);
        again.commit(&commit(crate::resume::SIZE)).unwrap();
        assert_eq!(bench.names(), [b"x".to_vec()]);
    }
}

#[test]
fn a_part_that_is_gone_on_with_is_not_removed_with_its_directory() {
    let bench = LocalBench::without_unnamed();
    let asked = StageRequest { target: path("d/x"), ..crate::resume::request(b"v1") };
    for round in 0..60 {
        if round == 0 || bench.names().is_empty() {
            bench.make_directory("d");
        }
        let left = bench.store.stage(&asked).unwrap();
        crate::resume::write(&left, [0, 1]);
        assert!(left.keep());
        drop(left);
        // Two programs that know nothing of each other.
        let stores = [(); 2].map(|()| LocalStore::open_root(bench.scratch.path(), true).unwrap().without_unnamed());
        std::thread::scope(|scope| {
            let remover = scope.spawn(|| stores[0].remove_directory(&path("d")).ok());
            if let Ok(stage) = stores[1].stage(&asked) {
                stage.commit(&commit(crate::resume::SIZE)).expect("what is written is there");
            }
            remover.join().unwrap();
        });
        if bench.content("d/x").is_some() {
            bench.store.remove(&path("d/x")).unwrap();
        }
    }
}

#[test]
fn a_target_on_another_file_system_is_staged_beside_it() {
    // Sets the scene in a mount namespace of its own, which it has in a process of its own.
    const INSIDE: &str = "XDFS_TEST_STAGING_INSIDE";
    if let Some(top) = std::env::var_os(INSIDE) {
        let top = PathBuf::from(top);
        run("mount", &["-t", "tmpfs", "none", top.join("mounted").to_str().unwrap()]);
        let store = LocalStore::open_root(&top, true).unwrap();
        let stage = store.stage(&request("mounted/x", Existing::Replace)).unwrap();
        assert_eq!(part_below(&top).parent().unwrap(), top.join("mounted").join(STAGING));
        stage.write(b"there", 0).unwrap();
        stage.commit(&commit(5)).unwrap();
        assert_eq!(std::fs::read(top.join("mounted/x")).unwrap(), b"there");
        assert_eq!(crate::bench::names_under(&top), [b"mounted".to_vec(), b"mounted/x".to_vec()]);
        return;
    }
    let scratch = Scratch::on_tmpfs();
    std::fs::create_dir(scratch.path().join("mounted")).unwrap();
    let test = std::env::current_exe().unwrap();
    let name = "staging::a_target_on_another_file_system_is_staged_beside_it";
    let status = Command::new("unshare")
        .args(["--map-root-user", "--mount"])
        .arg(test)
        .args(["--exact", name])
        .env(INSIDE, scratch.path())
        .status()
        .expect("unshare of util-linux");
    assert!(status.success());
}

#[test]
fn what_a_killed_program_left_and_nothing_can_go_on_with_is_removed_once_nobody_holds_it() {
    for bench in benches() {
        bench.make_directory("a");
        let stage = stage(&bench, "a/x");
        assert_eq!((bench.store.recover(0).others, bench.store.recover(i64::MAX).expired), (1, 0), "it is held");
        stage.leave();
        assert_eq!(bench.store.recover(0).expired, 0, "it is not old");
        assert_eq!(bench.names(), [b"a".to_vec()], "the staging directory goes with its last file");
    }
}

#[test]
fn many_that_stage_and_end_at_once_never_meet_a_directory_that_was_removed() {
    for bench in benches() {
        let stores: Vec<LocalStore> =
            (0..4).map(|_| LocalStore::open_root(bench.scratch.path(), true).unwrap()).collect();
        std::thread::scope(|scope| {
            for (number, store) in stores.iter().enumerate() {
                scope.spawn(move || {
                    for round in 0..100 {
                        let stage = store.stage(&request(&format!("{number}"), Existing::Replace)).unwrap();
                        stage.write(&[round], 0).unwrap();
                        stage.commit(&commit(1)).unwrap();
                    }
                });
            }
        });
        assert_eq!(bench.names().len(), 4);
    }
}
