//! Two directions as one element of a stack.

use super::ends::{Input, Output};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::time::Instant;
use xdfs_io::stack::{Answer, Command, Flow, Interest, ReadInfo, WriteInfo};

/// An open pair of pipes; a direction that it has not, or not any more, is none.
pub(super) struct PipeFlow {
    input: Option<Input>,
    output: Option<Output>,
}

impl PipeFlow {
    pub(super) fn new(input: Option<Input>, output: Option<Output>) -> Self {
        Self { input, output }
    }
}

impl Flow for PipeFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let bytes = match &self.input {
            Some(input) => input.receive(into)?,
            None => 0,
        };
        info.end = bytes == 0 && into.iter().any(|slice| !slice.is_empty());
        Ok(bytes)
    }

    fn send(&mut self, from: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        let none = || io::Error::new(io::ErrorKind::Unsupported, "it has no output, or that was finished");
        self.output.as_ref().ok_or_else(none)?.send(from)
    }

    fn connected(&mut self) -> io::Result<()> {
        self.output.as_mut().map_or(Ok(()), Output::connect)
    }

    fn wants(&self, asked: Interest) -> Interest {
        let looks = self.output.as_ref().and_then(Output::next_look).is_some();
        if looks { Interest::NONE } else { asked }
    }

    fn deadline(&self) -> Option<Instant> {
        self.output.as_ref().and_then(Output::next_look)
    }

    fn on_deadline(&mut self) {
        if let Some(output) = &mut self.output {
            output.look();
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let input = self.input.as_ref().and_then(|input| input.0.watched());
        input.or_else(|| self.output.as_ref().and_then(Output::watched))
    }

    fn sending_descriptor(&self) -> Option<BorrowedFd<'_>> {
        // Where only the output is watched, it is the one descriptor.
        self.input.as_ref().and_then(|input| input.0.watched())?;
        self.output.as_ref().and_then(Output::watched)
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        self.output = None;
        Ok(())
    }

    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        if command.name == "finish_sending" {
            return self.finish_sending().map(|()| Answer::Done);
        }
        Err(io::ErrorKind::Unsupported.into())
    }
}
