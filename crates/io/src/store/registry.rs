//! How an export names a store that is not a directory, and how a store offers itself for that.

use super::{Result, Store};
use std::sync::Arc;

/// A kind of store that an export can name: `WORD:`, or `WORD:ADDRESS`. A program has a table of them.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// The word before the colon.
    pub word: &'static str,
    /// Something may follow the colon. Without it, a longer name is that of a directory.
    pub addressed: bool,
    /// Opens the store that has the address.
    pub open: fn(&str) -> Result<Arc<dyn Store>>,
}

impl Registration {
    /// The address in `name`, if it names a store of this kind.
    pub fn address<'n>(&self, name: &'n str) -> Option<&'n str> {
        let address = name.strip_prefix(self.word)?.strip_prefix(':')?;
        (self.addressed || address.is_empty()).then_some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryExport;

    #[test]
    fn a_store_is_named_by_its_word_and_a_colon() {
        let plain = MemoryExport::REGISTRATION;
        let addressed = Registration { word: "s3", addressed: true, ..plain };
        assert_eq!((plain.address("memory:"), plain.address("memory:x")), (Some(""), None));
        assert_eq!((plain.address("memory"), plain.address("./memory:")), (None, None));
        assert_eq!((addressed.address("s3:a/b:c"), addressed.address("s3:")), (Some("a/b:c"), Some("")));
        assert_eq!((addressed.address("s3"), addressed.address("s33:a")), (None, None));
        assert!((plain.open)("").is_ok());
    }
}
