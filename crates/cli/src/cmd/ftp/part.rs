//! Uploads that are not whole: their names, and what of the source they have.

use xdfs_client::{Error, hexadecimal};
use xdfs_io::store::Source;
use xdfs_proto::base::TransferId;
use xdfs_secure::checksum::Sha256;
use xdfs_secure::naming::transfer_id;

/// Bytes of a source that are hashed at a time.
const HASH_BYTES: usize = 1 << 20;

const BEFORE: &[u8] = b".xdfs-";
const AFTER: &[u8] = b".part";

/// Hexadecimal digits between them.
const DIGITS: usize = 32;

/// Bytes that these digits say of the path.
const TARGET_BYTES: usize = 8;

/// The temporary name of an upload with this id, in the directory of its path. The first half of its digits is of the
/// path, so that parts of the same target know each other.
pub(in crate::cmd) fn part_name(path: &[u8], id: TransferId) -> Vec<u8> {
    let mut digest = [0; 32];
    digest[..TARGET_BYTES].copy_from_slice(&transfer_id(&[b"ftp target", path]).0[..TARGET_BYTES]);
    digest[TARGET_BYTES..16].copy_from_slice(&id.0[..16 - TARGET_BYTES]);
    [directory_of(path), BEFORE, &hexadecimal(&digest).as_bytes()[..DIGITS], AFTER].concat()
}

/// Whether two temporary names are of uploads to the same path.
pub(in crate::cmd) fn is_of_same_target(one: &[u8], other: &[u8]) -> bool {
    let target = |name: &[u8]| name.len().checked_sub(AFTER.len() + DIGITS - 2 * TARGET_BYTES);
    target(one).zip(target(other)).is_some_and(|(end, other_end)| one[..end] == other[..other_end])
}

fn directory_of(path: &[u8]) -> &[u8] {
    path.iter().rposition(|&byte| byte == b'/').map_or(&path[..0], |slash| &path[..=slash])
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
        let name = part_name(b"/d/f", TransferId([0xa5; 16]));
        assert!(name.starts_with(b"/d/.xdfs-") && name.ends_with(b"a5a5a5a5a5a5a5a5.part"));
        assert!(is_part(&name[3..]) && is_part(&part_name(b"f", TransferId([0; 16]))));
        for other in [&name[..], b".xdfs-.part", b".xdfs-mine.part", &name[3..name.len() - 5], b"f"] {
            assert!(!is_part(other), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn parts_of_the_same_target_know_each_other() {
        let name = part_name(b"/d/f", TransferId([1; 16]));
        assert!(is_of_same_target(&name, &part_name(b"/d/f", TransferId([2; 16]))));
        for other in [
            part_name(b"/d/g", TransferId([1; 16])),
            part_name(b"/e/f", TransferId([1; 16])),
            b"f".to_vec(),
            Vec::new(),
        ] {
            assert!(!is_of_same_target(&name, &other), "{}", String::from_utf8_lossy(&other));
        }
    }
}
