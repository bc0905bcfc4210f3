//! Places, deadlines and penalties, with a clock of our own.

use super::*;
use proptest::prelude::*;
use std::net::IpAddr;

fn source(text: &str) -> Source {
    Source::of_address(text.parse::<IpAddr>().unwrap())
}

fn at(seconds: u64) -> Instant {
    Instant(0).after(Duration::from_secs(seconds))
}

fn login(admission: &mut Admission, socket: u32, from: &str, now: Instant) -> Verdict {
    assert_eq!(admission.arrive(SocketId(socket), source(from), now), None);
    admission.is_login(SocketId(socket), now)
}

#[test]
fn one_source_is_one_address_or_one_56_of_ipv6() {
    assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
    assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
    assert_eq!(source("2001:db8:0:ff::1"), source("2001:db8:0:0:ffff::2"));
    assert_ne!(source("2001:db8:0:100::1"), source("2001:db8:0:ff::1"));
    assert_eq!(source("2001:db8:0:12ff::1").to_string(), "2001:db8:0:1200::/56");
}

#[test]
fn a_source_has_so_many_logins_and_the_next_is_told_why_not() {
    let mut admission = Admission::new(ServerLimits::default());
    for socket in 0..16 {
        assert_eq!(login(&mut admission, socket, "192.0.2.1", at(0)), Verdict::Welcome(None));
    }
    assert_eq!(login(&mut admission, 16, "192.0.2.1", at(0)), Verdict::Refused(Status::TooManyOfYou));
    assert_eq!(login(&mut admission, 17, "192.0.2.2", at(0)), Verdict::Welcome(None));
    admission.leave(SocketId(3));
    assert_eq!(login(&mut admission, 18, "192.0.2.1", at(1)), Verdict::Welcome(None));
}

#[test]
fn a_newcomer_finds_a_place_however_many_others_hold_theirs() {
    let mut admission = Admission::new(ServerLimits::default());
    for socket in 0..1000 {
        let from = format!("127.0.1.{}", socket % 254);
        let _ = login(&mut admission, socket, &from, at(0));
        assert!(admission.login_count <= 256);
    }
    let Verdict::Welcome(Some(victim)) = login(&mut admission, 1000, "127.0.0.1", at(1)) else { panic!("no place") };
    assert_ne!(victim, SocketId(1000));
    // And it keeps its place when the others come again.
    for socket in 1001..1200 {
        let from = format!("127.0.1.{}", socket % 254);
        assert_ne!(login(&mut admission, socket, &from, at(2)), Verdict::Welcome(Some(SocketId(1000))), "{socket}");
    }
}

#[test]
fn above_the_soft_limit_the_most_numerous_makes_room_and_equals_do_not() {
    let limits = ServerLimits { guests_soft: 10, ..ServerLimits::default() };
    let mut admission = Admission::new(limits);
    for socket in 0..10 {
        assert_eq!(login(&mut admission, socket, "192.0.2.1", at(0)), Verdict::Welcome(None));
    }
    assert_eq!(login(&mut admission, 10, "192.0.2.2", at(1)), Verdict::Welcome(Some(SocketId(0))));
    let mut equals = Admission::new(limits);
    for socket in 0..12 {
        let from = format!("192.0.2.{socket}");
        assert_eq!(login(&mut equals, socket, &from, at(0)), Verdict::Welcome(None));
    }
}

#[test]
fn a_full_house_of_one_source_refuses_that_source_at_once() {
    let limits = ServerLimits { guests_soft: 4, guests: 4, ..ServerLimits::default() };
    let mut admission = Admission::new(limits);
    for socket in 0..4 {
        assert_eq!(login(&mut admission, socket, "192.0.2.1", at(0)), Verdict::Welcome(None));
    }
    assert_eq!(login(&mut admission, 4, "192.0.2.1", at(0)), Verdict::Refused(Status::Busy));
}

#[test]
fn channels_of_sessions_meet_no_limit_of_logins() {
    let mut admission = Admission::new(ServerLimits::default());
    for socket in 0..256 {
        let _ = login(&mut admission, socket, &format!("192.0.2.{}", socket % 254), at(0));
    }
    for _ in 0..20 {
        admission.login_failed(SocketId(1), at(0));
    }
    let before = admission.drops().all();
    for socket in 1000..2000 {
        assert_eq!(admission.arrive(SocketId(socket), source("192.0.2.1"), at(0)), None);
    }
    for socket in 1000..2000 {
        admission.is_join(SocketId(socket));
        admission.is_proved(SocketId(socket));
        admission.leave(SocketId(socket));
    }
    assert_eq!(admission.login_count, 256);
    assert_eq!(admission.drops().all(), before);
}

#[test]
fn bytes_that_drip_move_no_deadline() {
    let limits = ServerLimits::default();
    let mut admission = Admission::new(limits);
    admission.arrive(SocketId(1), source("192.0.2.1"), at(0));
    admission.arrive(SocketId(2), source("192.0.2.1"), at(0));
    admission.arrive(SocketId(3), source("192.0.2.1"), at(0));
    assert_eq!(admission.deadline(), Some(at(3)));
    admission.is_login(SocketId(2), at(2));
    admission.is_join(SocketId(3));
    assert_eq!(admission.overdue(at(2)), None);
    assert_eq!(admission.overdue(at(3)), Some((SocketId(1), limits.first_bytes)));
    admission.leave(SocketId(1));
    assert_eq!(admission.deadline(), Some(at(10)));
    assert_eq!(admission.overdue(at(10)).map(|(_, time)| time), Some(limits.opening));
    assert_eq!(admission.drops().fresh(), [("first_bytes_late", 1), ("opening_late", 1)]);
    assert_eq!(admission.drops().fresh(), []);
}

#[test]
fn failed_logins_make_their_source_wait_and_time_pays_it_off() {
    let mut admission = Admission::new(ServerLimits::default());
    for socket in 0..3 {
        assert_eq!(login(&mut admission, socket, "192.0.2.1", at(0)), Verdict::Welcome(None), "{socket}");
        admission.login_failed(SocketId(socket), at(0));
        admission.leave(SocketId(socket));
    }
    assert_eq!(login(&mut admission, 3, "192.0.2.1", at(1)), Verdict::Refused(Status::Penalised));
    assert_eq!(login(&mut admission, 4, "192.0.2.2", at(1)), Verdict::Welcome(None));
    assert_eq!(login(&mut admission, 5, "192.0.2.1", at(14)), Verdict::Refused(Status::Penalised));
    assert_eq!(login(&mut admission, 6, "192.0.2.1", at(15)), Verdict::Welcome(None));
}

#[test]
fn the_table_of_penalties_is_bounded_and_the_longest_stay() {
    let mut penalties = Penalties::new(100);
    for _ in 0..1000 {
        penalties.add(source("192.0.2.1"), at(0));
    }
    for number in 0..10_000_u32 {
        penalties.add(Source::V4(number.into()), at(1));
    }
    assert_eq!(penalties.len(), 100);
    assert!(penalties.holds(source("192.0.2.1"), at(599)));
    assert!(!penalties.holds(source("192.0.2.1"), at(600)));
    assert_eq!(penalties.len(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes and goes, the bounds hold and the books agree.
    #[test]
    fn the_bounds_hold_and_the_books_agree(steps in proptest::collection::vec((0_u8..6, 0_u32..60, 0_u8..5, 0_u64..4), 1..300)) {
        let limits = ServerLimits {
            silent: 10, guests_soft: 4, guests: 8, guests_per_source: 3, ..ServerLimits::default()
        };
        let mut admission = Admission::new(limits);
        let mut now = at(0);
        for (what, socket, from, later) in steps {
            now = now.after(Duration::from_secs(later));
            let socket = SocketId(socket);
            match what {
                0 | 1 if !admission.places.contains_key(&socket) => {
                    let _ = admission.arrive(socket, source(&format!("192.0.2.{from}")), now);
                }
                2 if admission.is_silent(socket) => drop(admission.is_login(socket, now)),
                3 if admission.is_silent(socket) => admission.is_join(socket),
                4 => admission.leave(socket),
                5 => while let Some((late, time)) = admission.overdue(now) {
                    prop_assert!(time <= limits.opening);
                    admission.leave(late);
                },
                _ => {}
            }
            let logins: usize = admission.logins.values().map(BTreeSet::len).sum();
            prop_assert_eq!(logins, admission.login_count);
            prop_assert!(logins <= limits.guests && admission.silent.len() <= limits.silent);
            prop_assert!(admission.logins.values().all(|of_one| (1..=limits.guests_per_source).contains(&of_one.len())));
            prop_assert_eq!(admission.deadlines.len(), admission.places.len());
            let counted = admission.places.values().filter(|place| place.class != Class::Proved).count();
            prop_assert_eq!(counted, logins + admission.silent.len());
        }
    }
}
