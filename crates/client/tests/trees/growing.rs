//! Files that are written to while a tree is sent.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use xdfs_client::tree::{Ended, TreeOptions, Upload};
use xdfs_io::store::LocalStore;

use super::heard::{Heard, Meddler};
use super::support::Scratch;
use super::support::serving::Serving;

/// More than fit into the calls under way: the last ones are listed long before they are read.
const FILES: usize = 1000;
const BYTES: usize = 8 << 10;
/// Of so many one grows.
const EACH: usize = 25;

#[test]
fn a_small_file_that_has_grown_since_it_was_listed_is_sent_as_it_is_by_then() {
    // A little longer, and too long for a call.
    for more in [1, 200 << 10] {
        let serving = Serving::start();
        let session = serving.connect(2);
        let scratch = Scratch::new();
        for number in 0..FILES {
            scratch.write(&format!("tree/file-{number}"), &vec![7; BYTES]);
        }
        let grown = AtomicBool::new(false);
        let grow = || {
            let begun = std::fs::read_dir(serving.directory.file("t")).is_ok_and(|mut names| names.next().is_some());
            if begun && !grown.swap(true, Ordering::Relaxed) {
                for number in (0..FILES).step_by(EACH) {
                    let file =
                        std::fs::OpenOptions::new().append(true).open(scratch.file(&format!("tree/file-{number}")));
                    file.unwrap().write_all(&vec![8; more]).unwrap();
                }
            }
        };
        let mut meddler = Meddler { heard: Heard::default(), act: None, each: Some(&grow) };
        let store = LocalStore::open_root(&scratch.file("tree"), true).unwrap();
        let mut up = Upload::new(store, "data/t", true, TreeOptions::default()).unwrap();
        let ended = up.run(&session, &mut meddler);
        assert!(
            matches!(ended, Ended::Complete(summary) if summary.failed == 0),
            "{ended:?} {:?}",
            meddler.heard.failed
        );
        let length =
            |number: usize| std::fs::metadata(serving.directory.file(&format!("t/file-{number}"))).unwrap().len();
        let lengths: Vec<u64> = (0..FILES).step_by(EACH).map(length).collect();
        let [before, after] = [BYTES, BYTES + more].map(|bytes| bytes as u64);
        assert!(lengths.iter().all(|length| [before, after].contains(length)), "{lengths:?}");
        assert!(lengths.contains(&after), "none was listed before it grew and read behind that");
    }
}
