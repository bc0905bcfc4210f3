//! Uploads that are not whole: their names, and what of the source they have.

use xdfs_client::{Error, hexadecimal};
use xdfs_io::store::Source;
use xdfs_secure::checksum::Sha256;

/// Bytes of a source that are hashed at a time.
const HASH_BYTES: usize = 1 << 20;

const BEFORE: &[u8] = b".xdfs-";
const AFTER: &[u8] = b".part";

/// Hexadecimal digits between them.
const DIGITS: usize = 32;

/// The temporary name of an upload with this id, in the directory of its path.
pub(in crate::cmd) fn part_name(path: &[u8], id: &[u8; 16]) -> Vec<u8> {
    let mut digest = [0; 32];
    digest[..16].copy_from_slice(id);
    let directory = path.iter().rposition(|&byte| byte == b'/').map_or(&path[..0], |slash| &path[..=slash]);
    [directory, BEFORE, &hexadecimal(&digest).as_bytes()[..DIGITS], AFTER].concat()
}

/// Whether a name in a directory is that of an upload that is not whole.
pub(in crate::cmd) fn is_part(name: &[u8]) -> bool {
    let digits = name.strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(AFTER));
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit))
}

/// Adds a range of a source to a checksum.
pub(in crate::cmd) fn hash_range(source: &Source, from: u64, to: u64, sum: &mut Sha256) -> Result<(), Error> {
    let (mut at, mut bytes) = (from, vec![0; HASH_BYTES]);
    while at < to {
        let length = HASH_BYTES.min(usize::try_from(to - at).unwrap_or(usize::MAX));
        source.read_exact_at(&mut bytes[..length], at)?;
        sum.update(&bytes[..length]);
        at += length as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_known_by_its_name_and_nothing_else_is_one() {
        let name = part_name(b"/d/f", &[0xa5; 16]);
        assert_eq!(name, b"/d/.xdfs-a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5.part");
        assert!(is_part(&name[3..]) && is_part(&part_name(b"f", &[0; 16])));
        for other in [&name[..], b".xdfs-.part", b".xdfs-mine.part", &name[3..name.len() - 5], b"f"] {
            assert!(!is_part(other), "{}", String::from_utf8_lossy(other));
        }
    }
}
