//! Tokens: a key in a portable form. The text is the seed of an Ed25519 key; a server keeps the public half.
//!
//! So a server's file of users logs nobody in, a token proves itself without being sent, and there is one way to check a
//! proof. What a token opens stands with the server, not in its text.

use base64ct::{Base64UrlUnpadded, Encoding};
use zeroize::Zeroizing;

use super::{KeyFileError, KeyPair, SEED_BYTES};

/// How every token starts, so that a person and a scanner for leaked secrets know one.
pub const TOKEN_PREFIX: &str = "xdfs-token-";

/// The text of a token.
pub fn write_token(key: &KeyPair) -> Zeroizing<String> {
    let digits = Zeroizing::new(Base64UrlUnpadded::encode_string(key.seed()));
    let mut text = Zeroizing::new(String::with_capacity(TOKEN_PREFIX.len() + digits.len()));
    text.push_str(TOKEN_PREFIX);
    text.push_str(&digits);
    text
}

/// The key of a token; white space around it is the file's.
pub fn read_token(text: &str) -> Result<KeyPair, KeyFileError> {
    let digits = text.trim().strip_prefix(TOKEN_PREFIX).ok_or(KeyFileError::Token)?;
    let mut seed = Zeroizing::new([0; SEED_BYTES]);
    let decoded = Base64UrlUnpadded::decode(digits, seed.as_mut_slice()).map_err(|_| KeyFileError::Token)?;
    if decoded.len() != SEED_BYTES {
        return Err(KeyFileError::Token);
    }
    KeyPair::from_seed(&seed).map_err(|_| KeyFileError::Token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_as_the_same_key() {
        let key = KeyPair::generate().unwrap();
        let text = write_token(&key);
        assert_eq!(text.len(), TOKEN_PREFIX.len() + 43);
        assert_eq!(read_token(&text).unwrap().public(), key.public());
        assert_eq!(read_token(&format!(" {}\n", *text)).unwrap().public(), key.public());
    }

    #[test]
    fn what_is_no_token_is_refused_whatever_its_length() {
        let text = write_token(&KeyPair::generate().unwrap());
        for wrong in [
            "",
            TOKEN_PREFIX,
            &text[1..],
            &text[..text.len() - 1],
            &format!("{}A", *text),
            &format!("{}=", *text),
            &text.replace("token-", "token+"),
            &"x".repeat(100_000),
        ] {
            assert_eq!(read_token(wrong).err(), Some(KeyFileError::Token), "{:.60}", wrong);
        }
    }
}
