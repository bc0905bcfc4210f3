//! A store in a crate of its own behind the real server: files go to objects and come back.

use super::support::serving::{Serving, Setup};
use super::support::{Scratch, assert_same, download_to, finish, pattern, upload_of};
use std::sync::Arc;
use xdfs_client::{ConnectOptions, ErrorKind, GetOptions, Level, PutOptions, Session};
use xdfs_server::Export;
use xdfs_store_example::{Bucket, ObjectStore};

const MIB: usize = 1 << 20;

/// A server that exports `objects`, a bucket of so many MiB.
fn serving(size: usize) -> Serving {
    let store = ObjectStore::new(Bucket::new((size * MIB) as u64));
    let objects = Export::open_to_all("objects", Arc::new(store), true);
    Serving::with(Setup { more: vec![objects], ..Setup::default() })
}

#[test]
fn files_are_copied_into_objects_and_back_at_every_level() {
    let (serving, here) = (serving(256), Scratch::new());
    for (level, channels) in [(Level::Clear, 1), (Level::Integrity, 4), (Level::Private, 8)] {
        let session = Session::connect(&ConnectOptions { level, ..serving.options(channels) }).unwrap();
        // None, a part that is not full, and several parts.
        for size in [0, 1, MIB + 17, 21 * MIB + 5] {
            let bytes = pattern(size, size as u64 + 1);
            let source = here.write("source", &bytes);
            let name = format!("objects/{size}-{channels}");
            finish(&session.put(upload_of(&source), &*name, &PutOptions::default()).unwrap()).unwrap();
            let back = here.file("back");
            finish(&session.get(&*name, download_to(&back), &GetOptions::default()).unwrap()).unwrap();
            assert_same(&here.read("back"), &bytes);
        }
        session.close().unwrap();
    }
}

#[test]
fn an_object_is_replaced_as_a_whole_and_never_changed_in_place() {
    let (serving, here) = (serving(64), Scratch::new());
    let session = serving.connect(2);
    let put = |bytes: &[u8]| {
        let source = here.write("source", bytes);
        finish(&session.put(upload_of(&source), "objects/x", &PutOptions::default()).unwrap())
    };
    let holds = |bytes: &[u8]| {
        let back = here.file("back");
        finish(&session.get("objects/x", download_to(&back), &GetOptions::default()).unwrap()).unwrap();
        assert_same(&here.read("back"), bytes);
    };
    let (old, new) = (pattern(12 * MIB, 1), pattern(9 * MIB, 2));
    put(&old).unwrap();
    // What has no room ends as it began: the old object stays.
    let refused = put(&pattern(60 * MIB, 3)).unwrap_err();
    assert!(refused.kind == ErrorKind::NoSpace && refused.message.contains("the bucket is full"), "{refused}");
    holds(&old);
    put(&new).unwrap();
    holds(&new);
    session.close().unwrap();
}
