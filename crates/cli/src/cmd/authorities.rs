//! The authorities that are trusted to certify a server's name: from a file, or those of this
//! machine.

use std::path::{Path, PathBuf};

use xdfs_client::read_roots;
use xdfs_io::store::{Secrecy, read_named};

use crate::exit::{Exit, Failure};
use crate::plan::LoginPlan;
use crate::text::printable_path;

/// Where systems keep trusted authorities: Debian and Arch, Fedora and RHEL, openSUSE, Alpine and
/// the BSDs.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Largest file: a system's has some 250 KiB.
const BYTES_MAX: usize = 8 << 20;

/// The authorities that `--ca` or XDFS_CA names, or those of this machine.
pub(super) fn named_or_system(login: &LoginPlan) -> Result<Vec<Vec<u8>>, Failure> {
    named(login)?.map_or_else(|| of_system("--ca"), Ok)
}

/// The authorities that `--ca` or XDFS_CA names; `None` if neither is set.
pub(super) fn named(login: &LoginPlan) -> Result<Option<Vec<Vec<u8>>>, Failure> {
    let variable = || std::env::var_os("XDFS_CA").filter(|value| !value.is_empty()).map(PathBuf::from);
    let (path, said) = match (&login.ca, variable()) {
        (Some(path), _) => (path.clone(), "--ca"),
        (None, Some(path)) => (path, "XDFS_CA"),
        (None, None) => return Ok(None),
    };
    if path.as_os_str() != "system" {
        return read(said, &path).map(Some);
    }
    of_system(said).map(Some)
}

fn of_system(said: &str) -> Result<Vec<Vec<u8>>, Failure> {
    let Some(path) = SYSTEM.iter().map(Path::new).find(|path| path.exists()) else {
        let text =
            format!("{said} system: this machine has no list of authorities\nhelp: name a file with them in PEM");
        return Err(Failure::new(Exit::NotFound, text));
    };
    read(said, path)
}

fn read(said: &str, path: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let shown = printable_path(path);
    let missing = || {
        let text =
            format!("{said} {shown}: there is no such file\nhelp: name one with the authority's certificate in PEM");
        Failure::new(Exit::NotFound, text)
    };
    let bytes =
        read_named(path, BYTES_MAX, Secrecy::Public).map_err(|error| Failure::local(&error))?.ok_or_else(missing)?;
    read_roots(&bytes).map_err(|error| Failure::new(Exit::Local, format!("{said} {shown}: {error}")))
}
