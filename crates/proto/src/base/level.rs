//! The protection of a record's payload. The head is authenticated at every level.

/// Protection level of a record, weakest first, so that floors compare with `<`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Level {
    /// Payload in clear and unauthenticated; only the head carries a tag.
    #[default]
    Clear = 0,
    /// Payload in clear, head and payload under one tag (GMAC).
    Integrity = 1,
    /// Payload encrypted and authenticated (AES-256-GCM).
    Private = 2,
}

impl Level {
    /// The level of a wire code.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Clear),
            1 => Some(Self::Integrity),
            2 => Some(Self::Private),
            _ => None,
        }
    }

    /// The name that the command line and the logs use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Integrity => "integrity",
            Self::Private => "private",
        }
    }
}
