//! Pipes, standard input and output, and non-regular files that the user names: bytes in order,
//! once.
//!
//! A stream has no size, cannot be read twice or rewound: an aborted stage does not undo what it
//! has written.

use super::errors::{self, Verb};
use super::io_loops::{read_full, stuck_words, write_full};
use super::{
    Attributes, CommitRequest, FileKind, Order, Result, Source, SourceCapability, SourceFile, Stage, StageCapability,
    StagedFile, Version,
};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use xdfs_proto::base::{ErrorKind, Timestamp};

/// A source that is read from its start to its end.
#[derive(Debug)]
pub struct StreamSource {
    file: OwnedFd,
    shown: String,
    attributes: Attributes,
}

impl StreamSource {
    /// Reads `file`; messages call it `shown`.
    pub fn new(file: OwnedFd, shown: impl Into<String>) -> Self {
        Self { file, shown: shown.into(), attributes: attributes() }
    }

    /// Opens `path`; opening a FIFO waits for a writer, as usual.
    pub(super) fn open(path: &[u8]) -> Result<Self> {
        let shown = errors::shown_bytes(path);
        let file = open(path, OFlags::RDONLY).map_err(|errno| errors::failed(Verb::Open, &shown, errno))?;
        Ok(Self::new(file, shown))
    }
}

impl Source {
    /// Standard input.
    pub fn standard_input() -> Result<Self> {
        let file = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 0);
        let file = file.map_err(|errno| errors::failed(Verb::Open, "standard input", errno))?;
        Ok(Self::new(StreamSource::new(file, "standard input")))
    }
}

impl SourceFile for StreamSource {
    fn capability(&self) -> SourceCapability {
        SourceCapability { sequential: true, ..SourceCapability::default() }
    }

    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let file = &self.file;
        read_full(buf, 0, |part, _| when_ready(file, PollFlags::IN, || rustix::io::read(file, &mut *part)))
            .map_err(|errno| errors::failed(Verb::Read, &self.shown, errno))
    }

    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn modified(&self) -> Option<Timestamp> {
        None
    }

    fn shown(&self) -> &str {
        &self.shown
    }
}

/// A stage whose bytes are written immediately, in ascending order.
#[derive(Debug)]
pub struct StreamStage {
    file: OwnedFd,
    shown: String,
    /// Start of the next range; none after a failure, when it is unknown.
    position: Mutex<Option<u64>>,
}

impl StreamStage {
    /// Writes to `file`; messages call it `shown`.
    pub fn new(file: OwnedFd, shown: impl Into<String>) -> Self {
        Self { file, shown: shown.into(), position: Mutex::new(Some(0)) }
    }

    /// Opens `path`; opening a FIFO waits for a reader.
    pub(super) fn open(path: &[u8]) -> Result<Self> {
        let shown = errors::shown_bytes(path);
        let file = open(path, OFlags::WRONLY).map_err(|errno| errors::failed(Verb::Open, &shown, errno))?;
        Ok(Self::new(file, shown))
    }
}

impl Stage {
    /// Standard output.
    pub fn standard_output() -> Result<Self> {
        let file = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 0);
        let file = file.map_err(|errno| errors::failed(Verb::Open, "standard output", errno))?;
        Ok(Self::new(StreamStage::new(file, "standard output")))
    }
}

impl StagedFile for StreamStage {
    fn capability(&self) -> StageCapability {
        StageCapability { order: Order::Ascending, ..StageCapability::default() }
    }

    fn write(&self, buf: &[u8], offset: u64) -> Result<()> {
        let refused = |because: &str| errors::refused(ErrorKind::OutOfRange, Verb::Write, &self.shown, because);
        // Held while writing: the order of two ranges is the order of the bytes.
        let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(start) = *position else {
            return Err(errors::refused(ErrorKind::Storage, Verb::Write, &self.shown, "an earlier write failed"));
        };
        if offset != start {
            return Err(refused(&format!("a stream is written in order: byte {start} is next, not {offset}")));
        }
        *position = None;
        write_full(buf, offset, |part, _| {
            when_ready(&self.file, PollFlags::OUT, || rustix::io::write(&self.file, part))
        })
        .map_err(|stuck| match stuck {
            super::io_loops::Stuck::Errno(Errno::PIPE) => {
                let because = "whoever read it closed the pipe";
                errors::refused(ErrorKind::Storage, Verb::Write, &self.shown, because).with_errno(32)
            }
            stuck => stuck_words(&self.shown, stuck),
        })?;
        *position = Some(start + buf.len() as u64);
        Ok(())
    }

    /// A stream supports only a length: mode and time belong to files.
    fn finish(&self, request: &CommitRequest) -> Result<()> {
        self.written(request).map(drop)
    }

    /// A stream is not named.
    fn name(&mut self, request: &CommitRequest) -> Result<Attributes> {
        self.written(request)
    }

    fn shown(&self) -> &str {
        &self.shown
    }
}

impl StreamStage {
    /// The attributes of what went out, if it is all that was to.
    fn written(&self, request: &CommitRequest) -> Result<Attributes> {
        let position = *self.position.lock().unwrap_or_else(PoisonError::into_inner);
        match position {
            Some(written) if written == request.length => Ok(Attributes { size: Some(written), ..attributes() }),
            Some(written) => {
                let because = format!("{written} bytes went out of {}", request.length);
                Err(errors::refused(ErrorKind::OutOfRange, Verb::Write, &self.shown, &because))
            }
            None => Err(errors::refused(ErrorKind::Storage, Verb::Write, &self.shown, "an earlier write failed")),
        }
    }
}

fn open(path: &[u8], mode: OFlags) -> std::result::Result<OwnedFd, Errno> {
    rustix::io::retry_on_intr(|| rustix::fs::open(path, mode | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()))
}

/// Runs `call`; if the descriptor was passed to us non-blocking, waits until it is ready and runs
/// it again.
fn when_ready(
    file: &OwnedFd,
    events: PollFlags,
    mut call: impl FnMut() -> std::result::Result<usize, Errno>,
) -> std::result::Result<usize, Errno> {
    loop {
        match call() {
            Err(Errno::AGAIN) => {
                rustix::event::poll(&mut [PollFd::from_borrowed_fd(file.as_fd(), events)], None)?;
            }
            other => return other,
        }
    }
}

fn attributes() -> Attributes {
    Attributes {
        kind: FileKind::Other,
        size: None,
        mode: 0o644,
        modified: Timestamp::default(),
        version: Version::default(),
    }
}
