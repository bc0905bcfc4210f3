//! The expensive part of a password login, as a value: what to salt and stretch, and the result.
//!
//! A server says in HELLO how its users' salts are made, so that a client can begin beside the
//! round trip in which the challenge comes; what the challenge says counts. It must not run
//! anything by itself: the driver has the threads.

use core::fmt;
use core::num::NonZeroU32;

use super::password::Password;
use crate::identity::password::salted;
use crate::secret::Secret;

/// A password that is to be salted and stretched: a good part of a second of one core's work.
pub struct Stretching {
    /// Which offer it belongs to.
    pub(super) offer: usize,
    pub(super) password: Password,
    pub(super) salt: Vec<u8>,
    pub(super) rounds: NonZeroU32,
}

impl Stretching {
    /// Does the work.
    pub fn run(self) -> Stretched {
        let Self { offer, password, salt, rounds } = self;
        let salted = salted(password.bytes(), &salt, rounds);
        Stretched { offer, salt, rounds, salted }
    }
}

/// What came of a [`Stretching`].
pub struct Stretched {
    offer: usize,
    salt: Vec<u8>,
    rounds: NonZeroU32,
    pub(super) salted: Secret<32>,
}

impl Stretched {
    /// Whether it is the computation that `wanted` requests.
    pub fn fits(&self, wanted: &Stretching) -> bool {
        self.is_of(wanted.offer, &wanted.salt, wanted.rounds)
    }

    pub(super) fn is_of(&self, offer: usize, salt: &[u8], rounds: NonZeroU32) -> bool {
        (self.offer, &self.salt[..], self.rounds) == (offer, salt, rounds)
    }
}

impl fmt::Debug for Stretching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stretching({} rounds)", self.rounds)
    }
}

impl fmt::Debug for Stretched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stretched(..)")
    }
}
