//! The file of users: TOML that a person can read, written by `xdfs user`.
//!
//! ```text
//! version = 1
//! salts = "16 random bytes in base64"
//!
//! [user.anna]
//! keys = ["ssh-ed25519 AAAA... anna@laptop"]
//! password = "SCRAM-SHA-256$600000:salt$stored key:server key"
//!
//! [[user.anna.token]]
//! key = "ssh-ed25519 AAAA..."
//! export = "data"
//! path = "run7"
//! write = true
//! until = 1790000000
//! ```
//!
//! One file for all, so that a change is one rename and a running server detects a change with one
//! check. Anything unknown is an error: a line that is not understood might have been the one that
//! takes a right away.

use super::{Account, AccountToken, Accounts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use xdfs_proto::base::{Error, ErrorKind, RelPath};
use xdfs_secure::identity::openssh::{NamedKey, read_public, write_public};
use xdfs_secure::identity::password::{read_salts, read_verifier, write_salts, write_verifier};
use xdfs_secure::policy::Scope;

/// The format version that this program reads and writes.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UsersFile {
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    salts: Option<String>,
    #[serde(default, rename = "user")]
    users: BTreeMap<String, UserRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserRecord {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    revoked: bool,
    #[serde(default)]
    keys: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    password: Option<String>,
    #[serde(default, rename = "token", skip_serializing_if = "Vec::is_empty")]
    tokens: Vec<StoredToken>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredToken {
    key: String,
    export: String,
    path: String,
    write: bool,
    until: u64,
}

/// Reads a file of users.
pub(super) fn read(text: &str) -> Result<Accounts, Error> {
    let file: UsersFile = toml::from_str(text).map_err(|error| not_understood(text, &error))?;
    if file.version != VERSION {
        return Err(damaged(&format!("it is of version {} and this program knows version {VERSION}", file.version)));
    }
    let salts = file.salts.as_deref().map(|text| read_salts(text).ok_or_else(|| damaged("its salts are damaged")));
    let mut accounts = Accounts::default();
    accounts.salts = salts.transpose()?;
    for (name, user) in file.users {
        let account =
            user.read().map_err(|because| damaged(&format!("user '{}': {because}", name.escape_default())))?;
        accounts.add(&name, account)?;
    }
    accounts.check()?;
    Ok(accounts)
}

/// The text of a file of users.
pub(super) fn write(accounts: &Accounts) -> Result<String, Error> {
    let users = accounts.iter().map(|(name, account)| Ok((name.to_owned(), UserRecord::write(account)?)));
    let salts = accounts.salts.as_ref().map(write_salts);
    let file = UsersFile { version: VERSION, salts, users: users.collect::<Result<_, Error>>()? };
    let text = toml::to_string(&file).map_err(|error| damaged(&error.to_string()))?;
    Ok(format!("# Who may log in. Written by 'xdfs user'; nothing in it logs anybody in.\n{text}"))
}

/// Fuzzes the parser of the file: what it accepts is written in a form that parses to the same.
#[cfg(debug_assertions)]
pub fn feed(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match read(text) {
        Ok(accounts) => {
            let written = write(&accounts).expect("what was read can be written");
            assert_eq!(read(&written).expect("what we write we read"), accounts);
        }
        Err(error) => assert!(!error.message.is_empty()),
    }
}

impl UserRecord {
    fn read(self) -> Result<Account, String> {
        let keys = self.keys.iter().map(|line| read_public(line).map_err(|error| format!("a key: {error}")));
        let password = self.password.as_deref().map(read_verifier).transpose().map_err(|error| error.to_string())?;
        Ok(Account {
            revoked: self.revoked,
            keys: keys.collect::<Result<_, _>>()?,
            password,
            tokens: self.tokens.iter().map(StoredToken::read).collect::<Result<_, _>>()?,
        })
    }

    fn write(account: &Account) -> Result<Self, Error> {
        let line = |named: &NamedKey| write_public(&named.key, &named.comment);
        let unwritable = |error| damaged(&format!("{error}"));
        let token = |token: &AccountToken| {
            Ok(StoredToken {
                key: write_public(&token.key, "")?,
                export: token.scope.export.clone(),
                path: encoded(&token.scope.path),
                write: token.scope.write,
                until: token.scope.until,
            })
        };
        Ok(Self {
            revoked: account.revoked,
            keys: account.keys.iter().map(line).collect::<Result<_, _>>().map_err(unwritable)?,
            password: account.password.as_ref().map(write_verifier),
            tokens: account.tokens.iter().map(token).collect::<Result<_, _>>().map_err(unwritable)?,
        })
    }
}

impl StoredToken {
    fn read(&self) -> Result<AccountToken, String> {
        let key = read_public(&self.key).map_err(|error| format!("a token: {error}"))?.key;
        let path = decoded(&self.path).ok_or("a token's path has a '%' without two hexadecimal digits")?;
        let path = RelPath::parse(&path).map_err(|error| format!("a token's path: {error}"))?;
        let scope = Scope { export: self.export.clone(), path, write: self.write, until: self.until };
        Ok(AccountToken { key, scope })
    }
}

/// A path as text: non-printable bytes, non-ASCII bytes and `%` become %XX, since names are bytes.
fn encoded(path: &RelPath) -> String {
    let mut text = String::new();
    for &byte in path.as_bytes() {
        match byte {
            b'%' => text.push_str("%25"),
            b' '..=b'~' => text.push(byte as char),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digit = |byte: u8| (byte as char).to_digit(16);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
        rest = after;
    }
    Some(bytes)
}

/// Reports the position of the error, not the text there: that may be something a log must not
/// contain.
fn not_understood(text: &str, error: &toml::de::Error) -> Error {
    let above = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = above.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let reason = error.message().split_once(',').map_or(error.message(), |(reason, _)| reason);
    let names_a_field = ["unknown field", "missing field"].iter().any(|start| reason.starts_with(start));
    damaged(&format!("line {line}: {}", if names_a_field { reason } else { "it is not understood" }))
}

fn damaged(because: &str) -> Error {
    Error::new(ErrorKind::Storage, format!("the file of users cannot be used: {because}"))
}
