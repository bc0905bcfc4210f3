//! One operation of a program, read from a few bytes of the input. Numbers are relative to what happened so far, so that a
//! program makes sense in every round. Any bytes are a program.

use xdfs_proto::base::{ChannelId, Error, ErrorKind, Extent, Level, TransferId};
use xdfs_proto::plan;
use xdfs_proto::wire::codec::INTEGER_MAX;
use xdfs_proto::wire::control::{Ack, ChannelGrant, Control, Finish, Grant, Safety};
use xdfs_proto::wire::request::{Request, Resume};

/// Block size of the session under test.
pub(super) const BLOCK: u32 = 64 * 1024;

/// Takes bytes off the front; zeros behind the end.
pub(super) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn bit(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    /// A place in a transfer: mostly on the block grid, sometimes beside it or far away.
    fn offset(&mut self) -> u64 {
        let byte = self.byte();
        let block = u64::from(BLOCK);
        match byte {
            0..=0xbf => u64::from(byte & 0x1f) * block,
            0xc0..=0xdf => u64::from(byte) * 1000 + 1,
            0xe0..=0xef => (1 << (byte & 0xf)) * block + 5,
            _ => (1 << 62) - 1 - u64::from(byte & 7),
        }
    }

    fn some<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.bit() { Some(read(self)) } else { None }
    }

    fn level(&mut self) -> Level {
        Level::from_code(self.byte() % 3).unwrap_or_default()
    }

    fn extents(&mut self) -> Vec<Extent> {
        let count = self.byte() % 4;
        let mut at = self.offset();
        let mut extents = Vec::new();
        for _ in 0..count {
            let length = u64::from(self.byte() % 4 + 1) * u64::from(BLOCK);
            if at > INTEGER_MAX {
                break;
            }
            extents.extend(Extent::new(at, length).ok());
            at = at.saturating_add(length + u64::from(self.byte() % 2) * u64::from(BLOCK));
        }
        extents
    }
}

/// Which channel or operation a step means: so many before the latest one.
pub(super) type Back = u8;

/// One operation of a fuzz program, decoded from a few bytes of the input.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A record of the peer with a message that its decoder accepts.
    Message { channel: Back, operation: Back, control: Control, ask: bool },
    /// A record of the peer with any head and payload.
    Raw { channel: Back, operation: Back, event: u8, level: Level, flags: u16, skew: u8, offset: u64, payload: Vec<u8> },
    /// A request of the peer under the next number.
    Request { channel: Back, upload: bool, request: Request },
    /// A batch of calls of the peer, under the next number.
    Batch { channel: Back, length: u32 },
    /// A reply of the peer.
    Reply { channel: Back, operation: Back, length: u32 },
    /// The application makes calls. (Client.)
    Calls { length: u32 },
    /// A block of the peer.
    Block { channel: Back, operation: Back, event: u8, offset: u64, length: u32 },
    /// The application opens an operation. (Client.)
    Open { upload: bool, request: Request },
    /// Storage answers the oldest question.
    Storage { ok: bool, size: u64, window: Option<u64> },
    /// The oldest block is written.
    Written { ok: bool },
    /// A source has bytes up to here.
    Source { operation: Back, available: u64, ended: bool },
    /// The transport took a record.
    Sent { channel: Back },
    /// The transport took every record, several times over.
    SentAll,
    /// A channel is up.
    Up,
    /// A channel breaks.
    Lost { channel: Back },
    /// Bytes moved.
    Progress { channel: Back },
    /// Time passes.
    Time { milliseconds: u64 },
    /// The application gives up.
    Fail { operation: Back, cancelled: bool },
    /// More channels are wished, or granted.
    Channels { count: u8 },
    /// The session is to end.
    Close,
    /// The server is to go down.
    Drain,
    /// Another pipeline of this side speaks.
    ToPipeline { kind: u8, operation: Back, offset: u64 },
}

fn request(bytes: &mut Bytes<'_>) -> Request {
    Request {
        name: b"e/f".to_vec(),
        transfer: TransferId([bytes.byte(); 16]),
        offset: bytes.byte().into(),
        length: bytes.some(Bytes::offset),
        level: bytes.level(),
        block: [0, BLOCK, 2 * BLOCK][usize::from(bytes.byte() % 3)],
        credit: bytes.offset().min(1 << 26),
        durable: bytes.bit(),
        hash: bytes.bit(),
        reread: bytes.bit(),
        sum: bytes.byte() == 7,
        unverified: bytes.bit(),
        resume: bytes.some(|bytes| Resume { source: vec![bytes.byte() % 3], kept: kept(bytes) }),
        base: bytes.some(|bytes| vec![bytes.byte() % 3]),
        ..Request::default()
    }
}

/// Mostly one that may be.
fn calls_length(bytes: &mut Bytes<'_>) -> u32 {
    match bytes.byte() {
        0 => 0,
        length @ 1..=0xef => u32::from(length) * 270,
        _ => BLOCK + 1,
    }
}

/// A range that may or may not be whole blocks.
fn kept(bytes: &mut Bytes<'_>) -> Vec<Extent> {
    Extent::new(bytes.offset() % (1 << 40), bytes.offset() % (1 << 40)).into_iter().collect()
}

fn grant(bytes: &mut Bytes<'_>) -> Grant {
    let length = bytes.some(Bytes::offset);
    Grant {
        level: bytes.level(),
        block: BLOCK,
        credit_limit: bytes.offset(),
        length,
        // Other divisions than one that fits are refused by the decoder; that is its target's affair.
        ranges: length.map_or_else(Vec::new, |length| plan::split(length, BLOCK, bytes.byte() % 3)),
        size: length,
        mode: 0o644,
        modified: None,
        version: vec![bytes.byte()],
        kept: length.map_or_else(Vec::new, |length| plan::whole_blocks(&kept(bytes), length, BLOCK)),
        hash: bytes.byte().is_multiple_of(4),
        ..Grant::default()
    }
}

fn control(bytes: &mut Bytes<'_>) -> Control {
    match bytes.byte() % 15 {
        0 => Control::Exception(Error::new(ErrorKind::Storage, "no")),
        1 | 2 => Control::Ack(Ack {
            safety: Safety::Written,
            contiguous: bytes.offset(),
            credit_limit: bytes.offset(),
            ranges: bytes.extents(),
            round: u16::from(bytes.byte().is_multiple_of(8)),
        }),
        3 => Control::Grant(grant(bytes)),
        4 => Control::Credit(bytes.offset()),
        5 => Control::WantChannels(bytes.byte().into()),
        6 => Control::Channels(ChannelGrant { first: 9, count: 2, secret: [1; 32], life_ms: 1000 }),
        7 => Control::Fence { channel: ChannelId(bytes.byte().into()), processed: u64::from(bytes.byte() % 32) },
        8 => Control::Cancel,
        9 => Control::Finish(Finish {
            length: bytes.offset(),
            round: u16::from(bytes.byte() % 4),
            root: bytes.byte().is_multiple_of(2).then_some([bytes.byte() % 2; 32]),
            subtrees: Vec::new(),
        }),
        10 => Control::Committed { length: bytes.offset(), safety: Safety::Written, version: Vec::new(), root: None },
        11 => Control::EndOfRange { blocks: u64::from(bytes.byte() % 32) },
        12 => Control::Nothing,
        13 => Control::Again { round: u16::from(bytes.byte() % 5), ranges: kept(bytes) },
        _ => match bytes.byte() % 2 {
            0 => Control::EndOfTransfer { records: bytes.byte().into() },
            _ => Control::Drain { retry_after_ms: 5 },
        },
    }
}

impl Step {
    pub(super) fn read(bytes: &mut Bytes<'_>) -> Self {
        let kind = bytes.byte();
        let channel = bytes.byte();
        match kind {
            0xe9 | 0xea => return Self::Batch { channel, length: calls_length(bytes) },
            0xeb => return Self::Reply { channel, operation: bytes.byte(), length: calls_length(bytes) },
            0xef | 0xf0 => return Self::Calls { length: calls_length(bytes) },
            _ => {}
        }
        match kind % 32 {
            0..=7 => Self::Message { channel, operation: bytes.byte(), ask: bytes.bit(), control: control(bytes) },
            8 => {
                let length = usize::from(bytes.byte());
                let raw = |bytes: &mut Bytes<'_>| (0..length).map(|_| bytes.byte()).collect();
                Self::Raw {
                    channel,
                    operation: bytes.byte(),
                    event: bytes.byte(),
                    level: bytes.level(),
                    flags: u16::from(bytes.byte()),
                    skew: bytes.byte(),
                    offset: bytes.offset(),
                    payload: raw(bytes),
                }
            }
            9 | 10 => Self::Request { channel, upload: bytes.bit(), request: request(bytes) },
            11..=14 => {
                let (operation, event, offset) =
                    (bytes.byte(), [1, 1, 2, 3, 9][usize::from(bytes.byte() % 5)], bytes.offset());
                let length = if bytes.byte() < 0xe0 { BLOCK } else { u32::from(bytes.byte()) };
                Self::Block { channel, operation, event, offset, length }
            }
            15 | 16 => Self::Open { upload: bytes.bit(), request: request(bytes) },
            17..=19 => Self::Storage { ok: channel & 7 != 7, size: bytes.offset(), window: bytes.some(Bytes::offset) },
            20 | 21 => Self::Written { ok: channel & 0xf != 0xf },
            22 => Self::Source { operation: channel, available: bytes.offset(), ended: bytes.bit() },
            23 => Self::Sent { channel },
            24 => Self::SentAll,
            25 => Self::Up,
            26 => Self::Lost { channel },
            27 => Self::Progress { channel },
            28 => Self::Time { milliseconds: u64::from(channel) * u64::from(bytes.byte()) },
            29 => Self::Fail { operation: channel, cancelled: bytes.bit() },
            30 => match channel % 8 {
                0 => Self::Close,
                1 => Self::Drain,
                _ => Self::Channels { count: bytes.byte() },
            },
            _ => Self::ToPipeline { kind: channel, operation: bytes.byte(), offset: bytes.offset() },
        }
    }
}
