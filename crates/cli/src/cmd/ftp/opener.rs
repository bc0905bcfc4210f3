//! Opens sessions with an FTP server whose login is known.

use std::sync::Arc;
use std::time::Duration;

use xdfs_client::{Error, ErrorKind, Level};
use xdfs_gridftp::client::{self, Peer, Security, Session, Settings, Waiting};
use xdfs_gridftp::command::Login;
use xdfs_secure::handshake::tls::byte_stream::StreamError;
use xdfs_secure::handshake::tls::related::Authorities;

use super::{NoSession, error_of};
use crate::address;
use crate::cmd::authorities::named_or_system;
use crate::exit::{Exit, Failure, Side};
use crate::plan::LoginPlan;
use crate::signal::StopFlag;
use crate::url::{Ftp, Url, Via};

/// How long a server may be silent.
const WAIT: Duration = Duration::from_secs(60);

/// The port on which TLS begins with the first byte.
const IMPLICIT_PORT: u16 = 990;

/// Opens sessions with a server.
#[derive(Debug)]
pub(super) struct Opener {
    url: Url,
    login: Login,
    settings: Settings,
    level: Level,
}

impl Opener {
    /// What protects the sessions, and how much that protects the data.
    pub(super) fn new(url: &Url, login: Login, security: Security, level: Level, stop: &StopFlag) -> Self {
        let settings = Settings { waiting: Waiting { limit: WAIT, stop: Arc::clone(stop) }, security };
        Self { url: url.clone(), login, settings, level }
    }

    /// Opens a session; every address of the server is tried.
    pub(super) fn open(&self) -> Result<Session, NoSession> {
        let addresses = address::resolve(&self.url).map_err(|failure| (failure, ErrorKind::ConnectionLost))?;
        let mut last = None;
        for address in addresses {
            match Session::open(address, self.login.clone(), self.settings.clone()) {
                Ok(session) => return Ok(session),
                Err(error @ client::Error::Connect { .. }) => last = Some(error),
                Err(error) => return Err(self.failed(error)),
            }
        }
        let lost = (Failure::new(Exit::ConnectionLost, format!("{}: no address", self.url)), ErrorKind::ConnectionLost);
        Err(last.map_or(lost, |error| self.failed(error)))
    }

    /// Whether the server is one of GridFTP.
    pub(super) fn is_grid(&self) -> bool {
        self.url.via == Via::Ftp(Ftp::Grid)
    }

    /// How the data are protected.
    pub(super) fn level(&self) -> Level {
        self.level
    }

    fn failed(&self, error: client::Error) -> NoSession {
        let is_untrusted = matches!(error, client::Error::Tls(StreamError::Untrusted(_)));
        let error: Error = error_of(error);
        let text = format!("{}: {error}", self.url);
        if !is_untrusted {
            return (Failure::new(Exit::of_error(&error, Side::Peer), text), error.kind);
        }
        if matches!(self.settings.security, Security::Gsi(_)) {
            let remedy = "connect by the name that the certificate is for; X509_CERT_DIR names the directory of the authorities \
                          that are trusted";
            return (Failure::new(Exit::NotTrusted, format!("{text}; no name was sent")).help(remedy), error.kind);
        }
        let remedy = "connect by the name that the certificate is for, and name the authority that signed it with --ca FILE \
                      (PEM); of a certificate that nobody signed, name the certificate itself, after comparing it with the \
                      server's";
        (Failure::new(Exit::NotTrusted, format!("{text}; nothing was sent")).help(remedy), error.kind)
    }
}

/// TLS with a URL's server.
pub(super) fn security(url: &Url, authorities: Authorities) -> Security {
    let peer = Peer { host: url.host.to_string(), authorities };
    if url.port == IMPLICIT_PORT { Security::Implicit(peer) } else { Security::Explicit(peer) }
}

/// Who may certify servers: those that `--ca` names, or those of this machine.
pub(super) fn authorities(plan: &LoginPlan) -> Result<Authorities, Failure> {
    let certificates = named_or_system(plan)?;
    Authorities::new(&certificates).map_err(|error| Failure::new(Exit::Local, error.to_string()))
}
