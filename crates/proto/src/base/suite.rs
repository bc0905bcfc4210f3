//! The cipher suites that seal the records of a session.

/// Cipher of records. Both have keys of 32 bytes, nonces of 12 and tags of 16.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Suite {
    /// AES-256-GCM; with nothing to encrypt it is GMAC. For every machine with instructions for
    /// AES.
    #[default]
    Aes256Gcm = 1,
    /// ChaCha20-Poly1305 (RFC 8439), for machines without them.
    ChaCha20Poly1305 = 2,
}

impl Suite {
    /// Every suite, in the order of its code.
    pub const ALL: [Self; 2] = [Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// The suite of a wire code.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Aes256Gcm),
            2 => Some(Self::ChaCha20Poly1305),
            _ => None,
        }
    }

    /// The name that configuration and logs use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "aes-256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
        }
    }
}
