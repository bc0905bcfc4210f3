//! A connection with questions and answers as an element of a stack.
//!
//! A record is a byte that says what it is, four with a number, the most significant first, and of content
//! as many bytes as the number says.

use crate::drivers::queues::{CHUNK_BYTES, FILLS_PER_CALL, Incoming, Outgoing, cut_off, unless_blocked};
use std::io::{self, IoSlice, IoSliceMut};
use xdfs_io::stack::{Answer, Command, Flow, Interest, ReadInfo, WriteInfo};

/// Bytes of a record's head.
pub(super) const HEAD_BYTES: usize = 5;
/// Most questions that wait for their answers; more are not asked.
pub(super) const QUESTIONS_MAX: u64 = 64;
/// Most answers that wait for a peer that does not read them.
pub(super) const ANSWERS_MAX: usize = 1024;

pub(super) const CONTENT: u8 = 0;
pub(super) const QUESTION: u8 = 1;
pub(super) const ANSWER: u8 = 2;
pub(super) const END: u8 = 3;

/// The head of a record.
pub(super) fn head(kind: u8, number: u32) -> [u8; HEAD_BYTES] {
    let [a, b, c, d] = number.to_be_bytes();
    [kind, a, b, c, d]
}

/// How far the own direction is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Open,
    Ending,
    Ended,
}

/// How far the peer's direction is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiving {
    /// The head of a record is next.
    Head,
    /// So many bytes of the content of a record are left.
    Content(usize),
    /// The peer said that it sends no more.
    Ended,
    /// Nothing more is taken, for this reason; what came before it is.
    Refused(&'static str),
}

/// A connection with questions and answers.
pub(super) struct OpFlow {
    below: Box<dyn Flow>,
    every: u64,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Records of content that were sent.
    pieces: u64,
    asked: u64,
    answered: u64,
    /// Answers since nothing waited to be sent.
    answers: usize,
    receiving: Receiving,
    sending: Sending,
}

impl OpFlow {
    pub(super) fn new(below: Box<dyn Flow>, every: u64) -> Self {
        let (incoming, outgoing) = Default::default();
        Self {
            below,
            every,
            incoming,
            outgoing,
            pieces: 0,
            asked: 0,
            answered: 0,
            answers: 0,
            receiving: Receiving::Head,
            sending: Sending::Open,
        }
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

    /// Whether there are answers to wait for. Behind content, which is for somebody else, there are none.
    fn awaits_answers(&self) -> bool {
        self.answered < self.asked && self.receiving == Receiving::Head && !self.incoming.has_ended()
    }

    /// Takes content out of what came, as much as `into` holds, and does what the other records ask for.
    fn decode(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut made = 0;
        loop {
            let rest = self.incoming.rest();
            match self.receiving {
                Receiving::Head => {
                    let Some(&[kind, a, b, c, d]) = rest.first_chunk() else { break };
                    self.incoming.consume(HEAD_BYTES);
                    let next = self.on_record(kind, u32::from_be_bytes([a, b, c, d]));
                    self.receiving = next.unwrap_or_else(Receiving::Refused);
                }
                Receiving::Content(left) => {
                    let bytes = left.min(rest.len()).min(into.len() - made);
                    if bytes == 0 {
                        break;
                    }
                    into[made..made + bytes].copy_from_slice(&rest[..bytes]);
                    self.incoming.consume(bytes);
                    made += bytes;
                    self.receiving = if bytes == left { Receiving::Head } else { Receiving::Content(left - bytes) };
                }
                Receiving::Ended | Receiving::Refused(_) => break,
            }
        }
        match self.receiving {
            Receiving::Refused(what) if made == 0 => Err(io::Error::new(io::ErrorKind::InvalidData, what)),
            _ => Ok(made),
        }
    }

    /// What follows the head of a record.
    fn on_record(&mut self, kind: u8, number: u32) -> Result<Receiving, &'static str> {
        match kind {
            CONTENT => match number as usize {
                length @ 1..=CHUNK_BYTES => return Ok(Receiving::Content(length)),
                _ => return Err("a record of content has a length that none has"),
            },
            // Who has finished sending answers no more.
            QUESTION if self.sending != Sending::Open => {}
            QUESTION if self.answers == ANSWERS_MAX => return Err("the peer asks, and does not read the answers"),
            QUESTION => {
                self.answers += 1;
                self.outgoing.end().extend_from_slice(&head(ANSWER, number));
            }
            ANSWER if self.answered < self.asked && number == self.answered as u32 => self.answered += 1,
            ANSWER => return Err("an answer came that was not asked for"),
            END => return Ok(Receiving::Ended),
            _ => return Err("a record came that is none"),
        }
        Ok(Receiving::Head)
    }
}

impl Flow for OpFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let Some(first) = into.iter_mut().find(|slice| !slice.is_empty()) else { return Ok(0) };
        for _ in 0..FILLS_PER_CALL {
            let made = self.decode(first)?;
            // That answers cannot be sent is told by the next write.
            let _ = self.pass_on();
            if made > 0 {
                return Ok(made);
            }
            if self.receiving == Receiving::Ended {
                info.end = true;
                return Ok(0);
            }
            if self.incoming.has_ended() {
                return Err(cut_off("the connection was cut before the peer said that it sends no more"));
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
        let length = from.iter().map(|slice| slice.len()).sum::<usize>().min(CHUNK_BYTES);
        if length == 0 {
            return Ok(0);
        }
        if self.pieces.is_multiple_of(self.every) && self.asked - self.answered < QUESTIONS_MAX {
            self.outgoing.end().extend_from_slice(&head(QUESTION, self.asked as u32));
            self.asked += 1;
        }
        self.pieces += 1;
        self.outgoing.end().extend_from_slice(&head(CONTENT, length as u32));
        let mut left = length;
        for slice in from {
            let taken = slice.len().min(left);
            self.outgoing.end().extend_from_slice(&slice[..taken]);
            left -= taken;
        }
        // The bytes are taken; what fails now fails the flush.
        let _ = self.pass_on();
        Ok(length)
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
        let over = matches!(self.receiving, Receiving::Ended | Receiving::Refused(_)) || self.incoming.has_ended();
        over || self.incoming.holds() || self.below.holds()
    }

    fn wants(&self, asked: Interest) -> Interest {
        let waiting = if self.outgoing.is_empty() { Interest::NONE } else { Interest::WRITE };
        self.below.wants(asked.with(waiting))
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        if self.sending == Sending::Open {
            self.outgoing.end().extend_from_slice(&head(END, 0));
            self.sending = Sending::Ending;
        }
        self.pass_on()
    }

    /// Ends the own operations: whoever leaves while answers are on their way resets the connection, and the
    /// peer loses what it did not read yet.
    fn ready_to_close(&mut self) -> io::Result<()> {
        for _ in 0..FILLS_PER_CALL {
            self.decode(&mut [])?;
            if !self.awaits_answers() {
                return self.below.ready_to_close();
            }
            self.incoming.fill(&mut *self.below)?;
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        match &*command.name {
            "asked" => Ok(Answer::Number(self.asked)),
            "answered" => Ok(Answer::Number(self.answered)),
            // What is left goes with the next reads.
            "finish_sending" => unless_blocked(self.finish_sending()).map(|()| Answer::Done),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
