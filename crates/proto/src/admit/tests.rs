//! Slots, deadlines and penalties, with a simulated clock.

use super::*;
use proptest::prelude::*;

type Table = Admission<u32, u32>;

/// The default limits of a server.
const SHIPPED: Limits = Limits {
    silent: 4096,
    first_bytes: Duration::from_secs(3),
    guests_soft: 64,
    guests: 256,
    guests_per_source: 16,
    opening: Duration::from_secs(10),
    penalty_sources: 65_536,
};

fn table(limits: Limits) -> Table {
    Admission::new(limits)
}

fn at(seconds: u64) -> Instant {
    Instant(0).after(Duration::from_secs(seconds))
}

fn login(admission: &mut Table, connection: u32, from: u32, now: Instant) -> AdmissionVerdict<u32> {
    assert_eq!(admission.arrive(connection, from, now), None);
    admission.is_login(connection, now)
}

#[test]
fn a_source_has_so_many_logins_and_the_next_is_told_why_not() {
    let mut admission = table(SHIPPED);
    for connection in 0..16 {
        assert_eq!(login(&mut admission, connection, 1, at(0)), AdmissionVerdict::Welcome(None));
    }
    assert_eq!(login(&mut admission, 16, 1, at(0)), AdmissionVerdict::Refused(Status::TooManyOfYou));
    assert_eq!(login(&mut admission, 17, 2, at(0)), AdmissionVerdict::Welcome(None));
    admission.leave(3);
    assert_eq!(login(&mut admission, 18, 1, at(1)), AdmissionVerdict::Welcome(None));
}

#[test]
fn a_newcomer_finds_a_place_however_many_others_hold_theirs() {
    let mut admission = table(SHIPPED);
    for connection in 0..1000 {
        let from = 1000 + connection % 254;
        let _ = login(&mut admission, connection, from, at(0));
        assert!(admission.login_count <= 256);
    }
    let AdmissionVerdict::Welcome(Some(victim)) = login(&mut admission, 1000, 1, at(1)) else { panic!("no place") };
    assert_ne!(victim, 1000);
    // It keeps its slot when the others connect again.
    for connection in 1001..1200 {
        let from = 1000 + connection % 254;
        assert_ne!(
            login(&mut admission, connection, from, at(2)),
            AdmissionVerdict::Welcome(Some(1000)),
            "{connection}"
        );
    }
}

#[test]
fn above_the_soft_limit_the_most_numerous_makes_room_and_equals_do_not() {
    let limits = Limits { guests_soft: 10, ..SHIPPED };
    let mut admission = table(limits);
    for connection in 0..10 {
        assert_eq!(login(&mut admission, connection, 1, at(0)), AdmissionVerdict::Welcome(None));
    }
    assert_eq!(login(&mut admission, 10, 2, at(1)), AdmissionVerdict::Welcome(Some(0)));
    let mut equals = table(limits);
    for connection in 0..12 {
        let from = connection;
        assert_eq!(login(&mut equals, connection, from, at(0)), AdmissionVerdict::Welcome(None));
    }
}

#[test]
fn a_full_house_of_one_source_refuses_that_source_at_once() {
    let limits = Limits { guests_soft: 4, guests: 4, ..SHIPPED };
    let mut admission = table(limits);
    for connection in 0..4 {
        assert_eq!(login(&mut admission, connection, 1, at(0)), AdmissionVerdict::Welcome(None));
    }
    assert_eq!(login(&mut admission, 4, 1, at(0)), AdmissionVerdict::Refused(Status::Busy));
}

#[test]
fn channels_of_sessions_meet_no_limit_of_logins() {
    let mut admission = table(SHIPPED);
    for connection in 0..256 {
        let _ = login(&mut admission, connection, connection % 254, at(0));
    }
    for _ in 0..20 {
        admission.login_failed(1, at(0));
    }
    let before = admission.drops().all();
    for connection in 1000..2000 {
        assert_eq!(admission.arrive(connection, 1, at(0)), None);
    }
    for connection in 1000..2000 {
        admission.is_join(connection);
        admission.is_proved(connection);
        admission.leave(connection);
    }
    assert_eq!(admission.login_count, 256);
    assert_eq!(admission.drops().all(), before);
}

#[test]
fn bytes_that_drip_move_no_deadline() {
    let limits = SHIPPED;
    let mut admission = table(limits);
    admission.arrive(1, 1, at(0));
    admission.arrive(2, 1, at(0));
    admission.arrive(3, 1, at(0));
    assert_eq!(admission.deadline(), Some(at(3)));
    admission.is_login(2, at(2));
    admission.is_join(3);
    assert_eq!(admission.overdue(at(2)), None);
    assert_eq!(admission.overdue(at(3)), Some((1, limits.first_bytes)));
    admission.leave(1);
    assert_eq!(admission.deadline(), Some(at(10)));
    assert_eq!(admission.overdue(at(10)).map(|(_, time)| time), Some(limits.opening));
    assert_eq!(admission.drops().fresh(), [("first_bytes_late", 1), ("opening_late", 1)]);
    assert_eq!(admission.drops().fresh(), []);
}

#[test]
fn failed_logins_make_their_source_wait_and_time_pays_it_off() {
    let mut admission = table(SHIPPED);
    for connection in 0..3 {
        assert_eq!(login(&mut admission, connection, 1, at(0)), AdmissionVerdict::Welcome(None), "{connection}");
        admission.login_failed(connection, at(0));
        admission.leave(connection);
    }
    assert_eq!(login(&mut admission, 3, 1, at(1)), AdmissionVerdict::Refused(Status::Penalised));
    assert_eq!(admission.wait(3, at(1)), Duration::from_secs(14));
    assert_eq!(login(&mut admission, 4, 2, at(1)), AdmissionVerdict::Welcome(None));
    assert_eq!(login(&mut admission, 5, 1, at(14)), AdmissionVerdict::Refused(Status::Penalised));
    assert_eq!(login(&mut admission, 6, 1, at(15)), AdmissionVerdict::Welcome(None));
}

#[test]
fn the_table_of_penalties_is_bounded_and_the_longest_stay() {
    let mut penalties = Penalties::new(100);
    for _ in 0..1000 {
        penalties.add(1, at(0));
    }
    for number in 0..10_000_u32 {
        penalties.add(2 + number, at(1));
    }
    assert_eq!(penalties.len(), 100);
    assert!(penalties.holds(1, at(599)));
    assert!(!penalties.holds(1, at(600)));
    assert_eq!(penalties.len(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens, the limits hold and the tables are consistent.
    #[test]
    fn the_bounds_hold_and_the_books_agree(steps in proptest::collection::vec((0_u8..6, 0_u32..60, 0_u8..5, 0_u64..4), 1..300)) {
        let limits = Limits {
            silent: 10, guests_soft: 4, guests: 8, guests_per_source: 3, ..SHIPPED
        };
        let mut admission = table(limits);
        let mut now = at(0);
        for (what, connection, from, later) in steps {
            now = now.after(Duration::from_secs(later));
            match what {
                0 | 1 if !admission.places.contains_key(&connection) => {
                    let _ = admission.arrive(connection, from.into(), now);
                }
                2 if admission.is_silent(connection) => drop(admission.is_login(connection, now)),
                3 if admission.is_silent(connection) => admission.is_join(connection),
                4 => admission.leave(connection),
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
