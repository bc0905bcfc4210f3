//! Logins by certificate, which `gsiftp` URLs get where the user has one.

use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use xdfs_secure::handshake::tls::gsi::{Expected, Gsi};
use xdfs_xio::credentials::Places;
use xdfs_xio::{Attributes, Contact, Error, ErrorKind, Result};

use crate::client::{DataProtection, GsiPeer, Security};

/// The attributes that only such logins have.
const ATTRIBUTES: [&str; 4] = ["protection", "credential", "key", "authorities"];

/// How both ends prove who they are.
#[derive(Clone, Debug)]
pub(super) struct Certified {
    gsi: Arc<Gsi>,
    expected: Expected,
    data: DataProtection,
    /// Where the trusted authorities are.
    authorities: PathBuf,
}

impl Certified {
    /// For a contact of a server of GridFTP; none if it logs in otherwise: as its URL or its `login` says, or because the
    /// user has no certificate and nothing asks for one.
    pub(super) fn of(contact: &Contact, attributes: &Attributes) -> Result<Option<Self>> {
        let names_another = contact.password().is_some() || matches!(contact.user(), Some("anonymous" | "ftp"));
        let asked_for = Self::is_asked_for(contact, attributes);
        let places = places(attributes)?;
        match (names_another, asked_for) {
            (true, true) => {
                let what = "a subject and the attributes of certificates are for logins by certificate: leave out either \
                            them or the login";
                return Err(usage(what.to_owned()));
            }
            (true, false) => return Ok(None),
            (false, false) if !places.has_credential() => return Ok(None),
            (false, _) => {}
        }
        let subject = contact.subject().map(|subject| Expected::Subject(subject.to_owned()));
        let host = || contact.host().map(|host| Expected::Host(host.to_owned()));
        let expected = subject.or_else(host).ok_or_else(|| usage("the host is missing".to_owned()))?;
        let data = match attributes.text("protection").unwrap_or("private") {
            "private" => DataProtection::Private,
            "integrity" => DataProtection::Safe,
            "clear" => DataProtection::Authenticated,
            other => {
                let what = format!("'protection' is private, integrity or clear, not '{}'", other.escape_debug());
                return Err(usage(what));
            }
        };
        let gsi = places.load().map_err(|error| Error::new(ErrorKind::Denied, error.to_string()))?;
        Ok(Some(Self { gsi: Arc::new(gsi), expected, data, authorities: places.authorities }))
    }

    /// Whether the contact or an attribute is of no use without a certificate.
    pub(super) fn is_asked_for(contact: &Contact, attributes: &Attributes) -> bool {
        contact.subject().is_some() || ATTRIBUTES.iter().any(|name| attributes.text(name).is_some())
    }

    /// What a session is opened with.
    pub(super) fn security(&self) -> Security {
        let (gsi, expected, data) = ((*self.gsi).clone(), self.expected.clone(), self.data);
        Security::Gsi(GsiPeer { gsi, expected, data })
    }

    /// What makes a session another one.
    fn identity(&self) -> (&[u8], &Expected, DataProtection, &PathBuf) {
        (self.gsi.certificate(), &self.expected, self.data, &self.authorities)
    }
}

impl PartialEq for Certified {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Certified {}

impl Hash for Certified {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

fn places(attributes: &Attributes) -> Result<Places> {
    let path = |name| attributes.text(name).map(PathBuf::from);
    Places::of_environment()
        .with(path("credential"), path("key"), path("authorities"))
        .ok_or_else(|| usage("the attribute 'key' needs 'credential'".to_owned()))
}

fn usage(what: String) -> Error {
    Error::new(ErrorKind::Usage, what)
}
