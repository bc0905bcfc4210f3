//! Messages that open a session on channel 1, and the JOIN of the others (WIRE-14..17, WIRE-26..31,
//! WIRE-71).
//!
//! Inside the handshake a message is `type (1) | length (3, big-endian) | payload`. A JOIN has a
//! fixed form, so that a server can check it without holding any state.

use super::codec::{Reader, WireError, Writer};
use super::control::{ChannelGrant, read_error, write_error};
use super::event::Event;
use super::preface::PREFACE_BYTES;
use super::request::{block, level};
use crate::base::{ChannelId, Error, Level, SessionId, Suite};
use crate::limits;
use alloc::vec::Vec;

/// Bytes in front of a handshake message's payload.
pub const FRAME_BYTES: usize = 4;

/// Type of a handshake message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum MessageType {
    /// The server's first message inside TLS: both prefaces, and the logins it accepts.
    Hello = 1,
    /// The client's requested values and its login.
    Open = 2,
    /// The server's reply: what it granted.
    Accept = 3,
    /// The server's reply: the reason for refusal. It is its last message.
    Refuse = 4,
    /// The server's reply: this login failed, another may be tried.
    Again = 5,
    /// A password login continues: the server's first message.
    Challenge = 6,
    /// A password login continues: the client's proof.
    Proof = 7,
}

impl MessageType {
    /// Every type, in the order of its code.
    pub const ALL: [Self; 7] =
        [Self::Hello, Self::Open, Self::Accept, Self::Refuse, Self::Again, Self::Challenge, Self::Proof];
}

/// The first four bytes of a message: its type and the length of its payload.
pub fn frame(message: MessageType, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FRAME_BYTES + payload.len());
    bytes.push(message as u8);
    bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    bytes.extend_from_slice(payload);
    bytes
}

/// Reads a frame's head: type, and payload length within [`limits::CONTROL_BYTES_MAX`].
pub fn read_frame(bytes: [u8; FRAME_BYTES]) -> Result<(MessageType, usize), WireError> {
    let message = MessageType::ALL.into_iter().find(|known| *known as u8 == bytes[0]);
    let message = message.ok_or(WireError::Invalid("handshake message"))?;
    let length = u32::from_be_bytes([0, bytes[1], bytes[2], bytes[3]]) as usize;
    if length > limits::CONTROL_BYTES_MAX {
        return Err(WireError::TooLong("handshake message"));
    }
    Ok((message, length))
}

/// HELLO: the server's first message inside TLS.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Hello {
    /// What both sides sent in clear.
    pub prefaces: Prefaces,
    /// Bit `1 << kind` for every [`super::login::LoginKind`] that the server accepts.
    pub logins: u64,
    /// The input for the salts of this server's users: a client starts a password login before it
    /// is challenged.
    pub salts: [u8; 16],
}

impl Hello {
    /// The payload on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.raw(&self.prefaces).integer(self.logins).raw(&self.salts);
        writer.finish()
    }

    /// Reads a HELLO.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        let hello = Self { prefaces: reader.array()?, logins: reader.integer()?, salts: reader.array()? };
        reader.end()?;
        Ok(hello)
    }
}

/// Both prefaces, repeated inside the handshake: a difference from those received is DOWNGRADE.
pub type Prefaces = [u8; 2 * PREFACE_BYTES];

/// An extended option (WIRE-31). Unknown and critical is refused; unknown and not critical is left
/// out of the answer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ExtendedOption {
    /// Number of the option.
    pub key: u64,
    /// The session must fail without it.
    pub critical: bool,
    /// Its value.
    pub value: Vec<u8>,
}

/// OPEN: Table 2 of the xDFS paper, with additions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Open {
    /// What both sides sent in clear.
    pub prefaces: Prefaces,
    /// Bit set of features wanted: see [`crate::features`].
    pub features: u64,
    /// Channels wanted (WIRE-26).
    pub channels: u16,
    /// Pipelines wanted.
    pub pipelines: u8,
    /// Socket window in bytes, 0 for the system's own tuning (WIRE-28).
    pub window: u64,
    /// Block size in bytes, 0 for the server's choice (WIRE-29).
    pub block: u32,
    /// Protection that the client wants for blocks.
    pub level: Level,
    /// Stall deadline of a silent channel, in milliseconds, 0 for the server's choice.
    pub stall_ms: u32,
    /// The client's own GUID: a label in its name space; it grants no right (WIRE-27, WIRE-71).
    pub label: [u8; 16],
    /// Cipher suites of records that the client accepts, best first: codes of [`Suite`]. Unknown
    /// ones are ignored.
    pub suites: Vec<u8>,
    /// Code of [`super::login::LoginKind`] (WIRE-30).
    pub login: u64,
    /// Login message of that kind.
    pub credentials: Vec<u8>,
    /// Extended mode (WIRE-31).
    pub options: Vec<ExtendedOption>,
    /// The first operation, opened as number 1 on channel 1 without another round trip.
    pub first: Option<(Event, Vec<u8>)>,
}

/// ACCEPT: what was granted. Every requested value is answered, none is changed silently.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Accept {
    /// What both sides sent in clear.
    pub prefaces: Prefaces,
    /// The session id that the server drew.
    pub session: SessionId,
    /// Features granted.
    pub features: u64,
    /// Channels granted.
    pub channels: u16,
    /// Pipelines granted; channel c belongs to pipeline (c - 1) mod this.
    pub pipelines: u8,
    /// Socket window granted.
    pub window: u64,
    /// Block size granted.
    pub block: u32,
    /// Lowest level that the server will accept for blocks.
    pub floor: Level,
    /// Bytes that the client may send on the opening channel before GRANT.
    pub initial_credit: u64,
    /// Stall deadline granted, in milliseconds.
    pub stall_ms: u32,
    /// Cipher suite of every record of the session.
    pub suite: Suite,
    /// Channels 1..=n: channel 1 uses it at once, the others JOIN with it.
    pub grant: ChannelGrant,
    /// Password login: the server's proof that it knows the verifier. Else empty.
    pub proof: Vec<u8>,
    /// Extended options that were accepted.
    pub options: Vec<ExtendedOption>,
}

fn write_options(writer: &mut Writer, options: &[ExtendedOption]) {
    writer.integer(options.len() as u64);
    for option in options {
        writer.integer(option.key << 1 | u64::from(option.critical)).bytes(&option.value);
    }
}

fn read_options(reader: &mut Reader<'_>) -> Result<Vec<ExtendedOption>, WireError> {
    let count = reader.integer_up_to(limits::OPTIONS_MAX as u64, "extended options")?;
    (0..count)
        .map(|_| {
            let key = reader.integer()?;
            let value = reader.bytes(limits::OPTION_BYTES_MAX, "extended option")?.to_vec();
            Ok(ExtendedOption { key: key >> 1, critical: key & 1 != 0, value })
        })
        .collect()
}

fn channels(reader: &mut Reader<'_>) -> Result<u16, WireError> {
    match reader.integer_up_to(u16::MAX.into(), "channel count")? as u16 {
        0 => Err(WireError::Invalid("channel count")),
        count => Ok(count),
    }
}

fn pipelines(reader: &mut Reader<'_>) -> Result<u8, WireError> {
    match reader.integer_up_to(u8::MAX.into(), "pipeline count")? as u8 {
        0 => Err(WireError::Invalid("pipeline count")),
        count => Ok(count),
    }
}

impl Open {
    /// The payload on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.raw(&self.prefaces).integer(self.features).integer(self.channels.into());
        writer.integer(self.pipelines.into()).integer(self.window).integer(self.block.into());
        writer.byte(self.level as u8).integer(self.stall_ms.into()).raw(&self.label);
        writer.bytes(&self.suites).integer(self.login).bytes(&self.credentials);
        write_options(&mut writer, &self.options);
        match &self.first {
            None => drop(writer.byte(0)),
            Some((event, request)) => drop(writer.byte(*event as u8).bytes(request)),
        }
        writer.finish()
    }

    /// Reads an OPEN.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        let open = Self {
            prefaces: reader.array()?,
            features: reader.integer()?,
            channels: channels(&mut reader)?,
            pipelines: pipelines(&mut reader)?,
            window: reader.integer_up_to(limits::WINDOW_BYTES_MAX, "window")?,
            block: block(&mut reader)?,
            level: level(&mut reader)?,
            stall_ms: reader.integer_up_to(u32::MAX.into(), "stall deadline")? as u32,
            label: reader.array()?,
            suites: reader.bytes(limits::SUITES_MAX, "cipher suites")?.to_vec(),
            login: reader.integer()?,
            credentials: reader.bytes(limits::LOGIN_BYTES_MAX, "login")?.to_vec(),
            options: read_options(&mut reader)?,
            first: match reader.byte()? {
                0 => None,
                code => {
                    let event = Event::from_code(code).ok_or(WireError::Invalid("first operation"))?;
                    Some((event, reader.bytes(limits::CONTROL_BYTES_MAX, "first operation")?.to_vec()))
                }
            },
        };
        reader.end()?;
        Ok(open)
    }
}

impl Accept {
    /// The payload on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.raw(&self.prefaces).raw(&self.session.0).integer(self.features).integer(self.channels.into());
        writer.integer(self.pipelines.into()).integer(self.window).integer(self.block.into());
        writer.byte(self.floor as u8).integer(self.initial_credit).integer(self.stall_ms.into());
        writer.byte(self.suite as u8);
        self.grant.write(&mut writer);
        writer.bytes(&self.proof);
        write_options(&mut writer, &self.options);
        writer.finish()
    }

    /// Reads an ACCEPT.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        let accept = Self {
            prefaces: reader.array()?,
            session: SessionId(reader.array()?),
            features: reader.integer()?,
            channels: channels(&mut reader)?,
            pipelines: pipelines(&mut reader)?,
            window: reader.integer_up_to(limits::WINDOW_BYTES_MAX, "window")?,
            block: block(&mut reader)?,
            floor: level(&mut reader)?,
            initial_credit: reader.integer_up_to(limits::INITIAL_CREDIT_MAX, "initial credit")?,
            stall_ms: reader.integer_up_to(u32::MAX.into(), "stall deadline")? as u32,
            suite: Suite::from_code(reader.byte()?).ok_or(WireError::Invalid("cipher suite"))?,
            grant: ChannelGrant::read(&mut reader)?,
            proof: reader.bytes(limits::LOGIN_BYTES_MAX, "proof")?.to_vec(),
            options: read_options(&mut reader)?,
        };
        reader.end()?;
        if accept.block == 0 || accept.grant.first != 1 || accept.grant.count < accept.channels {
            return Err(WireError::Invalid("granted values"));
        }
        Ok(accept)
    }
}

/// REFUSE: the payload on the wire.
pub fn encode_refusal(error: &Error) -> Vec<u8> {
    let mut writer = Writer::new();
    write_error(&mut writer, error);
    writer.finish()
}

/// Reads a REFUSE.
pub fn decode_refusal(payload: &[u8]) -> Result<Error, WireError> {
    let mut reader = Reader::new(payload);
    let error = read_error(&mut reader)?;
    reader.end()?;
    Ok(error)
}

/// Bytes of a JOIN after its preface.
pub const JOIN_BYTES: usize = 16 + 2 + 16 + 32;
/// Bytes of its reply after the server's preface.
pub const JOIN_ANSWER_BYTES: usize = 32;

/// JOIN: the proof that a channel belongs to a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Join {
    /// The session.
    pub session: SessionId,
    /// Its own number, one of a grant that was not used yet.
    pub channel: ChannelId,
    /// Random, so that no two replies are equal.
    pub nonce: [u8; 16],
    /// MAC under the join key over [`Join::transcript`], in the client's role.
    pub mac: [u8; 32],
}

impl Join {
    /// The bytes behind the preface.
    pub fn encode(&self) -> [u8; JOIN_BYTES] {
        let mut bytes = [0; JOIN_BYTES];
        bytes[..16].copy_from_slice(&self.session.0);
        bytes[16..18].copy_from_slice(&self.channel.0.to_be_bytes());
        bytes[18..34].copy_from_slice(&self.nonce);
        bytes[34..].copy_from_slice(&self.mac);
        bytes
    }

    /// Reads a JOIN; every value is well-formed, only the MAC decides.
    pub fn decode(bytes: &[u8; JOIN_BYTES]) -> Self {
        let mut join = Self { session: SessionId([0; 16]), channel: ChannelId(0), nonce: [0; 16], mac: [0; 32] };
        join.session.0.copy_from_slice(&bytes[..16]);
        join.channel.0 = u16::from_be_bytes([bytes[16], bytes[17]]);
        join.nonce.copy_from_slice(&bytes[18..34]);
        join.mac.copy_from_slice(&bytes[34..]);
        join
    }

    /// The input of the MACs of the JOIN and of its reply: the connection's prefaces, and
    /// everything sent except the MAC. The client computes its own before it has received the
    /// server's preface, so that part is zero there.
    pub fn transcript(&self, client: [u8; PREFACE_BYTES], server: Option<[u8; PREFACE_BYTES]>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 * PREFACE_BYTES + JOIN_BYTES - 32);
        bytes.extend_from_slice(&client);
        bytes.extend_from_slice(&server.unwrap_or_default());
        bytes.extend_from_slice(&self.encode()[..34]);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ErrorKind;

    #[test]
    fn open_accept_refuse_and_join_come_back() {
        let option = ExtendedOption { key: 5, critical: true, value: alloc::vec![1] };
        let mut open = Open {
            prefaces: [1; 16],
            features: 3,
            channels: 64,
            pipelines: 2,
            window: 1 << 20,
            block: 1 << 18,
            level: Level::Integrity,
            stall_ms: 30_000,
            label: [2; 16],
            suites: alloc::vec![1, 2],
            login: 0,
            credentials: alloc::vec![],
            options: alloc::vec![option.clone()],
            first: None,
        };
        assert_eq!(Open::decode(&open.encode()), Ok(open.clone()));
        open.first = Some((Event::Download, alloc::vec![1, 2, 3]));
        assert_eq!(Open::decode(&open.encode()), Ok(open));
        let accept = Accept {
            prefaces: [1; 16],
            session: SessionId([7; 16]),
            features: 0,
            channels: 64,
            pipelines: 2,
            window: 0,
            block: 1 << 20,
            floor: Level::Clear,
            initial_credit: 0,
            stall_ms: 1000,
            suite: Suite::ChaCha20Poly1305,
            grant: ChannelGrant { first: 1, count: 64, secret: [4; 32], life_ms: 15_000 },
            proof: alloc::vec![9; 46],
            options: alloc::vec![option],
        };
        assert_eq!(Accept::decode(&accept.encode()), Ok(accept));
        let hello = Hello { prefaces: [1; 16], logins: 0b1011, salts: [2; 16] };
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        let error = Error::new(ErrorKind::Busy, "no room");
        assert_eq!(decode_refusal(&encode_refusal(&error)), Ok(error));
        let join = Join { session: SessionId([3; 16]), channel: ChannelId(300), nonce: [5; 16], mac: [6; 32] };
        assert_eq!(Join::decode(&join.encode()), join);
    }

    #[test]
    fn a_frame_longer_than_the_limit_is_refused_by_its_head() {
        let bytes = frame(MessageType::Open, &[1, 2, 3]);
        assert_eq!(read_frame([bytes[0], bytes[1], bytes[2], bytes[3]]), Ok((MessageType::Open, 3)));
        assert_eq!(read_frame([2, 1, 0, 1]), Err(WireError::TooLong("handshake message")));
        assert_eq!(read_frame([9, 0, 0, 0]), Err(WireError::Invalid("handshake message")));
    }
}
