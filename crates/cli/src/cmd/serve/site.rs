//! The site's certificate and its private key, from their files.
//!
//! It must not judge who signed it: that is the clients' business, who name the authorities that they believe.

use std::path::{Path, PathBuf};

use xdfs_secure::Zeroizing;
use xdfs_server::{SiteCertificate, SiteError, Validity};
use xdfs_xio::store::{Secrecy, leads_to, read_named};

use super::super::key::failed;
use super::offer::folder_of;
use crate::calendar;
use crate::exit::{Exit, Failure};
use crate::output::complain;
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

/// Somebody has this long to renew a certificate once it is complained about: a holiday.
const SOON: u64 = 14 * 86_400;

/// Reads both files, which belong together. A certificate that nobody would take now is an error, and one that runs out soon
/// is complained about.
pub(super) fn read(chain: &Path, key: &Path) -> Result<SiteCertificate, Failure> {
    let certificates = bytes("--certificate", chain, Secrecy::Public)?;
    let private = bytes("--certificate-key", key, Secrecy::Secret)?;
    let site = SiteCertificate::from_pem(&certificates, &private).map_err(|error| {
        let (option, path) = match &error {
            SiteError::Chain(_) => ("--certificate", chain),
            SiteError::Key(_) => ("--certificate-key", key),
        };
        Failure::new(Exit::LocalStorage, format!("{option} {}: {error}", printable_path(path)))
    })?;
    let words = |text: String| format!("--certificate {}: {text}", printable_path(chain));
    match judge(site.validity(), calendar::now()) {
        Ok(None) => {}
        Ok(Some(warning)) => complain(&words(warning)),
        Err(error) => return Err(Failure::new(Exit::LocalStorage, words(error))),
    }
    Ok(site)
}

/// Whether clients take a certificate at this second since 1970: a warning where not for long, an error where they do not.
fn judge(validity: &Validity, now: u64) -> Result<Option<String>, String> {
    let Validity { from, until } = validity;
    let at = |seconds: u64| calendar::shown_unsigned(seconds);
    if *until < at(now) {
        return Err(format!(
            "it ran out at {until} UTC, and no client would take it; renew it, or leave the certificate and its key away \
             to serve those who know the host key"
        ));
    }
    if *from > at(now) {
        return Err(format!(
            "it is good from {from} UTC on, and here it is {}; is the clock of this machine right?",
            at(now)
        ));
    }
    let soon = *until < at(now.saturating_add(SOON));
    Ok(soon.then(|| format!("it runs out at {until} UTC; renew it, and send SIGHUP to the server to have it shown")))
}

fn bytes(option: &str, path: &Path, secrecy: Secrecy) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let missing = || {
        let text = format!("{option} {}: there is no such file; name one in PEM", printable_path(path));
        Failure::new(Exit::LocalStorage, text)
    };
    let bytes = read_named(path, BYTES_MAX, secrecy).map_err(|error| failed(&error))?.ok_or_else(missing)?;
    Ok(Zeroizing::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2023-11-14 22:13:20.
    const NOW: u64 = 1_700_000_000;

    fn judged(from: &str, until: &str) -> Result<Option<String>, String> {
        judge(&Validity { from: from.to_owned(), until: until.to_owned() }, NOW)
    }

    #[test]
    fn a_certificate_is_refused_outside_of_its_time_and_complained_about_two_weeks_before_its_end() {
        let long_ago = "1999-12-31 23:59:59";
        assert_eq!(judged(long_ago, "2023-11-28 22:13:20"), Ok(None));
        assert_eq!(judged("2023-11-14 22:13:20", "9999-12-31 23:59:59"), Ok(None));
        let warning = judged(long_ago, "2023-11-28 22:13:19").unwrap().unwrap();
        assert!(warning.contains("2023-11-28 22:13:19 UTC") && warning.contains("SIGHUP"), "{warning}");
        // Good in its last second, too.
        assert!(judged(long_ago, "2023-11-14 22:13:20").unwrap().is_some());
        let over = judged(long_ago, "2023-11-14 22:13:19").unwrap_err();
        assert!(over.contains("ran out at 2023-11-14 22:13:19 UTC") && over.contains("renew"), "{over}");
        let early = judged("2023-11-14 22:13:21", "2030-01-01 00:00:00").unwrap_err();
        assert!(early.contains("2023-11-14 22:13:20") && early.contains("clock"), "{early}");
    }
}
