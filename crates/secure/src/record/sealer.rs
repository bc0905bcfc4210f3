//! The sending half of a channel: gives every record its tag and, at `private`, encrypts its payload.
//!
//! It must not seal twice under one nonce: a limit is checked before anything is sealed, and a sealer whose cipher
//! failed half-way is of no further use.

use core::fmt;

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};
use aws_lc_rs::error::Unspecified;
use xdfs_proto::base::Level;

use super::epoch::{Epoch, split};
use super::{HEAD_BYTES, Limits, TAG_BYTES, Tag};
use crate::Error;
use crate::keys::DirectionKeys;

/// Seals the records of one direction of one channel, in the order in which they are sent.
pub struct Sealer {
    epoch: Epoch,
    poisoned: bool,
}

impl Sealer {
    /// A sealer at sequence 0 of epoch 0. `limits` is [`Limits::STANDARD`] except in tests.
    pub fn new(keys: DirectionKeys, limits: Limits) -> Result<Self, Error> {
        Ok(Self { epoch: Epoch::first(keys, limits)?, poisoned: false })
    }

    /// The sequence number that belongs into the head of the next record.
    pub fn sequence(&self) -> u64 {
        self.epoch.sequence
    }

    /// The epoch that belongs into the head of the next record.
    pub fn epoch(&self) -> u16 {
        self.epoch.number
    }

    /// Whether the record that announces the next epoch (a head alone) has to be sent *before* one with
    /// `payload_bytes`, because it would find no room after it. Asking with the largest payload in use is always right.
    pub fn rekey_due(&self, payload_bytes: usize) -> bool {
        !self.epoch.fits(2, payload_bytes as u64 + 2 * HEAD_BYTES as u64)
    }

    /// Moves to the next epoch: new keys, sequence 0. Called right after the record that announced it was sealed.
    pub fn rekey(&mut self) -> Result<(), Error> {
        if self.poisoned {
            return Err(Error::Poisoned);
        }
        self.epoch.advance()
    }

    /// The record's tag at `level`; at `private` its payload is encrypted in place. `headed` is the head and, right
    /// behind it, the payload, which need not be there at `clear`.
    pub fn seal(&mut self, level: Level, headed: &mut [u8]) -> Result<Tag, Error> {
        match level {
            Level::Clear => self.seal_clear(headed.first_chunk().ok_or(Error::NoHead)?),
            Level::Integrity => self.seal_integrity(headed),
            Level::Private => self.seal_private(headed),
        }
    }

    /// The tag of a record whose payload is neither looked at nor protected.
    pub fn seal_clear(&mut self, head: &[u8; HEAD_BYTES]) -> Result<Tag, Error> {
        self.seal_parts(head, &mut [])
    }

    /// The tag of a record whose payload stands in clear right behind its head.
    pub fn seal_integrity(&mut self, headed: &[u8]) -> Result<Tag, Error> {
        if headed.len() < HEAD_BYTES {
            return Err(Error::NoHead);
        }
        self.seal_parts(headed, &mut [])
    }

    /// The tag of a record whose payload, right behind its head, is encrypted in place.
    pub fn seal_private(&mut self, headed: &mut [u8]) -> Result<Tag, Error> {
        let (head, payload) = split(headed)?;
        self.seal_parts(head, payload)
    }

    fn seal_parts(&mut self, authenticated: &[u8], encrypted: &mut [u8]) -> Result<Tag, Error> {
        let bytes = authenticated.len() as u64 + encrypted.len() as u64;
        self.seal_once(bytes, |cipher, nonce| {
            let sealed = cipher.seal_in_place_separate_tag(nonce, Aad::from(authenticated), encrypted)?;
            let mut tag = [0; TAG_BYTES];
            tag.copy_from_slice(sealed.as_ref());
            Ok(tag)
        })
    }

    /// Spends the next nonce on a record of `bytes`, head included.
    fn seal_once(
        &mut self,
        bytes: u64,
        seal: impl FnOnce(&LessSafeKey, Nonce) -> Result<Tag, Unspecified>,
    ) -> Result<Tag, Error> {
        if self.poisoned {
            return Err(Error::Poisoned);
        }
        if !self.epoch.fits(1, bytes) {
            return Err(Error::EpochFull);
        }
        let nonce = self.epoch.nonce();
        // Whether a failed call used the nonce is not known, so it never serves again.
        let tag = seal(&self.epoch.cipher, nonce).map_err(|_| {
            self.poisoned = true;
            Error::Library
        })?;
        self.epoch.spend(bytes);
        Ok(tag)
    }

    #[cfg(test)]
    pub(crate) fn at_sequence(mut self, sequence: u64) -> Self {
        self.epoch.sequence = sequence;
        self
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> &DirectionKeys {
        self.epoch.keys()
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer(epoch {}, sequence {})", self.epoch(), self.sequence())
    }
}
