//! The key with which this program authenticates the journals of interrupted transfers: a journal
//! written by another program or person, or under another key, is detected.

use aws_lc_rs::hmac;

/// A key for journals. It never reveals its content.
#[derive(Clone)]
pub struct JournalKey(hmac::Key);

impl JournalKey {
    /// Bytes of a key.
    pub const BYTES: usize = 32;

    /// The key with these bytes.
    pub fn new(bytes: &[u8; Self::BYTES]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// HMAC-SHA256 of the parts, each behind its length.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(b"xdfs journal");
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut tag = [0; 32];
        // HMAC-SHA256 has 32 bytes.
        tag.iter_mut().zip(context.sign().as_ref()).for_each(|(to, from)| *to = *from);
        tag
    }
}

impl std::fmt::Debug for JournalKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JournalKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_follows_from_key_and_parts_and_from_nothing_else() {
        let (one, other) = (JournalKey::new(&[1; 32]), JournalKey::new(&[2; 32]));
        assert_eq!(one.tag(&[b"a", b"b"]), one.tag(&[b"a", b"b"]));
        for different in [one.tag(&[b"ab"]), one.tag(&[b"ab", b""]), other.tag(&[b"a", b"b"])] {
            assert_ne!(one.tag(&[b"a", b"b"]), different);
        }
    }
}
