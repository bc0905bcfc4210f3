//! Accounts as plain values, and the rules that every table of them must meet, whatever its source.

use std::collections::BTreeMap;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_secure::identity::openssh::NamedKey;
use xdfs_secure::policy::{Fingerprint, PasswordVerifier, PublicKey, Salts, Scope};

/// Longest name, in bytes: it is used in URLs, log lines and limits.
const NAME_BYTES_MAX: usize = 64;

/// Accounts of one server; each costs the listener's memory.
pub(super) const ACCOUNTS_MAX: usize = 100_000;

/// Keys of one account: a person has a few machines.
const KEYS_MAX: usize = 64;

/// Tokens of one account.
const TOKENS_MAX: usize = 1024;

/// A user who may log in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Revoked: no login succeeds until the account is restored.
    pub revoked: bool,
    /// The user's public keys.
    pub keys: Vec<NamedKey>,
    /// Verifier of the user's password.
    pub password: Option<PasswordVerifier>,
    /// The user's tokens.
    pub tokens: Vec<AccountToken>,
}

/// A token as the server knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountToken {
    /// Its public half.
    pub key: PublicKey,
    /// What it gives access to.
    pub scope: Scope,
}

/// All accounts by their names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Accounts {
    by_name: BTreeMap<String, Account>,
    /// The source of the salts of passwords; generated with the first one.
    pub(super) salts: Option<Salts>,
}

impl Accounts {
    /// The accounts, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Account)> {
        self.by_name.iter().map(|(name, account)| (name.as_str(), account))
    }

    /// The account of `name`.
    pub fn find(&self, name: &str) -> Option<&Account> {
        self.by_name.get(name)
    }

    /// The account of `name`, to be changed; an error lists the available names.
    pub fn named(&mut self, name: &str) -> Result<&mut Account, Error> {
        let missing = Error::new(ErrorKind::NotFound, format!("there is no user '{}'", name.escape_default()));
        self.by_name.get_mut(name).ok_or(missing)
    }

    /// Adds a new account.
    pub fn add(&mut self, name: &str, account: Account) -> Result<(), Error> {
        check_name(name)?;
        if self.by_name.contains_key(name) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("there is a user '{name}' already")));
        }
        if self.by_name.len() >= ACCOUNTS_MAX {
            return Err(Error::new(ErrorKind::LimitExceeded, format!("a server has at most {ACCOUNTS_MAX} users")));
        }
        self.by_name.insert(name.to_owned(), account);
        Ok(())
    }

    /// Checks what must hold for all accounts together before they are stored or used.
    pub(super) fn check(&self) -> Result<(), Error> {
        let mut tokens = BTreeMap::new();
        for (name, account) in self.iter() {
            check_name(name)?;
            account.check(name)?;
            for token in &account.tokens {
                // A token belongs to one account: its owner must not depend on an order.
                if let Some(other) = tokens.insert(token.key, name) {
                    let shown = token.key.fingerprint();
                    let text = format!("the token {shown} is given twice, to '{other}' and '{name}'");
                    return Err(Error::new(ErrorKind::Refused, text));
                }
            }
        }
        Ok(())
    }
}

impl Account {
    /// Adds a key; an existing one keeps its comment.
    pub fn add_key(&mut self, key: NamedKey) -> bool {
        let new = !self.keys.iter().any(|known| known.key == key.key);
        if new {
            self.keys.push(key);
        }
        new
    }

    /// Removes the key or token with this fingerprint. Returns false if there is none.
    pub fn remove(&mut self, fingerprint: &Fingerprint) -> bool {
        let before = self.keys.len() + self.tokens.len();
        self.keys.retain(|known| known.key.fingerprint() != *fingerprint);
        self.tokens.retain(|token| token.key.fingerprint() != *fingerprint);
        self.keys.len() + self.tokens.len() < before
    }

    fn check(&self, name: &str) -> Result<(), Error> {
        for (count, max, what) in [(self.keys.len(), KEYS_MAX, "keys"), (self.tokens.len(), TOKENS_MAX, "tokens")] {
            if count > max {
                let text = format!("user '{name}' would have {count} {what}, and {max} is the most");
                return Err(Error::new(ErrorKind::LimitExceeded, text));
            }
        }
        Ok(())
    }
}

/// Whether `name` may be a user's: it fits in front of the `@` of a URL, and has no other meaning.
pub fn check_name(name: &str) -> Result<(), Error> {
    let refused = |because: &str| {
        let text = format!("'{}' cannot be a user's name: {because}", name.escape_default());
        Err(Error::new(ErrorKind::Refused, text))
    };
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return refused("a name has 1 to 64 characters");
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
        return refused("a name has letters, digits, '.', '_' and '-'");
    }
    if name.starts_with(['-', '.']) {
        return refused("a name starts with a letter, a digit or '_'");
    }
    if name.eq_ignore_ascii_case("anonymous") {
        return refused("that is what visitors without a login are called");
    }
    Ok(())
}
