//! The last TLS record of a direction: the peer's close_notify, behind which records follow.
//!
//! Checked here and not by the TLS library: a library that has sent its own close_notify answers a wrong record with an alert
//! (a panic where assertions are on), and would hold its whole state for these 24 bytes.

use core::fmt;

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets as Secrets;
use xdfs_proto::base::{Error, ErrorKind};
use zeroize::Zeroizing;

/// Bytes of a close_notify as it stands on the wire: head, alert (2), type of content (1), tag (16). No padding is allowed.
pub const FAREWELL_BYTES: usize = 5 + 2 + 1 + 16;

const HEAD: [u8; 5] = [23, 3, 3, 0, (FAREWELL_BYTES - 5) as u8];

/// Waits for the peer's close_notify.
pub struct Farewell {
    key: LessSafeKey,
    nonce: Zeroizing<[u8; 12]>,
}

impl Farewell {
    pub(super) fn new(sequence: u64, secrets: &Secrets) -> Result<Self, Error> {
        let library = || Error::new(ErrorKind::Resources, "the cryptographic library failed");
        let (algorithm, key, iv) = match secrets {
            Secrets::Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv),
            Secrets::Aes256Gcm { key, iv } => (&aead::AES_256_GCM, key, iv),
            Secrets::Chacha20Poly1305 { key, iv } => (&aead::CHACHA20_POLY1305, key, iv),
            _ => return Err(library()),
        };
        let mut nonce = Zeroizing::new([0; 12]);
        nonce.copy_from_slice(iv.as_ref());
        for (byte, count) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
            *byte ^= count;
        }
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| library())?;
        Ok(Self { key: LessSafeKey::new(key), nonce })
    }

    /// Whether these [`FAREWELL_BYTES`] are the peer's close_notify.
    pub fn check(self, bytes: &[u8]) -> Result<(), Error> {
        let wrong = || Error::new(ErrorKind::Protocol, "the peer did not leave the handshake in order");
        let mut record: [u8; FAREWELL_BYTES] = bytes.try_into().map_err(|_| wrong())?;
        let (head, sealed) = record.split_at_mut(HEAD.len());
        if *head != HEAD {
            return Err(wrong());
        }
        let nonce = Nonce::assume_unique_for_key(*self.nonce);
        let plain = self.key.open_in_place(nonce, Aad::from(&*head), sealed).map_err(|_| wrong())?;
        // Level (any), close_notify, type alert.
        match plain {
            [_, 0, 21] => Ok(()),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Debug for Farewell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Farewell(..)")
    }
}
