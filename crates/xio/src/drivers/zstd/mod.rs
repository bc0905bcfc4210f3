//! `zstd`: a transform that compresses what is written and decompresses what is read, as `zstd` does
//! with files.
//!
//! - Every write is flushed, so that the peer can read it at once; large writes compress better.
//! - A close ends the frame. An end without it is an error: something was cut off. Frames may follow
//!   each other, and one that was never begun is not ended.
//! - Each frame has a checksum. What is read needs no more memory than 8 MiB of history, whatever the
//!   peer says; `zstd` exceeds that with `--ultra` and `--long` alone.

mod flow;
#[cfg(test)]
mod tests;

use self::flow::ZstdFlow;
use crate::attributes::{AttributeInfo, Attributes, ValueKind};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener, Wrapping};
use crate::error::{Error, ErrorKind, Result};
use xdfs_io::stack::Flow;

/// The level, unless told otherwise: that of `zstd`.
const LEVEL: i32 = 3;
/// The highest one that needs no more history than is allowed.
const LEVEL_MAX: u64 = 19;

/// The driver.
pub(super) struct Zstd;

impl Driver for Zstd {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        &[AttributeInfo { name: "level", kind: ValueKind::Number, about: "From 1 (fast) to 19 (small); without it 3." }]
    }

    fn open(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let level = level(attributes)?;
        Ok(Box::new(ZstdFlow::new(below.open(contact)?, level)?))
    }

    fn listen(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        let level = level(attributes)?;
        let wrap = move |below| Ok(Box::new(ZstdFlow::new(below, level)?) as Box<dyn Flow>);
        Ok(Box::new(Wrapping::new(below.listen(contact)?, wrap)))
    }
}

fn level(attributes: &Attributes) -> Result<i32> {
    let Some(level) = attributes.number("level") else { return Ok(LEVEL) };
    let valid = i32::try_from(level).ok().filter(|_| (1..=LEVEL_MAX).contains(&level));
    valid.ok_or_else(|| Error::new(ErrorKind::Usage, format!("the level is from 1 to {LEVEL_MAX}, not {level}")))
}
