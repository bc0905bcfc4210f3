//! The site's certificate and its private key, from their files.
//!
//! It must not judge who signed it: that is the clients' business, who name the authorities that they believe.

use std::path::{Path, PathBuf};

use xdfs_secure::Zeroizing;
use xdfs_server::{SiteCertificate, SiteError};
use xdfs_xio::store::{Secrecy, leads_to, read_named};

use super::super::key::failed;
use super::offer::folder_of;
use crate::exit::{Exit, Failure};
use crate::text::printable_path;

/// Largest file: a chain of a few certificates, or a key.
const BYTES_MAX: usize = 256 << 10;

/// The folders from which a file is read: its own, and that of the file that a link in it leads to, as those who renew
/// certificates like to have it.
pub(super) fn folders(path: &Path) -> impl Iterator<Item = PathBuf> {
    let own = folder_of(path);
    let real = leads_to(path).map(|path| folder_of(&path));
    [Some(own), real].into_iter().flatten()
}

/// Reads both files, which belong together.
pub(super) fn read(chain: &Path, key: &Path) -> Result<SiteCertificate, Failure> {
    let certificates = bytes("--certificate", chain, Secrecy::Public)?;
    let private = bytes("--certificate-key", key, Secrecy::Secret)?;
    SiteCertificate::from_pem(&certificates, &private).map_err(|error| {
        let (option, path) = match &error {
            SiteError::Chain(_) => ("--certificate", chain),
            SiteError::Key(_) => ("--certificate-key", key),
        };
        Failure::new(Exit::LocalStorage, format!("{option} {}: {error}", printable_path(path)))
    })
}

fn bytes(option: &str, path: &Path, secrecy: Secrecy) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let missing = || {
        let text = format!("{option} {}: there is no such file; name one in PEM", printable_path(path));
        Failure::new(Exit::LocalStorage, text)
    };
    let bytes = read_named(path, BYTES_MAX, secrecy).map_err(|error| failed(&error))?.ok_or_else(missing)?;
    Ok(Zeroizing::new(bytes))
}
