//! The main loop of a tree copy, over one session.

use super::endpoints::Remote;
use super::events::{Event, Observer};
use super::replies::{on_event, placed};
use super::scheduler::{PendingJob, Run, StopReason, TreeCopy, Turn};
use super::{Ended, Summary};
use std::time::Duration;

/// How long a stopped copy waits for its transfers to end in order.
const CANCEL_WAIT: Duration = Duration::from_secs(5);
/// How long a copy that ends early waits for local writes.
const PLACE_WAIT: Duration = Duration::from_secs(30);

/// Runs over this session until everything was tried, the application stops it, or the session is
/// lost.
pub(super) fn run<C: TreeCopy>(copy: &mut C, remote: &mut dyn Remote, observer: &mut dyn Observer) -> Ended {
    let reason = match work(copy, remote, observer) {
        Ok(()) => return Ended::Complete(complete(copy, observer)),
        Err(reason) => reason,
    };
    if matches!(reason, StopReason::Stopped | StopReason::Hopeless(_)) {
        let cut: Vec<u64> =
            copy.scheduler().in_flight.batches().filter(|(_, job)| may_be_cut::<C>(job)).map(|one| one.0).collect();
        remote.cancel(&cut);
        // A cancelled transfer removes its staging file, or writes a checkpoint, before it answers.
        let until = remote.now() + CANCEL_WAIT;
        while copy.scheduler().in_flight.transfers_are_under_way() && remote.now() < until {
            match remote.next_within(CANCEL_WAIT) {
                // It was cancelled: the next copy sees what became of it.
                Some(Event::Report(number, _)) => drop(copy.scheduler().take(number)),
                Some(Event::Placed(number, outcomes)) => placed(copy, observer, number, outcomes),
                Some(Event::Reply(..)) | None => {}
            }
        }
    }
    // Local writes in progress are not repeated, unless their disk does not respond.
    let until = remote.now() + PLACE_WAIT;
    while copy.scheduler().in_flight.places() && remote.now() < until {
        // What else comes is done again.
        if let Some(Event::Placed(number, outcomes)) = remote.next_within(PLACE_WAIT) {
            placed(copy, observer, number, outcomes);
        }
    }
    // In the order in which they began. What was sent may have been done.
    for job in copy.scheduler().in_flight.give_up().into_iter().rev() {
        let tasks: Vec<_> = match job {
            PendingJob::Batch { tasks, .. } => tasks.into_iter().rev().map(|task| copy.again(task)).collect(),
            PendingJob::Transfer(large) => vec![copy.large_again(large)],
            PendingJob::Place(files) => files.into_iter().rev().map(|file| copy.large_again(file)).collect(),
        };
        copy.scheduler().tasks.extend(tasks);
    }
    match reason {
        StopReason::Stopped => Ended::Stopped(copy.state().summary),
        StopReason::Lost(error) => Ended::Lost(error),
        StopReason::Hopeless(error) => Ended::Refused(error),
    }
}

/// Whether the server need not execute a batch to its end.
fn may_be_cut<C: TreeCopy>(job: &PendingJob<C::Task, C::Detail>) -> bool {
    matches!(job, PendingJob::Batch { tasks, .. } if tasks.iter().all(C::may_end_at))
}

/// The summary of a copy with nothing left to do. A directory that still waits for something is a
/// bug of this program: a name is then missing at the target, and the copy must not succeed.
fn complete<C: TreeCopy>(copy: &mut C, observer: &mut dyn Observer) -> Summary {
    let state = copy.state();
    let open = state.directories.len() as u64;
    if open > 0 {
        state.summary.failed += open;
        observer.note(&format!("{open} directories are not complete, which is a bug in xdfs: please report it"));
    }
    state.summary
}

fn work<C: TreeCopy>(copy: &mut C, remote: &mut dyn Remote, observer: &mut dyn Observer) -> Run<()> {
    loop {
        copy.scheduler().now = remote.now();
        begin_transfers(copy, remote, observer)?;
        while let Some(task) = next_task(copy) {
            if let Turn::Later(task) = copy.take(remote, observer, task)? {
                copy.scheduler().tasks.push(task);
                copy.scheduler().must_be_connected()?;
                break;
            }
            copy.scheduler().must_be_connected()?;
            must_be_hopeful(copy)?;
            // Answers that arrived meanwhile free capacity and report losses.
            copy.scheduler().now = remote.now();
            while let Some(event) = remote.ready() {
                on_event(copy, remote, observer, event)?;
            }
            begin_transfers(copy, remote, observer)?;
        }
        copy.scheduler().flush(remote);
        copy.scheduler().must_be_connected()?;
        if copy.scheduler().is_idle() {
            if !copy.next_phase(observer) {
                return Ok(());
            }
            continue;
        }
        let scheduler = copy.scheduler();
        let pause = scheduler.descriptors.pause(scheduler.now).unwrap_or(Duration::MAX);
        if let Some(event) = remote.next_within(pause) {
            copy.scheduler().now = remote.now();
            on_event(copy, remote, observer, event)?;
        }
        must_be_hopeful(copy)?;
        let (moving, summary) = (remote.moving(), copy.state().summary);
        if !observer.should_continue(&summary, moving) {
            return Err(StopReason::Stopped);
        }
    }
}

/// The next task; none while others hold the descriptors that it needs.
fn next_task<C: TreeCopy>(copy: &mut C) -> Option<C::Task> {
    let scheduler = copy.scheduler();
    if scheduler.is_paused() { None } else { scheduler.tasks.pop() }
}

fn must_be_hopeful<C: TreeCopy>(copy: &mut C) -> Run<()> {
    copy.state().hopeless.take().map_or(Ok(()), |error| Err(StopReason::Hopeless(error)))
}

/// Begins transfers of large files, as many as allowed.
fn begin_transfers<C: TreeCopy>(copy: &mut C, remote: &mut dyn Remote, observer: &mut dyn Observer) -> Run<()> {
    if copy.scheduler().is_paused() {
        return Ok(());
    }
    let mut waiting = copy.scheduler().large.len();
    while waiting > 0 && copy.scheduler().in_flight.has_transfer() {
        waiting -= 1;
        let Some(large) = copy.scheduler().large.pop_front() else { break };
        if let Some(later) = copy.begin(remote, observer, large)? {
            copy.scheduler().large.push_back(later);
        }
    }
    Ok(())
}
