//! The stores that an export can name instead of a directory, in one table. This is the only place
//! that knows stores in crates of their own. The example is none of them: it is for tests.

use std::fmt;
use std::sync::Arc;
use xdfs_io::store::{MemoryExport, Registration, Store};
use xdfs_proto::base::{Error, ErrorKind};

/// One line for each store.
const STORES: &[Registration] = &[MemoryExport::REGISTRATION];

/// The name of a store as a user writes it: `memory:`, or a word and an address.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StoreName(String);

impl StoreName {
    /// The store that `text` names; none if it is the name of a directory.
    pub fn parse(text: &str) -> Option<Self> {
        find(STORES, text).map(|_| Self(text.to_owned()))
    }

    /// Opens the store.
    ///
    /// # Errors
    ///
    /// Where its store refuses the address, or cannot reach what it names.
    pub fn open(&self) -> Result<Arc<dyn Store>, Error> {
        let unknown = || Error::new(ErrorKind::Unsupported, format!("no store is called '{self}'"));
        let (registration, address) = find(STORES, &self.0).ok_or_else(unknown)?;
        (registration.open)(address)
    }
}

impl fmt::Display for StoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_default())
    }
}

fn find<'t>(registrations: &'static [Registration], text: &'t str) -> Option<(&'static Registration, &'t str)> {
    registrations.iter().find_map(|registration| Some((registration, registration.address(text)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a store that has an address.
    const BOTH: &[Registration] = &[MemoryExport::REGISTRATION, xdfs_store_example::REGISTRATION];

    #[test]
    fn each_member_has_a_word_of_its_own_that_can_stand_before_a_colon() {
        for (index, registration) in BOTH.iter().enumerate() {
            let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            assert!(!registration.word.is_empty() && registration.word.bytes().all(allowed), "{}", registration.word);
            assert!(BOTH[..index].iter().all(|other| other.word != registration.word), "{}", registration.word);
        }
    }

    #[test]
    fn a_name_is_that_of_a_store_or_of_a_directory() {
        for text in ["/srv/data", "data", "memory", "memory:x", "./memory:", "other:x", ""] {
            assert_eq!(StoreName::parse(text), None, "{text}");
            assert!(find(BOTH, text).is_none(), "{text}");
        }
        assert!(StoreName::parse("memory:").unwrap().open().is_ok());
    }

    #[test]
    fn what_follows_the_colon_is_the_address_which_the_member_checks() {
        let opened = |text: &str| {
            let (registration, address) = find(BOTH, text).unwrap();
            (registration.open)(address)
        };
        assert!(opened("memory:").is_ok() && opened("example-objects:").is_ok() && opened("example-objects:1").is_ok());
        for text in ["example-objects:0", "example-objects:x", "example-objects:5000"] {
            let error = opened(text).err().unwrap();
            assert_eq!(error.kind, ErrorKind::InvalidPath);
            assert!(error.message.contains(text) && error.message.contains("MiB"), "{error}");
        }
    }

    #[test]
    fn the_example_is_not_in_the_program() {
        assert_eq!(StoreName::parse("example-objects:1"), None);
    }
}
