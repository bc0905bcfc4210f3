//! The password that a user has typed.

use core::fmt;

use zeroize::Zeroizing;

use crate::identity::password::prepared;

/// A password: wiped when it is dropped, never printed.
pub struct Password(Zeroizing<String>);

impl Password {
    /// The password as typed.
    pub fn new(text: Zeroizing<String>) -> Self {
        Self(text)
    }

    /// The same once more, for another session.
    pub fn copy(&self) -> Self {
        Self(self.0.clone())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The same in the form in which it counts; none where that is how it was typed.
    pub(super) fn prepared(&self) -> Option<Self> {
        let form = prepared(self.bytes());
        let text = core::str::from_utf8(&form).ok().filter(|text| **text != *self.0)?;
        Some(Self(Zeroizing::new(text.to_owned())))
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}
