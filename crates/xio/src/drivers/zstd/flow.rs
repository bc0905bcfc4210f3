//! A compressed stream as an element of a stack.

use crate::drivers::queues::{CHUNK_BYTES, FILLS_PER_CALL, Incoming, Outgoing, cut_off, unless_blocked};
use std::io::{self, IoSlice, IoSliceMut};
use xdfs_io::stack::{Answer, Command, Flow, Interest, ReadInfo, WriteInfo};
use zstd::stream::raw::{CParameter, DParameter, Decoder, Encoder, InBuffer, Operation, OutBuffer};

/// The history that a peer may have us keep, as a power of two.
const HISTORY_LOG_MAX: u32 = 23;
/// Bytes that one call compresses, at most.
const SENT_BYTES_MAX: usize = 4 * CHUNK_BYTES;

/// How far the own direction is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// No frame was begun.
    Idle,
    /// The encoder may keep bytes.
    Begun,
    /// It keeps none.
    Flushed,
    /// The frame has ended, and its rest is on its way.
    Ending,
    Ended,
}

/// How far the peer's direction is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiving {
    /// Between frames, where the stream may end.
    Between,
    /// Inside one.
    Inside,
    /// Inside one, and the decoder may have more.
    Full,
    Ended,
}

/// An open compressed stream.
pub(super) struct ZstdFlow {
    below: Box<dyn Flow>,
    encoder: Encoder<'static>,
    decoder: Decoder<'static>,
    incoming: Incoming,
    outgoing: Outgoing,
    sending: Sending,
    receiving: Receiving,
}

impl ZstdFlow {
    pub(super) fn new(below: Box<dyn Flow>, level: i32) -> io::Result<Self> {
        let mut encoder = Encoder::new(level)?;
        encoder.set_parameter(CParameter::ChecksumFlag(true))?;
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(HISTORY_LOG_MAX))?;
        let (incoming, outgoing) = Default::default();
        Ok(Self { below, encoder, decoder, incoming, outgoing, sending: Sending::Idle, receiving: Receiving::Between })
    }

    /// One step of the encoder, until it has nothing left to do.
    fn encode(
        &mut self,
        step: impl Fn(&mut Encoder<'_>, &mut OutBuffer<'_, Vec<u8>>) -> io::Result<usize>,
    ) -> io::Result<()> {
        loop {
            let bytes = self.outgoing.end();
            bytes.reserve(CHUNK_BYTES);
            let end = bytes.len();
            if step(&mut self.encoder, &mut OutBuffer::around_pos(bytes, end))? == 0 {
                return Ok(());
            }
        }
    }

    /// One step of the decoder: bytes that it took and made.
    fn decode(&mut self, into: &mut [u8]) -> io::Result<(usize, usize)> {
        // The decoder takes a caller who comes without bytes again and again for one who is lost.
        if self.incoming.rest().is_empty() && self.receiving != Receiving::Full {
            return Ok((0, 0));
        }
        let mut input = InBuffer::around(self.incoming.rest());
        let mut output = OutBuffer::around(into);
        let hint = self.decoder.run(&mut input, &mut output).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("the compressed stream is damaged: {error}"))
        })?;
        let (taken, made) = (input.pos(), output.pos());
        let full = made == output.capacity();
        self.incoming.consume(taken);
        if taken > 0 || made > 0 {
            self.receiving = match (hint, full) {
                (0, _) => Receiving::Between,
                (_, true) => Receiving::Full,
                (_, false) => Receiving::Inside,
            };
        } else if self.receiving == Receiving::Full {
            self.receiving = Receiving::Inside;
        }
        Ok((taken, made))
    }
}

impl Flow for ZstdFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let Some(first) = into.iter_mut().find(|slice| !slice.is_empty()) else { return Ok(0) };
        if self.sending == Sending::Ending {
            // That it cannot be sent is told by the close.
            let _ = self.finish_sending();
        }
        let mut fills = 0;
        while self.receiving != Receiving::Ended {
            match self.decode(first)? {
                (0, 0) if fills == FILLS_PER_CALL => return Err(io::ErrorKind::Interrupted.into()),
                (0, 0) if !self.incoming.has_ended() => {
                    fills += 1;
                    self.incoming.fill(&mut *self.below)?;
                }
                (0, 0) if self.receiving == Receiving::Between => self.receiving = Receiving::Ended,
                (0, 0) => return Err(cut_off("the compressed stream was cut: its frame has no end")),
                (_, 0) => {}
                (_, made) => return Ok(made),
            }
        }
        info.end = true;
        Ok(0)
    }

    fn send(&mut self, from: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        if matches!(self.sending, Sending::Ending | Sending::Ended) {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "sending was finished"));
        }
        // What waits is bounded by what one call takes.
        self.outgoing.pass_on(&mut *self.below)?;
        let mut accepted = 0;
        for slice in from {
            let taken = slice.len().min(SENT_BYTES_MAX - accepted);
            let mut input = InBuffer::around(&slice[..taken]);
            while input.pos() < taken {
                self.sending = Sending::Begun;
                let bytes = self.outgoing.end();
                bytes.reserve(CHUNK_BYTES);
                let end = bytes.len();
                self.encoder.run(&mut input, &mut OutBuffer::around_pos(bytes, end))?;
            }
            accepted += taken;
        }
        // The bytes are taken; what fails now fails the flush.
        let _ = self.outgoing.pass_on(&mut *self.below);
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
        if self.sending == Sending::Begun {
            self.encode(|encoder, output| encoder.flush(output))?;
            self.sending = Sending::Flushed;
        }
        self.outgoing.pass_on(&mut *self.below)?;
        self.below.flush()
    }

    fn holds(&self) -> bool {
        let own = matches!(self.receiving, Receiving::Full | Receiving::Ended);
        own || self.incoming.holds() || self.below.holds()
    }

    fn wants(&self, asked: Interest) -> Interest {
        let waiting = if self.outgoing.is_empty() { Interest::NONE } else { Interest::WRITE };
        self.below.wants(asked.with(waiting))
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        match self.sending {
            Sending::Begun | Sending::Flushed => {
                self.encode(|encoder, output| encoder.finish(output, true))?;
                self.sending = Sending::Ending;
            }
            Sending::Idle => self.sending = Sending::Ending,
            Sending::Ending | Sending::Ended => {}
        }
        self.outgoing.pass_on(&mut *self.below)?;
        if self.sending == Sending::Ending {
            self.below.finish_sending()?;
            self.sending = Sending::Ended;
        }
        Ok(())
    }

    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        if command.name == "finish_sending" {
            // What is left goes with the next reads.
            return unless_blocked(self.finish_sending()).map(|()| Answer::Done);
        }
        Err(io::ErrorKind::Unsupported.into())
    }
}
