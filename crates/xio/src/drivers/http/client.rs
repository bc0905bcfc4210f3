//! The client's end of an exchange.

use super::body::{Decoder, Encoder};
use super::head::{self, Framing, Response};
use super::wire::{NoHead, Wire, refused};
use crate::drivers::queues::{cut_off, unless_blocked};
use std::io::{self, IoSlice, IoSliceMut};
use xdfs_io::stack::{Answer, Command, Flow, Interest, ReadInfo, WriteInfo};

/// Responses before the last one that a server may send.
const INTERIM_MAX: usize = 8;

/// What is asked for.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) method: String,
    pub(super) target: String,
    /// As it stands in the head.
    pub(super) host: String,
    /// Further lines of the head.
    pub(super) lines: Vec<String>,
    /// Of the body, where it is known.
    pub(super) length: Option<u64>,
    /// Another request may follow.
    pub(super) keep: bool,
    /// A response with a status of failure is read like others.
    pub(super) any_status: bool,
}

impl Plan {
    /// The framing of the request's body.
    fn framing(&self) -> Framing {
        match (self.method.as_str(), self.length) {
            ("PUT" | "POST" | "PATCH", None) => Framing::Chunked,
            ("PUT" | "POST" | "PATCH", Some(length)) => Framing::Length(length),
            _ => Framing::Length(0),
        }
    }

    fn write_head(&self, into: &mut Vec<u8>) {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", self.method, self.target, self.host);
        for line in &self.lines {
            head.push_str(line);
            head.push_str("\r\n");
        }
        match self.framing() {
            Framing::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
            Framing::Length(length) if length > 0 || self.length.is_some() || self.method == "PUT" => {
                head.push_str(&format!("Content-Length: {length}\r\n"));
            }
            Framing::Length(_) | Framing::UntilClose => {}
        }
        head.push_str(if self.keep { "\r\n" } else { "Connection: close\r\n\r\n" });
        into.extend_from_slice(head.as_bytes());
    }
}

/// What is received next.
enum Receiving {
    /// The head, after so many interim ones.
    Head {
        interim: usize,
    },
    Body {
        response: Response,
        body: Decoder,
    },
    /// What came is no answer, and nothing behind it is taken for one.
    Refused(String),
}

/// An open exchange.
pub(super) struct ClientFlow {
    wire: Wire,
    plan: Plan,
    /// The layer below is open.
    below_open: bool,
    receiving: Receiving,
    sending: Encoder,
}

impl ClientFlow {
    pub(super) fn new(below: Box<dyn Flow>, plan: Plan) -> Self {
        let sending = Encoder::new(plan.framing());
        let mut wire = Wire::new(below);
        plan.write_head(wire.outgoing.end());
        Self { wire, plan, below_open: false, receiving: Receiving::Head { interim: 0 }, sending }
    }

    /// Receives heads until the one that counts is there.
    fn receive_head(&mut self) -> io::Result<()> {
        if let Receiving::Refused(what) = &self.receiving {
            return Err(refused(what.as_str()));
        }
        while let Receiving::Head { interim } = &mut self.receiving {
            let head = match self.wire.receive_head() {
                Ok(head) => head,
                Err(NoHead::Left) => return Err(cut_off("the server left without an answer")),
                Err(NoHead::Bad(bad)) => return Err(self.refuse(bad.what)),
                Err(NoHead::Failed(error)) => return Err(error),
            };
            let response = match head::read_response(&head) {
                Ok(response) => response,
                Err(bad) => return Err(self.refuse(bad.what)),
            };
            if response.status < 200 {
                *interim += 1;
                if response.status == 101 || *interim > INTERIM_MAX {
                    return Err(self.refuse("its status leads nowhere"));
                }
                continue;
            }
            let framing = match response.framing(&self.plan.method) {
                Ok(framing) => framing,
                Err(bad) => return Err(self.refuse(bad.what)),
            };
            self.receiving = Receiving::Body { response, body: Decoder::new(framing) };
        }
        Ok(())
    }

    /// Nothing more is read: where the next answer begins cannot be told.
    fn refuse(&mut self, what: &str) -> io::Error {
        let what = format!("the answer is no HTTP: {what}");
        self.receiving = Receiving::Refused(what.clone());
        refused(what)
    }

    /// Begins another request on the same connection.
    fn next(&mut self, asked: &str) -> io::Result<Answer> {
        let usage = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        let over = match &self.receiving {
            Receiving::Body { response, body: Decoder::End } if self.sending == Encoder::End => {
                self.plan.keep && !response.fields.closes(response.modern)
            }
            _ => return usage("the request before is not over: finish it and read its answer to the end"),
        };
        if !over {
            return usage("the connection ends with this answer: 'keep' was not set, or the server closes it");
        }
        let (method, target) = asked.split_once(' ').unwrap_or(("GET", asked));
        if !super::is_method(method) || !super::is_target(target) {
            return usage("'next' needs a target such as /path, and a method before it unless it is GET");
        }
        self.plan.method = method.to_owned();
        self.plan.target = target.to_owned();
        self.plan.length = None;
        self.sending = Encoder::new(self.plan.framing());
        self.receiving = Receiving::Head { interim: 0 };
        self.plan.write_head(self.wire.outgoing.end());
        unless_blocked(self.wire.pass_on())?;
        Ok(Answer::Done)
    }

    fn end_request(&mut self) -> io::Result<()> {
        let finished = self.sending.finish(self.wire.outgoing.end());
        finished.map_err(|what| io::Error::new(io::ErrorKind::InvalidInput, what))
    }
}

/// A status of failure, as an error.
fn failure(response: &Response) -> io::Error {
    let kind = match response.status {
        404 | 410 => io::ErrorKind::NotFound,
        401 | 403 | 407 => io::ErrorKind::PermissionDenied,
        408 | 504 => io::ErrorKind::TimedOut,
        405 | 501 => io::ErrorKind::Unsupported,
        _ => io::ErrorKind::Other,
    };
    let mut what = format!("the server answers {} {}", response.status, response.reason);
    if let Some(place) = response.fields.all("location").next().filter(|_| response.status < 400) {
        let place: String = place.escape_debug().take(200).collect();
        what.push_str(&format!("; it is at {place}, which is not followed"));
    }
    io::Error::new(kind, what)
}

impl Flow for ClientFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        // The rest of the request; that it cannot be sent is told by the next write, or by the end
        // of the connection.
        let _ = self.wire.pass_on();
        self.receive_head()?;
        let Receiving::Body { response, body } = &mut self.receiving else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        if response.status >= 300 && !self.plan.any_status {
            return Err(failure(response));
        }
        let bytes = self.wire.receive_body(body, into)?;
        info.end = bytes == 0 && into.iter().any(|slice| !slice.is_empty());
        Ok(bytes)
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        self.wire.send_body(&mut self.sending, from, info)
    }

    fn below(&self) -> Option<&dyn Flow> {
        Some(&*self.wire.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        Some(&mut *self.wire.below)
    }

    fn connected(&mut self) -> io::Result<()> {
        if !self.below_open {
            self.wire.below.connected()?;
            self.below_open = true;
        }
        self.wire.pass_on()
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn flush(&mut self) -> io::Result<()> {
        self.wire.pass_on()?;
        self.wire.below.flush()
    }

    fn holds(&self) -> bool {
        let over = matches!(self.receiving, Receiving::Body { body: Decoder::End, .. } | Receiving::Refused(_));
        over || self.wire.holds()
    }

    fn wants(&self, asked: Interest) -> Interest {
        if self.below_open { self.wire.wants(asked) } else { self.wire.below.wants(asked) }
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        let ended = self.end_request();
        self.wire.pass_on()?;
        ended?;
        self.wire.below.flush()
    }

    /// Only now: there are servers that take it for the end of all who ask for the answer.
    fn ready_to_close(&mut self) -> io::Result<()> {
        self.wire.below.finish_sending()?;
        self.wire.below.ready_to_close()
    }

    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        let response = match &self.receiving {
            Receiving::Body { response, .. } => Some(response),
            Receiving::Head { .. } | Receiving::Refused(_) => None,
        };
        match (&*command.name, response) {
            ("status", Some(response)) => Ok(Answer::Number(u64::from(response.status))),
            ("reason", Some(response)) => Ok(Answer::Text(response.reason.clone())),
            ("header", Some(response)) => Ok(super::field(&response.fields, command)),
            ("status" | "reason" | "header", None) => Ok(Answer::Done),
            ("finish_sending", _) => {
                self.end_request()?;
                unless_blocked(self.wire.pass_on()).map(|()| Answer::Done)
            }
            ("next", _) => self.next(command.value.as_deref().unwrap_or_default()),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
