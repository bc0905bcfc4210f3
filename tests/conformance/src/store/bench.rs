//! What an implementation brings to the suite, and the requests that its rules make.

use std::sync::atomic::{AtomicU64, Ordering};
use xdfs_io::store::{CommitRequest, Existing, Stage, StageRequest, Store};
use xdfs_proto::base::{RelPath, TransferId};

/// One implementation, and a way to see and to prepare what it holds without using it.
pub trait Bench: Sync {
    /// The store under test, empty at first.
    fn store(&self) -> &dyn Store;
    /// Puts a file, replacing an existing one. Its directory is there.
    fn put(&self, path: &str, bytes: &[u8]);
    /// Makes a directory.
    fn make_directory(&self, path: &str);
    /// Makes a name that is neither a regular file nor a directory.
    fn make_special(&self, path: &str);
    /// The content of a file; none if there is no such file.
    fn content(&self, path: &str) -> Option<Vec<u8>>;
    /// Every name, staged files included, sorted.
    fn names(&self) -> Vec<Vec<u8>>;
}

/// The path `text`.
pub fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

/// A transfer id that no other call got.
pub fn transfer() -> TransferId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    TransferId(id)
}

/// A request for a new file of unknown size.
pub fn request(target: &str, existing: Existing) -> StageRequest {
    StageRequest {
        target: path(target),
        size: None,
        existing,
        transfer: transfer(),
        resume: None,
        base: None,
        holes: false,
    }
}

/// A stage that replaces what is there.
pub fn stage(bench: &dyn Bench, target: &str) -> Stage {
    bench.store().stage(&request(target, Existing::Replace)).unwrap()
}

/// A commit of `length` bytes.
pub fn commit(length: u64) -> CommitRequest {
    CommitRequest { length, mode: 0o644, modified: None }
}

/// The names that a bench sees, as text.
pub fn names(bench: &dyn Bench) -> Vec<String> {
    bench.names().iter().map(|name| name.escape_ascii().to_string()).collect()
}
