//! A connection whose neighbours are watched as an element of a stack.

use crate::error::{Error, ErrorKind};
use std::io::{self, IoSlice, IoSliceMut};
use xdfs_io::stack::{Answer, Command, Flow, Interest, ReadInfo, WriteInfo};

/// The bytes of a direction: how many, and their FNV-1a digest, which finds mistakes and no malice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Total {
    bytes: u64,
    digest: u64,
}

impl Total {
    const NONE: Self = Self { bytes: 0, digest: 0xcbf2_9ce4_8422_2325 };

    /// Adds the first `left` bytes of the slices.
    fn add<'a>(&mut self, slices: impl Iterator<Item = &'a [u8]>, mut left: usize) {
        self.bytes += left as u64;
        for slice in slices {
            let part = &slice[..slice.len().min(left)];
            self.digest =
                part.iter().fold(self.digest, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
            left -= part.len();
        }
    }

    fn text(self) -> String {
        format!("{} bytes, {:016x}", self.bytes, self.digest)
    }
}

/// What the layers above and below may do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum VerifyState {
    /// It is not open: no bytes may move.
    Opening,
    /// Bytes may move in both directions.
    Open,
    /// The layer below has said that it receives nothing more.
    ReceivedAll,
    /// The contract was broken, in this way; every later call says so.
    Broken(&'static str),
}

/// A connection whose neighbours are watched.
pub(super) struct VerifyFlow {
    below: Box<dyn Flow>,
    sent: Total,
    received: Total,
    /// What the layer below said of itself at the beginning, and has to go on saying.
    holds_back: bool,
    state: VerifyState,
}

impl VerifyFlow {
    pub(super) fn new(below: Box<dyn Flow>) -> Self {
        let holds_back = below.holds_back();
        let (sent, received) = (Total::NONE, Total::NONE);
        Self { below, sent, received, holds_back, state: VerifyState::Opening }
    }

    fn broke<T>(&mut self, what: &'static str) -> io::Result<T> {
        let what = match self.state {
            // The first breach counts: the others may follow from it.
            VerifyState::Broken(first) => first,
            VerifyState::Opening | VerifyState::Open | VerifyState::ReceivedAll => what,
        };
        self.state = VerifyState::Broken(what);
        Err(Error::new(ErrorKind::Driver, what).of_driver("verify").into())
    }

    /// What the layer above may do now.
    fn begin(&mut self) -> io::Result<()> {
        match self.state {
            VerifyState::Open | VerifyState::ReceivedAll => {}
            VerifyState::Opening => {
                return self.broke("the layer above moves bytes before it was told that the element is open");
            }
            VerifyState::Broken(what) => return self.broke(what),
        }
        if self.below.holds_back() != self.holds_back {
            return self.broke("the layer below changes its mind about keeping bytes");
        }
        Ok(())
    }

    /// Whether somebody will be told when it is worth trying `asked` again.
    fn blocked(&mut self, asked: Interest, error: io::Error) -> io::Error {
        if error.kind() != io::ErrorKind::WouldBlock {
            return error;
        }
        let by_kernel = self.below.descriptor().is_some() && self.below.wants(asked) != Interest::NONE;
        let what = if asked == Interest::READ && self.below.holds() {
            "the layer below says that it holds bytes, and gives none"
        } else if !by_kernel && self.below.deadline().is_none() {
            "the layer below is not ready, and neither the kernel nor the clock will say when it is"
        } else {
            return error;
        };
        self.broke::<()>(what).err().unwrap_or(error)
    }
}

impl Flow for VerifyFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        self.begin()?;
        let asked: usize = into.iter().map(|slice| slice.len()).sum();
        let bytes = self.below.receive(into, info).map_err(|error| self.blocked(Interest::READ, error))?;
        if bytes > asked {
            return self.broke("the layer below claims to have received more than was asked for");
        }
        if bytes == 0 && asked > 0 && !info.end && !info.end_of_message {
            return self.broke("the layer below claims to have received, but neither bytes nor an end");
        }
        if self.state == VerifyState::ReceivedAll && asked > 0 && (bytes > 0 || !info.end) {
            return self.broke("the layer below goes on behind its end");
        }
        if info.end {
            self.state = VerifyState::ReceivedAll;
        }
        self.received.add(into.iter().map(|slice| &**slice), bytes);
        Ok(bytes)
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        self.begin()?;
        let asked: usize = from.iter().map(|slice| slice.len()).sum();
        let bytes = self.below.send(from, info).map_err(|error| self.blocked(Interest::WRITE, error))?;
        if bytes > asked {
            return self.broke("the layer below claims to have taken more than it was given");
        }
        if bytes == 0 && asked > 0 {
            return self.broke("the layer below claims to have taken bytes, but took none");
        }
        self.sent.add(from.iter().map(|slice| &**slice), bytes);
        Ok(bytes)
    }

    fn below(&self) -> Option<&dyn Flow> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        Some(&mut *self.below)
    }

    fn connected(&mut self) -> io::Result<()> {
        self.below.connected().map_err(|error| self.blocked(Interest::BOTH, error))?;
        if self.state == VerifyState::Opening {
            self.state = VerifyState::Open;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.begin()?;
        self.below.flush().map_err(|error| self.blocked(Interest::WRITE, error))
    }

    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        match &*command.name {
            "sent" => Ok(Answer::Text(self.sent.text())),
            "received" => Ok(Answer::Text(self.received.text())),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
