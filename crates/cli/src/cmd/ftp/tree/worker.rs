//! The session of a thread of a tree copy, and what breaks it.

use xdfs_client::{Error, ErrorKind};
use xdfs_gridftp::client::{self, Session};
use xdfs_gridftp::listing::Entry;

use super::super::error_of;
use super::Shared;

/// Why something of a request was not done.
pub(super) enum Trouble {
    /// This one thing; the session goes on.
    Refused(Error),
    /// The session is of no more use. Whether a new one would do better is the kind's.
    Broken(Error),
}

impl From<client::Error> for Trouble {
    fn from(error: client::Error) -> Self {
        match error {
            client::Error::Refused { .. } | client::Error::ListingTruncated(_) => Self::Refused(error_of(error)),
            // Refused before it was sent.
            client::Error::Control(xdfs_gridftp::control::ControlError::Name(_)) => Self::Refused(error_of(error)),
            error => Self::Broken(error_of(error)),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// A session of a thread, and what the threads share.
pub(super) struct Worker<'s> {
    pub(super) session: Session,
    pub(super) shared: &'s Shared,
}

impl Worker<'_> {
    /// Trouble with one file breaks a session in the middle of a transfer, and says nothing of the
    /// others: with a new session it is a refusal. What is wrong with the server itself stays.
    pub(super) fn mended(&mut self, trouble: Trouble) -> Trouble {
        let Trouble::Broken(error) = trouble else { return trouble };
        let is_of_one_file = matches!(
            error.kind,
            ErrorKind::SourceChanged | ErrorKind::Cancelled | ErrorKind::NoSpace | ErrorKind::Storage
        );
        match self.shared.opener.open() {
            Ok(session) => {
                self.session = session;
                if is_of_one_file { Trouble::Refused(error) } else { Trouble::Broken(error) }
            }
            Err((failure, kind)) if is_of_one_file => Trouble::Broken(Error::new(kind, failure.message)),
            Err(_) => Trouble::Broken(error),
        }
    }

    /// What a path names.
    pub(super) fn found(&mut self, path: &[u8]) -> Result<Entry, Trouble> {
        let found = self.session.look(path)?;
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "no such file").into())
    }

    /// The server's path of a name of the copy: `root/...` or `home/...`.
    pub(super) fn path(&self, name: &[u8]) -> Vec<u8> {
        let (export, below) = match name.iter().position(|&byte| byte == b'/') {
            Some(slash) => (&name[..slash], &name[slash + 1..]),
            None => (name, &b""[..]),
        };
        match export == crate::url::FROM_ROOT.as_bytes() {
            true => [b"/", below].concat(),
            false => self.session.below_home(below),
        }
    }
}

/// The path of a name below a directory, or of the directory itself.
pub(super) fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if name.is_empty() { directory.to_vec() } else { [directory, b"/", name].concat() }
}
