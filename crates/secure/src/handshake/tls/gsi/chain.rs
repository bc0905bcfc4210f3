//! A chain with proxies: each was signed by the next certificate, and the first that is no proxy is somebody's own.

use super::certificate::{Parsed, ProxyKind};
use super::fault::GsiFault;
use super::names::{is_below, same};
use super::trust::{Role, TrustStore};

/// Most proxies in a row: each delegation adds one.
const PROXIES_MAX: usize = 16;

/// Who stands behind a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The name of the certificate below all proxies, as `/O=Grid/CN=Anna`.
    pub subject: String,
    /// What the chain may do.
    pub kind: ProxyKind,
    /// The second until which all of the chain is valid.
    pub until: u64,
    /// The certificate below all proxies, in DER.
    pub(super) own: Vec<u8>,
}

/// Checks a chain, its first certificate first, at `now`.
pub(super) fn check(chain: &[&[u8]], trust: &TrustStore, role: Role, now: u64) -> Result<Holder, GsiFault> {
    let mut parsed = Vec::new();
    // What follows the first certificate that is no proxy is read by who checks it.
    for &der in chain {
        let certificate = Parsed::of(der)?;
        let info = certificate.proxy_info()?;
        parsed.push((certificate, info));
        if info.is_none() {
            break;
        }
        if parsed.len() > PROXIES_MAX {
            return Err(GsiFault::TooMany(PROXIES_MAX));
        }
    }
    let Some((_, None)) = parsed.last() else {
        return Err(parsed.last().map_or(GsiFault::Empty, |(last, _)| GsiFault::NoEnd(last.subject())));
    };
    let mut kind = ProxyKind::None;
    let mut until = u64::MAX;
    for at in (0..parsed.len()).rev() {
        let (certificate, info) = &parsed[at];
        let ends = certificate.certificate.tbs_certificate.validity.not_after.to_unix_duration().as_secs();
        until = until.min(ends);
        certificate.check_time(now)?;
        let Some(info) = info else { continue };
        let (signer, _) = &parsed[at + 1];
        check_link(certificate, signer)?;
        // So many proxies are below it.
        if info.further.is_some_and(|further| further < at as u64) {
            return Err(GsiFault::TooDeep(certificate.subject()));
        }
        kind = match (kind, info.kind) {
            (ProxyKind::Limited, ProxyKind::Full) => return Err(GsiFault::Widened(certificate.subject())),
            (ProxyKind::Independent, _) => ProxyKind::Independent,
            (_, kind) => kind,
        };
    }
    let own = chain[parsed.len() - 1].to_vec();
    trust.check(&own, role, now)?;
    let subject = parsed.last().map(|(own, _)| own.subject()).unwrap_or_default();
    Ok(Holder { subject, kind, until, own })
}

/// The name of the certificate below all proxies of a chain that was checked.
pub(super) fn subject(chain: &[&[u8]]) -> Option<String> {
    let parsed = chain.iter().filter_map(|der| Parsed::of(der).ok());
    let mut own = parsed.filter(|certificate| matches!(certificate.proxy_info(), Ok(None)));
    own.next().map(|own| own.subject())
}

/// Checks that one certificate is a proxy of the next one.
fn check_link(proxy: &Parsed, signer: &Parsed) -> Result<(), GsiFault> {
    let (fields, above) = (&proxy.certificate.tbs_certificate, &signer.certificate.tbs_certificate);
    if !same(&fields.issuer, &above.subject) {
        return Err(GsiFault::ProxySignature(proxy.subject(), signer.subject()));
    }
    if !is_below(&fields.subject, &above.subject) {
        return Err(GsiFault::ProxyName(proxy.subject()));
    }
    if !signer.may_sign_proxies() || !proxy.may_sign_proxies() {
        return Err(GsiFault::NotForProxies(signer.subject()));
    }
    match proxy.is_signed_by(signer.key())? {
        true => Ok(()),
        false => Err(GsiFault::ProxySignature(proxy.subject(), signer.subject())),
    }
}
