//! Records between the session machine and the transport: what protects those of a channel, and one
//! whose head has arrived.
//!
//! Every driver of a session reads heads and judges them here: the pump, and an idle pipeline.

use xdfs_io::dispatch::HEAD_BYTES;
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Instant, KeyLimits, Level};
use xdfs_proto::session::{Fault, HeadVerdict, Session};
use xdfs_proto::wire::Head;
use xdfs_secure::keys::DirectionKeys;
use xdfs_secure::record::{HEAD_BYTES as BARE_BYTES, Opener, Sealer, TAG_BYTES, Tag};

/// What protects the records of a channel, in both directions.
#[derive(Debug)]
pub struct RecordLayer {
    /// Seals outgoing records.
    pub(crate) sealer: Sealer,
    /// Opens incoming records.
    pub(crate) opener: Opener,
}

impl RecordLayer {
    /// The protection with these keys, each of which protects no more than `limits` says.
    pub fn new(seal: DirectionKeys, open: DirectionKeys, limits: KeyLimits) -> Result<Self, Error> {
        Ok(Self { sealer: Sealer::new(seal, limits)?, opener: Opener::new(open, limits)? })
    }
}

/// A record whose head has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// Head and tag as they arrived.
    pub(crate) raw: [u8; HEAD_BYTES],
    /// The head, decoded.
    pub(crate) head: Head,
    /// The tag was already verified (level clear).
    pub(crate) proved: bool,
}

/// Why a record was not accepted, by what has to be given up for it.
#[derive(Debug)]
pub(crate) enum Rejected {
    /// Its author is unknown, or the channel cannot go on: the channel is lost, the session stays.
    Channel(Error),
    /// Its author is the peer, who violates the protocol: the session ends, and the peer is told why.
    Session(Fault),
}

impl Record {
    /// The record with this head and tag; nothing of it is verified yet.
    pub(crate) fn decode(raw: [u8; HEAD_BYTES]) -> Result<Self, Error> {
        let mut bytes = [0; BARE_BYTES];
        bytes.copy_from_slice(&raw[..BARE_BYTES]);
        let head = Head::decode(&bytes).map_err(|error| Error::from(Fault::Wire(error)))?;
        Ok(Self { raw, head, proved: false })
    }

    /// Verifies the tag if it covers the head alone.
    pub(crate) fn verify_head(&mut self, opener: &mut Opener) -> Result<(), Error> {
        if self.head.level == Level::Clear {
            opener.open_clear(&self.head_bytes(), &self.tag()).map_err(wrong_tag)?;
            self.proved = true;
        }
        Ok(())
    }

    /// What the machine says about the head. Before the tag is verified the author is unknown.
    pub(crate) fn judge(
        &self,
        session: &mut Session,
        channel: ChannelId,
        now: Instant,
    ) -> Result<HeadVerdict, Rejected> {
        session.on_head(channel, &self.head, now).map_err(|fault| match self.proved {
            true => Rejected::Session(fault),
            false => Rejected::Channel(Error::from(fault)),
        })
    }

    /// The head's bytes.
    pub(crate) fn head_bytes(&self) -> [u8; BARE_BYTES] {
        let mut bytes = [0; BARE_BYTES];
        bytes.copy_from_slice(&self.raw[..BARE_BYTES]);
        bytes
    }

    /// The tag.
    pub(crate) fn tag(&self) -> Tag {
        let mut bytes = [0; TAG_BYTES];
        bytes.copy_from_slice(&self.raw[BARE_BYTES..]);
        bytes
    }
}

/// The head, which is the first bytes of `headed`, and its tag.
pub(crate) fn with_tag(headed: &[u8], tag: &Tag) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[..BARE_BYTES].copy_from_slice(&headed[..BARE_BYTES]);
    bytes[BARE_BYTES..].copy_from_slice(tag);
    bytes
}

/// The error for a record that did not open.
pub(crate) fn wrong_tag(error: xdfs_secure::Error) -> Error {
    let text = format!("a record's tag is wrong ({error}): bytes were altered or lost on the way");
    Error::new(ErrorKind::ConnectionLost, text)
}
