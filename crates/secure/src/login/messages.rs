//! What SCRAM's messages say (RFC 5802, section 7): exactly the fields that are expected, in their
//! order, within bounds.
//!
//! It must not compute anything with them, so that any bytes can be parsed at no cost; `scram`
//! handles the proofs.

use base64ct::{Base64, Encoding};
use core::num::NonZeroU32;

use crate::identity::password::{ROUNDS_MAX, ROUNDS_MIN};

/// Says that the binding follows; no other form is understood.
pub(super) const HEADER: &str = "p=tls-exporter,,";
/// Longest salt or nonce that is read.
const FIELD_BYTES_MAX: usize = 256;
/// Shortest nonce of a client.
const NONCE_CHARACTERS_MIN: usize = 16;

/// A client's first message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientFirst<'a> {
    /// The user, as it was typed.
    pub user: String,
    /// What the proofs cover: the message without its header.
    pub bare: &'a str,
    /// The client's nonce.
    pub nonce: &'a str,
}

impl<'a> ClientFirst<'a> {
    /// Reads one.
    pub fn read(message: &'a [u8]) -> Option<Self> {
        let bare = core::str::from_utf8(message).ok()?.strip_prefix(HEADER)?;
        let [user, nonce] = fields(bare, ["n=", "r="])?;
        let printable = nonce.len() >= NONCE_CHARACTERS_MIN && nonce.bytes().all(|byte| byte.is_ascii_graphic());
        if !printable || user.is_empty() {
            return None;
        }
        Some(Self { user: plain(user)?, bare, nonce })
    }

    /// The message of a user with this nonce.
    pub fn write(user: &str, nonce: &str) -> String {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        format!("{HEADER}n={user},r={nonce}")
    }
}

/// A name without its escapes: '=' stands in front of one and nowhere else.
fn plain(user: &str) -> Option<String> {
    let mut plain = String::new();
    let mut rest = user;
    while let Some(at) = rest.find('=') {
        plain.push_str(&rest[..at]);
        plain.push(match rest.get(at..at + 3)? {
            "=2C" => ',',
            "=3D" => '=',
            _ => return None,
        });
        rest = &rest[at + 3..];
    }
    plain.push_str(rest);
    Some(plain)
}

/// A server's first message: the challenge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Challenge<'a> {
    /// Both nonces, the client's in front.
    pub nonce: &'a str,
    /// The salt.
    pub salt: Vec<u8>,
    /// Rounds of stretching, within the client's limits.
    pub rounds: NonZeroU32,
}

impl<'a> Challenge<'a> {
    /// Reads the one that answers a client with the nonce `own`.
    pub fn read(message: &'a [u8], own: &str) -> Option<Self> {
        let [nonce, salt, rounds] = fields(core::str::from_utf8(message).ok()?, ["r=", "s=", "i="])?;
        let rounds: NonZeroU32 = rounds.parse().ok()?;
        let agreed = (ROUNDS_MIN..=ROUNDS_MAX).contains(&rounds.get());
        let answers = nonce.starts_with(own) && nonce.len() > own.len();
        let salt = Base64::decode_vec(salt).ok()?;
        (agreed && answers).then_some(Self { nonce, salt, rounds })
    }

    /// The message with these values.
    pub fn write(nonce: &str, salt: &[u8], rounds: u32) -> String {
        format!("r={nonce},s={},i={rounds}", Base64::encode_string(salt))
    }
}

/// A client's final message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientFinal<'a> {
    /// What binds it to the connection, as base64.
    pub bound: &'a str,
    /// Both nonces.
    pub nonce: &'a str,
    /// The proof.
    pub proof: [u8; 32],
    /// What the proof covers of it.
    pub without_proof: &'a str,
}

impl<'a> ClientFinal<'a> {
    /// Reads one.
    pub fn read(message: &'a [u8]) -> Option<Self> {
        let text = core::str::from_utf8(message).ok()?;
        let [bound, nonce, proof] = fields(text, ["c=", "r=", "p="])?;
        let (without_proof, _) = text.rsplit_once(",p=")?;
        let proof = Base64::decode_vec(proof).ok()?.try_into().ok()?;
        Some(Self { bound, nonce, proof, without_proof })
    }
}

/// The proof in a server's final message.
pub fn server_final(message: &[u8]) -> Option<Vec<u8>> {
    let text = core::str::from_utf8(message).ok()?.strip_prefix("v=")?;
    Base64::decode_vec(text).ok()
}

/// The fields of a message: exactly these, in this order.
fn fields<'a, const N: usize>(text: &'a str, names: [&str; N]) -> Option<[&'a str; N]> {
    let mut found = [""; N];
    let mut parts = text.split(',');
    for (place, name) in found.iter_mut().zip(names) {
        *place = parts.next()?.strip_prefix(name).filter(|value| value.len() <= FIELD_BYTES_MAX)?;
    }
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_and_equal_signs_come_back() {
        for user in ["ada", "a,b=c", "=2C", "ü=,"] {
            let message = ClientFirst::write(user, "0123456789abcdef");
            assert_eq!(ClientFirst::read(message.as_bytes()).unwrap().user, user);
        }
        for wrong in [
            "n,,n=ada,r=0123456789abcdef",
            "y,,n=ada,r=0123456789abcdef",
            "p=tls-unique,,n=ada,r=0123456789abcdef",
            "p=tls-exporter,a=bob,n=ada,r=0123456789abcdef",
            "p=tls-exporter,,m=x,n=ada,r=0123456789abcdef",
            "p=tls-exporter,,n=,r=0123456789abcdef",
            "p=tls-exporter,,n=a=b,r=0123456789abcdef",
            "p=tls-exporter,,n=a=2,r=0123456789abcdef",
            "p=tls-exporter,,n=ada,r=short",
            "p=tls-exporter,,n=ada,r=0123456789abcdef,x=y",
        ] {
            assert!(ClientFirst::read(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_challenge_with_too_few_or_too_many_rounds_or_a_strange_nonce_is_none() {
        let read = |text: &str| Challenge::read(text.as_bytes(), "nonce").is_some();
        for (rounds, good) in [("1", false), ("99999", false), ("100000", true), ("5000001", false), ("0", false)] {
            assert_eq!(read(&format!("r=noncemore,s=AAAA,i={rounds}")), good, "{rounds}");
        }
        // A nonce that is not ours, or to which nothing was added.
        for nonce in ["nonce", "other", "noncé"] {
            assert!(!read(&format!("r={nonce},s=AAAA,i=100000")), "{nonce}");
        }
    }
}
