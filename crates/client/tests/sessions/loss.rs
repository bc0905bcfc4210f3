//! Channels and whole sessions that are lost: the transfer goes on while one channel is left, and ends cleanly when none
//! is.

use super::support::relay::{Cut, Relay};
use super::support::serving::Serving;
use super::support::{
    BLOCK, PATIENCE, Scratch, assert_same, download_to, finish, pattern, pipe_payload, upload_of, within,
};
use std::io::Write;
use std::time::{Duration, Instant};
use xdfs_client::{ConnectOptions, ErrorKind, GetOptions, Level, PutOptions, Session, Transfer};
use xdfs_server::LogEvent;

const BYTES: usize = 16 << 20;

/// A session through a relay, whose channels are all there.
pub(crate) fn through(serving: &Serving, relay: &Relay, options: ConnectOptions) -> Session {
    let session = Session::connect(&ConnectOptions { address: relay.address.clone(), ..options }).unwrap();
    let until = Instant::now() + PATIENCE;
    while session.joined() < usize::from(session.facts().channels) {
        assert!(Instant::now() < until, "{} channels joined of {}", session.joined(), session.facts().channels);
        std::thread::yield_now();
    }
    let _ = serving;
    session
}

/// One transfer of `bytes`, both ways in turns, which is held half way: `act` happens then.
struct Both {
    serving: Serving,
    here: Scratch,
    bytes: Vec<u8>,
}

impl Both {
    fn new() -> Self {
        let (serving, here, bytes) = (Serving::start(), Scratch::new(), pattern(BYTES, 41));
        here.write("source", &bytes);
        serving.directory.write("source", &bytes);
        Self { serving, here, bytes }
    }

    fn start(&self, session: &Session, upload: bool) -> Transfer {
        if upload {
            return session.put(upload_of(&self.here.file("source")), "data/target", &PutOptions::default()).unwrap();
        }
        session.get("data/source", download_to(&self.here.file("target")), &GetOptions::default()).unwrap()
    }

    fn side(&self, upload: bool) -> &Scratch {
        if upload { &self.serving.directory } else { &self.here }
    }

    fn arrived(&self, upload: bool) {
        let side = self.side(upload);
        assert_same(&side.read("target"), &self.bytes);
        side.wait_for_names(&["source", "target"]);
        std::fs::remove_file(side.file("target")).unwrap();
    }
}

#[test]
fn a_transfer_survives_on_whichever_channel_is_left() {
    const CHANNELS: usize = 4;
    let both = Both::new();
    for survivor in 0..CHANNELS {
        for (upload, cut) in [(true, Cut::Fin), (true, Cut::Rst), (false, Cut::Fin), (false, Cut::Rst)] {
            let relay = Relay::to(&both.serving.address);
            let level = if survivor % 2 == 0 { Level::Clear } else { Level::Integrity };
            let options = ConnectOptions { level, ..both.serving.options(CHANNELS as u16) };
            let session = through(&both.serving, &relay, options);
            relay.hold_after(1 << 20);
            let transfer = both.start(&session, upload);
            relay.wait_held();
            (0..CHANNELS).filter(|line| *line != survivor).for_each(|line| relay.cut(line, cut));
            relay.release();
            let report = finish(&transfer);
            assert!(report.is_ok(), "survivor {survivor}, upload {upload}, {cut:?}: {report:?}");
            both.arrived(upload);
            session.close().unwrap();
        }
    }
}

#[test]
fn two_pipelines_survive_the_loss_of_a_channel_each() {
    let both = Both::new();
    for upload in [true, false] {
        let relay = Relay::to(&both.serving.address);
        let session = through(&both.serving, &relay, ConnectOptions { pipelines: 2, ..both.serving.options(4) });
        relay.hold_after(1 << 20);
        let transfer = both.start(&session, upload);
        relay.wait_held();
        // Connection 0 is channel 1; which channels the others are is not known, so one is cut at a time.
        relay.cut(0, Cut::Fin);
        relay.release();
        finish(&transfer).unwrap();
        both.arrived(upload);
        session.close().unwrap();
    }
}

#[test]
fn with_its_last_channel_a_transfer_ends_at_both_ends_and_leaves_the_old_content() {
    for pipelines in [1, 2] {
        for (upload, cut) in [(true, Cut::Fin), (true, Cut::Rst), (false, Cut::Fin), (false, Cut::Rst)] {
            let both = Both::new();
            both.side(upload).write("target", b"old");
            let relay = Relay::to(&both.serving.address);
            let session = through(&both.serving, &relay, ConnectOptions { pipelines, ..both.serving.options(3) });
            relay.hold_after(1 << 20);
            let transfer = both.start(&session, upload);
            relay.wait_held();
            (0..3).for_each(|line| relay.cut(line, cut));
            let error = finish(&transfer).unwrap_err();
            assert_eq!(error.kind, ErrorKind::ConnectionLost, "{error}");
            let error = both.serving.session_ended().expect("it ended with an error");
            assert!(error.contains("lost"), "{error}");
            assert_eq!(both.side(upload).read("target"), b"old");
            both.side(upload).wait_for_names(&["source", "target"]);
            // The session says so to whoever still asks it.
            let later = session.get("data/source", download_to(&both.here.file("later")), &GetOptions::default());
            let later = later.and_then(|transfer| finish(&transfer)).unwrap_err();
            assert_eq!(later.kind, ErrorKind::ConnectionLost, "{later}");
            assert_eq!(within(PATIENCE, "closing", || session.close()).unwrap_err().kind, ErrorKind::ConnectionLost);
            both.serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
        }
    }
}

#[test]
fn a_channel_that_stalls_is_given_up_at_its_deadline_and_its_blocks_go_elsewhere() {
    // The other channels are not to be taken for silent, however busy the machine is.
    const STALL: Duration = Duration::from_secs(2);
    for (upload, piped) in [(true, false), (false, false), (true, true)] {
        let both = Both::new();
        let relay = Relay::to(&both.serving.address);
        let stall = Some(STALL);
        let session = through(&both.serving, &relay, ConnectOptions { stall, ..both.serving.options(8) });
        assert_eq!(session.facts().stall, STALL);
        relay.hold_after(1 << 20);
        let transfer = if piped {
            let (payload, mut writer) = pipe_payload(None);
            let bytes = both.bytes.clone();
            std::thread::spawn(move || writer.write_all(&bytes));
            session.put(payload, "data/target", &PutOptions::default()).unwrap()
        } else {
            both.start(&session, upload)
        };
        relay.wait_held();
        relay.stall(3);
        relay.release();
        finish(&transfer).unwrap();
        both.arrived(upload);
        // Closing asks for the peer's last word on every channel: there the silence shows at the latest.
        within(PATIENCE, "closing", || session.close()).unwrap();
        both.serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
        // A ninth channel, which was to replace it, may have met the end of the session.
        let lost = |event: &LogEvent| matches!(event, LogEvent::ChannelLost { channel: 1..=8, .. });
        assert_eq!(both.serving.count(lost), 1, "the stalled channel, and no other: {:#?}", both.serving.events());
    }
}

#[test]
fn a_replaced_channel_joins_and_carries_data() {
    let serving = Serving::start();
    let relay = Relay::to(&serving.address);
    let session = through(&serving, &relay, serving.options(2));
    let (payload, mut writer) = pipe_payload(None);
    let transfer = session.put(payload, "data/piped", &PutOptions::default()).unwrap();
    let block = pattern(BLOCK, 43);
    let mut sent = 0;
    let mut write_until = |relay: &Relay, done: &dyn Fn(&Relay) -> bool| {
        let until = Instant::now() + PATIENCE;
        while !done(relay) {
            assert!(Instant::now() < until, "the relay saw {} connections", relay.connections());
            if let Err(error) = writer.write_all(&block) {
                panic!("{error}: {:?}; the server logged {:#?}", finish(&transfer), serving.events());
            }
            sent += block.len();
        }
    };
    // A session replaces as many channels as it was granted.
    for round in 0..2 {
        // The channels of this round: the first one, and the newest.
        let newest = 1 + round;
        write_until(&relay, &|relay| relay.passed(newest) > 10 * BLOCK as u64);
        relay.cut(newest, if round == 1 { Cut::Rst } else { Cut::Fin });
        write_until(&relay, &|relay| relay.connections() > newest + 1);
    }
    drop(writer);
    assert_eq!(finish(&transfer).unwrap().length, sent as u64);
    let stored = serving.directory.read("piped");
    assert_eq!(stored.len(), sent);
    assert!(stored.chunks(BLOCK).all(|chunk| chunk == block));
    session.close().unwrap();
}

#[test]
fn a_server_that_is_stopped_fails_the_transfer_and_leaves_nothing() {
    for upload in [true, false] {
        let mut both = Both::new();
        let relay = Relay::to(&both.serving.address);
        let session = through(&both.serving, &relay, both.serving.options(3));
        relay.hold_after(1 << 20);
        let transfer = both.start(&session, upload);
        relay.wait_held();
        both.serving.handle.stop();
        both.serving.ended().unwrap();
        relay.release();
        let error = finish(&transfer).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::ConnectionLost | ErrorKind::Draining), "{error}");
        both.side(upload).wait_for_names(&["source"]);
    }
}

#[test]
fn a_client_that_is_dropped_half_way_leaves_nothing_on_the_server() {
    for upload in [true, false] {
        let both = Both::new();
        let relay = Relay::to(&both.serving.address);
        let session = through(&both.serving, &relay, both.serving.options(3));
        relay.hold_after(1 << 20);
        let transfer = both.start(&session, upload);
        relay.wait_held();
        drop(session);
        relay.release();
        let error = finish(&transfer).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Cancelled, "{error}");
        assert!(both.serving.session_ended().is_some());
        both.serving.directory.wait_for_names(&["source"]);
        both.here.wait_for_names(&["source"]);
        both.serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
    }
}
