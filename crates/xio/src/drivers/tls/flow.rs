//! A stream of TLS, or of GSI, as an element of a stack.

use crate::drivers::opening::Opening;
use crate::drivers::queues::{FILLS_PER_CALL, Incoming, Outgoing, cut_off, unless_blocked};
use std::io::{self, IoSlice, IoSliceMut};
use std::time::{Duration, Instant};
use xdfs_io::stack::{Answer, Command, Flow, Interest, ReadInfo, WriteInfo};
use xdfs_secure::handshake::tls::byte_stream::{StreamError, Taken};

use super::session::Session;

/// How far the own direction is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Open,
    /// close_notify is on its way.
    Ending,
    /// The layer below was told, too.
    Ended,
}

/// What the end of the layer below means where the peer has not ended its direction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::drivers) enum Unannounced {
    /// Somebody may have cut the rest off.
    Cut,
    /// The peer's end, if no record is cut.
    End,
}

/// An open stream.
pub(in crate::drivers) struct TlsFlow<S> {
    below: Box<dyn Flow>,
    tls: S,
    unannounced: Unannounced,
    incoming: Incoming,
    outgoing: Outgoing,
    opening: Opening,
    sending: Sending,
}

impl<S: Session> TlsFlow<S> {
    pub(in crate::drivers) fn new(below: Box<dyn Flow>, tls: S, limit: Duration, unannounced: Unannounced) -> Self {
        let (incoming, outgoing) = Default::default();
        let opening = Opening::within(limit);
        Self { below, tls, unannounced, incoming, outgoing, opening, sending: Sending::Open }
    }

    /// Passes on what is to be sent: `WouldBlock` while some is left.
    fn pass_on(&mut self) -> io::Result<()> {
        self.tls.output(self.outgoing.end());
        self.outgoing.pass_on(&mut *self.below)?;
        if self.sending == Sending::Ending {
            self.below.finish_sending()?;
            self.sending = Sending::Ended;
        }
        Ok(())
    }

    /// Decrypts what came, and takes more from below where that is not enough: `WouldBlock` while
    /// there is none. False if there is no more.
    fn decrypt_more(&mut self) -> io::Result<bool> {
        if self.feed()? > 0 {
            return Ok(true);
        }
        if self.incoming.fill(&mut *self.below)? == 0 && self.incoming.has_ended() {
            return Ok(false);
        }
        self.feed().map(|_| true)
    }

    /// Decrypts what came: how many bytes were of use.
    fn feed(&mut self) -> io::Result<usize> {
        let before = self.incoming.rest();
        let mut rest = before;
        let fed = self.tls.feed(&mut rest);
        let taken = before.len() - rest.len();
        self.incoming.consume(taken);
        fed.map(|()| taken).map_err(|error| {
            // The peer is told why, if it still listens.
            let _ = self.pass_on();
            failed(error)
        })
    }

    /// The layer below has ended where more was due.
    fn on_end_below(&self) -> io::Result<()> {
        match self.unannounced {
            Unannounced::End if self.incoming.rest().is_empty() => Ok(()),
            Unannounced::End => Err(cut_off("the connection was cut: it ended within a record of TLS")),
            Unannounced::Cut => Err(cut_off("the connection was cut: it ended without TLS's close_notify")),
        }
    }

    fn shake_hands(&mut self) -> io::Result<()> {
        loop {
            unless_blocked(self.pass_on())?;
            if !self.tls.is_handshaking() {
                return self.pass_on();
            }
            if !self.decrypt_more()? {
                return Err(cut_off(&format!("the peer left during the {} handshake", S::NAME)));
            }
        }
    }
}

/// The error of the stream.
pub(in crate::drivers) fn failed(error: StreamError) -> io::Error {
    let kind = match error {
        StreamError::Settings(_) => io::ErrorKind::InvalidInput,
        StreamError::Untrusted(_) => io::ErrorKind::PermissionDenied,
        StreamError::Version | StreamError::Protocol(_) => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error.to_string())
}

impl<S: Session> Flow for TlsFlow<S> {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let Some(first) = into.iter_mut().find(|slice| !slice.is_empty()) else { return Ok(0) };
        // Answers of TLS itself. That they cannot be sent is told by the next write.
        let _ = self.pass_on();
        for _ in 0..FILLS_PER_CALL {
            match self.tls.take(first).map_err(failed)? {
                Taken::Bytes(bytes) => return Ok(bytes),
                Taken::End => {
                    info.end = true;
                    return Ok(0);
                }
                Taken::Nothing if self.decrypt_more()? => {}
                Taken::Nothing => {
                    self.on_end_below()?;
                    info.end = true;
                    return Ok(0);
                }
            }
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
            let taken = self.tls.put(slice).map_err(failed)?;
            accepted += taken;
            if taken < slice.len() {
                break;
            }
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

    fn connected(&mut self) -> io::Result<()> {
        loop {
            match self.opening {
                Opening::Below(by) => {
                    self.below.connected()?;
                    self.opening = Opening::Peer(by);
                }
                Opening::Peer(_) => {
                    self.shake_hands()?;
                    self.opening = Opening::Done;
                }
                Opening::Late => {
                    let what = format!("the {} handshake was not finished in time", S::NAME);
                    return Err(io::Error::new(io::ErrorKind::TimedOut, what));
                }
                Opening::Done => return Ok(()),
            }
        }
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on()?;
        self.below.flush()
    }

    fn holds(&self) -> bool {
        self.tls.has_something() || self.incoming.holds() || self.below.holds()
    }

    fn wants(&self, asked: Interest) -> Interest {
        let waiting = if self.outgoing.is_empty() { Interest::NONE } else { Interest::WRITE };
        let asked = match self.opening {
            Opening::Below(_) => asked,
            Opening::Peer(_) => Interest::READ.with(waiting),
            Opening::Late | Opening::Done => asked.with(waiting),
        };
        self.below.wants(asked)
    }

    fn deadline(&self) -> Option<Instant> {
        [self.opening.deadline(), self.below.deadline()].into_iter().flatten().min()
    }

    fn on_deadline(&mut self) {
        self.opening.on_deadline();
        if self.below.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
            self.below.on_deadline();
        }
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        if self.sending == Sending::Open {
            self.tls.close();
            self.sending = Sending::Ending;
        }
        self.pass_on()
    }

    /// What the session tells, and `finish_sending`.
    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        // What is left goes with the next reads.
        if &*command.name == "finish_sending" {
            return unless_blocked(self.finish_sending()).map(|()| Answer::Done);
        }
        let told = self.tls.tells(&command.name).ok_or(io::ErrorKind::Unsupported)?;
        Ok(told.map_or(Answer::Done, Answer::Text))
    }
}
