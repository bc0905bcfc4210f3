//! What protects a session: nothing, or TLS or GSI on the control channel and on the data channels.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use xdfs_secure::handshake::tls::gsi::{Expected, Extent};
use xdfs_secure::handshake::tls::related::{Authorities, RelatedConnections, Version};

use super::gsi::{DataProtection, Framing, GsiPeer};
use super::link::{Link, Waiting};
use super::{Client, Error, refused};
use crate::command::Command;
use crate::control::{Event, Protection};

/// How long the reason for a lost data channel is waited for.
const WHY_LIMIT: Duration = Duration::from_secs(10);

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
    /// GSI: both ends show certificates.
    Gsi(GsiPeer),
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
        match self {
            Self::Clear | Self::Implicit(_) => Protection::None,
            Self::Explicit(_) => Protection::AuthTls,
            Self::Gsi(_) => Protection::AuthGssapi,
        }
    }
}

/// The protection of the channels of one session. With TLS all of them resume one session of it: servers refuse data
/// channels that cannot have been opened by who logged in.
#[derive(Debug)]
pub(super) enum Channels {
    Clear,
    Tls(RelatedConnections),
    Gsi(GsiPeer),
}

impl Channels {
    pub(super) fn of(security: &Security, version: Version) -> Result<Self, Error> {
        match security {
            Security::Clear => Ok(Self::Clear),
            Security::Gsi(peer) => Ok(Self::Gsi(peer.clone())),
            Security::Explicit(peer) | Security::Implicit(peer) => {
                Ok(Self::Tls(RelatedConnections::new(&peer.authorities, &peer.host, version)?))
            }
        }
    }

    /// How a control channel begins: with GSI, if there is to be some.
    pub(super) fn framing(&self) -> Result<Framing, Error> {
        let Self::Gsi(peer) = self else { return Ok(Framing::Bare) };
        let delegates = peer.data != DataProtection::None;
        Ok(Framing::Handshake(peer.gsi.initiate(&peer.expected, Extent::Flagged, delegates)?))
    }

    /// Whether one connection carries a file, whatever was asked for.
    pub(super) fn are_single(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Begins TLS on a channel that we connected, where there is to be some; GSI begins in other ways.
    pub(super) fn protect(&self, link: &mut Link) -> Result<(), Error> {
        if let Self::Tls(connections) = self {
            link.protect(connections.start()?)?;
        }
        Ok(())
    }

    /// Begins what protects a data channel that the server connected.
    pub(super) fn accept(&self, link: &mut Link) -> Result<(), Error> {
        match self {
            Self::Clear | Self::Tls(_) => Ok(()),
            Self::Gsi(peer) => peer.accepted(link),
        }
    }
}

impl Client {
    /// Protects a data channel that we connected and whose transfer was asked for, if GSI is to protect it. The server
    /// may refuse the transfer meanwhile: then nobody answers on the data channel. Returns whether it has opened.
    pub(super) fn protect_connected(&mut self, data: &mut Link, command: &Command) -> Result<bool, Error> {
        let mut is_opened = false;
        let Channels::Gsi(peer) = &self.channels else { return Ok(is_opened) };
        let Some(extent) = peer.data.extent() else { return Ok(is_opened) };
        let handshake = peer.gsi.initiate(&Expected::Same, extent, false)?;
        let tls = data.shake_hands(handshake, &mut |data| {
            let deadline = self.waiting.deadline();
            loop {
                while let Some(event) = self.control.poll() {
                    match event {
                        Event::Opened => is_opened = true,
                        Event::Refused(reply) => return Err(refused(command, &reply)),
                        Event::Answered(reply) => {
                            return Err(Error::Answer { verb: command.verb(), reply: reply.shown() });
                        }
                        _ => {}
                    }
                }
                let fds = [data.as_fd(), self.link.as_fd()];
                let mut waited = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
                self.waiting.until_ready(&mut waited, deadline)?;
                if !waited[0].revents().is_empty() {
                    return Ok(());
                }
                self.read_control(deadline)?;
            }
        });
        match tls {
            Ok(tls) => GsiPeer::keep(data, tls, extent),
            Err(error @ Error::Lost(_)) => return Err(self.why(command, error)),
            Err(error) => return Err(error),
        }
        Ok(is_opened)
    }

    /// Asks for the protection of data channels after the login.
    pub(super) fn ask_protection(&mut self) -> Result<(), Error> {
        let commands: &[Command] = match &self.channels {
            Channels::Clear => &[],
            Channels::Tls(_) => &[Command::ProtectionBuffer, Command::ProtectData],
            Channels::Gsi(peer) => peer.data.commands(),
        };
        commands.iter().try_for_each(|command| self.ask(command).map(drop))
    }

    /// Begins a transfer whose data channel is connected, waits until it opens, and protects it.
    pub(super) fn open_data(&mut self, data: &mut Link, command: &Command) -> Result<(), Error> {
        self.begin(command)?;
        // Servers with GSI say that it has opened when both ends have shown who they are, those with TLS before it begins.
        if !self.protect_connected(data, command)? {
            self.wait_until_open(command)?;
        }
        match self.channels.protect(data) {
            Err(error @ Error::Lost(_)) => Err(self.why(command, error)),
            other => other,
        }
    }

    /// What the server says of a data channel that was lost, if it says something soon: some never do.
    pub(super) fn why(&mut self, command: &Command, lost: Error) -> Error {
        let deadline = self.waiting.deadline().min(Instant::now() + WHY_LIMIT);
        loop {
            match self.event_before(deadline) {
                Ok(Event::Refused(reply)) => return refused(command, &reply),
                Ok(Event::Answered(_)) | Err(Error::Silent(_)) => return lost,
                Ok(_) => {}
                Err(error) => return error,
            }
        }
    }
}
