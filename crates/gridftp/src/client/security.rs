//! What protects a session: nothing, or TLS on the control channel and on every data channel.

use xdfs_secure::handshake::tls::related::{Authorities, RelatedConnections, Version};

use super::link::{Link, Waiting};
use super::{Client, Error};
use crate::command::Command;
use crate::control::Protection;

/// How a client connects.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long it waits.
    pub waiting: Waiting,
    /// What protects the session.
    pub security: Security,
}

impl<W: Into<Waiting>> From<W> for Settings {
    /// In the clear.
    fn from(waiting: W) -> Self {
        Self { waiting: waiting.into(), security: Security::Clear }
    }
}

/// What protects a session.
#[derive(Clone, Debug)]
pub enum Security {
    /// Nothing: names, contents and passwords can be read and changed by whoever is between.
    Clear,
    /// TLS, asked for on the port of plain FTP (RFC 4217).
    Explicit(Peer),
    /// TLS from the first byte, on a port of its own.
    Implicit(Peer),
}

/// Who the server must be.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The name or address that its certificate must be for.
    pub host: String,
    /// Who may have signed it.
    pub authorities: Authorities,
}

impl Security {
    pub(super) fn of_control(&self) -> Protection {
        if matches!(self, Self::Explicit(_)) { Protection::AuthTls } else { Protection::None }
    }
}

/// The protection of the channels of one session, all of which resume one session of TLS: servers
/// refuse data channels that cannot have been opened by who logged in.
#[derive(Debug)]
pub(super) struct Channels(Option<RelatedConnections>);

impl Channels {
    pub(super) fn of(security: &Security, version: Version) -> Result<Self, Error> {
        match security {
            Security::Clear => Ok(Self(None)),
            Security::Explicit(peer) | Security::Implicit(peer) => {
                Ok(Self(Some(RelatedConnections::new(&peer.authorities, &peer.host, version)?)))
            }
        }
    }

    pub(super) fn are_protected(&self) -> bool {
        self.0.is_some()
    }

    /// Begins TLS on a channel, where there is to be some.
    pub(super) fn protect(&self, link: &mut Link) -> Result<(), Error> {
        if let Some(connections) = &self.0 {
            link.protect(connections.start()?)?;
        }
        Ok(())
    }
}

impl Client {
    /// Begins TLS on a data channel whose transfer the server has begun. Where that fails the server
    /// may say why.
    pub(super) fn protect_data(&mut self, data: &mut Link, command: &Command) -> Result<(), Error> {
        match self.channels.protect(data) {
            Err(error @ Error::Lost(_)) => Err(self.why(command, error)),
            other => other,
        }
    }

    /// What the server says of a data channel that was lost, if it says something.
    pub(super) fn why(&mut self, command: &Command, lost: Error) -> Error {
        self.finish(command).err().unwrap_or(lost)
    }
}
