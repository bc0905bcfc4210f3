//! The server's end of an exchange.

use super::body::{Decoder, Encoder};
use super::head::{self, BadHead, Framing, Request};
use super::wire::{NoHead, Wire, refused};
use crate::drivers::opening::Opening;
use crate::drivers::queues::{cut_off, unless_blocked};
use std::io::{self, IoSlice, IoSliceMut};
use std::time::{Duration, Instant};
use xdfs_io::stack::{Answer, Command, Flow, Interest, ReadInfo, WriteInfo};

/// What is said in answers, unless a command says otherwise.
#[derive(Clone)]
pub(super) struct Answers {
    /// Lines of the head.
    pub(super) lines: Vec<String>,
    pub(super) length: Option<u64>,
    /// Another request may follow.
    pub(super) keep: bool,
    /// How long the first head may take.
    pub(super) timeout: Duration,
}

/// What is received next.
enum Receiving {
    Head,
    Body(Exchange),
    /// The client has left between two requests.
    Left,
    /// What came is no request, and nothing behind it is taken for one.
    Refused(String),
}

/// A request whose head has come, and what follows from it for the answer.
struct Exchange {
    request: Request,
    body: Decoder,
    /// The client waits for leave to send the body.
    owes_continue: bool,
    /// The connection ends with this answer.
    closes: bool,
}

/// What is sent next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// The head, with this status and length.
    Head {
        status: u16,
        length: Option<u64>,
    },
    Body(Encoder),
}

/// An open exchange.
pub(super) struct ServerFlow {
    wire: Wire,
    answers: Answers,
    /// It is open when the first head is there.
    opening: Opening,
    receiving: Receiving,
    sending: Sending,
}

impl ServerFlow {
    pub(super) fn new(below: Box<dyn Flow>, answers: Answers) -> Self {
        let opening = Opening::within(answers.timeout);
        let sending = Sending::Head { status: 200, length: answers.length };
        Self { wire: Wire::new(below), answers, opening, receiving: Receiving::Head, sending }
    }

    /// Receives the head of a request, if it is due.
    fn receive_head(&mut self) -> io::Result<()> {
        match &self.receiving {
            Receiving::Head => {}
            Receiving::Body(_) | Receiving::Left => return Ok(()),
            Receiving::Refused(what) => return Err(refused(what.as_str())),
        }
        let request = match self.wire.receive_head() {
            Ok(head) => head::read_request(&head).map_err(|bad| self.reject(bad))?,
            Err(NoHead::Left) if self.opening == Opening::Done => {
                self.receiving = Receiving::Left;
                return Ok(());
            }
            Err(NoHead::Left) => return Err(cut_off("the client left without a request")),
            Err(NoHead::Bad(bad)) => return Err(self.reject(bad)),
            Err(NoHead::Failed(error)) => return Err(error),
        };
        self.receiving = Receiving::Body(Exchange {
            body: Decoder::new(request.body),
            owes_continue: request.expects_continue,
            closes: !self.answers.keep || request.fields.closes(request.modern),
            request,
        });
        Ok(())
    }

    /// Tells the client that its request is none, as far as it listens. Nothing more is read: where
    /// the next request begins cannot be told.
    fn reject(&mut self, bad: BadHead) -> io::Error {
        let (status, reason) = (bad.status, head::reason(bad.status));
        let answer = format!("HTTP/1.1 {status} {reason}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        self.wire.outgoing.end().extend_from_slice(answer.as_bytes());
        let _ = self.wire.pass_on();
        let what = format!("the request is refused with {status} {reason}: {}", bad.what);
        self.receiving = Receiving::Refused(what.clone());
        refused(what)
    }

    /// Puts the answer's head into the queue, if that is due. `empty`: no body follows.
    fn begin_answer(&mut self, empty: bool) -> io::Result<()> {
        let Sending::Head { status, length } = self.sending else { return Ok(()) };
        let Receiving::Body(exchange) = &mut self.receiving else {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "there is no request to answer"));
        };
        let without_body = matches!(status, 204 | 304);
        let framing = match length {
            _ if without_body || empty && length.is_none() => Framing::Length(0),
            Some(length) => Framing::Length(length),
            None if exchange.request.modern => Framing::Chunked,
            None => Framing::UntilClose,
        };
        // A body without leave may come or not: where the next request begins cannot be told.
        exchange.closes |= std::mem::take(&mut exchange.owes_continue) || framing == Framing::UntilClose;
        let mut head = format!("HTTP/1.1 {status} {}\r\n", head::reason(status));
        for line in &self.answers.lines {
            head.push_str(line);
            head.push_str("\r\n");
        }
        match framing {
            Framing::Length(_) if without_body => {}
            Framing::Length(length) => head.push_str(&format!("Content-Length: {length}\r\n")),
            Framing::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
            Framing::UntilClose => {}
        }
        head.push_str(match (exchange.closes, exchange.request.modern) {
            (true, _) => "Connection: close\r\n\r\n",
            (false, true) => "\r\n",
            (false, false) => "Connection: keep-alive\r\n\r\n",
        });
        let only_head = exchange.request.method == "HEAD";
        self.sending = Sending::Body(if only_head { Encoder::Discard } else { Encoder::new(framing) });
        self.wire.outgoing.end().extend_from_slice(head.as_bytes());
        Ok(())
    }

    fn end_answer(&mut self) -> io::Result<()> {
        self.begin_answer(true)?;
        let Sending::Body(body) = &mut self.sending else { return Ok(()) };
        let finished = body.finish(self.wire.outgoing.end());
        finished.map_err(|what| io::Error::new(io::ErrorKind::InvalidInput, what))
    }

    /// Waits for another request on the same connection.
    fn next(&mut self) -> io::Result<Answer> {
        let usage = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        let answered = self.sending == Sending::Body(Encoder::End);
        let closes = match &self.receiving {
            Receiving::Body(exchange) if answered && exchange.body == Decoder::End => exchange.closes,
            _ => return usage("the request before is not over: read it to the end and finish its answer"),
        };
        if closes {
            return usage("the connection ends with this answer: 'keep' was not set, or the client closes it");
        }
        self.receiving = Receiving::Head;
        self.sending = Sending::Head { status: 200, length: self.answers.length };
        Ok(Answer::Done)
    }

    /// Sets what the head will say.
    fn set(&mut self, command: &Command) -> io::Result<Answer> {
        let usage = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        let value = command.value.as_deref().unwrap_or_default();
        let Sending::Head { status, length } = &mut self.sending else {
            return usage("the head of the answer was sent");
        };
        match &*command.name {
            "status" => match value.parse() {
                Ok(code @ 200..=599) => *status = code,
                _ => return usage("'status' needs a number from 200 to 599"),
            },
            "length" => match value.parse() {
                Ok(bytes) => *length = Some(bytes),
                Err(_) => return usage("'length' needs a number of bytes"),
            },
            _ if !head::may_send(value) => {
                return usage("'line' needs 'Name: value', of a field that is not HTTP's own");
            }
            _ => self.answers.lines.push(value.to_owned()),
        }
        Ok(Answer::Done)
    }
}

impl Flow for ServerFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        // The rest of the answer before; that it cannot be sent is told by the next write.
        let _ = self.wire.pass_on();
        self.receive_head()?;
        if let Receiving::Body(exchange) = &mut self.receiving
            && std::mem::take(&mut exchange.owes_continue)
        {
            self.wire.outgoing.end().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            unless_blocked(self.wire.pass_on())?;
        }
        let bytes = match &mut self.receiving {
            Receiving::Body(exchange) => self.wire.receive_body(&mut exchange.body, into)?,
            Receiving::Head | Receiving::Left | Receiving::Refused(_) => 0,
        };
        info.end = bytes == 0 && into.iter().any(|slice| !slice.is_empty());
        Ok(bytes)
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        self.begin_answer(false)?;
        let Sending::Body(body) = &mut self.sending else { return Err(io::ErrorKind::NotConnected.into()) };
        self.wire.send_body(body, from, info)
    }

    fn below(&self) -> Option<&dyn Flow> {
        Some(&*self.wire.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        Some(&mut *self.wire.below)
    }

    fn connected(&mut self) -> io::Result<()> {
        loop {
            match self.opening {
                Opening::Below(by) => {
                    self.wire.below.connected()?;
                    self.opening = Opening::Peer(by);
                }
                Opening::Peer(_) => {
                    self.receive_head()?;
                    self.opening = Opening::Done;
                }
                Opening::Late => {
                    let what = "the client did not send its request in time";
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
        self.wire.pass_on()?;
        self.wire.below.flush()
    }

    fn holds(&self) -> bool {
        let over = match &self.receiving {
            Receiving::Head => false,
            Receiving::Body(exchange) => exchange.body == Decoder::End,
            Receiving::Left | Receiving::Refused(_) => true,
        };
        over || self.wire.holds()
    }

    fn wants(&self, asked: Interest) -> Interest {
        match self.opening {
            Opening::Below(_) => self.wire.below.wants(asked),
            Opening::Peer(_) => self.wire.wants(Interest::READ),
            Opening::Late | Opening::Done => self.wire.wants(asked),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        [self.opening.deadline(), self.wire.below.deadline()].into_iter().flatten().min()
    }

    fn on_deadline(&mut self) {
        self.opening.on_deadline();
        if self.wire.below.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
            self.wire.below.on_deadline();
        }
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        let asked = matches!(self.receiving, Receiving::Body(_));
        let ended = if asked { self.end_answer() } else { Ok(()) };
        self.wire.pass_on()?;
        self.wire.below.finish_sending()?;
        ended
    }

    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        let request = match &self.receiving {
            Receiving::Body(exchange) => Some(&exchange.request),
            Receiving::Head | Receiving::Left | Receiving::Refused(_) => None,
        };
        match (&*command.name, request) {
            ("method", Some(request)) => Ok(Answer::Text(request.method.clone())),
            ("target", Some(request)) => Ok(Answer::Text(request.target.clone())),
            ("header", Some(request)) => Ok(super::field(&request.fields, command)),
            ("method" | "target" | "header", None) => Ok(Answer::Done),
            ("status" | "length" | "line", _) => self.set(command),
            ("finish_sending", _) => {
                self.end_answer()?;
                unless_blocked(self.wire.pass_on()).map(|()| Answer::Done)
            }
            ("next", _) => self.next(),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
