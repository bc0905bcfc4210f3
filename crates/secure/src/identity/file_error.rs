//! Why a key file could not be used, in texts that state the remedy.
//!
//! The reader of the file adds its name. No variant carries a part of a private key.

/// Why a key file could not be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The format is unknown.
    #[error("it holds no key")]
    NoKey,
    /// It starts as a key but is malformed: truncated, altered, or its halves do not belong
    /// together.
    #[error("the key in it is damaged; fetch it again, or make a new one with 'xdfs key create'")]
    Damaged,
    /// A key of another kind.
    #[error(
        "its key is {0}, and xdfs takes ssh-ed25519 alone\nhelp: make one with 'xdfs key create' or 'ssh-keygen -t ed25519'"
    )]
    Kind(String),
    /// A public key where a private one is required.
    #[error("it holds a public key, and the private one is needed: the file beside it, without .pub")]
    Public,
    /// A private key where a public one is required.
    #[error(
        "it holds a private key, which never leaves its owner; the public one is needed: the file that ends in .pub"
    )]
    Private,
    /// Not one line with one key.
    #[error("it holds more or less than one public key")]
    NotOnePublic,
    /// A key in the other format.
    #[error("its key is in PKCS#8 form; turn it into a key file with 'xdfs key import FILE'")]
    Pkcs8,
    /// A PKCS#8 key behind a passphrase.
    #[error("its key has a passphrase\nhelp: remove it first with 'openssl pkey -in FILE -out NEW'")]
    EncryptedPkcs8,
    /// Not the passphrase of this key.
    #[error("the passphrase is wrong")]
    Passphrase,
    /// A key that its line limits.
    #[error(
        "line {0} puts options in front of its key; xdfs does not know them: remove them, or use a token with a scope"
    )]
    Options(usize),
    /// A line that is no key.
    #[error("line {0} is no key")]
    Line(usize),
    /// Not the text of a token.
    #[error("this is no token: one starts with 'xdfs-token-' and has 43 more letters, digits, '-' or '_'")]
    Token,
}
