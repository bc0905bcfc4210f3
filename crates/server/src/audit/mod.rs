//! The audit log: one JSON object a line for every event, to a file at whose end it is written or to standard error.
//!
//! Its schema is in docs/operations.md. It holds no secrets: events never carry any. A line is ASCII whatever names and
//! messages hold: control characters, bidirectional marks and bytes that are no text are escaped (B07), so that neither a
//! terminal nor a parser of lines can be fooled. A file that cannot be written is told once on standard error, and the
//! server goes on: losing the log must not mean losing transfers.

mod line;
mod time;

#[cfg(test)]
mod tests;

pub use line::line;

use crate::log::LogEvent;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use xdfs_proto::base::Error;
use xdfs_xio::store::append_named;

/// See the module.
#[derive(Debug)]
pub struct AuditLog {
    path: Option<PathBuf>,
    target: Mutex<Target>,
}

#[derive(Debug)]
struct Target {
    /// None writes to standard error.
    file: Option<File>,
    /// It failed, and that was told.
    failed: bool,
}

impl AuditLog {
    /// Writes at the end of the file `path`, which is made where it is missing, for its owner alone.
    pub fn file(path: &Path) -> Result<Self, Error> {
        let file = Some(append_named(path)?);
        Ok(Self { path: Some(path.to_owned()), target: Mutex::new(Target { file, failed: false }) })
    }

    /// Writes to standard error.
    pub fn standard_error() -> Self {
        Self { path: None, target: Mutex::new(Target { file: None, failed: false }) }
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
        *target = Target { file: Some(file), failed: false };
        Ok(())
    }

    /// Writes an event. A line goes out in one call, so that lines of several processes do not mix.
    pub fn write(&self, event: &LogEvent) {
        let Some(mut line) = line(event, SystemTime::now()) else { return };
        line.push('\n');
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        let written = match &mut target.file {
            Some(file) => file.write_all(line.as_bytes()),
            None => std::io::stderr().write_all(line.as_bytes()),
        };
        let failed = written.is_err();
        if let Err(error) = written
            && !target.failed
        {
            // Nothing can be done where this fails as well.
            let _ = writeln!(std::io::stderr(), "xdfs: the audit log cannot be written: {error}");
        }
        target.failed = failed;
    }
}
