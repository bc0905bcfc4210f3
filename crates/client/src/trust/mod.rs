//! Which keys a client trusts: pinned by the URL, remembered in the state folder, or none yet
//! (security.md calls it trust on first use, and the use is a person's decision).
//!
//! The check itself prompts nobody: a server does not wait while a person compares fingerprints. It
//! reports why a key is rejected; the caller prompts, remembers the answer with
//! [`KnownHosts::pin`], and connects again. A changed key is never accepted without `forget` or a
//! new pin.

mod check;
pub mod lines;

pub use check::{KeyRejection, Trust};

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use xdfs_io::store::{Folder, Secrecy};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_secure::policy::Fingerprint;

/// The file of known hosts in the state folder.
const FILE: &str = "known_hosts";

/// Its largest size: some 10,000 hosts.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Held by a process that changes it.
const LOCK: &str = "lock";

/// The address of a server, in the form in which it is remembered: `host:port`, lower case, IPv6 in
/// brackets.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostName(String);

impl HostName {
    /// The name of `host` (a name or an address) and `port`.
    pub fn new(host: &str, port: u16) -> Self {
        let bare = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
        Self(if bare.contains(':') { format!("[{bare}]:{port}") } else { format!("{bare}:{port}") })
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is remembered about a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remembered {
    /// Its key.
    pub fingerprint: Fingerprint,
    /// Since when, in seconds since 1970.
    pub since: u64,
}

/// The servers whose keys a user accepted.
#[derive(Clone, Debug)]
pub struct KnownHosts {
    state: PathBuf,
    hosts: BTreeMap<HostName, Remembered>,
}

impl KnownHosts {
    /// Reads what is remembered in the state folder `state`, which need not exist.
    pub fn read(state: &Path) -> Result<Self, Error> {
        let hosts = match Folder::open(state)? {
            Some(folder) => read(&folder)?,
            None => BTreeMap::new(),
        };
        Ok(Self { state: state.to_owned(), hosts })
    }

    /// The entry of `host`.
    pub fn find(&self, host: &HostName) -> Option<&Remembered> {
        self.hosts.get(host)
    }

    /// All entries, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&HostName, &Remembered)> {
        self.hosts.iter()
    }

    /// Remembers a key, replacing any other.
    pub fn pin(&mut self, host: &HostName, remembered: Remembered) -> Result<(), Error> {
        self.change(|hosts| {
            hosts.insert(host.clone(), remembered);
        })
    }

    /// Forgets a server; `None` if it was not known.
    pub fn forget(&mut self, host: &HostName) -> Result<Option<Remembered>, Error> {
        self.change(|hosts| hosts.remove(host))
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut BTreeMap<HostName, Remembered>) -> T) -> Result<T, Error> {
        let folder = Folder::create(&self.state)?;
        let _lock = folder.lock(LOCK)?;
        // Another program may have changed it meanwhile.
        self.hosts = read(&folder)?;
        let outcome = change(&mut self.hosts);
        let text = lines::write(&self.hosts);
        if text.len() > FILE_BYTES_MAX {
            return Err(Error::new(ErrorKind::LimitExceeded, "too many servers are known; forget some"));
        }
        folder.replace(FILE, text.as_bytes())?;
        Ok(outcome)
    }
}

/// Reads the file; a line that cannot be parsed could be the one with the right key, so it is an
/// error.
fn read(folder: &Folder) -> Result<BTreeMap<HostName, Remembered>, Error> {
    let Some(bytes) = folder.read(FILE, FILE_BYTES_MAX, Secrecy::Public)? else { return Ok(BTreeMap::new()) };
    lines::read(&String::from_utf8_lossy(&bytes)).map_err(|bad| {
        let text = format!("'{}': {bad}", folder.shown_file(FILE));
        Error::new(ErrorKind::Storage, text)
    })
}

#[cfg(test)]
mod tests;
