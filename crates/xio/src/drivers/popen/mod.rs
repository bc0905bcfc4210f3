//! `popen`: a transport to a program: what is written is its standard input, and what is read its
//! standard output, both one socket. Its standard error is the process's own. Its contact is the
//! program's absolute path.
//!
//! - Only a program that the attribute `allow` lists is started, and nothing else reads the contact:
//!   no shell and no search path. Who lets a peer choose contacts chooses himself what they can name.
//! - A program that fails is an error where the end is read, and of the close.
//! - A close tells the program the end of its input and waits until it has ended, leaving aside what
//!   it still says. One that has not ended when the close times out is killed, as it is when the
//!   handle is dropped.

mod flow;
#[cfg(test)]
mod tests;

use self::flow::PopenFlow;
use super::unix::path_of;
use crate::attributes::{AttributeInfo, Attributes, ValueKind};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind};
use crate::error::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use xdfs_io::stack::Flow;

/// The driver.
pub(super) struct Popen;

impl Driver for Popen {
    fn kind(&self) -> Kind {
        Kind::Transport
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        &[
            AttributeInfo {
                name: "allow",
                kind: ValueKind::Text,
                about: "Programs that may be started: absolute paths with ':' between them.",
            },
            AttributeInfo {
                name: "arguments",
                kind: ValueKind::Text,
                about: "The program's arguments, with blanks between them.",
            },
        ]
    }

    fn open(&self, _: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let program = path_of(contact)?;
        let allowed = attributes.text("allow").unwrap_or_default();
        if !program.is_absolute() || !allowed.split(':').any(|allowed| Path::new(allowed) == program) {
            let shown = program.display();
            let what =
                format!("the program '{shown}' is not one of those that 'allow' lists; add its absolute path there");
            return Err(Error::new(ErrorKind::Denied, what));
        }
        let (near, far) = UnixStream::pair()?;
        near.set_nonblocking(true)?;
        let output = far.try_clone()?;
        let arguments = attributes.text("arguments").unwrap_or_default().split_whitespace();
        let mut command = Command::new(&program);
        command.args(arguments).stdin(OwnedFd::from(far)).stdout(OwnedFd::from(output)).stderr(Stdio::inherit());
        let child = command.spawn().map_err(|error| {
            let what = format!(
                "the program '{}' cannot be started: {error}; a confined process can start none",
                program.display()
            );
            std::io::Error::new(error.kind(), what)
        })?;
        Ok(Box::new(PopenFlow::new(near, child)?))
    }
}
