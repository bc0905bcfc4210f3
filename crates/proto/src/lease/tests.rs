//! Single rules and bounds; the two sides against each other are `tests/model/src/lease`.

use super::*;

const TERMS: LeaseTerms =
    LeaseTerms { time: Duration::from_secs(10), pause: Duration::from_secs(20), most: 4, most_each: 2 };

fn at(seconds: u64) -> Instant {
    Instant(0).after(Duration::from_secs(seconds))
}

const fn who(owner: u8, handle: u64) -> Holder<u8> {
    Holder { owner, handle }
}

fn table() -> LeaseTable<u8, u8> {
    LeaseTable::new(TERMS)
}

const GRANTED: LeaseAnswer = LeaseAnswer::Granted { kind: LeaseKind::Read, time: TERMS.time };

#[test]
fn whoever_never_answers_delays_others_once_and_gets_no_lease_for_a_while() {
    let (mut table, a, b) = (table(), who(1, 1), who(2, 2));
    assert_eq!(table.ask(&7, &a, LeaseKind::Read, at(0)), GRANTED);
    assert_eq!(table.begin(&7, Some(&b), Access::Look, at(1)), Ok(()));
    assert_eq!(table.begin(&7, Some(&b), Access::Change, at(1)), Err(MustWait { until: at(10) }));
    assert_eq!((table.poll_recall(), table.poll_recall()), (Some(a), None));
    let left = Duration::from_secs(5);
    assert_eq!(table.renew(&a, at(5)), LeaseAnswer::Recalled { kind: LeaseKind::Read, left });
    assert_eq!(table.begin(&7, Some(&b), Access::Change, at(9)), Err(MustWait { until: at(10) }));
    assert_eq!(table.poll_recall(), None, "it was told");
    assert_eq!(table.begin(&7, Some(&b), Access::Change, at(10)), Ok(()));
    table.end(&7, Access::Change, at(11));
    table.end(&7, Access::Look, at(11));
    assert_eq!(table.renew(&a, at(11)), LeaseAnswer::Refused);
    assert_eq!(table.ask(&7, &a, LeaseKind::Read, at(29)), LeaseAnswer::Refused);
    assert_eq!(table.ask(&7, &a, LeaseKind::Read, at(30)), GRANTED);
}

#[test]
fn a_lost_lease_is_of_its_kind_while_it_is_asked_for_again() {
    let mut holding = Holding::new();
    assert!(holding.kind().is_none() && holding.ask(at(1)).is_ok() && holding.kind().is_none());
    let granted = LeaseAnswer::Granted { kind: LeaseKind::Write, time: TERMS.time };
    assert!(holding.on_answer(granted, at(1)).is_ok());
    assert_eq!(holding.kind(), Some(LeaseKind::Write));
    holding.on_recall();
    assert_eq!(holding.kind(), Some(LeaseKind::Write));
    holding.on_lost();
    assert!(holding.kind() == holding.reclaim(at(2)).ok() && holding.kind() == Some(LeaseKind::Write));
    holding.on_lost();
    holding.expire(at(30));
    assert_eq!(holding.kind(), None);
}

/// One user renews the leases on thirty files as soon as it is asked, and answers recalls after so many seconds: when the last
/// of the files is changed, if they are changed one after the other from the first second on.
fn last_change(answers_after: u64) -> u64 {
    let mut table = LeaseTable::new(LeaseTerms { most: 30, most_each: 30, ..TERMS });
    let mut left = alloc::vec::Vec::new();
    for file in 1..=30 {
        assert_eq!(table.ask(&file, &who(1, file.into()), LeaseKind::Read, at(0)), GRANTED);
        left.push(file);
    }
    let mut since = 1;
    for now in 1..100 {
        if now == since + answers_after {
            table.give_back(&who(1, left[0].into()), at(now));
        }
        (1..=30).for_each(|file| _ = table.renew(&who(1, file), at(now)));
        while table.begin(&left[0], None, Access::Change, at(now)).is_ok() {
            table.end(&left[0], Access::Change, at(now));
            let ask =
                |table: &mut LeaseTable<u8, u8>, file| table.ask(&file, &who(1, file.into()), LeaseKind::Read, at(now));
            assert_eq!(ask(&mut table, left[0]), LeaseAnswer::Refused, "at {now}");
            left.remove(0);
            since = now;
            if left.is_empty() {
                return now;
            }
        }
    }
    panic!("somebody waits without end");
}

#[test]
fn whoever_answers_no_recall_or_late_has_nothing_renewed_and_delays_others_by_two_leases_on_all_files() {
    assert_eq!([1000, 9, 5, 2, 1].map(last_change), [20, 19, 20, 16, 16]);
}

#[test]
fn whoever_has_all_leases_recalled_at_once_is_waited_for_once() {
    let mut table = LeaseTable::new(LeaseTerms { most: 5, most_each: 5, ..TERMS });
    for file in 1..=4_u8 {
        assert_eq!(table.ask(&file, &who(1, file.into()), LeaseKind::Read, at(0)), GRANTED);
    }
    (1..=3_u8).for_each(|file| assert!(table.begin(&file, None, Access::Change, at(1)).is_err()));
    (1..=3_u8).for_each(|file| table.give_back(&who(1, file.into()), at(4)));
    assert_eq!((table.renew(&who(1, 4), at(4)), table.ask(&5, &who(1, 5), LeaseKind::Read, at(4))), (GRANTED, GRANTED));
    assert!(table.begin(&5, None, Access::Change, at(4)).is_err());
    table.give_back(&who(1, 5), at(7));
    assert!(
        matches!(table.renew(&who(1, 4), at(7)), LeaseAnswer::Granted { time, .. } if time == Duration::from_secs(7))
    );
}

#[test]
fn whoever_answers_at_once_has_other_leases_renewed_and_may_have_more_to_read() {
    let (mut table, a, b) = (LeaseTable::new(LeaseTerms { most_each: 4, ..TERMS }), who(1, 1), who(1, 2));
    assert_eq!(
        (table.ask(&1, &a, LeaseKind::Read, at(0)), table.ask(&2, &b, LeaseKind::Read, at(0))),
        (GRANTED, GRANTED)
    );
    assert!(table.begin(&1, None, Access::Change, at(1)).is_err());
    assert_eq!((table.renew(&b, at(1)), table.ask(&3, &who(1, 3), LeaseKind::Read, at(1))), (GRANTED, GRANTED));
    let soon = at(1).after(Duration::from_millis(500));
    table.give_back(&a, soon);
    assert_eq!((table.renew(&b, soon), table.ask(&4, &who(1, 4), LeaseKind::Read, soon)), (GRANTED, GRANTED));
    assert_eq!(table.ask(&5, &who(1, 5), LeaseKind::Write, soon), LeaseAnswer::Refused);
}

#[test]
fn whoever_gives_another_lease_back_meanwhile_is_waited_for_all_the_same() {
    let mut table = LeaseTable::new(LeaseTerms { most: 3, most_each: 3, ..TERMS });
    for file in 1..=3_u8 {
        assert_eq!(table.ask(&file, &who(1, file.into()), LeaseKind::Read, at(0)), GRANTED);
    }
    assert!(table.begin(&1, None, Access::Change, at(1)).is_err());
    assert!(table.begin(&2, None, Access::Change, at(4)).is_err());
    table.give_back(&who(1, 2), at(4));
    assert_eq!(table.renew(&who(1, 3), at(4)), GRANTED);
    table.give_back(&who(1, 1), at(7));
    assert!(
        matches!(table.renew(&who(1, 3), at(7)), LeaseAnswer::Granted { time, .. } if time == Duration::from_secs(7))
    );
}

#[test]
fn a_wait_for_one_that_was_never_given_back_counts_once_besides_others() {
    let mut table = LeaseTable::new(LeaseTerms { most: 3, most_each: 3, ..TERMS });
    let (a, b, c) = (who(1, 1), who(1, 2), who(1, 3));
    assert_eq!(table.ask(&1, &a, LeaseKind::Read, at(0)), GRANTED);
    assert_eq!(table.ask(&2, &b, LeaseKind::Read, at(5)), GRANTED);
    assert!(table.begin(&1, None, Access::Change, at(1)).is_err());
    assert!(table.begin(&2, None, Access::Change, at(9)).is_err());
    assert_eq!(table.begin(&1, None, Access::Change, at(10)), Ok(()));
    table.give_back(&b, at(11));
    // The pause behind the first one, which stood still while somebody waited for the second one, and twice that.
    assert_eq!(table.ask(&3, &c, LeaseKind::Read, at(32)), LeaseAnswer::Refused);
    assert_eq!(table.ask(&3, &c, LeaseKind::Read, at(33)), GRANTED);
}

#[test]
fn leases_are_bounded_for_each_user_and_in_all_and_room_returns_when_their_time_is_over() {
    let mut table = table();
    let mut ask = |user, file: u8, now| table.ask(&file, &who(user, file.into()), LeaseKind::Read, at(now));
    assert_eq!((ask(1, 1, 0), ask(1, 2, 0)), (GRANTED, GRANTED));
    assert_eq!(ask(1, 3, 0), LeaseAnswer::Refused, "one user");
    assert_eq!((ask(2, 4, 0), ask(2, 5, 0)), (GRANTED, GRANTED));
    assert_eq!(ask(3, 6, 0), LeaseAnswer::Refused, "all");
    assert_eq!(ask(3, 6, 10), LeaseAnswer::Refused, "nobody who is refused has all of them gone through");
    table.expire_all(at(10));
    assert_eq!(table.ask(&6, &who(3, 6), LeaseKind::Read, at(10)), GRANTED);
    assert_eq!(table.len(), 1);
    table.give_back(&who(3, 6), at(10));
    table.expire_all(at(10));
    assert_eq!(table, LeaseTable::new(TERMS), "nothing is left behind");
}

#[test]
fn files_whose_leases_were_recalled_take_places_of_their_user_and_of_nobody_else() {
    let mut table = table();
    let ask = |table: &mut LeaseTable<u8, u8>, user, file: u8, now| {
        table.ask(&file, &who(user, file.into()), LeaseKind::Read, at(now))
    };
    let granted = (1..=20).filter(|file| {
        let granted = ask(&mut table, 1, *file, 0) == GRANTED;
        if granted {
            assert!(table.begin(file, None, Access::Change, at(0)).is_err());
            table.give_back(&who(1, (*file).into()), at(0));
        }
        granted
    });
    assert_eq!(granted.collect::<alloc::vec::Vec<u8>>(), [1, 2]);
    assert_eq!((ask(&mut table, 2, 31, 0), ask(&mut table, 2, 32, 0)), (GRANTED, GRANTED));
    assert_eq!(ask(&mut table, 3, 33, 0), LeaseAnswer::Refused, "all");
    table.give_back(&who(2, 31), at(1));
    assert_eq!(ask(&mut table, 3, 33, 1), GRANTED);
    while table.poll_recall().is_some() {}
    assert_eq!(table.begin(&1, None, Access::Look, at(19)), Ok(()));
    table.end(&1, Access::Look, at(20));
    table.expire_all(at(20));
    assert_eq!(table, LeaseTable::new(TERMS), "nothing is left behind");
}

#[test]
fn whoever_does_not_answer_gets_no_lease_to_write_on_any_file_for_a_while() {
    let (mut table, a, b) = (table(), who(1, 1), who(1, 2));
    let (read, write) = (LeaseKind::Read, LeaseKind::Write);
    let to_write = LeaseAnswer::Granted { kind: write, time: TERMS.time };
    assert_eq!(table.ask(&1, &a, write, at(0)), to_write);
    assert!(table.begin(&1, None, Access::Look, at(1)).is_err());
    assert_eq!(table.ask(&2, &b, write, at(9)), LeaseAnswer::Refused, "the recall is not answered yet");
    assert_eq!(table.ask(&3, &who(2, 3), write, at(9)), to_write, "nobody waits for the other one");
    assert_eq!(table.ask(&2, &b, read, at(10)), GRANTED, "nobody who looks waits for it");
    assert_eq!(table.begin(&1, None, Access::Look, at(10)), Ok(()));
    let rest = LeaseAnswer::Granted { kind: read, time: Duration::from_secs(9) };
    assert_eq!(table.ask(&2, &b, write, at(11)), rest, "it keeps what it has, and for no longer");
    assert_eq!(table.renew(&b, at(12)), LeaseAnswer::Granted { kind: read, time: Duration::from_secs(8) });
    table.lost(&b);
    let again = table.reclaim(&2, 2, &who(1, 3), read, at(13));
    assert_eq!(again, LeaseAnswer::Granted { kind: read, time: Duration::from_secs(7) });
    let b = who(1, 3);
    table.give_back(&b, at(13));
    assert_eq!(table.ask(&2, &b, read, at(29)), LeaseAnswer::Refused);
    assert_eq!(table.ask(&2, &b, write, at(29)), LeaseAnswer::Refused);
    assert_eq!(table.ask(&2, &b, write, at(30)), to_write);
    table.give_back(&b, at(30));
    table.end(&1, Access::Look, at(30));
    assert_eq!((table.poll_recall(), table.poll_recall()), (Some(a), None));
    table.expire_all(at(30));
    assert_eq!(table, LeaseTable::new(TERMS), "nothing is left behind");
}

#[test]
fn a_lost_session_and_a_late_answer_let_others_wait_as_well() {
    let write = LeaseKind::Write;
    let to_write = LeaseAnswer::Granted { kind: write, time: TERMS.time };
    let mut lost = table();
    assert_eq!(lost.ask(&1, &who(1, 1), write, at(0)), to_write);
    lost.lost(&who(1, 1));
    assert!(lost.begin(&1, None, Access::Look, at(1)).is_err());
    assert_eq!(lost.ask(&2, &who(1, 2), write, at(2)), LeaseAnswer::Refused);
    let mut late = table();
    assert_eq!(late.ask(&1, &who(1, 1), write, at(0)), to_write);
    assert!(late.begin(&1, None, Access::Look, at(1)).is_err());
    assert!(late.begin(&1, None, Access::Look, at(8)).is_err());
    late.give_back(&who(1, 1), at(9));
    assert_eq!(late.ask(&2, &who(1, 2), write, at(24)), LeaseAnswer::Refused, "twice the eight seconds");
    assert_eq!(late.ask(&2, &who(1, 2), write, at(25)), to_write);
}

#[test]
fn a_lease_is_had_again_by_its_user_alone() {
    let (mut table, a) = (table(), who(1, 1));
    assert_eq!(table.ask(&7, &a, LeaseKind::Read, at(0)), GRANTED);
    table.lost(&a);
    assert_eq!(table.reclaim(&7, 1, &who(2, 2), LeaseKind::Read, at(1)), LeaseAnswer::Refused);
    assert_eq!(table.reclaim(&8, 1, &who(1, 3), LeaseKind::Read, at(1)), LeaseAnswer::Refused, "another file");
    assert_eq!(table.reclaim(&7, 1, &who(1, 3), LeaseKind::Read, at(1)), GRANTED);
    assert_eq!(table.renew(&a, at(2)), LeaseAnswer::Refused, "the old handle has none");
    assert_eq!(table.len(), 1);
}

#[test]
fn a_lease_that_was_recalled_while_its_session_was_lost_is_had_again_for_the_rest_of_its_time() {
    let (mut table, a) = (table(), who(1, 1));
    assert_eq!(table.ask(&7, &a, LeaseKind::Read, at(0)), GRANTED);
    table.lost(&a);
    assert_eq!(table.begin(&7, None, Access::Change, at(4)), Err(MustWait { until: at(10) }));
    assert_eq!(table.poll_recall(), None, "there is nobody to tell");
    let left = Duration::from_secs(4);
    let again = table.reclaim(&7, 1, &who(1, 3), LeaseKind::Read, at(6));
    assert_eq!(again, LeaseAnswer::Recalled { kind: LeaseKind::Read, left });
    table.give_back(&who(1, 3), at(7));
    assert_eq!(table.begin(&7, None, Access::Change, at(7)), Ok(()));
}

#[test]
fn a_read_lease_becomes_a_write_lease_if_nobody_else_uses_the_file() {
    let (mut table, a, b) = (table(), who(1, 1), who(2, 2));
    let (read, write) = (LeaseKind::Read, LeaseKind::Write);
    assert_eq!((table.ask(&7, &a, read, at(0)), table.ask(&7, &b, read, at(0))), (GRANTED, GRANTED));
    assert_eq!(table.ask(&7, &a, write, at(1)), GRANTED, "it keeps what it has");
    table.give_back(&b, at(1));
    assert_eq!(table.begin(&7, Some(&b), Access::Look, at(1)), Ok(()));
    assert_eq!(table.ask(&7, &a, write, at(1)), GRANTED);
    table.end(&7, Access::Look, at(1));
    assert_eq!(table.ask(&7, &a, write, at(1)), LeaseAnswer::Granted { kind: write, time: TERMS.time });
    assert!(table.pin(&a, at(2)));
    assert_eq!(table.ask(&7, &a, read, at(3)), GRANTED);
    assert!(!table.pin(&a, at(3)), "a read lease covers no changes");
}

#[test]
fn a_recall_that_overtakes_its_grant_counts_for_it() {
    let mut holding = Holding::new();
    assert_eq!(holding.ask(at(0)), Ok(()));
    holding.on_recall();
    assert_eq!(holding.on_answer(GRANTED, at(1)), Ok(()));
    assert!(holding.is_recalled() && holding.may_use(at(9)) && !holding.may_use(at(10)));
    assert_eq!(holding.renew(at(2)), Err(OutOfTurn));
    assert_eq!(holding.give_back(), Ok(()));
    assert!(!holding.may_use(at(2)));
}

#[test]
fn the_answer_to_one_call_is_never_taken_for_that_to_another() {
    let mut holding = Holding::new();
    assert_eq!((holding.ask(at(0)), holding.on_answer(GRANTED, at(1))), (Ok(()), Ok(())));
    assert_eq!(holding.renew_at(TERMS.time).map(|at| at.since(Instant(0)).as_millis()), Some(3333));
    assert_eq!((holding.renew(at(4)), holding.renew(at(5))), (Ok(()), Err(OutOfTurn)));
    holding.expire(at(10));
    assert!(matches!(holding.state(), HoldingState::Idle(_)));
    assert_eq!(holding.ask(at(10)), Err(OutOfTurn), "the renewal has no answer yet");
    assert_eq!(holding.on_answer(GRANTED, at(11)), Ok(()));
    assert!(!holding.may_use(at(11)), "what was kept is gone");
    assert_eq!(holding.ask(at(11)), Ok(()));
}

#[test]
fn a_server_that_hands_its_files_over_recalls_every_lease_and_grants_none() {
    let (mut table, a, b) = (table(), who(1, 1), who(2, 2));
    assert_eq!(table.ask(&7, &a, LeaseKind::Read, at(0)), GRANTED);
    assert_eq!(table.ask(&8, &b, LeaseKind::Read, at(0)), GRANTED);
    table.lost(&b);
    table.close(at(1));
    assert_eq!((table.poll_recall(), table.poll_recall()), (Some(a), None), "nobody is there for the other one");
    let left = Duration::from_secs(8);
    assert_eq!(table.renew(&a, at(2)), LeaseAnswer::Recalled { kind: LeaseKind::Read, left });
    assert_eq!(table.ask(&9, &who(1, 3), LeaseKind::Read, at(2)), LeaseAnswer::Refused);
    let left = Duration::from_secs(7);
    let again = table.reclaim(&8, 2, &who(2, 4), LeaseKind::Read, at(3));
    assert_eq!(again, LeaseAnswer::Recalled { kind: LeaseKind::Read, left }, "for the rest of its time");
}

#[test]
fn changes_that_overlap_keep_no_lease_that_is_over() {
    let (mut table, a, b) = (table(), who(1, 1), who(2, 2));
    assert_eq!(
        table.ask(&7, &a, LeaseKind::Write, at(0)),
        LeaseAnswer::Granted { kind: LeaseKind::Write, time: TERMS.time }
    );
    assert!(table.begin(&7, Some(&b), Access::Look, at(1)).is_err());
    assert!(table.pin(&a, at(9)));
    assert!(table.begin(&7, Some(&b), Access::Look, at(10)).is_err(), "what had begun is made under it");
    assert!(!table.pin(&a, at(10)), "what begins now is not");
    table.unpin(&a);
    assert_eq!(table.begin(&7, Some(&b), Access::Look, at(11)), Ok(()));
}
