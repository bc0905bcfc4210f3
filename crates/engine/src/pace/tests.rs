//! The properties of a bucket, over simulated flows: none of them uses a clock.

use super::*;
use proptest::prelude::*;

/// A flow that moves bytes whenever it may, but reacts late and sometimes moves less than it may.
#[derive(Clone, Debug)]
struct Mover {
    late: Vec<u64>,
    most: u64,
}

/// What moved, and when: in nanoseconds from the start.
fn run(rate: u64, movers: &[Mover], span: Duration) -> Vec<(u64, usize, u64)> {
    let start = Instant(1_000_000_000_000);
    let mut bucket = Bucket::new(rate);
    let mut wakes: Vec<(Instant, usize)> = (0..movers.len()).map(|mover| (start, mover)).collect();
    let (mut moved, mut turns) = (Vec::new(), 0);
    loop {
        wakes.sort_unstable();
        let (now, mover) = wakes.remove(0);
        if now.since(start) >= span {
            return moved;
        }
        turns += 1;
        let wake = match bucket.ask(mover as FlowId, now) {
            Allowance::Bytes(bytes) => {
                let bytes = bytes.min(movers[mover].most);
                bucket.moved(mover as FlowId, bytes);
                moved.push((now.since(start).as_nanos() as u64, mover, bytes));
                now
            }
            Allowance::From(at) => at.after(Duration::from_micros(movers[mover].late[turns % 8])),
        };
        wakes.push((wake, mover));
    }
}

fn total(moved: &[(u64, usize, u64)]) -> u64 {
    moved.iter().map(|(.., bytes)| bytes).sum()
}

fn movers() -> impl Strategy<Value = Vec<Mover>> {
    let mover = (proptest::collection::vec(0..15_000_u64, 8), 1_000..4_000_000_u64);
    proptest::collection::vec(mover.prop_map(|(late, most)| Mover { late, most }), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_rate_holds_within_a_twentieth_and_no_burst_is_longer_than_a_tenth_of_a_second(
        rate in 10_000..2_000_000_000_u64,
        movers in movers(),
    ) {
        let span = Duration::from_secs(10);
        // No mover takes less than a turn at a time: the rate is the only limit.
        let movers: Vec<Mover> = movers.into_iter().map(|mover| Mover { most: u64::MAX, ..mover }).collect();
        let moved = run(rate, &movers, span);
        let all = total(&moved) as f64 / (rate as f64 * 10.0);
        prop_assert!((0.95..=1.05).contains(&all), "{all} of the rate");
        let mut sum = 0;
        let sums: Vec<(u64, u64)> = moved.iter().map(|(at, _, bytes)| { sum += bytes; (*at, sum) }).collect();
        for (from, (begin, before)) in sums.iter().enumerate().step_by(7) {
            for (end, after) in sums[from..].iter().step_by(5) {
                let fits = rate as f64 * ((end - begin) as f64 / 1e9 + 0.1);
                prop_assert!((after - before) as f64 <= fits + 1.0, "{} bytes in {} ns", after - before, end - begin);
            }
        }
    }

    #[test]
    fn flows_that_always_want_more_get_equal_shares(rate in 100_000..1_000_000_000_u64, movers in movers()) {
        // Who comes later than the others' turns begin has let one pass.
        let punctual = |mover: Mover| Mover { most: u64::MAX, late: mover.late.iter().map(|late| late / 8).collect() };
        let movers: Vec<Mover> = movers.into_iter().map(punctual).collect();
        let moved = run(rate, &movers, Duration::from_secs(10));
        let share = total(&moved) as f64 / movers.len() as f64;
        for mover in 0..movers.len() {
            let own: u64 = moved.iter().filter(|(_, one, _)| *one == mover).map(|(.., bytes)| bytes).sum();
            prop_assert!((own as f64 / share - 1.0).abs() < 0.25, "{own} of {share}");
        }
    }

    #[test]
    fn what_slow_flows_leave_goes_to_the_others(rate in 1_000_000..1_000_000_000_u64, most in 1..100_u64) {
        let quick = Mover { late: vec![0; 8], most: u64::MAX };
        // It takes less than a thousandth of its turns.
        let slow = Mover { late: vec![5_000; 8], most };
        let moved = run(rate, &[quick, slow], Duration::from_secs(5));
        let all = total(&moved) as f64 / (rate as f64 * 5.0);
        prop_assert!(all > 0.95, "{all} of the rate");
    }
}

#[test]
fn no_limit_never_waits_and_another_rate_holds_at_once() {
    let mut bucket = Bucket::new(0);
    let now = Instant(7);
    assert_eq!(bucket.ask(1, now), Allowance::Bytes(u64::MAX));
    bucket.moved(1, 1 << 40);
    bucket.set_rate(1000, now);
    assert_eq!(bucket.ask(1, now), Allowance::Bytes(20));
    bucket.moved(1, 20);
    assert_eq!(bucket.ask(1, now), Allowance::From(now.after(TURN)));
    bucket.set_rate(0, now);
    assert_eq!(bucket.ask(1, now), Allowance::Bytes(u64::MAX));
}

#[test]
fn a_turn_that_was_exceeded_is_paid_for_and_one_that_was_left_is_free() {
    let mut bucket = Bucket::new(1000);
    let now = Instant(1 << 40);
    bucket.set_rate(1001, now);
    bucket.set_rate(1000, now);
    assert_eq!(bucket.ask(1, now), Allowance::Bytes(20));
    bucket.moved(1, 120);
    assert_eq!(bucket.ask(1, now), Allowance::From(now.after(Duration::from_millis(120))));
    bucket.leave(1);
    assert_eq!(bucket.ask(2, now), Allowance::From(now.after(Duration::from_millis(120))), "its turn is free again");
}

#[test]
fn what_moved_without_a_turn_is_paid_for() {
    let mut bucket = Bucket::new(1000);
    let now = Instant(1 << 40);
    bucket.set_rate(1001, now);
    bucket.set_rate(1000, now);
    bucket.moved(1, 50);
    assert_eq!(bucket.ask(1, now), Allowance::From(now.after(Duration::from_millis(50))));
}

#[test]
fn small_calls_overtake_and_are_no_way_past_the_limit() {
    let limit = Arc::new(Limit::new(100_000));
    let (copying, listing) = (Pacer::of(Arc::default(), vec![Arc::clone(&limit)]), Pacer::new(vec![limit]).unwrap());
    let mut now = Instant(1 << 40);
    let start = now;
    let (mut copied, mut listed) = (0, 0);
    while now.since(start) < Duration::from_secs(10) {
        if let Allowance::Bytes(bytes) = copying.ask(now) {
            copying.moved(bytes);
            copied += bytes;
        }
        // A listing every second, which never waits; then one after the other.
        let seconds = now.since(start).as_secs();
        if seconds < 5 && now.since(start).subsec_millis() == 0 {
            assert!(listing.overtakes(2000, now), "{now:?}");
            listed += 2000;
        } else if seconds >= 5 && listing.overtakes(2000, now) {
            listed += 2000;
        }
        now = now.after(Duration::from_millis(1));
    }
    let all = (copied + listed) as f64 / 1e6;
    assert!((0.95..1.05).contains(&all) && listed > 300_000, "{all} of the rate, {listed} bytes of listings");
    assert!(!listing.overtakes(SMALL_CALL_BYTES + 1, now.after(CATCH_UP)), "a long call waits");
}

#[test]
fn threads_of_one_flow_share_its_turn() {
    let limit = Arc::new(Limit::new(1_000_000));
    let flow = Arc::default();
    let threads = [0; 4].map(|_| Pacer::of(Arc::clone(&flow), vec![Arc::clone(&limit)]));
    let (now, mut moved) = (Instant(1 << 40), 0);
    // Each asks before any of them has moved what it may.
    let asked: Vec<Allowance> = threads.iter().map(|thread| thread.ask(now)).collect();
    assert_eq!(asked[0], Allowance::Bytes(20_000));
    assert!(asked[1..].iter().all(|asked| *asked == Allowance::From(now.after(BUSY))), "{asked:?}");
    threads[0].moved(20_000);
    for step in 0..1000 {
        let now = now.after(Duration::from_millis(step));
        for thread in &threads {
            if let Allowance::Bytes(bytes) = thread.ask(now) {
                thread.moved(bytes);
                moved += bytes;
            }
        }
    }
    assert!((950_000..1_080_000).contains(&moved), "{moved}");
}
