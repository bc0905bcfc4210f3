//! The fairness of the scheduler as properties, and its bounds case by case. No test runs a thread.

use super::*;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);

fn share(user: &str, export: u32) -> QuotaClass {
    QuotaClass { user: user.into(), export }
}

fn limits(running: usize, active: usize) -> Limits {
    Limits { running, active, active_for: 100 * MS, divided: true, waiting: 100 }
}

/// Starts all jobs that may run now.
fn start_all<T>(scheduler: &mut Scheduler<T>, now: Duration) -> Vec<(Ticket, T)> {
    let next = || match scheduler.next(now) {
        ScheduleStep::Run(ticket, job) => Some((ticket, job)),
        ScheduleStep::At(_) | ScheduleStep::Nothing => None,
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn a_newcomer_waits_for_no_more_than_the_jobs_that_run() {
    let mut scheduler = Scheduler::new(limits(16, 3));
    for job in 0..100 {
        scheduler.push(&share("many", 1), job).unwrap();
    }
    assert_eq!(scheduler.push(&share("many", 2), 100), Err(100), "no more of his wait");
    let running = start_all(&mut scheduler, Duration::ZERO);
    assert_eq!(running.len(), 2, "one is left to others");
    scheduler.push(&share("one", 1), 1000).unwrap();
    assert!(matches!(scheduler.next(MS), ScheduleStep::Run(_, 1000)));
    scheduler.push(&share("two", 1), 2000).unwrap();
    assert_eq!(scheduler.next(MS), ScheduleStep::At(100 * MS));
    scheduler.on_end(running[0].0, SLICE, Some(running[0].1));
    assert!(matches!(scheduler.next(SLICE), ScheduleStep::Run(_, 2000)));
}

#[test]
fn what_hangs_uses_no_core_and_leaves_places_to_the_others() {
    let mut scheduler = Scheduler::new(limits(16, 2));
    for (user, export) in [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("c", 4)] {
        for _ in 0..50 {
            scheduler.push(&share(user, export), export).unwrap_or(());
        }
    }
    // Nothing ever ends on the first three.
    let mut started = BTreeMap::<u32, usize>::new();
    for turn in 0..100 {
        let now = turn * SLICE;
        for (ticket, export) in start_all(&mut scheduler, now) {
            *started.entry(export).or_default() += 1;
            if export == 4 {
                scheduler.on_end(ticket, now + MS, None);
            }
        }
    }
    assert_eq!(started[&4], 50, "all of the export that answers: {started:?}");
    assert!(scheduler.running() < 16, "{started:?}");
}

#[test]
fn a_user_whose_jobs_wait_for_storage_leaves_places_to_others_there() {
    let storage = Limits { running: 10, active: usize::MAX, active_for: Duration::ZERO, divided: true, waiting: 100 };
    let mut scheduler = Scheduler::new(storage);
    for _ in 0..50 {
        scheduler.push(&share("slow", 1), "slow").unwrap();
    }
    assert_eq!(start_all(&mut scheduler, Duration::ZERO).len(), 3);
    scheduler.push(&share("other", 1), "other").unwrap();
    assert!(matches!(scheduler.next(MS), ScheduleStep::Run(_, "other")));
    assert_eq!(scheduler.next(MS), ScheduleStep::Nothing);
}

/// The places that each of a row of exports takes whose storage never answers, until none is left for another.
fn taken_by_hanging_exports(limits: Limits, users: usize) -> Vec<usize> {
    let (mut scheduler, mut taken) = (Scheduler::new(limits), Vec::new());
    let mut now = Duration::ZERO;
    for export in 0.. {
        for (user, _) in (0..users).flat_map(|user| [user; 20].into_iter().zip(0..)) {
            scheduler.push(&share(&format!("user {user}"), export), export).unwrap();
        }
        let before = scheduler.running();
        for _ in 0..100 {
            // What has waited so long uses no core.
            now += 100 * MS;
            start_all(&mut scheduler, now);
        }
        match scheduler.running() - before {
            0 => break,
            more => taken.push(more),
        }
    }
    assert_eq!(taken.iter().sum::<usize>(), limits.running, "all places");
    taken
}

/// As docs/security.md says it.
#[test]
fn three_exports_may_hang_under_many_users_and_four_under_one_before_others_wait() {
    let limits = |limits: Limits| Limits { waiting: 1000, ..limits };
    let (storage, sliced) = (limits(crate::bounds::storage_limits()), limits(crate::bounds::sliced_limits()));
    assert_eq!(taken_by_hanging_exports(storage, 1), [3, 3, 2, 1, 1]);
    assert_eq!(taken_by_hanging_exports(storage, 8), [5, 3, 1, 1]);
    assert_eq!(taken_by_hanging_exports(sliced, 1), [4, 4, 4, 2, 1, 1]);
    assert_eq!(taken_by_hanging_exports(sliced, 8), [8, 4, 2, 1, 1]);
}

#[test]
fn a_single_place_serves_everybody() {
    let mut scheduler = Scheduler::new(limits(1, 1));
    scheduler.push(&share("a", 1), 1).unwrap();
    scheduler.push(&share("b", 2), 2).unwrap();
    let ScheduleStep::Run(ticket, 1) = scheduler.next(MS) else { panic!("the first comes first") };
    assert_eq!(scheduler.next(MS), ScheduleStep::Nothing, "not even when it waits");
    scheduler.on_end(ticket, 2 * MS, None);
    assert!(matches!(scheduler.next(2 * MS), ScheduleStep::Run(_, 2)));
}

#[test]
fn a_call_that_took_a_minute_does_not_keep_its_user_waiting_for_one() {
    let mut scheduler = Scheduler::new(limits(4, 1));
    scheduler.push(&share("slow", 1), 0).unwrap();
    let ScheduleStep::Run(slow, 0) = scheduler.next(Duration::ZERO) else { panic!("nothing else is there") };
    let mut now = Duration::from_secs(60);
    scheduler.push(&share("busy", 1), 1).unwrap();
    scheduler.on_end(slow, now, Some(0));
    let before = now;
    while let ScheduleStep::Run(ticket, job) = scheduler.next(now) {
        if job == 0 {
            break;
        }
        now += SLICE;
        scheduler.on_end(ticket, now, Some(job));
    }
    assert!(now - before <= LAG_MAX + 2 * SLICE, "{:?}", now - before);
}

#[test]
fn whoever_is_gone_is_forgotten() {
    let mut scheduler = Scheduler::new(limits(4, 2));
    for user in 0..1000 {
        scheduler.push(&share(&user.to_string(), 1), ()).unwrap();
        let ScheduleStep::Run(ticket, ()) = scheduler.next(user * MS) else { panic!("there is room") };
        scheduler.on_end(ticket, (user + 1) * MS, None);
    }
    assert!(scheduler.users.is_empty());
}

/// One user of a generated scenario: how many jobs the user always has, and how long one runs
/// before it yields.
#[derive(Clone, Debug)]
struct Greed {
    jobs: usize,
    slice_ms: u32,
    export: u32,
}

fn greed() -> impl Strategy<Value = Greed> {
    (1..40_usize, 1..60_u32, 0..3_u32).prop_map(|(jobs, slice_ms, export)| Greed { jobs, slice_ms, export })
}

proptest! {
    #[test]
    fn users_who_always_want_more_get_the_same_time_however_much_they_want(
        users in proptest::collection::vec(greed(), 1..8),
        active in 1..4_usize,
    ) {
        let mut scheduler = Scheduler::new(limits(16, active));
        for (index, user) in users.iter().enumerate() {
            for _ in 0..user.jobs.max(active) {
                scheduler.push(&share(&index.to_string(), user.export), index).unwrap();
            }
        }
        let (mut served, mut now) = (vec![Duration::ZERO; users.len()], Duration::ZERO);
        let mut running: Vec<(Duration, Ticket, usize)> = Vec::new();
        while now < Duration::from_secs(10) {
            for (ticket, index) in start_all(&mut scheduler, now) {
                running.push((now + users[index].slice_ms * MS, ticket, index));
            }
            prop_assert!(running.len() <= active);
            running.sort_unstable_by_key(|(until, _, index)| std::cmp::Reverse((*until, *index)));
            let Some((until, ticket, index)) = running.pop() else { break };
            now = until;
            served[index] += users[index].slice_ms * MS;
            scheduler.on_end(ticket, now, Some(index));
        }
        let (least, most) = (served.iter().min().unwrap(), served.iter().max().unwrap());
        // A slice that overruns is counted when it has run, on every core.
        prop_assert!(*most - *least <= 2 * LAG_MAX + 60 * MS * active as u32, "{served:?}");
    }

    #[test]
    fn every_job_that_ends_is_run_once_and_none_is_lost(
        plan in proptest::collection::vec((0..4_u8, 0..3_u32, 0..30_u32, 1..4_u8), 1..120),
        running_max in 1..12_usize,
        active in 1..6_usize,
    ) {
        let mut scheduler = Scheduler::new(limits(running_max, active));
        let (mut now, mut left, mut done) = (Duration::ZERO, BTreeMap::new(), 0);
        for (number, (user, export, wait, slices)) in plan.iter().enumerate() {
            scheduler.push(&share(&user.to_string(), *export), number).unwrap();
            left.insert(number, *slices);
            let mut running = start_all(&mut scheduler, now);
            prop_assert!(scheduler.running() <= running_max);
            now += *wait * MS;
            for (ticket, job) in running.drain(..) {
                let slices = left.get_mut(&job).unwrap();
                *slices -= 1;
                done += u32::from(*slices == 0);
                scheduler.on_end(ticket, now, (*slices > 0).then_some(job));
            }
        }
        while let ScheduleStep::Run(ticket, job) = scheduler.next(now) {
            let slices = left.get_mut(&job).unwrap();
            *slices -= 1;
            done += u32::from(*slices == 0);
            now += MS;
            scheduler.on_end(ticket, now, (*slices > 0).then_some(job));
        }
        prop_assert_eq!((done as usize, scheduler.waiting(), scheduler.running()), (plan.len(), 0, 0));
        prop_assert!(scheduler.users.is_empty());
    }
}
