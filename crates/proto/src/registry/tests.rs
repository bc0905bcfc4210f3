//! Grants, times and revocations, with proofs that are valid or invalid by the test's choice.

use super::*;
use crate::base::Duration;
use crate::limits::GRANT_LIFE;
use alloc::string::{String, ToString};
use alloc::vec;

const ANN: SessionId = SessionId([1; 16]);
const LIFE_MS: u32 = GRANT_LIFE.as_millis() as u32;

fn at(millis: u64) -> Instant {
    Instant(0).after(Duration::from_millis(millis))
}

fn grant(first: u16, count: u16) -> ChannelGrant {
    ChannelGrant { first, count, secret: [first as u8; 32], life_ms: LIFE_MS }
}

fn wrong() -> Error {
    Error::new(ErrorKind::SessionUnknown, "wrong")
}

/// A registry with Ann's session with this many channels, begun at time 0.
fn begun(channels: u16) -> Registry<&'static str> {
    let mut roster = Registry::new();
    roster.expect(ANN, "ann", grant(1, channels), at(0)).unwrap();
    assert!(roster.begin(ANN));
    roster
}

fn join(roster: &mut Registry<&'static str>, channel: u16, now: Instant, right: bool) -> Result<u8, Error> {
    let verify = |_: &u8| if right { Ok(()) } else { Err(wrong()) };
    roster.join(ANN, ChannelId(channel), now, |grant| Ok(grant.secret[0]), verify)
}

#[test]
fn a_number_of_a_grant_serves_once_and_no_other_number_at_all() {
    let mut roster = begun(3);
    for channel in [0, 1, 4, u16::MAX] {
        assert!(join(&mut roster, channel, at(0), true).is_err(), "{channel}");
    }
    assert_eq!(join(&mut roster, 2, at(0), true), Ok(1), "with the keys of its grant");
    assert!(join(&mut roster, 2, at(0), true).is_err(), "while its answer is on its way");
    assert!(roster.attach(ANN, ChannelId(2)));
    assert!(!roster.attach(ANN, ChannelId(2)), "one connection");
    assert!(join(&mut roster, 2, at(0), true).is_err(), "when it is up");
    assert_eq!(join(&mut roster, 3, at(0), true), Ok(1));
}

#[test]
fn a_wrong_proof_uses_nothing_up() {
    let mut roster = begun(2);
    let before = roster.clone();
    for _ in 0..100 {
        assert_eq!(join(&mut roster, 2, at(0), false).map_err(|error| error.message.to_string()), Err("wrong".into()));
    }
    assert_eq!(roster, before);
    assert!(join(&mut roster, 2, at(0), true).is_ok());
}

#[test]
fn a_grant_is_void_from_the_end_of_its_life_on() {
    let life = u64::from(LIFE_MS);
    assert!(join(&mut begun(2), 2, at(life - 1), true).is_ok());
    assert!(join(&mut begun(2), 2, at(life), true).is_err());
    let mut roster = begun(2);
    let later = roster.more(ANN, 1, 1, [9; 32], LIFE_MS, at(life - 1)).unwrap();
    assert_eq!(later.first, 3);
    assert!(join(&mut roster, 2, at(life), true).is_err());
    assert_eq!(join(&mut roster, 3, at(life), true), Ok(9), "each grant has its own time");
}

#[test]
fn nothing_joins_before_the_answer_is_out_or_after_the_end() {
    let mut roster = Registry::new();
    assert!(join(&mut roster, 2, at(0), true).is_err());
    roster.expect(ANN, "ann", grant(1, 4), at(0)).unwrap();
    assert!(join(&mut roster, 2, at(0), true).is_err());
    assert!(roster.begin(ANN));
    assert!(join(&mut roster, 2, at(0), true).is_ok());
    roster.end(ANN);
    assert!(join(&mut roster, 3, at(0), true).is_err());
    assert!(!roster.attach(ANN, ChannelId(2)), "proved before the end, answered after it");
    assert!(roster.more(ANN, 1, 0, [0; 32], LIFE_MS, at(0)).is_none());
    assert!(roster.is_empty());
}

#[test]
fn what_is_taken_away_reaches_sessions_that_are_expected_begun_and_joined() {
    let mut roster = begun(3);
    assert!(join(&mut roster, 2, at(0), true).is_ok());
    let (expected, other) = (SessionId([2; 16]), SessionId([3; 16]));
    roster.expect(expected, "ann", grant(1, 1), at(0)).unwrap();
    roster.expect(other, "eve", grant(1, 1), at(0)).unwrap();
    assert_eq!((roster.len(), roster.sessions().filter(|(_, who, _)| **who == "ann").count()), (3, 2));
    assert_eq!(roster.revoke(|who| *who == "ann"), vec![ANN, expected]);
    assert!(!roster.begin(expected) && !roster.attach(ANN, ChannelId(2)));
    assert!(join(&mut roster, 3, at(0), true).is_err());
    assert!(roster.begin(other));
}

#[test]
fn an_id_that_is_taken_is_not_given_again() {
    let mut roster = begun(2);
    let before = roster.clone();
    assert!(roster.expect(ANN, "eve", grant(1, 64), at(0)).is_err());
    assert_eq!(roster, before);
}

#[test]
fn however_often_more_is_asked_the_session_stays_within_twice_its_channels() {
    let mut roster = begun(4);
    let mut granted = 0;
    for _ in 0..100 {
        granted += roster.more(ANN, u16::MAX, 1, [0; 32], LIFE_MS, at(0)).map_or(0, |grant| grant.count);
    }
    // One is up, three of the first grant are unused.
    assert_eq!(granted, 4);
    // A channel that is authenticated but not attached counts too.
    assert!(join(&mut roster, 2, at(0), true).is_ok());
    assert!(roster.more(ANN, 1, 1, [0; 32], LIFE_MS, at(0)).is_none());
    roster.gave_up(ANN, ChannelId(2));
    let last = roster.more(ANN, 9, 1, [0; 32], LIFE_MS, at(0)).map(|grant| (grant.first, grant.count));
    assert_eq!(last, Some((9, 1)), "its number is not used again");
}

#[test]
fn numbers_of_channels_end_and_do_not_begin_again() {
    let mut roster = Registry::new();
    roster.expect(ANN, "ann", grant(1, 4096), at(0)).unwrap();
    let mut now = 0;
    let mut last = 4096;
    while let Some(more) = roster.more(ANN, 4096, 1, [0; 32], LIFE_MS, at(now)) {
        assert_eq!(more.first, last + 1);
        last = more.first + more.count - 1;
        now += u64::from(LIFE_MS);
    }
    assert!(last > u16::MAX - 4096);
    let printed: String = alloc::format!("{roster:?}");
    assert!(!printed.contains("[0, 0"), "a secret is not printed: {printed}");
}
