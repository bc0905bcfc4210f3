//! The client's side of a lease on one open file: whether it may use what it keeps, and when it must
//! ask, renew and give back.

use super::{LeaseAnswer, LeaseKind};
use crate::base::{Duration, Instant};

/// No lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Idle {
    /// A renewal has no answer yet of the lease that was there before.
    waits: bool,
}

/// A lease was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Asked {
    /// When the call was sent.
    sent: Instant,
    /// A recall has arrived, perhaps of the lease whose grant is still on its way.
    recalled: bool,
    /// It is asked for again after a loss; what is kept may be used until then.
    before: Option<Lost>,
}

/// The client has a lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Held {
    kind: LeaseKind,
    until: Instant,
    /// When the renewal was sent that has no answer yet.
    renewal: Option<Instant>,
}

/// Somebody waits for its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Recalled {
    kind: LeaseKind,
    until: Instant,
    /// A renewal that crossed the recall has no answer yet.
    waits: bool,
}

/// Its session is lost. The server keeps the lease at least as long as the client uses it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lost {
    kind: LeaseKind,
    until: Instant,
}

/// Where a lease is, as the client knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HoldingState {
    /// There is none.
    Idle(Idle),
    /// It was asked for, and there is no answer yet.
    Asked(Asked),
    /// There is one, until its time ends.
    Held(Held),
    /// Somebody waits for its end.
    Recalled(Recalled),
    /// The session or the server was lost with it.
    Lost(Lost),
}

/// The call does not belong here: there is a lease already, or none, or a call on its way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OutOfTurn;

/// The lease of one open file. One call about it at a time has no answer yet: the answer to another
/// one would be taken for one that the server received later.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Holding {
    state: HoldingState,
}

impl Idle {
    /// Nothing is awaited.
    const FREE: HoldingState = HoldingState::Idle(Self { waits: false });
}

impl Asked {
    fn on_answer(self, answer: LeaseAnswer) -> HoldingState {
        let recalled =
            |kind, time| HoldingState::Recalled(Recalled { kind, until: self.sent.after(time), waits: false });
        match answer {
            LeaseAnswer::Granted { kind, time } if self.recalled => recalled(kind, time),
            LeaseAnswer::Granted { kind, time } => {
                HoldingState::Held(Held { kind, until: self.sent.after(time), renewal: None })
            }
            LeaseAnswer::Recalled { kind, left } => recalled(kind, left),
            LeaseAnswer::Refused => Idle::FREE,
        }
    }
}

impl Held {
    fn on_answer(self, answer: LeaseAnswer) -> Result<HoldingState, OutOfTurn> {
        let sent = self.renewal.ok_or(OutOfTurn)?;
        let answered = Self { renewal: None, ..self };
        Ok(match answer {
            LeaseAnswer::Granted { kind, time } => {
                HoldingState::Held(Self { kind, until: self.until.max(sent.after(time)), ..answered })
            }
            LeaseAnswer::Recalled { .. } => answered.recalled(),
            LeaseAnswer::Refused => Idle::FREE,
        })
    }

    const fn recalled(self) -> HoldingState {
        HoldingState::Recalled(Recalled { kind: self.kind, until: self.until, waits: self.renewal.is_some() })
    }
}

impl Default for Holding {
    fn default() -> Self {
        Self::new()
    }
}

impl Holding {
    /// No lease.
    pub const fn new() -> Self {
        Self { state: Idle::FREE }
    }

    /// Where it is.
    pub const fn state(&self) -> HoldingState {
        self.state
    }

    /// A lease is asked for, now.
    pub fn ask(&mut self, now: Instant) -> Result<(), OutOfTurn> {
        let HoldingState::Idle(Idle { waits: false }) = self.state else { return Err(OutOfTurn) };
        self.state = HoldingState::Asked(Asked { sent: now, recalled: false, before: None });
        Ok(())
    }

    /// A renewal is sent, now.
    pub fn renew(&mut self, now: Instant) -> Result<(), OutOfTurn> {
        let HoldingState::Held(Held { renewal: renewal @ None, .. }) = &mut self.state else { return Err(OutOfTurn) };
        *renewal = Some(now);
        Ok(())
    }

    /// The file was opened again after a loss, and its lease is asked for, now: returns which. An error
    /// if there is none any more.
    pub fn reclaim(&mut self, now: Instant) -> Result<LeaseKind, OutOfTurn> {
        self.expire(now);
        let HoldingState::Lost(lost) = self.state else { return Err(OutOfTurn) };
        self.state = HoldingState::Asked(Asked { sent: now, recalled: false, before: Some(lost) });
        Ok(lost.kind)
    }

    /// The lease is given back, now: what is kept is used no longer, and nothing is unsent.
    pub fn give_back(&mut self) -> Result<(), OutOfTurn> {
        let (HoldingState::Held(_) | HoldingState::Recalled(_)) = self.state else { return Err(OutOfTurn) };
        self.state = HoldingState::Idle(Idle { waits: self.waits() });
        Ok(())
    }

    /// The answer to [`Self::ask`], [`Self::renew`] or [`Self::reclaim`].
    pub fn on_answer(&mut self, answer: LeaseAnswer, now: Instant) -> Result<(), OutOfTurn> {
        self.expire(now);
        self.state = match self.state {
            HoldingState::Asked(asked) => asked.on_answer(answer),
            HoldingState::Held(held) => held.on_answer(answer)?,
            HoldingState::Recalled(Recalled { waits: true, .. }) if answer == LeaseAnswer::Refused => Idle::FREE,
            // To a renewal that crossed the recall: what the server added is not needed.
            HoldingState::Recalled(recalled @ Recalled { waits: true, .. }) => {
                HoldingState::Recalled(Recalled { waits: false, ..recalled })
            }
            // Its time was over before the answer arrived: the server may have a lease of this client
            // until then, which is asked for as any other.
            HoldingState::Idle(Idle { waits: true }) => Idle::FREE,
            HoldingState::Idle(_) | HoldingState::Recalled(_) | HoldingState::Lost(_) => return Err(OutOfTurn),
        };
        self.expire(now);
        Ok(())
    }

    /// The server recalls the lease; one that is gone is not meant any more.
    pub fn on_recall(&mut self) {
        match &mut self.state {
            HoldingState::Asked(asked) => asked.recalled = true,
            HoldingState::Held(held) => self.state = held.recalled(),
            HoldingState::Idle(_) | HoldingState::Recalled(_) | HoldingState::Lost(_) => {}
        }
    }

    /// The session is lost.
    pub fn on_lost(&mut self) {
        self.state = self.present().map_or(Idle::FREE, HoldingState::Lost);
    }

    /// What may be used, and until when, if nothing else happens: what is left of it when its session is lost.
    const fn present(&self) -> Option<Lost> {
        match self.state {
            HoldingState::Held(Held { kind, until, .. }) | HoldingState::Recalled(Recalled { kind, until, .. }) => {
                Some(Lost { kind, until })
            }
            HoldingState::Asked(Asked { before: Some(lost), .. }) | HoldingState::Lost(lost) => Some(lost),
            HoldingState::Asked(_) | HoldingState::Idle(_) => None,
        }
    }

    /// Until when what is kept may be used, if nothing else happens.
    pub fn until(&self) -> Option<Instant> {
        self.present().map(|present| present.until)
    }

    /// What it permits until then.
    pub fn kind(&self) -> Option<LeaseKind> {
        self.present().map(|present| present.kind)
    }

    /// Whether a call about it has no answer yet.
    pub const fn waits(&self) -> bool {
        match self.state {
            HoldingState::Asked(_) => true,
            HoldingState::Held(Held { renewal, .. }) => renewal.is_some(),
            HoldingState::Idle(Idle { waits }) | HoldingState::Recalled(Recalled { waits, .. }) => waits,
            HoldingState::Lost(_) => false,
        }
    }

    /// When to renew a lease of this time: with a third of it over. None if there is nothing to renew.
    pub fn renew_at(&self, time: Duration) -> Option<Instant> {
        match self.state {
            HoldingState::Held(Held { until, .. }) if !self.waits() => {
                let left = Instant(0).after(time - time / 3);
                Some(Instant(until.0.saturating_sub(left.0)))
            }
            _ => None,
        }
    }

    /// Whether what is kept of the file is the file.
    pub fn may_use(&self, now: Instant) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// Whether a change may be kept instead of sent.
    pub fn may_keep_changes(&self, now: Instant) -> bool {
        matches!(self.state, HoldingState::Held(Held { kind: LeaseKind::Write, .. })) && self.may_use(now)
    }

    /// Whether changes that were kept may be sent now, under the lease.
    pub fn may_send_changes(&self, now: Instant) -> bool {
        let writes = matches!(
            self.state,
            HoldingState::Held(Held { kind: LeaseKind::Write, .. })
                | HoldingState::Recalled(Recalled { kind: LeaseKind::Write, .. })
        );
        writes && self.may_use(now)
    }

    /// Whether somebody waits for it.
    pub const fn is_recalled(&self) -> bool {
        matches!(self.state, HoldingState::Recalled(_))
    }

    /// Forgets a lease whose time is over.
    pub fn expire(&mut self, now: Instant) {
        match &mut self.state {
            HoldingState::Held(Held { until, .. })
            | HoldingState::Recalled(Recalled { until, .. })
            | HoldingState::Lost(Lost { until, .. })
                if *until <= now =>
            {
                self.state = HoldingState::Idle(Idle { waits: self.waits() });
            }
            // What was kept is gone; the server may still grant a lease.
            HoldingState::Asked(Asked { before, .. }) if before.is_some_and(|lost| lost.until <= now) => *before = None,
            _ => {}
        }
    }
}
