//! What the two ends of `ssh HOST xdfs serve --stdio` say before the protocol begins: one line of
//! JSON each. Both travel inside ssh, which has authenticated either side; they carry public keys
//! only.

use std::io::{self, Read};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use xdfs_secure::policy::PublicKey;

/// How the server's line begins: what stands before it comes from the start-up files of a shell.
pub(crate) const MARK: &[u8] = b"xdfs-stdio ";

/// The version of these lines.
pub(crate) const VERSION: u32 = 1;

/// Longest line of either side, in bytes.
const LINE_BYTES_MAX: usize = 4096;

/// Bytes of a login shell's output that are skipped.
const NOISE_BYTES_MAX: usize = 64 * 1024;

/// What the client says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// The public half of the key that the client logs in with, hexadecimal.
    pub(crate) key: String,
    /// More channels will be joined, if the server can listen for them.
    pub(crate) channels: bool,
}

/// What the server says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Greeting {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// The key that the server shows, as a fingerprint.
    pub(crate) host_key: String,
    /// The user to log in as.
    pub(crate) user: String,
    /// Where further channels connect to.
    pub(crate) address: Option<SocketAddr>,
}

impl Request {
    /// The key.
    pub(crate) fn public_key(&self) -> Option<PublicKey> {
        let text = self.key.as_bytes();
        let mut key = [0; 32];
        if text.len() != 2 * key.len() || !text.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        for (byte, digits) in key.iter_mut().zip(text.chunks(2)) {
            *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(PublicKey(key))
    }
}

/// Reads one line without what follows it, which belongs to the protocol.
pub(crate) fn read_line(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < LINE_BYTES_MAX {
        from.read_exact(&mut byte)?;
        if byte[0] == b'\n' {
            return Ok(line);
        }
        line.push(byte[0]);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"))
}

/// Skips everything before the server's line, and reads that. An error is returned together with
/// the first line that was skipped, which may tell the reason.
pub(crate) fn read_marked(from: &mut impl Read) -> Result<Vec<u8>, (io::Error, Vec<u8>)> {
    let mut noise = Vec::new();
    let mut byte = [0];
    loop {
        if let Err(error) = from.read_exact(&mut byte) {
            return Err((error, noise));
        }
        noise.push(byte[0]);
        if noise.ends_with(MARK) {
            return read_line(from).map_err(|error| (error, noise));
        }
        if noise.len() >= NOISE_BYTES_MAX {
            return Err((io::Error::new(io::ErrorKind::InvalidData, "too much output before the server's"), noise));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_skipped_and_what_follows_the_line_is_left() {
        let mut from: &[u8] = b"Welcome to xdfs-stdi\nxdfs-stdio {\"a\":1}\nprotocol";
        assert_eq!(read_marked(&mut from).unwrap(), b"{\"a\":1}");
        assert_eq!(from, b"protocol");
    }

    #[test]
    fn output_without_an_end_or_without_the_mark_is_an_error_that_tells_it() {
        let mut endless = io::repeat(b'x');
        assert_eq!(read_marked(&mut endless).unwrap_err().1.len(), NOISE_BYTES_MAX);
        let (error, noise) = read_marked(&mut &b"sh: xdfs: not found\n"[..]).unwrap_err();
        assert_eq!((error.kind(), &noise[..]), (io::ErrorKind::UnexpectedEof, &b"sh: xdfs: not found\n"[..]));
        let long = [MARK, &[b'x'; LINE_BYTES_MAX + 1]].concat();
        assert_eq!(read_marked(&mut &long[..]).unwrap_err().0.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_key_has_64_digits() {
        let request = |key: &str| Request { version: VERSION, key: key.to_owned(), channels: true };
        assert_eq!(request(&"0a".repeat(32)).public_key(), Some(PublicKey([10; 32])));
        for wrong in ["", "0a", &"0g".repeat(32), &"0a".repeat(33), &"+1".repeat(32), &"ä".repeat(32)] {
            assert_eq!(request(wrong).public_key(), None, "{wrong}");
        }
    }
}
