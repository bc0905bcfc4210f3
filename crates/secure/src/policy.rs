//! Who may log in, as plain values: what a login proves, and the interface of the user directory.
//!
//! This module must not store users (the server does, behind [`Directory`]), decide about paths
//! (the server's exports do), or hold a secret that could log a user in. Of a key, and of a token,
//! which is a key in a portable form, the server has the public half; of a password it has a SCRAM
//! verifier.

use core::fmt;

use aws_lc_rs::digest;
use base64ct::{Base64Unpadded, Encoding};
use xdfs_proto::base::RelPath;

/// Bytes of an Ed25519 public key.
pub const PUBLIC_KEY_BYTES: usize = 32;

/// The prefix of the 32 bytes of an Ed25519 key in its SubjectPublicKeyInfo (RFC 8410, section 4).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// An Ed25519 public key: of a user, a token or a host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; PUBLIC_KEY_BYTES]);

impl PublicKey {
    /// The key as SubjectPublicKeyInfo, the form in which TLS and X.509 carry it.
    pub fn spki(&self) -> Vec<u8> {
        [&SPKI_PREFIX[..], &self.0].concat()
    }

    /// The key of a SubjectPublicKeyInfo, if it is an Ed25519 one.
    pub fn from_spki(spki: &[u8]) -> Option<Self> {
        spki.strip_prefix(&SPKI_PREFIX)?.try_into().ok().map(Self)
    }

    /// See [`Fingerprint`].
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_spki(&self.spki())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.fingerprint(), f)
    }
}

/// SHA-256 of a SubjectPublicKeyInfo: the name of a key that people compare and that clients pin,
/// whatever certificate contained the key. Displayed as `SHA256:` and 43 characters of unpadded
/// base64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// The fingerprint of a key in its SubjectPublicKeyInfo.
    pub fn of_spki(spki: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, spki).as_ref());
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHA256:{}", Base64Unpadded::encode_string(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::str::FromStr for Fingerprint {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<Self, NotAFingerprint> {
        let base64 = text.strip_prefix("SHA256:").ok_or(NotAFingerprint)?;
        let bytes = Base64Unpadded::decode_vec(base64).map_err(|_| NotAFingerprint)?;
        bytes.try_into().map(Self).map_err(|_| NotAFingerprint)
    }
}

/// The text is not a fingerprint: `SHA256:` and 43 characters of base64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a fingerprint looks like SHA256: and 43 letters, digits, + or /")]
pub struct NotAFingerprint;

/// The login method.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Method {
    /// With an Ed25519 key that is registered for the user.
    Key,
    /// With SCRAM-SHA-256-PLUS.
    Password,
    /// With a token.
    Token,
    /// Without a login.
    Anonymous,
}

impl Method {
    /// Its name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Password => "password",
            Self::Token => "token",
            Self::Anonymous => "anonymous",
        }
    }
}

/// The limits of a token, within what its user may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scope {
    /// Name of the only export that it can access.
    pub export: String,
    /// The path that it can access there, with everything below it, component by component.
    pub path: RelPath,
    /// Whether it may write.
    pub write: bool,
    /// Expiry, in seconds since 1970.
    pub until: u64,
}

/// The authenticated owner of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Principal {
    /// The user's name; `anonymous@ADDRESS` for an anonymous client, so that anonymous clients do
    /// not share limits.
    pub user: String,
    /// The method of authentication.
    pub method: Method,
    /// The key or token that was used, so that revoking it can end the session.
    pub key: Option<PublicKey>,
    /// The limits of a token.
    pub scope: Option<Scope>,
}

/// Budgets that the tokens of one user have among them, beside the user's own. A token belongs to
/// one of them for good, so that its holder takes nothing from the user, and all tokens of a user
/// together take this much more than the user at most.
pub const TOKEN_BUDGETS: u8 = 4;

/// Against whose bounds it counts what a session does: a user's, or one of those of the user's
/// tokens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Budget<'a> {
    user: &'a str,
    /// None is the user, who logged in as such.
    tokens: Option<u8>,
}

impl Principal {
    /// What a session of this principal counts against.
    pub fn budget(&self) -> Budget<'_> {
        // The key is chosen by whoever makes the token, not by whoever gets it.
        let of_token = || self.key.map_or(0, |key| key.0[0] % TOKEN_BUDGETS);
        Budget { user: &self.user, tokens: (self.method == Method::Token).then(of_token) }
    }

    /// Whose the part files of interrupted uploads are. All tokens of a user have one name, so that
    /// an upload resumes with a newer token; the user has another, whose parts no token removes.
    pub fn part_owner(&self) -> Vec<u8> {
        let tokens = if self.method == Method::Token { "\0tokens" } else { "" };
        [self.user.as_bytes(), tokens.as_bytes()].concat()
    }
}

impl fmt::Display for Budget<'_> {
    /// A name of its own: no name of a user contains a control character.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tokens {
            None => f.write_str(self.user),
            Some(number) => write!(f, "{}\0tokens{number}", self.user),
        }
    }
}

/// Bytes of a new salt.
pub const SALT_BYTES: usize = 16;

/// How a server makes the salts of its users: from 16 random bytes of its own and the user's name.
/// It tells them to every client, as it would tell each user's salt to whoever asks; so a client
/// need not ask before it begins its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Salts(pub [u8; SALT_BYTES]);

impl Salts {
    /// The salt of a new password of `user`.
    pub fn of(&self, user: &str) -> [u8; SALT_BYTES] {
        let mut context = digest::Context::new(&digest::SHA256);
        [&b"xdfs password salt\0"[..], &self.0, user.as_bytes()].iter().for_each(|part| context.update(part));
        let mut salt = [0; SALT_BYTES];
        salt.copy_from_slice(&context.finish().as_ref()[..SALT_BYTES]);
        salt
    }
}

/// The stored form of a password on a server (RFC 5802, section 3): it can verify a proof but
/// cannot make one.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordVerifier {
    /// This user's own, see [`Salts`]: 16 bytes, or what an older version drew.
    pub salt: Vec<u8>,
    /// Rounds of PBKDF2.
    pub iterations: u32,
    /// SHA-256 of the client key.
    pub stored_key: [u8; 32],
    /// The key with which the server proves that it knows the verifier.
    pub server_key: [u8; 32],
}

impl fmt::Debug for PasswordVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordVerifier(..)")
    }
}

/// The stored form of a token on a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenRecord {
    /// Its owner.
    pub user: String,
    /// Its limits.
    pub scope: Scope,
}

/// The user directory. It answers from memory, because the listener calls it and must not block.
pub trait Directory: Send + Sync {
    /// Whether `key` logs in `user` now.
    fn has_key(&self, user: &str, key: &PublicKey) -> bool;
    /// The verifier of a user's password. For a user without one, and for unknown users, the caller
    /// continues with a made-up verifier, so that an unauthenticated peer cannot tell.
    fn password(&self, user: &str) -> Option<PasswordVerifier>;
    /// How salts of new passwords are made here; none where nobody ever had one.
    fn salts(&self) -> Option<Salts> {
        None
    }
    /// The token whose public half is `key`, where it exists, is not revoked and has not run out.
    fn token(&self, key: &PublicKey) -> Option<TokenRecord>;
    /// Whether there is a user of this name who is revoked; for the server's log only.
    fn is_revoked(&self, _user: &str) -> bool {
        false
    }
    /// Whether anonymous clients are accepted.
    fn anonymous(&self) -> bool;
    /// Reads what has changed, so that a login from now on sees every change that was made before.
    /// If something did, whether a session of this principal ends by it.
    fn read_changes(&self) -> Option<SessionEnds> {
        None
    }
}

/// Whether a session that this principal logged in to ends.
pub type SessionEnds = Box<dyn Fn(&Principal) -> bool + Send>;

/// Nobody has an account; visitors come in where it says true.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VisitorsOnly(pub bool);

impl Directory for VisitorsOnly {
    fn has_key(&self, _user: &str, _key: &PublicKey) -> bool {
        false
    }

    fn password(&self, _user: &str) -> Option<PasswordVerifier> {
        None
    }

    fn token(&self, _key: &PublicKey) -> Option<TokenRecord> {
        None
    }

    fn anonymous(&self) -> bool {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_reads_back_and_nothing_else_does() {
        let fingerprint = PublicKey([7; 32]).fingerprint();
        let text = fingerprint.to_string();
        assert_eq!(text.len(), "SHA256:".len() + 43);
        assert_eq!(text.parse(), Ok(fingerprint));
        for wrong in ["", "SHA256:", &text[1..], &text[..text.len() - 1], &format!("{text}="), "MD5:00"] {
            assert_eq!(wrong.parse::<Fingerprint>(), Err(NotAFingerprint), "{wrong}");
        }
    }

    #[test]
    fn a_token_spends_nothing_of_its_user_and_all_of_them_have_a_bound() {
        let principal =
            |method, key| Principal { user: "anna".into(), method, key: Some(PublicKey([key; 32])), scope: None };
        let user = principal(Method::Key, 1);
        let tokens = (0..=255).map(|key| principal(Method::Token, key)).collect::<Vec<_>>();
        let names = tokens.iter().map(|token| token.budget().to_string()).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(names.len(), usize::from(TOKEN_BUDGETS));
        assert!(!names.contains("anna"));
        assert_eq!(user.budget(), principal(Method::Password, 9).budget(), "however the user logs in");
        assert_eq!(user.budget().to_string(), "anna");
        assert_ne!(user.part_owner(), tokens[0].part_owner());
        assert!(tokens.iter().all(|token| token.part_owner() == tokens[0].part_owner()));
    }

    #[test]
    fn a_key_reads_back_from_its_spki_and_from_no_other() {
        let key = PublicKey([9; 32]);
        assert_eq!(PublicKey::from_spki(&key.spki()), Some(key));
        assert_eq!(PublicKey::from_spki(&key.spki()[1..]), None);
        assert_eq!(PublicKey::from_spki(&[key.spki(), vec![0]].concat()), None);
    }

    #[test]
    fn each_user_of_each_server_has_another_salt_and_the_same_each_time() {
        assert_eq!(Salts([1; 16]).of("ada"), Salts([1; 16]).of("ada"));
        assert_ne!(Salts([1; 16]).of("ada"), Salts([1; 16]).of("eve"));
        assert_ne!(Salts([1; 16]).of("ada"), Salts([2; 16]).of("ada"));
    }
}
