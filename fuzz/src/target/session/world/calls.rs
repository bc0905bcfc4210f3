//! Operations as they begin, those of calls among them.

use super::World;
use crate::target::session::step::{Back, Step};
use xdfs_proto::base::{Error, Level, OperationId};
use xdfs_proto::session::{CallService, Role};
use xdfs_proto::wire::{Event, Flags, Head};

impl World {
    /// The application has opened an operation, or could not.
    pub(super) fn opened(&mut self, opened: Result<OperationId, Error>) {
        if let Ok(operation) = opened {
            assert_eq!(self.role, Role::Client);
            assert!(operation.0 > self.opened, "a number is used once");
            self.opened = operation.0;
            self.latest = operation.0.max(self.latest);
        }
    }

    /// The number of the peer's next request.
    pub(super) fn next(&mut self) -> OperationId {
        // With two pipelines the odd numbers are this one's.
        let skipped = if self.session.limits().pipelines == 2 { self.latest % 2 } else { 0 };
        self.latest = self.latest.saturating_add(1 + skipped);
        OperationId(self.latest)
    }

    pub(super) fn calls(&mut self, step: &Step) {
        match step {
            Step::Batch { channel, length } => {
                let operation = self.next();
                self.told(*channel, operation, Flags::REQUEST, *length);
            }
            Step::Reply { channel, operation, length } => {
                let operation = self.operation(*operation);
                self.told(*channel, operation, Flags::NONE, *length);
            }
            Step::Calls { length } => {
                let opened = self.session.open_calls(CallService::File, *length);
                self.opened(opened);
            }
            _ => {}
        }
    }

    fn told(&mut self, channel: Back, operation: OperationId, flags: Flags, length: u32) {
        let Some(channel) = self.channel(channel) else { return };
        let wire = &self.wires[&channel];
        if wire.parked.is_some() {
            return;
        }
        let (level, sequence, epoch, event) = (Level::Integrity, wire.receive, wire.receive_epoch, Event::Path as u8);
        self.arrive(channel, Head { event, level, epoch, operation, sequence, offset: 0, length, flags }, Vec::new());
    }
}
