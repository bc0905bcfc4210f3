//! Operations that have not started yet: the host delays them because their user has used too much.
//! No other user waits, and no thread does.
//!
//! As many wait as a session may have operations; they hold only what their requests hold anyway.
//! An operation that is cancelled meanwhile never starts: it is not authorised and not logged, or
//! cancelling would be a way past the pace.

use super::{CallLane, EndState, Host, Pump};
use std::collections::VecDeque;
use std::sync::Arc;
use xdfs_io::dispatch::{Dispatch, Pace, Side};
use xdfs_proto::base::{ChannelId, Instant, OperationId};
use xdfs_proto::session::CallService;
use xdfs_proto::wire::control::Grant;
use xdfs_proto::wire::request::Request;
use xdfs_proto::wire::{Event, Head};

/// An operation that can start.
pub(super) enum QueuedStart {
    Open(OperationId, Request),
    Stage(OperationId, Option<Request>, Option<Grant>),
    Calls(CallLane, OperationId),
}

/// Operations whose start is delayed because their user spent more than their share.
#[derive(Default)]
pub(super) struct StartQueue {
    waiting: VecDeque<QueuedStart>,
    until: Instant,
}

impl StartQueue {
    /// The time of the next check; none while nothing waits.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.until)
    }

    /// The operation has its outcome: it is not started any more. Calls have none before they
    /// start.
    pub(super) fn forget(&mut self, operation: OperationId) {
        self.waiting.retain(|start| match start {
            QueuedStart::Open(waiting, _) | QueuedStart::Stage(waiting, ..) => *waiting != operation,
            QueuedStart::Calls(..) => true,
        });
    }
}

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    /// Starts an operation as soon as the host permits, after those that already wait.
    pub(super) fn begin(&mut self, start: QueuedStart) {
        if self.starts.waiting.is_empty() {
            let pause = self.host.pause();
            if pause.is_zero() {
                return self.start(start);
            }
            self.starts.until = self.dispatch.now().after(pause);
        }
        self.starts.waiting.push_back(start);
    }

    /// Starts the operations that have waited long enough; all of them if the session is over,
    /// since each must complete.
    pub(super) fn begin_waiting(&mut self, now: Instant) {
        let over = matches!(self.end.state, EndState::Over(_));
        if !over && self.starts.deadline().is_none_or(|until| now < until) {
            return;
        }
        let pause = self.host.pause();
        if !over && !pause.is_zero() {
            self.starts.until = now.after(pause);
            return;
        }
        for start in std::mem::take(&mut self.starts.waiting) {
            self.start(start);
        }
    }

    /// Sets the limit of bandwidth that holds for the payload of a record.
    pub(super) fn limit(&mut self, channel: ChannelId, side: Side, head: &Head) {
        // It was closed in this turn.
        let Some(io) = self.channels.by_id.get(&channel) else { return };
        let calls = Event::from_code(head.event).and_then(CallService::of).is_some();
        let now = self.dispatch.now();
        let pacer = self.host.pace(head.operation).filter(|pacer| !calls || !pacer.overtakes(head.length, now));
        self.dispatch.pace(io.socket, side, pacer.map(|pacer| pacer as Arc<dyn Pace>));
    }

    fn start(&mut self, start: QueuedStart) {
        match start {
            QueuedStart::Open(operation, request) if request.sum => self.on_open_sum(operation, &request),
            QueuedStart::Open(operation, request) => self.on_open(operation, &request),
            QueuedStart::Stage(operation, request, grant) => self.on_stage(operation, request.as_ref(), grant.as_ref()),
            QueuedStart::Calls(lane, operation) => self.start_calls(lane, operation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_its_outcome_waits_no_longer() {
        let mut starts = StartQueue::default();
        for number in 0..100 {
            let operation = OperationId(number);
            starts.waiting.push_back(QueuedStart::Open(operation, Request::default()));
            starts.waiting.push_back(QueuedStart::Calls(CallLane::Alone(operation), operation));
            starts.forget(operation);
        }
        starts.waiting.push_back(QueuedStart::Stage(OperationId(7), None, None));
        starts.forget(OperationId(8));
        assert_eq!(starts.waiting.len(), 101);
        starts.forget(OperationId(7));
        assert!(starts.waiting.iter().all(|start| matches!(start, QueuedStart::Calls(..))));
        starts.waiting.clear();
        assert_eq!(starts.deadline(), None);
    }
}
