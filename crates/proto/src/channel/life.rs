//! The life cycles of a channel and of an operation as transition tables (WIRE-47, WIRE-67): they
//! can be listed, drawn (`docs/states`) and checked state by event. An event that a table refuses
//! is a typed error and is never ignored.

/// An event that the current state does not allow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Refused {
    /// Name of the machine.
    pub machine: &'static str,
    /// Its state.
    pub state: &'static str,
    /// The event.
    pub event: &'static str,
}

/// One row of a table, for lists and drawings.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Row {
    /// Name of the event.
    pub event: &'static str,
    /// State before.
    pub from: &'static str,
    /// State after.
    pub to: &'static str,
}

macro_rules! transitions {
    (
        $(#[$doc:meta])* $machine:ident { $($(#[$state_doc:meta])* $state:ident),* $(,)? }
        $($(#[$event_doc:meta])* $event:ident: $($from:ident)|+ => $to:ident;)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $machine { $($(#[$state_doc])* $state,)* }

        impl $machine {
            /// Every state, the first one first.
            pub const STATES: &'static [$machine] = &[$(Self::$state,)*];
            /// Every event's name.
            pub const EVENTS: &'static [&'static str] = &[$(stringify!($event),)*];
            /// Every transition.
            pub const TABLE: &'static [Row] = &[
                $($(Row { event: stringify!($event), from: stringify!($from), to: stringify!($to) },)+)*
            ];

            /// The state's name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$state => stringify!($state),)* }
            }

            $($(#[$event_doc])*
            pub fn $event(&mut self) -> Result<(), Refused> {
                match self {
                    $(Self::$from)|+ => {
                        *self = Self::$to;
                        Ok(())
                    }
                    #[allow(unreachable_patterns)]
                    _ => Err(Refused {
                        machine: stringify!($machine),
                        state: self.name(),
                        event: stringify!($event),
                    }),
                }
            })*
        }
    };
}

transitions! {
    /// From the connection to its end.
    Life {
        /// The transport connects.
        Connecting,
        /// Handshake or JOIN under way.
        Proving,
        /// Records flow.
        Up,
        /// Our EOFT was sent, the peer's is awaited.
        Ending,
        /// The peer's EOFT arrived, ours is owed.
        Leaving,
        /// Both EOFT passed: an orderly end.
        Closed,
        /// It broke, stalled or misbehaved; its records are fenced.
        Lost,
    }
    /// The transport is connected.
    on_connected: Connecting => Proving;
    /// Handshake or JOIN succeeded.
    on_proved: Proving => Up;
    /// Our EOFT was handed to the transport.
    on_end_sent: Up => Ending;
    /// The peer's EOFT arrived.
    on_end_received: Up => Leaving;
    /// The second EOFT passed.
    on_end_complete: Ending | Leaving => Closed;
    /// It failed before it was up.
    on_failed: Connecting | Proving => Lost;
    /// It broke, stalled, misbehaved, or the peer says so.
    on_lost: Up | Ending | Leaving => Lost;
}

transitions! {
    /// What one direction of a channel carries (WIRE-37, WIRE-42, WIRE-45).
    Carrying {
        /// No operation: any may start.
        Reusable,
        /// Blocks of an operation.
        Moving,
        /// EOFT passed.
        Ended,
    }
    /// A block of an operation with its own event.
    on_block: Reusable | Moving => Moving;
    /// A block with CONM.
    on_continue: Moving => Moving;
    /// EOFR of the operation that is carried.
    on_end_of_range: Moving => Reusable;
    /// EOFT.
    on_end_of_transfer: Reusable | Moving => Ended;
}

transitions! {
    /// An operation at the side that sends the bytes (FTSM-02, FTSM-03, FTSM-29).
    Sending {
        /// The request is under way (upload).
        Asked,
        /// The source is being opened (download).
        Opening,
        /// Blocks flow.
        Moving,
        /// Every block was sent; the source is looked at again.
        Checking,
        /// FINISH is owed or sent; the receiver decides.
        Finishing,
        /// The outcome is known.
        Settled,
    }
    /// The receiver granted it, or the source is open.
    on_granted: Asked | Opening => Moving;
    /// The last block was handed to a channel.
    on_all_sent: Moving => Checking;
    /// The source is what it was at open.
    on_checked: Checking => Finishing;
    /// AGAIN: some of it did not arrive as it was sent.
    on_again: Finishing => Moving;
    /// Committed or failed.
    on_settled: Asked | Opening | Moving | Checking | Finishing => Settled;
}

transitions! {
    /// An operation at the side that gets the bytes.
    Receiving {
        /// The request is under way (download).
        Asked,
        /// The stage is being prepared.
        Staging,
        /// Blocks flow.
        Moving,
        /// Exact cover and FINISH: the content is compared with what was sent.
        Verifying,
        /// The target gets its name. No way back.
        Committing,
        /// The outcome is known.
        Settled,
    }
    /// The sender granted it (download).
    on_granted: Asked => Staging;
    /// The stage is there.
    on_staged: Staging => Moving;
    /// Exact cover, and FINISH arrived, of a transfer with a hash.
    on_complete: Moving => Verifying;
    /// It differs, and some of it comes again.
    on_again: Verifying => Moving;
    /// Exact cover and FINISH, and no doubt about the content.
    on_covered: Moving | Verifying => Committing;
    /// The target has its name, or nothing was changed.
    on_settled: Asked | Staging | Moving | Verifying | Committing => Settled;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_ends_only_when_both_directions_ended() {
        let mut life = Life::Connecting;
        life.on_connected().unwrap();
        assert!(life.on_end_sent().is_err());
        life.on_proved().unwrap();
        let mut other = life;
        life.on_end_sent().unwrap();
        life.on_end_complete().unwrap();
        other.on_end_received().unwrap();
        other.on_end_complete().unwrap();
        assert_eq!((life, other), (Life::Closed, Life::Closed));
        let refused = life.on_lost().unwrap_err();
        assert_eq!((refused.machine, refused.state, refused.event), ("Life", "Closed", "on_lost"));
    }

    #[test]
    fn an_operation_may_settle_in_every_state_and_once() {
        for life in Sending::STATES {
            assert_eq!(life.clone().on_settled().is_ok(), *life != Sending::Settled, "{life:?}");
        }
        for life in Receiving::STATES {
            assert_eq!(life.clone().on_settled().is_ok(), *life != Receiving::Settled, "{life:?}");
        }
    }

    #[test]
    fn nothing_leads_out_of_a_final_state() {
        let leaves = |table: &[Row], state: &str| table.iter().any(|row| row.from == state);
        assert!(!leaves(Life::TABLE, "Closed") && !leaves(Life::TABLE, "Lost"));
        assert!(!leaves(Carrying::TABLE, "Ended"));
        assert!(!leaves(Sending::TABLE, "Settled") && !leaves(Receiving::TABLE, "Settled"));
    }
}
