//! Ids of files that only their writer looks for.

use std::hash::{BuildHasher, Hasher, RandomState};

/// An id that no other file of any process has: it names a part file that is never resumed.
pub(super) fn fresh_id() -> [u8; 16] {
    let word = || RandomState::new().build_hasher().finish();
    (u128::from(word()) << 64 | u128::from(word())).to_be_bytes()
}
