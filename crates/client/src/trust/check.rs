//! Checks one server's key during the handshake: a key that is pinned or remembered is accepted,
//! every other is rejected.
//!
//! It must not prompt a person, nor remember anything.

use super::{HostName, KnownHosts, Remembered};
use std::sync::{Mutex, PoisonError};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_secure::handshake::{Chain, HostCheck, Shown};
use xdfs_secure::policy::Fingerprint;

/// Why a server's key was rejected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyRejection {
    /// Nothing is known of this server.
    Unknown {
        /// The key that it presented.
        shown: Fingerprint,
    },
    /// The roots do not certify it, and nothing else does.
    Uncertified {
        /// Why its certificate is invalid.
        why: String,
    },
    /// Another key is remembered, or pinned by the URL.
    Changed {
        /// The key that it presented.
        shown: Fingerprint,
        /// The expected key.
        expected: Fingerprint,
        /// Since when it is remembered; `None` if it is pinned by the URL.
        since: Option<u64>,
    },
}

/// The check of one server's key, called during the handshake; [`Trust::doubt`] returns the reason
/// of a rejection afterwards.
#[derive(Debug)]
pub struct Trust {
    host: HostName,
    /// The key that the URL pins: nothing else counts then.
    pinned: Option<Fingerprint>,
    remembered: Option<Remembered>,
    doubt: Mutex<Option<KeyRejection>>,
}

impl Trust {
    /// The check for `host`.
    pub fn new(host: HostName, pinned: Option<Fingerprint>, known: &KnownHosts) -> Self {
        let remembered = known.find(&host).copied();
        Self { host, pinned, remembered, doubt: Mutex::new(None) }
    }

    /// Why the last check refused.
    pub fn doubt(&self) -> Option<KeyRejection> {
        self.doubt.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The only acceptable key, if there is one.
    pub fn expected(&self) -> Option<Fingerprint> {
        self.pinned.or(self.remembered.map(|remembered| remembered.fingerprint))
    }

    fn judge(&self, shown: &Shown) -> Option<KeyRejection> {
        let expected = match (self.pinned, self.remembered) {
            (Some(pinned), _) => Some((pinned, None)),
            (None, Some(remembered)) => Some((remembered.fingerprint, Some(remembered.since))),
            (None, None) => None,
        };
        let key = shown.fingerprint;
        match expected {
            Some((expected, _)) if expected == key => None,
            Some((expected, since)) => Some(KeyRejection::Changed { shown: key, expected, since }),
            None => match &shown.chain {
                // A site's own authority certifies it.
                Chain::Good => None,
                Chain::Bad(why) => Some(KeyRejection::Uncertified { why: why.clone() }),
                Chain::Unasked => Some(KeyRejection::Unknown { shown: key }),
            },
        }
    }
}

impl HostCheck for Trust {
    fn check(&self, _host: &str, _port: u16, shown: &Shown) -> Result<(), Error> {
        let doubt = self.judge(shown);
        *self.doubt.lock().unwrap_or_else(PoisonError::into_inner) = doubt.clone();
        match doubt {
            None => Ok(()),
            Some(doubt) => Err(Error::new(ErrorKind::Refused, doubt.describe(&self.host))),
        }
    }
}

impl KeyRejection {
    /// The reason as a sentence.
    pub fn describe(&self, host: &HostName) -> String {
        match self {
            Self::Unknown { shown } => format!("the server {host} shows the key {shown}, which is not known here"),
            Self::Uncertified { why } => format!("the certificate of the server {host} is not good: {why}"),
            Self::Changed { shown, expected, .. } => {
                format!("the server {host} shows the key {shown}, expected is {expected}")
            }
        }
    }
}
