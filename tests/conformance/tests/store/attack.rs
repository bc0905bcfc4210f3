//! What a hostile or careless tree holds, put in front of the local store: B05, symbolic links at every position,
//! sparse giants, sources that change while they are read.

use crate::bench::{LocalBench, Scratch, make_fifo};
use rustix::fs::inotify;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};
use xdfs_io::store::{CommitRequest, Existing, FileKind, LocalStore, OpenRequest, StageRequest, Store, Watcher};
use xdfs_proto::base::ErrorKind;
use xdfs_test_conformance::store::bench::{Bench, commit, path, request, stage};

/// B05: the answer comes at once. The best of five counts: the machine may be busy, a blocked open never answers.
fn answers_at_once<T>(what: &str, mut call: impl FnMut() -> T) -> T {
    let mut best = Duration::MAX;
    let mut answer = None;
    for _ in 0..5 {
        let start = Instant::now();
        answer = Some(call());
        best = best.min(start.elapsed());
    }
    assert!(best < Duration::from_millis(100), "{what} took {best:?}");
    answer.unwrap()
}

#[test]
fn special_files_answer_an_error_at_once_and_are_never_opened() {
    let bench = LocalBench::on_tmpfs();
    let top = bench.scratch.path();
    let (names, _listener) = special_files(top);
    let watch = Watch::on(&names.iter().map(|name| top.join(name)).collect::<Vec<_>>());
    for name in names {
        let expected = if name == "directory" { ErrorKind::IsDirectory } else { ErrorKind::NotRegular };
        let error = answers_at_once(name, || bench.store.open(&path(name)).unwrap_err());
        assert_eq!(error.kind, expected, "{error}");
        assert!(error.message.contains(&format!("'{name}'")), "{error}");
        for existing in [Existing::Replace, Existing::Keep] {
            let error = answers_at_once(name, || bench.store.stage(&request(name, existing)).unwrap_err());
            assert_eq!(error.kind, expected, "{error}");
        }
        let kind = answers_at_once(name, || bench.store.attributes(&path(name)).unwrap().kind);
        assert_ne!(kind, FileKind::Regular);
    }
    // A FIFO that is opened wakes its writer, a device may act: looking must not be opening.
    assert_eq!(watch.opened(), 0);
}

/// What no client opens, by name; and what a socket belongs to.
fn special_files(top: &Path) -> (Vec<&'static str>, UnixListener) {
    make_fifo(&top.join("fifo"));
    let listener = UnixListener::bind(top.join("socket")).unwrap();
    std::fs::create_dir(top.join("directory")).unwrap();
    let mut names = vec!["fifo", "socket", "directory"];
    for (name, minor) in [("zero", 5), ("full", 7)] {
        let device = rustix::fs::makedev(1, minor);
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        let kind = rustix::fs::FileType::CharacterDevice;
        // Needs a privilege that a test may lack.
        if rustix::fs::mknodat(rustix::fs::CWD, top.join(name), kind, mode, device).is_ok() {
            names.push(name);
        }
    }
    (names, listener)
}

/// Every way to open a file in place; the last one makes it.
const IN_PLACE: [OpenRequest; 4] = {
    let read = OpenRequest { read: true, write: false, create: false, exclusive: false, mode: 0o600 };
    let write = OpenRequest { read: false, write: true, ..read };
    [read, write, OpenRequest { write: true, ..read }, OpenRequest { write: true, create: true, ..read }]
};

#[test]
fn special_files_are_never_opened_in_place_as_pipes_or_to_be_watched() {
    let bench = LocalBench::on_tmpfs();
    let top = bench.scratch.path();
    let (names, _listener) = special_files(top);
    let watch = Watch::on(&names.iter().map(|name| top.join(name)).collect::<Vec<_>>());
    let watcher = Watcher::new().unwrap();
    for name in names {
        let expected = if name == "directory" { ErrorKind::IsDirectory } else { ErrorKind::NotRegular };
        for request in IN_PLACE {
            let error = answers_at_once(name, || bench.store.open_file(&path(name), &request).unwrap_err());
            assert_eq!(error.kind, expected, "{request:?}: {error}");
            assert!(error.message.contains(&format!("'{name}'")), "{error}");
        }
        for write in [false, true].into_iter().filter(|_| name != "fifo") {
            let error = answers_at_once(name, || bench.store.open_pipe(&path(name), write).unwrap_err());
            assert_eq!(error.kind, ErrorKind::NotRegular, "{error}");
        }
        let mut marks = Vec::new();
        let watched = answers_at_once(name, || bench.store.watch(&path(name), &watcher, &mut marks));
        assert_eq!(watched.is_ok(), name == "directory", "{name}: {watched:?}");
    }
    assert_eq!(watch.opened(), 0);
}

/// Tells whether anybody opened one of some files.
struct Watch(std::os::fd::OwnedFd);

impl Watch {
    fn on(paths: &[std::path::PathBuf]) -> Self {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
        for path in paths {
            inotify::add_watch(&watch, path, inotify::WatchFlags::OPEN).unwrap();
        }
        Self(watch)
    }

    fn opened(&self) -> usize {
        rustix::io::read(&self.0, &mut [0; 4096]).unwrap_or(0)
    }
}

#[test]
fn a_watch_sees_an_open() {
    // The test above is worth something only if this holds.
    let scratch = Scratch::on_tmpfs();
    let file = scratch.path().join("x");
    std::fs::write(&file, b"").unwrap();
    let watch = Watch::on(std::slice::from_ref(&file));
    std::fs::read(&file).unwrap();
    assert!(watch.opened() > 0);
}

#[test]
fn files_that_the_kernel_generates_are_refused_and_not_copied_as_empty() {
    let store = LocalStore::open_root(Path::new("/proc/self"), false).unwrap();
    for name in ["mem", "status", "maps", "cwd", "exe", "fd/0", "root/etc/passwd"] {
        let error = answers_at_once(name, || store.open(&path(name)).unwrap_err());
        assert!(matches!(error.kind, ErrorKind::NotRegular | ErrorKind::PermissionDenied), "{name}: {error:?}");
        let error = answers_at_once(name, || store.open_file(&path(name), &IN_PLACE[0]).unwrap_err());
        assert!(matches!(error.kind, ErrorKind::NotRegular | ErrorKind::PermissionDenied), "{name}: {error:?}");
        let error = answers_at_once(name, || store.open_pipe(&path(name), false).unwrap_err());
        assert!(matches!(error.kind, ErrorKind::NotRegular | ErrorKind::PermissionDenied), "{name}: {error:?}");
    }
}

#[test]
fn a_symbolic_link_is_refused_at_every_position() {
    const DEPTH: usize = 5;
    for position in 0..=DEPTH {
        let bench = LocalBench::on_tmpfs();
        let top = bench.scratch.path();
        let names: Vec<String> = (0..=DEPTH).map(|level| format!("n{level}")).collect();
        let prefix = names[..=position].join("/");
        std::fs::create_dir_all(top.join(names[..DEPTH].join("/"))).unwrap();
        std::fs::write(top.join(names.join("/")), b"inside").unwrap();
        // The link even leads to what the path meant, inside the export: it is not followed all the same.
        std::fs::rename(top.join(&prefix), top.join("moved")).unwrap();
        symlink(top.join("moved"), top.join(&prefix)).unwrap();
        let at = path(&names.join("/"));
        let before = bench.names();

        let in_place = IN_PLACE.map(|request| bench.store.open_file(&at, &request).unwrap_err());
        let pipes = [false, true].map(|write| bench.store.open_pipe(&at, write).unwrap_err());
        let errors = [
            bench.store.open(&at).unwrap_err(),
            bench.store.stage(&request(&names.join("/"), Existing::Replace)).unwrap_err(),
            bench.store.stage(&request(&names.join("/"), Existing::Keep)).unwrap_err(),
        ];
        for error in errors.into_iter().chain(in_place).chain(pipes) {
            assert_eq!(error.kind, ErrorKind::NotRegular, "position {position}: {error:?}");
            assert!(error.message.contains("symbolic link"), "{error}");
            assert!(position == DEPTH || error.message.contains(&format!("'{prefix}'")), "{error}");
        }
        let watcher = Watcher::new().unwrap();
        bench.store.watch(&at, &watcher, &mut Vec::new()).unwrap_err();
        let seen = bench.store.attributes(&at);
        match position {
            // The last component is looked at without being followed.
            DEPTH => assert_eq!(seen.unwrap().kind, FileKind::Other),
            _ => assert_eq!(seen.unwrap_err().kind, ErrorKind::NotRegular),
        }
        assert_eq!(bench.names(), before);
    }
}

#[test]
fn a_link_that_appears_before_commit_is_neither_followed_nor_replaced() {
    let bench = LocalBench::on_tmpfs();
    let outside = Scratch::on_tmpfs();
    let victim = outside.path().join("victim");
    std::fs::write(&victim, b"untouched").unwrap();
    let stage = stage(&bench, "x");
    stage.write(b"hostile", 0).unwrap();
    symlink(&victim, bench.scratch.path().join("x")).unwrap();
    assert_eq!(stage.commit(&commit(7)).unwrap_err().kind, ErrorKind::NotRegular);
    assert_eq!(std::fs::read(&victim).unwrap(), b"untouched");
    assert_eq!(bench.names(), [b"x".to_vec()]);
}

#[test]
fn one_transfer_id_stages_one_target_once() {
    let bench = LocalBench::on_tmpfs();
    let asked = request("x", Existing::Replace);
    let first = bench.store.stage(&asked).unwrap();
    // Not AlreadyExists: with `cp -n` that would be taken for a target that is there already.
    assert_eq!(bench.store.stage(&asked).unwrap_err().kind, ErrorKind::Busy);
    first.write(b"first", 0).unwrap();
    first.commit(&commit(5)).unwrap();
    assert_eq!(bench.content("x").unwrap(), b"first");
}

#[test]
fn a_part_file_that_a_killed_program_left_and_nobody_can_go_on_with_makes_room() {
    let bench = LocalBench::on_tmpfs();
    let asked = request("x", Existing::Keep);
    let killed = bench.store.stage(&asked).unwrap();
    killed.write(b"of the killed one", 0).unwrap();
    // What a killed program does not do: remove its part file.
    killed.leave();
    assert_eq!(bench.names().len(), 2);
    let again = bench.store.stage(&asked).unwrap();
    again.write(b"again", 0).unwrap();
    again.commit(&commit(5)).unwrap();
    assert_eq!(bench.content("x").unwrap(), b"again");
    assert_eq!(bench.names(), [b"x".to_vec()], "nothing is left of either");
}

#[test]
fn names_of_every_length_and_every_byte_are_written_and_read() {
    let bench = LocalBench::on_tmpfs();
    let long = (1..=255).map(|length| vec![b'x'; length]);
    let bytes = (1..=255u8).filter(|&byte| byte != b'/').map(|byte| vec![b'n', byte]);
    for name in long.chain(bytes) {
        let mut target = xdfs_proto::base::RelPath::default();
        target.push(&name).unwrap();
        let stage =
            bench.store.stage(&StageRequest { target: target.clone(), ..request("x", Existing::Keep) }).unwrap();
        stage.write(&name, 0).unwrap();
        stage.commit(&commit(name.len() as u64)).unwrap();
        let mut back = vec![0; name.len()];
        bench.store.open(&target).unwrap().read_exact_at(&mut back, 0).unwrap();
        assert_eq!(back, name);
    }
    assert_eq!(bench.names().len(), 255 + 254);
}

#[test]
fn the_mode_loses_the_umask_and_nothing_else() {
    let bench = LocalBench::on_tmpfs();
    for mode in [0o777, 0o666, 0o640, 0o000] {
        let plain = bench.scratch.path().join("plain");
        std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&plain).unwrap();
        let expected = std::fs::metadata(&plain).unwrap().permissions().mode() & 0o7777;
        std::fs::remove_file(&plain).unwrap();
        let told = stage(&bench, "x").commit(&CommitRequest { length: 0, mode, modified: None }).unwrap();
        assert_eq!(told.mode, expected, "{mode:o}");
    }
}

#[test]
fn first_and_last_range_of_a_sparse_8_tib_file_are_read() {
    for bench in [LocalBench::on_tmpfs(), LocalBench::on_disk()] {
        const SIZE: u64 = 8 << 40;
        let file = std::fs::File::create(bench.scratch.path().join("giant")).unwrap();
        file.set_len(SIZE).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"first", 0).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"last!", SIZE - 5).unwrap();
        let source = bench.store.open(&path("giant")).unwrap();
        assert_eq!(source.attributes().size, Some(SIZE));
        let mut buf = [0xee; 8];
        source.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"first\0\0\0");
        assert_eq!(source.read_at(&mut buf, SIZE - 5).unwrap(), 5);
        assert_eq!(&buf[..5], b"last!");
        assert_eq!(source.read_at(&mut buf, SIZE).unwrap(), 0);
    }
}

#[test]
fn a_source_that_changes_in_any_way_is_noticed() {
    type Change = (&'static str, &'static str, fn(&Path));
    let changes: [Change; 6] = [
        ("grows", "its size went from 4 to 8 bytes", |file| {
            use std::io::Write;
            std::fs::OpenOptions::new().append(true).open(file).unwrap().write_all(b"more").unwrap();
        }),
        ("shrinks", "its size went from 4 to 1 bytes", |file| {
            std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(1).unwrap();
        }),
        ("is written in place", "it was written", |file| {
            let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, b"X", 0).unwrap();
        }),
        ("is removed", "it was removed", |file| std::fs::remove_file(file).unwrap()),
        ("is replaced", "it was removed", |file| {
            let other = file.with_extension("other");
            std::fs::write(&other, b"same").unwrap();
            std::fs::rename(other, file).unwrap();
        }),
        ("is written and dated back", "its attributes were changed", |file| {
            let before = std::fs::metadata(file).unwrap().modified().unwrap();
            let open = std::fs::OpenOptions::new().write(true).open(file).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&open, b"Y", 0).unwrap();
            open.set_modified(before).unwrap();
        }),
    ];
    for bench in [LocalBench::on_tmpfs(), LocalBench::on_disk()] {
        for (what, text, change) in changes {
            let file = bench.scratch.path().join("x");
            std::fs::write(&file, b"same").unwrap();
            let source = bench.store.open(&path("x")).unwrap();
            source.revalidate().unwrap();
            change(&file);
            let error = source.revalidate().unwrap_err();
            assert_eq!(error.kind, ErrorKind::SourceChanged, "{what}");
            assert_eq!(error.message, format!("source 'x' changed while it was read: {text}"), "{what}");
        }
    }
}

#[test]
fn a_read_only_export_takes_nothing() {
    let bench = LocalBench::on_tmpfs();
    bench.put("x", b"old");
    let store = LocalStore::open_root(bench.scratch.path(), false).unwrap();
    let error = store.stage(&request("x", Existing::Replace)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::ReadOnly);
    assert_eq!(error.message, "cannot create 'x': the export is read-only");
    assert!(!store.capability().writable);
    store.open(&path("x")).unwrap();
}

#[test]
fn a_root_that_is_moved_or_replaced_stays_the_one_that_was_opened() {
    let scratch = Scratch::on_tmpfs();
    let (root, moved) = (scratch.path().join("root"), scratch.path().join("moved"));
    std::fs::create_dir(&root).unwrap();
    let store = LocalStore::open_root(&root, true).unwrap();
    std::fs::rename(&root, &moved).unwrap();
    symlink("/", &root).unwrap();
    let stage = store.stage(&request("x", Existing::Keep)).unwrap();
    stage.commit(&commit(0)).unwrap();
    assert!(moved.join("x").exists());
}

#[test]
fn an_unreadable_file_is_refused_in_words() {
    let bench = LocalBench::on_tmpfs();
    let error = LocalStore::open_root(&bench.scratch.path().join("absent"), true).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    bench.put("f", b"");
    let error = LocalStore::open_root(&bench.scratch.path().join("f"), true).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotDirectory);
    // Root reads everything, so the permission itself can be tested by others alone.
    std::fs::set_permissions(bench.scratch.path().join("f"), std::fs::Permissions::from_mode(0o000)).unwrap();
    if let Err(error) = bench.store.open(&path("f")) {
        assert_eq!(error.message, "cannot open 'f': permission denied");
    }
}
