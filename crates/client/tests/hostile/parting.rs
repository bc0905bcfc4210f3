//! Sessions that end without an operation (P-46, P-47): the listener answers EOFT by itself, and takes nothing for an end that
//! is none.

use super::raw::{RawChannel, SOON, head, open, read_to_end, wishes};
use super::support::middle::{Act, Middle, Way, borders};
use super::support::relay::Cut;
use super::support::serving::Serving;
use super::support::{PATIENCE, within};
use std::io::Write;
use xdfs_client::{ConnectOptions, ErrorKind, Level, Session};
use xdfs_proto::wire::control::Control;
use xdfs_proto::wire::handshake::Open;
use xdfs_proto::wire::{Event, Flags, Head};
use xdfs_server::LogEvent;

const END: Control = Control::EndOfTransfer { records: 0 };

/// The next record is EOFT behind so many others.
#[track_caller]
fn assert_end(channel: &mut RawChannel, records: u64) {
    let (head, payload) = channel.read().expect("the server's last word");
    assert_eq!(Event::from_code(head.event), Some(Event::EndOfTransfer));
    assert_eq!(Control::decode(Event::EndOfTransfer, &payload), Ok(Some(Control::EndOfTransfer { records })));
}

/// EOFT, of which only the first bytes leave; the others.
fn begin_end(channel: &mut RawChannel, bytes: usize) -> Vec<u8> {
    let mut rest = Vec::new();
    let take = |record: &mut Vec<u8>| rest = record.split_off(bytes);
    channel.record(head(Event::EndOfTransfer, Level::Private, 0), &END.encode(), take);
    rest
}

#[test]
fn an_end_costs_no_thread_however_slowly_it_comes() {
    let serving = Serving::start();
    let (_session, mut channel) = open(&serving, wishes(1)).unwrap();
    let rest = begin_end(&mut channel, 48);
    // A thread would have to wait for the rest.
    for _ in 0..50 {
        assert_eq!(serving.status(), [1, 0, 0]);
    }
    channel.stream.write_all(&rest).unwrap();
    assert_end(&mut channel, 0);
    assert!(channel.read().is_none(), "the server closes behind its last word");
    assert_eq!(serving.session_ended(), None);
}

#[test]
fn an_end_that_stops_in_the_middle_ends_the_session_at_the_deadline() {
    for (bytes, length) in [(48, 8), (52, 8), (60, 16)] {
        let serving = Serving::start();
        let wishes = Open { stall_ms: 200, ..wishes(1) };
        let (_session, mut channel) = open(&serving, wishes).unwrap();
        // Numbers that are longer than they need to be, to be cut themselves, and one that is longer than any.
        let mut rest = Vec::new();
        let long = [0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        channel.record(head(Event::EndOfTransfer, Level::Private, 0), &long[..length], |record| {
            rest = record.split_off(bytes)
        });
        assert!(!rest.is_empty());
        let error = serving.session_ended().expect("not an end");
        assert!(error.contains("did not come") || error.contains("nothing arrives"), "{error}");
        assert!(channel.read().is_none());
    }
}

#[test]
fn an_end_that_counts_wrongly_is_a_fault_and_told() {
    let serving = Serving::start();
    let (_session, mut channel) = open(&serving, wishes(1)).unwrap();
    channel.control(0, &Control::EndOfTransfer { records: 1 });
    let error = channel.until("why", |_, control| match control {
        Control::Exception(error) => Some(error),
        _ => None,
    });
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    let ended = serving.session_ended().expect("not an end");
    assert!(ended.contains("protocol"), "{ended}");
    serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
}

#[test]
fn an_end_that_was_altered_or_is_from_elsewhere_ends_nothing_in_order() {
    for (what, at) in [("its number", 48), ("its tag", 40), ("its sequence", 15), ("its operation", 7)] {
        let serving = Serving::start();
        let (_session, mut channel) = open(&serving, wishes(1)).unwrap();
        channel.record(head(Event::EndOfTransfer, Level::Private, 0), &END.encode(), |record| record[at] ^= 1);
        assert!(read_to_end(&mut channel.stream).is_empty(), "{what}: nothing is said to nobody knows whom");
        assert!(serving.session_ended().is_some(), "{what}: taken for an end");
        serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
    }
}

#[test]
fn an_end_below_level_private_is_none() {
    for level in [Level::Clear, Level::Integrity] {
        let serving = Serving::start();
        let (_session, mut channel) = open(&serving, wishes(1)).unwrap();
        channel.record(head(Event::EndOfTransfer, level, 0), &END.encode(), |_| {});
        read_to_end(&mut channel.stream);
        assert!(serving.session_ended().is_some(), "{level:?}: taken for an end");
    }
}

#[test]
fn every_channel_of_a_session_is_ended_one_after_the_other() {
    let serving = Serving::start();
    let (session, mut first) = open(&serving, wishes(3)).unwrap();
    let (mut second, mut third) = (session.join(&serving, 2).unwrap(), session.join(&serving, 3).unwrap());
    first.control(0, &END);
    // The first EOFT is answered everywhere.
    for channel in [&mut first, &mut second, &mut third] {
        assert_end(channel, 0);
    }
    assert!(first.read().is_none());
    second.control(0, &END);
    assert!(second.read().is_none());
    assert_eq!(serving.status()[0], 1, "the third channel has said nothing");
    third.control(0, &END);
    assert!(third.read().is_none());
    assert_eq!(serving.session_ended(), None);
}

#[test]
fn what_else_comes_while_a_session_ends_is_heard_by_a_thread() {
    let serving = Serving::start();
    let (session, mut first) = open(&serving, wishes(2)).unwrap();
    let mut second = session.join(&serving, 2).unwrap();
    first.control(0, &END);
    assert_end(&mut first, 0);
    assert_end(&mut second, 0);
    second.record(Head { flags: Flags::NONE, ..head(Event::Nothing, Level::Private, 0) }, &[], |_| {});
    second.control(0, &Control::EndOfTransfer { records: 1 });
    assert!(second.read().is_none());
    assert_eq!(serving.session_ended(), None);
    serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
}

/// P-48: everything is said, so nobody waits for long.
#[test]
fn a_channel_that_keeps_silent_while_its_session_ends_is_waited_for_no_longer_than_a_moment() {
    let serving = Serving::start();
    let (session, mut first) = open(&serving, wishes(2)).unwrap();
    let mut second = session.join(&serving, 2).unwrap();
    first.control(0, &END);
    assert_end(&mut first, 0);
    let ended = serving.heard_within(SOON, "the end", |event| match event {
        LogEvent::SessionEnded { error, .. } => Some(error.clone()),
        _ => None,
    });
    assert_eq!(ended, None);
    assert_end(&mut second, 0);
    assert!(second.read().is_none());
}

/// B22 for a session that does nothing: connect and close.
#[test]
fn b22_a_session_without_an_operation_that_is_cut_at_any_border_is_no_end_at_the_server() {
    let serving = Serving::start();
    let middle = Middle::before(&serving.address);
    let whole = || -> Result<(), xdfs_client::Error> {
        let options = ConnectOptions { address: middle.address.clone(), deadline: PATIENCE, ..serving.options(1) };
        Session::connect(&options)?.close()
    };
    whole().unwrap();
    assert_eq!(serving.session_ended(), None);
    let good = middle.seen(0);
    let (tls, records) = borders(&good.bytes[Way::Up as usize]);
    assert_eq!(records.len(), 1, "EOFT and nothing else");
    let starts = [vec![0], tls, records].concat();
    let inside = starts.windows(2).map(|pair| usize::midpoint(pair[0], pair[1]));
    let mut places: Vec<usize> = starts.iter().copied().chain(inside).collect();
    places.retain(|at| *at < good.bytes[Way::Up as usize].len());
    for (at, how) in places.iter().flat_map(|at| [(*at, Cut::Fin), (*at, Cut::Rst)]) {
        serving.forget();
        middle.act(Act::End { way: Way::Up, at, how });
        let result = within(PATIENCE, "the client's end", {
            let options = ConnectOptions { address: middle.address.clone(), deadline: PATIENCE, ..serving.options(1) };
            move || Session::connect(&options).and_then(Session::close)
        });
        let ended = serving.heard("the end of it", |event| match event {
            LogEvent::SessionEnded { error, .. } => Some(error.is_none()),
            LogEvent::GuestRefused { .. } => Some(false),
            _ => None,
        });
        assert!(!ended, "cut at byte {at} by {how:?}, and taken for an end: {result:?}");
        serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
    }
}
