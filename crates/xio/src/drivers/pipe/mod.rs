//! `pipe`: a transport to the process's standard input and output, or to named pipes and terminals.
//! Its contact is `-`.
//!
//! - Without attributes it reads standard input and writes standard output. With `input` or `output`
//!   it uses those, and has no other direction.
//! - Others may share the standard streams (a shell, a log): their flags are left as they are.
//! - A named pipe to write to is open when it has a reader, which is waited for; one to read from
//!   ends when the last writer has left, not before the first has come.
//! - Who reads standard output sees its end when the process ends.

mod ends;
mod flow;
#[cfg(test)]
mod tests;

use self::ends::{Input, Output};
use self::flow::PipeFlow;
use crate::attributes::{AttributeInfo, Attributes, ValueKind};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind};
use crate::error::{Error, ErrorKind, Result};
use xdfs_io::stack::Flow;

/// The contact.
const STANDARD: &str = "-";

/// The driver.
pub(super) struct Pipe;

impl Driver for Pipe {
    fn kind(&self) -> Kind {
        Kind::Transport
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        &[
            AttributeInfo { name: "input", kind: ValueKind::Text, about: "Read this named pipe or terminal." },
            AttributeInfo { name: "output", kind: ValueKind::Text, about: "Write this named pipe or terminal." },
        ]
    }

    fn open(&self, _: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        if contact.text() != STANDARD {
            let what = format!("the contact is '{STANDARD}', not '{}'", contact.shown().escape_debug());
            return Err(Error::new(ErrorKind::Contact, what));
        }
        let (input, output) = match (attributes.text("input"), attributes.text("output")) {
            (None, None) => (Some(Input::standard()?), Some(Output::standard()?)),
            (input, output) => (
                input.map(|path| Input::named(path.as_ref())).transpose()?,
                output.map(|path| Output::named(path.as_ref())),
            ),
        };
        Ok(Box::new(PipeFlow::new(input, output)))
    }
}
