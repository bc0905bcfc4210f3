//! How far the end of a session has come.

/// What ends, and what has ended. Each phase contains those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
enum ClosePhase {
    /// Operations may be opened.
    #[default]
    Open,
    /// No new operation is accepted.
    Closing,
    /// EOFT is sent once the present operations are over.
    Ending,
    /// The peer's EOFT arrived on some channel: it requests nothing more.
    PeerEnded,
}

/// The end of a session: a phase that only advances, and whether the session is over. It may be
/// over at any phase, by a fault or a loss.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Closure {
    phase: ClosePhase,
    over: bool,
}

impl Closure {
    /// No new operation is accepted from now on.
    pub(super) fn close(&mut self) {
        self.phase = self.phase.max(ClosePhase::Closing);
    }

    /// EOFT is to be sent once the present operations are over.
    pub(super) fn end(&mut self) {
        self.phase = self.phase.max(ClosePhase::Ending);
    }

    /// The peer's EOFT has arrived.
    pub(super) fn on_peer_end(&mut self) {
        self.phase = ClosePhase::PeerEnded;
    }

    /// The session is over. Returns false if it already was.
    #[must_use]
    pub(super) fn finish(&mut self) -> bool {
        !core::mem::replace(&mut self.over, true)
    }

    /// Whether new operations are refused.
    pub(super) fn is_closing(self) -> bool {
        self.phase >= ClosePhase::Closing
    }

    /// Whether EOFT is sent once the present operations are over.
    pub(super) fn is_ending(self) -> bool {
        self.phase >= ClosePhase::Ending
    }

    /// Whether the peer requests nothing more.
    pub(super) fn has_peer_ended(self) -> bool {
        self.phase >= ClosePhase::PeerEnded
    }

    /// Whether no channel is left.
    pub(super) const fn is_over(self) -> bool {
        self.over
    }
}
