//! The accounts of a running server: served from memory, read again when their file has changed.
//!
//! If the file cannot be read, the previous accounts stay (a broken file is meant neither to let
//! everybody in nor to lock everybody out); each reason is reported once, and every refresh tries
//! again: a revocation must not be lost to a temporary lack of descriptors. If the file is gone,
//! nobody may log in.

use super::{Account, Accounts, FILE, FILE_BYTES_MAX, file};
use crate::clock::seconds_now;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use xdfs_io::store::{Folder, Secrecy, Stamp};
use xdfs_proto::base::Error;
use xdfs_secure::policy::{Directory, Method, PasswordVerifier, Principal, PublicKey, Salts, SessionEnds, TokenRecord};

/// Accounts and their indexes, as one value that a refresh replaces.
#[derive(Debug, Default)]
struct AccountIndex {
    accounts: Accounts,
    tokens: BTreeMap<PublicKey, TokenRecord>,
}

/// The accounts of a running server. Shared between the listener, which reads, and the callers of
/// [`LiveAccounts::refresh`].
#[derive(Debug)]
pub struct LiveAccounts {
    folder: Arc<Folder>,
    known: RwLock<Arc<AccountIndex>>,
    looked: Mutex<RefreshState>,
    anonymous: AtomicBool,
}

/// The result of the refreshes so far.
#[derive(Debug)]
struct RefreshState {
    /// The state of the file that the accounts were read from.
    seen: Option<Stamp>,
    /// Why the last refresh failed, which was reported.
    told: Option<String>,
    /// A login found a change, which was not reported.
    unreported: bool,
}

/// What a refresh changed.
#[derive(Debug)]
pub struct RefreshChange {
    before: Arc<AccountIndex>,
    after: Arc<AccountIndex>,
}

impl LiveAccounts {
    /// Reads the accounts in `folder`; `anonymous` permits sessions without a login.
    pub(super) fn open(folder: Arc<Folder>, anonymous: bool) -> Result<Self, Error> {
        // The stamp first: a change in between is then detected by the next refresh.
        let seen = folder.stamp(FILE)?;
        let known = Arc::new(AccountIndex::of(read(&folder)?));
        let looked = Mutex::new(RefreshState { seen, told: None, unreported: false });
        Ok(Self { folder, known: RwLock::new(known), looked, anonymous: AtomicBool::new(anonymous) })
    }

    /// Checks whether the file changed, which takes one system call if it did not, and reads it
    /// again if so. An error is reported once as long as it stays the same; the previous accounts
    /// stay.
    pub fn refresh(&self) -> Result<Option<RefreshChange>, Error> {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        match self.look(&mut looked.seen) {
            Ok(change) => {
                looked.told = None;
                Ok(change)
            }
            Err(error) if looked.told.as_ref() == Some(&error.message) => Ok(None),
            Err(error) => {
                looked.told = Some(error.message.clone());
                Err(error)
            }
        }
    }

    /// Whether a login has found a change since the last time.
    pub fn has_changed(&self) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut looked.unreported)
    }

    fn look(&self, seen: &mut Option<Stamp>) -> Result<Option<RefreshChange>, Error> {
        // The stamp first: a change in between is then detected by the next refresh.
        let stamp = self.folder.stamp(FILE)?;
        if *seen == stamp {
            return Ok(None);
        }
        let after = Arc::new(AccountIndex::of(read(&self.folder)?));
        *seen = stamp;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *known, Arc::clone(&after));
        Ok(Some(RefreshChange { before, after }))
    }

    /// Whether there is no account at all.
    pub fn is_empty(&self) -> bool {
        self.known().accounts.iter().next().is_none()
    }

    /// Sets whether sessions without a login are permitted from now on.
    pub fn allow_anonymous(&self, anonymous: bool) {
        self.anonymous.store(anonymous, Ordering::Relaxed);
    }

    fn known(&self) -> Arc<AccountIndex> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether the credentials of `principal` would still log in now, a token with the same scope. A replaced
/// password is a change, which [`RefreshChange::ends`] reports; here any password counts.
pub(crate) fn admits(directory: &dyn Directory, principal: &Principal) -> bool {
    match principal.method {
        Method::Anonymous => directory.anonymous(),
        Method::Password => directory.password(&principal.user).is_some(),
        Method::Key => principal.key.is_some_and(|key| directory.has_key(&principal.user, &key)),
        Method::Token => {
            let record = principal.key.and_then(|key| directory.token(&key));
            record
                .is_some_and(|record| record.user == principal.user && Some(&record.scope) == principal.scope.as_ref())
        }
    }
}

impl RefreshChange {
    /// Whether a session of `principal`, who logged in before this change, ends with it.
    pub fn ends(&self, principal: &Principal) -> bool {
        let user = principal.user.as_str();
        match principal.method {
            Method::Anonymous => false,
            Method::Password => {
                let before = self.before.active(user).and_then(|account| account.password.as_ref());
                let after = self.after.active(user).and_then(|account| account.password.as_ref());
                after.is_none() || before != after
            }
            Method::Key => !principal.key.is_some_and(|key| self.after.has_key(user, &key)),
            Method::Token => {
                let record = principal.key.and_then(|key| self.after.tokens.get(&key));
                !record.is_some_and(|record| record.user == user && Some(&record.scope) == principal.scope.as_ref())
            }
        }
    }
}

impl AccountIndex {
    fn of(accounts: Accounts) -> Self {
        let mut tokens = BTreeMap::new();
        for (name, account) in accounts.iter().filter(|(_, account)| !account.revoked) {
            for token in &account.tokens {
                tokens.insert(token.key, TokenRecord { user: name.to_owned(), scope: token.scope.clone() });
            }
        }
        Self { accounts, tokens }
    }

    fn active(&self, user: &str) -> Option<&Account> {
        self.accounts.find(user).filter(|account| !account.revoked)
    }

    fn has_key(&self, user: &str, key: &PublicKey) -> bool {
        self.active(user).is_some_and(|account| account.keys.iter().any(|known| known.key == *key))
    }
}

impl Directory for LiveAccounts {
    fn has_key(&self, user: &str, key: &PublicKey) -> bool {
        self.known().has_key(user, key)
    }

    fn password(&self, user: &str) -> Option<PasswordVerifier> {
        self.known().active(user)?.password.clone()
    }

    fn salts(&self) -> Option<Salts> {
        self.known().accounts.salts
    }

    fn token(&self, key: &PublicKey) -> Option<TokenRecord> {
        let record = self.known().tokens.get(key).cloned()?;
        (seconds_now() < record.scope.until).then_some(record)
    }

    fn is_revoked(&self, user: &str) -> bool {
        self.known().accounts.find(user).is_some_and(|account| account.revoked)
    }

    fn anonymous(&self) -> bool {
        self.anonymous.load(Ordering::Relaxed)
    }

    fn read_changes(&self) -> Option<SessionEnds> {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        // An error is reported by whoever refreshes regularly.
        let change = self.look(&mut looked.seen).ok()??;
        looked.unreported = true;
        Some(Box::new(move |principal| change.ends(principal)))
    }
}

/// The accounts in the folder's file; none if there is no file yet.
pub(super) fn read(folder: &Folder) -> Result<Accounts, Error> {
    let Some(bytes) = folder.read(FILE, FILE_BYTES_MAX, Secrecy::Secret)? else { return Ok(Accounts::default()) };
    let named = |error: Error| Error::new(error.kind, format!("'{}': {}", folder.shown_file(FILE), error.message));
    let text = String::from_utf8(bytes).map_err(|_| {
        let text = format!("'{}': the file of users cannot be used: it is no text", folder.shown_file(FILE));
        Error::new(xdfs_proto::base::ErrorKind::Storage, text)
    })?;
    file::read(&text).map_err(named)
}
