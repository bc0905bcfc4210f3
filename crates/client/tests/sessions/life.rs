//! Threads of sessions, their sleep and their end: idle sessions cost no thread, and a server that goes down lets
//! transfers finish.

use super::support::middle::{Act, Middle, Way};
use super::support::relay::{Cut, Relay};
use super::support::serving::{Serving, Setup};
use super::support::{BLOCK, assert_same, finish, pattern, pipe_payload};
use std::io::Write;
use std::time::{Duration, Instant};
use xdfs_client::wire::Wanted;
use xdfs_client::{ConnectOptions, ErrorKind, GetOptions, Payload, PutOptions, Session, Target};
use xdfs_engine::bounds::IDLE_BEFORE_RETIRING;
use xdfs_server::{LogEvent, ServerLimits};

fn touch(session: &Session) {
    let payload = Payload::bytes(b"x".to_vec()).unwrap();
    finish(&session.put(payload, "data/touched", &PutOptions::default()).unwrap()).unwrap();
}

#[test]
fn an_idle_session_gives_its_thread_back_and_wakes_up_again_and_again() {
    let serving = Serving::start();
    let session = serving.connect(3);
    for _ in 0..6 {
        touch(&session);
        serving
            .wait_for_status("the idle session has no thread", |[sessions, _, threads]| (sessions, threads) == (1, 0));
    }
    session.close().unwrap();
    assert_eq!(serving.session_ended(), None);
}

#[test]
fn many_channels_are_served_by_one_pipeline_thread() {
    let serving = Serving::start();
    let session = serving.connect(64);
    let (payload, mut writer) = pipe_payload(None);
    let transfer = session.put(payload, "data/piped", &PutOptions::default()).unwrap();
    writer.write_all(&pattern(30 * BLOCK, 1)).unwrap();
    serving.wait_for_status("one thread moves the data", |[sessions, _, threads]| (sessions, threads) == (1, 1));
    assert_eq!(serving.status()[2], 1);
    drop(writer);
    finish(&transfer).unwrap();
    session.close().unwrap();
}

#[test]
fn requests_and_joins_that_meet_a_retiring_thread_are_served() {
    let serving = Serving::start();
    // Around the moment at which the thread gives up, in steps of a millisecond.
    let (_kept, never) = std::sync::mpsc::sync_channel::<()>(0);
    for early_ms in 0..12 {
        let relay = Relay::to(&serving.address);
        let options = ConnectOptions { address: relay.address.clone(), ..serving.options(4) };
        // The relay holds the JOINs, with everything else, until the session has been idle for so long.
        let session = Session::connect(&options).unwrap();
        touch(&session);
        relay.hold_after(0);
        let pause = IDLE_BEFORE_RETIRING + Duration::from_millis(3) - Duration::from_millis(early_ms);
        // A time that passes is what this test is about.
        let _ = never.recv_timeout(pause);
        let bytes = pattern(40 * BLOCK, early_ms);
        let payload = Payload::bytes(bytes.clone()).unwrap();
        let transfer = session.put(payload, "data/late", &PutOptions::default()).unwrap();
        relay.release();
        finish(&transfer).unwrap();
        assert_same(&serving.directory.read("late"), &bytes);
        let until = Instant::now() + Duration::from_secs(10);
        while session.joined() < 4 {
            assert!(Instant::now() < until, "{} of 4 channels joined: {:?}", session.joined(), session.join_failure());
            std::thread::yield_now();
        }
        session.close().unwrap();
    }
    serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
    let mut failed = serving.events();
    failed.retain(|event| matches!(event, LogEvent::SessionEnded { error: Some(_), .. }));
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn a_session_without_an_operation_is_ended_at_its_time() {
    for pipelines in [1, 2] {
        let limits = ServerLimits { idle: Duration::from_secs(3), ..ServerLimits::roomy() };
        let serving = Serving::with(Setup { limits, ..Setup::default() });
        let session = Session::connect(&ConnectOptions { pipelines, ..serving.options(2) }).unwrap();
        touch(&session);
        let error = serving.session_ended().expect("it was not the client who ended it");
        assert!(error.contains("no operation"), "{error}");
        serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
        drop(session);
    }
}

/// P-46: what is lost with a connection is what was owed on it.
#[test]
fn a_server_that_vanishes_instead_of_its_last_word_takes_nothing_with_it_and_one_that_vanishes_before_is_told() {
    for closing in [true, false] {
        let serving = Serving::start();
        let middle = Middle::before(&serving.address);
        let options = ConnectOptions { address: middle.address.clone(), ..serving.options(1) };
        let session = Session::connect(&options).unwrap();
        touch(&session);
        serving.wait_for_status("all is said", |[sessions, _, threads]| (sessions, threads) == (1, 0));
        // The next byte of the server's ends the connection: its EOFT, or its answer to a question.
        let at = middle.seen(0).bytes[Way::Down as usize].len();
        middle.act(Act::End { way: Way::Down, at, how: Cut::Rst });
        if !closing {
            assert_eq!(session.look("data/touched", Wanted::NOTHING).unwrap_err().kind, ErrorKind::ConnectionLost);
        }
        let closed = session.close().map_err(|error| error.kind);
        assert_eq!(closed, if closing { Ok(()) } else { Err(ErrorKind::ConnectionLost) });
    }
}

#[test]
fn a_server_that_goes_down_finishes_what_runs_and_takes_nothing_new() {
    for pipelines in [1, 2] {
        let mut serving = Serving::start();
        let idle = serving.connect(2);
        let session = Session::connect(&ConnectOptions { pipelines, ..serving.options(4) }).unwrap();
        let (payload, mut writer) = pipe_payload(None);
        let transfer = session.put(payload, "data/piped", &PutOptions::default()).unwrap();
        let bytes = pattern(50 * BLOCK + 1, 5);
        writer.write_all(&bytes[..20 * BLOCK]).unwrap();
        serving.handle.drain();
        serving.heard("draining", |event| matches!(event, LogEvent::Draining { .. }).then_some(()));
        // The idle session was asked to go, and nothing new comes in.
        assert!(Session::connect(&serving.options(1)).is_err());
        let refused = session.get("data/piped", Target::null(), &GetOptions::default());
        let refused = refused.and_then(|transfer| finish(&transfer)).unwrap_err();
        let expected = [ErrorKind::Draining, ErrorKind::ConnectionLost, ErrorKind::NotFound];
        assert!(expected.contains(&refused.kind), "{refused}");
        writer.write_all(&bytes[20 * BLOCK..]).unwrap();
        drop(writer);
        finish(&transfer).unwrap();
        assert_same(&serving.directory.read("piped"), &bytes);
        serving.ended().unwrap();
        session.close().unwrap();
        idle.close().unwrap();
    }
}

/// A session of one channel that has done nothing has no thread that would hear DRAIN.
#[test]
fn an_idle_session_finds_out_with_its_next_operation_that_its_server_went_down() {
    for ended in [false, true] {
        for calls in [false, true] {
            let mut serving = Serving::start();
            serving.directory.write("f", b"x");
            let session = serving.connect(1);
            serving.handle.drain();
            serving.heard("draining", |event| matches!(event, LogEvent::Draining { .. }).then_some(()));
            if ended {
                serving.handle.stop();
                serving.ended().unwrap();
            }
            let asked = if calls {
                session.look("data/f", Wanted::NOTHING).map(drop)
            } else {
                let got = session.get("data/f", Target::null(), &GetOptions::default());
                got.and_then(|transfer| finish(&transfer)).map(drop)
            };
            match asked {
                // It came before the server's own thread heard that it is to go.
                Ok(()) if !ended => {}
                asked => {
                    let error = asked.unwrap_err();
                    assert_eq!(error.kind, ErrorKind::Draining, "{error}");
                    assert!(error.message.contains("server"), "{error}");
                }
            }
        }
    }
}
