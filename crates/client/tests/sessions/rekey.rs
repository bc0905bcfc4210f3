//! Keys that are used up while files move: the next one takes over on the same channel, and no byte and no channel is lost.

use super::support::serving::{Serving, Setup};
use super::support::{BLOCK, Scratch, assert_same, download_to, finish, pattern, upload_of};
use std::time::Duration;
use xdfs_client::{ConnectOptions, ErrorKind, GetOptions, KeyLimits, Level, PutOptions, Session};
use xdfs_server::LogEvent;

const LEVELS: [Level; 3] = [Level::Clear, Level::Integrity, Level::Private];
const BLOCKS: usize = 60;

fn serving(key_limits: KeyLimits) -> Serving {
    Serving::with(Setup { key_limits, ..Setup::default() })
}

fn is_loss(event: &LogEvent) -> bool {
    matches!(event, LogEvent::ChannelLost { .. })
}

/// A file up and down again at every level. Without REKEY the first key would end its channel.
fn round_trips(key_limits: KeyLimits, channels: u16, pipelines: u8) {
    let serving = serving(key_limits);
    let here = Scratch::new();
    let bytes = pattern(BLOCKS * BLOCK + 17, 9);
    let source = here.write("source", &bytes);
    for level in LEVELS {
        let options = ConnectOptions { level, key_limits, pipelines, ..serving.options(channels) };
        let session = Session::connect(&options).unwrap();
        finish(&session.put(upload_of(&source), "data/up", &PutOptions::default()).unwrap()).unwrap();
        assert_same(&serving.directory.read("up"), &bytes);
        finish(&session.get("data/up", download_to(&here.file("down")), &GetOptions::default()).unwrap()).unwrap();
        assert_same(&here.read("down"), &bytes);
        session.close().unwrap();
    }
    assert_eq!(serving.count(is_loss), 0, "{:#?}", serving.events());
}

#[test]
fn files_arrive_whole_at_every_level_through_epochs_of_a_few_records() {
    for records in [2, 3, 7] {
        round_trips(KeyLimits { records, ..KeyLimits::STANDARD }, 1, 1);
        round_trips(KeyLimits { records, ..KeyLimits::STANDARD }, 5, 2);
    }
}

#[test]
fn files_arrive_whole_at_every_level_through_epochs_of_a_few_blocks() {
    let bytes = 3 * (BLOCK as u64 + 32) + 32;
    round_trips(KeyLimits { bytes, ..KeyLimits::STANDARD }, 3, 1);
}

#[test]
fn files_arrive_whole_at_every_level_where_keys_grow_old_at_once() {
    round_trips(KeyLimits { age: Duration::ZERO, ..KeyLimits::STANDARD }, 3, 1);
}

#[test]
fn a_peer_that_does_not_change_its_key_in_time_loses_its_channel() {
    let serving = serving(KeyLimits { records: 8, ..KeyLimits::STANDARD });
    let here = Scratch::new();
    let source = here.write("source", &pattern(BLOCKS * BLOCK, 9));
    let session = Session::connect(&serving.options(1)).unwrap();
    let put = session.put(upload_of(&source), "data/up", &PutOptions::default()).unwrap();
    assert_eq!(finish(&put).unwrap_err().kind, ErrorKind::ConnectionLost);
    serving.heard("the loss of the channel", |event| match event {
        LogEvent::ChannelLost { error, .. } => error.contains("limit").then_some(()),
        _ => None,
    });
    serving.directory.wait_for_names(&[]);
}
