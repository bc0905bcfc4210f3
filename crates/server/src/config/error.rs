//! Errors of a configuration: what is wrong, where, and the remedy.

use std::fmt;
use std::path::{Path, PathBuf};

/// `FILE:LINE: what is wrong`, and what to do about it on a line that begins with `help: `.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    file: PathBuf,
    /// Counted from one; none if the error is about the whole file.
    line: Option<usize>,
    message: String,
}

impl ConfigError {
    pub(super) fn whole(file: &Path, message: String) -> Self {
        Self { file: file.to_owned(), line: None, message }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.display().to_string().escape_debug().fmt(f)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ConfigError {}

/// A file whose line numbers can be reported later, when its text was dropped.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ConfigFile(PathBuf);

impl ConfigFile {
    pub fn new(file: &Path) -> Self {
        Self(file.to_owned())
    }

    /// An error about a line.
    pub fn at(&self, line: usize, message: String) -> ConfigError {
        ConfigError { file: self.0.clone(), line: Some(line), message }
    }
}

/// The line of a byte of `text`.
pub(super) fn line_of(text: &str, byte: usize) -> usize {
    1 + text.as_bytes().iter().take(byte).filter(|byte| **byte == b'\n').count()
}
