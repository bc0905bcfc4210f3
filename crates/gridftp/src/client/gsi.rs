//! GSI in a session: what it proves and protects, tokens before the login, and wrapped commands and replies after it.

use base64ct::{Base64, Encoding};

use xdfs_secure::handshake::tls::byte_stream::{StreamError, Taken, Tls};
use xdfs_secure::handshake::tls::gsi::{Expected, Extent, Gsi, Handshake};

use super::link::Link;
use super::{Client, Error};
use crate::command::Command;
use crate::control::Control;
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

    /// How much of a data channel GSI protects; none if nobody shows who they are on it.
    pub(super) fn extent(self) -> Option<Extent> {
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

    /// Leaves TLS on the channel if it protects more than its beginning.
    pub(super) fn keep(link: &mut Link, tls: Tls, extent: Extent) {
        if extent == Extent::Whole {
            link.carry(tls);
        }
    }
}

impl Client {
    /// Answers a token of the server.
    pub(super) fn on_token(&mut self, token: &[u8]) -> Result<(), Error> {
        let Framing::Handshake(handshake) = &mut self.framing else {
            return Err(broken("a token that nobody asked for"));
        };
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

    /// Protects the control channel, as the server has consented to.
    pub(super) fn on_secure(&mut self) -> Result<(), Error> {
        self.framing = match std::mem::replace(&mut self.framing, Framing::Bare) {
            Framing::Handshake(handshake) => Framing::Wrapped(Wrapped::of(handshake)?),
            framing @ (Framing::Bare | Framing::Wrapped(_)) => {
                self.channels.protect(&mut self.link)?;
                framing
            }
        };
        Ok(())
    }
}

fn broken(what: &str) -> Error {
    StreamError::Protocol(format!("the server sent {what} in the handshake of GSI")).into()
}

/// How commands and replies go over a control channel.
#[derive(Debug)]
pub(super) enum Framing {
    /// As they are.
    Bare,
    /// The same, while the handshake of GSI is under way in some of them.
    Handshake(Handshake),
    /// Wrapped: GSI protects them.
    Wrapped(Wrapped),
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
