//! A held folder on a real file system: what is made, what is refused, who waits.
#![allow(clippy::disallowed_methods, reason = "the tests look at the files that the folder made")]

use super::*;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use tempfile::TempDir;

/// A directory of the test's own, removed with this value.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn folder(&self) -> Folder {
        Folder::create(&self.0.path().join("a/b")).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join("a/b").join(name)
    }

    fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.0.path().join("a/b")).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn a_folder_is_made_for_its_owner_alone_and_a_missing_one_is_told_apart() {
    let place = Place::new();
    assert!(Folder::open(&place.0.path().join("a/b")).unwrap().is_none());
    let folder = place.folder();
    for path in ["a", "a/b"] {
        assert_eq!(std::fs::metadata(place.0.path().join(path)).unwrap().mode() & 0o7777, 0o700, "{path}");
    }
    assert_eq!(folder.read("nothing", 10, Secrecy::Secret).unwrap(), None);
    assert_eq!(folder.stamp("nothing").unwrap(), None);
    assert!(Folder::open(&place.0.path().join("a/b")).unwrap().is_some());
}

#[test]
fn a_file_is_replaced_whole_and_leaves_nothing_else_behind() {
    let place = Place::new();
    let folder = place.folder();
    folder.replace("users", b"first").unwrap();
    let first = folder.stamp("users").unwrap();
    assert_eq!(std::fs::metadata(place.file("users")).unwrap().mode() & 0o7777, 0o600);
    folder.replace("users", b"other").unwrap();
    assert_ne!(folder.stamp("users").unwrap(), first);
    assert_eq!(folder.read("users", 5, Secrecy::Secret).unwrap().as_deref(), Some(&b"other"[..]));
    assert_eq!(folder.create_file("users", b"x", 0o600).unwrap_err().kind, ErrorKind::AlreadyExists);
    folder.create_file("key.pub", b"x", 0o644).unwrap();
    assert_eq!(std::fs::metadata(place.file("key.pub")).unwrap().mode() & 0o7777, 0o644);
    let mut names = place.names();
    names.sort();
    assert_eq!(names, ["key.pub", "users"]);
}

#[test]
fn what_others_may_have_read_or_written_is_refused_with_the_remedy() {
    let place = Place::new();
    let folder = place.folder();
    folder.replace("key", b"x").unwrap();
    for (mode, secret, public) in
        [(0o600, true, true), (0o400, true, true), (0o640, false, true), (0o644, false, true), (0o602, false, false)]
    {
        chmod(&place.file("key"), mode);
        for (secrecy, fine) in [(Secrecy::Secret, secret), (Secrecy::Public, public), (Secrecy::Open, true)] {
            let read = folder.read("key", 10, secrecy);
            assert_eq!(read.is_ok(), fine, "{mode:o} {secrecy:?}");
            assert_eq!(read_named(&place.file("key"), 10, secrecy).is_ok(), fine, "{mode:o} {secrecy:?}");
            if let Err(error) = read {
                assert_eq!(error.kind, ErrorKind::PermissionDenied);
                assert!(error.message.contains("\nhelp: run chmod go"), "{error}");
            }
        }
    }
    chmod(&place.0.path().join("a/b"), 0o770);
    let refused = Folder::open(&place.0.path().join("a/b")).unwrap_err();
    assert!(refused.message.contains("0770") && refused.message.contains("chmod go-w"), "{refused}");
}

#[test]
fn huge_files_links_directories_and_pipes_are_no_files_here() {
    let place = Place::new();
    let folder = place.folder();
    folder.replace("eleven", &[7; 11]).unwrap();
    assert_eq!(folder.read("eleven", 10, Secrecy::Secret).unwrap_err().kind, ErrorKind::LimitExceeded);
    symlink(place.file("eleven"), place.file("link")).unwrap();
    std::fs::create_dir(place.file("directory")).unwrap();
    chmod(&place.file("directory"), 0o700);
    rustix::fs::mknodat(CWD, place.file("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    for (name, kind) in [
        ("link", ErrorKind::NotRegular),
        ("directory", ErrorKind::IsDirectory),
        ("pipe", ErrorKind::NotRegular),
        ("..", ErrorKind::InvalidPath),
        ("a/b", ErrorKind::InvalidPath),
    ] {
        assert_eq!(folder.read(name, 100, Secrecy::Secret).unwrap_err().kind, kind, "{name}");
    }
    // What a person names is theirs to link.
    assert!(read_named(&place.file("link"), 11, Secrecy::Secret).unwrap().is_some());
    assert_eq!(read_named(&place.file("none"), 11, Secrecy::Secret).unwrap(), None);
    create_named(&place.file("new"), b"x", 0o600).unwrap();
    assert_eq!(create_named(&place.file("link"), b"x", 0o600).unwrap_err().kind, ErrorKind::AlreadyExists);
}

#[test]
fn one_holds_the_lock_and_the_next_waits_for_it() {
    let place = Place::new();
    let folder = place.folder();
    let lock = folder.lock("lock").unwrap();
    let (tell, told) = sync_channel(2);
    std::thread::scope(|scope| {
        let (folder, tell) = (&folder, &tell);
        scope.spawn(move || {
            let lock = folder.lock("lock").unwrap();
            tell.send("second").unwrap();
            drop(lock);
        });
        tell.send("first").unwrap();
        drop(lock);
    });
    assert_eq!([told.recv().unwrap(), told.recv().unwrap()], ["first", "second"]);
}
