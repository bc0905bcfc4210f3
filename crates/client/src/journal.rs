//! The key under which the journals of this process's downloads are authenticated.

use std::sync::{Arc, OnceLock};
use xdfs_engine::journal::ExportJournals;
use xdfs_io::store::LocalStore;
use xdfs_secure::journal::JournalKey;
use xdfs_secure::random;

static KEY: OnceLock<Arc<JournalKey>> = OnceLock::new();

/// Authenticates the journals of all downloads of this process under `key`, so that a later process
/// with the same key trusts them. The first call counts; without one the key is random and private
/// to this process.
pub fn use_journal_key(key: Arc<JournalKey>) {
    let _ = KEY.set(key);
}

/// A store whose journals are authenticated: every download that resumes an earlier one is staged
/// in one. Without randomness for a key they are unverified, and nothing else is lost.
pub fn authenticated(store: LocalStore) -> LocalStore {
    let mut bytes = [0; JournalKey::BYTES];
    match KEY.get() {
        Some(key) => store.with_journal_tags(ExportJournals::tags(key, "")),
        None if random::fill(&mut bytes).is_ok() => {
            let key = KEY.get_or_init(|| Arc::new(JournalKey::new(&bytes)));
            store.with_journal_tags(ExportJournals::tags(key, ""))
        }
        None => store,
    }
}
