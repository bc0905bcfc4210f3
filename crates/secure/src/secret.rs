//! Secret bytes that live in one place and are wiped from it, and the two halves of HKDF that fill
//! them.
//!
//! It must not return a copy: callers borrow the bytes for the duration of one call.

use aws_lc_rs::{hkdf, hmac};
use zeroize::Zeroizing;

use crate::Error;

/// `N` secret bytes. Boxed, so that moving the value moves a pointer and leaves no copy of the
/// bytes on the stack.
pub(crate) struct Secret<const N: usize>(Box<Zeroizing<[u8; N]>>);

#[cfg(debug_assertions)]
impl<const N: usize> Drop for Secret<N> {
    fn drop(&mut self) {
        crate::reveal::keep(self.bytes());
    }
}

impl<const N: usize> Secret<N> {
    /// Bytes that `fill` is about to write.
    pub(crate) fn zeroed() -> Self {
        Self(Box::new(Zeroizing::new([0; N])))
    }

    /// A copy of `bytes`, whose original is the caller's to wipe.
    pub(crate) fn copied(bytes: &[u8; N]) -> Self {
        let mut secret = Self::zeroed();
        secret.bytes_mut().copy_from_slice(bytes);
        secret
    }

    /// The bytes, for one call.
    pub(crate) fn bytes(&self) -> &[u8; N] {
        &self.0
    }

    /// The bytes, to be written once.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8; N] {
        &mut self.0
    }
}

/// HKDF-Extract of RFC 5869 with SHA-256, which is HMAC keyed with the salt.
///
/// The library's own form keeps the salt in memory that it does not wipe, and a grant is a salt
/// here.
pub(crate) fn extract(salt: &[u8], input: &[u8]) -> Result<Secret<32>, Error> {
    let mut prk = Secret::zeroed();
    let key = hmac::Key::new(hmac::HMAC_SHA256, salt);
    hmac::sign_to_buffer(&key, input, prk.bytes_mut()).map_err(|_| Error::Library)?;
    Ok(prk)
}

/// HKDF-Expand of RFC 5869 with SHA-256. `info` is the concatenation of its parts without
/// separators, so it must not be possible to read one caller's parts as another's: each is a label,
/// then a context of fixed size or none.
pub(crate) fn expand<const N: usize>(prk: &Secret<32>, info: &[&[u8]]) -> Result<Secret<N>, Error> {
    let mut output = Secret::zeroed();
    let prk = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, prk.bytes());
    let okm = prk.expand(info, Length(N)).map_err(|_| Error::Library)?;
    okm.fill(output.bytes_mut()).map_err(|_| Error::Library)?;
    Ok(output)
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}
