//! Why a credential or a certificate is refused, each reason in its own words.

/// Why a credential or a certificate is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GsiFault {
    /// It is no certificate, or has a form that is not understood.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// The file has no certificate.
    #[error("there is no certificate in it")]
    Empty,
    /// The key is not that of the certificate.
    #[error("the private key is not that of its first certificate")]
    Key,
    /// It was valid.
    #[error("'{subject}' has expired: it was valid until {until}; make a new proxy with grid-proxy-init")]
    Expired {
        /// Whose certificate.
        subject: String,
        /// Until when.
        until: String,
    },
    /// It will be valid.
    #[error("'{subject}' is not valid before {from}; is the clock of this machine right?")]
    NotYetValid {
        /// Whose certificate.
        subject: String,
        /// From when.
        from: String,
    },
    /// A proxy as there were before RFC 3820.
    #[error("'{0}' is a proxy of an old kind; make one with grid-proxy-init -rfc")]
    Legacy(String),
    /// A proxy whose name is not its signer's and one more.
    #[error("the proxy '{0}' does not have the name of its signer with one CN behind it")]
    ProxyName(String),
    /// A proxy that somebody else signed.
    #[error("the proxy '{0}' was not signed by '{1}'")]
    ProxySignature(String, String),
    /// A limited proxy gives no more than it has.
    #[error("the proxy '{0}' was signed by a limited proxy and is not limited itself")]
    Widened(String),
    /// More proxies than one of them permits.
    #[error("'{0}' permits no further proxy")]
    TooDeep(String),
    /// More proxies than are followed.
    #[error("there are more than {0} proxies in a row")]
    TooMany(usize),
    /// A certificate that may sign no proxy.
    #[error("'{0}' may sign no proxy: its key is not for signatures, or it is an authority")]
    NotForProxies(String),
    /// A proxy whose policy nobody here knows.
    #[error("the proxy '{0}' has a policy that is not known here ({1})")]
    Policy(String, String),
    /// The end of the chain is missing.
    #[error("the certificate that signed the proxy '{0}' is missing")]
    NoEnd(String),
    /// The authority is not trusted.
    #[error("'{subject}' was signed by '{issuer}', which is not among the trusted authorities")]
    Unknown {
        /// Whose certificate.
        subject: String,
        /// Who signed it.
        issuer: String,
    },
    /// It was revoked.
    #[error("'{0}' was revoked by its authority")]
    Revoked(String),
    /// Nobody can say whether it was.
    #[error("the revocation list of '{0}' cannot be used: {1}; fetch a new one (fetch-crl)")]
    List(String, String),
    /// The chain is broken elsewhere.
    #[error("'{0}' is not accepted: {1}")]
    Chain(String, String),
    /// The authority has no signing policy.
    #[error("the authority '{0}' has no signing policy (HASH.signing_policy beside its certificate)")]
    NoSigningPolicy(String),
    /// The authority may not sign this name.
    #[error("the authority '{issuer}' may not sign '{subject}' by its signing policy")]
    SigningPolicy {
        /// Whose certificate.
        subject: String,
        /// Who signed it.
        issuer: String,
    },
    /// Another host.
    #[error("the server's certificate is for '{shown}' and not for the host '{expected}'")]
    Host {
        /// Whose certificate was shown.
        shown: String,
        /// Which host was expected.
        expected: String,
    },
    /// Another subject.
    #[error("the other end is '{shown}', expected is '{expected}'")]
    Subject {
        /// Whose certificate was shown.
        shown: String,
        /// Who was expected.
        expected: String,
    },
    /// A server with a limited proxy.
    #[error("the server shows a limited proxy of '{0}', which proves no server")]
    Limited(String),
    /// A user with a limited proxy.
    #[error(
        "the other end shows a limited proxy of '{0}', which is not enough here; make a full one with grid-proxy-init"
    )]
    LimitedUser(String),
    /// A proxy that has rights of its own alone.
    #[error("the proxy '{0}' is independent: it does not stand for who signed it")]
    Independent(String),
}

impl From<x509_cert::der::Error> for GsiFault {
    fn from(error: x509_cert::der::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}
