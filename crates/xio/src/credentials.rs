//! Where a user's certificate and the authorities of a site are, as all programs of grids look for them; and reading them.
//!
//! It must not show what it read: a proxy is a credential.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use xdfs_secure::Zeroizing;
use xdfs_secure::handshake::tls::gsi::{Credential, Gsi, GsiFault, TrustStore};

/// Largest file that is read: a site's longest revocation list has some MiB.
const BYTES_MAX: u64 = 32 << 20;

/// Most names of the authorities' directory that are looked at; the largest sites have some hundred authorities.
const NAMES_MAX: usize = 16_384;

/// Where sites keep their authorities.
const SITE: &str = "/etc/grid-security/certificates";

/// Why there is no credential.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// A file cannot be read.
    #[error("{path}: {error}; make a proxy with grid-proxy-init, or name one with X509_USER_PROXY")]
    File {
        /// Which.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// Others can read the key.
    #[error("{0}: other users can read this private key; run: chmod 600 {0}")]
    Readable(String),
    /// It belongs to somebody else.
    #[error("{path}: this private key belongs to user {owner}, and only its owner may use it")]
    Owner {
        /// Which.
        path: String,
        /// Whose it is.
        owner: u32,
    },
    /// Nobody is trusted.
    #[error("{0}: there is no certificate of an authority (HASH.0); name the directory with X509_CERT_DIR")]
    NoAuthorities(String),
    /// The credential is refused.
    #[error("{path}: {fault}")]
    Refused {
        /// Its file.
        path: String,
        /// Why.
        fault: GsiFault,
    },
}

/// Where a user's certificate and key are, and the authorities.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// The certificates, the own first.
    pub chain: PathBuf,
    /// The key of the first; for a proxy the same file.
    pub key: PathBuf,
    /// The directory of the authorities.
    pub authorities: PathBuf,
    /// Whether the user named the credential.
    pub is_named: bool,
}

impl Places {
    /// As the environment has it: `X509_USER_PROXY`, `X509_USER_CERT` and `X509_USER_KEY`, or `/tmp/x509up_uUID`; and
    /// `X509_CERT_DIR`, `~/.globus/certificates` if it is there, or the site's.
    pub fn of_environment() -> Self {
        let user = rustix::process::geteuid().as_raw();
        Self::of(&|name| std::env::var_os(name), user)
    }

    fn of(variable: &dyn Fn(&str) -> Option<OsString>, user: u32) -> Self {
        let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let is_refused = variable("X509_USER_PROXY").is_some_and(|value| value.is_empty());
        let (chain, key, is_named) = match (path("X509_USER_PROXY"), path("X509_USER_CERT"), path("X509_USER_KEY")) {
            (Some(proxy), ..) => (proxy.clone(), proxy, true),
            (None, Some(chain), Some(key)) => (chain, key, true),
            // Set to nothing: the user does not want the one in the usual place.
            _ if is_refused => (PathBuf::new(), PathBuf::new(), false),
            _ => {
                let proxy = PathBuf::from(format!("/tmp/x509up_u{user}"));
                (proxy.clone(), proxy, false)
            }
        };
        let own = path("HOME").map(|home| home.join(".globus/certificates")).filter(|own| is_there(own));
        let authorities = path("X509_CERT_DIR").or(own).unwrap_or_else(|| PathBuf::from(SITE));
        Self { chain, key, authorities, is_named }
    }

    /// The same with what is named instead: a file of certificates, that of their key if it is another, and a directory of
    /// authorities. None if there is a key without certificates.
    pub fn with(mut self, chain: Option<PathBuf>, key: Option<PathBuf>, authorities: Option<PathBuf>) -> Option<Self> {
        match (chain, key) {
            (Some(chain), key) => {
                (self.key, self.chain, self.is_named) = (key.unwrap_or_else(|| chain.clone()), chain, true);
            }
            (None, Some(_)) => return None,
            (None, None) => {}
        }
        self.authorities = authorities.unwrap_or(self.authorities);
        Some(self)
    }

    /// Whether there is a credential to use: a named one is used or its absence reported.
    pub fn has_credential(&self) -> bool {
        self.is_named || is_there(&self.chain)
    }

    /// Reads and checks the credential.
    ///
    /// # Errors
    /// If a file is missing or can be read by others, or the credential would be refused.
    pub fn load(&self) -> Result<Gsi, CredentialError> {
        self.load_by(Gsi::new)
    }

    /// The same for a server, which may have a certificate that is for servers alone.
    ///
    /// # Errors
    /// As of [`load`](Self::load).
    pub fn load_of_server(&self) -> Result<Gsi, CredentialError> {
        self.load_by(Gsi::of_server)
    }

    fn load_by(
        &self,
        check: impl FnOnce(Credential, TrustStore, u64) -> Result<Gsi, GsiFault>,
    ) -> Result<Gsi, CredentialError> {
        let shown = self.chain.display().to_string();
        let refused = |fault| CredentialError::Refused { path: shown.clone(), fault };
        // A proxy's file holds the key too.
        let key = Zeroizing::new(read(&self.key, true)?);
        let credential = if self.chain == self.key {
            Credential::from_pem(&key, &key)
        } else {
            Credential::from_pem(&read(&self.chain, false)?, &key)
        };
        let trust = read_authorities(&self.authorities)?;
        // A clock before 1970 finds everything not valid yet.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        check(credential.map_err(refused)?, trust, now).map_err(refused)
    }
}

#[expect(clippy::disallowed_methods, reason = "the user's credentials are no files of a store")]
fn is_there(path: &Path) -> bool {
    path.exists()
}

/// Reads a file. One with a key must be this user's, and nobody else may read it.
#[expect(clippy::disallowed_methods, reason = "the user's credentials are no files of a store")]
fn read(path: &Path, is_secret: bool) -> Result<Vec<u8>, CredentialError> {
    let shown = path.display().to_string();
    let failed = |error| CredentialError::File { path: shown.clone(), error };
    let file = File::open(path).map_err(failed)?;
    // Of the open file: another one may have its name by now.
    let facts = file.metadata().map_err(failed)?;
    if !facts.is_file() {
        return Err(failed(io::Error::other("it is no file")));
    }
    if is_secret && facts.uid() != rustix::process::geteuid().as_raw() {
        return Err(CredentialError::Owner { path: shown, owner: facts.uid() });
    }
    if is_secret && facts.mode() & 0o077 != 0 {
        return Err(CredentialError::Readable(shown));
    }
    // Of its final size at once, so that a key leaves no copies behind.
    let mut bytes = Vec::with_capacity(usize::try_from(facts.len().min(BYTES_MAX)).unwrap_or_default() + 1);
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(failed(io::Error::other("it is too large")));
    }
    Ok(bytes)
}

/// The authorities of a directory: `HASH.0` and on, with `HASH.signing_policy` and `HASH.r0` and on beside them.
#[expect(clippy::disallowed_methods, reason = "the site's authorities are no files of a store")]
fn read_authorities(directory: &Path) -> Result<TrustStore, CredentialError> {
    let shown = directory.display().to_string();
    let failed = |error| CredentialError::File { path: shown.clone(), error };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)?.take(NAMES_MAX) {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.sort();
    let mut trust = TrustStore::default();
    for name in &names {
        let Some((hash, number)) = name.split_once('.') else { continue };
        let is_hash = hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hash || number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let beside = |suffix: &str| {
            names.contains(&format!("{hash}.{suffix}")).then(|| directory.join(format!("{hash}.{suffix}")))
        };
        let policy = beside("signing_policy").map(|path| read(&path, false)).transpose()?;
        let policy = policy.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let lists = (0..10).filter_map(|number| beside(&format!("r{number}")));
        let lists = lists.map(|path| read(&path, false)).collect::<Result<Vec<_>, _>>()?;
        // What is no certificate certifies nothing; whatever else is there still does.
        let _ = trust.add(&read(&directory.join(name), false)?, policy, &lists);
    }
    if trust.is_empty() { Err(CredentialError::NoAuthorities(shown)) } else { Ok(trust) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_where_the_environment_says_first() {
        let places = |set: &[(&'static str, &'static str)]| {
            let set = set.to_vec();
            Places::of(&move |name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()), 7)
        };
        let default = places(&[]);
        assert_eq!(default.chain, Path::new("/tmp/x509up_u7"));
        assert_eq!((default.key, default.authorities, default.is_named), (default.chain, SITE.into(), false));
        let named = places(&[("X509_USER_PROXY", "/p"), ("X509_USER_CERT", "/c"), ("X509_USER_KEY", "/k")]);
        assert_eq!((named.chain, named.key, named.is_named), ("/p".into(), "/p".into(), true));
        let pair = places(&[("X509_USER_CERT", "/c"), ("X509_USER_KEY", "/k"), ("X509_CERT_DIR", "/d")]);
        assert_eq!((pair.chain, pair.key, pair.authorities), ("/c".into(), "/k".into(), "/d".into()));
        let refused = places(&[("X509_USER_PROXY", "")]);
        assert!(refused.chain.as_os_str().is_empty() && !refused.has_credential());
        // A certificate without its key is no credential.
        assert!(!places(&[("X509_USER_CERT", "/c")]).is_named);
    }
}
