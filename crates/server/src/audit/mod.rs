//! The audit log: one JSON object per line and event, appended to a file or written to standard
//! error.
//!
//! Its schema is in docs/operations.md. It holds no secrets: events never carry any. A line is
//! ASCII whatever names and messages contain: control characters, bidirectional marks and bytes
//! that are not text are escaped (B07), so that neither a terminal nor a line parser can be fooled.
//! A write failure is reported on standard error; what the server does then is configurable
//! ([`OnFailure`]).

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
use xdfs_io::store::append_named;
use xdfs_proto::base::Error;

/// What a server does when it cannot write its audit log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFailure {
    /// It continues, and logs how many lines are missing once the log can be written again. The
    /// default: filling the disk of the log must not be a way to stop the server.
    #[default]
    GoOn,
    /// It stops: nothing may happen that is not logged.
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
    /// A write failed, and that was reported.
    failed: bool,
    /// The log took a line in parts, and that was reported.
    torn: bool,
}

/// The outcome of logging an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteOutcome {
    /// Bytes that the log grew by.
    pub bytes: usize,
    /// A line of it could not be written.
    pub failed: bool,
}

impl AuditLog {
    /// Appends to the file `path`, which is created if it is missing, with access for its owner
    /// only.
    pub fn file(path: &Path) -> Result<Self, Error> {
        let file = Some(append_named(path)?);
        Ok(Self { path: Some(path.to_owned()), target: Mutex::new(LogTarget { file, ..LogTarget::default() }) })
    }

    /// Writes to standard error.
    pub fn standard_error() -> Self {
        Self { path: None, target: Mutex::default() }
    }

    /// The folder in which its file is created again.
    pub fn folder(&self) -> Option<PathBuf> {
        let folder = self.path.as_deref()?.parent()?;
        Some(if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() })
    }

    /// Opens the file again after it was moved away. If that fails, the old one is kept.
    pub fn reopen(&self) -> Result<(), Error> {
        let Some(path) = &self.path else { return Ok(()) };
        let file = append_named(path)?;
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        target.owed.reopened();
        *target = LogTarget { file: Some(file), owed: std::mem::take(&mut target.owed), ..LogTarget::default() };
        Ok(())
    }

    /// Writes the lines of an event, each in one call, so that lines of several processes do not
    /// mix.
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
    /// Writes a line; a failure is reported once on standard error. If that fails as well, nothing
    /// can be done.
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
