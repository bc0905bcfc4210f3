//! Payloads of the control events. Each carries a current state, not a change, so that it may
//! arrive twice or late and be sent again after a channel was lost: nothing here has to be tracked
//! record by record.

use super::codec::{Reader, WireError, Writer};
use super::event::Event;
use super::extents::{read_extents, write_extents};
pub use super::finish::Finish;
use super::finish::{read_digest, round, write_digest};
use super::notice::{self, Notice};
use super::recall;
use super::request::{block, level};
use super::times::{read_time, write_time};
pub use crate::base::Safety;
use crate::base::{ChannelId, Digest, Error, ErrorKind, Extent, Level, Retry, Timestamp};
use crate::{limits, plan};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// ACK: everything below `low` and inside `ranges` is safe; the sender may advance to `edge`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ack {
    /// The durability of the acknowledged bytes.
    pub safety: Safety,
    /// No gap below this offset (from the start of the pipeline's range).
    pub contiguous: u64,
    /// End of the granted window.
    pub credit_limit: u64,
    /// Acknowledged ranges above `low`, ascending and disjoint.
    pub ranges: Vec<Extent>,
    /// Number of AGAIN that the receiver had sent: earlier content is not covered by this ACK.
    pub round: u16,
}

/// GRANT: the granted values of an operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Grant {
    /// Protection of the blocks.
    pub level: Level,
    /// Block size.
    pub block: u32,
    /// Upload: the sender may advance to here in its first range. Download: 0.
    pub credit_limit: u64,
    /// Bytes of the transfer, where known.
    pub length: Option<u64>,
    /// Range of each pipeline, in the order of their numbers starting with the coordinator's: they
    /// cover the transfer without gap or overlap, all but the last in whole blocks. None where the
    /// length is unknown.
    pub ranges: Vec<Extent>,
    /// Download: the source's whole size, where it has one.
    pub size: Option<u64>,
    /// Download: permission bits.
    pub mode: u32,
    /// Download: modification time.
    pub modified: Option<Timestamp>,
    /// Download: version of the source.
    pub version: Vec<u8>,
    /// Ranges of the transfer that the receiver has from an earlier attempt, in whole blocks: they
    /// are not sent.
    pub kept: Vec<Extent>,
    /// The content is hashed end to end.
    pub hash: bool,
    /// Upload: what storage reads back is compared, not what arrived.
    pub reread: bool,
    /// The kept ranges are hashed by the sender as well: they may be damaged.
    pub unverified: bool,
    /// Upload: the sender sends the hashes of those ranges blinded.
    pub blinded: bool,
    /// The hash that was requested instead of the bytes.
    pub sum: Option<Digest>,
}

/// CHANNELS, from the server: numbers `first..first + count`, one secret for the lot, void after
/// `life_ms`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ChannelGrant {
    /// First channel number.
    pub first: u16,
    /// The number of channels.
    pub count: u16,
    /// Input to the keys of each channel.
    pub secret: [u8; 32],
    /// Milliseconds until the grant is void.
    pub life_ms: u32,
}

impl fmt::Debug for ChannelGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Debug output of a message or a session must not contain its secret.
        write!(f, "ChannelGrant({} from {}, {} ms)", self.count, self.first, self.life_ms)
    }
}

/// A control message, decoded.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the variant's line names its fields")]
pub enum Control {
    /// EXCEPTION.
    Exception(Error),
    /// ACK.
    Ack(Ack),
    /// GRANT.
    Grant(Grant),
    /// CREDIT: the sender may go up to this offset.
    Credit(u64),
    /// CHANNELS from the client: how many more it requests.
    WantChannels(u16),
    /// CHANNELS from the server.
    Channels(ChannelGrant),
    /// FENCE: this many records of the channel were processed here, and none will be after this.
    Fence { channel: ChannelId, processed: u64 },
    /// CANCEL.
    Cancel,
    /// FINISH.
    Finish(Finish),
    /// COMMITTED: the current state of the target, and its hash if the receiver knows it.
    Committed { length: u64, safety: Safety, version: Vec<u8>, root: Option<Digest> },
    /// AGAIN: these whole blocks differ from what was sent; it is the `round`th time, from 1.
    Again { round: u16, ranges: Vec<Extent> },
    /// EOFR: blocks of this operation that this channel and direction carried.
    EndOfRange { blocks: u64 },
    /// EOFT: records that this channel and direction carried before this one.
    EndOfTransfer { records: u64 },
    /// NOOP.
    Nothing,
    /// REKEY.
    Rekey,
    /// DRAIN: retry after this many milliseconds.
    Drain { retry_after_ms: u32 },
    /// RECALL: somebody waits for the end of the leases of these handles.
    Recall { handles: Vec<u64> },
    /// NOTICE: these names have changed.
    Notice { notices: Vec<Notice> },
}

impl Control {
    /// The event that carries this message.
    pub const fn event(&self) -> Event {
        match self {
            Self::Exception(_) => Event::Exception,
            Self::Ack(_) => Event::Ack,
            Self::Grant(_) => Event::Grant,
            Self::Credit(_) => Event::Credit,
            Self::WantChannels(_) | Self::Channels(_) => Event::Channels,
            Self::Fence { .. } => Event::Fence,
            Self::Cancel => Event::Cancel,
            Self::Finish(_) => Event::Finish,
            Self::Committed { .. } => Event::Committed,
            Self::Again { .. } => Event::Again,
            Self::EndOfRange { .. } => Event::EndOfRange,
            Self::EndOfTransfer { .. } => Event::EndOfTransfer,
            Self::Nothing => Event::Nothing,
            Self::Rekey => Event::Rekey,
            Self::Drain { .. } => Event::Drain,
            Self::Recall { .. } => Event::Recall,
            Self::Notice { .. } => Event::Notice,
        }
    }

    /// The payload on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        match self {
            Self::Exception(error) => write_error(&mut writer, error),
            Self::Ack(ack) => ack.write(&mut writer),
            Self::Grant(grant) => grant.write(&mut writer),
            Self::Credit(edge) => drop(writer.integer(*edge)),
            Self::WantChannels(count) => drop(writer.byte(0).integer((*count).into())),
            Self::Channels(grant) => {
                writer.byte(1);
                grant.write(&mut writer);
            }
            Self::Fence { channel, processed } => drop(writer.integer(channel.0.into()).integer(*processed)),
            Self::Finish(finish) => finish.write(&mut writer),
            Self::Committed { length, safety, version, root } => {
                writer.integer(*length).byte(*safety as u8).bytes(version);
                write_digest(&mut writer, root.as_ref());
            }
            Self::Again { round, ranges } => write_extents(writer.integer((*round).into()), ranges),
            Self::EndOfRange { blocks: count } | Self::EndOfTransfer { records: count } => drop(writer.integer(*count)),
            Self::Drain { retry_after_ms } => drop(writer.integer((*retry_after_ms).into())),
            Self::Recall { handles } => recall::write(&mut writer, handles),
            Self::Notice { notices } => notice::write(&mut writer, notices),
            Self::Cancel | Self::Nothing | Self::Rekey => {}
        }
        writer.finish()
    }

    /// Reads the payload of `event`; none for events that carry no control payload in this version.
    pub fn decode(event: Event, payload: &[u8]) -> Result<Option<Self>, WireError> {
        let mut reader = Reader::new(payload);
        let control = match event {
            Event::Exception => Self::Exception(read_error(&mut reader)?),
            Event::Ack => Self::Ack(Ack::read(&mut reader)?),
            Event::Grant => Self::Grant(Grant::read(&mut reader)?),
            Event::Credit => Self::Credit(reader.integer()?),
            Event::Channels => match reader.byte()? {
                0 => {
                    Self::WantChannels(reader.integer_up_to(limits::CHANNELS_HARD_MAX.into(), "channel count")? as u16)
                }
                1 => Self::Channels(ChannelGrant::read(&mut reader)?),
                _ => return Err(WireError::Invalid("kind of CHANNELS")),
            },
            Event::Fence => {
                let channel = reader.integer_up_to(u16::MAX.into(), "channel number")?;
                Self::Fence { channel: ChannelId(channel as u16), processed: reader.integer()? }
            }
            Event::Cancel => Self::Cancel,
            Event::Finish => Self::Finish(Finish::read(&mut reader)?),
            Event::Committed => Self::Committed {
                length: reader.integer()?,
                safety: safety(&mut reader)?,
                version: reader.bytes(64, "version")?.to_vec(),
                root: read_digest(&mut reader)?,
            },
            Event::Again => Self::Again {
                round: round(&mut reader)?,
                ranges: read_extents(&mut reader, limits::LEDGER_ENTRIES_MAX, "ranges of AGAIN")?,
            },
            Event::EndOfRange => Self::EndOfRange { blocks: reader.integer()? },
            Event::EndOfTransfer => Self::EndOfTransfer { records: reader.integer()? },
            Event::Nothing => Self::Nothing,
            Event::Rekey => Self::Rekey,
            Event::Drain => Self::Drain { retry_after_ms: reader.integer_up_to(u32::MAX.into(), "retry time")? as u32 },
            Event::Recall => Self::Recall { handles: recall::read(&mut reader)? },
            Event::Notice => Self::Notice { notices: notice::read(&mut reader)? },
            _ => return Ok(None),
        };
        reader.end()?;
        Ok(Some(control))
    }
}

fn safety(reader: &mut Reader<'_>) -> Result<Safety, WireError> {
    match reader.byte()? {
        1 => Ok(Safety::Received),
        2 => Ok(Safety::Written),
        3 => Ok(Safety::Durable),
        _ => Err(WireError::Invalid("safety")),
    }
}

/// An error as code, retry kind, errno and message; used by EXCEPTION and by the handshake's
/// refusal.
pub(super) fn write_error(writer: &mut Writer, error: &Error) {
    writer
        .integer(error.kind as u64)
        .byte(error.retry as u8)
        .integer(error.errno.into())
        .bytes(error.short_message().as_bytes());
}

/// The inverse of [`write_error`]. A code of a later version becomes `Unsupported`, its message is
/// kept.
pub(super) fn read_error(reader: &mut Reader<'_>) -> Result<Error, WireError> {
    let code = reader.integer_up_to(u16::MAX.into(), "error code")? as u16;
    let retry = Retry::from_code(reader.byte()?);
    let errno = reader.integer_up_to(u16::MAX.into(), "errno")? as u16;
    let message = reader.bytes(Error::MESSAGE_BYTES_MAX, "message")?;
    let message = core::str::from_utf8(message).map_err(|_| WireError::Invalid("message"))?;
    let kind = ErrorKind::from_code(code).unwrap_or(ErrorKind::Unsupported);
    // A peer's text goes to terminals and logs: control bytes are removed.
    let message: String = message.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    Ok(Error { retry, ..Error::new(kind, message).with_errno(errno) }.reported())
}

impl Ack {
    fn write(&self, writer: &mut Writer) {
        writer.byte(self.safety as u8).integer(self.contiguous).integer(self.credit_limit);
        write_extents(writer, &self.ranges);
        writer.integer(self.round.into());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            safety: safety(reader)?,
            contiguous: reader.integer()?,
            credit_limit: reader.integer()?,
            ranges: read_extents(reader, limits::ACK_RANGES_MAX, "acknowledged ranges")?,
            round: round(reader)?,
        })
    }
}

impl Grant {
    fn write(&self, writer: &mut Writer) {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let flags = flag(self.length.is_some(), 1) | flag(self.size.is_some(), 2) | flag(self.modified.is_some(), 4);
        let flags = flags | flag(!self.kept.is_empty(), 8) | flag(self.hash, 16) | flag(self.reread, 32);
        let flags = flags | flag(self.unverified, 64) | flag(self.sum.is_some(), 128);
        let flags = flags | flag(self.blinded, 256);
        writer.integer(flags).byte(self.level as u8).integer(self.block.into()).integer(self.credit_limit);
        for value in [self.length, self.size].into_iter().flatten() {
            writer.integer(value);
        }
        write_extents(writer, &self.ranges);
        writer.integer(self.mode.into());
        if let Some(modified) = self.modified {
            write_time(writer, modified);
        }
        writer.bytes(&self.version);
        if !self.kept.is_empty() {
            write_extents(writer, &self.kept);
        }
        if let Some(sum) = &self.sum {
            writer.raw(sum);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let flags = reader.integer_up_to(511, "grant flags")?;
        let blinded = flags & 256 != 0;
        if blinded && flags & 64 == 0 {
            return Err(WireError::Invalid("grant flags"));
        }
        let level = level(reader)?;
        let block = block(reader)?;
        if block == 0 {
            return Err(WireError::Invalid("block size"));
        }
        let edge = reader.integer()?;
        let mut optional = |bit: u64| if flags & bit != 0 { reader.integer().map(Some) } else { Ok(None) };
        let (length, size) = (optional(1)?, optional(2)?);
        let ranges = read_extents(reader, limits::PIPELINES_MAX.into(), "pipeline ranges")?;
        if !plan::covers(&ranges, length, block) {
            return Err(WireError::Invalid("pipeline ranges"));
        }
        let mode = reader.integer_up_to(0o7777, "mode")? as u32;
        let modified = if flags & 4 != 0 { Some(read_time(reader)?) } else { None };
        let version = reader.bytes(limits::VERSION_BYTES_MAX, "version")?.to_vec();
        let kept = match flags & 8 {
            0 => Vec::new(),
            _ => read_extents(reader, limits::LEDGER_ENTRIES_MAX, "kept ranges")?,
        };
        if !plan::are_whole_blocks(&kept, length, block) {
            return Err(WireError::Invalid("kept ranges"));
        }
        let sum = if flags & 128 != 0 { Some(reader.array()?) } else { None };
        let (hash, reread, doubt) = (flags & 16 != 0, flags & 32 != 0, flags & 64 != 0);
        Ok(Self {
            level,
            block,
            credit_limit: edge,
            length,
            ranges,
            size,
            mode,
            modified,
            version,
            kept,
            hash,
            reread,
            unverified: doubt,
            blinded,
            sum,
        })
    }
}

impl ChannelGrant {
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.integer(self.first.into()).integer(self.count.into()).raw(&self.secret).integer(self.life_ms.into());
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let first = reader.integer_up_to(u16::MAX.into(), "channel number")? as u16;
        let count = reader.integer_up_to(limits::CHANNELS_HARD_MAX.into(), "channel count")? as u16;
        if first == 0 || first.checked_add(count).is_none() {
            return Err(WireError::Invalid("channel number"));
        }
        let secret = reader.array()?;
        let life_ms = reader.integer_up_to(u32::MAX.into(), "life of a grant")? as u32;
        Ok(Self { first, count, secret, life_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::super::notice::Changes;
    use super::*;

    fn comes_back(control: Control) {
        let decoded = Control::decode(control.event(), &control.encode());
        assert_eq!(decoded, Ok(Some(control)));
    }

    #[test]
    fn every_control_message_comes_back() {
        let extent = |offset, length| Extent::new(offset, length).unwrap();
        comes_back(Control::Exception(Error::new(ErrorKind::NoSpace, "disk full: é").with_errno(28)));
        comes_back(Control::Ack(Ack {
            safety: Safety::Written,
            contiguous: 7,
            credit_limit: 1 << 40,
            ranges: alloc::vec![extent(9, 3)],
            round: 2,
        }));
        comes_back(Control::Grant(Grant {
            level: Level::Private,
            block: 1 << 20,
            credit_limit: 5,
            length: Some((1 << 20) + 1),
            ranges: alloc::vec![extent(0, 1 << 20), extent(1 << 20, 1)],
            size: Some(99),
            mode: 0o755,
            modified: Some(Timestamp::new(1_700_000_000, 5)),
            version: alloc::vec![1, 2, 3],
            kept: alloc::vec![extent(1 << 20, 1)],
            hash: true,
            reread: true,
            unverified: true,
            blinded: true,
            sum: Some([4; 32]),
        }));
        comes_back(Control::Credit(1 << 50));
        comes_back(Control::WantChannels(4096));
        comes_back(Control::Channels(ChannelGrant { first: 2, count: 9, secret: [3; 32], life_ms: 15_000 }));
        comes_back(Control::Fence { channel: ChannelId(65_535), processed: 1 << 60 });
        comes_back(Control::Cancel);
        comes_back(Control::Finish(Finish::default()));
        comes_back(Control::Committed { length: 1, safety: Safety::Durable, version: alloc::vec![], root: None });
        let (version, root) = (alloc::vec![1], Some([8; 32]));
        comes_back(Control::Committed { length: 1, safety: Safety::Durable, version, root });
        comes_back(Control::Again { round: 3, ranges: alloc::vec![extent(0, 1 << 20), extent(5 << 20, 9)] });
        comes_back(Control::EndOfRange { blocks: 12 });
        comes_back(Control::EndOfTransfer { records: 13 });
        comes_back(Control::Nothing);
        comes_back(Control::Rekey);
        comes_back(Control::Drain { retry_after_ms: 500 });
        comes_back(Control::Recall { handles: alloc::vec![1, 1 << 61] });
        let notice = Notice { watch: 7, changes: Changes::CONTENT.and(Changes::NAME), name: b"\xff".to_vec() };
        comes_back(Control::Notice { notices: alloc::vec![notice, Notice::of_all()] });
    }

    #[test]
    fn overlapping_or_descending_ranges_are_refused() {
        let mut writer = Writer::new();
        writer.byte(2).integer(0).integer(0).integer(2).integer(10).integer(5).integer(14).integer(1);
        assert_eq!(Control::decode(Event::Ack, &writer.finish()), Err(WireError::Invalid("acknowledged ranges")));
    }

    #[test]
    fn a_grant_whose_ranges_do_not_cover_the_transfer_once_is_refused() {
        let block = 1 << 20;
        let decoded = |length: Option<u64>, ranges: &[(u64, u64)]| {
            let ranges = ranges.iter().map(|(offset, length)| Extent::new(*offset, *length).unwrap()).collect();
            let grant = Grant { block, length, ranges, ..Grant::default() };
            Control::decode(Event::Grant, &Control::Grant(grant).encode())
        };
        let whole = u64::from(block);
        assert!(decoded(Some(0), &[(0, 0)]).is_ok());
        assert!(decoded(Some(whole + 1), &[(0, whole), (whole, 1)]).is_ok());
        assert!(decoded(None, &[]).is_ok());
        for (length, ranges) in [
            (Some(whole + 1), &[(0, whole)][..]),
            (Some(whole + 1), &[(0, 1), (1, whole)]),
            (Some(whole), &[(0, whole), (whole, whole)]),
            (Some(2 * whole), &[(0, whole), (whole + 1, whole - 1)]),
            (Some(1), &[(1, 0)]),
            (Some(1), &[]),
            (None, &[(0, 1)]),
        ] {
            assert_eq!(decoded(length, ranges), Err(WireError::Invalid("pipeline ranges")), "{length:?} {ranges:?}");
        }
    }

    #[test]
    fn a_peers_message_reaches_no_terminal_with_control_bytes() {
        let error = Error::new(ErrorKind::Storage, "a\x1b[2Jb\nc");
        let decoded = Control::decode(Event::Exception, &Control::Exception(error).encode());
        let Ok(Some(Control::Exception(error))) = decoded else { panic!("{decoded:?}") };
        assert_eq!(error.message, "a?[2Jb?c");
    }
}
