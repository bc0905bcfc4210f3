//! A server that refuses a file of a tree as if somebody else sent it, and says afterwards that it is there: size and time
//! were in the request. The client believes the content, and not these.

use super::liar::{HONEST, Lie, with_liar};
use super::raw::{RawChannel, head};
use super::support::{BLOCK, Scratch, pattern};
use std::collections::BTreeMap;
use xdfs_client::tree::{Ended, EntryAction, Observer, Summary, TreeOptions, Upload};
use xdfs_client::{Error, ErrorKind, Level, Session, Verify};
use xdfs_io::store::LocalStore;
use xdfs_proto::base::{Digest, Timestamp};
use xdfs_proto::wire::control::{Control, Safety};
use xdfs_proto::wire::path::{Answer, Attributes, Batch, Call, Failure, FileType, ReplyWriter};
use xdfs_proto::wire::request::Request;
use xdfs_proto::wire::{Event, Flags};

/// What a request said of a file.
type Told = (Option<u64>, Option<Timestamp>);

#[derive(Default)]
struct Copied {
    files: usize,
    failed: usize,
}

impl Observer for Copied {
    fn done(&mut self, _: &[u8], action: EntryAction) {
        self.files += usize::from(matches!(action, EntryAction::Copied { .. }));
    }

    fn failed(&mut self, _: &[u8], _: &Error) {
        self.failed += 1;
    }

    fn note(&mut self, _: &str) {}

    fn should_continue(&mut self, _: &Summary, _: u64) -> bool {
        true
    }
}

/// Answers calls as if all files were there that were asked for.
fn reply(payload: &[u8], asked: &BTreeMap<Vec<u8>, Told>) -> Vec<u8> {
    let batch = Batch::decode(payload).unwrap();
    let mut writer = ReplyWriter::new(batch.calls.len(), batch.room as usize).unwrap();
    for call in &batch.calls {
        let path = [batch.base, b"/", call.path()].concat();
        match (call, asked.get(&path)) {
            (Call::Stat { .. }, Some((size, modified))) => writer.answer(&Answer::Attributes(Attributes {
                size: *size,
                modified: *modified,
                ..Attributes::of(FileType::Regular)
            })),
            (Call::Hash { .. }, Some((size, _))) => {
                let guess: Digest = [7; 32];
                writer.answer(&Answer::Hash { length: size.unwrap_or(0), digest: guess });
            }
            (Call::List { .. }, _) => writer.listing().finish(true, b""),
            (Call::Stat { .. } | Call::Hash { .. }, None) => {
                writer.fail(Failure { kind: ErrorKind::NotFound, errno: 2 });
            }
            _ => writer.answer(&Answer::Done),
        }
    }
    writer.finish(Safety::Durable)
}

/// Serves a tree so; no block may come.
fn claims(channel: &mut RawChannel) {
    let mut asked = BTreeMap::new();
    while let Some((told, payload)) = channel.read() {
        let operation = told.operation.0;
        match Event::from_code(told.event) {
            Some(Event::Path) if told.flags.has(Flags::REQUEST) => {
                channel.record(head(Event::Path, Level::Private, operation), &reply(&payload, &asked), |_| {});
            }
            Some(Event::Upload) if told.flags.has(Flags::REQUEST) => {
                let request = Request::decode(&payload).unwrap();
                asked.insert(request.name.clone(), (request.length, request.modified));
                channel
                    .control(operation, &Control::Exception(Error::new(ErrorKind::Superseded, "another one sends it")));
            }
            Some(Event::Upload | Event::Continue) => panic!("nothing was granted"),
            Some(Event::EndOfTransfer) => {
                let records = channel.sequence();
                channel.control(0, &Control::EndOfTransfer { records });
                return;
            }
            _ => {}
        }
    }
}

#[test]
fn a_file_of_a_tree_that_never_left_is_not_called_copied() {
    let scratch = Scratch::new();
    for number in 0..3 {
        scratch.write(&format!("tree/{number}"), &pattern(3 * BLOCK, number));
    }
    for verify in [Verify::Hash, Verify::Reread] {
        let lie = Lie { accept: HONEST, then: Box::new(claims) };
        let copied = with_liar(Level::Private, lie, |options| {
            let session = Session::connect(options).unwrap();
            let store = LocalStore::open_root(&scratch.file("tree"), true).unwrap();
            let options = TreeOptions { verify, durable: true, ..TreeOptions::default() };
            let mut copied = Copied::default();
            let ended = Upload::new(store, "data/t", true, options).unwrap().run(&session, &mut copied);
            assert!(matches!(ended, Ended::Complete(summary) if summary.files == 0), "{verify:?}: {ended:?}");
            let _ = session.close();
            copied
        });
        assert_eq!((copied.files, copied.failed), (0, 3), "{verify:?}");
    }
}
