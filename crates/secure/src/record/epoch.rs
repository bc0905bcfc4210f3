//! One direction's key, nonce sequence and limits: what sealing and opening share.
//!
//! It must not decide when a nonce is spent; sealer and opener do, each by its own rule.

use aws_lc_rs::aead::{AES_256_GCM, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use xdfs_proto::base::Suite;

use super::{HEAD_BYTES, Limits};
use crate::Error;
use crate::keys::{DirectionKeys, IV_BYTES};

pub(super) struct Epoch {
    /// Source of the next epoch's keys, and of the iv.
    keys: DirectionKeys,
    /// The key, expanded for use.
    pub(super) cipher: LessSafeKey,
    limits: Limits,
    /// Counts from 0 at the start of the channel; two bytes, as in the head.
    pub(super) number: u16,
    /// Sequence number of the next record, which is also how many there were in this epoch.
    pub(super) sequence: u64,
    /// What the cipher has worked on in this epoch.
    bytes: u64,
}

impl Epoch {
    pub(super) fn first(keys: DirectionKeys, limits: Limits) -> Result<Self, Error> {
        Ok(Self { cipher: cipher(&keys)?, keys, limits, number: 0, sequence: 0, bytes: 0 })
    }

    /// Moves on, unless this is the last epoch that a head can name; the old keys are wiped where they are replaced.
    pub(super) fn advance(&mut self) -> Result<(), Error> {
        let number = self.number.checked_add(1).ok_or(Error::EpochFull)?;
        let keys = self.keys.next()?;
        *self = Self { cipher: cipher(&keys)?, keys, limits: self.limits, number, sequence: 0, bytes: 0 };
        Ok(())
    }

    /// Whether `records` more records of `bytes` bytes together still fit.
    pub(super) fn fits(&self, records: u64, bytes: u64) -> bool {
        let within = |used: u64, more: u64, limit: u64| used.checked_add(more).is_some_and(|sum| sum <= limit);
        within(self.sequence, records, self.limits.records) && within(self.bytes, bytes, self.limits.bytes)
    }

    /// The nonce of the next record.
    pub(super) fn nonce(&self) -> Nonce {
        let mut nonce = *self.keys.iv();
        for (byte, count) in nonce[IV_BYTES - 8..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= count;
        }
        Nonce::assume_unique_for_key(nonce)
    }

    /// The next record's nonce was used on `bytes` bytes.
    pub(super) fn spend(&mut self, bytes: u64) {
        // Neither sum can overflow: `fits` was asked before.
        self.sequence += 1;
        self.bytes += bytes;
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> &DirectionKeys {
        &self.keys
    }
}

/// `headed` as head and payload.
pub(super) fn split(headed: &mut [u8]) -> Result<(&[u8; HEAD_BYTES], &mut [u8]), Error> {
    let (head, payload) = headed.split_first_chunk_mut().ok_or(Error::NoHead)?;
    Ok((head, payload))
}

fn cipher(keys: &DirectionKeys) -> Result<LessSafeKey, Error> {
    let algorithm = match keys.suite() {
        Suite::Aes256Gcm => &AES_256_GCM,
        Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
    };
    let key = UnboundKey::new(algorithm, keys.key()).map_err(|_| Error::Library)?;
    Ok(LessSafeKey::new(key))
}
