//! GSI on a stream of bytes, as what the driver `gsi` of XIO puts above its transport: records of TLS without anything
//! around them, in the handshake and after it.
//!
//! Programs of grids end such a stream with its transport, without the end of TLS. So records are cut here: a stream that
//! ends between two of them has ended, and one that ends within was cut.

use super::super::byte_stream::{StreamError, Taken, Tls};
use super::chain;
use super::handshake::Handshake;

/// The head of a record.
pub(super) const HEAD_BYTES: usize = 5;

/// Most bytes behind the head: 16 KiB and what encryption adds (RFC 8446, section 5.2).
const RECORD_BYTES_MAX: usize = (16 << 10) + 256;

/// What a record may be: from the change of ciphers to data of the application.
const TYPES: std::ops::RangeInclusive<u8> = 20..=23;

/// One stream.
#[derive(Debug)]
pub struct GsiStream {
    state: State,
    /// What was to be sent when the handshake ended.
    last: Vec<u8>,
}

#[derive(Debug)]
enum State {
    Shaking(Box<Handshake>),
    Open(Box<Tls>),
    Failed,
}

impl GsiStream {
    /// Begins with a handshake that nobody has begun yet.
    ///
    /// # Errors
    /// If TLS cannot start.
    pub fn new(mut handshake: Handshake) -> Result<Self, StreamError> {
        let last = handshake.step(&[]).map_err(|(error, _)| error)?;
        Ok(Self { state: State::Shaking(Box::new(handshake)), last })
    }

    /// Whether the handshake still runs.
    pub fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Shaking(_))
    }

    /// Takes whole records from the front of `bytes`, until there is something for [`GsiStream::take`]. What it leaves
    /// is to come again, with more behind it if it is less than [`whole_record`] wants. An error is final;
    /// [`GsiStream::output`] tells the peer.
    ///
    /// # Errors
    /// If the peer is refused, or breaks a rule.
    pub fn feed(&mut self, bytes: &mut &[u8]) -> Result<(), StreamError> {
        while !self.has_something()
            && let Some(length) = whole_record(bytes)?
        {
            let (record, rest) = bytes.split_at(length);
            *bytes = rest;
            self.on_record(record)?;
        }
        Ok(())
    }

    fn on_record(&mut self, mut record: &[u8]) -> Result<(), StreamError> {
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Shaking(mut handshake) => {
                let (outcome, output) = match handshake.step(record) {
                    Ok(output) => (Ok(()), output),
                    Err((error, output)) => (Err(error), output),
                };
                self.last.extend_from_slice(&output);
                outcome?;
                self.state = match handshake.is_done() {
                    true => State::Open(Box::new(handshake.into_tls())),
                    false => State::Shaking(handshake),
                };
                Ok(())
            }
            State::Open(mut tls) => {
                let fed = tls.feed(&mut record);
                self.state = State::Open(tls);
                fed
            }
            State::Failed => Err(StreamError::Protocol("the handshake has failed".to_owned())),
        }
    }

    fn tls(&self) -> Option<&Tls> {
        if let State::Open(tls) = &self.state { Some(tls) } else { None }
    }

    /// Whether [`GsiStream::take`] has something to tell.
    pub fn has_something(&self) -> bool {
        self.tls().is_some_and(Tls::has_something)
    }

    /// Takes the peer's bytes, in order.
    ///
    /// # Errors
    /// If TLS fails.
    pub fn take(&mut self, into: &mut [u8]) -> Result<Taken, StreamError> {
        if let State::Open(tls) = &mut self.state { tls.take(into) } else { Ok(Taken::Nothing) }
    }

    /// Takes bytes for the peer; how many it could.
    ///
    /// # Errors
    /// If TLS fails.
    pub fn put(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        if let State::Open(tls) = &mut self.state { tls.put(bytes) } else { Ok(0) }
    }

    /// Puts behind `into` what is to be sent.
    pub fn output(&mut self, into: &mut Vec<u8>) {
        into.append(&mut self.last);
        if let State::Open(tls) = &mut self.state {
            tls.output(into);
        }
    }

    /// Ends the own direction: close_notify is the last of the output.
    pub fn close(&mut self) {
        if let State::Open(tls) = &mut self.state {
            tls.close();
        }
    }

    /// The name of the peer's own certificate, as `/O=Grid/CN=Anna`, once the handshake is over.
    pub fn peer(&self) -> Option<String> {
        chain::subject(&self.tls()?.peer_chain())
    }

    /// The cipher suite.
    pub fn suite(&self) -> Option<String> {
        self.tls()?.suite()
    }
}

/// How many bytes the record at the front of `bytes` has, if it is there as a whole.
///
/// # Errors
/// If no record begins so.
pub fn whole_record(bytes: &[u8]) -> Result<Option<usize>, StreamError> {
    let wrong = |what: &str| Err(StreamError::Protocol(format!("the other end sent {what}")));
    match *bytes {
        [kind, ..] if !TYPES.contains(&kind) => return wrong("no record of TLS; is it GSI with tokens of its own?"),
        [_, version, ..] if version != 3 => return wrong("a record of an unknown version of TLS"),
        _ => {}
    }
    let &[_, _, _, high, low, ..] = bytes else { return Ok(None) };
    let length = usize::from(high) << 8 | usize::from(low);
    if length > RECORD_BYTES_MAX {
        return wrong("a record of TLS that is longer than any may be");
    }
    Ok((bytes.len() >= HEAD_BYTES + length).then_some(HEAD_BYTES + length))
}
