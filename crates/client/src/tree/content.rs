//! Comparing the content of a file by its hash on both sides.

use super::endpoints::Local;
use super::parse;
use crate::endpoints::Payload;
use xdfs_proto::base::Error;
use xdfs_proto::wire::path::Answer;

/// Whether the local file at `path` has the hash that the server reports, for `size` bytes. Reads
/// the whole file. What the server cannot hash is sent, and fails or not by that.
pub(super) fn is_same(store: &dyn Local, path: &[u8], size: u64, reported: &Result<Answer<'_>, Error>) -> bool {
    let Ok(Answer::Hash { length, digest }) = reported else { return false };
    let ours = || Payload::source(store.open(&parse(path)?)?, 0, None)?.sum();
    *length == size && ours().is_ok_and(|ours| ours == *digest)
}
