//! Loads the site's certificate and its private key from their files.
//!
//! It must not judge who signed it: that is up to the clients, which name the authorities that they
//! trust.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use xdfs_io::store::{Secrecy, leads_to, read_named};
use xdfs_secure::Zeroizing;
use xdfs_server::{LogEvent, SiteCertificate, SiteError, Validity};

use super::paths::folder_of;
use crate::calendar;
use crate::exit::{Exit, Failure};
use crate::output::complain;
use crate::text::printable_path;

/// Largest file: a chain of a few certificates, or a key.
const BYTES_MAX: usize = 256 << 10;

/// The folders from which a file is read: its own, and that of the target of a symbolic link, which
/// tools that renew certificates like to use.
pub(super) fn folders(path: &Path) -> impl Iterator<Item = PathBuf> {
    let own = folder_of(path);
    let real = leads_to(path).map(|path| folder_of(&path));
    [Some(own), real].into_iter().flatten()
}

/// How long before its end a certificate is reported, to leave time for its renewal: a holiday.
const SOON: u64 = 14 * 86_400;

/// How often an expired certificate is reported while it is presented.
const AGAIN: u64 = 86_400;

/// The certificate that a server presents, and what was reported about its end. It is still
/// presented after it has expired: clients that trust the authority refuse it with the reason,
/// clients that know its key lose nothing, and another key in its place would raise an alarm.
pub(super) struct Shown(Mutex<Option<Told>>);

struct Told {
    validity: Validity,
    /// Its end was reported in advance.
    soon: bool,
    /// The second from which on its expiry is to be reported.
    next: u64,
}

impl Shown {
    /// Presents this certificate, or none; `read` has already reported what there was to report.
    pub(super) fn of(site: Option<&SiteCertificate>, now: u64) -> Self {
        let told =
            site.map(|site| Told { validity: *site.validity(), soon: runs_out_soon(site.validity(), now), next: 0 });
        Self(Mutex::new(told))
    }

    /// Presents what `other` presents.
    pub(super) fn take(&self, other: Self) {
        let other = other.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = other;
    }

    /// The event to report at this second since 1970.
    pub(super) fn look(&self, now: u64) -> Option<LogEvent> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = told.as_mut()?;
        let event = |out| LogEvent::Certificate { until: calendar::shown_unsigned(told.validity.until), out };
        if told.validity.until < now {
            return (now >= told.next).then(|| {
                told.next = now.saturating_add(AGAIN);
                event(true)
            });
        }
        let soon = !told.soon && runs_out_soon(&told.validity, now);
        told.soon |= soon;
        soon.then(|| event(false))
    }
}

fn runs_out_soon(validity: &Validity, now: u64) -> bool {
    validity.until < now.saturating_add(SOON)
}

/// Reads both files, which belong together. A certificate that no client would accept now is an
/// error, and one that expires soon causes a warning.
pub(super) fn read(chain: &Path, key: &Path) -> Result<SiteCertificate, Failure> {
    let certificates = bytes("--certificate", chain, Secrecy::Public)?;
    let private = bytes("--certificate-key", key, Secrecy::Secret)?;
    let site = SiteCertificate::from_pem(&certificates, &private).map_err(|error| {
        let (option, path) = match &error {
            SiteError::Chain(_) => ("--certificate", chain),
            SiteError::Key(_) => ("--certificate-key", key),
        };
        Failure::new(Exit::Local, format!("{option} {}: {error}", printable_path(path)))
    })?;
    let words = |text: String| format!("--certificate {}: {text}", printable_path(chain));
    match judge(site.validity(), calendar::now()) {
        Ok(None) => {}
        Ok(Some(warning)) => complain(&words(warning)),
        Err(error) => return Err(Failure::new(Exit::Local, words(error))),
    }
    Ok(site)
}

/// Whether clients accept a certificate at this second since 1970: a warning if not for long, an
/// error if they do not.
fn judge(validity: &Validity, now: u64) -> Result<Option<String>, String> {
    let [from, until, here] = [validity.from, validity.until, now].map(calendar::shown_unsigned);
    if validity.until < now {
        return Err(format!(
            "it ran out at {until} UTC, and no client would take it; renew it, or leave the certificate and its key away \
             to serve those who know the host key"
        ));
    }
    if validity.from > now {
        return Err(format!(
            "it is good from {from} UTC on, and here it is {here}; is the clock of this machine right?"
        ));
    }
    Ok(runs_out_soon(validity, now)
        .then(|| format!("it runs out at {until} UTC; renew it, and send SIGHUP to the server to have it shown")))
}

fn bytes(option: &str, path: &Path, secrecy: Secrecy) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let missing = || {
        let text = format!("{option} {}: there is no such file\nhelp: name one in PEM", printable_path(path));
        Failure::new(Exit::NotFound, text)
    };
    let bytes = read_named(path, BYTES_MAX, secrecy).map_err(|error| Failure::local(&error))?.ok_or_else(missing)?;
    Ok(Zeroizing::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2023-11-14 22:13:20.
    const NOW: u64 = 1_700_000_000;

    fn judged(from: u64, until: u64) -> Result<Option<String>, String> {
        judge(&Validity { from, until }, NOW)
    }

    #[test]
    fn a_certificate_is_refused_outside_of_its_time_and_complained_about_two_weeks_before_its_end() {
        let long_ago = 946_684_799;
        assert_eq!(judged(long_ago, NOW + SOON), Ok(None));
        assert_eq!(judged(NOW, 253_402_300_799), Ok(None));
        let warning = judged(long_ago, NOW + SOON - 1).unwrap().unwrap();
        assert!(warning.contains("2023-11-28 22:13:19 UTC") && warning.contains("SIGHUP"), "{warning}");
        // Valid in its last second, too.
        assert!(judged(long_ago, NOW).unwrap().is_some());
        let over = judged(long_ago, NOW - 1).unwrap_err();
        assert!(over.contains("ran out at 2023-11-14 22:13:19 UTC") && over.contains("renew"), "{over}");
        let early = judged(NOW + 1, 1_893_456_000).unwrap_err();
        assert!(early.contains("2023-11-14 22:13:20") && early.contains("clock"), "{early}");
    }

    #[test]
    fn a_certificate_that_runs_out_while_it_is_shown_is_told_in_time_at_its_end_and_every_day_after() {
        // 2023-11-28 22:13:20, in two weeks.
        let until = NOW + SOON;
        let validity = Validity { from: 0, until };
        let shown = Shown::of(None, NOW);
        assert_eq!(shown.look(until + 1), None, "there is none");
        let told = Told { soon: runs_out_soon(&validity, NOW), validity, next: 0 };
        *shown.0.lock().unwrap() = Some(told);
        let mut heard = Vec::new();
        for now in [
            NOW - 1,
            NOW,
            NOW + 1,
            NOW + 2,
            until,
            until + 1,
            until + 2,
            until + AGAIN,
            until + AGAIN + 1,
            until + AGAIN + 2,
        ] {
            if let Some(LogEvent::Certificate { until, out }) = shown.look(now) {
                assert_eq!(until, "2023-11-28 22:13:20");
                heard.push((now, out));
            }
        }
        // It is valid in its last second.
        assert_eq!(heard, [(NOW + 1, false), (until + 1, true), (until + AGAIN + 1, true)]);
        // What was reported when it was read is not reported again.
        let validity = Validity { from: 0, until };
        *shown.0.lock().unwrap() = Some(Told { soon: runs_out_soon(&validity, NOW + 1), validity, next: 0 });
        assert_eq!(shown.look(NOW + 5), None);
        shown.take(Shown::of(None, NOW));
        assert_eq!(shown.look(until + 1), None, "it is shown no more");
    }
}
