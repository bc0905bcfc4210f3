//! Handles answers: replies to batches, results of transfers, and results of small files that were
//! written locally.

use super::endpoints::Remote;
use super::events::{Event, Observer};
use super::scheduler::{CallResult, PendingJob, Run, StopReason, TreeCopy};
use crate::calls::in_full;
use crate::retry::{is_busy, passes_for_tree};
use bytes::Bytes;
use xdfs_io::store::descriptors::are_scarce;
use xdfs_proto::base::{Error, ErrorKind, Safety};
use xdfs_proto::wire::path::{Answer, CallOutcome, Failure, Reply};

pub(super) fn on_event<C: TreeCopy>(
    copy: &mut C,
    remote: &mut dyn Remote,
    observer: &mut dyn Observer,
    event: Event,
) -> Run<()> {
    match event {
        Event::Reply(number, reply) => match copy.scheduler().take(number) {
            Some(PendingJob::Batch { codes, tasks }) => replied(copy, remote, observer, &codes, tasks, reply),
            // It has been answered: no number is used twice.
            _ => Ok(()),
        },
        Event::Placed(number, outcomes) => {
            placed(copy, observer, number, outcomes);
            Ok(())
        }
        Event::Report(number, report) => match (copy.scheduler().take(number), report) {
            // Another copy sends or writes the same file: each then writes its own.
            (Some(PendingJob::Transfer(large)), Err(error)) if is_contended(&error) && large.tries == 0 => {
                let task = copy.contended(large.tried());
                copy.scheduler().tasks.push(task);
                Ok(())
            }
            (Some(PendingJob::Transfer(large)), Err(error)) if passes_for_tree(&error) => {
                let task = copy.large_again(large);
                copy.scheduler().tasks.push(task);
                Err(StopReason::Lost(error))
            }
            (Some(PendingJob::Transfer(large)), Err(error)) if are_scarce(&error) => {
                copy.scheduler().large.push_back(large);
                wait_for_descriptors(copy, error)
            }
            (Some(PendingJob::Transfer(_)), Err(error)) if is_for_all(error.kind, error.errno) => {
                Err(StopReason::Hopeless(error))
            }
            (Some(PendingJob::Transfer(large)), report) => {
                copy.moved(observer, large, report);
                Ok(())
            }
            // As above.
            _ => Ok(()),
        },
    }
}

pub(super) fn placed<C: TreeCopy>(
    copy: &mut C,
    observer: &mut dyn Observer,
    number: u64,
    outcomes: Result<Vec<Result<Safety, Error>>, Error>,
) {
    // Its session was lost, which has answered it.
    let Some(PendingJob::Place(files)) = copy.scheduler().take(number) else { return };
    let nobody_said =
        || Error::new(ErrorKind::Storage, "the thread that was to write it failed, or could not be started");
    let mut outcomes = outcomes.unwrap_or_default().into_iter();
    for file in files {
        match outcomes.next().unwrap_or_else(|| Err(nobody_said())) {
            Err(error) if are_scarce(&error) && wait_for_descriptors(copy, error.clone()).is_ok() => {
                let task = copy.large_again(file);
                copy.scheduler().tasks.push(task);
            }
            outcome => copy.placed(observer, file, outcome),
        }
    }
}

fn replied<C: TreeCopy>(
    copy: &mut C,
    remote: &mut dyn Remote,
    observer: &mut dyn Observer,
    codes: &[u64],
    tasks: Vec<C::Task>,
    reply: Result<Bytes, Error>,
) -> Run<()> {
    let lost = match reply {
        Ok(payload) => match Reply::decode(&payload, codes) {
            Ok(reply) if reply.outcomes.iter().any(refuses_all) => {
                return Err(StopReason::Hopeless(Error::new(ErrorKind::ReadOnly, "the export is read-only")));
            }
            Ok(reply) => {
                let safety = reply.safety;
                let told: Vec<_> = reply
                    .outcomes
                    .into_iter()
                    .map(|outcome| CallResult { outcome: in_words(outcome), safety })
                    .collect();
                let (tasks, told) = without_scarce(copy, tasks, told)?;
                copy.answered(remote, observer, &payload, tasks, told);
                return Ok(());
            }
            Err(error) => Error::new(ErrorKind::Protocol, format!("the server's reply makes no sense: {error}")),
        },
        Err(error) if passes_for_tree(&error) => error,
        Err(error) => {
            let told =
                tasks.iter().map(|_| CallResult { outcome: Err(error.clone()), safety: Safety::Written }).collect();
            copy.answered(remote, observer, &Bytes::new(), tasks, told);
            return Ok(());
        }
    };
    let again: Vec<_> = tasks.into_iter().rev().map(|task| copy.again(task)).collect();
    copy.scheduler().tasks.extend(again);
    Err(StopReason::Lost(lost))
}

/// Takes the calls out of a reply that failed because the server had too many open files, and
/// repeats them.
fn without_scarce<'a, C: TreeCopy>(
    copy: &mut C,
    tasks: Vec<C::Task>,
    told: Vec<CallResult<'a>>,
) -> Run<(Vec<C::Task>, Vec<CallResult<'a>>)> {
    let Some(why) = told.iter().filter_map(|told| told.outcome.as_ref().err()).find(|error| are_scarce(error)) else {
        return Ok((tasks, told));
    };
    let why = why.clone();
    let (mut again, mut kept, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    for (task, told) in tasks.into_iter().zip(told) {
        // Later calls of the batch may have failed because of it.
        if told.outcome.is_err() && copy.stands_alone(&task) {
            again.push(copy.again(task));
        } else {
            kept.push(task);
            answers.push(told);
        }
    }
    copy.scheduler().tasks.extend(again.into_iter().rev());
    wait_for_descriptors(copy, why)?;
    Ok((kept, answers))
}

/// Too many files are open: what was refused is tried again when something else has ended. If
/// nothing else is in flight others hold the descriptors; the copy waits for them, but not forever,
/// since the limit may be too low for anything.
pub(super) fn wait_for_descriptors<C: TreeCopy>(copy: &mut C, error: Error) -> Run<()> {
    let summary = copy.state().summary;
    let scheduler = copy.scheduler();
    if scheduler.in_flight.descriptors_are_scarce() || scheduler.descriptors.refused(scheduler.now, summary) {
        return Ok(());
    }
    Err(StopReason::Hopeless(error))
}

/// Whether the error is that of a transfer that met another one of the same file.
fn is_contended(error: &Error) -> bool {
    error.kind == ErrorKind::Superseded || is_busy(error)
}

/// Whether the error is about the export itself, and not about a file system of a part of it: it
/// holds for every name.
fn is_for_all(kind: ErrorKind, errno: u16) -> bool {
    kind == ErrorKind::ReadOnly && errno == 0
}

fn refuses_all(outcome: &CallOutcome<'_>) -> bool {
    outcome.as_ref().is_err_and(|failure| is_for_all(failure.kind, failure.errno))
}

/// A result with an error text: it has none on the wire.
fn in_words(outcome: CallOutcome<'_>) -> Result<Answer<'_>, Error> {
    outcome.map_err(|Failure { kind, errno }| Error::new(kind, in_full(kind).to_owned()).with_errno(errno).reported())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_use_is_no_lost_session() {
        let text_file_busy = 26;
        for (errno, waits) in [(0, true), (text_file_busy, false)] {
            let error = Error::new(ErrorKind::Busy, "busy").with_errno(errno);
            assert_eq!((is_contended(&error), passes_for_tree(&error)), (waits, waits));
        }
    }
}
