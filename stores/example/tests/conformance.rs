//! The suite of stores, run over objects.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use xdfs_io::store::{CommitRequest, Store};
use xdfs_proto::base::ErrorKind;
use xdfs_store_example::{Bucket, Metadata, ObjectStore};
use xdfs_test_conformance::store::bench::{Bench, commit, names, stage};

/// A bucket, seen by its keys.
struct BucketBench(ObjectStore);

impl BucketBench {
    fn new() -> Self {
        Self(ObjectStore::new(Bucket::new(64 << 20)))
    }
}

impl Bench for BucketBench {
    fn store(&self) -> &dyn Store {
        &self.0
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        self.0.bucket().put_whole(path.as_bytes(), bytes, Metadata { mode: 0o644, ..Metadata::default() });
    }

    fn make_directory(&self, path: &str) {
        self.put(&format!("{path}/"), b"");
    }

    /// What is archived can neither be read nor replaced.
    fn make_special(&self, path: &str) {
        self.0.bucket().put_whole(path.as_bytes(), b"", Metadata { archived: true, ..Metadata::default() });
    }

    fn content(&self, path: &str) -> Option<Vec<u8>> {
        let object = self.0.bucket().head(path.as_bytes())?;
        let mut bytes = vec![0; object.size() as usize];
        assert_eq!(object.read(&mut bytes, 0), bytes.len());
        Some(bytes)
    }

    fn names(&self) -> Vec<Vec<u8>> {
        let bucket = self.0.bucket();
        let keys = bucket.keys();
        let held: u64 = keys.iter().filter_map(|key| bucket.head(key)).map(|object| object.size()).sum();
        let mut names: Vec<_> = keys.iter().map(|key| key.strip_suffix(b"/").unwrap_or(key).to_vec()).collect();
        names.sort();
        if bucket.used() != held {
            names.push(format!("{} bytes of uploads", bucket.used() - held).into_bytes());
        }
        names
    }
}

xdfs_test_conformance::store_conforms! {
    objects => BucketBench::new();
}

#[test]
fn an_object_of_several_parts_is_whole_or_not_there() {
    let bench = BucketBench::new();
    let part: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
    let size = 20 << 20;
    for keep in [false, true] {
        let stage = stage(&bench, "x");
        for offset in (0..size).step_by(part.len()) {
            stage.write(&part, offset).unwrap();
        }
        assert!(bench.content("x").is_none());
        if keep {
            stage.commit(&commit(size)).unwrap();
        } else {
            stage.abort();
        }
    }
    assert_eq!(bench.content("x").unwrap(), part.repeat(20));
    assert_eq!(names(&bench), ["x"]);
}

#[test]
fn a_bucket_that_is_full_refuses_a_part_and_is_left_as_it_was() {
    let bench = BucketBench::new();
    let stage = stage(&bench, "x");
    let part = vec![7; 8 << 20];
    let refused = (0..9).find_map(|number| stage.write(&part, number * (8 << 20)).err());
    assert_eq!(refused.unwrap().kind, ErrorKind::NoSpace);
    assert_eq!(stage.write(&part, 64 << 20).unwrap_err().kind, ErrorKind::Storage);
    let committed = stage.commit(&CommitRequest { length: 64 << 20, mode: 0o644, modified: None });
    assert_eq!(committed.unwrap_err().kind, ErrorKind::Storage);
    assert!(names(&bench).is_empty());
}

#[test]
fn an_object_is_not_cut_within_a_part_that_was_sent() {
    let bench = BucketBench::new();
    let stage = stage(&bench, "x");
    stage.write(&vec![7; 9 << 20], 0).unwrap();
    assert_eq!(stage.commit(&commit(5)).unwrap_err().kind, ErrorKind::Unsupported);
    assert!(names(&bench).is_empty());
}
