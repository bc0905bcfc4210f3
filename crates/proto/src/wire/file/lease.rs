//! The call about a lease, and its result (P-95 to P-98).

use super::super::codec::{Reader, WireError, Writer};
use crate::base::Duration;
use crate::lease::{LeaseAnswer, LeaseKind};

/// What a client wants with its lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LeaseCall {
    /// To have one of this kind.
    Ask(LeaseKind),
    /// To have it for longer.
    Renew,
    /// To have again the one that a handle of a lost session had.
    Reclaim {
        /// Which kind it was.
        kind: LeaseKind,
        /// The handle of the lost session.
        before: u64,
    },
    /// To have it no longer.
    GiveBack,
    /// To have the rest of the batch executed under its write lease, or not at all.
    Under,
}

/// What a lease call answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseTold {
    /// The lease.
    pub answer: LeaseAnswer,
    /// Programs of the server's machine wait for its end, as other clients do.
    pub local: bool,
}

const WRITE: u64 = 1;
const RENEW: u64 = 2;
const RECLAIM: u64 = 4;
const GIVE_BACK: u64 = 8;
const UNDER: u64 = 16;
const FLAGS: u64 = 31;

const HELD: u64 = 1;
const HELD_WRITE: u64 = 2;
const RECALLED: u64 = 4;
const LOCAL: u64 = 8;
const TOLD_FLAGS: u64 = 15;

/// A lease is no longer than a day: its length in nanoseconds, and twice that, fit everywhere.
const TIME_MS_MAX: u64 = 86_400_000;

const fn bit(kind: LeaseKind) -> u64 {
    match kind {
        LeaseKind::Read => 0,
        LeaseKind::Write => WRITE,
    }
}

const fn kind(write: bool) -> LeaseKind {
    if write { LeaseKind::Write } else { LeaseKind::Read }
}

impl LeaseCall {
    pub(super) fn write(self, writer: &mut Writer) {
        match self {
            Self::Ask(kind) => writer.integer(bit(kind)),
            Self::Renew => writer.integer(RENEW),
            Self::Reclaim { kind, before } => writer.integer(RECLAIM | bit(kind)).integer(before),
            Self::GiveBack => writer.integer(GIVE_BACK),
            Self::Under => writer.integer(UNDER),
        };
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let flags = reader.flags(FLAGS, "flags of lease")?;
        Ok(match flags & !WRITE {
            0 => Self::Ask(kind(flags == WRITE)),
            RECLAIM => Self::Reclaim { kind: kind(flags & WRITE != 0), before: reader.integer()? },
            _ => match flags {
                RENEW => Self::Renew,
                GIVE_BACK => Self::GiveBack,
                UNDER => Self::Under,
                _ => return Err(WireError::Invalid("flags of lease")),
            },
        })
    }
}

impl LeaseTold {
    pub(super) fn write(self, writer: &mut Writer) {
        let held = |held: LeaseKind| HELD | if held == LeaseKind::Write { HELD_WRITE } else { 0 };
        let (flags, time) = match self.answer {
            LeaseAnswer::Granted { kind, time } => (held(kind), time),
            LeaseAnswer::Recalled { kind, left } => (held(kind) | RECALLED, left),
            LeaseAnswer::Refused => (0, Duration::ZERO),
        };
        let local = if self.local && flags != 0 { LOCAL } else { 0 };
        // At most a day, and rather less than more.
        writer.integer(flags | local).integer((time.as_millis() as u64).min(TIME_MS_MAX));
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let flags = reader.flags(TOLD_FLAGS, "flags of lease")?;
        let time = Duration::from_millis(reader.integer_up_to(TIME_MS_MAX, "time of a lease")?);
        let kind = kind(flags & HELD_WRITE != 0);
        let answer = match (flags & HELD, flags & RECALLED) {
            (0, _) if flags != 0 || time > Duration::ZERO => return Err(WireError::Invalid("flags of lease")),
            (0, _) => LeaseAnswer::Refused,
            (_, 0) => LeaseAnswer::Granted { kind, time },
            _ => LeaseAnswer::Recalled { kind, left: time },
        };
        Ok(Self { answer, local: flags & LOCAL != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_lease_that_contradict_each_other_are_malformed() {
        for flags in 0..=255 {
            let mut writer = Writer::new();
            writer.integer(flags);
            if flags & RECLAIM != 0 {
                writer.integer(300);
            }
            let bytes = writer.finish();
            let read = LeaseCall::read(&mut Reader::new(&bytes));
            let valid = [0, WRITE, RENEW, RECLAIM, RECLAIM | WRITE, GIVE_BACK, UNDER].contains(&flags);
            assert_eq!(read.is_ok(), valid, "{flags}: {read:?}");
            let mut again = Writer::new();
            if let Ok(call) = read {
                call.write(&mut again);
                assert_eq!(again.finish(), bytes);
            }
        }
    }

    #[test]
    fn an_answer_without_a_lease_says_nothing_about_it() {
        for (flags, time) in (0..32).flat_map(|flags| [(flags, 0), (flags, 5), (flags, TIME_MS_MAX + 1)]) {
            let mut writer = Writer::new();
            writer.integer(flags).integer(time);
            let bytes = writer.finish();
            let read = LeaseTold::read(&mut Reader::new(&bytes));
            let valid = flags <= TOLD_FLAGS && time <= TIME_MS_MAX && (flags & HELD != 0 || (flags, time) == (0, 0));
            assert_eq!(read.is_ok(), valid, "{flags} {time}: {read:?}");
            let mut again = Writer::new();
            if let Ok(told) = read {
                told.write(&mut again);
                assert_eq!(again.finish(), bytes);
            }
        }
    }
}
