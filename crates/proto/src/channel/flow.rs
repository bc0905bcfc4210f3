//! One direction of a channel: how many records passed, and which operation its blocks belong to at present.

use super::life::{Carrying, Refused};
use crate::base::OperationId;
use crate::wire::Event;

/// See the module.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Flow {
    /// Records that passed: the sequence number of the next one.
    pub sequence: u64,
    carrying: Carrying,
    present: OperationId,
}

impl Default for Flow {
    fn default() -> Self {
        Self { sequence: 0, carrying: Carrying::Reusable, present: OperationId(0) }
    }
}

impl Flow {
    /// The event for the next block of `operation`, whose own event is `event`: CONM where the direction carries that
    /// operation already.
    pub fn block_event(&mut self, operation: OperationId, event: Event) -> Event {
        let same = self.carrying == Carrying::Moving && self.present == operation;
        // Cannot be refused: blocks are only sent on directions that have not ended.
        let _ = self.carrying.on_block();
        self.present = operation;
        if same { Event::Continue } else { event }
    }

    /// A block arrived with `event`. CONM must name the operation that is carried.
    pub fn on_block(&mut self, event: Event, operation: OperationId) -> Result<(), Refused> {
        if event != Event::Continue {
            self.carrying.on_block()?;
            self.present = operation;
            return Ok(());
        }
        self.carrying.on_continue()?;
        if self.present == operation {
            Ok(())
        } else {
            Err(Refused { machine: "Carrying", state: "Moving (another operation)", event: "on_continue" })
        }
    }

    /// EOFR passed. An operation that is not the present one ends without changing what is carried.
    pub fn on_end_of_range(&mut self, operation: OperationId) {
        if self.present == operation {
            let _ = self.carrying.on_end_of_range();
        }
    }

    /// Whether EOFT passed.
    pub fn has_ended(&self) -> bool {
        self.carrying == Carrying::Ended
    }

    /// EOFT passed.
    pub fn on_end_of_transfer(&mut self) -> Result<(), Refused> {
        self.carrying.on_end_of_transfer()
    }
}
