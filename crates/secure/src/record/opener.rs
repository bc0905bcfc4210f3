//! The receiving half of a channel: checks every record's tag and, at `private`, decrypts its
//! payload.
//!
//! It must not continue after a record that failed to open. It counts the records itself and trusts
//! no number on the wire; so a record that was dropped, repeated, reordered or altered ends the
//! channel, and another one takes over.

use core::fmt;

use aws_lc_rs::aead::Aad;
use xdfs_proto::base::Level;

use super::epoch::{Epoch, split};
use super::{HEAD_BYTES, Limits, Tag};
use crate::Error;
use crate::keys::DirectionKeys;

/// Opens the records of one direction of one channel, in the order in which they arrive.
pub struct Opener {
    epoch: Epoch,
    poisoned: bool,
}

impl Opener {
    /// An opener at sequence 0 of epoch 0. `limits` is the sealer's.
    pub fn new(keys: DirectionKeys, limits: Limits) -> Result<Self, Error> {
        Ok(Self { epoch: Epoch::first(keys, limits)?, poisoned: false })
    }

    /// The sequence number that the head of the next record must carry.
    pub fn sequence(&self) -> u64 {
        self.epoch.sequence
    }

    /// The epoch that the head of the next record must carry.
    pub fn epoch(&self) -> u16 {
        self.epoch.number
    }

    /// Moves to the next epoch: new keys, sequence 0. Called right after the record that announced
    /// it was opened.
    pub fn rekey(&mut self) -> Result<(), Error> {
        if self.poisoned {
            return Err(Error::Poisoned);
        }
        self.poison_on_error(|opener| opener.epoch.advance())
    }

    /// Opens a record of `level`. `headed` is the head and, right behind it, the payload as
    /// received; at `private` the payload is decrypted in place, and all zero where the record did
    /// not open. At `clear` the payload, which need not be there, is not looked at.
    pub fn open(&mut self, level: Level, headed: &mut [u8], tag: &Tag) -> Result<(), Error> {
        self.poison_on_error(|opener| match level {
            Level::Clear => opener.open_parts(headed.get(..HEAD_BYTES).ok_or(Error::NoHead)?, &mut [], tag),
            Level::Integrity if headed.len() < HEAD_BYTES => Err(Error::NoHead),
            Level::Integrity => opener.open_parts(headed, &mut [], tag),
            Level::Private => {
                let (head, payload) = split(headed)?;
                opener.open_parts(head, payload, tag)
            }
        })
    }

    /// Opens a record of level `clear`, whose payload is somewhere else: still in the kernel, or on
    /// its way to a file.
    pub fn open_clear(&mut self, head: &[u8; HEAD_BYTES], tag: &Tag) -> Result<(), Error> {
        self.poison_on_error(|opener| opener.open_parts(head, &mut [], tag))
    }

    fn open_parts(&mut self, authenticated: &[u8], encrypted: &mut [u8], tag: &Tag) -> Result<(), Error> {
        if self.poisoned {
            return Err(Error::Poisoned);
        }
        let bytes = authenticated.len() as u64 + encrypted.len() as u64;
        if !self.epoch.fits(1, bytes) {
            return Err(Error::EpochFull);
        }
        let nonce = self.epoch.nonce();
        let opened =
            self.epoch.cipher.open_in_place_separate_tag(nonce, Aad::from(authenticated), tag, encrypted).is_ok();
        if !opened {
            // The library leaves the buffer unspecified: it must not expose unauthenticated plain
            // text.
            encrypted.fill(0);
            return Err(Error::BadTag);
        }
        self.epoch.spend(bytes);
        Ok(())
    }

    fn poison_on_error(&mut self, step: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        let result = step(self);
        self.poisoned |= result.is_err();
        result
    }

    #[cfg(test)]
    pub(crate) fn at_sequence(mut self, sequence: u64) -> Self {
        self.epoch.sequence = sequence;
        self
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opener(epoch {}, sequence {})", self.epoch(), self.sequence())
    }
}
