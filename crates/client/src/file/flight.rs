//! When a request was on its way whose answer may be lost.

use std::time::{Duration, Instant};

use xdfs_proto::base::{Error, ErrorKind};

/// When a request was on its way whose answer was lost. If a server executed it, then at that time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flight {
    /// It was sent.
    pub sent: Instant,
    /// The last session that it was sent in was lost.
    pub lost: Instant,
}

/// What is known of a request that may be sent several times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Flown(Option<Flight>);

impl Flown {
    /// It is handed to a session.
    pub(super) fn sent(&mut self) {
        let now = Instant::now();
        self.0.get_or_insert(Flight { sent: now, lost: now });
    }

    /// The session that had it is lost.
    pub(super) fn lost(&mut self) {
        self.0.iter_mut().for_each(|flight| flight.lost = Instant::now());
    }

    /// How long ago it was sent first, if it was.
    pub(super) fn age(self) -> Option<Duration> {
        self.0.map(|flight| flight.sent.elapsed())
    }

    /// When it was on its way, if that is all that `error` leaves to tell.
    pub(super) fn unknown(self, error: &Error) -> Option<Flight> {
        self.0.filter(|_| error.kind == ErrorKind::UnknownOutcome)
    }
}
