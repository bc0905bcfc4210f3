//! GSI in a session: tokens before the login, wrapped commands and replies after it, and data channels on which both ends
//! show who they are.

use std::os::fd::AsFd;

use base64ct::{Base64, Encoding};
use rustix::event::{PollFd, PollFlags};

use xdfs_secure::handshake::tls::byte_stream::{StreamError, Taken, Tls};
use xdfs_secure::handshake::tls::gsi::{Expected, Extent, Gsi, Handshake};

use super::link::Link;
use super::security::Channels;
use super::{Client, Error, refused};
use crate::command::Command;
use crate::control::{Control, Event};
use crate::reply::{Class, Reply, ReplyReader};

/// What protects data channels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DataProtection {
    /// Nothing: whoever connects first gets the file (DCAU N).
    None,
    /// Both ends show who they are; the bytes are bare (DCAU A, PROT C).
    Authenticated,
    /// Nobody can change the bytes (PROT S).
    Safe,
    /// Nobody can read or change them (PROT P).
    Private,
}

impl DataProtection {
    /// The commands that ask for it.
    pub(super) fn commands(self) -> &'static [Command] {
        match self {
            Self::None => &[Command::TrustData],
            Self::Authenticated => &[Command::AuthenticateData, Command::ProtectClear],
            Self::Safe => &[Command::AuthenticateData, Command::ProtectSafe],
            Self::Private => &[Command::AuthenticateData, Command::ProtectData],
        }
    }

    fn extent(self) -> Option<Extent> {
        match self {
            Self::None => None,
            Self::Authenticated => Some(Extent::Flagged),
            Self::Safe | Self::Private => Some(Extent::Whole),
        }
    }
}

/// How a session with GSI proves both ends.
#[derive(Clone, Debug)]
pub struct GsiPeer {
    /// The own credential and the trusted authorities.
    pub gsi: Gsi,
    /// Who the server must be.
    pub expected: Expected,
    /// What protects data channels. With anything but [`DataProtection::None`] the server gets a proxy for the time of
    /// the session: it shows it on them.
    pub data: DataProtection,
}

impl GsiPeer {
    /// Protects a data channel that the server connected. It connects when it has accepted the transfer, so that nothing
    /// but the data channel has to be waited for.
    pub(super) fn accepted(&self, link: &mut Link) -> Result<(), Error> {
        let Some(extent) = self.data.extent() else { return Ok(()) };
        let tls = link.shake_hands(self.gsi.accept(&Expected::Same, extent)?, &mut |_| Ok(()))?;
        Self::keep(link, tls, extent);
        Ok(())
    }

    fn keep(link: &mut Link, tls: Tls, extent: Extent) {
        if extent == Extent::Whole {
            link.carry(tls);
        }
    }
}

impl Client {
    /// What begins GSI on the control channel, if there is to be some.
    pub(super) fn begin_gsi(&self) -> Result<Option<Handshake>, Error> {
        let Channels::Gsi(peer) = &self.channels else { return Ok(None) };
        let delegates = peer.data != DataProtection::None;
        Ok(Some(peer.gsi.initiate(&peer.expected, Extent::Flagged, delegates)?))
    }

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

    /// Answers a token of the server.
    pub(super) fn on_token(&mut self, handshake: Option<&mut Handshake>, token: &[u8]) -> Result<(), Error> {
        let Some(handshake) = handshake else { return Err(broken("a token that nobody asked for")) };
        let answer = match handshake.step(token) {
            Ok(answer) if answer.is_empty() => return Err(broken("a token that cannot be answered")),
            Ok(answer) => answer,
            Err((error, last)) => {
                // The alert says to the server what is wrong.
                if let Ok(line) = self.control.token(last) {
                    self.link.write_at_once(&line);
                }
                return Err(error.into());
            }
        };
        let line = self.control.token(answer)?;
        self.send(&line)
    }
}

fn broken(what: &str) -> Error {
    StreamError::Protocol(format!("the server sent {what} in the handshake of GSI")).into()
}

/// A control channel whose commands and replies are wrapped.
#[derive(Debug)]
pub(super) struct Wrapped {
    tls: Tls,
    replies: ReplyReader,
}

impl Wrapped {
    /// Begins when the handshake is done.
    pub(super) fn of(handshake: Handshake) -> Result<Self, Error> {
        if !handshake.is_done() {
            return Err(broken("its consent too early"));
        }
        Ok(Self { tls: handshake.into_tls(), replies: ReplyReader::of_tokens() })
    }

    /// Whether the next reply is a listing, which may be long.
    pub(super) fn expect_listing(&mut self, is_listing: bool) {
        self.replies.expect_listing_in_token(is_listing);
    }

    /// A command as it is sent.
    pub(super) fn wrap(&mut self, line: &[u8]) -> Result<Vec<u8>, Error> {
        let mut token = Vec::new();
        let mut rest = line;
        while !rest.is_empty() {
            let put = self.tls.put(rest)?;
            rest = &rest[put..];
            self.tls.output(&mut token);
        }
        Ok(format!("ENC {}\r\n", Base64::encode_string(&token)).into_bytes())
    }

    /// Gives the replies in what arrived to the control machine.
    pub(super) fn unwrap(&mut self, mut bytes: &[u8], control: &mut Control) -> Result<(), Error> {
        loop {
            let (taken, reply) = self.replies.take(bytes).map_err(crate::control::ControlError::from)?;
            bytes = &bytes[taken..];
            let Some(reply) = reply else { return Ok(()) };
            if reply.class() != Class::Protected {
                return Err(Error::Bare(reply.shown()));
            }
            let text = self.open(&reply)?;
            control.receive(&text)?;
        }
    }

    /// The reply within a wrapped one.
    fn open(&mut self, reply: &Reply) -> Result<Vec<u8>, Error> {
        let unreadable = || Error::Tls(StreamError::Protocol("a wrapped reply cannot be read".to_owned()));
        let mut text = Vec::new();
        for line in &reply.lines {
            let digits = str::from_utf8(line.trim_ascii()).map_err(|_| unreadable())?;
            let token = Base64::decode_vec(digits).map_err(|_| unreadable())?;
            let mut rest = &token[..];
            while !rest.is_empty() {
                self.tls.feed(&mut rest)?;
                let mut piece = [0; 4096];
                loop {
                    match self.tls.take(&mut piece)? {
                        Taken::Bytes(0) | Taken::Nothing => break,
                        Taken::Bytes(taken) => text.extend_from_slice(&piece[..taken]),
                        Taken::End => return Err(unreadable()),
                    }
                }
            }
        }
        if text.last() != Some(&b'\n') {
            text.extend_from_slice(b"\r\n");
        }
        Ok(text)
    }
}
