//! Appends lines to a log, each in one call, and keeps track of what the log could not take.

use std::io::{ErrorKind, Result, Write};

/// What is still to be written to a log. Lines that it could not take are counted, not kept: it may
/// stay full for long.
#[derive(Debug, Default)]
pub(super) struct PendingLines {
    /// The end of a line whose start was written.
    rest: Vec<u8>,
    /// Number of lines of which nothing was written.
    lost: u64,
}

impl PendingLines {
    /// Writes a line, which ends with its line break, in one call; before it, the pending part, and
    /// the line of `told` with the number of lines that were lost. Returns false if the log took
    /// the line in parts: a reader that follows the log may have seen half of it.
    pub(super) fn write(&mut self, log: &mut impl Write, line: &[u8], told: impl Fn(u64) -> String) -> Result<bool> {
        self.catch_up(log, told).inspect_err(|_| self.lost += 1)?;
        self.append(log, line).inspect_err(|_| self.lost += u64::from(self.rest.is_empty()))
    }

    /// The log is another file from now on: a partial line stays in the old one.
    pub(super) fn reopened(&mut self) {
        if !std::mem::take(&mut self.rest).is_empty() {
            self.lost += 1;
        }
    }

    fn catch_up(&mut self, log: &mut impl Write, told: impl Fn(u64) -> String) -> Result<()> {
        let rest = std::mem::take(&mut self.rest);
        self.append(log, &rest).inspect_err(|_| {
            if self.rest.is_empty() {
                self.rest = rest;
            }
        })?;
        if self.lost > 0 {
            let appended = self.append(log, told(self.lost).as_bytes());
            if appended.is_ok() || !self.rest.is_empty() {
                self.lost = 0;
            }
            appended?;
        }
        Ok(())
    }

    /// Writes all of it, and returns whether that took one call. If it fails half way, the rest
    /// stays pending.
    fn append(&mut self, log: &mut impl Write, line: &[u8]) -> Result<bool> {
        let mut left = line;
        let mut calls = 0;
        while !left.is_empty() {
            match log.write(left) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(count) if count > 0 => {
                    left = left.get(count..).unwrap_or_default();
                    calls += 1;
                }
                failed => {
                    if left.len() < line.len() {
                        self.rest = left.to_vec();
                    }
                    return Err(failed.err().unwrap_or_else(|| ErrorKind::WriteZero.into()));
                }
            }
        }
        Ok(calls <= 1)
    }
}
