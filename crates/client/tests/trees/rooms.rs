//! Every call of a batch has room of its own in the reply, whatever the calls beside it tell.

use std::sync::{Arc, Condvar, Mutex};
use xdfs_client::Error;
use xdfs_client::tree::{Download, Ended, EntryAction, Observer, Summary, TreeOptions};
use xdfs_io::store::LocalStore;
use xdfs_io::store::tree::NodeKind;
use xdfs_server::Export;

use super::evil::{EvilStore, Line, Script, line};
use super::heard::Heard;
use super::support::Scratch;
use super::support::serving::{Serving, Setup};

/// Batches that are under way at a time, and more directories than that.
const BATCHES: u64 = 32;
const DIRECTORIES: usize = 40;
/// With names of 150 letters more than a page has.
const FILES: usize = 250;
/// More than every result has by right.
const BYTES: usize = 2000;

/// Opens the gate when the copy has begun all that it can.
struct Waits {
    heard: Heard,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Observer for Waits {
    fn done(&mut self, path: &[u8], action: EntryAction) {
        self.heard.done(path, action);
    }

    fn failed(&mut self, path: &[u8], error: &Error) {
        self.heard.failed(path, error);
    }

    fn note(&mut self, text: &str) {
        self.heard.note(text);
    }

    fn should_continue(&mut self, summary: &Summary, bytes_moving: u64) -> bool {
        if summary.directories > BATCHES {
            *self.gate.0.lock().unwrap() = true;
            self.gate.1.notify_all();
        }
        self.heard.should_continue(summary, bytes_moving)
    }
}

fn download(script: Script, observer: &mut dyn Observer) -> Ended {
    let export = Export::open_to_all("evil", Arc::new(EvilStore::new(script)), false);
    let (serving, target) = (Serving::with(Setup { more: vec![export], ..Setup::default() }), Scratch::new());
    let store = LocalStore::open_root(target.path(), true).unwrap();
    Download::new(store, "evil", true, TreeOptions::default()).run(&serving.connect(1), observer)
}

fn files(count: usize) -> Vec<Line> {
    let sized = |mut line: Line| {
        line.node.size = BYTES as u64;
        line
    };
    (0..count).map(|number| sized(line(format!("{number:0150}").as_bytes(), NodeKind::Regular))).collect()
}

/// So many pages are asked for that the last one waits, and files of those that come join it in its batch.
#[test]
fn a_page_takes_no_room_from_the_files_that_are_asked_for_beside_it() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let top = (0..DIRECTORIES).map(|number| line(format!("d{number}").as_bytes(), NodeKind::Directory)).collect();
    let listings = std::iter::once((Vec::new(), top)).collect();
    let (everywhere, content, opened) = (files(FILES), vec![b'c'; BYTES], Some(Arc::clone(&gate)));
    let script = Script { listings, everywhere, content, gate: opened, small_only: true, ..Script::default() };
    let mut waits = Waits { heard: Heard::default(), gate };
    let ended = download(script, &mut waits);
    assert_eq!(waits.heard.failed.len(), 0, "files had no room");
    let Ended::Complete(summary) = ended else { panic!("{ended:?}") };
    assert_eq!(summary.files, (DIRECTORIES * FILES) as u64);
}

#[test]
fn a_file_that_no_reply_has_room_for_comes_as_a_transfer() {
    let script = Script { everywhere: files(3), content: vec![b'c'; BYTES], roomless: true, ..Script::default() };
    let mut heard = Heard::default();
    let ended = download(script, &mut heard);
    assert_eq!(heard.failed, []);
    assert!(matches!(ended, Ended::Complete(Summary { files: 3, failed: 0, .. })), "{ended:?}");
}
