//! What only the simulated implementation has: a virtual clock, seeds, faults, and an end when nothing can happen.

use crate::harness::{Simulated, head, pattern};
use rustix::io::Errno;
use xdfs_io::dispatch::{Body, Chance, Completion, Dispatch, End, Faults, Network, Op, Sim, SocketId, Wake};
use xdfs_proto::base::{Duration, Instant};

/// Two endpoints that exchange records for as long as anything happens. What each saw, as text.
fn run(seed: u64, faults: Faults) -> (Vec<String>, Network) {
    let network = Network::new(seed, faults);
    let mut ends = [Sim::new(&network).unwrap(), Sim::new(&network).unwrap()];
    for _ in 0..4 {
        let (one, other) = network.pair();
        for (end, link) in ends.iter_mut().zip([one, other]) {
            let socket = end.attach(link, &[]).unwrap();
            end.submit(Op::Send { socket, head: Some(head(1)), body: Body::Bytes(pattern(0, 30_000)) });
            end.submit(Op::Some { socket, limit: 7_000 });
        }
    }
    let mut seen = Vec::new();
    while !network.is_stuck() {
        for (which, end) in ends.iter_mut().enumerate() {
            let completion = end.next(None).unwrap();
            if let Completion::Some { socket, .. } = completion {
                end.submit(Op::Some { socket, limit: 7_000 });
            }
            if !matches!(completion, Completion::Deadline) {
                seen.push(format!("{which} at {:?}: {completion:?}", end.now()));
            }
        }
    }
    (seen, network)
}

#[test]
fn a_seed_decides_the_run_and_another_seed_another_run() {
    let faults = || Faults { cut: Chance(2_000), ..Simulated::faults() };
    let (first, _) = run(5, faults());
    let (again, _) = run(5, faults());
    let (other, _) = run(6, faults());
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[test]
fn all_bytes_arrive_over_a_network_that_only_delays_and_shortens() {
    let (mut receives, mut sends) = (0, 0);
    for seed in 0..20 {
        let (_, network) = run(seed, Simulated::faults());
        let tally = network.tally();
        assert_eq!((tally.sent, tally.received), (8 * 30_048, 8 * 30_048), "seed {seed}");
        assert_eq!(tally.cuts, 0, "seed {seed}");
        (receives, sends) = (receives + tally.short_receives, sends + tally.short_sends);
    }
    assert!(receives > 20 && sends > 20, "{receives} short receives, {sends} short sends");
}

#[test]
fn every_kind_of_fault_occurs_and_is_counted() {
    let faults = Faults { cut: Chance::percent(1), refuse: Chance::percent(50), ..Simulated::faults() };
    let mut cuts = 0;
    let mut stalls = 0;
    for seed in 0..20 {
        let (seen, network) = run(seed, faults.clone());
        let broken = seen.iter().filter(|line| line.contains("Failed")).count();
        assert_eq!(broken > 0, network.tally().cuts > 0, "seed {seed}: a cut is seen, and nothing else fails");
        cuts += network.tally().cuts;
        stalls += network.tally().stalls;
    }
    assert!(cuts > 0 && stalls > 0, "{cuts} cuts, {stalls} stalls");
    let network = Network::new(1, faults);
    let _listener = network.listen(9).unwrap();
    let _callers: Vec<_> = (0..40).map(|_| network.connect(9)).collect();
    let refusals = network.tally().refusals;
    assert!((5..=35).contains(&refusals), "{refusals} of 40 at one in two");
}

#[test]
fn time_moves_to_the_next_event_and_no_further() {
    let latency = Duration::from_secs(3);
    let network = Network::new(1, Faults { latency, ..Faults::default() });
    let (mut left, mut right) = (Sim::new(&network).unwrap(), Sim::new(&network).unwrap());
    let (one, other) = network.pair();
    let (from, to) = (left.attach(one, &[]).unwrap(), right.attach(other, &[]).unwrap());
    left.submit(Op::Send { socket: from, head: Some(head(4)), body: Body::None });
    right.submit(Op::Head { socket: to });
    // The one that looks first finds nothing and leaves the clock alone: the other may have something to do.
    assert!(matches!(right.next(Some(Instant(u64::MAX))).unwrap(), Completion::Deadline));
    assert_eq!(network.now(), Instant(0));
    assert!(matches!(left.next(None).unwrap(), Completion::Sent { .. }));
    assert!(matches!(left.next(None).unwrap(), Completion::Deadline));
    assert!(matches!(right.next(Some(Instant(u64::MAX))).unwrap(), Completion::Head { .. }));
    assert_eq!(network.now(), Instant(0).after(latency));
    // A deadline is an event as well.
    let deadline = network.now().after(Duration::from_secs(60));
    assert!(matches!(left.next(None).unwrap(), Completion::Deadline));
    assert!(!network.is_stuck(), "right has not looked since");
    assert!(matches!(right.next(Some(deadline)).unwrap(), Completion::Deadline));
    assert_eq!(right.now(), deadline);
    assert!(matches!(right.next(None).unwrap(), Completion::Deadline));
    assert!(matches!(left.next(None).unwrap(), Completion::Deadline));
    assert!(network.is_stuck());
    left.waker().wake();
    assert!(!network.is_stuck());
    assert!(matches!(left.next(None).unwrap(), Completion::Woken));
}

#[test]
fn a_held_direction_carries_nothing_until_it_is_let_go() {
    let network = Network::new(1, Faults::default());
    let mut end = Sim::new(&network).unwrap();
    let (one, other) = network.pair();
    let (from, to) = (end.attach(one, &[]).unwrap(), end.attach(other, &[]).unwrap());
    network.hold(end.link(from), true);
    end.submit(Op::Send { socket: from, head: Some(head(4)), body: Body::None });
    end.submit(Op::Head { socket: to });
    assert!(matches!(end.next(None).unwrap(), Completion::Sent { .. }));
    assert!(matches!(end.next(None).unwrap(), Completion::Deadline));
    assert!(network.is_stuck());
    network.hold(end.link(from), false);
    assert!(!network.is_stuck());
    assert!(matches!(end.next(None).unwrap(), Completion::Head { .. }));
}

#[test]
fn a_cut_loses_what_was_under_way_and_both_ends_fail() {
    let network = Network::new(1, Faults { latency: Duration::from_secs(1), ..Faults::default() });
    let mut end = Sim::new(&network).unwrap();
    let (one, other) = network.pair();
    let sockets: [SocketId; 2] = [end.attach(one, &[]).unwrap(), end.attach(other, &[]).unwrap()];
    end.submit(Op::Send { socket: sockets[0], head: Some(head(4)), body: Body::None });
    assert!(matches!(end.next(None).unwrap(), Completion::Sent { .. }));
    network.cut(end.link(sockets[0]));
    for socket in sockets {
        end.submit(Op::Head { socket });
        match end.next(None).unwrap() {
            Completion::Ended { cause, .. } => assert_eq!(cause, End::Failed(Errno::CONNRESET.raw_os_error())),
            other => panic!("{other:?}"),
        }
    }
}
