//! The journals of one export, or of a client's downloads, under a key of `secure`: `io` names no
//! cipher.

use std::sync::Arc;
use xdfs_io::store::JournalTags;
use xdfs_proto::base::Digest;
use xdfs_secure::journal::JournalKey;

/// Authenticates journals under a key, for one export.
#[derive(Clone, Debug)]
pub struct ExportJournals {
    key: Arc<JournalKey>,
    export: Vec<u8>,
}

impl ExportJournals {
    /// The journal tags of `export`, for a store.
    pub fn tags(key: &Arc<JournalKey>, export: &str) -> Arc<dyn JournalTags> {
        Arc::new(Self { key: Arc::clone(key), export: export.as_bytes().to_vec() })
    }
}

impl JournalTags for ExportJournals {
    fn tag(&self, parts: &[&[u8]]) -> Digest {
        let all: Vec<&[u8]> = [self.export.as_slice()].into_iter().chain(parts.iter().copied()).collect();
        self.key.tag(&all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part file and its journal that somebody moves to another export say nothing there.
    #[test]
    fn the_same_journal_has_another_tag_in_another_export() {
        let key = Arc::new(JournalKey::new(&[1; 32]));
        let tag = |export: &str, parts: &[&[u8]]| ExportJournals::tags(&key, export).tag(parts);
        let journal: &[&[u8]] = &[b"target", b"claims"];
        assert_eq!(tag("a", journal), tag("a", journal));
        assert_ne!(tag("a", journal), tag("b", journal));
        assert_ne!(tag("ab", &[b"c"]), tag("a", &[b"bc"]), "a name's end counts");
        assert_ne!(tag("a", &[b"b"]), tag("", &[b"a", b"b"]), "so does the number of parts");
    }
}
