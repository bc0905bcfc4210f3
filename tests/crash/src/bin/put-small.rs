//! Puts the group of `xdfs_test_crash::small` into a directory, as a server would:
//! `put-small DIRECTORY durable|written unnamed|named each|once`. One line for each file says what was told of it.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use xdfs_io::store::{LocalStore, Store};
use xdfs_test_crash::small::{MARK, Synced, group};

fn main() {
    let mut words = std::env::args_os().skip(1);
    let folder = PathBuf::from(words.next().expect("a directory"));
    let mut is = |word: &str| words.next().is_some_and(|given| given == word);
    let (durable, named, at_once) = (is("durable"), is("named"), is("once"));
    let store = LocalStore::open_root(&folder, true).expect("the directory is there");
    let store = Synced { inner: if named { store.without_unnamed() } else { store }, at_once };
    let contents = group();
    let files: Vec<_> = contents.iter().map(|file| file.as_small()).collect();
    // Whoever traces this program sees where the group begins.
    let _ = rustix::process::test_kill_process(rustix::process::Pid::from_raw(MARK).expect("a number"));
    for placed in store.put_small(&files, durable) {
        println!("{}", placed.map_or_else(|error| format!("{:?}", error.kind), |placed| placed.safety.name().into()));
    }
}
