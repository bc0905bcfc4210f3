//! Joining, revocation and a hostile participant: every state of every setting, and every mistake found.

use xdfs_proto::bug::Bug;
use xdfs_test_model::hostile::places::{BOUNDED, IN_TIME, Places};
use xdfs_test_model::hostile::properties::{EFFECT, GRANT, HOLDER, LEVEL, NONCE};
use xdfs_test_model::hostile::settings::{USUAL, for_bug, levels};
use xdfs_test_model::search::{Order, Report, all_hold, search, search_for};

fn caught<A: std::fmt::Debug>(bug: Bug, property: &'static str, report: &Report<A>) {
    let found = report.broken.iter().find(|(name, ..)| *name == property);
    let Some((_, way, _)) = found else { panic!("{bug:?} is not caught by '{property}': {report}") };
    println!("{:<26}{property:<86}{:>8}{:>5}", format!("{bug:?}"), report.states, way.len());
}

#[test]
fn whatever_a_hostile_participant_does_every_property_holds_and_everything_possible_is_reached() {
    all_hold(USUAL, 700_000);
}

#[test]
fn in_every_cell_of_the_floors_no_block_is_below_the_highest() {
    let (mut cells, mut states) = (0, 0);
    for setting in levels() {
        let report = search(&setting, Order::Breadth);
        assert!(report.holds(), "{:?}: {report}", setting.floors);
        cells += 1;
        states += report.states;
    }
    println!("{cells} cells, {states} states in all");
    assert_eq!(cells, 2 * 27);
}

#[test]
fn whatever_strangers_do_their_places_are_bounded_and_their_time_ends() {
    let report = search(&Places::USUAL, Order::Breadth);
    println!("{report}");
    assert!(report.holds(), "{report}");
    assert!(report.states >= 100_000, "the house became too small to say much: {} states", report.states);
}

#[test]
fn every_seeded_bug_of_protection_is_caught_by_its_property() {
    println!("{:<26}{:<86}{:>8}{:>5}", "mistake", "caught by", "states", "steps");
    for bug in Bug::OF_PROTECTION {
        let property = match bug {
            Bug::JoinWithoutProof | Bug::ProofWithoutChannel => HOLDER,
            Bug::GrantServesTwice | Bug::GrantOutlivesItsTime | Bug::GrantUsedLate => GRANT,
            Bug::RevocationMissesOpening | Bug::RevocationMissesJoined => EFFECT,
            Bug::LevelOnlyTold => LEVEL,
            Bug::SequenceWithoutKey => NONCE,
            Bug::SilentAreFree | Bug::DeadlineFromFirstBytes => {
                let property = if bug == Bug::SilentAreFree { BOUNDED } else { IN_TIME };
                caught(bug, property, &search_for(&Places { bug: Some(bug), ..Places::USUAL }, property));
                continue;
            }
            other => panic!("{other:?} is no mistake of protection"),
        };
        caught(bug, property, &search_for(&for_bug(bug), property));
    }
}
