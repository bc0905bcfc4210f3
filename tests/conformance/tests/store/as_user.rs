//! The file system as the user of a process sees it: links lead on, and nothing is staged at the top.

use crate::bench::Scratch;
use std::os::unix::fs::symlink;
use xdfs_io::store::{Existing, LocalStore, Store};
use xdfs_proto::base::ErrorKind;
use xdfs_test_conformance::store::bench::{commit, path, request};

fn scene() -> (Scratch, LocalStore) {
    let scratch = Scratch::on_disk();
    for directory in ["outside/deep", "top/own"] {
        std::fs::create_dir_all(scratch.path().join(directory)).unwrap();
    }
    std::fs::write(scratch.path().join("outside/deep/file"), b"content").unwrap();
    symlink("../outside", scratch.path().join("top/relative")).unwrap();
    symlink(scratch.path().join("outside"), scratch.path().join("top/absolute")).unwrap();
    symlink("relative/deep/file", scratch.path().join("top/latest")).unwrap();
    let store = LocalStore::open_as_user(&scratch.path().join("top")).unwrap();
    (scratch, store)
}

#[test]
fn links_on_the_way_are_followed_and_also_those_that_lead_out() {
    let (scratch, store) = scene();
    for way in ["relative", "absolute"] {
        let file = path(&format!("{way}/deep/file"));
        assert_eq!(store.attributes(&file).unwrap().size, Some(7));
        assert!(store.open(&file).is_ok());
        let stage = store.stage(&request(&format!("{way}/deep/{way}"), Existing::Replace)).unwrap();
        stage.write(b"new", 0).unwrap();
        stage.commit(&commit(3)).unwrap();
        assert_eq!(std::fs::read(scratch.path().join("outside/deep").join(way)).unwrap(), b"new");
        store.tree().unwrap().make_directory(&path(&format!("{way}/made/{way}")), 0o755, true).unwrap();
        assert!(scratch.path().join("outside/made").join(way).is_dir());
    }
    assert!(store.open(&path("latest")).is_ok(), "what is read may be a link itself");
    let strict = LocalStore::open_root(&scratch.path().join("top"), true).unwrap();
    for refused in ["relative/deep/file", "absolute/deep/file", "latest"] {
        assert_eq!(strict.open(&path(refused)).unwrap_err().kind, ErrorKind::NotRegular, "an export refuses {refused}");
    }
}

#[test]
fn a_link_that_is_removed_or_replaced_is_meant_itself() {
    let (scratch, store) = scene();
    let error = store.stage(&request("latest", Existing::Replace)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotRegular, "as in an export, a link is not replaced by accident");
    store.tree().unwrap().remove(&path("absolute")).unwrap();
    assert!(scratch.path().join("outside/deep/file").exists());
}

#[test]
fn files_are_staged_beside_their_targets_and_nothing_is_searched() {
    let (scratch, store) = scene();
    let stage = store.stage(&request("own/file", Existing::Replace)).unwrap();
    assert!(scratch.path().join("top/own/.xdfs-staging").is_dir());
    assert!(!scratch.path().join("top/.xdfs-staging").exists());
    stage.write(b"new", 0).unwrap();
    stage.commit(&commit(3)).unwrap();
    assert!(!scratch.path().join("top/own/.xdfs-staging").exists());
    std::fs::create_dir(scratch.path().join("top/own/.xdfs-staging")).unwrap();
    store.recover(i64::MAX);
    assert!(scratch.path().join("top/own/.xdfs-staging").exists());
}
