//! A telnet connection as an element of a stack.

use super::code::{Decoded, Decoder, Encoder};
use crate::drivers::queues::{CHUNK_BYTES, FILLS_PER_CALL, Incoming, Outgoing, cut_off, unless_blocked};
use std::io::{self, IoSlice, IoSliceMut};
use xdfs_io::stack::{Answer, Command, Flow, Interest, ReadInfo, WriteInfo};

/// Answers that wait for a peer that does not read them.
pub(super) const ANSWERS_MAX: usize = 1024;

/// How far the own direction is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Open,
    Ending,
    Ended,
}

/// An open telnet connection.
pub(super) struct TelnetFlow {
    below: Box<dyn Flow>,
    decoder: Decoder,
    encoder: Encoder,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Answers since nothing waited to be sent.
    answers: usize,
    sending: Sending,
    /// Why nothing more is taken; what came before it is.
    refused: Option<&'static str>,
}

impl TelnetFlow {
    pub(super) fn new(below: Box<dyn Flow>) -> Self {
        let (decoder, encoder, incoming, outgoing) = Default::default();
        Self { below, decoder, encoder, incoming, outgoing, answers: 0, sending: Sending::Open, refused: None }
    }

    fn pass_on(&mut self) -> io::Result<()> {
        self.outgoing.pass_on(&mut *self.below)?;
        self.answers = 0;
        if self.sending == Sending::Ending {
            self.below.finish_sending()?;
            self.sending = Sending::Ended;
        }
        Ok(())
    }

    /// Takes content out of what came, as much as `into` holds.
    fn decode(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (mut used, mut made) = (0, 0);
        let rest = self.incoming.rest();
        while used < rest.len() && made < into.len() && self.refused.is_none() {
            let plain = self.decoder.plain(&rest[used..]).min(into.len() - made);
            if plain > 0 {
                into[made..made + plain].copy_from_slice(&rest[used..used + plain]);
                used += plain;
                made += plain;
                continue;
            }
            used += 1;
            match self.decoder.decode(rest[used - 1]) {
                Ok(Decoded::Content(byte)) => {
                    into[made] = byte;
                    made += 1;
                }
                Ok(Decoded::Nothing) => {}
                // Who has finished sending refuses by silence.
                Ok(Decoded::Answer(_)) if self.sending != Sending::Open => {}
                Ok(Decoded::Answer(_)) if self.answers == ANSWERS_MAX => {
                    self.refused = Some("the peer proposes options and does not read the answers");
                }
                Ok(Decoded::Answer(answer)) => {
                    self.answers += 1;
                    self.outgoing.end().extend_from_slice(&answer);
                }
                Err(what) => self.refused = Some(what),
            }
        }
        self.incoming.consume(used);
        match self.refused {
            Some(what) if made == 0 => Err(io::Error::new(io::ErrorKind::InvalidData, what)),
            _ => Ok(made),
        }
    }
}

impl Flow for TelnetFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let Some(first) = into.iter_mut().find(|slice| !slice.is_empty()) else { return Ok(0) };
        for _ in 0..FILLS_PER_CALL {
            let made = self.decode(first)?;
            // That answers cannot be sent is told by the next write.
            let _ = self.pass_on();
            if made > 0 {
                return Ok(made);
            }
            if self.incoming.has_ended() {
                if !self.decoder.may_end() {
                    return Err(cut_off("the connection was cut in the middle of a telnet command"));
                }
                info.end = true;
                return Ok(0);
            }
            self.incoming.fill(&mut *self.below)?;
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    fn send(&mut self, from: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        if self.sending != Sending::Open {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "sending was finished"));
        }
        // What waits is bounded by what one call takes.
        self.pass_on()?;
        let mut accepted = 0;
        for slice in from {
            let taken = slice.len().min(CHUNK_BYTES - accepted);
            self.encoder.encode(&slice[..taken], self.outgoing.end());
            accepted += taken;
        }
        // The bytes are taken; what fails now fails the flush.
        let _ = self.pass_on();
        Ok(accepted)
    }

    fn below(&self) -> Option<&dyn Flow> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        Some(&mut *self.below)
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on()?;
        self.below.flush()
    }

    fn holds(&self) -> bool {
        self.refused.is_some() || self.incoming.holds() || self.incoming.has_ended() || self.below.holds()
    }

    fn wants(&self, asked: Interest) -> Interest {
        let waiting = if self.outgoing.is_empty() { Interest::NONE } else { Interest::WRITE };
        self.below.wants(asked.with(waiting))
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        if self.sending == Sending::Open {
            self.encoder.finish(self.outgoing.end());
            self.sending = Sending::Ending;
        }
        self.pass_on()
    }

    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        if command.name == "finish_sending" {
            // What is left goes with the next reads.
            return unless_blocked(self.finish_sending()).map(|()| Answer::Done);
        }
        Err(io::ErrorKind::Unsupported.into())
    }
}
