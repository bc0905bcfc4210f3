//! Checksums that other protocols compare: no part of the protocol of xdfs, which hashes with BLAKE3.

use aws_lc_rs::digest::{Context, SHA256};

/// The SHA-256 of bytes that arrive in pieces.
#[derive(Clone)]
pub struct Sha256(Context);

impl Default for Sha256 {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl std::fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sha256")
    }
}

impl Sha256 {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The value in hexadecimal digits.
    pub fn finish(self) -> String {
        self.0.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_that_of_sha256sum_whatever_the_pieces() {
        let mut sum = Sha256::default();
        sum.update(b"hel");
        sum.update(b"lo\n");
        assert_eq!(sum.finish(), "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
    }
}
