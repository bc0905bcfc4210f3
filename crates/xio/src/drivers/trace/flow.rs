//! A connection that is watched as an element of a stack.

use std::fmt::Display;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use xdfs_io::stack::{Answer, Command, Flow, ReadInfo, WriteInfo};

/// Where lines go.
#[derive(Clone)]
pub(super) enum Lines {
    StandardError,
    File(Arc<OwnedFd>),
}

/// A connection that is watched.
pub(super) struct TraceFlow {
    below: Box<dyn Flow>,
    lines: Lines,
    number: u64,
    /// Its opening was told.
    is_open: bool,
}

impl TraceFlow {
    pub(super) fn new(below: Box<dyn Flow>, lines: Lines, number: u64) -> Self {
        Self { below, lines, number, is_open: false }
    }

    fn say(&self, what: impl Display) {
        let line = format!("trace {}: {what}\n", self.number);
        // One call a line: those of several elements do not mix. That it fails changes nothing else.
        match &self.lines {
            Lines::StandardError => drop(io::stderr().write_all(line.as_bytes())),
            Lines::File(file) => drop(rustix::io::write(file, line.as_bytes())),
        }
    }

    /// Tells how a call ended, unless it was not ready.
    fn tell<T>(&self, call: &str, result: &io::Result<T>, ended: impl FnOnce(&T) -> String) {
        match result {
            Ok(value) => self.say(format_args!("{call}{}", ended(value))),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => self.say(format_args!("{call} failed: {}", error.to_string().escape_debug())),
        }
    }
}

impl Flow for TraceFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let asked: usize = into.iter().map(|slice| slice.len()).sum();
        let result = self.below.receive(into, info);
        self.tell("receive", &result, |bytes| {
            let message = if info.end_of_message { ", the end of a message" } else { "" };
            let end = if info.end { ", the end" } else { "" };
            format!(" {bytes} of {asked}{message}{end}")
        });
        result
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        let asked: usize = from.iter().map(|slice| slice.len()).sum();
        let result = self.below.send(from, info);
        self.tell("send", &result, |bytes| {
            let message = if info.end_of_message { ", the end of a message" } else { "" };
            format!(" {bytes} of {asked}{message}")
        });
        result
    }

    fn below(&self) -> Option<&dyn Flow> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        Some(&mut *self.below)
    }

    fn connected(&mut self) -> io::Result<()> {
        let result = self.below.connected();
        if !self.is_open {
            self.tell("open", &result, |()| String::new());
            self.is_open = result.is_ok();
        }
        result
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        let result = self.below.finish_sending();
        self.tell("finish sending", &result, |()| String::new());
        result
    }

    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        self.say(format_args!("command {}", command.name.escape_debug()));
        // It is for the drivers below.
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Drop for TraceFlow {
    fn drop(&mut self) {
        self.say("close");
    }
}
