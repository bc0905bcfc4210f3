//! A TLS stream as an element of a stack.

use crate::drivers::opening::Opening;
use crate::drivers::queues::{FILLS_PER_CALL, Incoming, Outgoing, cut_off, unless_blocked};
use std::io::{self, IoSlice, IoSliceMut};
use std::time::{Duration, Instant};
use xdfs_io::stack::{Answer, Command, Flow, Interest, ReadInfo, WriteInfo};
use xdfs_secure::handshake::tls::byte_stream::{StreamError, Taken, Tls};

/// How far the own direction is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Open,
    /// close_notify is on its way.
    Ending,
    /// The layer below was told, too.
    Ended,
}

/// An open TLS stream.
pub(super) struct TlsFlow {
    below: Box<dyn Flow>,
    tls: Tls,
    incoming: Incoming,
    outgoing: Outgoing,
    opening: Opening,
    sending: Sending,
}

impl TlsFlow {
    pub(super) fn new(below: Box<dyn Flow>, tls: Tls, limit: Duration) -> Self {
        let (incoming, outgoing) = Default::default();
        let opening = Opening::within(limit);
        Self { below, tls, incoming, outgoing, opening, sending: Sending::Open }
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
    /// there is none.
    fn decrypt_more(&mut self, where_cut: &str) -> io::Result<()> {
        if self.incoming.rest().is_empty() && self.incoming.fill(&mut *self.below)? == 0 && self.incoming.has_ended() {
            return Err(cut_off(where_cut));
        }
        let before = self.incoming.rest();
        let mut rest = before;
        let fed = self.tls.feed(&mut rest);
        let taken = before.len() - rest.len();
        self.incoming.consume(taken);
        fed.map_err(|error| {
            // The peer is told why, if it still listens.
            let _ = self.pass_on();
            failed(error)
        })
    }

    fn shake_hands(&mut self) -> io::Result<()> {
        loop {
            unless_blocked(self.pass_on())?;
            if !self.tls.is_handshaking() {
                return self.pass_on();
            }
            self.decrypt_more("the peer left during the TLS handshake")?;
        }
    }
}

/// The error of the stream.
pub(super) fn failed(error: StreamError) -> io::Error {
    let kind = match error {
        StreamError::Settings(_) => io::ErrorKind::InvalidInput,
        StreamError::Untrusted(_) => io::ErrorKind::PermissionDenied,
        StreamError::Version | StreamError::Protocol(_) => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error.to_string())
}

impl Flow for TlsFlow {
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
                Taken::Nothing => self.decrypt_more("the connection was cut: it ended without TLS's close_notify")?,
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
                    let what = "the TLS handshake was not finished in time";
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

    /// `alpn`: the protocol agreed on; `server_name`: what the client asked for; `peer_key`: the
    /// fingerprint of its certificate's key; `suite`; `finish_sending`.
    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        let text = |found: Option<String>| Ok(found.map_or(Answer::Done, Answer::Text));
        match &*command.name {
            "alpn" => text(self.tls.protocol()),
            "server_name" => text(self.tls.server_name().map(str::to_owned)),
            "peer_key" => text(self.tls.peer().map(|key| key.to_string())),
            "suite" => text(self.tls.suite()),
            // What is left goes with the next reads.
            "finish_sending" => unless_blocked(self.finish_sending()).map(|()| Answer::Done),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
