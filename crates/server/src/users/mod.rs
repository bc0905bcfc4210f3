//! A server's state folder: its host key and its accounts (SEC-20).
//!
//! - [`StateFolder`]: the folder, its host key, and changes to the accounts, one writer at a time;
//! - [`Accounts`]: the accounts as plain values (`account`), and their file (`file`);
//! - [`LiveAccounts`]: the accounts that a running server uses while the file may change.
//!
//! It must not hold anything that suffices to log in: it has public halves of keys and tokens, and
//! verifiers of passwords. The only secret here is the host key.

mod account;
mod file;
mod live;

#[cfg(test)]
mod tests;

pub use account::{Account, AccountToken, Accounts, check_name};
#[cfg(debug_assertions)]
pub use file::feed as feed_users;
pub(crate) use live::admits;
pub use live::{LiveAccounts, RefreshChange};

use std::path::Path;
use std::sync::Arc;
use xdfs_io::store::{Folder, Secrecy};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_secure::identity::KeyPair;
use xdfs_secure::identity::openssh::{KeyFile, read_private, write_private, write_public};
use xdfs_secure::journal::JournalKey;
use xdfs_secure::policy::Salts;
use xdfs_secure::random;

/// The file of users.
const FILE: &str = "users.toml";

/// Its largest size: room for the maximum number of accounts with a few keys each, and small enough
/// to read at once.
const FILE_BYTES_MAX: usize = 64 << 20;

/// The host's private key, and the public half for people.
const HOST_KEY: &str = "host_key";
const HOST_KEY_PUBLIC: &str = "host_key.pub";

/// The key of journals: 32 random bytes.
const JOURNAL_KEY: &str = "journal_key";

/// Largest size of a key file.
const KEY_BYTES_MAX: usize = 16 << 10;

/// The names of the exports of the server that was started here last, one a line.
const EXPORTS: &str = "exports";

/// Its largest size: thousands of names.
const EXPORTS_BYTES_MAX: usize = 1 << 20;

/// The lock that a writer holds.
const LOCK: &str = "lock";

/// A server's state folder: its host key and its accounts.
#[derive(Clone, Debug)]
pub struct StateFolder {
    folder: Arc<Folder>,
}

impl StateFolder {
    /// The state in the folder `path`, which is created if it is missing.
    pub fn create(path: &Path) -> Result<Self, Error> {
        Ok(Self { folder: Arc::new(Folder::create(path)?) })
    }

    /// The state in the folder `path`; none if there is no such folder.
    pub fn open(path: &Path) -> Result<Option<Self>, Error> {
        Ok(Folder::open(path)?.map(|folder| Self { folder: Arc::new(folder) }))
    }

    /// The folder, escaped, for messages.
    pub fn shown(&self) -> &str {
        self.folder.shown()
    }

    /// The host's key. The first call creates it.
    pub fn host_key(&self) -> Result<KeyPair, Error> {
        if let Some(key) = self.present_host_key()? {
            return Ok(key);
        }
        let _lock = self.folder.lock(LOCK)?;
        // Another process may have created it first.
        if let Some(key) = self.present_host_key()? {
            return Ok(key);
        }
        let key = KeyPair::generate().map_err(Error::from)?;
        let damaged = |error| Error::new(ErrorKind::Storage, format!("the host key cannot be written: {error}"));
        let public = write_public(&key.public(), "xdfs-host").map_err(damaged)?;
        self.folder.create_file(HOST_KEY, write_private(&key, "xdfs-host").map_err(damaged)?.as_bytes(), 0o600)?;
        match self.folder.create_file(HOST_KEY_PUBLIC, format!("{public}\n").as_bytes(), 0o644) {
            // Left over from a key that was removed; the private half is what counts.
            Err(error) if error.kind == ErrorKind::AlreadyExists => {}
            other => other?,
        }
        Ok(key)
    }

    /// The host's key, if a server was started here before.
    pub fn present_host_key(&self) -> Result<Option<KeyPair>, Error> {
        let Some(bytes) = self.folder.read(HOST_KEY, KEY_BYTES_MAX, Secrecy::Secret)? else { return Ok(None) };
        let bytes = xdfs_secure::Zeroizing::new(bytes);
        let shown = self.folder.shown_file(HOST_KEY);
        let unusable = |because: String| Error::new(ErrorKind::Storage, format!("the host key '{shown}': {because}"));
        match read_private(&bytes) {
            Ok(KeyFile::Open(key)) => Ok(Some(key)),
            Ok(KeyFile::Locked(_)) => {
                let because = "it has a passphrase, and nobody types one when a server starts; remove it with \
                               'ssh-keygen -p -f FILE'";
                Err(unusable(because.to_owned()))
            }
            Err(error) => {
                let remedy = "restore the file from a backup; if there is none, remove it, and the server makes another key \
                              when it starts, which its clients do not know";
                Err(unusable(format!("{error}\nhelp: {remedy}")))
            }
        }
    }

    /// The key under which journals of interrupted transfers are authenticated. The first call
    /// creates it; if the folder cannot be written, each call creates another.
    pub fn journal_key(&self) -> Result<Arc<JournalKey>, Error> {
        if let Some(key) = self.present_journal_key()? {
            return Ok(key);
        }
        match self.make_journal_key() {
            Err(error) if matches!(error.kind, ErrorKind::ReadOnly | ErrorKind::PermissionDenied) => {
                let mut bytes = xdfs_secure::Zeroizing::new([0; JournalKey::BYTES]);
                random::fill(bytes.as_mut_slice()).map_err(Error::from)?;
                Ok(Arc::new(JournalKey::new(&bytes)))
            }
            made => made,
        }
    }

    fn make_journal_key(&self) -> Result<Arc<JournalKey>, Error> {
        let _lock = self.folder.lock(LOCK)?;
        // Another process may have created it first.
        if let Some(key) = self.present_journal_key()? {
            return Ok(key);
        }
        let mut bytes = xdfs_secure::Zeroizing::new([0; JournalKey::BYTES]);
        random::fill(bytes.as_mut_slice()).map_err(Error::from)?;
        self.folder.create_file(JOURNAL_KEY, bytes.as_slice(), 0o600)?;
        Ok(Arc::new(JournalKey::new(&bytes)))
    }

    fn present_journal_key(&self) -> Result<Option<Arc<JournalKey>>, Error> {
        let Some(bytes) = self.folder.read(JOURNAL_KEY, KEY_BYTES_MAX, Secrecy::Secret)? else { return Ok(None) };
        let bytes = xdfs_secure::Zeroizing::new(bytes);
        let key: &[u8; JournalKey::BYTES] = bytes.as_slice().try_into().map_err(|_| {
            let text = format!(
                "'{}' is damaged: it has {} bytes instead of {}; remove it, and interrupted transfers are compared",
                self.folder.shown_file(JOURNAL_KEY),
                bytes.len(),
                JournalKey::BYTES
            );
            Error::new(ErrorKind::Storage, text)
        })?;
        Ok(Some(Arc::new(JournalKey::new(key))))
    }

    /// Records which exports a server offers that starts here, for who makes tokens. Where the folder
    /// cannot be written, nothing depends on it.
    pub fn record_exports<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let text: String = names.map(|name| format!("{name}\n")).collect();
        let _ = self.folder.replace(EXPORTS, text.as_bytes());
    }

    /// The exports of the server that was started here last, if that is known.
    pub fn recorded_exports(&self) -> Option<Vec<String>> {
        let bytes = self.folder.read(EXPORTS, EXPORTS_BYTES_MAX, Secrecy::Public).ok().flatten()?;
        Some(String::from_utf8(bytes).ok()?.lines().map(str::to_owned).collect())
    }

    /// All accounts as they are now.
    pub fn accounts(&self) -> Result<Accounts, Error> {
        live::read(&self.folder)
    }

    /// The accounts for a running server; `anonymous` permits sessions without a login.
    pub fn live(&self, anonymous: bool) -> Result<LiveAccounts, Error> {
        LiveAccounts::open(Arc::clone(&self.folder), anonymous)
    }

    /// The source of the salts of passwords; generated on first use.
    pub fn salts(&self) -> Result<Salts, Error> {
        match self.accounts()?.salts {
            Some(salts) => Ok(salts),
            None => self.edit(|accounts| {
                let fresh = Salts(random::array()?);
                Ok(*accounts.salts.get_or_insert(fresh))
            }),
        }
    }

    /// Changes the accounts in one step: the result of `change` is checked and written, or nothing
    /// is.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Accounts) -> Result<T, Error>) -> Result<T, Error> {
        let _lock = self.folder.lock(LOCK)?;
        let mut accounts = self.accounts()?;
        let outcome = change(&mut accounts)?;
        accounts.check()?;
        self.folder.replace(FILE, file::write(&accounts)?.as_bytes())?;
        Ok(outcome)
    }
}
