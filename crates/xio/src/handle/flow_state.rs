//! How far the drivers of a handle are, and who has them.

use xdfs_io::stack::Flow;

/// The drivers of a handle, as one element.
#[derive(Default)]
pub(super) enum FlowState {
    /// There are none: the name is still looked up, they could not be started, or they are closed.
    #[default]
    Absent,
    /// They are connecting, or failed to.
    Opening(Box<dyn Flow>),
    /// The opening succeeded.
    Open {
        /// The element.
        flow: Box<dyn Flow>,
        /// Whether written bytes have to be flushed.
        holds_back: bool,
    },
    /// They are open, and with a thread that may wait for a disk: who needs them waits until they are back.
    Lent,
}

impl FlowState {
    /// Drivers that are to connect, if there are any yet.
    pub(super) fn opening(flow: Option<Box<dyn Flow>>) -> Self {
        flow.map_or(Self::Absent, Self::Opening)
    }

    /// The element, where it is here.
    pub(super) fn get(&self) -> Option<&dyn Flow> {
        match self {
            Self::Opening(flow) | Self::Open { flow, .. } => Some(&**flow),
            Self::Absent | Self::Lent => None,
        }
    }

    /// The same, to call it.
    pub(super) fn get_mut(&mut self) -> Option<&mut dyn Flow> {
        match self {
            Self::Opening(flow) | Self::Open { flow, .. } => Some(&mut **flow),
            Self::Absent | Self::Lent => None,
        }
    }

    /// Whether it is with another thread.
    pub(super) fn is_lent(&self) -> bool {
        matches!(self, Self::Lent)
    }

    /// Takes the element of an open handle for a call without the lock; [`FlowState::give_back`] follows.
    pub(super) fn lend(&mut self) -> Option<(Box<dyn Flow>, bool)> {
        match std::mem::replace(self, Self::Lent) {
            Self::Open { flow, holds_back } => Some((flow, holds_back)),
            other => {
                *self = other;
                None
            }
        }
    }

    /// The call is over.
    pub(super) fn give_back(&mut self, flow: Box<dyn Flow>, holds_back: bool) {
        *self = Self::Open { flow, holds_back };
    }

    /// The element has connected.
    pub(super) fn on_open(&mut self) {
        *self = match std::mem::take(self) {
            Self::Opening(flow) => Self::Open { holds_back: flow.holds_back(), flow },
            other => other,
        };
    }
}
