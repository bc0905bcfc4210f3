//! `trace`: a transform that writes a line for each thing that happens at its place in a stack, and changes
//! nothing. The bytes themselves are not shown: they may be secret. Calls that were not ready leave no line,
//! and a line that cannot be written is left out.

mod flow;
#[cfg(test)]
mod tests;

use self::flow::{Lines, TraceFlow};
use crate::attributes::{AttributeInfo, Attributes, ValueKind};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener, Wrapping};
use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{Mode, OFlags};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use xdfs_io::stack::Flow;

/// The driver.
#[derive(Default)]
pub(super) struct Trace {
    /// How many elements there were: their lines begin with their numbers.
    elements: Arc<AtomicU64>,
}

impl Driver for Trace {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        const ABOUT: &str = "File that the lines are appended to; without it standard error.";
        &[AttributeInfo { name: "file", kind: ValueKind::Text, about: ABOUT }]
    }

    fn open(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let lines = lines(attributes)?;
        let number = self.elements.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(TraceFlow::new(below.open(contact)?, lines, number)))
    }

    fn listen(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        let (lines, elements) = (lines(attributes)?, self.elements.clone());
        let wrap = move |below| {
            let number = elements.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(TraceFlow::new(below, lines.clone(), number)) as Box<dyn Flow>)
        };
        Ok(Box::new(Wrapping::new(below.listen(contact)?, wrap)))
    }
}

/// Where the lines go.
fn lines(attributes: &Attributes) -> Result<Lines> {
    let Some(path) = attributes.text("file") else { return Ok(Lines::StandardError) };
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
    opened.map(|file| Lines::File(Arc::new(file))).map_err(|error| {
        Error::new(ErrorKind::Other, format!("the file '{}' cannot be written: {error}", path.escape_debug()))
    })
}
