//! The audit log: one JSON object a line for every event, to a file at whose end it is written or to standard error.
//!
//! Its schema is in docs/operations.md. It holds no secrets: events never carry any. A line is ASCII whatever names and
//! messages hold: control characters, bidirectional marks and bytes that are no text are escaped (B07), so that neither a
//! terminal nor a parser of lines can be fooled. A file that cannot be written is told on standard error; what the server does
//! then is for its administrator to say ([`OnFailure`]).

mod append;
mod clip;
mod line;
mod pace;
mod time;

#[cfg(test)]
mod tests;

pub use line::{LINE_BYTES_MAX, lines};

pub(crate) use pace::Pace;

use crate::log::LogEvent;
use append::PendingLines;
use std::fs::File;
use std::io::{Result as IoResult, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use xdfs_proto::base::Error;
use xdfs_xio::store::append_named;

/// What a server does that cannot write its audit log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFailure {
    /// It goes on, and tells in the log how many lines are missing once it can be written again. The default: whoever can
    /// fill the disk of the log must not be able to stop the server by it.
    #[default]
    GoOn,
    /// It stops: nothing is to happen that is not told.
    Stop,
}

/// The audit log: one JSON object per line and event.
#[derive(Debug)]
pub struct AuditLog {
    path: Option<PathBuf>,
    target: Mutex<LogTarget>,
}

#[derive(Debug, Default)]
struct LogTarget {
    /// None writes to standard error.
    file: Option<File>,
    owed: PendingLines,
    /// It failed, and that was told.
    failed: bool,
    /// It took a line in parts, and that was told.
    torn: bool,
}

/// What became of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteOutcome {
    /// Bytes that the log grew by.
    pub bytes: usize,
    /// Some line of it could not be written.
    pub failed: bool,
}

impl AuditLog {
    /// Writes at the end of the file `path`, which is made where it is missing, for its owner alone.
    pub fn file(path: &Path) -> Result<Self, Error> {
        let file = Some(append_named(path)?);
        Ok(Self { path: Some(path.to_owned()), target: Mutex::new(LogTarget { file, ..LogTarget::default() }) })
    }

    /// Writes to standard error.
    pub fn standard_error() -> Self {
        Self { path: None, target: Mutex::default() }
    }

    /// The folder in which its file is made again.
    pub fn folder(&self) -> Option<PathBuf> {
        let folder = self.path.as_deref()?.parent()?;
        Some(if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() })
    }

    /// Opens the file again: somebody moved it away. Where that fails the old one is kept.
    pub fn reopen(&self) -> Result<(), Error> {
        let Some(path) = &self.path else { return Ok(()) };
        let file = append_named(path)?;
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        target.owed.reopened();
        *target = LogTarget { file: Some(file), owed: std::mem::take(&mut target.owed), ..LogTarget::default() };
        Ok(())
    }

    /// Writes the lines of an event, each in one call, so that lines of several processes do not mix.
    pub fn write(&self, event: &LogEvent) -> WriteOutcome {
        let lines = lines(event, SystemTime::now());
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wrote = WriteOutcome::default();
        for mut line in lines {
            line.push('\n');
            wrote.bytes += line.len();
            wrote.failed |= !target.write(line.as_bytes());
        }
        wrote
    }
}

impl LogTarget {
    /// Writes a line; what goes wrong is told once on standard error. Nothing can be done where that fails as well.
    fn write(&mut self, line: &[u8]) -> bool {
        let lost = |lines| line::lost(lines, SystemTime::now());
        let written: IoResult<bool> = match &mut self.file {
            Some(file) => self.owed.write(file, line, lost),
            None => self.owed.write(&mut std::io::stderr().lock(), line, lost),
        };
        let failed = written.is_err();
        match written {
            Ok(true) => {}
            Ok(false) if std::mem::replace(&mut self.torn, true) => {}
            Ok(false) => {
                let _ = writeln!(std::io::stderr(), "xdfs: the audit log took a line in parts; it is complete now");
            }
            Err(error) if !self.failed => {
                let _ = writeln!(std::io::stderr(), "xdfs: the audit log cannot be written: {error}");
            }
            Err(_) => {}
        }
        self.failed = failed;
        !failed
    }
}
