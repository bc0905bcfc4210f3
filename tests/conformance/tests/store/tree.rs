//! The verbs of a tree, on both file systems that a machine for tests has.

use crate::bench::{LocalBench, Scratch, make_fifo};
use crate::namespace::in_a_mount_namespace;
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use xdfs_io::store::tree::{AttributeChange, ListControl, Node, NodeKind, Special};
use xdfs_io::store::{Existing, LocalStore, MemoryStore, Store, Tree};
use xdfs_proto::base::{Error, ErrorKind, RelPath, Safety, Timestamp};
use xdfs_test_conformance::store::bench::{Bench, path};

/// Runs a test on each of them.
fn on_each(test: impl Fn(&LocalBench, &dyn Tree)) {
    for bench in [LocalBench::on_tmpfs(), LocalBench::on_disk()] {
        test(&bench, bench.store().tree().unwrap());
    }
}

/// Everything in a directory, in pages of at most so many.
fn listed(tree: &dyn Tree, directory: &str, page: usize) -> Vec<(Vec<u8>, Node)> {
    let (mut all, mut cursor) = (Vec::new(), Vec::new());
    loop {
        let mut room = page;
        let next = tree.list(&path(directory), &cursor, &mut |name, node| {
            if room == 0 {
                return ListControl::Stop;
            }
            room -= 1;
            all.push((name.to_vec(), node.clone()));
            ListControl::More
        });
        match next.unwrap() {
            Some(at) => cursor = at,
            None => return all,
        }
    }
}

#[track_caller]
fn fails<T>(kind: ErrorKind, words: &str, outcome: Result<T, Error>) {
    let error = outcome.err().unwrap();
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.message.contains(words), "'{words}' in {error}");
}

#[test]
fn a_listing_has_every_entry_once_whatever_its_pages() {
    on_each(|bench, tree| {
        let names: BTreeSet<Vec<u8>> = (0..700).map(|number| format!("file-{number:04}").into_bytes()).collect();
        for name in &names {
            bench.put(std::str::from_utf8(name).unwrap(), b"x");
        }
        for page in [1, 7, 699, 700, 701] {
            let all = listed(tree, "", page);
            assert_eq!(all.len(), names.len(), "pages of {page}");
            assert_eq!(all.into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>(), names, "pages of {page}");
        }
    });
}

#[test]
fn entries_that_stay_come_once_while_others_come_and_go() {
    on_each(|bench, tree| {
        for number in 0..300 {
            bench.put(&format!("stays-{number}"), b"");
            bench.put(&format!("goes-{number}"), b"");
        }
        let (mut seen, mut cursor, mut page) = (Vec::new(), Vec::new(), 0);
        loop {
            let mut room = 10;
            let next = tree.list(&RelPath::default(), &cursor, &mut |name, _| {
                if room == 0 {
                    return ListControl::Stop;
                }
                room -= 1;
                seen.push(name.to_vec());
                ListControl::More
            });
            if page < 300 {
                std::fs::remove_file(bench.scratch.path().join(format!("goes-{page}"))).unwrap();
                bench.put(&format!("comes-{page}"), b"");
            }
            page += 1;
            match next.unwrap() {
                Some(at) => cursor = at,
                None => break,
            }
        }
        for number in 0..300 {
            let name = format!("stays-{number}").into_bytes();
            assert_eq!(seen.iter().filter(|seen| **seen == name).count(), 1, "stays-{number}");
        }
    });
}

/// On overlayfs a position in a directory is a count of names, of the directory as it was opened.
#[test]
fn entries_of_an_overlay_that_stay_come_while_others_go() {
    let mount = "cd \"$0\" && mkdir lower upper work top && mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none top";
    in_a_mount_namespace("tree::entries_of_an_overlay_that_stay_come_while_others_go", mount, |directory| {
        let top = directory.join("top");
        let name = |stays: bool, number: usize| format!("{}-{number:04}", if stays { "stays" } else { "goes" });
        for number in 0..500 {
            for stays in [true, false] {
                std::fs::write(top.join(name(stays, number)), b"x").unwrap();
            }
        }
        let store = LocalStore::open_root(&top, false).unwrap();
        let (mut found, mut cursor) = (BTreeSet::new(), Vec::new());
        loop {
            let mut room = 50;
            let next = store.tree().unwrap().list(&path(""), &cursor, &mut |name, _| {
                if room == 0 {
                    return ListControl::Stop;
                }
                room -= 1;
                found.insert(name.to_vec());
                ListControl::More
            });
            // Others list it meanwhile, and never go on.
            for _ in 0..3 {
                let other = store.tree().unwrap().list(&path(""), b"", &mut |_, _| ListControl::Stop).unwrap();
                assert!(other.is_some());
            }
            for name in found.iter().filter(|name| name.starts_with(b"goes")) {
                let _ = std::fs::remove_file(top.join(std::str::from_utf8(name).unwrap()));
            }
            match next.unwrap() {
                Some(next) => cursor = next,
                None => break,
            }
        }
        let missing = (0..500).map(|number| name(true, number)).filter(|name| !found.contains(name.as_bytes()));
        assert_eq!(missing.collect::<Vec<_>>(), Vec::<String>::new());
        // Nobody needs so many.
        let kept =
            std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
        let kept = kept.filter(|file| *file == top).count();
        assert!((1..=40).contains(&kept), "{kept} open");
    });
}

#[test]
fn a_node_tells_what_the_file_system_knows() {
    on_each(|bench, tree| {
        let top = bench.scratch.path();
        bench.put("file", &[7; 5000]);
        std::fs::hard_link(top.join("file"), top.join("other")).unwrap();
        std::fs::set_permissions(top.join("file"), std::fs::Permissions::from_mode(0o640)).unwrap();
        symlink("nowhere/at all", top.join("link")).unwrap();
        make_fifo(&top.join("fifo"));
        std::fs::create_dir(top.join("directory")).unwrap();
        let node = |name: &str| tree.node(&path(name)).unwrap();
        let (file, meta) = (node("file"), std::fs::metadata(top.join("file")).unwrap());
        assert_eq!((file.kind, file.mode, file.size, file.links), (NodeKind::Regular, 0o640, 5000, 2));
        assert_eq!(file.identity, (meta.dev(), meta.ino()));
        assert_eq!(file.owner, (meta.uid(), meta.gid()));
        assert_eq!(file.modified, Timestamp::new(meta.mtime(), u32::try_from(meta.mtime_nsec()).unwrap()));
        assert_eq!(file.allocated, meta.blocks() * 512);
        assert_eq!(node("other").identity, file.identity);
        assert_eq!((node("link").kind, node("link").size), (NodeKind::Symlink, 14));
        assert_eq!(node("fifo").kind, NodeKind::Fifo);
        assert_eq!(node("directory").kind, NodeKind::Directory);
        // A listing tells the same as a look at each.
        for (name, listed) in listed(tree, "", 2) {
            assert_eq!(listed, node(std::str::from_utf8(&name).unwrap()));
        }
        fails(ErrorKind::NotFound, "no such file or directory", tree.node(&path("absent")));
    });
}

#[test]
fn directories_are_made_with_and_without_their_parents() {
    on_each(|bench, tree| {
        tree.make_directory(&path("a"), 0o7777, false).unwrap();
        let mode = std::fs::metadata(bench.scratch.path().join("a")).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o755, "less the umask");
        fails(ErrorKind::AlreadyExists, "'a'", tree.make_directory(&path("a"), 0o755, false));
        fails(ErrorKind::NotFound, "no such directory 'b'", tree.make_directory(&path("b/c"), 0o755, false));
        for _ in 0..2 {
            tree.make_directory(&path("b/c/d"), 0o755, true).unwrap();
        }
        tree.make_directory(&RelPath::default(), 0o755, true).unwrap();
        bench.put("b/file", b"");
        fails(ErrorKind::AlreadyExists, "is in the way", tree.make_directory(&path("b/file"), 0o755, true));
        fails(ErrorKind::NotDirectory, "'b/file' is", tree.make_directory(&path("b/file/c"), 0o755, true));
        fails(ErrorKind::Refused, "top of the export", tree.make_directory(&RelPath::default(), 0o755, false));
        symlink(bench.scratch.path().join("a"), bench.scratch.path().join("link")).unwrap();
        fails(ErrorKind::NotRegular, "symbolic link", tree.make_directory(&path("link/x"), 0o755, true));
        assert_eq!(std::fs::read_dir(bench.scratch.path().join("a")).unwrap().count(), 0);
    });
}

#[test]
fn a_name_as_deep_and_as_long_as_may_be_is_made_found_and_removed() {
    on_each(|_, tree| {
        let component = [b'n'; 31];
        let mut deep = RelPath::default();
        while deep.push(&component).is_ok() && deep.as_bytes().len() + 32 <= xdfs_proto::base::path::PATH_BYTES_MAX {}
        tree.make_directory(&deep, 0o755, true).unwrap();
        assert_eq!(tree.node(&deep).unwrap().kind, NodeKind::Directory);
        let mut left = Some(deep);
        while let Some(path) = left.filter(|path| !path.is_root()) {
            tree.remove_directory(&path).unwrap();
            left = path.parent();
        }
    });
}

#[test]
fn removing_takes_what_it_names_and_nothing_else() {
    on_each(|bench, tree| {
        let top = bench.scratch.path();
        bench.put("file", b"x");
        std::fs::create_dir(top.join("full")).unwrap();
        bench.put("full/inner", b"x");
        symlink(top.join("full"), top.join("link")).unwrap();
        fails(ErrorKind::IsDirectory, "'full'", tree.remove(&path("full")));
        fails(ErrorKind::AlreadyExists, "not empty", tree.remove_directory(&path("full")));
        fails(ErrorKind::NotDirectory, "'file'", tree.remove_directory(&path("file")));
        fails(ErrorKind::NotDirectory, "'link'", tree.remove_directory(&path("link")));
        fails(ErrorKind::NotFound, "'absent'", tree.remove(&path("absent")));
        fails(ErrorKind::Refused, "top of the export", tree.remove_directory(&RelPath::default()));
        tree.remove(&path("link")).unwrap();
        tree.remove(&path("file")).unwrap();
        tree.remove(&path("full/inner")).unwrap();
        tree.remove_directory(&path("full")).unwrap();
        assert!(bench.names().is_empty());
    });
}

#[test]
fn a_rename_replaces_or_keeps_as_it_is_told() {
    on_each(|bench, tree| {
        std::fs::create_dir(bench.scratch.path().join("d")).unwrap();
        bench.put("old", b"old");
        bench.put("d/there", b"there");
        fails(
            ErrorKind::AlreadyExists,
            "'d/there' exists",
            tree.rename(&path("old"), &path("d/there"), Existing::Keep),
        );
        assert_eq!(bench.content("d/there").unwrap(), b"there");
        tree.rename(&path("old"), &path("d/there"), Existing::Replace).unwrap();
        assert_eq!(bench.content("d/there").unwrap(), b"old");
        assert_eq!(bench.content("old"), None);
        tree.rename(&path("d/there"), &path("new"), Existing::Keep).unwrap();
        fails(ErrorKind::IsDirectory, "'d' is a directory", tree.rename(&path("new"), &path("d"), Existing::Replace));
        fails(ErrorKind::InvalidPath, "lies inside", tree.rename(&path("d"), &path("d/e"), Existing::Replace));
        fails(ErrorKind::NotFound, "'gone'", tree.rename(&path("gone"), &path("x"), Existing::Replace));
    });
}

#[test]
fn links_of_both_kinds_are_made_and_read() {
    on_each(|bench, tree| {
        bench.put("file", b"x");
        tree.link(&path("file"), &path("second")).unwrap();
        assert_eq!(tree.node(&path("second")).unwrap().links, 2);
        fails(ErrorKind::AlreadyExists, "'second' exists", tree.link(&path("file"), &path("second")));
        fails(ErrorKind::NotFound, "'absent'", tree.link(&path("absent"), &path("third")));
        tree.make_symlink(&path("link"), b"../a\xffb").unwrap();
        assert_eq!(tree.read_symlink(&path("link")).unwrap(), b"../a\xffb");
        fails(ErrorKind::AlreadyExists, "'link'", tree.make_symlink(&path("link"), b"x"));
        fails(ErrorKind::InvalidPath, "NUL", tree.make_symlink(&path("bad"), b"a\0b"));
        fails(ErrorKind::InvalidPath, "text", tree.make_symlink(&path("bad"), b""));
        fails(ErrorKind::NotRegular, "not a symbolic link", tree.read_symlink(&path("file")));
        fails(ErrorKind::NotRegular, "a directory", tree.read_symlink(&RelPath::default()));
        // A second name of a link is a second link, not one of its target.
        tree.link(&path("link"), &path("link2")).unwrap();
        assert_eq!(tree.node(&path("link2")).unwrap().kind, NodeKind::Symlink);
    });
}

#[test]
fn attributes_change_as_they_are_told_and_those_of_a_link_are_its_own() {
    on_each(|bench, tree| {
        bench.put("file", &[1; 100]);
        tree.make_symlink(&path("link"), b"file").unwrap();
        let before = tree.node(&path("file")).unwrap();
        let times = AttributeChange {
            accessed: Some(Timestamp::new(1, 2)),
            modified: Some(Timestamp::new(-3, 999_999_999)),
            ..AttributeChange::default()
        };
        tree.change(&path("link"), &times).unwrap();
        assert_eq!(tree.node(&path("file")).unwrap().modified, before.modified);
        let all = AttributeChange { mode: Some(0o4750), length: Some(40), ..times };
        tree.change(&path("file"), &all).unwrap();
        let node = tree.node(&path("file")).unwrap();
        assert_eq!((node.mode, node.size, node.accessed), (0o4750, 40, Timestamp::new(1, 2)));
        assert_eq!(node.modified, Timestamp::new(-3, 999_999_999));
        assert_eq!(tree.node(&path("link")).unwrap().modified, node.modified);
        // Its directory, the root itself, a file that its owner may not read.
        for (name, mode) in [("", 0o711), ("file", 0), ("file", 0o600)] {
            tree.change(&path(name), &AttributeChange { mode: Some(mode), ..AttributeChange::default() }).unwrap();
            assert_eq!(tree.node(&path(name)).unwrap().mode, mode);
        }
        fails(
            ErrorKind::Unsupported,
            "'link'",
            tree.change(&path("link"), &AttributeChange { mode: Some(0o600), ..times }),
        );
        let cut = AttributeChange { length: Some(0), ..AttributeChange::default() };
        fails(ErrorKind::IsDirectory, "'.'", tree.change(&RelPath::default(), &cut));
    });
}

#[test]
fn owners_are_changed_on_their_own() {
    if !xdfs_test_needs::root("nobody else gives files away") {
        return;
    }
    on_each(|bench, tree| {
        bench.put("file", b"");
        tree.make_symlink(&path("link"), b"file").unwrap();
        for name in ["link", "file"] {
            let owner = AttributeChange { owner: (Some(4711), Some(4712)), ..AttributeChange::default() };
            tree.change(&path(name), &owner).unwrap();
            assert_eq!(tree.node(&path(name)).unwrap().owner, (4711, 4712));
            let other = if name == "link" { (0, 0) } else { (4711, 4712) };
            assert_eq!(tree.node(&path("file")).unwrap().owner, other);
        }
    });
}

#[test]
fn extended_attributes_are_set_listed_read_and_removed() {
    on_each(|bench, tree| {
        bench.put("file", b"");
        let file = path("file");
        assert!(tree.xattrs(&file).unwrap().is_empty());
        tree.set_xattr(&file, b"user.one", b"").unwrap();
        tree.set_xattr(&file, b"user.two", &[0xff; 2000]).unwrap();
        let names: BTreeSet<_> = tree.xattrs(&file).unwrap().into_iter().collect();
        assert_eq!(names, BTreeSet::from([b"user.one".to_vec(), b"user.two".to_vec()]));
        assert_eq!(tree.xattr(&file, b"user.one").unwrap(), b"");
        assert_eq!(tree.xattr(&file, b"user.two").unwrap(), [0xff; 2000]);
        tree.remove_xattr(&file, b"user.one").unwrap();
        fails(ErrorKind::NotFound, "'file'", tree.xattr(&file, b"user.one"));
        fails(ErrorKind::NotFound, "'file'", tree.remove_xattr(&file, b"user.one"));
        // A link has none of the user's, and its target's are not its.
        tree.make_symlink(&path("link"), b"file").unwrap();
        assert!(tree.xattrs(&path("link")).unwrap().is_empty());
        assert!(tree.set_xattr(&path("link"), b"user.x", b"x").is_err());
        assert_eq!(tree.xattrs(&file).unwrap(), [b"user.two".to_vec()]);
    });
}

#[test]
fn special_files_are_made_and_nothing_else_is_one() {
    on_each(|_, tree| {
        let special = |kind| Special { kind, mode: 0o666, device: (0, 0) };
        tree.make_special(&path("fifo"), &special(NodeKind::Fifo)).unwrap();
        let node = tree.node(&path("fifo")).unwrap();
        assert_eq!((node.kind, node.mode), (NodeKind::Fifo, 0o644));
        fails(ErrorKind::AlreadyExists, "'fifo'", tree.make_special(&path("fifo"), &special(NodeKind::Socket)));
        for kind in [NodeKind::Regular, NodeKind::Directory, NodeKind::Symlink] {
            fails(ErrorKind::Unsupported, "no special file", tree.make_special(&path("x"), &special(kind)));
        }
        let device = Special { kind: NodeKind::CharacterDevice, mode: 0o600, device: (1, 3) };
        // Needs a privilege that a test may lack.
        if tree.make_special(&path("null"), &device).is_ok() {
            assert_eq!(tree.node(&path("null")).unwrap().device, (1, 3));
        }
    });
}

#[test]
fn files_are_synced_a_part_at_a_time_and_one_that_is_not_there_is_not_called_durable() {
    let bench = LocalBench::on_disk();
    let tree = bench.store.tree().unwrap();
    let names: BTreeSet<RelPath> = (0..300).map(|number| path(&format!("f{number}"))).collect();
    names.iter().for_each(|name| bench.put(std::str::from_utf8(name.as_bytes()).unwrap(), b"content"));
    assert_eq!(tree.sync_files(&names).unwrap(), Safety::Durable);
    bench.make_directory("d");
    let with = |name: &str| [path("f0"), path(name), path("f9")].into_iter().collect::<BTreeSet<_>>();
    assert_eq!(tree.sync_files(&with("d")).unwrap(), Safety::Durable, "of a directory nothing is waited for");
    // Whoever renames a file meanwhile keeps it from being found.
    assert_eq!(tree.sync_files(&with("gone")).unwrap(), Safety::Written);
}

#[test]
fn space_and_sync_answer_and_a_listing_needs_a_directory() {
    on_each(|bench, tree| {
        bench.put("file", b"");
        let space = tree.space(&path("file")).unwrap();
        let (all, free, usable) = space.bytes;
        assert!(all >= free && free >= usable && space.name_max == 255, "{space:?}");
        tree.sync(&RelPath::default()).unwrap();
        fails(ErrorKind::NotDirectory, "is a regular file, not a directory", tree.sync(&path("file")));
        let list = |name: &str, cursor: &[u8]| tree.list(&path(name), cursor, &mut |_, _| ListControl::More);
        fails(ErrorKind::NotDirectory, "is a regular file, not a directory", list("file", b""));
        fails(ErrorKind::NotFound, "'absent'", list("absent", b""));
        fails(ErrorKind::OutOfRange, "cursor", list("", b"abc"));
    });
}

/// T3 of a read-only export: each verb that changes something refuses, and nothing has changed.
#[test]
fn a_read_only_tree_changes_nothing() {
    let scratch = Scratch::on_tmpfs();
    std::fs::write(scratch.path().join("file"), b"x").unwrap();
    std::fs::create_dir(scratch.path().join("directory")).unwrap();
    let store = LocalStore::open_root(scratch.path(), false).unwrap();
    let tree = store.tree().unwrap();
    let before = (tree.node(&path("file")).unwrap(), listed(tree, "", 10));
    let (file, free) = (path("file"), path("free"));
    let special = Special { kind: NodeKind::Fifo, mode: 0o600, device: (0, 0) };
    let outcomes = [
        tree.make_directory(&free, 0o755, false),
        tree.make_directory(&path("free/deep"), 0o755, true),
        tree.remove_directory(&path("directory")),
        tree.remove(&file),
        tree.rename(&file, &free, Existing::Replace),
        tree.link(&file, &free),
        tree.make_symlink(&free, b"x"),
        tree.make_special(&free, &special),
        tree.change(&file, &AttributeChange { mode: Some(0o777), ..AttributeChange::default() }),
        tree.set_xattr(&file, b"user.x", b"x"),
        tree.remove_xattr(&file, b"user.x"),
    ];
    for outcome in outcomes {
        fails(ErrorKind::ReadOnly, "read-only", outcome);
    }
    assert_eq!((tree.node(&path("file")).unwrap(), listed(tree, "", 10)), before);
}

#[test]
fn a_store_without_directories_says_so() {
    fails(ErrorKind::Unsupported, "no directories", MemoryStore::new(1).tree().map(drop));
}
